# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4.2: ALLOCATE, DEALLOCATE and SEEK at every relation to what is missing; the
operations that Ganesha does not have (READ_PLUS, COPY, ...) stay refused."""
import os

import pytest

from lib.case import BLOCK, SIZE, pattern
from lib.expect import same, status_of
from nfsclient import errors
from nfsclient.nfs4 import Compound

ATTR_CACHE = 0
PAGE = 4096
STUBS = ("partial", "some", "dummy", "cold")
# of a file whose blocks 1 and 3 are there in state "some"
RANGES = {
    "start": (0, PAGE),
    "inside_missing": (2 * BLOCK + PAGE, 2 * PAGE),
    "unaligned": (2 * BLOCK + 100, 5000),
    "inside_present": (BLOCK + PAGE, 2 * PAGE),
    "one_byte": (SIZE // 2, 1),
    "one_block": (3 * BLOCK, BLOCK),
    "into_present": (BLOCK - 5000, 10000),
    "out_of_present": (2 * BLOCK - 5000, 10000),
    "across_present": (BLOCK // 2, 2 * BLOCK),
    "several": (100, 4 * BLOCK),
    "whole": (0, SIZE),
    "more_than_whole": (0, SIZE + BLOCK),
    "to_the_end": (SIZE - 5000, 5000),
    "over_the_end": (SIZE - 5000, 10000),
    "at_the_end": (SIZE, 5000),
    "beyond": (SIZE + BLOCK, BLOCK),
}


def present(record, offset, length):
    """Nothing of the range is missing, neither now nor after a power cut."""
    return all(end <= offset or start >= offset + length for when in ("now", "durable")
               for start, end in record.get(when, []))


# -- DEALLOCATE -----------------------------------------------------------------------

@pytest.mark.parametrize("where", RANGES)
def test_deallocate(case, client42, state, where):
    """What is punched are the client's zeros, for good; one file is read at once."""
    offset, length = RANGES[where]
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    for name in ("now", "later"):
        with client42.opened(case.path(name), write=True) as f:
            before = client42.getattr(f.fh)
            client42.deallocate(f, offset, length)
            after = client42.getattr(f.fh)
        case.punch(name, offset, length)
        assert (after.size, after.mode, after.nlink) == (SIZE, before.mode, before.nlink)
        if offset < SIZE:
            assert after.mtime > before.mtime and after.change > before.change
        assert present(case.show(name), offset, length)
    same(client42.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("stub", STUBS)
def test_deallocate_fetches_nothing(case, client42, world, stub):
    case.file()
    case.enter(stub, "f")
    fetched = len(world.calls("READ", case.node("f")))
    client42.lookup(case.path("f"))
    with client42.opened(case.path("f"), write=True) as f:
        world.fake.pause()
        client42.patient(0).deallocate(f, 0, SIZE)
        same(client42.patient(0).read(f, 0, SIZE)[0], bytes(SIZE))
        world.fake.resume()
    case.punch("f", 0, SIZE)
    assert len(world.calls("READ", case.node("f"))) == fetched


@pytest.mark.parametrize("stub", STUBS)
def test_deallocate_then_write_into_it(case, client42, stub):
    case.file()
    case.enter(stub, "f")
    with client42.opened(case.path("f"), write=True) as f:
        client42.deallocate(f, BLOCK + 10, BLOCK)
        client42.write(f, BLOCK + 5000, b"island")
        client42.deallocate(f, BLOCK + 5002, 2)
    case.punch("f", BLOCK + 10, BLOCK)
    case.write("f", BLOCK + 5000, b"is\0\0nd")
    same(client42.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("stub", STUBS)
def test_deallocate_then_cut_and_extend(case, client42, stub):
    case.file()
    case.enter(stub, "f")
    with client42.opened(case.path("f"), write=True) as f:
        client42.deallocate(f, 2 * BLOCK, BLOCK)
        client42.setattr(f.fh, size=2 * BLOCK + 100)
        client42.setattr(f.fh, size=SIZE + 100)
    case.punch("f", 2 * BLOCK, BLOCK)
    case.resize("f", 2 * BLOCK + 100), case.resize("f", SIZE + 100)
    same(client42.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("allocate", [False, True])
def test_of_an_absurd_range(case, client42, state, allocate):
    """Offsets and lengths beyond all files: refused, and nothing is taken away."""
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f"), write=True) as f:
        op = client42.allocate if allocate else client42.deallocate
        for offset, length in (((1 << 64) - 2, 1), (10, (1 << 64) - 1), ((1 << 63) - 1, 10)):
            assert status_of(op, f, offset, length) in (errors.INVAL, errors.FBIG, errors.NOSPC)
        op(f, 100, 0)                                # of nothing: done
    assert client42.getattr(case.path("f")).size == SIZE
    same(client42.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("allocate", [False, True])
def test_without_an_open_for_writing(case, client42, state, allocate):
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f")) as f:
        op = client42.allocate if allocate else client42.deallocate
        assert status_of(op, f, 0, 1000) == errors.OPENMODE


# -- ALLOCATE -------------------------------------------------------------------------

@pytest.mark.parametrize("where", RANGES)
def test_allocate(case, client42, state, where):
    """Content stays, the size reaches at least so far; nothing is taken for present."""
    offset, length = RANGES[where]
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    for name in ("now", "later"):
        client42.getattr(case.path(name))
        missing = case.show(name).get("now", []) if state != "cold" else None
        with client42.opened(case.path(name), write=True) as f:
            before = client42.getattr(f.fh)
            client42.allocate(f, offset, length)
            after = client42.getattr(f.fh)
        case.resize(name, max(SIZE, offset + length))
        assert (after.size, after.mode) == (len(case.data(name)), before.mode)
        if missing is not None:
            assert case.show(name).get("now", []) == missing
    same(client42.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("stub", STUBS)
def test_allocate_fetches_nothing(case, client42, world, stub):
    case.file()
    case.enter(stub, "f")
    fetched = len(world.calls("READ", case.node("f")))
    with client42.opened(case.path("f"), write=True) as f:
        client42.getattr(f.fh)
        world.fake.pause()
        client42.patient(0).allocate(f, 0, SIZE + 10)
        world.settle()
        world.fake.resume()
    case.resize("f", SIZE + 10)
    assert len(world.calls("READ", case.node("f"))) == fetched


# -- SEEK -------------------------------------------------------------------------------

def local_segments(path, size):
    """What the file system itself says: [(offset, is data)], and where the last ends."""
    fd, at, found = os.open(path, os.O_RDONLY), 0, []
    try:
        while at < size:
            try:
                data = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:
                break
            hole = os.lseek(fd, data, os.SEEK_HOLE)
            found.append((data, hole))
            at = hole
    finally:
        os.close(fd)
    return found


def seek_model(case, client, name, size):
    """Sorted, disjoint data segments: what is local data, and what is missing."""
    assert client.getattr(case.path(name)).size == size      # a dummy knows none before
    record = case.show(name)
    segments = local_segments(case.world.volume / case.path(name), size)
    segments += [tuple(r) for r in record.get("now", [])] if record["stub"] else []
    merged = []
    for start, end in sorted(segments):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def expected(segments, size, at, hole):
    """(eof, offset or ANY) as RFC 7862 and stock Ganesha have it."""
    inside = [s for s in segments if s[0] <= at < s[1]]
    if hole:
        to = inside[0][1] if inside else at
        return to >= size, to
    after = [s[0] for s in segments if s[0] > at]
    to = at if inside else min(after) if after else None
    return to is None, to


def check_seeks(case, client, name, size):
    """Every interesting offset; and no hole hides a byte that is not zero."""
    segments = seek_model(case, client, name, size)
    edges = sorted({0, size - 1, *(e + d for s in segments for e in s for d in (-1, 0, 1))})
    with client.opened(case.path(name)) as f:
        for at in edges:
            if not 0 <= at < size:
                continue
            for hole in (False, True):
                eof, offset = client.seek(f, at, hole)
                want_eof, want = expected(segments, size, at, hole)
                assert eof == want_eof, (at, hole, segments)
                assert want is None or offset == want, (at, hole, offset, want, segments)
        at, data = 0, case.data(name)
        while at < size:
            _eof, to = client.seek(f, at, hole=True)
            if to >= size:
                break
            eof, at = client.seek(f, to)
            at = size if eof else at
            assert not any(data[to:at]), "a hole at %d hides data" % to
    return segments


def test_seek(case, client42, state):
    case.file()
    case.enter(state, "f")
    assert check_seeks(case, client42, "f", SIZE) == [(0, SIZE)]


def test_seek_with_holes_at_the_source(case, client42, state):
    """Its zeros are data as long as they are missing, whatever they are later."""
    data = bytes(2 * BLOCK) + pattern(BLOCK) + bytes(BLOCK) + b"end"
    case.file(data=data)
    case.enter(state, "f")
    check_seeks(case, client42, "f", len(data))
    same(client42.read_file(case.path("f")), data)
    check_seeks(case, client42, "f", len(data))


@pytest.mark.parametrize("where", RANGES)
def test_seek_after_a_punch(case, client42, state, where):
    """A punched block is a hole, and the only one."""
    offset, length = RANGES[where]
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f"), write=True) as f:
        client42.deallocate(f, offset, length)
    case.punch("f", offset, length)
    segments = check_seeks(case, client42, "f", SIZE)
    first, last = -(-offset // PAGE) * PAGE, min(offset + length, SIZE) // PAGE * PAGE
    if where == "inside_present" or (last > first and state != "normal"):
        assert all(end <= first or start >= last for start, end in segments), segments
    same(client42.read_file(case.path("f")), case.data("f"))
    check_seeks(case, client42, "f", SIZE)


@pytest.mark.parametrize("stub", STUBS)
def test_seek_after_extending(case, client42, stub):
    """What a truncate adds is a hole behind the missing data."""
    case.file()
    case.enter(stub, "f")
    size = SIZE + 4 * BLOCK
    client42.setattr(case.path("f"), size=size)
    case.resize("f", size)
    segments = check_seeks(case, client42, "f", size)
    assert segments[0][0] == 0 and SIZE <= segments[-1][1] < SIZE + PAGE
    with client42.opened(case.path("f"), write=True) as f:
        client42.write(f, SIZE + 2 * BLOCK, b"island")
    case.write("f", SIZE + 2 * BLOCK, b"island")
    assert len(check_seeks(case, client42, "f", size)) == 2


def test_seek_after_reserving(case, client42, state):
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f"), write=True) as f:
        client42.allocate(f, 0, SIZE + BLOCK)
    case.resize("f", SIZE + BLOCK)
    check_seeks(case, client42, "f", SIZE + BLOCK)
    same(client42.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("hole", [False, True])
def test_seek_beyond_the_end(case, client42, state, hole):
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f")) as f:
        for offset in (SIZE, SIZE + 1, 1 << 40):
            assert status_of(client42.seek, f, offset, hole) == errors.NXIO


@pytest.mark.parametrize("stub", ("partial", "some"))
def test_seek_asks_nobody(case, client42, world, stub):
    case.file()
    case.enter(stub, "f")
    with client42.opened(case.path("f")) as f:
        world.fake.pause()
        assert client42.patient(0).seek(f, 100) == (False, 100)
        assert client42.patient(0).seek(f, 100, hole=True) == (True, SIZE)
        world.fake.resume()


# -- what Ganesha does not have -------------------------------------------------------

def test_read_plus_is_refused(case, client42, world, state):
    """At once, whatever is missing: clients go on with READ."""
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f")) as f:
        fetched = len(world.calls("READ", case.node("f")))
        assert status_of(client42.patient(0).read_plus, f, 0, SIZE) == errors.NOTSUPP
        same(client42.read(f, 0, SIZE)[0], case.data("f"))
        world.settle()
        if state == "normal":
            assert len(world.calls("READ", case.node("f"))) == fetched


@pytest.mark.parametrize("stub", ("partial", "dummy"))
def test_read_plus_fetches_nothing(case, client42, world, stub):
    case.file()
    case.enter(stub, "f")
    with client42.opened(case.path("f")) as f:
        assert status_of(client42.read_plus, f, 0, SIZE) == errors.NOTSUPP
    world.settle()
    assert world.calls("READ", case.node("f")) == []


@pytest.mark.parametrize("clone", [False, True])
def test_server_side_copy_is_refused(case, client42, state, clone):
    """A copy of a stub inside the server would copy its holes."""
    case.file("from"), case.file("to", size=1000)
    case.enter(state, "from", "to")
    with client42.opened(case.path("from")) as a, \
            client42.opened(case.path("to"), write=True) as b:
        for length in (0, PAGE, SIZE):
            assert status_of(client42.copy, a, b, length, clone=clone) == errors.NOTSUPP
    same(client42.read_file(case.path("to")), case.data("to"))


def test_the_rest_of_4_2_is_refused(case, client42, state):
    case.file()
    case.enter(state, "f")
    with client42.opened(case.path("f"), write=True) as f:
        here = Compound().putfh
        for compound in (here(f.fh).copy_notify(f.stateid),
                         here(f.fh).offload_status(f.stateid),
                         here(f.fh).offload_cancel(f.stateid)):
            assert status_of(client42.run, compound) == errors.NOTSUPP
    same(client42.read_file(case.path("f")), case.data("f"))
