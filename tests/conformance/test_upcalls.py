# SPDX-License-Identifier: GPL-3.0-or-later
"""Ganesha's own cache of attributes (here as it is by default: a minute) and what other
processes do to the volume and tell of: clients see it at once (docs/decisions/0012).

The neighbour (tests/tools/neighbour.c) changes files as Samba does for its clients.
"""
import contextlib
import os
import pathlib
import subprocess
import threading
import time

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, status_of
from lib.programs import BUILD
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

NEIGHBOUR = BUILD / "tests" / "tools" / "neighbour"
PATIENCE = 30.0        # on a busy machine; untold, it would be a minute
SOON = 0.5             # no attributes of a stub expire within that
TRIES = 6              # of which one must be that fast, on a busy machine


def local(case, name=""):
    return os.lstat(case.world.volume / case.path(name))


def shown(client, case, name=""):
    return client.getattr(case.path(name))


def neighbour(world, command, *args):
    """Another server of the volume changes something, as Samba does for its clients."""
    return subprocess.Popen([str(NEIGHBOUR), str(world.volume), command, *map(str, args)],
                            stdout=subprocess.PIPE, text=True)


def seen_after(process, condition, what, timeout=30):
    """Poll from before the change on; seconds from the change to the answer that shows it."""
    try:
        wait_until(condition, timeout, what, interval=0.001)
        seen = time.monotonic()
    finally:
        out = process.communicate(timeout=30)[0]
    assert process.returncode == 0
    delay = seen - int(out) / 1e9
    print("seen after %.1f ms: %s" % (delay * 1000, what))
    return delay


def names_of(client, case, name=""):
    return sorted(n.decode() for n in client.names(case.path(name)))


def soon(delays):
    """A server that waited for expiry would need a second each time, or a minute."""
    assert min(delays) < SOON, delays


@pytest.mark.parametrize("stub", ["normal", "some"])
def test_a_neighbours_write_is_seen(case, client, world, stub):
    """Attributes of a normal file would be kept for a minute."""
    case.file()
    case.enter(stub, "f")
    path, delays = case.path("f"), []
    for i in range(TRIES):
        end = len(case.data("f"))
        before = shown(client, case, "f")
        assert before.size == end
        text = "neighbour %d" % i
        fh = client.fh(path)
        delays.append(seen_after(neighbour(world, "write", path, end, text),
                                 lambda: client.getattr(fh).size == end + len(text),
                                 "write, %s" % stub))
        case.write("f", end, text.encode())
        after = client.getattr(fh)
        assert after.mtime > before.mtime and after.ctime > before.ctime
        same(client.read_file(path)[end:], text.encode())
    soon(delays)
    same(client.read_file(path), case.data("f"))


@pytest.mark.parametrize("stub", ["normal", "some"])
def test_a_neighbours_attributes_are_seen(case, client, world, stub):
    case.file(mode=0o640)
    case.enter(stub, "f")
    path, delays = case.path("f"), []
    for mode in (0o600, 0o644, 0o640, 0o444, 0o600, 0o640):
        fh = client.fh(path)
        client.getattr(fh)
        delays.append(seen_after(neighbour(world, "chmod", path, "%o" % mode),
                                 lambda: client.getattr(fh).mode == mode, "chmod, %s" % stub))
        case.items["f"].mode = mode
    soon(delays)


def test_a_neighbours_truncate_is_seen(case, client, world):
    case.file()
    case.enter("some", "f")
    delays = []
    for size in (4 * BLOCK, 100, SIZE, 50, 0, 10):
        fh = client.fh(case.path("f"))
        client.getattr(fh)
        delays.append(seen_after(neighbour(world, "truncate", case.path("f"), size),
                                 lambda: client.getattr(fh).size == size, "truncate"))
        case.resize("f", size)
        same(client.read_file(case.path("f")), case.data("f"))
    soon(delays)


@pytest.fixture
def listed(case, client):
    """A directory that the server has read whole, with its objects."""
    case.dir("d"), case.dir("e")
    for name in ("d/a", "d/b", "e/x"):
        case.file(name, size=100)
    case.enter("normal", "d/a", "e/x")
    case.enter("some", "d/b")
    for name in ("", "d", "e"):
        client.listdir(case.path(name))
    return case


def test_a_neighbours_new_file_is_seen(listed, client, world):
    delays = []
    for i in range(TRIES):
        name = "d/n%d" % i
        assert name[2:] not in names_of(client, listed, "d")
        before = shown(client, listed, "d")
        delays.append(seen_after(neighbour(world, "create", listed.path(name), 644),
                                 lambda: name[2:] in names_of(client, listed, "d"), "create"))
        listed.made(name, mode=0o644, uid=0, gid=0)
        assert shown(client, listed, "d").mtime > before.mtime
    soon(delays)


def test_a_neighbours_new_directory_is_seen(listed, client, world):
    before = shown(client, listed, "d").nlink
    seen_after(neighbour(world, "mkdir", listed.path("d/sub"), 755),
               lambda: "sub" in names_of(client, listed, "d"), "mkdir")
    listed.made("d/sub", ftype=2, mode=0o755, uid=0, gid=0)
    assert shown(client, listed, "d").nlink == before + 1


def test_what_a_neighbour_removes_is_gone(listed, client, world):
    delays = []
    for name in ("d/a", "d/b"):
        fh = client.fh(listed.path(name))
        delays.append(seen_after(neighbour(world, "remove", listed.path(name), "-"),
                                 lambda: name[2:] not in names_of(client, listed, "d"),
                                 "remove"))
        listed.gone(name)
        assert not client.exists(listed.path(name))
        wait_until(lambda: status_of(client.getattr, fh) == errors.STALE, PATIENCE, "stale")
    soon(delays)


def test_a_neighbours_rename_is_seen(listed, client, world):
    """Within a directory, into another one, and over what is there."""
    def as_in_the_model():
        return all(names_of(client, listed, parent) == sorted(
            n[len(parent):].strip("/") for n in listed.items
            if n and n.rpartition("/")[0] == parent) for parent in ("", "d", "e"))
    delays = []
    for old, new in (("d/a", "d/c"), ("d/b", "e/b"), ("e/b", "e/x"), ("d/c", "c")):
        assert as_in_the_model()
        listed.moved(old, new)
        delays.append(seen_after(
            neighbour(world, "rename", listed.path(old), listed.path(new)),
            as_in_the_model, "rename"))
        assert not client.exists(listed.path(old))
        same(client.read_file(listed.path(new)), listed.data(new))
    soon(delays)


def test_a_directory_that_a_neighbour_moves(case, client3, world):
    """Its "..", which the server keeps for good, is another one."""
    case.dir("d"), case.dir("e")
    case.list(), case.list("d"), case.list("e")
    moved, old, new = (client3.fh(case.path(n)) for n in ("d", "", "e"))

    def parent():
        return client3.lookup((moved, b".."))[1].fileid
    assert parent() == client3.getattr(old).fileid
    seen_after(neighbour(world, "rename", case.path("d"), case.path("e/d")),
               lambda: parent() == client3.getattr(new).fileid, "rename: the parent")
    case.moved("d", "e/d")
    assert names_of(client3, case, "e") == ["d"]


def test_completion_is_told(case, client, world):
    """Sooner than attributes of stubs expire."""
    delays = []
    for i in range(TRIES):
        name = "f%d" % i
        case.file(name)
    case.list()
    for i in range(TRIES):
        name = "f%d" % i
        fh = client.fh(case.path(name))
        case.world.stubtool("ask", case.path(name), "fill")
        shown(client, case, name)
        world.control("drain")
        wait_until(lambda: not case.show(name)["stub"], 20, "normal")
        ctime = local(case, name).st_ctime_ns
        wait_until(lambda: client.getattr(fh).ctime == ctime, PATIENCE, "change time", 0.001)
        delays.append(time.time() - ctime / 1e9)
        print("seen after %.1f ms: completion" % (delays[-1] * 1000))
    soon(delays)


def test_a_listing_is_told(case, client, world):
    delays = []
    for i in range(TRIES):
        case.dir("d%d" % i)
        case.node("d%d" % i).claim(size=777)
        for k in range(100):
            case.file("d%d/a-rather-long-name-%03d" % (i, k), size=10)
    case.list()
    for i in range(TRIES):
        fh = client.fh(case.path("d%d" % i))
        before = client.getattr(fh)
        case.list("d%d" % i)
        st = local(case, "d%d" % i)
        assert before.size == 777 != st.st_size
        wait_until(lambda: client.getattr(fh).size == st.st_size, PATIENCE, "size", 0.001)
        delays.append(time.time() - st.st_ctime_ns / 1e9)
        print("seen after %.1f ms: listing" % (delays[-1] * 1000))
    soon(delays)


def test_attributes_that_are_filled_are_told(case, client, world):
    """What the server had cached of a stub before it lost them (only here it does)."""
    delays = []
    for i in range(TRIES):
        case.file("f%d" % i, mode=0o640)
    case.list()
    for i in range(TRIES):
        name, path = "f%d" % i, case.path("f%d" % i)
        fh = client.fh(path)
        case.node(name).mode = case.items[name].mode = 0o604
        world.stubtool("dummy", path)   # from here on it may be filled at any time, ahead of an ask
        world.stubtool("ask", path, "attr")
        ctime = local(case, name).st_ctime_ns
        wait_until(lambda: client.getattr(fh).mode == 0o604, PATIENCE, "mode", 0.001)
        delays.append(time.time() - ctime / 1e9)
        print("seen after %.1f ms: attributes" % (delays[-1] * 1000))
    soon(delays)


def test_news_that_are_lost(case, client, world):
    """More than the ring holds while the server stands still: nothing may be trusted."""
    case.file("f", mode=0o640)
    case.enter("normal", "f")
    world.m.server.restart()    # it would be told of f again, a little after the fill
    fh = client.fh(case.path("f"))
    assert client.getattr(fh).mode == 0o640
    world.m.server.sigstop()
    try:
        neighbour(world, "chmod", case.path("f"), "600").communicate(timeout=30)
        neighbour(world, "flood", "-", 5000).communicate(timeout=30)
    finally:
        world.m.server.sigcont()
    case.items["f"].mode = 0o600
    wait_until(lambda: client.getattr(fh).mode == 0o600, PATIENCE, "mode")


def test_the_place_of_the_news_is_wiped(case, client, world):
    """As /run/postcopy may be: everybody meets again within seconds."""
    case.file("f", mode=0o640)
    case.enter("normal", "f")
    fh = client.fh(case.path("f"))
    ring = world.m.socket.with_name(world.m.socket.name + ".news1")
    ring.unlink()
    wait_until(ring.exists, PATIENCE, "another ring")
    client.getattr(fh)
    seen_after(neighbour(world, "chmod", case.path("f"), "600"),
               lambda: client.getattr(fh).mode == 0o600, "chmod")
    case.items["f"].mode = 0o600


@contextlib.contextmanager
def slow_stat(server, ms):
    """Whatever stat(2) has found is known to the server a little later only."""
    out = server.workdir / "strace.out"
    calls = "fstat,newfstatat,statx"
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", str(out), "-e", "trace=" + calls, "-e",
         "inject=%s:delay_exit=%d" % (calls, ms * 1000), "-p", str(server.pid)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: all("TracerPid:\t%d" % tracer.pid in status.read_text() for status in
                               pathlib.Path("/proc/%d/task" % server.pid).glob("*/status")),
                   20, "strace attached")
        yield
    finally:
        tracer.terminate()
        tracer.wait(30)


def test_nobody_stores_what_was_before(case, client3, world):
    """A request that the first change has caused has read the attributes just before the
    second one, and the server puts them into its cache just after it was told."""
    case.file("f", size=0)
    case.enter("normal", "f")
    fh, path, end = client3.fh(case.path("f")), case.path("f"), threading.Event()

    def ask():
        with world.client("v3") as other:
            while not end.is_set():
                other.getattr(fh)
    asker, seen = threading.Thread(target=ask), 0
    with slow_stat(world.m.server, 40):
        asker.start()
        try:
            for size in range(1, 21, 2):
                neighbour(world, "write", path, size - 1, "x").communicate(timeout=30)
                with contextlib.suppress(TimeoutError):
                    seen_after(neighbour(world, "write", path, size, "x"),
                               lambda: client3.getattr(fh).size == size + 1, "write", 20)
                    seen += 1
        finally:
            end.set()
            asker.join()
    assert seen >= 7, seen   # a machine may be too busy; untold a second time it is about 3
    case.write("f", 0, b"x" * 20)


def listeners(server):
    """Threads that wait for news."""
    names = [(task / "comm").read_text().strip()
             for task in pathlib.Path("/proc/%d/task" % server.pid).iterdir()]
    return names.count("stub_news")


def test_nobody_listens_after_the_end(fresh_dir, new_migration):
    """One thread for each export, until the volume is complete; none in a server that
    starts later.  And a server ends at once, whatever its thread waits for."""
    tree = Tree()
    tree.file(tree.root, "f", Pattern(1000))
    with FakeServer(tree) as old:
        m = new_migration(old.url(), fresh_dir).init().start()
        assert listeners(m.server) == 1
        start = time.monotonic()
        m.server.stop()
        assert time.monotonic() - start < 30
        m.server.start()
        assert listeners(m.server) == 1
        m.crawl()
        wait_until(lambda: m.status()["state"] == "complete", 20, "complete")
        wait_until(lambda: listeners(m.server) == 0, 20, "no listener")
        m.server.restart()
        assert listeners(m.server) == 0
        m.audit(complete=True)
