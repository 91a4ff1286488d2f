# SPDX-License-Identifier: GPL-3.0-or-later
"""Byte-range locks of NFSv4 on stubs: they need nothing of the old server, never answer
DELAY, and a fill neither takes nor gives one."""
import pytest

from lib.case import BLOCK, PLACES, SIZE
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.hooks import Gate, only

ATTR_CACHE = 0
END = (1 << 64) - 1
RANGES = {"start": (0, 100), "inside": (BLOCK + 5, 3 * BLOCK), "last": (SIZE - 1, 1),
          "behind": (SIZE + 1000, 50), "all": (0, END)}


@pytest.fixture
def other(world, client4):
    """Another client of the same protocol, another owner."""
    with world.client(client4.proto) as c:
        yield c


def refused(client, f, offset, length, owner="z", **kw):
    """LOCK is denied, at once; returns by what."""
    with pytest.raises(NfsError) as info:
        client.patient(0).lock(f, offset, length, owner=owner, **kw)
    assert info.value.status == errors.DENIED
    return info.value.denied


@pytest.mark.parametrize("span", RANGES)
def test_two_clients(case, client4, other, place, span):
    case.file()
    case.enter(place, "f")
    offset, length = RANGES[span]
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    client4.lock(mine, offset, length)
    assert refused(other, yours, offset, length)
    assert refused(other, yours, 0, END, exclusive=False)
    assert other.locktest(case.path("f"), offset, 1)
    assert client4.locktest(case.path("f"), offset, 1) is None      # one's own
    client4.unlock(mine, offset, length)
    assert other.locktest(case.path("f"), offset, length) is None
    other.lock(yours, offset, length, owner="z")
    assert refused(client4, mine, offset, length, owner="y")
    other.close_file(yours), client4.close_file(mine)


def test_two_owners_of_one_client(case, client4, place):
    case.file()
    case.enter(place, "f")
    f, g = (client4.open(case.path("f"), write=True) for _ in range(2))
    client4.lock(f, 10, 10, owner="one")
    assert refused(client4, g, 15, 1, owner="two")
    client4.lock(g, 20, 10, owner="two")
    assert refused(client4, f, 10, 11, owner="one")
    client4.unlock(f, 12, 5, owner="one")           # out of the middle
    assert client4.locktest(case.path("f"), 12, 5, owner="three") is None
    assert client4.locktest(case.path("f"), 11, 1, owner="three")
    assert client4.locktest(case.path("f"), 17, 1, owner="three")
    client4.close_file(f), client4.close_file(g)


def test_shared_locks(case, client4, other, place):
    case.file()
    case.enter(place, "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    client4.lock(mine, 0, END, exclusive=False)
    other.lock(yours, 0, END, exclusive=False, owner="z")
    assert refused(client4, mine, 0, 1, owner="y", exclusive=True)
    other.close_file(yours)
    client4.lock(mine, 0, 100, exclusive=True)       # upgrade
    assert other.locktest(case.path("f"), 0, 1, exclusive=False)
    client4.close_file(mine)
    assert other.locktest(case.path("f"), 0, END) is None


def test_by_another_name(case, client4, other):
    """Two names of the old server's inode, the second not known when the first is locked."""
    for d in "ab":
        case.dir(d)
    case.file("a/x")
    case.hardlink("b/y", "a/x")
    mine = client4.open(case.path("a/x"), write=True)
    client4.lock(mine, 0, 100)
    yours = other.open(case.path("b/y"), write=True)
    assert refused(other, yours, 50, 1)
    client4.close_file(mine)
    other.lock(yours, 50, 1)
    other.close_file(yours)


# -- a fill and locks have nothing to do with each other ------------------------------

@pytest.mark.parametrize("stub", [p for p in PLACES if p != "normal"])
def test_locks_survive_a_fill(case, client4, other, stub):
    case.file()
    case.enter(stub, "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    client4.lock(mine, 100, BLOCK)
    client4.lock(mine, 3 * BLOCK, 10, exclusive=False)
    case.world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")
    assert refused(other, yours, 100, 1)
    assert refused(other, yours, 3 * BLOCK, 1)
    other.lock(yours, 3 * BLOCK, 1, exclusive=False, owner="z")
    other.lock(yours, 0, 100, owner="z")
    client4.unlock(mine, 100, BLOCK)
    other.lock(yours, 100, BLOCK, owner="z")
    same(client4.read(mine, 0, SIZE)[0], case.data("f"))
    client4.close_file(mine), other.close_file(yours)
    assert client4.locktest(case.path("f"), 0, END) is None


def test_locks_do_not_keep_a_fill_off(case, client4, other, world):
    """Everything is locked by one; the other still reads, and the bytes come."""
    case.file()
    case.enter("partial", "f")
    mine = client4.open(case.path("f"), write=True)
    client4.lock(mine, 0, END)
    same(other.read_file(case.path("f")), case.data("f"))
    client4.write(mine, 10, b"under the lock")
    case.write("f", 10, b"under the lock")
    assert other.locktest(case.path("f"), 0, 1)
    client4.close_file(mine)


@pytest.mark.parametrize("stub", ["partial", "some", "cold", "looked"])
def test_never_delay(case, client4, other, world, stub):
    """The old server is silent; a file is open, half of it missing: locks work."""
    case.file()
    case.enter(stub, "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    fh = mine.fh
    world.fake.pause()
    hasty, delays = client4.patient(0), client4.delays + other.delays
    hasty.lock(mine, 0, 100)
    hasty.lock(mine, 2 * BLOCK, END, exclusive=False)
    assert refused(other, yours, 50, 1)
    assert other.patient(0).locktest(fh, 2 * BLOCK, 1)
    hasty.unlock(mine, 0, 100)
    other.patient(0).lock(yours, 0, 100, owner="z")
    hasty.close_file(mine), other.patient(0).close_file(yours)
    assert client4.delays + other.delays == delays
    world.fake.resume()
    same(client4.read_file(case.path("f")), case.data("f"))


def test_never_delay_for_a_dummy(case, client4, other, world):
    """Its attributes went missing after the open; a lock does not ask for them."""
    case.file()
    case.enter("partial", "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    world.stubtool("dummy", case.path("f"))
    world.fake.pause()
    client4.patient(0).lock(mine, 0, 100)
    assert refused(other, yours, 50, 1)
    client4.patient(0).unlock(mine, 0, 100)
    other.patient(0).lock(yours, 0, 100, owner="z")
    assert client4.delays == other.delays == 0
    world.fake.resume()
    client4.close_file(mine), other.close_file(yours)
    same(client4.read_file(case.path("f")), case.data("f"))


def test_while_it_is_filled(case, client4, other, world):
    """The reader waits for a held READ; who locks does not."""
    case.file()
    case.enter("partial", "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    gate, node = Gate(), case.node("f")
    world.fake.hook("READ", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client4.patient(0).read, mine, 0, 100) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a READ at the old server")
        client4.patient(0).lock(mine, 0, 100)
        assert refused(other, yours, 0, 100)
        client4.patient(0).unlock(mine, 0, 50)
        other.patient(0).lock(yours, 0, 50, owner="z")
    finally:
        gate.open()
    same(client4.read(mine, 0, SIZE)[0], case.data("f"))
    assert refused(other, yours, 60, 1)
    assert refused(client4, mine, 10, 1, owner="y")
    client4.close_file(mine), other.close_file(yours)


def test_the_retriever_dies(case, client4, other, world):
    """Locks are the server's; the retriever's death and return change none."""
    case.file()
    case.enter("some", "f")
    mine, yours = (c.open(case.path("f"), write=True) for c in (client4, other))
    client4.lock(mine, 0, 100)
    world.m.kill_retriever()
    try:
        assert refused(other, yours, 50, 1)
        client4.patient(0).lock(mine, 100, 100)
    finally:
        world.m.start_retriever()
    world.stubtool("ask", case.path("f"), "fill")
    assert refused(other, yours, 150, 1)
    client4.close_file(mine), other.close_file(yours)


# -- names come and go -----------------------------------------------------------------

def test_locks_move_with_the_file(case, client4, other, place):
    case.file()
    case.dir("to")
    case.enter(place, "f")
    mine = client4.open(case.path("f"), write=True)
    client4.lock(mine, 0, 100)
    client4.rename(case.path("f"), case.path("to/g"))
    case.moved("f", "to/g")
    yours = other.open(case.path("to/g"), write=True)
    assert refused(other, yours, 50, 1)
    client4.close_file(mine)
    other.lock(yours, 50, 1)
    other.close_file(yours)


def test_locks_of_a_removed_file(case, client4, place):
    """They are no one's but the open's; a new file of the name has none."""
    case.file()
    case.enter(place, "f")
    f = client4.open(case.path("f"), write=True)
    client4.lock(f, 0, END)
    client4.remove(case.path("f"))
    case.gone("f")
    client4.create(case.path("f"), how="guarded")
    case.made("f", data=b"")
    assert client4.locktest(case.path("f"), 0, END, owner="b") is None
    assert refused(client4, f, 0, 1, owner="b")
    client4.unlock(f, 0, END)
    client4.close_file(f)
