# SPDX-License-Identifier: GPL-3.0-or-later
"""What was written without COMMIT outlives the processes; COMMIT and the verifier tell
clients what they must send again."""
import contextlib
import signal
import time

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same
from lib.wait import wait_until
from lib.world import NfsWorld
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import UNSTABLE

ATTR_CACHE = 0
WRITES = ((100, 1000), (2 * BLOCK - 50, 5000), (SIZE - 10, 500))
STUBS = ("partial", "some")


def write_unstable(case, client, name="f"):
    """Pieces all over the file; the verifier they were acknowledged with."""
    verifiers = set()
    for i, (offset, length) in enumerate(WRITES):
        data = bytes([0x61 + i]) * length
        verifiers.add(client.write(case.path(name), offset, data, UNSTABLE).verifier)
        case.write(name, offset, data)
    assert len(verifiers) == 1
    return verifiers.pop()


def next_second():
    """Ganesha's verifier is the second of its start."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, 3)


def kill_ganesha(m):
    m.server.kill9()
    m.server.start()


def kill_retriever(m):
    m.kill_retriever()
    m.start_retriever()


def stop_retriever(m):
    m._end(m.retriever, signal.SIGTERM)


def restart_all(m, crash=False):
    """Nobody has the volume open in between, as over a reboot."""
    if crash:
        m.server.kill9()
        m.kill_retriever()
    else:
        m.server.stop()
        stop_retriever(m)
        assert m.retriever.returncode == 0
    m.start_retriever()
    m.server.start()


KILLS = {"ganesha": kill_ganesha, "retriever": kill_retriever}


@pytest.fixture(params=STUBS)
def stub(request):
    return request.param


@pytest.fixture(params=["v3", "v4.1"])
def client(world, request):
    with contextlib.closing(world.client(request.param)) as c:
        yield c


@pytest.fixture
def connect(world, client):
    """A client of the same protocol, made anew after a restart."""
    @contextlib.contextmanager
    def make():
        with world.client(client.proto) as c:
            yield c
    return make


@pytest.mark.parametrize("victim", KILLS)
def test_unstable_writes_survive_kill_9(case, client, connect, world, stub, victim):
    """The page cache and the record are there still: nothing old comes over them."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    world.fake.pause()                           # nothing is filled meanwhile
    client.lookup(case.path("now"))
    write_unstable(case, client, "now"), write_unstable(case, client, "later")
    KILLS[victim](world.m)
    world.fake.resume()
    with connect() as c:
        same(c.read_file(case.path("now")), case.data("now"))
        c.commit(case.path("later"))             # other tests end all processes


def test_unstable_writes_survive_kill_9_of_the_crawler(moddir, loop_xfs, rpcshim):
    """In a migration of its own: a crawler lists the old server's root for good."""
    volume = loop_xfs.path / "crawled"
    volume.mkdir()
    world = NfsWorld(moddir / "crawled", volume, rpcshim)
    gate = Gate()
    try:
        case = world.case("crawled")
        case.file()
        case.enter("partial", "f")
        node = case.node("f")
        with world.client("v3") as c:
            write_unstable(case, c)
            world.fake.hook("READ", only(lambda call: call.node is node, gate))
            world.m.start_crawler()
            wait_until(lambda: gate.waiting, 60, "the crawler's READs held")
            world.m.kill_crawler()
            gate.open()
            same(c.read_file(case.path("f")), case.data("f"))
            case.close()
    finally:
        gate.open()
        world.stop()


def test_the_verifier_belongs_to_the_server_process(case, client, connect, world):
    """Another one tells clients to send again what they have not committed."""
    case.file()
    case.enter("partial", "f")
    before = write_unstable(case, client)
    kill_retriever(world.m)
    assert client.commit(case.path("f")) == before
    assert write_unstable(case, client) == before
    seen = {before}
    for crash in (True, False):
        next_second()
        world.m.server.restart(crash=crash)
        with connect() as c:
            seen.add(c.commit(case.path("f")))
    assert len(seen) == 3
    with connect() as c:
        write_unstable(case, c)
        c.commit(case.path("f"))


def test_committed_writes_survive_all(case, client, connect, world, stub):
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    for name in ("now", "later"):
        verifier = write_unstable(case, client, name)
        assert client.commit(case.path(name)) == verifier
    restart_all(world.m, crash=True)
    with connect() as c:
        same(c.read_file(case.path("now")), case.data("now"))


def test_unstable_writes_survive_an_orderly_stop_of_all(case, client, connect, world, stub):
    """Who stops in peace makes durable what was written: nobody has to send it again."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    for name in ("now", "later"):
        write_unstable(case, client, name)
    restart_all(world.m)
    with connect() as c:
        same(c.read_file(case.path("now")), case.data("now"))


def test_unstable_writes_become_durable_by_themselves(case, client, connect, world, stub):
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    for name in ("now", "later"):
        write_unstable(case, client, name)

    def durable():
        return all(case.show(n)["now"] == case.show(n)["durable"] for n in ("now", "later"))
    wait_until(durable, 60, "written to disk in the background")
    restart_all(world.m, crash=True)
    with connect() as c:
        same(c.read_file(case.path("now")), case.data("now"))


def test_sent_again_after_a_crash_of_all(case, client, connect, world, stub):
    """Without COMMIT each piece is the client's or the source's, nothing else; sent
    again, as the other verifier tells, it is the client's."""
    case.file()
    case.enter(stub, "f")
    old = case.data("f")
    before = write_unstable(case, client)
    next_second()
    restart_all(world.m, crash=True)
    with connect() as c:
        for offset, length in WRITES[:2]:
            data, _eof = c.read(case.path("f"), offset, length)
            assert data in (old[offset:offset + length], case.data("f")[offset:offset + length])
        assert write_unstable(case, c) != before
        same(c.read_file(case.path("f")), case.data("f"))
        c.commit(case.path("f"))


def test_what_was_filled_is_not_fetched_again(case, client, connect, world):
    """A fill that was interrupted in peace goes on where it was."""
    case.file()
    case.enter("some", "f")
    missing = case.show("f")["now"]
    restart_all(world.m)
    assert case.show("f")["now"] == missing
    with connect() as c:
        same(c.read_file(case.path("f")), case.data("f"))
    world.settle()
    assert sum(call.count for call in world.calls("READ", case.node("f"))) == SIZE
