# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 at random moments of a migration: it goes on, and ends as if nothing had been.

POSTCOPY_SEED=n repeats a run (the seed is printed, and shown when a test fails).
"""
import concurrent.futures
import os
import pathlib
import random
import subprocess
import threading
import time

import pytest

from lib.wait import wait_until
from nfsclient import NfsError, RpcError
from nfsclient.proxy import Proxy

DIRS, FILES = 50, 60
ROUNDS = 5


@pytest.fixture(scope="module")
def seed():
    return int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.fixture
def rng(seed, request):
    print("POSTCOPY_SEED=%d" % seed)
    return random.Random("%d %s" % (seed, request.node.name))


@pytest.fixture(scope="module")
def contents(moddir):
    """The old tree on disk: path -> bytes of its files."""
    source, tree, found = random.Random(7), moddir / "old-tree", {}
    for d in range(DIRS):
        where = tree / ("d%d" % (d % 10)) / ("e%d" % d)
        where.mkdir(parents=True)
        for i in range(FILES):
            path = where / ("f%d" % i)
            data = source.randbytes(source.choice((0, 1, 100, 4096, 5000, 20000)))
            path.write_bytes(data)
            os.chmod(path, source.choice((0o600, 0o644, 0o755, 0o4711)))
            os.utime(path, ns=(10 ** 18 + i, 10 ** 18 + d * 1000 + i))
            found[str(path.relative_to(tree)).encode()] = data
        os.symlink("../f%d" % d, where / "link")
        first = tree / "d0" / "e0" / ("f%d" % (d % FILES))
        os.link(first, where / "hard")              # far from its other names
        found[str((where / "hard").relative_to(tree)).encode()] = first.read_bytes()
    (tree / "inbox").mkdir()
    os.mkfifo(tree / "pipe")
    return found


@pytest.fixture(scope="module")
def old(contents, moddir, old_server):
    return old_server(moddir / "old-tree")


def manifest(nfstree, url, where):
    done = subprocess.run([str(nfstree), "--no-atime", "--quiet", "-o", str(where), url],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return where


@pytest.fixture(scope="module")
def truth(old, nfstree, moddir):
    return manifest(nfstree, old.url(), moddir / "truth")


@pytest.fixture
def migrating(old, new_migration, fresh_dir):
    """A migration slow enough to be killed often (small files one by one; those that come with
    their directories are killed in tests/crash); crawler not started."""
    with Proxy.for_server(old) as proxy:
        proxy.delay = 0.002
        m = new_migration(proxy.url(), fresh_dir,
                          conf="max_tries = 1\nsmall_file = 0\n").init().start()
        m.proxy = proxy
        yield m


class Visitor(threading.Thread):
    """A client that reads files at random and comes back whatever happens."""

    def __init__(self, m, contents, seed):
        super().__init__(daemon=True)
        self.m, self.contents, self.rng = m, contents, random.Random(seed)
        self.ended, self.read, self.wrong = False, 0, []

    def run(self):
        names = sorted(self.contents)
        while not self.ended:
            try:
                with self.m.client("v3", patience=120, timeout=10) as c:
                    while not self.ended:
                        self.look(c, self.rng.choice(names))
            except (RpcError, OSError):         # the server is away
                time.sleep(0.05)

    def look(self, c, path):
        try:
            if c.read_file(path) != self.contents[path]:
                self.wrong.append("%r: other bytes" % path)
            self.read += 1
        except NfsError as err:
            self.wrong.append("%r: %s" % (path, err))
        except AssertionError as err:
            self.wrong.append("%r: %s" % (path, err))

    def finish(self):
        self.ended = True
        self.join(180)
        assert not self.wrong, self.wrong[:5]
        assert self.read > 0


def covered(m):
    """At any moment every unfinished inode is findable (docs/design.md, invariant 4)."""
    scan = m.scan()
    assert scan["uncovered"] == scan["corrupt"] == 0, scan
    return scan


def to_the_end(m, crawler, truth, nfstree, skip=()):
    """Counter 0, nothing left over, and the same as the old server."""
    assert crawler.wait(300) == 0, (m.workdir / "crawler.log").read_text()[-2000:]
    wait_until(lambda: m.status()["state"] == "complete", 60, "complete")
    m.audit(complete=True)
    for name in ("staging", "provisional"):
        assert [n for n in os.listdir(m.volume / ".postcopy" / name) if not n.startswith(".")] == []
    assert m.scan()["leftovers"] == 0
    ours = manifest(nfstree, m.server.url(), m.workdir / "manifest")
    lines = []
    for path in (truth, ours):
        lines.append({line.split("\t")[0]: line for line in path.read_text().splitlines()[1:]
                      if not line.startswith(tuple(skip))})
    assert lines[0].keys() == lines[1].keys()
    assert [(lines[0][p], lines[1][p]) for p in lines[0] if lines[0][p] != lines[1][p]] == []
    with m.client() as c:
        assert not c.exists(".postcopy")


# -- one at a time ---------------------------------------------------------------------------

def test_retriever(migrating, contents, truth, nfstree, rng):
    m = migrating
    crawler = m.start_crawler("--workers", "2")
    visitor = Visitor(m, contents, rng.random())
    visitor.start()
    for _round in range(ROUNDS):
        time.sleep(rng.uniform(0, 0.8))
        m.kill_retriever()
        m.proxy.pause()                 # how long all this takes is the machine's affair
        covered(m)
        m.start_retriever()
        assert m.status()["pending"] > 0, "too quick: nothing was left to be killed"
        m.proxy.resume()
    to_the_end(m, crawler, truth, nfstree)
    visitor.finish()


def test_retriever_while_it_lists(migrating, contents, truth, nfstree, rng):
    """Killed very soon after each start: most of the time it makes stubs."""
    m = migrating
    crawler = m.start_crawler()
    for _round in range(ROUNDS):
        m.kill_retriever()
        covered(m)
        m.start_retriever(wait=False)
        time.sleep(rng.uniform(0.01, 0.25))
    m.kill_retriever()
    m.start_retriever()
    to_the_end(m, crawler, truth, nfstree)


def test_crawler(migrating, contents, truth, nfstree, rng):
    m = migrating
    for _round in range(2 * ROUNDS):
        m.start_crawler("--workers", "2")
        time.sleep(rng.uniform(0, 0.4))
        assert m.crawler.poll() is None, "too quick: nothing was left to be killed"
        m.kill_crawler()
    covered(m)
    to_the_end(m, m.start_crawler(), truth, nfstree)


def test_server(migrating, contents, truth, nfstree, rng):
    m = migrating
    crawler = m.start_crawler("--workers", "1")
    visitors = [Visitor(m, contents, rng.random()) for _ in range(2)]
    for visitor in visitors:
        visitor.start()
    for _round in range(ROUNDS):
        time.sleep(rng.uniform(0, 0.8))
        m.server.kill9()
        m.server.start()
    to_the_end(m, crawler, truth, nfstree)
    for visitor in visitors:
        visitor.finish()


# -- all at once, and clients write ---------------------------------------------------------------

def write(m, path, offset, data):
    """A write that is answered; the server may be away in between."""
    def once():
        try:
            with m.client("v3", patience=30, timeout=10) as c:
                return c.patient(30).write(path, offset, data).count == len(data)
        except (RpcError, OSError):
            return False
    wait_until(once, 120, "write to %r" % path)


def create(m, path, data):
    def once():
        try:
            with m.client("v3", patience=30, timeout=10) as c:
                c.write_file(path, data)
                return True
        except (RpcError, OSError):
            return False
    wait_until(once, 120, "creating %r" % path)


def kill(m, victim, delay):
    """Soon, and start it again: what nobody has listed yet is not there without a retriever."""
    time.sleep(delay)
    if victim == "retriever":
        m.kill_retriever()
        covered(m)
        m.start_retriever()
    elif victim == "crawler":
        m.kill_crawler()
        m.start_crawler("--workers", "2")
    else:
        m.server.kill9()
        m.server.start()


def test_everything(migrating, contents, truth, nfstree, rng):
    """Acknowledged changes of clients survive, whoever dies."""
    m = migrating
    m.start_crawler("--workers", "2")
    mine = {path: bytearray(data) for path, data in contents.items()
            if path.endswith(b"/f7") and not path.startswith(b"d0/e0/")}
    quiet = {path: data for path, data in contents.items() if path not in mine}
    visitor = Visitor(m, quiet, rng.random())
    visitor.start()
    todo = sorted(mine)
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        for number in range(2 * ROUNDS):
            killed = beside.submit(kill, m, rng.choice(("retriever", "crawler", "server")),
                                   rng.uniform(0, 0.3))
            for path in todo[number::2 * ROUNDS]:
                offset, data = rng.randrange(0, 25000), rng.randbytes(rng.randrange(1, 6000))
                write(m, path, offset, data)
                old = mine[path]
                old.extend(bytes(max(0, offset + len(data) - len(old))))
                old[offset:offset + len(data)] = data
            create(m, b"inbox/new%d" % number, b"%d" % number)
            killed.result()
    to_the_end(m, m.crawler, truth, nfstree, skip=[*(p.decode() for p in mine), "inbox"])
    visitor.finish()
    with m.client() as c:
        for path, data in mine.items():
            assert c.read_file(path) == data, path
        assert c.names("inbox") == sorted(b"new%d" % i for i in range(2 * ROUNDS))
    assert all(pathlib.Path("/proc/%d" % p.pid).exists() for p in (m.retriever, m.server.process))
