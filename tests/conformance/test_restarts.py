# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemons are restarted again and again, as updates of their package do, while clients of both
protocols read and write: they wait, and that is all.

POSTCOPY_SEED=n repeats a run (the seed is printed).
"""
import contextlib
import os
import random
import signal
import threading

import pytest

from lib.case import pattern
from lib.expect import difference
from lib.migration import Migration
from lib.programs import MODULES
from lib.smb import ALL
from lib.smbd import STACK
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

DIRS, FILES = 40, 30
SIZES = (0, 1, 3000, 70000, 150000)
RESTARTS = 20
PAUSE = 0.4             # s; at most, between two of them
CLIENTS = ("v3", "v4.1", "smb", "smb")

pytestmark = pytest.mark.skipif(not (MODULES / "stub.so").exists(),
                                reason="built without Samba's headers")


@pytest.fixture
def rng():
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    return random.Random(seed)


@pytest.fixture(scope="module")
def old():
    """(server, path: its bytes)"""
    source, tree, found = random.Random(3), Tree(), {}
    tree.root.mode = 0o777
    for d in range(DIRS):
        where = tree.mkdir(tree.root, b"d%d" % d, mode=0o777)
        for f in range(FILES):
            size, seed = source.choice(SIZES), source.randrange(1, 1000)
            tree.file(where, b"f%d" % f, Pattern(size, seed), mode=0o666)
            found["d%d/f%d" % (d, f)] = pattern(size, seed)
    with FakeServer(tree) as server:
        yield server, found


class Nfs:
    def __init__(self, m, smbd, proto):
        self.c = m.client(proto).patient(120)
        self.read, self.close = self.c.read_file, self.c.close

    def write(self, path, at, data):
        self.c.write(path, at, data)

    def make(self, path, data):
        self.c.write_file(path, data)


class Smb:
    def __init__(self, m, smbd, proto):
        self.c = smbd.client(timeout=120)
        self.read, self.close = self.c.read_file, self.c.close

    def write(self, path, at, data):
        with self.c.open(path, ALL) as f:
            f.write(at, data)

    def make(self, path, data):
        self.c.write_file(path, data)


class Visitor(threading.Thread):
    """Reads what nobody changes, and changes what is its own."""

    def __init__(self, number, kind, m, smbd, found, rng):
        super().__init__(daemon=True)
        self.face = (Smb if kind == "smb" else Nfs)(m, smbd, kind)
        self.name = "%s %d" % (kind, number)
        paths = sorted(found)
        self.own = {p: bytearray(found[p]) for p in paths[number::len(CLIENTS) + 1]}
        self.found = {p: found[p] for p in paths[len(CLIENTS)::len(CLIENTS) + 1]}
        self.number, self.rng = number, rng
        self.ended, self.done, self.wrong = False, 0, []

    def run(self):
        while not self.ended and not self.wrong:
            try:
                self.look()
                self.done += 1
            except Exception as err:
                self.wrong.append("%s: %r" % (self.name, err))

    def look(self):
        what, path = self.rng.random(), self.rng.choice(list(self.own))
        if what < 0.4:
            self.compare(*self.rng.choice(list(self.found.items())))
        elif what < 0.6:
            self.compare(path, bytes(self.own[path]))
        elif what < 0.9:
            at, data = self.rng.randrange(len(self.own[path]) + 1), self.rng.randbytes(500)
            self.face.write(path, at, data)
            self.own[path][at:at + len(data)] = data
        else:
            path = "%s/new-%d-%d" % (path.split("/")[0], self.number, self.done)
            self.own[path] = bytearray(self.rng.randbytes(2000))
            self.face.make(path, bytes(self.own[path]))

    def compare(self, path, wanted):
        got = self.face.read(path)
        if got != wanted:
            self.wrong.append("%s: %s: %s" % (self.name, path, difference(got, wanted)))

    def finish(self):
        self.ended = True
        self.join(180)
        assert not self.is_alive() and not self.wrong, self.wrong
        self.face.close()


def test_restarts_under_load(old, new_migration, new_samba, fresh_dir, rng):
    source, found = old
    m = new_migration(source.url(), fresh_dir).init().start()
    smbd = new_samba("smbd", str(fresh_dir), vfs=STACK, module_dir=MODULES)
    m.postcopy("pause", m.volume)       # what comes, comes for the clients
    crawler = m.start_crawler()
    visitors = [Visitor(number, kind, m, smbd, found, random.Random(rng.random()))
                for number, kind in enumerate(CLIENTS)]
    for visitor in visitors:
        visitor.start()
    for number in range(RESTARTS):
        threading.Event().wait(rng.uniform(0, PAUSE))
        # as systemd ends it; and as it would be found after a crash
        Migration._end(m.retriever, signal.SIGTERM if number % 4 else signal.SIGKILL)
        m.start_retriever()
        if number % 5 == 2:
            Migration._end(m.crawler, signal.SIGTERM)
            crawler = m.start_crawler()
        if number % 4 == 3:             # everybody gets on
            done = [visitor.done for visitor in visitors]
            wait_until(lambda: all(v.wrong or v.done > before for v, before in
                                   zip(visitors, done)), 120, "all clients")
        assert not any(visitor.wrong for visitor in visitors), [v.wrong for v in visitors]
    assert m.status()["pending"] > 0, "too quick: nothing was left to wait for"
    for visitor in visitors:
        visitor.finish()
    smbd.stop()
    m.postcopy("resume", m.volume)
    assert crawler.wait(300) == 0
    m.audit(complete=True)
    m.server.restart()
    wanted = dict(found)
    for visitor in visitors:
        wanted.update((path, bytes(data)) for path, data in visitor.own.items())
    with contextlib.closing(m.client("v3")) as c:
        c = c.patient(60)
        wrong = [path for path, data in wanted.items() if c.read_file(path) != data]
    assert not wrong, wrong[:10]
