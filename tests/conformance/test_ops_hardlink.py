# SPDX-License-Identifier: GPL-3.0-or-later
"""Inodes that have several names at the old server: one inode here too, whenever and
in whatever order its names arrive, and whatever clients do to some of them before.

What clients see as link count is the old server's and their own changes.
"""
import os
import threading

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import BLK, CHR, FIFO, SOCK

ATTR_CACHE = 0
WHERE = "abc"
NAMES = ["a/x", "b/y", "c/z"]


@pytest.fixture
def linked(case):
    """One file called a/x, b/y, c/z; a file of its own in each directory."""
    for d in WHERE:
        case.dir(d)
        case.file(d + "/own", size=100)
    case.file(NAMES[0])
    for name in NAMES[1:]:
        case.hardlink(name, NAMES[0])
    return case


def provisional(case, name):
    """The provisional file of the inode called name; None when it is gone."""
    found = {os.stat(e.path, follow_symlinks=False).st_ino: e.name
             for e in os.scandir(case.world.volume / ".postcopy/provisional")}
    return found.get(os.lstat(case.world.volume / case.path(name)).st_ino)


def appear(case, client, how, name):
    """A name becomes known, by a look-up or with its whole directory."""
    if how == "list":
        client.names(case.path(name.rpartition("/")[0]))
    return client.lookup(case.path(name))


# -- names arrive -------------------------------------------------------------------

@pytest.mark.parametrize("order", ["abc", "bca", "cab"])
@pytest.mark.parametrize("how", ["list", "lookup"])
def test_names_arrive_one_by_one(linked, client, how, order):
    seen = set()
    for d in order:
        name = NAMES["abc".index(d)]
        fh, attrs = appear(linked, client, how, name)
        seen.add((bytes(fh), attrs.fileid))
        assert (attrs.nlink, attrs.size, attrs.mtime) == (3, SIZE, linked.node(name).mtime)
        assert provisional(linked, name)
    assert len(seen) == 1
    for name in NAMES:
        same(client.read_file(linked.path(name)), linked.data(NAMES[0]))
        assert client.getattr(linked.path(name)).nlink == 3


@pytest.mark.parametrize("how", ["list", "lookup"])
def test_bytes_that_came_by_one_name(linked, client, world, how):
    """What one name has fetched nobody fetches again by the others."""
    appear(linked, client, how, NAMES[0])
    same(client.read_file(linked.path(NAMES[0])), linked.data(NAMES[0]))
    reads = len(world.calls("READ", linked.node(NAMES[0])))
    for name in NAMES[1:]:
        appear(linked, client, how, name)
        same(client.read_file(linked.path(name)), linked.data(NAMES[0]))
    assert len(world.calls("READ", linked.node(NAMES[0]))) == reads > 0


@pytest.mark.parametrize("how", ["list", "lookup"])
def test_what_was_written_by_one_name(linked, client, how):
    fh, _ = appear(linked, client, how, NAMES[1])
    client.write(fh, 2 * BLOCK + 5, b"written early")
    client.setattr(fh, mode=0o4700, size=4 * BLOCK)
    linked.write(NAMES[0], 2 * BLOCK + 5, b"written early")
    linked.resize(NAMES[0], 4 * BLOCK)
    linked.items[NAMES[0]].mode = 0o4700
    fh, attrs = appear(linked, client, how, NAMES[2])
    assert (attrs.size, attrs.mode, attrs.nlink) == (4 * BLOCK, 0o4700, 3)
    same(client.read_file(fh), linked.data(NAMES[0]))


def test_truncated_to_nothing_by_one_name(linked, client, world):
    """Needs no byte any more, but its names still come to it."""
    client.setattr(linked.path(NAMES[0]), size=0)
    linked.resize(NAMES[0], 0)
    node = linked.node(NAMES[0])
    for name in NAMES:
        assert client.getattr(linked.path(name)).size == 0
        assert client.getattr(linked.path(name)).nlink == 3
    assert world.calls("READ", node) == []


def test_all_in_one_directory(case, client):
    case.dir("d")
    case.file("d/n0")
    for i in range(1, 20):
        case.hardlink("d/n%d" % i, "d/n0")
    client.lookup(case.path("d/n7"))
    found = client.listdir(case.path("d"))
    assert len(found) == 20 and len({e.fileid for e in found}) == 1
    assert {e.attrs.nlink for e in found} == {20}
    same(client.read_file(case.path("d/n3")), case.data("d/n0"))


@pytest.mark.parametrize("kind", ["symlink", "fifo", "socket", "char", "block", "empty"])
@pytest.mark.parametrize("how", ["list", "lookup"])
def test_other_types(case, client, kind, how):
    for d in WHERE:
        case.dir(d)
    if kind == "symlink":
        case.symlink(NAMES[0], "some/where")
    elif kind == "empty":
        case.file(NAMES[0], size=0)
    else:
        ftype = {"fifo": FIFO, "socket": SOCK, "char": CHR, "block": BLK}[kind]
        case.special(NAMES[0], ftype, (1, 3) if ftype in (CHR, BLK) else (0, 0))
    for name in NAMES[1:]:
        case.hardlink(name, NAMES[0])
    node = case.node(NAMES[0])
    ids = set()
    for name in NAMES[:2]:                  # the third is the crawl's
        attrs = appear(case, client, how, name)[1]
        assert (attrs.type, attrs.nlink, attrs.mode, attrs.mtime, attrs.rdev) == (
            node.type, 3, node.mode, node.mtime, node.rdev)
        ids.add(attrs.fileid)
    assert len(ids) == 1
    client.remove(case.path(NAMES[0]))
    case.gone(NAMES[0])
    assert client.getattr(case.path(NAMES[1])).nlink == 2
    if kind == "symlink":
        assert client.readlink(case.path(NAMES[1])) == b"some/where"


# -- the provisional file -------------------------------------------------------------

@pytest.mark.parametrize("filled", ["before", "after"])
def test_goes_when_all_names_are_there(linked, client, filled):
    """Nothing else needs to be listed for that."""
    if filled == "before":
        linked.list("a")
        linked.world.stubtool("ask", linked.path(NAMES[0]), "fill")
        linked.world.settle()
        assert linked.show(NAMES[0])["needs"] == ["names"]
        assert provisional(linked, NAMES[0])
    for d in WHERE:
        linked.list(d)
    linked.world.stubtool("ask", linked.path(NAMES[2]), "fill")
    linked.finished(NAMES[1])
    assert provisional(linked, NAMES[0]) is None
    assert [client.getattr(linked.path(n)).nlink for n in NAMES] == [3, 3, 3]


def test_goes_though_clients_took_and_added_names(linked, client):
    linked.list("a")
    client.link(linked.path(NAMES[0]), linked.path("extra"))
    linked.linked("extra", NAMES[0])
    client.remove(linked.path(NAMES[0]))
    linked.gone(NAMES[0])
    linked.list("b")
    linked.world.stubtool("ask", linked.path(NAMES[1]), "fill")
    linked.world.settle()
    assert provisional(linked, NAMES[1])
    linked.list("c")
    linked.world.stubtool("ask", linked.path(NAMES[1]), "fill")
    linked.finished(NAMES[1])
    assert provisional(linked, NAMES[1]) is None
    assert client.getattr(linked.path("extra")).nlink == 3


@pytest.mark.parametrize("filled", [True, False])
def test_all_names_come_and_go(linked, client, filled):
    """What is left is a provisional file for nobody: the crawl takes it away."""
    for d in WHERE:
        linked.list(d)
    if filled:
        client.read_file(linked.path(NAMES[0]))
    for name in NAMES:
        client.remove(linked.path(name))
        linked.gone(name)
    assert [client.names(linked.path(d)) for d in WHERE] == [[b"own"]] * 3


# -- clients change names before others appear ------------------------------------------

@pytest.mark.parametrize("how", ["list", "lookup"])
@pytest.mark.parametrize("read", [True, False])
def test_removed_before_others_appear(linked, client, how, read):
    """The last name that is known goes; the others still come, with the right bytes."""
    fh, _ = appear(linked, client, how, NAMES[0])
    if read:
        client.read(fh, 0, SIZE)
    client.remove(linked.path(NAMES[0]))
    linked.gone(NAMES[0])
    assert not client.exists(linked.path(NAMES[0]))
    linked.world.audit()
    for name in NAMES[1:]:
        attrs = appear(linked, client, how, name)[1]
        assert (attrs.nlink, attrs.size) == (2, SIZE)
    same(client.read_file(linked.path(NAMES[1])), linked.data(NAMES[1]))
    assert client.names(linked.path("a")) == [b"own"]


def test_written_then_removed_before_others_appear(linked, client):
    client.write(linked.path(NAMES[0]), BLOCK - 5, b"kept by the others")
    linked.write(NAMES[0], BLOCK - 5, b"kept by the others")
    client.remove(linked.path(NAMES[0]))
    linked.gone(NAMES[0])
    same(client.read_file(linked.path(NAMES[1])), linked.data(NAMES[1]))
    assert client.getattr(linked.path(NAMES[2])).nlink == 2


def test_removed_then_created_before_others_appear(linked, client):
    """The new file is another one, with one name."""
    client.remove(linked.path(NAMES[0]))
    linked.gone(NAMES[0])
    client.write_file(linked.path(NAMES[0]), b"new")
    linked.made(NAMES[0], data=b"new", mode=0o644)
    assert client.getattr(linked.path(NAMES[0])).nlink == 1
    for name in NAMES[1:]:
        assert client.getattr(linked.path(name)).nlink == 2
        same(client.read_file(linked.path(name)), linked.data(name))


@pytest.mark.parametrize("to", ["same", "other", "unlisted"])
def test_renamed_before_others_appear(linked, client, to):
    target = {"same": "a/moved", "other": "b/moved", "unlisted": "u/moved"}[to]
    if to == "unlisted":
        linked.dir("u")
        linked.file("u/own", size=10)
    client.rename(linked.path(NAMES[0]), linked.path(target))
    linked.moved(NAMES[0], target)
    fileid = client.getattr(linked.path(target)).fileid
    for name in [target] + NAMES[1:]:
        attrs = client.getattr(linked.path(name))
        assert (attrs.nlink, attrs.fileid) == (3, fileid)
    same(client.read_file(linked.path(NAMES[1])), linked.data(target))
    assert client.names(linked.path("a")) == ([b"moved"] if to == "same" else []) + [b"own"]


@pytest.mark.parametrize("target", ["listed", "looked", "cold"])
def test_renamed_onto_another_of_its_names(linked, client, target):
    """Nothing happens, also when the other name was not known here before."""
    if target == "listed":
        linked.list("b")
    elif target == "looked":
        linked.reach(NAMES[1])
    client.rename(linked.path(NAMES[0]), linked.path(NAMES[1]))
    for name in NAMES:
        assert client.getattr(linked.path(name)).nlink == 3
    assert client.names(linked.path("a")) == [b"own", b"x"]
    assert client.names(linked.path("b")) == [b"own", b"y"]


@pytest.mark.parametrize("target", ["listed", "looked", "cold"])
def test_replaced_before_others_appear(linked, client, target):
    """Another file is renamed over one of the names."""
    if target == "listed":
        linked.list("b")
    elif target == "looked":
        linked.reach(NAMES[1])
    client.rename(linked.path("a/own"), linked.path(NAMES[1]))
    linked.moved("a/own", NAMES[1])
    assert client.getattr(linked.path(NAMES[1])).nlink == 1
    for name in (NAMES[0], NAMES[2]):
        assert client.getattr(linked.path(name)).nlink == 2
        same(client.read_file(linked.path(name)), linked.data(NAMES[0]))
    same(client.read_file(linked.path(NAMES[1])), linked.data(NAMES[1]))


@pytest.mark.parametrize("how", ["list", "lookup"])
def test_linked_further_before_others_appear(linked, client, how):
    fh, _ = appear(linked, client, how, NAMES[0])
    for i, name in enumerate(["extra", "b/extra", "c/extra"]):
        client.link(fh, linked.path(name))
        linked.linked(name, NAMES[0])
        assert client.getattr(fh).nlink == 4 + i
    assert appear(linked, client, how, NAMES[2])[1].nlink == 6
    client.remove(linked.path(NAMES[0]))
    linked.gone(NAMES[0])
    assert appear(linked, client, how, NAMES[1])[1].nlink == 5
    same(client.read_file(linked.path("extra")), linked.data("extra"))


def test_link_to_the_name_it_has_at_the_source(linked, client):
    """EEXIST: b/y is there, though nobody has looked."""
    fh = client.fh(linked.path(NAMES[0]))
    assert status_of(client.link, fh, linked.path(NAMES[1])) == errors.EXIST
    assert client.getattr(fh).nlink == 3


def test_open_and_removed_by_all_names(linked, client4):
    f = client4.open(linked.path(NAMES[0]), write=True)
    data = linked.data(NAMES[0])
    for name in NAMES:
        client4.remove(linked.path(name))
        linked.gone(name)
    client4.write(f, 100, b"still mine")
    same(client4.read(f, 0, SIZE)[0], data[:100] + b"still mine" + data[110:])
    client4.close_file(f)


def test_the_directory_goes_with_its_name(linked, client):
    """a is removed with a/x in it; the others are whole."""
    for name in ("a/own", NAMES[0]):
        client.remove(linked.path(name))
        linked.gone(name)
    client.rmdir(linked.path("a"))
    linked.gone("a")
    attrs = client.getattr(linked.path(NAMES[2]))
    assert attrs.nlink == 2
    same(client.read_file(linked.path(NAMES[2])), linked.data(NAMES[2]))


def test_an_unlisted_directory_with_a_name_moves(linked, client):
    client.lookup(linked.path(NAMES[0]))
    client.rename(linked.path("b"), linked.path("c/b"))
    linked.moved("b", "c/b")
    attrs = client.getattr(linked.path("c/b/y"))
    assert attrs.nlink == 3 and attrs.fileid == client.getattr(linked.path(NAMES[0])).fileid


# -- two at the same time ----------------------------------------------------------------

def test_removed_while_another_file_takes_the_name(linked, client, world):
    """REMOVE of a/x waits for the listing of a; meanwhile another file is renamed over
    a/x.  That took the name from the inode, so the removal takes none."""
    linked.dir("from")
    linked.file("from/g", size=10)
    linked.list("from")
    linked.reach(NAMES[0])
    fhs = {d: client.fh(linked.path(d)) for d in ("a", "from")}
    gate, node = Gate(), linked.node("a")
    world.fake.hook("READDIRPLUS", only(lambda c: c.node is node, gate))
    with world.client(client.proto) as other:
        remover = threading.Thread(target=other.remove, args=((fhs["a"], b"x"),))
        remover.start()
        try:
            wait_until(lambda: gate.waiting, 60, "a listing at the old server")
            client.rename((fhs["from"], b"g"), (fhs["a"], b"x"))
            linked.moved("from/g", NAMES[0])
        finally:
            gate.open()
            remover.join(60)
    linked.gone(NAMES[0])
    assert client.names(fhs["a"]) == [b"own"]
    for name in NAMES[1:]:
        assert client.getattr(linked.path(name)).nlink == 2


def test_looked_up_while_all_is_finished(linked, client, world):
    """The old server's answer to a LOOKUP is late.  By then the inode is complete and
    the name was removed by a client: nothing comes of the answer."""
    before = set(os.listdir(world.volume / ".postcopy/provisional"))
    fh, node, gate = client.fh(linked.path("b")), linked.node("b"), Gate()
    world.fake.hook("LOOKUP", only(lambda c: c.node is node and c.name == b"y", gate))
    try:
        assert status_of(client.patient(0).lookup, (fh, b"y")) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a LOOKUP at the old server")
        for d in WHERE:
            linked.list(d)
        world.stubtool("ask", linked.path(NAMES[0]), "fill")
        linked.finished(NAMES[0])
        client.remove((fh, b"y"))
        linked.gone(NAMES[1])
        assert gate.waiting
    finally:
        gate.open()
    world.settle()
    assert status_of(client.lookup, (fh, b"y")) == errors.NOENT
    assert set(os.listdir(world.volume / ".postcopy/provisional")) <= before


# -- names that never come ------------------------------------------------------------

def test_names_outside_of_the_export(case, client):
    """The old server counts a name that we cannot see; in the end only ours count."""
    case.file("f")
    case.hardlink("g", "f")
    case.node("f").claim(nlink=5)
    assert client.getattr(case.path("f")).nlink == 5
    same(client.read_file(case.path("g")), case.data("f"))
    client.remove(case.path("g"))
    case.gone("g")
    assert client.getattr(case.path("f")).nlink == 4
