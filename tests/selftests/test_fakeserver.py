# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake server and the proxy, with the suite's own NFSv3 client."""
import threading
import time

import pytest

from lib.expect import status_of
from lib.wait import wait_until
from nfsclient import NfsError, RpcBroken, RpcError, RpcTimeout, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.nfstypes import ACCESS_READ, CHR, FIFO
from nfsclient.proxy import Proxy
from nfsclient.rpc import AuthSys
from nfsclient.xdr import XdrError

TIME = 1234567890123456789


@pytest.fixture
def tree():
    t = Tree()
    d = t.mkdir(t.root, "d", mode=0o750, uid=10, gid=20)
    f = t.file(d, "f", b"hello", mode=0o640, uid=1, gid=2, mtime=TIME)
    t.hardlink(t.root, "g", f)
    t.symlink(d, "s", "to/where")
    t.special(d, "null", CHR, (1, 3))
    t.special(d, "pipe", FIFO)
    t.file(t.root, "big", Pattern(5 << 20))
    return t


@pytest.fixture
def fake(tree):
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def client(fake):
    with fake.client(timeout=10) as c:
        yield c


# -- honest -----------------------------------------------------------------------

def test_honest_tree(client, fake):
    assert client.names() == [b"big", b"d", b"g"]
    kinds = {e.name: e.attrs.type_name for e in client.listdir("d")}
    assert kinds == {b"f": "reg", b"s": "lnk", b"null": "chr", b"pipe": "fifo"}
    a = client.getattr("d/f")
    assert (a.mode, a.uid, a.gid, a.size, a.nlink, a.mtime) == (0o640, 1, 2, 5, 2, TIME)
    assert client.fh("g") == client.fh("d/f")
    assert client.readlink("d/s") == b"to/where"
    assert client.getattr("d/null").rdev == (1, 3)
    assert client.read_file("g") == b"hello"
    assert status_of(client.lookup, "nothing") == errors.NOENT
    assert client.raw.lookup(client.fh("d"), b"..")[0] == client.root


def test_pattern_has_no_zeros(client, fake):
    data = client.read_file("big", chunk=99999)
    assert data == Pattern(5 << 20).read(0, 5 << 20)
    assert bytes(8) not in [data[i:i + 8] for i in range(0, 65536, 8)]
    assert fake.bytes_read == 5 << 20
    assert fake.counts["READ"] == -(-(5 << 20) // 99999)


def test_listing_in_pages(fake, client):
    for i in range(300):
        fake.tree.file(fake.tree.root, "n%d" % i)
    assert len(client.listdir(maxcount=2000)) == 303
    assert fake.counts["READDIRPLUS"] > 10
    fake.entry_attrs = fake.entry_handles = False
    fake.page_limit = 7
    assert all(e.attrs and e.fh for e in client.listdir())
    assert fake.counts["LOOKUP"] >= 303


def test_it_only_reads(client, fake):
    for call in (lambda: client.create("x"), lambda: client.write("g", 0, b"x"),
                 lambda: client.remove("g"), lambda: client.setattr("g", mode=0),
                 lambda: client.rename("g", "h"), lambda: client.link("g", "h")):
        assert status_of(call) == errors.ROFS
    assert fake.writes == 6


def test_permissions_and_squash(fake):
    fake.root_squash = True
    with fake.client() as c:
        assert c.access("g", ACCESS_READ) == 0
        assert status_of(c.read, "g", 0, 1) == errors.ACCES
    with fake.client(cred=AuthSys(1, 1)) as c:
        assert c.access("g", ACCESS_READ) == ACCESS_READ
        assert c.read_file("g") == b"hello"


# -- hostile ----------------------------------------------------------------------

def test_jukebox_is_seen_and_helpers_retry(fake, client):
    fake.hook("READ", hooks.jukebox(3))
    fh = client.fh("g")
    assert status_of(client.read, fh, 0, 5) == errors.JUKEBOX
    assert client.delays == 1
    assert client.read_file(fh) == b"hello"
    assert client.delays == 3 and fake.counts["READ"] == 4
    fake.hook("GETATTR", hooks.jukebox(2))
    assert client.patient(10).getattr(fh).size == 5
    fake.hook("GETATTR", hooks.status(errors.JUKEBOX))
    assert status_of(client.patient(0.1).getattr, fh) == errors.JUKEBOX


@pytest.mark.parametrize("name", [b"..", b"a/b", b"", b"nul\0nul", b"n" * 300, b"\xff"])
def test_hostile_names_reach_the_client(fake, client, name):
    fake.tree.link(fake.tree.root, name, fake.tree.find("g"))
    assert name in [e.name for e in client.raw.readdirplus(client.root).entries[2:]]


@pytest.mark.parametrize("size", [(1 << 63) + 1, (1 << 64) - 1])
def test_absurd_sizes(fake, client, size):
    fake.tree.find("g").claim(size=size, fileid=99)
    assert client.getattr("g").size == size
    assert client.lookup("g")[1].fileid == 99


def test_hostile_listings(fake, client):
    node = fake.tree.find("g")
    cookies = []
    for hook in (hooks.endless_listing(node), hooks.stuck_cookie(node),
                 hooks.repeating_listing([node, node])):
        undo = fake.hook("READDIRPLUS", hook)
        page = client.readdir_page("")
        again = client.readdir_page("", page.entries[-1].cookie)
        assert page.entries and again.entries and not again.eof
        cookies.append(again.entries[-1].cookie - page.entries[-1].cookie)
        undo()
    assert cookies == [10, 0, 2]
    undo = fake.hook("READDIRPLUS", hooks.empty_pages)
    with pytest.raises(AssertionError):
        client.listdir()
    undo()
    fake.hook("READDIRPLUS READDIR", hooks.duplicate_names(node))
    assert client.names() == [b"twin", b"twin"]


def test_directory_cycle(fake, client):
    fake.tree.link(fake.tree.find("d"), "loop", fake.tree.root)
    assert client.fh("d/loop/d/loop/g") == client.fh("g")


def test_short_reads(fake, client):
    fake.read_limit = 1000
    assert client.read_file("big", size=10500) == Pattern(5 << 20).read(0, 10500)
    assert fake.counts["READ"] == 11


def test_file_changes_while_read(fake, client):
    node = fake.tree.find("big")
    fake.hook("READ", hooks.only(lambda call: call.index == 3,
                                 hooks.before(lambda call: call.node.touch())))
    before = client.getattr("big").mtime
    client.read_file("big")
    assert client.getattr("big").mtime > before
    node.gone = True
    assert status_of(client.getattr, "big") == errors.STALE


@pytest.mark.parametrize("hook,error", [
    (hooks.garbage(), (NfsError, XdrError)), (hooks.truncate(20), XdrError),
    (hooks.truncate(-1), XdrError), (hooks.cut, RpcBroken),
    (hooks.system_err, RpcError)])
def test_bad_replies(fake, client, hook, error):
    undo = fake.hook("GETATTR", hook)
    with pytest.raises(error):
        client.getattr(client.root)
    undo()
    assert client.getattr("g").size == 5


def test_patched_reply(fake, client):
    fake.hook("GETATTR", hooks.patch(8, b"\xff" * 4))
    assert client.getattr("g").mode == 0xffffffff


def test_no_reply_and_late_replies(fake, client):
    fh = client.fh("g")
    fake.hook("GETATTR", hooks.first(1, hooks.drop))
    client.conn.timeout = 0.2
    with pytest.raises(RpcTimeout):
        client.getattr(fh)
    client.conn.timeout = 10
    gate = hooks.Gate()
    fake.hook("READ", gate)
    pending = [client.raw.submit("READ", client.raw.read_args(fh, i, 1)) for i in range(5)]
    wait_until(lambda: gate.waiting == 5)
    assert client.getattr(fh).size == 5          # others overtake
    gate.open()
    assert [client.raw.read_result(client.raw.finish("READ", p))[0]
            for p in pending] == [b"h", b"e", b"l", b"l", b"o"]
    assert fake.max_in_flight >= 5


def test_restart_pause_cut(fake, client):
    fh = client.fh("g")
    fake.restart()
    wait_until(lambda: client.getattr(fh).size == 5)
    assert client.conn.connects == 2
    fake.pause()
    pending = client.raw.submit("GETATTR", bytes([0, 0, 0, len(fh)]) + fh)
    assert not pending.done()
    fake.resume()
    pending.result()
    fake.cut()
    wait_until(lambda: client.getattr(fh).size == 5)


# -- the proxy ------------------------------------------------------------------

@pytest.fixture
def proxy(fake):
    with Proxy.for_server(fake) as p:
        yield p


def test_proxy_counts(proxy, fake):
    with proxy.client() as c:
        assert c.read_file("d/f") == b"hello"
        c.listdir("d")
    assert proxy.counts == fake.counts
    assert (proxy.counts["MNT"], proxy.counts["LOOKUP"], proxy.counts["READ"]) == (1, 3, 1)
    assert proxy.bytes_back > 100


def test_proxy_delay_is_latency(proxy):
    with proxy.client() as c:
        fh = c.fh("big")
        proxy.delay, proxy.delays = 60.0, {"GETATTR": 0.0}
        c.getattr(fh)                               # or no answer in time
        proxy.delay, start = 1.0, time.monotonic()
        pending = [c.raw.submit("READ", c.raw.read_args(fh, i * 8, 8)) for i in range(20)]
        for p in pending:
            p.result()
        assert 1.0 <= time.monotonic() - start < 15     # one after the other it would be 20


def test_proxy_hold_and_release(proxy):
    with proxy.client() as c:
        fh = c.fh("g")
        proxy.hold("READ")
        found = []
        thread = threading.Thread(target=lambda: found.append(c.read(fh, 0, 5)[0]))
        thread.start()
        wait_until(lambda: proxy.held == 1)
        assert c.getattr(fh).size == 5 and not found
        proxy.release()
        thread.join()
        assert found == [b"hello"]


def test_proxy_breaks(proxy):
    with proxy.client(timeout=10) as c:
        fh = c.fh("g")
        proxy.pause()
        c.conn.timeout = 0.2
        with pytest.raises(RpcTimeout):
            c.getattr(fh)
        c.conn.timeout = 10
        proxy.resume()
        assert c.getattr(fh).size == 5
        proxy.refuse()
        proxy.cut()
        wait_until(lambda: proxy.connections == 0)
        with pytest.raises(RpcBroken):
            c.getattr(fh)
        proxy.accept()
        wait_until(lambda: c.getattr(fh).size == 5)


def test_proxy_before_ganesha(old_server, loop_xfs):
    (loop_xfs.path / "f").write_bytes(b"x" * 100000)
    server = old_server(loop_xfs.path)
    with Proxy.for_server(server) as proxy:
        with proxy.client("v3") as c:
            assert c.read_file("f", chunk=10000) == b"x" * 100000
        before = proxy.counts["READ"]
        assert before in (10, 11)
        with proxy.client("v4.1") as c:
            assert c.read_file("f", chunk=10000) == b"x" * 100000
        assert proxy.counts["READ"] - before in (10, 11)
        assert proxy.counts["EXCHANGE_ID"] == 1
