# SPDX-License-Identifier: GPL-3.0-or-later
"""READ and READLINK on stubs: never zeros for data, and a fill moves nothing."""
import pytest

from lib.case import BLOCK, OLD, SIZE
from lib.expect import same, status_of, view
from nfsclient import errors
from nfsclient.hooks import delay, only

ATTR_CACHE = 0           # clients see what is, not what MDCACHE remembers
PIECES = {
    "start": (0, 100),
    "inside": (BLOCK + 17, 4000),
    "one_byte": (SIZE // 2, 1),
    "across_blocks": (2 * BLOCK - 100, 200),
    "many_blocks": (100, 4 * BLOCK),
    "whole": (0, SIZE),
    "to_the_end": (SIZE - 50, 50),
    "over_the_end": (SIZE - 50, 1000),
}


@pytest.mark.parametrize("piece", PIECES)
def test_read(case, client, state, piece):
    case.file()
    case.enter(state, "f")
    offset, count = PIECES[piece]
    data, eof = client.read(case.path("f"), offset, count)
    same(data, case.data("f")[offset:offset + count])
    assert eof == (offset + count >= SIZE)


def test_read_beyond_the_end(case, client, state):
    case.file()
    case.enter(state, "f")
    assert client.read(case.path("f"), SIZE, 100) == (b"", True)
    assert client.read(case.path("f"), SIZE + 10 * BLOCK, 100) == (b"", True)


def test_read_through_an_open_file(case, client, state):
    case.file()
    case.enter(state, "f")
    with client.opened(case.path("f")) as f:
        same(client.read(f, 1000, 3 * BLOCK)[0], case.data("f")[1000:1000 + 3 * BLOCK])


@pytest.mark.parametrize("size", [1, 4095, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_sizes_around_blocks(case, client, size):
    case.file(size=size)
    same(client.read_file(case.path("f")), case.data("f"))


def test_an_empty_file_is_normal(case, client):
    case.file(size=0)
    case.list()
    assert not case.show("f")["stub"]
    assert client.read(case.path("f"), 0, 100) == (b"", True)


def test_zeros_of_the_source_are_data(case, client):
    """What is a hole there reads as zeros here, and is not taken for missing."""
    case.file(data=bytes(2 * BLOCK) + b"x" + bytes(BLOCK))
    case.enter("partial", "f")
    same(client.read_file(case.path("f")), case.data("f"))


def test_read_fetches_the_block_only(case, client, world):
    case.file()
    case.enter("partial", "f")
    client.read(case.path("f"), 2 * BLOCK + 5, 10)
    world.settle()
    touched = [(c.offset, c.count) for c in world.calls("READ", case.node("f"))]
    assert touched and all(2 * BLOCK <= o and o + n <= 3 * BLOCK for o, n in touched)
    assert case.show("f")["now"] == [[0, 2 * BLOCK], [3 * BLOCK, SIZE]]


def test_what_was_read_is_not_fetched_again(case, client, world):
    case.file()
    case.enter("partial", "f")
    for _ in range(3):
        client.read(case.path("f"), 0, BLOCK)
    assert sum(c.count for c in world.calls("READ", case.node("f"))) == BLOCK


@pytest.mark.parametrize("stub", ["partial", "dummy", "cold"])
def test_opening_and_looking_fetch_no_data(case, client, world, stub):
    case.file()
    case.enter(stub, "f")
    with client.opened(case.path("f"), write=True):
        client.getattr(case.path("f"))
        client.access(case.path("f"), 0x3f)
    client.listdir(case.path())
    world.settle()
    assert world.calls("READ", case.node("f")) == []


def test_old_server_gone(case, client, world):
    """DELAY, neither zeros nor a short file; what is here is still served."""
    case.file()
    case.enter("some", "f")
    client.lookup(case.path("f"))
    world.fake.pause()
    hasty = client.patient(0)
    for offset, count in ((0, 10), (BLOCK - 10, 20), (SIZE - 10, 10)):
        assert status_of(hasty.read, case.path("f"), offset, count) == errors.DELAY
    same(hasty.read(case.path("f"), BLOCK, BLOCK)[0], case.data("f")[BLOCK:2 * BLOCK])
    world.fake.resume()
    same(client.read_file(case.path("f")), case.data("f"))


def test_slow_source(case, client, world):
    case.file()
    case.enter("partial", "f")
    world.fake.hook("READ", only(lambda call: call.node is case.node("f"), delay(0.6)))
    same(client.read_file(case.path("f")), case.data("f"))
    world.fake.clear_hooks()


def test_short_reads_of_the_source(case, client, world):
    case.file()
    case.enter("partial", "f")
    world.fake.read_limit = 10000
    try:
        same(client.read_file(case.path("f")), case.data("f"))
    finally:
        world.fake.read_limit = None


def test_dummy_needs_its_attributes_for_reading(case, client3):
    case.file()
    case.enter("dummy", "f")
    assert case.show("f")["local"]["size"] == 0
    same(client3.read(case.path("f"), 0, 1 << 20)[0], case.data("f"))


# -- a fill is invisible ----------------------------------------------------------

@pytest.mark.parametrize("stub", ["partial", "some", "dummy", "cold"])
def test_a_fill_moves_nothing(case, client, world, stub):
    case.file()
    case.enter(stub, "f")
    before = view(client.getattr(case.path("f")))
    assert (before["size"], before["mtime"]) == (SIZE, case.node("f").mtime)
    assert before["ctime"] == case.node("f").ctime
    for offset in (0, 2 * BLOCK) if stub == "some" else (0, 2 * BLOCK, 4 * BLOCK):
        client.read(case.path("f"), offset, 10)         # some: with 4 the rest would come, too
        assert view(client.getattr(case.path("f"))) == before
    client.read_file(case.path("f"))
    case.finished("f")
    after = view(client.getattr(case.path("f")))
    assert after["ctime"] >= before["ctime"]       # never back, when the stub is no more
    if after["change"] is not None:
        assert after["change"] >= before["change"]
    for key in ("ctime", "change"):
        del before[key], after[key]
    assert after == before


@pytest.mark.parametrize("stub", ["partial", "dummy"])
def test_the_crawlers_fill_moves_nothing(case, client3, stub):
    case.file()
    case.enter(stub, "f")
    before = client3.getattr(case.path("f"))
    case.enter("normal", "f")
    after = client3.getattr(case.path("f"))
    for key in ("size", "mode", "uid", "gid", "mtime", "atime", "nlink", "fileid"):
        assert getattr(after, key) == getattr(before, key), key


def test_a_fill_after_a_change_keeps_the_change(case, client):
    """mtime that a client set, and ctime of it, stay through the fill."""
    case.file()
    case.enter("partial", "f")
    client.setattr(case.path("f"), mtime=OLD + 12345)
    before = view(client.getattr(case.path("f")))
    client.read(case.path("f"), 0, SIZE)
    seen = view(client.getattr(case.path("f")))
    if case.show("f")["stub"]:
        assert seen == before
    case.finished("f")
    assert client.getattr(case.path("f")).mtime == OLD + 12345
    case.items["f"].mtime = OLD + 12345


def test_used_space_of_a_stub_hides_its_holes(case, client):
    """tar --sparse takes a file without blocks for one hole."""
    case.file()
    case.enter("partial", "f")
    assert client.getattr(case.path("f")).used >= SIZE


# -- READLINK ------------------------------------------------------------------

@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("target", ["f", "../..", "/etc/passwd", "no such \xff thing", "x" * 1000])
def test_readlink(case, client, listed, target):
    case.symlink("l", target.encode("latin-1"))
    if listed:
        case.list()
    fh, attrs = client.lookup(case.path("l"))
    assert attrs.size == len(target)
    assert client.readlink(fh) == target.encode("latin-1")


def test_readlink_of_a_file(case, client):
    case.file()
    case.enter("partial", "f")
    assert status_of(client.readlink, case.path("f")) == errors.INVAL


def test_reads_by_many_clients_fetch_once(case, world):
    """Joined requests: one fetch, many waiters."""
    case.file(size=BLOCK)
    case.enter("partial", "f")
    world.fake.hook("READ", only(lambda call: call.node is case.node("f"), delay(0.2)))
    clients = [world.client(p) for p in ("v3", "v4.0", "v4.1", "v3")]
    try:
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda c: c.read(case.path("f"), 10, 1000)[0], clients))
    finally:
        for c in clients:
            c.close()
    world.fake.clear_hooks()
    for data in got:
        same(data, case.data("f")[10:1010])
    assert sum(c.count for c in world.calls("READ", case.node("f"))) == BLOCK
