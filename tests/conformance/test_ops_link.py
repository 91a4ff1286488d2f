# SPDX-License-Identifier: GPL-3.0-or-later
"""LINK by clients, on objects in every state."""
import pytest

from lib.case import BLOCK, DIRS, SIZE
from lib.expect import same, status_of, view
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import BLK, CHR, FIFO, SOCK

ATTR_CACHE = 0


def test_link(case, client, place):
    """One object, one more name; only the count and the change time move."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(place, "now", "later")
    for name in ("now", "later"):
        fh, above = client.fh(case.path(name)), client.getattr(case.path())
        before = view(client.getattr(fh))
        client.link(fh, case.path("x-" + name))
        case.linked("x-" + name, name)
        after = view(client.getattr(fh))
        assert (before["nlink"], after["nlink"]) == (1, 2)
        assert after["ctime"] > before["ctime"]
        assert client.proto == "v3" or after["change"] > before["change"]
        assert {k for k in before if before[k] != after[k]} <= {"nlink", "ctime", "change"}
        assert client.lookup(case.path("x-" + name))[0] == fh
        assert client.getattr(case.path()).mtime > above.mtime
    assert client.names(case.path()) == [b"later", b"now", b"x-later", b"x-now"]
    same(client.read_file(case.path("x-now")), case.data("now"))


def test_as_the_first_call_on_a_dummy(case, client):
    """By a handle from before: the old server's attributes come under the new count."""
    case.file()
    case.enter("partial", "f")
    fh = client.fh(case.path("f"))
    case.enter("dummy", "f")
    client.link(fh, case.path("g"))
    case.linked("g", "f")
    attrs, node = client.getattr(fh), case.node("f")
    assert (attrs.nlink, attrs.size, attrs.mode, attrs.mtime) == (
        2, SIZE, node.mode, node.mtime)
    assert attrs.ctime > node.ctime
    same(client.read_file(case.path("g")), case.data("f"))


@pytest.mark.parametrize("to", DIRS)
@pytest.mark.parametrize("frm", ["partial", "looked", "normal"])
def test_into_another_directory(case, client, frm, to):
    case.dir("from")
    case.dir("to")
    case.file("to/there", size=10)
    for name in ("now", "later"):
        case.file("from/" + name)
    case.enter(frm, "from/now", "from/later")
    target = case.enter_dir(to, "to")
    for name in ("now", "later"):
        client.link(case.path("from/" + name), target + "/" + name)
        case.linked("to/" + name, "from/" + name)
        assert client.getattr(target + "/" + name).nlink == 2
    same(client.read_file(target + "/now"), case.data("from/now"))
    case.world.audit()           # while the directories are what they are
    assert client.names(target) == [b"later", b"now", b"there"]
    assert client.names(case.path("from")) == [b"later", b"now"]


def test_then_remove_the_old_name(case, client, place):
    for name in ("now", "later"):
        case.file(name)
    case.enter(place, "now", "later")
    for name in ("now", "later"):
        client.link(case.path(name), case.path("x-" + name))
        case.linked("x-" + name, name)
        client.remove(case.path(name))
        case.gone(name)
        assert client.getattr(case.path("x-" + name)).nlink == 1
    same(client.read_file(case.path("x-now")), case.data("x-now"))
    assert client.names(case.path()) == [b"x-later", b"x-now"]


def test_then_write_by_one_name(case, client, place):
    case.file()
    case.enter(place, "f")
    client.link(case.path("f"), case.path("g"))
    case.linked("g", "f")
    client.write(case.path("f"), 10, b"by the first")
    client.write(case.path("g"), 2 * BLOCK, b"by the second")
    client.setattr(case.path("g"), size=4 * BLOCK)
    case.write("f", 10, b"by the first")
    case.write("f", 2 * BLOCK, b"by the second")
    case.resize("f", 4 * BLOCK)
    for name in "fg":
        same(client.read_file(case.path(name)), case.data("f"))


@pytest.mark.parametrize("target", ["normal", "partial", "dummy", "looked", "cold", "dir"])
@pytest.mark.parametrize("stub", ["partial", "looked"])
def test_where_the_source_has_the_name(case, client, stub, target):
    case.file()
    case.dir("to")
    case.file("to/x", size=10) if target != "dir" else case.dir("to/x")
    case.enter(stub, "f")
    if target != "dir":
        case.enter(target, "to/x")
    before = client.getattr(case.path("f"))
    assert status_of(client.link, case.path("f"), case.path("to/x")) == errors.EXIST
    after = client.getattr(case.path("f"))
    assert (after.nlink, after.mtime) == (1, before.mtime)
    assert client.names(case.path("to")) == [b"x"]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "socket", "char", "block", "empty"])
@pytest.mark.parametrize("where", ["listed", "looked", "cold"])
def test_other_types(case, client, kind, where):
    if kind == "symlink":
        case.symlink("x", "some/where")
    elif kind == "empty":
        case.file("x", size=0)
    else:
        ftype = {"fifo": FIFO, "socket": SOCK, "char": CHR, "block": BLK}[kind]
        case.special("x", ftype, (1, 3) if ftype in (CHR, BLK) else (0, 0))
    if where != "cold":
        case.list() if where == "listed" else case.reach("x")
    before = client.getattr(case.path("x"))
    client.link(case.path("x"), case.path("y"))
    case.linked("y", "x")
    after = client.getattr(case.path("y"))
    assert (after.fileid, after.type, after.nlink) == (before.fileid, before.type, 2)
    assert (after.mode, after.mtime, after.rdev) == (before.mode, before.mtime, before.rdev)
    if kind == "symlink":
        assert client.readlink(case.path("y")) == b"some/where"


@pytest.mark.parametrize("where", DIRS)
def test_of_a_directory(case, client, where):
    case.dir("d")
    path = case.enter_dir(where, "d")
    assert status_of(client.link, path, case.path("x")) in (
        errors.ISDIR, errors.INVAL, errors.PERM, errors.NOTDIR, errors.BADTYPE)
    assert client.names(case.path()) == [b"d"]


def test_into_a_file(case, client):
    for name in "fg":
        case.file(name)
    case.enter("partial", "f", "g")
    assert status_of(client.link, case.path("f"), (client.fh(case.path("g")), b"x")) == \
        errors.NOTDIR


def test_many_names(case, client, place):
    case.file()
    case.dir("to")
    case.enter(place, "f")
    fh, to = client.fh(case.path("f")), client.fh(case.path("to"))
    for i in range(40):
        client.link(fh, (to, b"n%02d" % i))
        case.linked("to/n%02d" % i, "f")
        assert client.getattr(fh).nlink == i + 2
    for i in range(0, 40, 2):
        client.remove((to, b"n%02d" % i))
        case.gone("to/n%02d" % i)
    assert client.getattr(fh).nlink == 21
    client.remove(case.path("f"))
    case.gone("f")
    same(client.read_file(case.path("to/n39")), case.data("to/n39"))


def test_rename_onto_the_other_name(case, client, place):
    """Two names of one object: nothing happens."""
    case.file()
    case.enter(place, "f")
    client.link(case.path("f"), case.path("g"))
    case.linked("g", "f")
    client.rename(case.path("f"), case.path("g"))
    assert client.names(case.path()) == [b"f", b"g"]
    assert client.getattr(case.path("f")).nlink == 2


def test_rename_over_one_of_two_names(case, client, place):
    for name in "fo":
        case.file(name)
    case.enter(place, "f", "o")
    client.link(case.path("f"), case.path("g"))
    case.linked("g", "f")
    client.rename(case.path("o"), case.path("f"))
    case.moved("o", "f")
    assert [client.getattr(case.path(n)).nlink for n in "fg"] == [1, 1]
    same(client.read_file(case.path("g")), case.data("g"))
    same(client.read_file(case.path("f")), case.data("f"))


def test_link_an_open_removed_file(case, client4, place):
    """The last name is gone: no name can be made of the open one, and none is."""
    case.file()
    case.enter(place, "f")
    f = client4.open(case.path("f"))
    client4.remove(case.path("f"))
    case.gone("f")
    assert status_of(client4.link, f.fh, case.path("g")) in (
        errors.STALE, errors.NOENT, errors.FHEXPIRED)
    client4.close_file(f)
    assert client4.names(case.path()) == []


def test_while_it_is_filled(case, client, world):
    case.file()
    case.enter("partial", "f")
    fh, node, gate = client.fh(case.path("f")), case.node("f"), Gate()
    world.fake.hook("READ", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client.patient(0).read, fh, 0, 100) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a READ at the old server")
        client.patient(0).link(fh, case.path("g"))
        assert client.getattr(fh).nlink == 2
    finally:
        gate.open()
    case.linked("g", "f")
    same(client.read_file(case.path("g")), case.data("f"))
    assert client.getattr(fh).nlink == 2


def test_while_the_old_server_is_gone(case, client, world):
    for d in ("listed", "unlisted"):
        case.dir(d)
        case.file(d + "/f", size=10)
        case.reach(d + "/f")
    case.list("listed")
    fhs = {d: client.fh(case.path(d)) for d in ("listed", "unlisted")}
    files = {d: client.fh(case.path(d + "/f")) for d in fhs}
    world.fake.pause()
    hasty = client.patient(0)
    hasty.link(files["listed"], (fhs["listed"], b"x"))
    hasty.link(files["unlisted"], (fhs["listed"], b"y"))
    assert status_of(hasty.link, files["listed"], (fhs["unlisted"], b"x")) == errors.DELAY
    assert hasty.getattr(files["listed"]).nlink == 2
    world.fake.resume()
    case.linked("listed/x", "listed/f")
    case.linked("listed/y", "unlisted/f")
    assert client.names(fhs["unlisted"]) == [b"f"]
