# SPDX-License-Identifier: GPL-3.0-or-later
"""Thousands of small writes all over a large stub: its record keeps to its budget, the
file stays exact, and the writes cost few fetches (docs/decisions/0009)."""
import os
import random

import pytest

from lib.expect import same
from nfsclient import errors
from nfsclient.faketree import Pattern
from nfsclient.nfstypes import FILE_SYNC, UNSTABLE

ATTR_CACHE = 0
GIB = 1 << 30
PAGE = 4096
RECORD_MAX, MAP_MAX, MAP_WRITES = 3072, 320, 256
RECORD = "trusted.postcopy"


class Big:
    """A large stub and its model: the pages that a client wrote or punched."""

    def __init__(self, case, name="big", size=GIB, seed=3):
        self.case, self.name, self.size = case, name, size
        self.content, self.pages = Pattern(size, seed), {}
        case.free = True                            # compared here, not by the world
        self.path = case.file(name, data=self.content)
        self.local = case.world.volume / self.path

    def put(self, page, data):
        assert len(data) == PAGE
        self.pages[page] = data

    def expected(self, offset, count):
        data = bytearray(self.content.read(offset, count))
        for page in range(offset // PAGE, (offset + count + PAGE - 1) // PAGE):
            if page in self.pages:
                at = page * PAGE - offset
                head = max(0, -at)
                piece = self.pages[page][head:min(PAGE, count - at)]
                data[at + head:at + head + len(piece)] = piece
        return bytes(data)

    def check_record(self):
        record = self.case.show(self.name)
        if record["stub"]:
            assert len(os.getxattr(self.local, RECORD)) <= RECORD_MAX
            assert len(record.get("now", [])) <= MAP_MAX
            assert len(record.get("durable", [])) <= MAP_MAX

    def check_all(self):
        """The whole local file; it is normal now."""
        with open(self.local, "rb") as f:
            for offset in range(0, self.size, 1 << 20):
                same(f.read(1 << 20), self.expected(offset, min(1 << 20, self.size - offset)))

    def fetched(self):
        calls = self.case.world.calls("READ", self.case.node(self.name))
        return len(calls), sum(c.count for c in calls)


@pytest.fixture(scope="module")
def loop_xfs(new_volume):
    return new_volume("xfs", "8G")


@pytest.fixture
def big(case, request):
    """Gone again at the end, so that nobody crawls a gibibyte."""
    b = Big(case, size=getattr(request, "param", GIB // 4))
    yield b
    case.world.fake.resume()
    with case.world.client("v3") as c:
        c.remove(b.path)
    case.world.settle()                     # what is still being fetched of it
    case.world.tree.unlink(case.source, b.name)


def pages_of(rnd, size, count):
    return rnd.sample(range(size // PAGE), count)


@pytest.fixture
def client(world):
    with world.client("v4.1") as c:
        yield c


@pytest.mark.parametrize("how,big", [("stable", GIB), ("unstable", GIB // 4),
                                     ("mixed", GIB // 4)], indirect=["big"])
def test_random_writes(case, client, big, how):
    """Less than one READ for each write, and no byte is fetched twice."""
    count = 1000 if how == "mixed" else 2000
    rnd = random.Random(how)
    case.enter("partial", "big")
    with client.opened(big.path, write=True) as f:
        for i, page in enumerate(pages_of(rnd, big.size, count)):
            data = rnd.randbytes(PAGE)
            stable = how == "stable" or (how == "mixed" and i % 3 == 0)
            client.write(f, page * PAGE, data, FILE_SYNC if stable else UNSTABLE)
            big.put(page, data)
            if how == "mixed" and i % 50 == 49:
                client.commit(f.fh)
            if i % 100 == 99:
                big.check_record()
        case.world.settle()
        calls, fetched = big.fetched()
        assert calls < count and fetched < big.size
        for page in rnd.sample(sorted(big.pages), 200):
            offset = max(0, page * PAGE - 100)
            same(client.read(f, offset, PAGE + 200)[0],
                 big.expected(offset, min(PAGE + 200, big.size - offset)))
    if how == "mixed":
        case.enter("normal", "big")
        big.check_all()


def test_writes_while_the_old_server_is_gone(case, client, big):
    """As many as the record takes, then DELAY, never an error; later they go on."""
    case.enter("partial", "big")
    fh = client.lookup(big.path)[0]
    hasty, refused = client.patient(0), []
    pages = list(range(5, 400 * 160, 160))
    case.world.fake.pause()
    for page in pages:
        try:
            hasty.write(fh, page * PAGE, b"g" * PAGE, UNSTABLE)
            big.put(page, b"g" * PAGE)
        except Exception as err:                 # noqa: B902
            assert err.status == errors.DELAY
            refused.append(page)
            break
    assert len(big.pages) == MAP_WRITES - 1      # one gap more than there are writes
    # a write that makes no more gaps is taken all the same
    hasty.write(fh, 6 * PAGE, b"n" * PAGE, UNSTABLE)
    big.put(6, b"n" * PAGE)
    hasty.commit(fh)
    big.check_record()
    case.world.fake.resume()
    for page in refused:
        client.write(fh, page * PAGE, b"l" * PAGE)
        big.put(page, b"l" * PAGE)
    case.world.settle()
    assert len(case.show("big")["now"]) < MAP_WRITES
    for page in (5, refused[0]):
        same(client.read(fh, (page - 1) * PAGE, 4 * PAGE)[0],
             big.expected((page - 1) * PAGE, 4 * PAGE))


@pytest.mark.parametrize("stable", [FILE_SYNC, UNSTABLE])
@pytest.mark.parametrize("writes,reads", [(250, 100), (190, 150)], ids=["writes", "reads"])
def test_reading_a_fragmented_file(case, client3, big, writes, reads, stable):
    """A range in the middle of a gap comes without the rest of the file; when the map has
    no room for another gap, after some of the smallest ones."""
    case.enter("partial", "big")
    fh = client3.lookup(big.path)[0]
    case.world.fake.pause()                      # no room is made meanwhile
    for page in range(5, writes * 250, 250):
        client3.write(fh, page * PAGE, b"f" * PAGE, stable)
        big.put(page, b"f" * PAGE)
    case.world.fake.resume()
    case.world.settle()
    for page in range(125, reads * 250, 250):    # splits a gap each time
        offset = page * PAGE + 17
        same(client3.read(fh, offset, 100)[0], big.expected(offset, 100))
        big.check_record()
    case.world.settle()
    assert big.fetched()[1] < big.size


def test_random_punches(case, client42, big):
    """DEALLOCATE of single pages fragments as writes do."""
    rnd = random.Random(9)
    case.enter("partial", "big")
    with client42.opened(big.path, write=True) as f:
        for i, page in enumerate(pages_of(rnd, big.size, 800)):
            client42.deallocate(f, page * PAGE, PAGE)
            big.put(page, bytes(PAGE))
            if i % 100 == 99:
                big.check_record()
        for page in rnd.sample(sorted(big.pages), 100):
            offset = max(0, page * PAGE - 100)
            same(client42.read(f, offset, PAGE + 200)[0],
                 big.expected(offset, min(PAGE + 200, big.size - offset)))


def test_two_clients_at_random(case, big):
    """Both write and read; each sees its own and the other's."""
    rnd = random.Random(11)
    case.enter("partial", "big")
    with case.world.client("v3") as a, case.world.client("v4.1") as b:
        clients = [(a, a.lookup(big.path)[0]), (b, b.lookup(big.path)[0])]
        pages = pages_of(rnd, big.size, 600)
        for i, page in enumerate(pages):
            (c, fh), (other, its_fh) = clients[i % 2], clients[1 - i % 2]
            c.write(fh, page * PAGE, bytes([i % 255 + 1]) * PAGE, UNSTABLE)
            big.put(page, bytes([i % 255 + 1]) * PAGE)
            seen = pages[rnd.randrange(i + 1)]
            same(other.read(its_fh, seen * PAGE, PAGE)[0], big.pages[seen])
        big.check_record()
