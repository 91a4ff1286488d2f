# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that breaks: writes and records that fail, syncs that fail, a file system
that turns read-only or shuts itself down.  Never zeros, nothing acknowledged lost."""
import errno
import os
import struct

import pytest

from nfsclient.nfstypes import UNSTABLE
from nfsclient.rpc import RpcConnection
from ops import *  # noqa: F401,F403
from ops import ANY, BLOCK, SIZE, World, errors, same, status_of, view
from util import TOOLS, build_c, wait_until

ALLOW = (r"sync of the volume", r"input/output error", r"read-only file system",
         r"write to the new volume", r"structure needs cleaning")


class Faults:
    """The page of tests/tools/faultshim.c."""
    CALLS = ("pwrite", "setxattr", "syncfs")
    ONCE = 1 << 31

    def __init__(self, path):
        self.path = path
        self.clear()

    def clear(self):
        self.path.write_bytes(bytes(4 * len(self.CALLS))) if not self.path.exists() else \
            [self.set(call, 0) for call in self.CALLS]

    def set(self, call, error):
        with open(self.path, "r+b", 0) as f:
            f.seek(4 * self.CALLS.index(call))
            f.write(struct.pack("=I", error))

    def get(self, call):
        data = self.path.read_bytes()
        return struct.unpack_from("=I", data, 4 * self.CALLS.index(call))[0]


@pytest.fixture(scope="module")
def world(moddir, loop_xfs, rpcshim):
    shim = build_c([TOOLS / "faultshim.c"], moddir / "faultshim.so", "-shared", "-fPIC")
    volume = loop_xfs.path / "volume"
    volume.mkdir()
    faults = Faults(moddir / "faults")
    w = World(moddir / "m", volume, rpcshim, conf="max_tries = 100\n",
              wrap=("env", "LD_PRELOAD=%s" % shim, "FAULTSHIM=%s" % faults.path))
    w.faults = faults
    w.m.allow += ALLOW
    with w:
        try:
            yield w
        finally:
            faults.clear()


@pytest.fixture
def faults(world):
    try:
        yield world.faults
    finally:
        world.faults.clear()


ERRORS = {"ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT, "EROFS": errno.EROFS,
          "EIO": errno.EIO}


# -- data or its record cannot be stored -----------------------------------------

@pytest.mark.parametrize("error", ERRORS)
def test_read_without_data(case, client, world, faults, error):
    passes(case, client, world, faults, "pwrite", error)


@pytest.mark.parametrize("error", ERRORS)
def test_read_without_record(case, client3, world, faults, error):
    passes(case, client3, world, faults, "setxattr", error)


def passes(case, client, world, faults, call, error):
    """Reads are whole, nothing moves, and it is stored once that works."""
    f = case.file("f")
    case.enter("some", "f")
    client.write(f, 2 * BLOCK + 777, b"the client's" * 100)
    case.write("f", 2 * BLOCK + 777, b"the client's" * 100)
    faults.set(call, ERRORS[error])
    before, record = view(client.getattr(f)), case.show("f")["now"]
    same(client.read_file(f, chunk=BLOCK + 4097), case.data("f"))
    assert case.show("f")["now"] == record
    assert view(client.getattr(f)) == before
    assert world.control("status")["volume_error"] == os.strerror(ERRORS[error])
    faults.clear()

    def stored():
        same(client.read_file(f), case.data("f"))
        return not case.show("f")["stub"]
    wait_until(stored, 10, "file stored")


@pytest.mark.allow_log("but was set non-retryable")
def test_source_that_lies_is_not_passed_on(case, client3, world, faults):
    """The object has changed over there: a conflict, in passing too."""
    f = case.file("f")
    case.enter("partial", "f")
    faults.set("pwrite", errno.ENOSPC)
    same(client3.read(f, 0, 1000)[0], case.data("f")[:1000])
    node, mtime = case.node("f"), case.node("f").mtime
    node.mtime += 1
    assert status_of(client3.read, f, BLOCK, 1000) == errors.IO
    assert world.control("status")["conflicts"] == 1
    node.mtime = mtime
    world.m.postcopy("retry", "--conflicts", world.volume)
    same(client3.read(f, BLOCK, 1000)[0], case.data("f")[BLOCK:BLOCK + 1000])


def test_source_gone_while_passing(case, client3, world, faults):
    """No source: try again, never zeros."""
    f = case.file("f")
    case.enter("partial", "f")
    faults.set("pwrite", errno.ENOSPC)
    same(client3.read(f, 0, 1000)[0], case.data("f")[:1000])
    world.fake.pause()
    assert status_of(client3.patient(0).read, f, 2 * BLOCK, 1000) == errors.JUKEBOX
    world.fake.resume()
    same(client3.patient(30).read(f, 2 * BLOCK, 1000)[0],
         case.data("f")[2 * BLOCK:2 * BLOCK + 1000])


# -- syncs that fail ---------------------------------------------------------------

def fail_a_sync(world, case, faults, name):
    """Complete a file whose sync fails."""
    log = world.m.log
    seen = log.read_text().count("sync of the volume")
    faults.set("syncfs", errno.EIO | faults.ONCE)
    world.stubtool("ask", case.path(name), "fill")
    wait_until(lambda: log.read_text().count("sync of the volume") > seen, 10, "a sync")


def test_failed_sync_fetches_all_again(case, world, faults):
    """Also what was filled before and was nobody's candidate."""
    case.file("half"), case.file("whole")
    case.enter("some", "half")
    before = case.show("half")["now"]
    fail_a_sync(world, case, faults, "whole")
    wait_until(lambda: case.show("half")["now"] == [[0, SIZE]], 10, "half is missing again")
    assert before != [[0, SIZE]]
    wait_until(lambda: case.show("whole")["stub"], 10, "whole is no normal file")
    with world.client() as c:
        for name in ("half", "whole"):
            same(c.read_file(case.path(name)), case.data(name))


@pytest.mark.allow_log("but was set non-retryable")
def test_commit_after_a_failed_sync(case, client, world, faults):
    """What the client wrote may be lost: it hears so, and what it sends again stays."""
    f = case.file("f")
    case.file("other")
    case.enter("partial", "f", "other")
    client.write(f, 100, b"unstable" * 10, UNSTABLE)
    client.write(f, 5000, b"stable" * 10)    # with its record, all before is durable
    case.write("f", 100, b"unstable" * 10)
    case.write("f", 5000, b"stable" * 10)
    client.write(f, 9000, b"unstable" * 10, UNSTABLE)
    fail_a_sync(world, case, faults, "other")
    assert status_of(client.commit, f) == errors.IO
    if not any(start <= 9000 < end for start, end in case.show("f")["durable"]):
        case.write("f", 9000, b"unstable" * 10)    # the server's own flush came first
    same(client.read(f, 0, BLOCK)[0], case.data("f")[:BLOCK])
    client.write(f, 9000, b"unstable" * 10, UNSTABLE)
    client.commit(f)
    case.write("f", 9000, b"unstable" * 10)
    record = case.show("f")
    assert record["now"] == record["durable"] or not record["stub"]
    same(client.read_file(f), case.data("f"))


@pytest.mark.allow_log("but was set non-retryable")
def test_each_client_hears_of_it(case, world, faults, monkeypatch):
    f = case.file("f")
    case.file("other")
    case.enter("partial", "f", "other")
    with world.client("v3") as one, monkeypatch.context() as other:
        one.write(f, 100, b"one", UNSTABLE)
        other.setattr(RpcConnection, "source", "127.0.0.2")
        two = world.client("v3")
        two.write(f, 200, b"two", UNSTABLE)
        fail_a_sync(world, case, faults, "other")
        assert status_of(one.commit, f) == errors.IO
        one.commit(f)
        assert status_of(two.commit, f) == errors.IO
        two.commit(f)
        two.close()
        case.items["f"].mtime = ANY


def test_failed_syncs_do_not_spin(case, world, faults):
    """As long as they fail nothing is finished; the pauses grow."""
    case.file("f")
    case.enter("partial", "f")
    log = world.m.log
    before = log.read_text().count("sync of the volume")
    faults.set("syncfs", errno.EIO)
    for _ in range(3):
        world.stubtool("ask", case.path("f"), "fill")
        seen = log.read_text().count("sync of the volume")
        wait_until(lambda: log.read_text().count("sync of the volume") > seen, 10, "a sync")
    assert case.show("f")["stub"]
    assert "next one in 2000 ms" in log.read_text()
    assert log.read_text().count("sync of the volume") - before <= 4
    faults.clear()
    world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")


def test_crawler_goes_on_with_others(case, world, faults):
    """What concerns one object stops nobody else, and parks nothing at once.  The last
    test: the crawler lists the root."""
    names = ["f%d" % i for i in range(6)]
    for name in names:
        case.file(name)
    case.enter("partial", *names)
    faults.set("pwrite", errno.EDQUOT | faults.ONCE)
    crawler = world.m.start_crawler()
    try:
        def pending():
            world.control("drain")
            return world.control("status")["pending"]
        wait_until(lambda: pending() == 1, 8, "all but one done")
    finally:
        crawler.terminate()
        crawler.wait(20)
    assert faults.get("pwrite") == 0
    status = world.control("status")
    assert status["parked"] == 0 and status["pending"] == 1, status
