# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of tests/bench/run: clients of a volume with a mirror, beside the same before it had one and after.

The load is of the kinds that the X-NAS paper measured with: the operations of SPECsfs97 for NFSv3 in its
proportions, on files of 1 to 128 KiB, and whole files of 100 to 300 KiB that are written, read and removed.
"""
import contextlib
import json
import random
import signal
import statistics
import subprocess
import threading
import time

from bed import PUT, check_whole, crawl_seconds, disk, migration, sync, timed, tool
from lib.ganesha import Ganesha
from lib.mirror import Mirror
from lib.wait import wait_until

CLIENTS = 4
FILES = 20          # of each client, and as many come and go
RATE = 25           # operations a second of each client, where response times are measured
KIB = 1024
CONNECTIONS = 4     # as the replicator has by itself
MIX = (("lookup", 27), ("read", 18), ("write", 9), ("getattr", 11), ("readlink", 7), ("listing", 11), ("create", 1),
       ("remove", 1), ("fsstat", 1), ("setattr", 1), ("access", 7), ("commit", 5), ("whole", 4))
UNSTABLE = 0


class Client(threading.Thread):
    """So many operations, one after the other, or at a pace."""

    def __init__(self, client, top, count, seed, pace=None):
        super().__init__()
        self.c, self.top, self.count, self.pace = client, top, count, pace
        self.rng, self.error = random.Random(seed), None
        self.came, self.seconds = 0, []

    def prepare(self):
        self.c.mkdir(self.top)
        for i in range(FILES):
            self.c.write_file("%s/f%d" % (self.top, i), self.rng.randbytes(self.rng.randrange(1, 128) * KIB))
            self.c.symlink("%s/s%d" % (self.top, i), "f%d" % i)

    def some(self, kind="f"):
        return "%s/%s%d" % (self.top, kind, self.rng.randrange(FILES))

    def lookup(self):
        self.c.lookup(self.some())

    def read(self):
        self.c.read(self.some(), 0, 32 * KIB)

    def write(self):
        self.c.write(self.some(), 0, self.rng.randbytes(8 * KIB), UNSTABLE)

    def getattr(self):
        self.c.getattr(self.some())

    def readlink(self):
        self.c.readlink(self.some("s"))

    def listing(self):
        self.c.listdir(self.top)

    def create(self):
        self.came += 1
        self.c.create("%s/n%d" % (self.top, self.came))

    def remove(self):
        if self.came:
            self.c.remove("%s/n%d" % (self.top, self.came))
            self.came -= 1

    def fsstat(self):
        self.c.fsstat()

    def setattr(self):
        self.c.setattr(self.some(), mode=0o640)

    def access(self):
        self.c.access(self.some(), 0x3f)

    def commit(self):
        self.c.commit(self.some())

    def whole(self):
        name = "%s/whole" % self.top
        self.c.write_file(name, self.rng.randbytes(self.rng.randrange(100, 300) * KIB), stable=UNSTABLE)
        self.c.commit(name)
        self.c.read_file(name)
        self.c.remove(name)

    def run(self):
        kinds, weights = zip(*MIX)
        begin = time.monotonic()
        try:
            for i in range(self.count):
                if self.pace:
                    time.sleep(max(0, begin + i / self.pace - time.monotonic()))
                self.seconds.append(timed(getattr(self, self.rng.choices(kinds, weights)[0])))
        except Exception as e:
            self.error = e


class Bed:
    """A volume, and the backup that it gets."""

    def __init__(self, home, old, m, tree):
        self.home, self.old, self.m, self.turns = home, old, m, 0
        self.there = Ganesha(home / "there", str(tree), shim=old.shim).start()
        self.mirror = None
        crawl_seconds(m)
        check_whole(m)

    def work(self, pace=None):
        """(operations a second, mean response of one in seconds)."""
        self.turns += 1
        count = 100 if self.old.quick else 500
        with contextlib.ExitStack() as ends:
            clients = [Client(ends.enter_context(self.m.client()), "t%d-%d" % (self.turns, i), count, i, pace)
                       for i in range(CLIENTS)]
            for c in clients:
                c.prepare()

            def all_of_them():
                for c in clients:
                    c.start()
                for c in clients:
                    c.join()

            seconds = timed(all_of_them)
        for c in clients:
            if c.error:
                raise c.error
        return CLIENTS * count / seconds, statistics.mean(s for c in clients for s in c.seconds)

    def add(self, mode):
        m = self.m
        m.server.stop(scan=False)
        m._end(m.retriever, signal.SIGTERM)
        m.postcopy("mirror", "add", self.there.url(), m.volume)
        m.start_retriever()
        m.server.start()
        self.mirror = Mirror(self.home / "mirror", m.volume).start()
        self.mirror.drained(600)
        m.postcopy("mirror", "mode", m.volume, mode)
        if mode != "async":
            wait_until(lambda: self.mirror.status()["awaited"], 60, "clients wait")

    def remove(self):
        self.mirror.drained(600)
        self.m.postcopy("mirror", "remove", self.m.volume)
        self.mirror.stop()

    def stop(self):
        if self.mirror:
            self.mirror.stop()
        self.there.stop(scan=False)


@contextlib.contextmanager
def mirrored(old, home):
    (home / "backup").mkdir(exist_ok=True)
    with disk(home / "backup") as tree, migration(home, old, "few") as m:
        b = Bed(home / "backup", old, m, tree)
        try:
            yield b
        finally:
            b.stop()


def on_and_off(old, home, mode, pace=None):
    """Before, with, and after it."""
    with mirrored(old, home) as b:
        off = [b.work(pace)]
        b.add(mode)
        on = b.work(pace)
        b.remove()
        off.append(b.work(pace))
    return on, tuple(statistics.mean(x[i] for x in off) for i in (0, 1))


def throughput(old, home, mode):
    on, off = on_and_off(old, home, mode)
    return dict(ratio=on[0] / off[0], on=on[0], off=off[0], response=on[1] / off[1])


def response(old, home, mode):
    on, off = on_and_off(old, home, mode, RATE)
    return dict(ratio=on[1] / off[1], on=on[1], off=off[1], rate=on[0])


def catch_up(old, home):
    """Files that came while the mirror was away, to a copy of as many to such a server by as many connections
    (nfsput), which was told to keep them; and to `cp -a` to another disk here, and a sync."""
    with mirrored(old, home) as b, disk(home / "plain") as plain:
        b.add("async")
        b.mirror.stop()
        with b.m.client() as c:
            c.mkdir("came")
            for d in range(10):
                c.mkdir("came/d%d" % d)
                for i in range(10 if old.quick else 50):
                    c.write_file("came/d%d/f%d" % (d, i), random.randbytes(100 * KIB))
        sync(b.m.volume)
        copied = timed(lambda: (subprocess.run(["cp", "-a", str(b.m.volume / "came"), str(plain)], check=True),
                                sync(plain)))
        subprocess.run(["rm", "-r", str(plain / "came")], check=True)
        with Ganesha(home / "plain-server", str(plain), shim=old.shim).start() as server:
            put = json.loads(tool(PUT, CONNECTIONS, server.url(), b.m.volume / "came"))["seconds"]

        def brought():
            b.mirror.start()
            b.mirror.drained(600)

        seconds = timed(brought)
    return dict(ratio=put / seconds, seconds=seconds, put=put, copied=copied)
