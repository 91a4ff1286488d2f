# SPDX-License-Identifier: GPL-3.0-or-later
"""WRITE and COMMIT on stubs: at once, without the old server, for good."""
import pytest

from lib.case import BLOCK, SIZE, pattern
from lib.expect import same, status_of
from nfsclient import errors
from nfsclient.nfstypes import UNSTABLE

WRITES = {
    "whole": (0, SIZE),
    "more_than_whole": (0, SIZE + 5000),
    "start": (0, 100),
    "inside_a_block": (BLOCK + 100, 500),
    "one_block": (2 * BLOCK, BLOCK),
    "across_a_boundary": (2 * BLOCK - 50, 100),
    "several_blocks": (BLOCK // 2, 3 * BLOCK),
    "one_byte": (SIZE // 2 + 1, 1),
    "last_bytes": (SIZE - 10, 10),
    "over_the_end": (SIZE - 10, 50),
    "append": (SIZE, 777),
    "beyond": (SIZE + 2 * BLOCK + 5, 300),
}
STUBS = ("partial", "some", "dummy", "cold")


@pytest.mark.parametrize("where", WRITES)
def test_write(case, client, state, where):
    """One WRITE; one file is read at once, the other left to the crawl."""
    offset, length = WRITES[where]
    data = pattern(length, seed=7)
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    for name in ("now", "later"):
        before = client.getattr(case.path(name))
        assert client.write(case.path(name), offset, data).count == length
        case.write(name, offset, data)
        after = client.getattr(case.path(name))
        assert after.size == len(case.data(name))
        assert after.mtime > before.mtime and after.ctime > before.ctime
        assert (after.mode, after.nlink) == (before.mode, before.nlink)
        if after.change is not None:
            assert after.change > before.change
    same(client.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("where", ["start", "inside_a_block", "append", "beyond"])
def test_a_write_fetches_nothing(case, client, world, where):
    case.file()
    case.enter("partial", "f")
    world.fake.hook("READ", lambda *_: pytest.fail("READ"))
    client.write(case.path("f"), WRITES[where][0], b"x" * WRITES[where][1])
    case.write("f", WRITES[where][0], b"x" * WRITES[where][1])
    assert world.calls("READ", case.node("f")) == []
    world.fake.clear_hooks()


def test_a_whole_write_needs_no_fetch_ever(case, client, world):
    case.file()
    case.enter("partial", "f")
    client.write(case.path("f"), 0, b"y" * SIZE)
    case.write("f", 0, b"y" * SIZE)
    same(client.read_file(case.path("f")), case.data("f"))
    assert world.calls("READ", case.node("f")) == []


def test_write_while_the_old_server_is_gone(case, client, world):
    case.file()
    case.enter("partial", "f")
    client.lookup(case.path("f"))
    world.fake.pause()
    client.patient(0).write(case.path("f"), 1000, b"here")
    assert client.read(case.path("f"), 1000, 4)[0] == b"here"
    world.fake.resume()
    case.write("f", 1000, b"here")


def test_many_writes_in_any_order(case, client, state):
    case.file()
    case.enter(state, "f")
    for i in (5, 1, 4, 2, 0, 3):
        offset, data = i * BLOCK + i * 11, bytes([0x40 + i]) * (1000 + i)
        client.write(case.path("f"), offset, data)
        case.write("f", offset, data)
    same(client.read_file(case.path("f"), chunk=100001), case.data("f"))


@pytest.mark.parametrize("stub", STUBS)
def test_write_then_read_pieces(case, client, stub):
    """Reads that end in, begin in and span what a client wrote."""
    case.file()
    case.enter(stub, "f")
    client.write(case.path("f"), 3000, b"Z" * 2000)
    case.write("f", 3000, b"Z" * 2000)
    for offset, count in ((2000, 2000), (3500, 100), (4000, 3000), (0, BLOCK + 1)):
        data, _eof = client.read(case.path("f"), offset, count)
        same(data, case.data("f")[offset:offset + count])


@pytest.mark.parametrize("stub", STUBS)
def test_the_gap_of_an_extension_is_zeros(case, client, stub):
    case.file()
    case.enter(stub, "f")
    client.write(case.path("f"), SIZE + 3000, b"end")
    case.write("f", SIZE + 3000, b"end")
    data, _ = client.read(case.path("f"), SIZE - 4, 3007)
    same(data, case.data("f")[-3007:])


def test_fragments_beyond_the_record(case, client):
    """More islands than a map holds: fetching makes room, nothing is lost."""
    case.file()
    case.enter("partial", "f")
    with client.opened(case.path("f"), write=True) as f:
        for i in range(400):
            client.write(f, i * 800 + 1, b"#", UNSTABLE)
            case.write("f", i * 800 + 1, b"#")
        client.commit(f.fh)
    assert len(case.show("f").get("now", [])) <= 320
    same(client.read_file(case.path("f")), case.data("f"))


def test_empty_write_changes_nothing(case, client):
    case.file()
    case.enter("partial", "f")
    client.write(case.path("f"), 100, b"")
    assert client.getattr(case.path("f")).size == SIZE


def test_write_at_the_end_of_offsets(case, client):
    case.file()
    case.enter("partial", "f")
    assert status_of(client.write, case.path("f"), (1 << 64) - 2, b"abc") in (
        errors.FBIG, errors.INVAL)


# -- COMMIT -------------------------------------------------------------------

@pytest.mark.parametrize("stub", ("partial", "some", "dummy"))
def test_unstable_write_becomes_durable_by_commit(case, client, stub):
    case.file()
    case.enter(stub, "f")
    result = client.write(case.path("f"), 100, b"u" * 1000, UNSTABLE)
    case.write("f", 100, b"u" * 1000)
    record = case.show("f")
    assert all(not start <= 100 < end for start, end in record["now"])
    assert client.commit(case.path("f")) == result.verifier
    record = case.show("f")
    assert record["now"] == record["durable"]


def test_stable_write_is_durable_with_its_record(case, client):
    case.file()
    case.enter("partial", "f")
    client.write(case.path("f"), 5 * BLOCK, b"s" * 10)
    case.write("f", 5 * BLOCK, b"s" * 10)
    record = case.show("f")
    assert record["now"] == record["durable"] == [[0, 5 * BLOCK], [5 * BLOCK + 10, SIZE]]


def test_commit_without_a_write(case, client, state):
    case.file()
    case.enter(state, "f")
    client.commit(case.path("f"))
    assert client.getattr(case.path("f")).size == SIZE


def test_commit_fetches_nothing(case, client, world):
    case.file()
    case.enter("partial", "f")
    client.write(case.path("f"), 10, b"abc", UNSTABLE)
    client.commit(case.path("f"), 0, 0)
    case.write("f", 10, b"abc")
    assert world.calls("READ", case.node("f")) == []


def test_write_through_an_open_file(case, client, state):
    case.file()
    case.enter(state, "f")
    with client.opened(case.path("f"), write=True) as f:
        client.write(f, 77, b"through", UNSTABLE)
        client.write(f, SIZE + 1, b"end", UNSTABLE)
        client.commit(f.fh)
        assert client.read(f, 77, 7)[0] == b"through"
    case.write("f", 77, b"through")
    case.write("f", SIZE + 1, b"end")
