# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that breaks: writes and records that fail, syncs that fail, a file system
that turns read-only or shuts itself down.  Never zeros, nothing acknowledged lost."""
import errno
import os
import struct
import time

import pytest

from lib.case import ANY, BLOCK, SIZE
from lib.expect import same, status_of, view
from lib.programs import TOOLS, build_c
from lib.wait import wait_until
from lib.world import NfsWorld
from nfsclient import errors
from nfsclient.nfstypes import UNSTABLE
from nfsclient.rpc import RpcConnection

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
    w = NfsWorld(moddir / "m", volume, rpcshim, conf="max_tries = 100\n",
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
    wait_until(stored, 60, "file stored")


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
    wait_until(lambda: world.control("status")["conflicts"] == 1, what="conflict")
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

def syncs(world, text="sync of the volume"):
    """Lines about syncs that failed; those that finish objects tell of the next one."""
    return [line for line in world.m.log.read_text().splitlines() if text in line]


def fail_a_sync(world, case, faults, name):
    """Complete a file whose sync fails, if not the retriever's flush of every five seconds
    comes first.  Was it the file's?"""
    world.settle()                      # the directory's sync is over
    seen = len(syncs(world))
    faults.set("syncfs", errno.EIO | faults.ONCE)
    world.stubtool("ask", case.path(name), "fill")
    failed = wait_until(lambda: syncs(world)[seen:], 60, "a sync")
    return "next one in" in failed[0]


def test_failed_sync_fetches_all_again(case, world, faults):
    """Also what was filled before and was nobody's candidate."""
    case.file("half"), case.file("whole")
    case.enter("some", "half")
    before = case.show("half")
    of_whole = fail_a_sync(world, case, faults, "whole")

    def missing_again():        # all of it, but for what a flush of somebody's had made durable before
        half = case.show("half")
        return half["now"] == half["durable"]
    wait_until(missing_again, 60, "half is missing again")
    assert before["now"] != [[0, SIZE]]
    assert case.show("whole")["stub"] or not of_whole, "whole is no normal file"
    with world.client() as c:
        for name in ("half", "whole"):
            same(c.read_file(case.path(name)), case.data(name))


def lost_unless_flushed(case, name, offset, data):
    """A write whose client was told that it may be lost.  If a server's own flush had come
    before the sync that failed, the record knows that it is not, and it stays for good."""
    record = case.show(name)
    assert record["stub"]
    if not any(start < offset + len(data) and offset < end for start, end in record["durable"]):
        case.write(name, offset, data)


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
    lost_unless_flushed(case, "f", 9000, b"unstable" * 10)
    same(client.read(f, 0, BLOCK)[0], case.data("f")[:BLOCK])
    client.write(f, 9000, b"unstable" * 10, UNSTABLE)
    client.commit(f)
    case.write("f", 9000, b"unstable" * 10)
    record = case.show("f")
    assert record["now"] == record["durable"] or not record["stub"]
    same(client.read_file(f), case.data("f"))


@pytest.mark.parametrize("flushed", (False, True))
@pytest.mark.allow_log("but was set non-retryable")
def test_each_client_hears_of_it(case, world, faults, monkeypatch, flushed):
    f = case.file("f")
    case.file("other")
    case.enter("partial", "f", "other")
    with world.client("v3") as one, monkeypatch.context() as other:
        one.write(f, 100, b"one", UNSTABLE)
        other.setattr(RpcConnection, "source", "127.0.0.2")
        two = world.client("v3")
        two.write(f, 200, b"two", UNSTABLE)
        if flushed:
            wait_until(lambda: len(case.show("f")["durable"]) == 3, 60, "the server's own flush")
        fail_a_sync(world, case, faults, "other")
        assert status_of(one.commit, f) == errors.IO
        one.commit(f)
        assert status_of(two.commit, f) == errors.IO
        two.commit(f)
        two.close()
        case.items["f"].mtime = ANY
        lost_unless_flushed(case, "f", 100, b"one")
        lost_unless_flushed(case, "f", 200, b"two")
        assert not flushed or case.data("f")[200:203] == b"two"


def test_failed_syncs_do_not_spin(case, world, faults):
    """As long as they fail nothing is finished; the pauses grow."""
    case.file("f")
    case.enter("partial", "f")
    before, began = len(syncs(world, "next one in")), time.monotonic()
    faults.set("syncfs", errno.EIO)
    for _ in range(3):
        world.stubtool("ask", case.path("f"), "fill")
        seen = len(syncs(world, "next one in"))
        wait_until(lambda: len(syncs(world, "next one in")) > seen, 60, "a sync")
    assert case.show("f")["stub"]
    assert syncs(world, "next one in 2000 ms")
    count = len(syncs(world, "next one in")) - before
    assert 0.5 * (2 ** (count - 1) - 1) <= time.monotonic() - began, count
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
        wait_until(lambda: pending() <= 1, what="all but one done")
    finally:
        crawler.terminate()
        crawler.wait(60)
    assert faults.get("pwrite") == 0
    status = world.control("status")
    assert status["parked"] == 0 and status["pending"] <= 1, status
    # the one comes ten seconds later: if it is here, too, then after all others
    nodes = {id(case.node(name)) for name in names}
    reads = [(id(c.node), c.offset) for c in world.calls("READ") if id(c.node) in nodes]
    again = next((i for i, read in enumerate(reads) if read in reads[:i]), len(reads))
    assert {node for node, _ in reads[:again]} == nodes
