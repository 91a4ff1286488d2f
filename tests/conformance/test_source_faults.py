# SPDX-License-Identifier: GPL-3.0-or-later
"""The old server goes away, comes back, says "later", or changes under our hands.

Clients wait or are told to come again, later they get the right bytes, never
zeros, and never bytes of two versions.  In front of a stock Ganesha stands a
proxy; where the old server must change while being read it is the fake one.
"""
import os
import random
import threading

import pytest

from lib.expect import status_of
from lib.wait import wait_until
from nfsclient import NfsError, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.proxy import Proxy

RECORD = "trusted.postcopy"
MIB = 1 << 20
SIZE = 24 * MIB
NAMES = 1500
QUICK = "call_timeout = 1000\n"          # a silent server is noticed soon
BLOCKS = "block_size = 65536\n"          # one ask fetches little


@pytest.fixture(scope="module")
def content():
    return random.Random(2).randbytes(SIZE)


@pytest.fixture(scope="module")
def old(moddir, old_server, content):
    """A stock Ganesha."""
    tree = moddir / "old-tree"
    (tree / "wide").mkdir(parents=True)
    for name in ("big", "big2"):
        (tree / name).write_bytes(content)
    (tree / "small").write_bytes(content[:1000])
    (tree / "later").write_bytes(content[:5000])
    for i in range(NAMES):
        (tree / "wide" / ("f%d" % i)).write_bytes(b"%d" % i)
    return old_server(tree)


@pytest.fixture
def proxy(old):
    with Proxy.for_server(old) as p:
        yield p


@pytest.fixture
def started(new_migration, fresh_dir):
    def start(url, **kw):
        m = new_migration(url, fresh_dir, allow=["lost for more than"], **kw).init()
        m.server.allow = ["converted to NFS3ERR_IO"]
        return m.start()
    return start


class Reader(threading.Thread):
    """A client that reads a file from end to end, patiently; but no more than half of it
    before it is told to go on."""

    def __init__(self, m, path, chunk=256 << 10):
        super().__init__(daemon=True)
        self.m, self.path, self.chunk = m, path, chunk
        self.data, self.error, self.delays, self.client = b"", None, 0, None
        self.on = threading.Event()

    def run(self):
        try:
            with self.m.client("v3", patience=60) as self.client:
                size = self.client.getattr(self.path).size
                while len(self.data) < size:
                    if len(self.data) >= size // 2:
                        self.on.wait()
                    self.data += self.client.patient(60).read(
                        self.path, len(self.data), self.chunk)[0]
        except Exception as err:
            self.error = err

    @property
    def got(self):
        return len(self.data)

    def finish(self, content):
        self.on.set()
        self.join(120)
        assert not self.is_alive() and self.error is None, self.error
        assert self.data == content


# -- the old server stands still ------------------------------------------------------------

def test_frozen_in_mid_read(old, started, content):
    """SIGSTOP: connections stay, nothing answers."""
    m = started(old.url(), conf=BLOCKS)
    reader = Reader(m, "big")
    reader.start()
    wait_until(lambda: reader.got > 2 * MIB, 20)
    old.sigstop()
    reader.on.set()
    try:
        wait_until(lambda: reader.client.delays > 0, 60, "a DELAY")
        got = reader.data
        assert len(got) < SIZE and got == content[:len(got)]
        with m.client() as c:             # what is there goes on being served
            assert c.read("big", 0, 1000)[0] == content[:1000]
    finally:
        old.sigcont()
    reader.finish(content)


@pytest.mark.parametrize("conf", [BLOCKS, BLOCKS + QUICK], ids=["waits", "reconnects"])
def test_black_hole_in_mid_read(proxy, started, content, conf):
    m = started(proxy.url(), conf=conf)
    reader = Reader(m, "big")
    reader.start()
    wait_until(lambda: reader.got > MIB, 20)
    proxy.pause()
    reader.on.set()
    wait_until(lambda: reader.client.delays > 1, 60, "DELAYs")
    if conf != BLOCKS:
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "loss noticed")
    proxy.resume()
    reader.finish(content)
    wait_until(lambda: m.status()["state"] == "migrating", 60, "source is back")
    if conf != BLOCKS:
        assert m.status()["source_reconnects"] > 0


# -- it dies and comes back -------------------------------------------------------------------

def test_killed_in_mid_read(old, started, content):
    m = started(old.url(), conf=BLOCKS)
    reader = Reader(m, "big")
    reader.start()
    wait_until(lambda: reader.got > MIB, 20)
    old.kill9()
    reader.on.set()
    try:
        wait_until(lambda: reader.client.delays > 0, 60, "a DELAY")
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "loss noticed")
    finally:
        old.restart()
    reader.finish(content)
    assert m.status()["errors"] == 0


def test_killed_while_crawling(old, started):
    m = started(old.url())
    crawler = m.start_crawler()
    wait_until(lambda: m.status()["entries"] > 100, 20)
    old.kill9()
    old.restart()
    assert crawler.wait(120) == 0
    m.audit(complete=True)


def test_closed_port(proxy, started, content):
    """Refused for a while; meanwhile nothing is parked."""
    m = started(proxy.url())
    with m.client() as c:
        fh = c.fh("big")
        proxy.refuse()
        proxy.cut()
        assert status_of(c.read, fh, 0, 100) == errors.JUKEBOX
        wait_until(lambda: m.status()["source_lost_s"] > 0, 60, "loss noticed")
        assert m.status()["state"] == "source-lost"
        proxy.accept()
        assert c.patient(60).read(fh, 0, 100)[0] == content[:100]
        assert m.status()["parked"] == m.status()["errors"] == 0


def test_connections_reset_in_mid_read(proxy, started, content):
    m = started(proxy.url(), conf=BLOCKS)
    reader = Reader(m, "big")
    reader.start()
    for part in range(1, 6):
        wait_until(lambda: reader.got >= part * 3 * MIB, 60)
        proxy.cut()
        if part == 4:
            reader.on.set()
    reader.finish(content)


def test_connections_reset_in_mid_listing(proxy, started):
    """Every name exactly once, however often the listing was begun."""
    m = started(proxy.url(), conf="readdir_size = 65536\n")
    with m.client() as c:
        fh, names = c.fh("wide"), []
        lister = threading.Thread(target=lambda: names.extend(c.names(fh)))
        proxy.reset_counts()
        proxy.hold("READDIRPLUS")
        lister.start()
        wait_until(lambda: proxy.held, 60, "a listing")
        proxy.delays = {"READDIRPLUS": 0.05}
        proxy.holding = frozenset()
        proxy.cut()
        for part in range(1, 4):           # a late cut may come when all is listed
            wait_until(lambda: proxy.counts["READDIRPLUS"] > 2 * part or not lister.is_alive(),
                       60)
            proxy.cut()
        lister.join(120)
        assert sorted(names) == sorted(b"f%d" % i for i in range(NAMES))
    m.audit()


# -- it says "later" ----------------------------------------------------------------------------

@pytest.mark.parametrize("proc", ["READ", "LOOKUP", "READDIRPLUS", "READLINK"])
def test_jukebox_from_the_source(started, proc):
    """Asked again, by us: no error, nothing parked."""
    tree = Tree()
    tree.file(tree.mkdir(tree.root, "d"), "f", Pattern(100000))
    tree.symlink(tree.root, "s", "d/f")
    with FakeServer(tree) as server:
        m = started(server.url())
        server.hook(proc, hooks.jukebox(3))
        with m.client() as c:
            assert c.read_file("d/f") == Pattern(100000).read(0, 100000)
            assert c.readlink("s") == b"d/f"
            assert c.names("d") == [b"f"]
        m.crawl()
        m.audit(complete=True)
        assert m.status()["errors"] == 0 and server.counts[proc] > 3


# -- limits of patience -------------------------------------------------------------------------

def test_give_up_after(proxy, started, content):
    """The policy limit: an I/O error, nothing on disk changes, later it works."""
    m = started(proxy.url(), conf=QUICK + "give_up_after = 2\n")
    with m.client() as c:
        patient = c.patient(60)

        def read(path, *where):         # two seconds' silence are enough for an error
            return wait_until(lambda: patient.read(path, *where)[0], 60, path)
        assert read("small", 0, 1000) == content[:1000]
        fh = wait_until(lambda: patient.fh("big"), 60, "big")
        proxy.pause()
        assert status_of(patient.read, fh, 5 * MIB, 1000) == errors.IO
        assert status_of(patient.lookup, "later") == errors.IO
        assert status_of(patient.names, "wide") == errors.IO
        assert patient.read_file("small") == content[:1000]
        proxy.resume()
        wait_until(lambda: m.status()["state"] == "migrating", 60, "source is back")
        assert read(fh, 5 * MIB, 1000) == content[5 * MIB:5 * MIB + 1000]
        assert read("later", 0, 5000) == content[:5000]
    status = m.status()
    assert status["parked"] == status["conflicts"] == 0, status


def test_without_a_retriever(old, started, content):
    """What is migrated and what clients do themselves goes on; the rest waits."""
    m = started(old.url())
    with m.client(patience=0) as c:
        c.patient(60).names()
        c.patient(60).read_file("small")
        fh, wide = c.fh("big"), c.fh("wide")
        m.drain()
        m.kill_retriever()
        assert c.read_file("small") == content[:1000]
        assert status_of(c.read, fh, 0, 1000) == errors.JUKEBOX
        assert status_of(c.lookup, (wide, "f1")) == errors.JUKEBOX
        assert status_of(c.names, wide) == errors.JUKEBOX
        assert status_of(c.create, (wide, "f1")) == errors.JUKEBOX   # it may be there
        c.write("small", 10, b"local")
        c.write_file("new", b"new")
        c.rename("big2", "moved")
        c.remove("later")
        c.write(fh, 5 * MIB, b"local")
        assert c.read(fh, 5 * MIB, 5)[0] == b"local"
        assert c.getattr(fh).size == SIZE
        m.start_retriever()
        expect = content[:5 * MIB] + b"local" + content[5 * MIB + 5:]
        assert c.patient(60).read_file(fh) == expect
    m.crawl()
    m.audit(complete=True)
    with m.client() as c:
        assert c.read_file("big") == expect and c.read_file("moved") == content
        assert c.names() == [b"big", b"moved", b"new", b"small", b"wide"]
        assert c.read_file("new") == b"new" and len(c.names("wide")) == NAMES
        assert c.read_file("small") == content[:10] + b"local" + content[15:1000]


def test_without_a_retriever_and_without_patience(old, started, content):
    m = started(old.url(), fsal_more="Give_Up = 1;")
    with m.client() as c:
        c.read_file("small")
        fh = c.fh("big")
        m.drain()
        m.kill_retriever()
        assert status_of(c.patient(60).read, fh, 0, 1000) == errors.IO
        assert c.read_file("small") == content[:1000]
        m.start_retriever()
        assert c.patient(60).read(fh, 0, 1000)[0] == content[:1000]


# -- it changes ---------------------------------------------------------------------------------

OLD, NEW = Pattern(3 * MIB, seed=1), Pattern(3 * MIB, seed=2)


def grow(node):
    node.content = Pattern(4 * MIB, seed=2)


def rewrite(node):
    node.content = NEW
    node.touch()


def set_mtime(node):
    node.mtime += 1


def replace(node):
    node.content, node.fileid = NEW, node.fileid + 50


CHANGES = {"size": grow, "mtime": set_mtime, "content": rewrite,
           "replaced": replace}


@pytest.fixture
def changing(started):
    tree = Tree()
    tree.file(tree.root, "f", OLD)
    tree.file(tree.root, "g", Pattern(5000))
    with FakeServer(tree) as server:
        m = started(server.url(), conf=BLOCKS + "read_size = 65536\n")
        with m.client() as c:
            yield m, server, tree.find("f"), c.patient(60)


def parked(m):
    return m.tool("parked", m.volume)["parked"]


@pytest.mark.parametrize("what", CHANGES)
def test_changed_half_way(changing, what):
    """A conflict; bytes of two versions are never mixed; `retry --conflicts`."""
    m, _server, node, c = changing
    was = dict(vars(node))
    assert c.read("f", 0, 65536)[0] == OLD.read(0, 65536)
    CHANGES[what](node)
    assert status_of(c.read, "f", 2 * MIB, 1000) == errors.IO
    assert c.read("f", 0, 65536)[0] == OLD.read(0, 65536)
    for at in range(MIB, 2 * MIB, 65536):
        assert status_of(c.read, "f", at, 1000) == errors.IO
    m.crawl()
    status, _scan = m.audit(parked=1)
    assert (status["conflicts"], status["parked"], status["state"]) == (1, 0, "only-parked")
    [entry] = parked(m)
    assert entry["path"] == "f" and entry["why"] == "conflict"
    assert m.log.read_text().count('"f": ') == 1, "one line, however many READs"
    word = {"content": "mtime", "replaced": "file id"}.get(what, what)
    assert word in entry["reason"] and "on the old server" in entry["reason"]
    assert RECORD not in os.listxattr(m.volume / "g")

    m.postcopy("retry", "--errors", m.volume)          # the others: not this one
    assert len(parked(m)) == 1
    m.postcopy("retry", "--conflicts", m.volume)       # still changed: parked again
    # by the retriever, which asks for it at once: a crawl's ask would be one more
    wait_until(lambda: [e["why"] for e in parked(m)] == ["conflict"], 60, "parked again")
    m.drain()                                          # its other READs, too: they saw the change

    vars(node).update(was)                             # put right over there
    assert "1 objects" in m.postcopy("retry", "--conflicts", m.volume).stdout
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == OLD.read(0, 3 * MIB)


def test_touched_over_there(changing):
    """chmod, chown, a backup that sets access times back: the change time moves, the
    content does not. Clients read on, nothing is parked; what clients see of it since the
    switch stays."""
    m, _server, node, c = changing
    assert c.read("f", 0, 65536)[0] == OLD.read(0, 65536)
    was, mine = c.getattr("f"), c.getattr("g")
    node.mode, node.uid, node.ctime = 0o600, node.uid + 1, node.ctime + 100
    other = _server.tree.find("g")
    other.ctime += 100
    c.setattr("g", mode=0o711)                      # here: a client's, it stays
    assert c.read("f", 2 * MIB, 1000)[0] == OLD.read(2 * MIB, 1000)
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == OLD.read(0, 3 * MIB)
    assert m.status()["touched"] >= 2
    now = c.getattr("f")
    assert (now.mode, now.uid, now.mtime) == (was.mode, was.uid, was.mtime)
    assert c.getattr("g").mode & 0o777 == 0o711 != mine.mode & 0o777
    assert "not its content" in m.log.read_text()


def test_changed_between_two_reads_of_one_transfer(changing):
    """It changes while many READs are in flight: no byte of the new version is kept."""
    m, server, node, c = changing
    seen = []

    def count(call):
        seen.append(call)
        if len(seen) == 8:
            rewrite(node)
    c.names()
    server.hook("READ", hooks.only(lambda call: call.node is node, hooks.before(count)))
    m.crawl()
    assert [e["why"] for e in parked(m)] == ["conflict"]
    got = 0
    for offset in range(0, 3 * MIB, 65536):
        try:
            data = c.read("f", offset, 65536)[0]
        except NfsError as err:
            assert err.status == errors.IO
            continue
        assert data == OLD.read(offset, 65536)
        got += 1
    assert got < 3 * MIB // 65536


def test_changed_before_the_first_byte(changing):
    m, _server, node, c = changing
    assert c.getattr("f").size == 3 * MIB
    rewrite(node)
    assert status_of(c.read, "f", 0, 1000) == errors.IO
    assert status_of(c.read, "f", 3 * MIB - 8, 8) == errors.IO
    assert c.read_file("g") == Pattern(5000).read(0, 5000)


def test_gone_from_the_source(changing):
    """Removed over there: an error with its reason, not an empty file."""
    m, _server, node, c = changing
    c.names()
    node.gone = True
    assert status_of(c.read, "f", 0, 1000) == errors.IO
    assert c.getattr("f").size == 3 * MIB
    for _try in range(10):                  # max_tries is 5; an ask of a client is one
        with pytest.raises(NfsError):
            c.read("f", 0, 1000)
        if parked(m):
            break
    [entry] = parked(m)
    assert (entry["path"], entry["why"]) == ("f", "error") and "Stale" in entry["reason"]
    m.crawl()
    m.audit(parked=1)


def test_slower_than_clients_wait(started):
    """A source that always takes longer than a request may wait: what is not there is
    "not there" in the end, and new names can be made in a directory nobody has listed."""
    tree = Tree()
    tree.file(tree.mkdir(tree.root, "dir"), "f", b"hello")
    with FakeServer(tree) as fake:
        m = started(fake.url(), fsal_more="Delay_V3 = 50; Delay_V4 = 50;")
        for proto in ("v3", "v4.1"):
            with m.client(proto) as c:
                c = c.patient(60)
                dir_fh = c.fh("dir")
                unhook = fake.hook("LOOKUP", hooks.delay(0.3))
                assert not c.exists((dir_fh, "nothing-" + proto))
                c.mkdir((dir_fh, "made-" + proto))
                c.create((dir_fh, "file-" + proto), how="guarded")
                assert c.read_file((dir_fh, "f")) == b"hello"
                assert c.delays > 0
                unhook()


def test_files_that_are_on_tape_hold_up_nobody(started):
    """More than there are workers, for as long as it takes: no error, and not in the way."""
    tree = Tree()
    tapes = tree.mkdir(tree.root, "tapes")
    for i in range(80):
        tree.file(tapes, "t%d" % i, Pattern(5000, seed=i + 1))
    tree.file(tree.mkdir(tree.root, "d"), "f", Pattern(5000))
    with FakeServer(tree) as server:
        away = server.hook("READ", hooks.only(lambda call: call.node.parent is tapes,
                                              hooks.status(errors.JUKEBOX)))
        m = started(server.url(), fsal_more="Delay_V3 = 20;")
        with m.client() as c:
            c.names("tapes")
            for fh in [c.fh("tapes/t%d" % i) for i in range(80)]:
                assert status_of(c.patient(0).read, fh, 0, 100) == errors.JUKEBOX
            wait_until(lambda: m.status()["later"] >= 60, 60, "the status")
            assert "put off" in m.postcopy("status", m.volume).stdout
            assert c.patient(20).read_file("d/f") == Pattern(5000).read(0, 5000)
            crawler = m.start_crawler()
            wait_until(lambda: m.status()["pending"] == 80, 60, "the others")
            status = m.status()
            assert status["errors"] == status["parked"] == 0 and crawler.poll() is None
            away()
            assert c.patient(60).read_file("tapes/t7") == Pattern(5000, seed=8).read(0, 5000)
            assert crawler.wait(120) == 0
        m.audit(complete=True)
