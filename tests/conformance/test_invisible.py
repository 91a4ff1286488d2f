# SPDX-License-Identifier: GPL-3.0-or-later
"""Filling is invisible (docs/design.md, invariant 8), whoever fills: nothing but change time and
NFS change attribute moves, each once and forward, when an object is complete
(docs/decisions/0005)."""
import contextlib
import os
import subprocess

import pytest

from lib.case import BLOCK, OLD, SIZE
from lib.expect import same, view
from lib.programs import STUBTOOL
from lib.wait import wait_until
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import BLK, FIFO

ATTR_CACHE = 0
MOVES = ("ctime", "change")          # at completion, forward
KINDS = ("file", "empty", "dir", "link", "hard", "fifo", "block")


def tree(case):
    """One of each kind in a directory, and what they are called."""
    case.dir("d", mode=0o2751)
    case.file("d/file", mode=0o4751), case.file("d/empty", size=0)
    case.dir("d/dir"), case.file("d/dir/below", size=100)
    case.symlink("d/link", b"where/ever")
    case.file("d/hard", size=2 * BLOCK), case.hardlink("d/twin", "d/hard")
    case.special("d/fifo", FIFO), case.special("d/block", BLK, (7, 3))


def views(client, case):
    names = ["d"] + ["d/" + kind for kind in KINDS]
    return {name: view(client.getattr(case.path(name))) for name in names}


def check_moved(before, after, what):
    """Only what may move has, and forward; a directory's size is the local one."""
    for key in before:
        if key in MOVES:
            assert after[key] is None or after[key] >= before[key], (what, key)
        elif not (key == "size" and before["type"] == 2):
            assert after[key] == before[key], (what, key)


def complete(case):
    """Everything below, as the crawler asks for it."""
    for name in ("d", "d/dir", "d/file", "d/dir/below", "d/hard"):
        case.world.stubtool("ask", case.path(name), "fill")
    case.finished("d/file"), case.finished("d/dir"), case.finished("d/dir/below")


@pytest.fixture
def looked_up(case, client):
    """Seen by a client one by one, nothing listed below the test's own directory."""
    tree(case)
    return views(client, case)


def test_before_anything_is_filled(case, client, looked_up):
    for name, seen in looked_up.items():
        node = case.node(name)
        # what needs nothing is complete at once, with a change time of its own
        stub = name in ("d", "d/dir", "d/file", "d/hard")
        for key in ("mode", "uid", "gid", "nlink", "mtime") + ("ctime",) * stub:
            assert seen[key] == getattr(node, key), (name, key)


def test_listing_and_filling(case, client, looked_up):
    complete(case)
    for name, after in views(client, case).items():
        check_moved(looked_up[name], after, name)


def test_change_moves_once(case, client, looked_up):
    """However often one looks on the way, there are two values, not more."""
    seen = {name: [v] for name, v in looked_up.items()}

    def look():
        for name, v in views(client, case).items():
            if v != seen[name][-1]:
                seen[name].append(v)
    for name, ask in (("d", ["list"]), ("d/dir", ["list"]),
                      ("d/file", ["data", "0", "10"]), ("d/file", ["data", str(3 * BLOCK), "10"]),
                      ("d/hard", ["data", "0", "10"]), ("d/file", ["fill"]), ("d/hard", ["fill"])):
        case.world.stubtool("ask", case.path(name), *ask)
        look()
    complete(case)
    look()
    for name, values in seen.items():
        assert len({(v["ctime"], v["change"], v["size"]) for v in values}) <= 2, (name, values)
        for a, b in zip(values, values[1:]):
            check_moved(a, b, name)


def test_a_client_that_lists_moves_no_mtime(case, client, looked_up):
    assert len(client.names(case.path("d"))) == 8
    for name, after in views(client, case).items():
        check_moved(looked_up[name], after, name)
    assert not case.show("d")["stub"]


def test_attributes_of_a_listing_are_the_shown_ones(case, client):
    tree(case)
    entries = {e.name.decode(): e.attrs for e in client.listdir(case.path("d"))}
    for kind in KINDS:
        node = case.node("d/" + kind)
        for key in ("mode", "uid", "gid", "nlink", "mtime"):
            assert getattr(entries[kind], key) == getattr(node, key), (kind, key)


# -- access times: that of the source, until a client reads --------------------------

def local_atimes(case, *names):
    return [os.lstat(case.world.volume / case.path(n)).st_atime_ns for n in names]


def test_atime_after_listing_and_filling(case):
    """By others than clients; also of a directory that look-ups made names in."""
    tree(case)
    names = ("d", "d/dir", "d/file", "d/hard", "d/link", "d/fifo", "d/dir/below")
    case.reach("d/dir/below"), case.reach("d/file")
    complete(case)
    assert local_atimes(case, *names) == [case.node(n).atime for n in names]


def test_atime_after_a_scan(case, world):
    tree(case)
    names = ("d", "d/dir", "d/file", "d/link")
    case.list("d"), case.list("d/dir")
    world.m.scan()
    assert local_atimes(case, *names) == [case.node(n).atime for n in names]


# -- what a client changes while something is on its way ------------------------------

@contextlib.contextmanager
def held(case, proc, name, *ask):
    """The old server's answers about an object wait until the block ends."""
    world, node, gate = case.world, case.node(name), Gate()
    world.fake.hook(proc, only(lambda call: call.node is node, gate))
    asking = subprocess.Popen([str(STUBTOOL), "ask", str(world.volume), case.path(name), *ask])
    try:
        wait_until(lambda: gate.waiting, 60, "%s held" % proc)
        yield
        assert gate.passed == 0
    finally:
        gate.open()
        assert asking.wait(60) == 0
        world.fake.clear_hooks()


def test_attributes_set_during_a_fill(case, client):
    case.file()
    case.enter("partial", "f")
    client.lookup(case.path("f"))
    with held(case, "READ", "f", "fill"):
        client.setattr(case.path("f"), mode=0o4711)
        client.setattr(case.path("f"), uid=4711, gid=4712)
        client.setattr(case.path("f"), mtime=OLD + 77, atime=OLD + 78)
        before = view(client.getattr(case.path("f")))
    case.finished("f")
    item = case.items["f"]
    item.uid, item.gid, item.mtime, item.mode = 4711, 4712, OLD + 77, before["mode"]
    after = client.getattr(case.path("f"))
    check_moved(before, view(after), "f")
    assert (after.mtime, after.atime) == (OLD + 77, OLD + 78)


def test_mtime_of_a_write_during_a_fill(case, client):
    case.file()
    case.enter("partial", "f")
    client.lookup(case.path("f"))
    with held(case, "READ", "f", "fill"):
        client.write(case.path("f"), 100, b"mine")
        before = view(client.getattr(case.path("f")))
    case.finished("f")
    case.write("f", 100, b"mine")
    check_moved(before, view(client.getattr(case.path("f"))), "f")
    same(client.read_file(case.path("f")), case.data("f"))


def test_mtime_of_a_directory_changed_during_its_listing(case, client):
    """Made in it while it was listed: the client's mtime stays, and its names."""
    case.dir("d")
    for i in range(5):
        case.file("d/f%d" % i, size=10)
    case.reach("d")
    client.lookup(case.path("d"))
    with held(case, "READDIRPLUS", "d", "list"):
        client.mkdir(case.path("d/new"))
        before = view(client.getattr(case.path("d")))
        assert before["mtime"] > case.node("d").mtime
    case.made("d/new", 2)
    after = view(client.getattr(case.path("d")))
    check_moved(before, after, "d")
    assert len(client.names(case.path("d"))) == 6


def test_mtime_set_on_a_directory_during_its_listing(case, client):
    case.dir("d")
    case.file("d/f", size=SIZE)
    case.reach("d")
    client.lookup(case.path("d"))
    with held(case, "READDIRPLUS", "d", "list"):
        client.setattr(case.path("d"), mtime=OLD + 99)
    assert client.getattr(case.path("d")).mtime == OLD + 99
    case.items["d"].mtime = OLD + 99
