# SPDX-License-Identifier: GPL-3.0-or-later
"""Over SMB, on objects in every state: read, write, truncate, punch, copy, streams.  What a
client has written stays, what it has not is the old server's."""
import pytest

from lib.case import ANY, BLOCK, SIZE, pattern
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.world import BothWorld
from smb2client import wire

WORLD = BothWorld


def test_read(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f")) as f:
        assert f.size == SIZE
        same(f.read(BLOCK - 10, 20), case.data("f")[BLOCK - 10:BLOCK + 10])
        same(f.read(SIZE - 5, 100), case.data("f")[-5:])
        same(f.read(), case.data("f"))
        assert f.read(SIZE, 10) == b""


def test_write_in_the_middle(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.write(BLOCK + 5, b"x" * 1000)
        case.write("f", BLOCK + 5, b"x" * 1000)
        f.write(3 * BLOCK - 3, b"yyyyyy")
        case.write("f", 3 * BLOCK - 3, b"yyyyyy")
        same(f.read(), case.data("f"))


def test_write_without_reading(case, smb, place):
    """The rest comes from the old server afterwards."""
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.write(0, b"first")
        case.write("f", 0, b"first")
        f.write(SIZE - 1, b"beyond the end")
        case.write("f", SIZE - 1, b"beyond the end")
        f.write(SIZE + BLOCK, b"far")
        case.write("f", SIZE + BLOCK, b"far")


def test_flush(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.write(7, b"flushed")
        f.flush()
        case.write("f", 7, b"flushed")
        f.write(2 * BLOCK, b"not flushed")
        case.write("f", 2 * BLOCK, b"not flushed")
    show = case.show("f")
    if show["stub"] and "durable" in show:
        assert not any(start <= 7 < end for start, end in show["durable"]), show


@pytest.mark.parametrize("size", [0, 1, BLOCK + 7, SIZE - 1, SIZE, SIZE + 1, SIZE + 3 * BLOCK])
def test_truncate(case, smb, place, size):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.truncate(size)
        if size != SIZE:
            case.resize("f", size)
        assert f.info().size == size
        same(f.read(), case.data("f"))


def test_cut_and_extended(case, smb, place):
    """What was cut off is zeros, not the old server's again."""
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        for size in (BLOCK + 100, 4 * BLOCK):
            f.truncate(size)
            case.resize("f", size)
        same(f.read(), case.data("f"))


@pytest.mark.parametrize("disposition", ["OVERWRITE", "OVERWRITE_IF", "SUPERSEDE"])
def test_overwritten_by_open(case, smb, place, disposition):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL, getattr(wire, disposition)) as f:
        case.resize("f", 0)
        assert f.read() == b"" and f.info().size == 0
        f.write(10, b"new")
        case.write("f", 10, b"new")
        same(f.read(), case.data("f"))


def test_zeroed(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        for start, end in ((BLOCK + 10, 2 * BLOCK - 10), (3 * BLOCK, 5 * BLOCK)):
            f.zero(start, end)
            case.punch("f", start, end - start)
        same(f.read(), case.data("f"))


def test_zeroed_unread(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.zero(10, 4 * BLOCK)
    case.punch("f", 10, 4 * BLOCK - 10)


def test_allocated_ranges(case, smb, place):
    """What is missing is data."""
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        assert f.allocated_ranges(0, SIZE) == [(0, SIZE)]


def test_allocated_ranges_of_a_sparse_file(case, smb, place):
    """Without the flag smbd says that all of it is; with it, it seeks."""
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.ioctl(wire.FSCTL_SET_SPARSE)
        assert f.allocated_ranges(0, SIZE) == [(0, SIZE)]
        f.zero(BLOCK, 2 * BLOCK)
        case.punch("f", BLOCK, BLOCK)
        assert f.allocated_ranges(0, SIZE) == [(0, BLOCK), (2 * BLOCK, SIZE - 2 * BLOCK)]
        assert f.allocated_ranges(BLOCK, BLOCK) == []
        assert f.allocated_ranges(2 * BLOCK - 1, 2) == [(2 * BLOCK, 1)]


def test_copied_from(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f")) as f, \
            smb.open(case.path("copy"), ALL, wire.CREATE_NEW) as to:
        case.made("copy").data = b"\0" * 7 + case.data("f")[10:SIZE]
        assert to.copy_chunks(f, [(10, 7, SIZE - 10)]) == SIZE - 10
        same(to.read(), case.data("copy"))


def test_copied_to(case, smb, place):
    """The target is the stub: its other bytes are still the old server's."""
    case.file("f")
    case.file("from")
    case.enter(place, "f")
    with smb.open(case.path("from")) as f, smb.open(case.path("f"), ALL) as to:
        assert to.copy_chunks(f, [(0, BLOCK + 5, 2 * BLOCK)]) == 2 * BLOCK
        case.write("f", BLOCK + 5, case.data("from")[:2 * BLOCK])
        same(to.read(), case.data("f"))


def test_copied_within(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        assert f.copy_chunks(f, [(0, 3 * BLOCK, BLOCK)]) == BLOCK
        case.write("f", 3 * BLOCK, case.data("f")[:BLOCK])
        same(f.read(), case.data("f"))


def test_extents_are_not_shared(case, smb, place):
    """No clone of holes."""
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f")) as f, \
            smb.open(case.path("twin"), ALL, wire.CREATE_NEW) as to:
        case.made("twin")
        key = f.ioctl(0x140078)[:24]           # whatever a resume key is worth
        assert smb_status(to.ioctl, 0x98344, key + bytes(24)) != "OK"
        assert to.read() == b""


def test_many_small_writes(case, smb, state):
    """More ranges than a record holds: room is made."""
    case.file(size=700 * 4096)
    case.enter(state, "f")
    with smb.open(case.path("f"), ALL) as f:
        for i in range(350):
            f.write(i * 8192 + 100, b"%04d" % i)
            case.write("f", i * 8192 + 100, b"%04d" % i)
        same(f.read(), case.data("f"))


def test_two_protocols(case, smb, client3, place):
    """Each sees at once what the other has written."""
    case.file()
    case.enter(place, "f")
    path = case.path("f")
    with smb.open(path, ALL) as f:
        f.write(10, b"by smb")
        case.write("f", 10, b"by smb")
        same(client3.read_file(path), case.data("f"))
        client3.write(path, 2 * BLOCK, b"by nfs")
        case.write("f", 2 * BLOCK, b"by nfs")
        same(f.read(), case.data("f"))


def test_streams(case, smb, place):
    case.file()
    case.enter(place, "f")
    path = case.path("f")
    smb.write_file(path + ":s", pattern(3000))
    assert smb.read_file(path + ":s") == pattern(3000)
    assert smb.streams(path) == {"::$DATA": SIZE, ":s:$DATA": 3000}
    same(smb.read_file(path), case.data("f"))
    smb.remove(path + ":s")
    assert smb.streams(path) == {"::$DATA": SIZE}
    case.items["f"].mtime = ANY          # as smbd does


def test_a_file_made_and_filled(case, smb):
    """Nothing of a stub: made over SMB in a directory of the old server."""
    data = pattern(SIZE)
    smb.write_file(case.path("new"), data)
    case.made("new").data = data
    same(smb.read_file(case.path("new")), data)
    assert not smb.stat(case.path("new")).attributes & wire.ATTR_OFFLINE
