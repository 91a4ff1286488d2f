# SPDX-License-Identifier: GPL-3.0-or-later
"""A full volume: what is there and what the old server has can be read, what cannot be
kept is refused with the right error, nothing is lost, and it goes on by itself."""
import contextlib
import itertools
import os
import threading
import time

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, status_of, view
from lib.wait import wait_until
from lib.world import NfsWorld
from nfsclient import NfsError, errors, hooks
from nfsclient.nfstypes import UNSTABLE

SMALL = {"xfs": "320M", "ext4": "128M"}
CHUNKS = (SIZE, BLOCK + 4097, 5000)


@pytest.fixture(scope="module", params=SMALL)
def small(request, new_volume):
    return new_volume(request.param, SMALL[request.param])


@pytest.fixture(scope="module")
def world(moddir, small, rpcshim):
    volume = small.path / "volume"
    volume.mkdir()
    w = NfsWorld(moddir / small.fstype, volume, rpcshim)
    w.disk = Disk(small.path)
    w.m.allow.append("pending journal: transaction failed: No space left")
    with w:
        try:
            yield w
        finally:
            w.disk.free()


class Disk:
    """The file system of a volume, which can be filled to the last block."""

    def __init__(self, path):
        self.path = path
        self.free()

    def fill(self):
        """Also with what others have just given back, which is free after the next sync."""
        self._fill()
        self.sync()
        while self._write():
            self.sync()

    def _fill(self):
        with open(self.path / "ballast", "ab") as f:
            step = 64 << 20
            while step >= 4096:
                try:
                    os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, step)
                except OSError:
                    step //= 2
        while self._write():             # each close gives back what XFS held ahead
            pass

    def _write(self):
        """Write what cannot be reserved; how many blocks that were."""
        with open(self.path / "ballast2", "ab", 0) as f:
            for n in itertools.count():
                try:
                    f.write(bytes(4096))
                    os.fsync(f.fileno())
                except OSError:
                    return n

    def free(self):
        for name in ("ballast", "ballast2"):
            with open(self.path / name, "wb"):
                pass                     # a new name may find no room
        self.sync()

    def sync(self):
        fd = os.open(self.path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


@pytest.fixture
def full(world):
    """A function that fills the disk until the end of the test."""

    def fill():
        world.m.drain()                 # what is finished gives back the blocks of its record
        world.disk.fill()

    try:
        yield fill
    finally:
        world.disk.free()


def whole(client, path, chunk):
    return client.read_file(path, chunk=chunk)


# -- reading -----------------------------------------------------------------

@pytest.mark.parametrize("chunk", CHUNKS)
def test_read(case, client, world, full, chunk):
    """Bytes of the old server, bytes of a client, bytes filled before: one file."""
    f = case.file("f")
    case.enter("some", "f")
    client.write(f, 2 * BLOCK + 777, b"the client's" * 100)
    case.write("f", 2 * BLOCK + 777, b"the client's" * 100)
    full()
    before, record = view(client.getattr(f)), case.show("f")["now"]
    same(whole(client, f, chunk), case.data("f"))
    assert case.show("f")["now"] == record
    assert view(client.getattr(f)) == before
    status = world.control("status")
    assert status["volume_error"] == "No space left on device", status
    assert status["bytes_passed"] > 0 and status["parked"] == 0, status


def test_read_stores_again(case, client, world, full):
    """Room comes back: reads fill again, the error is gone."""
    f = case.file("f")
    case.enter("partial", "f")
    full()
    same(whole(client, f, SIZE), case.data("f"))
    world.disk.free()

    def stored():
        same(whole(client, f, SIZE), case.data("f"))
        return not case.show("f")["stub"]
    wait_until(stored, 60, "file stored")
    assert world.control("status")["volume_error"] == ""


def test_long_read_is_answered_in_parts(case, client3, full):
    """More than one PASS holds."""
    size = (5 << 20) // 2
    f = case.file("f", size=size)
    case.enter("partial", "f")
    full()
    data, eof = client3.read(f, 100, size)
    assert 0 < len(data) < size - 100 and not eof
    same(data, case.data("f")[100:100 + len(data)])
    same(whole(client3, f, size), case.data("f"))
    data, eof = client3.read(f, size - 10, 4096)
    assert eof
    same(data, case.data("f")[-10:])
    assert client3.read(f, size, 10) == (b"", True)


def test_slow_source(case, client4, world, full):
    """The answer comes after the client has been told to come again."""
    f = case.file("f", size=BLOCK)
    case.enter("partial", "f")
    full()
    world.fake.hook("READ", hooks.delay(0.8))
    same(whole(client4, f, BLOCK), case.data("f"))
    assert client4.delays > 0
    assert case.show("f")["now"] == [[0, BLOCK]]


def test_many_readers_fetch_once(case, world, full):
    f = case.file("f", size=BLOCK)
    case.enter("partial", "f")
    full()
    with world.client("v3") as c:
        fh = c.lookup_path(f)
        same(c.read(fh, 0, BLOCK)[0], case.data("f"))
    reads, found, began = len(world.calls("READ", case.node("f"))), [], time.monotonic()

    def read():
        with world.client("v3") as c:
            found.append(c.read(fh, 0, BLOCK)[0])
    threads = [threading.Thread(target=read) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(found) == 8 and all(data == case.data("f") for data in found)
    # one try to store each second at most, the rest from what was passed before
    assert len(world.calls("READ", case.node("f"))) - reads <= 4 + time.monotonic() - began


@contextlib.contextmanager
def passing(world, client, path, offset, length):
    """A READ whose bytes are on their way from the old server to be passed on."""
    gate, found = hooks.Gate(), []
    time.sleep(1.1)                      # whatever was noticed before: it tries again,
    since = time.monotonic()
    client.read(path, 0, 10)             # and has noticed, for a second

    def read():
        with world.client(client.proto) as c:
            found.append(c.read(path, offset, length)[0])
    reader = threading.Thread(target=read)
    passed = world.control("status")["bytes_passed"]
    world.fake.hook("READ", gate)
    try:
        reader.start()
        wait_until(lambda: gate.waiting, 60, "READ at the old server")
        sure = time.monotonic() - since < 1
        yield found
    finally:
        gate.open()
        reader.join(60)
        world.fake.clear_hooks()
    assert not sure or world.control("status")["bytes_passed"] > passed


def test_write_in_between(case, client, world, full):
    """A client's write comes between the fetch and the answer: it is seen."""
    f = case.file("f")
    case.enter("partial", "f")
    full()
    with passing(world, client, f, BLOCK, BLOCK) as found:
        world.disk.free()
        client.write(f, BLOCK + 100, b"new" * 500, UNSTABLE)
        case.write("f", BLOCK + 100, b"new" * 500)
    same(found[0], case.data("f")[BLOCK:2 * BLOCK])


def test_cut_in_between(case, client, world, full):
    """Cut off, and extended again: zeros, not the old server's bytes."""
    f = case.file("f")
    case.enter("partial", "f")
    full()
    with passing(world, client, f, BLOCK, BLOCK) as found:
        client.setattr(f, size=BLOCK + 100)
        client.setattr(f, size=BLOCK + 300)
        case.resize("f", BLOCK + 100)
        case.resize("f", BLOCK + 300)
    same(found[0], case.data("f")[BLOCK:])


# -- what cannot be kept -------------------------------------------------------

def test_write_is_refused(case, client, world, full):
    """Nothing is changed by a write that fails, wherever it falls."""
    for name in ("f", "g"):
        case.file(name)
    case.enter("some", "f", "g")
    full()
    f = case.path("f")
    before, record = client.getattr(f), case.show("f")
    for offset, length in ((0, BLOCK), (2 * BLOCK + 5, 3 * BLOCK), (SIZE + BLOCK, 100)):
        assert status_of(client.patient(60).write, f, offset, b"!" * length) == errors.NOSPC
    assert client.getattr(f).size == before.size
    assert case.show("f")["now"] == record["now"]
    same(whole(client, f, SIZE), case.data("f"))
    # what has its blocks takes writes
    client.write(f, BLOCK, b"over" * 10)
    case.write("f", BLOCK, b"over" * 10)
    same(whole(client, f, SIZE), case.data("f"))


def test_changes_that_need_no_room(case, client, world, full):
    """Attributes, names and sizes of stubs can be changed."""
    for name in ("mode", "name", "size", "gone"):
        case.file(name)
    case.enter("partial", "mode", "name", "size", "gone")
    full()
    client.setattr(case.path("mode"), mode=0o600)
    case.items["mode"].mode = 0o600
    client.rename(case.path("name"), case.path("renamed"))
    case.moved("name", "renamed")
    client.setattr(case.path("size"), size=1000)
    case.resize("size", 1000)
    client.remove(case.path("gone"))
    case.gone("gone")
    same(whole(client, case.path("size"), SIZE), case.data("size"))
    assert client.getattr(case.path("mode")).mode & 0o7777 == 0o600


def test_new_names_are_refused(case, client, world, full):
    """A stub that cannot be made is an error, not a name that is not there and not an
    endless "try again"."""
    case.dir("d")
    # more than the inodes that a file system may have left in a started chunk
    for i in range(200):
        case.dir("d/sub%03d" % i)
    case.reach("d")
    full()
    assert status_of(client.patient(60).names, case.path("d")) == errors.NOSPC
    found = []
    with pytest.raises(NfsError) as info:
        for i in range(200):
            client.patient(60).lookup(case.path("d/sub%03d" % i))
            found.append(i)
    assert info.value.status == errors.NOSPC, info.value
    world.disk.free()

    def listed():
        return len(client.names(case.path("d"))) == 200
    wait_until(listed, 60, "listing")


def test_names_go_where_nobody_has_listed(case, client, world, full):
    """That is how people make room.  A client's own name is asked for alone; for one that
    the old server has, there is room kept."""
    case.dir("d")
    case.file("d/theirs")
    case.dir("d/empty")
    for i in range(200):
        case.dir("d/sub%03d" % i)
    case.reach("d")
    client.write_file(case.path("d/own"), b"own" * 10000)
    client.write_file(case.path("d/cut"), b"cut" * 10000)
    client.mkdir(case.path("d/owndir"))
    case.made("d/cut", data=b"cut")
    for name in ("d/theirs", "d/empty", "d/sub007"):
        client.lookup(case.path(name))
    wait_until(lambda: os.stat(world.volume / ".postcopy/reserve").st_blocks > 0, 60, "room kept")
    full()
    assert status_of(client.patient(60).names, case.path("d")) == errors.NOSPC
    client.setattr(case.path("d/cut"), size=3)
    client.remove(case.path("d/own"))
    client.rmdir(case.path("d/owndir"))
    assert "unlisted" in case.show("d")["flags"]
    client.patient(60).remove(case.path("d/theirs"))
    case.gone("d/theirs")
    assert "unlisted" not in case.show("d").get("flags", ())
    client.patient(60).rmdir(case.path("d/empty"))
    case.gone("d/empty")
    assert len(client.patient(60).names(case.path("d"))) == 201


# -- the crawler ---------------------------------------------------------------

@pytest.mark.parametrize("small", ["xfs"], indirect=True)
def test_crawler_waits_and_goes_on(case, world, full):
    """It tries now and then, one object at a time, parks nothing, and ends by itself."""
    for i in range(20):
        case.file("f%02d" % i, size=3 * BLOCK)
    case.enter("partial", *("f%02d" % i for i in range(20)))
    full()
    before, began = len(world.calls("READ")), time.monotonic()
    crawler = world.m.start_crawler()
    try:
        wait_until(lambda: world.control("status")["volume_error"], 60, "volume full")
        first = len(world.calls("READ"))
        wait_until(lambda: len(world.calls("READ")) > first, 30, "another try")
        # each once, then one a second
        reads, seconds = len(world.calls("READ")) - before, time.monotonic() - began
        assert reads <= 20 * 3 + (seconds + 1) * 3
        status = world.control("status")
        assert status["parked"] == 0 and status["pending"] >= 20, status
        wait_until(lambda: "No space left" in world.m.postcopy("status", world.volume).stdout,
                   60, "the reason, between two tries")
        world.disk.free()

        def normal():
            world.control("drain")
            return not any(case.show("f%02d" % i)["stub"] for i in range(20))
        wait_until(normal, 60, "files filled")
        assert world.control("status")["volume_error"] == ""
    finally:
        crawler.terminate()
        crawler.wait(60)
