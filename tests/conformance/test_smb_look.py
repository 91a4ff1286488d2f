# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking is not reading: listings, attributes, streams, descriptors and opens fetch no
byte of any file from the old server.  What is shown is the old server's; OFFLINE tells
which files are not here yet."""
import itertools
import os

import pytest

from lib.case import BLOCK, OLD, SIZE, pattern
from lib.expect import smb_status
from lib.smb import explore, smb_time
from lib.wait import wait_until
from lib.world import SmbWorld
from smb2client import wire

WORLD = SmbWorld
COUNT = 1000
ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.SYNCHRONIZE


@pytest.fixture(scope="module")
def cold(world):
    """A directory of 1000 files that nobody has looked at."""
    d = world.dir()
    for i in range(COUNT):
        world.file("%s/file %04d.exe" % (d, i), BLOCK + i, mtime=OLD + i * 10 ** 9)
    return d


def test_a_cold_directory_is_explored_without_data(world, smb, cold):
    world.fake.reset_counts()
    seen = explore(smb, cold)
    assert world.fake.bytes_read == 0 and world.reads() == []
    assert len(seen) == COUNT
    for i in range(COUNT):
        entry, info, streams = seen["file %04d.exe" % i]
        for shown in (entry, info):
            assert shown.size == BLOCK + i
            assert shown.written == smb_time(OLD + i * 10 ** 9)
            assert shown.attributes & wire.ATTR_OFFLINE, entry.name
            assert not shown.attributes & wire.ATTR_SPARSE
        assert streams == {"::$DATA": BLOCK + i}


def test_the_share_says_that_data_may_be_elsewhere(smb):
    assert smb.fs_attributes() & wire.FS_REMOTE_STORAGE


def test_offline_ends_with_the_last_byte(world, smb):
    d = world.dir()
    data = world.file(d + "/f")
    assert smb.stat(d + "/f").attributes & wire.ATTR_OFFLINE
    before = smb.stat(d + "/f")
    assert smb.read_file(d + "/f") == data
    world.fill(d + "/f")
    after = smb.stat(d + "/f")
    assert not after.attributes & wire.ATTR_OFFLINE
    assert (after.size, after.written, after.created, after.nlink) == (
        before.size, before.written, before.created, before.nlink)
    assert not smb.listdir(d)[0].attributes & wire.ATTR_OFFLINE


def test_one_read_fetches_no_more_than_its_block(world, smb):
    d = world.dir()
    data = world.file(d + "/f", 40 * BLOCK)
    with smb.open(d + "/f") as f:
        assert f.read(20 * BLOCK + 7, 100) == data[20 * BLOCK + 7:20 * BLOCK + 107]
    assert world.reads(d + "/f")
    assert {c.offset // BLOCK for c in world.reads(d + "/f")} <= {20, 21}
    assert smb.stat(d + "/f").attributes & wire.ATTR_OFFLINE


def watched(handle, filter_, touch):
    """Until what touch() does is told: only then does the kernel, too, know of the watcher
    (smbd has another process for that)."""
    waiting = handle.send_notify(filter_)
    wait_until(lambda: touch() or handle.client.arrived(waiting, 1), 60, "a watcher")
    handle.finish_notify(waiting)


def news_of(handle, filter_, wanted):
    """All that is told until that is."""
    seen = []
    while wanted not in seen:
        seen += handle.finish_notify(handle.send_notify(filter_))
    return seen


def test_completion_is_notified(world, smb):
    """A client that watches learns that OFFLINE is gone."""
    d = world.dir()
    world.file(d + "/f")
    smb.names(d)
    smb.write_file(d + "/mine", b"")

    def touch():
        with smb.open(d + "/mine", wire.WRITE_ATTRIBUTES) as f:
            f.set_basic(attributes=wire.ATTR_HIDDEN)
            f.set_basic(attributes=wire.ATTR_ARCHIVE)

    with world.m.client() as watcher, watcher.open(d, wire.READ_DATA) as handle:
        watched(handle, 0x4, touch)                             # attributes only
        smb.read_file(d + "/f")
        world.fill(d + "/f")
        assert (3, "f") in news_of(handle, 0x4, (3, "f"))


def test_a_watcher_of_names_sees_no_fill(world, smb):
    """Once a directory is listed.  (Its listing shows as new names to who watches it
    already: smbd passes on what the kernel tells.)"""
    d = world.dir()
    files = {"%s/%d" % (d, i): None for i in range(20)}
    for path in files:
        files[path] = world.file(path, 3 * BLOCK)
    assert len(smb.names(d)) == 20
    number = itertools.count()
    with world.m.client() as watcher, watcher.open(d, wire.READ_DATA) as handle:
        watched(handle, 0x3, lambda: smb.write_file("%s/mine%d" % (d, next(number)), b""))
        for path, data in files.items():                        # 3: names of files, directories
            assert smb.read_file(path) == data
        world.fill(d + "/7")
        smb.write_file(d + "/made", b"")
        seen = news_of(handle, 0x3, (1, "made"))
        assert {n for n in seen if "mine" not in n[1]} == {(1, "made")}


@pytest.mark.parametrize("stub", ["cold", "listed"])
def test_rights_are_the_old_ones(world, smb, stub):
    """Who could not read on the old server cannot before, during and after."""
    d = world.dir()
    data = world.file(d + "/hers", uid=70001, gid=70001, mode=0o600)
    if stub == "listed":
        smb.names(d)
    for stage in ("before", "during", "after"):
        with world.m.client("bob") as bob:
            assert smb_status(bob.read_file, d + "/hers") == "ACCESS_DENIED", stage
            assert smb_status(bob.open, d + "/hers", wire.WRITE_DATA) == "ACCESS_DENIED"
        with world.m.client("alice") as alice, alice.open(d + "/hers") as f:
            if stage == "before":
                assert world.reads(d + "/hers") == []
                assert f.read(0, 10) == data[:10]
            else:
                assert f.read() == data
        if stage == "during":
            world.fill(d + "/hers")


# -- a slow old server -----------------------------------------------------------------

def test_one_read_waits_and_the_session_goes_on(world, smb):
    d = world.dir()
    slow = world.file(d + "/slow")
    quick, here = world.file(d + "/quick"), world.file(d + "/here")
    smb.names(d)
    assert smb.read_file(d + "/here") == here
    world.fill(d + "/here")
    with smb.open(d + "/slow") as f, world.held("READ", d + "/slow") as gate:
        waiting = f.send_read(BLOCK, 1000)
        wait_until(lambda: gate.waiting, 20, "READ at the source")
        smb.echo()
        assert smb.read_file(d + "/here") == here
        assert smb.read_file(d + "/quick") == quick          # from the source, meanwhile
        assert smb.stat(d + "/slow").size == SIZE
        smb.write_file(d + "/new", b"new")
        assert "new" in smb.names(d)
        smb.rename(d + "/new", d + "/renamed")
        smb.remove(d + "/renamed")
        with smb.open(d + "/slow", ALL) as g:
            g.write(0, b"written")
            g.lock(10 * BLOCK, 10)
        assert not smb.arrived(waiting)
        gate.open()
        assert f.finish_read(waiting) == slow[BLOCK:BLOCK + 1000]
        assert f.read(0, 10) == b"written" + slow[7:10]
    del world.models[d + "/slow"]


def test_many_reads_wait_at_once(world, smb):
    """Each gets its own answer, in whatever order."""
    d = world.dir()
    data = world.file(d + "/f", 40 * BLOCK)
    with smb.open(d + "/f") as f, world.held("READ", d + "/f") as gate:
        waiting = [(at, f.send_read(at, 5000)) for at in range(7, 40 * BLOCK - 5000, 3 * BLOCK)]
        wait_until(lambda: gate.waiting, 20, "READs at the source")
        assert not any(smb.arrived(m) for _, m in waiting)
        gate.open()
        for at, message in reversed(waiting):
            assert f.finish_read(message) == data[at:at + 5000]


def test_a_read_that_waits_can_be_left(world):
    """The client closes, or goes away: nothing hangs, nothing is torn."""
    d = world.dir()
    data = world.file(d + "/f")
    with world.held("READ", d + "/f") as gate:
        with world.m.client() as c:
            f = c.open(d + "/f")
            f.send_read(0, 100)
            wait_until(lambda: gate.waiting, 20, "READ at the source")
            f.send_read(2 * BLOCK, 100)
        with world.m.client() as other:
            other.echo()
    with world.m.client() as other:
        assert other.read_file(d + "/f") == data


def test_a_listing_that_waits_holds_up_no_other_client(world, smb):
    d = world.dir()
    world.file(d + "/f")
    sub = d + "/sub"
    world.tree.mkdir(world.node(d), b"sub", mode=0o777)
    data = world.file(sub + "/g")
    smb.names(d)
    with world.held("READDIRPLUS READDIR", sub) as gate, world.m.client() as slow:
        asked = slow.send_open(sub, wire.READ_DATA, options=wire.OPT_DIRECTORY)
        wait_until(lambda: gate.waiting, 20, "READDIRPLUS at the source")
        assert smb.names(d) == ["f", "sub"]
        assert smb.read_file(sub + "/g") == data
        gate.open()
        with slow.finish_open(asked, sub) as handle:
            assert "g" in [e.name for e in handle.list()]


def test_the_retriever_is_gone(world, smb):
    """What is here works, what is not waits: never zeros."""
    d = world.dir()
    cold, here = world.file(d + "/cold"), world.file(d + "/here")
    smb.read_file(d + "/here")
    world.fill(d + "/here")
    smb.names(d)
    with smb.open(d + "/cold") as f:
        world.m.kill_retriever()
        try:
            waiting = f.send_read(BLOCK, 100)
            assert smb.read_file(d + "/here") == here
            assert smb.stat(d + "/cold").size == SIZE
            smb.write_file(d + "/new", b"new")
            assert smb.read_file(d + "/new") == b"new"
            assert not smb.arrived(waiting)
        finally:
            world.m.start_retriever()
        assert f.finish_read(waiting) == cold[BLOCK:BLOCK + 100]
        assert f.read() == cold


# -- locks -----------------------------------------------------------------------------

def test_locks_of_a_stub(world, smb):
    """A lock is the client's affair: filling goes on below it, and it outlives that."""
    d = world.dir()
    data = world.file(d + "/f")
    with smb.open(d + "/f", ALL) as mine, world.m.client() as other:
        mine.lock(BLOCK, BLOCK)
        with other.open(d + "/f", ALL) as theirs:
            for _ in ("stub", "normal"):
                assert smb_status(theirs.lock, BLOCK + 5, 1) == "LOCK_NOT_GRANTED"
                assert smb_status(theirs.read, BLOCK + 5, 1) == "FILE_LOCK_CONFLICT"
                assert smb_status(theirs.write, BLOCK + 5, b"x") == "FILE_LOCK_CONFLICT"
                assert theirs.read(0, 100) == data[:100]
                assert mine.read(BLOCK, 100) == data[BLOCK:BLOCK + 100]
                world.fill(d + "/f")
            mine.unlock(BLOCK, BLOCK)
            theirs.lock(BLOCK + 5, 1)


# -- copies ----------------------------------------------------------------------------

def test_a_copy_at_the_server_has_data(world, smb):
    """Neither holes nor the record come along."""
    d = world.dir()
    data = world.file(d + "/f", 3 * BLOCK + 7)
    with smb.open(d + "/f") as f, smb.open(d + "/copy", ALL, wire.CREATE_NEW) as copy:
        assert copy.copy_chunks(f, [(0, 0, 3 * BLOCK + 7)]) == 3 * BLOCK + 7
        assert copy.read() == data
    assert (world.volume / d / "copy").read_bytes() == data
    assert "trusted.postcopy" not in os.listxattr(world.volume / d / "copy")
    assert not smb.stat(d + "/copy").attributes & wire.ATTR_OFFLINE


def test_ranges_of_a_stub_are_all_data(world, smb):
    """A client that asks where data is must not skip what is only not here yet."""
    d = world.dir()
    world.file(d + "/f")
    with smb.open(d + "/f") as f:
        assert f.allocated_ranges(0, SIZE) == [(0, SIZE)]
        assert f.read(3 * BLOCK, 10) == world.models[d + "/f"][1][3 * BLOCK:3 * BLOCK + 10]
        assert f.allocated_ranges(0, SIZE) == [(0, SIZE)]


def test_zeroing_a_part_keeps_the_rest(world, smb):
    d = world.dir()
    data = bytearray(world.file(d + "/f"))
    with smb.open(d + "/f", ALL) as f:
        f.zero(BLOCK + 10, 3 * BLOCK)
        data[BLOCK + 10:3 * BLOCK] = bytes(2 * BLOCK - 10)
        assert f.read() == bytes(data)
    world.models[d + "/f"] = (None, bytes(data))


def test_cutting_and_extending(world, smb):
    d = world.dir()
    data = world.file(d + "/f")
    with smb.open(d + "/f", ALL) as f:
        f.truncate(BLOCK + 10)
        f.truncate(4 * BLOCK)
        want = data[:BLOCK + 10] + bytes(3 * BLOCK - 10)
        assert f.read() == want
    world.models[d + "/f"] = (None, want)


def test_overwriting_opens_fetch_nothing(world, smb):
    d = world.dir()
    world.file(d + "/f")
    smb.write_file(d + "/f", b"new")
    assert smb.read_file(d + "/f") == b"new" and world.reads(d + "/f") == []
    world.models[d + "/f"] = (None, b"new")


def test_streams_of_a_stub(world, smb):
    """A stream is made and read while the file itself is not here."""
    d = world.dir()
    world.file(d + "/f")
    smb.write_file(d + "/f:mine", pattern(5000))
    assert smb.read_file(d + "/f:mine") == pattern(5000)
    assert smb.streams(d + "/f") == {"::$DATA": SIZE, ":mine:$DATA": 5000}
    assert world.reads(d + "/f") == []
    world.fill(d + "/f")
    assert smb.read_file(d + "/f:mine") == pattern(5000)
    assert smb.streams(d + "/f") == {"::$DATA": SIZE, ":mine:$DATA": 5000}
