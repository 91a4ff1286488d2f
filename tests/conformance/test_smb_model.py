# SPDX-License-Identifier: GPL-3.0-or-later
"""Random operations of SMB and NFS clients on the same files, while they are filled, the
retriever is killed and clients' smbds are too.  Every read is compared with the model, and
everything in the end."""
import os
import random
import signal
import subprocess

import pytest

from lib.case import ANY, BLOCK, SIZE
from lib.expect import same
from lib.programs import STUBTOOL
from lib.smb import ALL
from lib.wait import wait_until
from lib.world import BothWorld
from smb2client import wire

WORLD = BothWorld
STEPS = int(os.environ.get("POSTCOPY_MODEL_STEPS", "120"))
SEEDS = range(int(os.environ.get("POSTCOPY_MODEL_SEEDS", "6")))


class Run:
    def __init__(self, case, world, nfs, seed):
        self.case, self.world, self.nfs = case, world, nfs
        self.random = random.Random(seed)
        self.smb, self.open, self.number = None, {}, 0
        self.fills = []
        for d in ("", "d", "d/e"):
            if d:
                case.dir(d)
            for n in range(3):
                case.file((d + "/" if d else "") + "f%d" % n,
                          size=self.random.choice((0, 5, BLOCK, SIZE, SIZE + 4 * BLOCK)),
                          mode=0o666)
        self.connect()

    # -- clients -------------------------------------------------------------

    def connect(self):
        before = set(self.world.smbd.processes())
        self.smb = self.world.smbd.client()
        self.smb.echo()
        self.mine = set(self.world.smbd.processes()) - before
        self.open = {}

    def file(self, name):
        """Open over SMB, kept open for a while."""
        if name not in self.open:
            self.open[name] = self.smb.open(self.case.path(name), ALL | wire.DELETE)
        return self.open[name]

    def forget(self, name=None):
        """Close it: under this name, below it, or under another name of it."""
        items = self.case.items
        for key in [k for k in self.open if name is None or k.startswith(name + "/") or
                    items[k] is items[name]]:
            self.open.pop(key).close()

    def pick(self, type_=1):
        names = sorted(n for n, i in self.case.items.items() if i.type == type_ and n)
        return self.random.choice(names) if names else None

    def place(self):
        """A new name somewhere."""
        self.number += 1
        d = self.random.choice(sorted(n for n, i in self.case.items.items() if i.type == 2))
        return (d + "/" if d else "") + "n%d" % self.number

    def range(self, name):
        size = len(self.case.data(name))
        at = self.random.randrange(size + BLOCK)
        return at, self.random.choice((1, 100, 5000, BLOCK))

    # -- operations ------------------------------------------------------------

    def read(self, name):
        at, n = self.range(name)
        if self.random.random() < 0.5:
            same(self.file(name).read(at, n), self.case.data(name)[at:at + n])
        else:
            same(self.nfs.read_file(self.case.path(name)), self.case.data(name))

    def read_all(self, name):
        same(self.file(name).read(), self.case.data(name))

    def write(self, name):
        at, n = self.range(name)
        data = bytes(self.random.randrange(1, 256) for _ in range(min(n, 50))) * (n // 50 + 1)
        self.file(name).write(at, data)
        self.case.write(name, at, data)

    def write_nfs(self, name):
        at, n = self.range(name)
        data = b"nfs%d" % at * (n // 7 + 1)
        self.nfs.write(self.case.path(name), at, data)
        self.case.write(name, at, data)

    def truncate(self, name):
        size = self.random.randrange(len(self.case.data(name)) + 2 * BLOCK)
        self.file(name).truncate(size)
        self.case.resize(name, size)

    def zero(self, name):
        at, n = self.range(name)
        self.file(name).zero(at, at + n)
        self.case.punch(name, at, n)

    def copy(self, name):
        to = self.pick()
        size = len(self.case.data(name))
        if to == name or not size:
            return
        at = self.random.randrange(size)
        n, where = min(size - at, 3 * BLOCK // 2), self.random.randrange(SIZE)
        data = self.case.data(name)[at:at + n]
        assert self.file(to).copy_chunks(self.file(name), [(at, where, n)]) == n
        self.case.write(to, where, data)

    def flush(self, name):
        self.file(name).flush()

    def look(self, name):
        assert self.smb.stat(self.case.path(name)).size == len(self.case.data(name))

    def list(self, name):
        d = self.pick(2) or ""
        here = sorted(n.rpartition("/")[2] for n in self.case.items
                      if n and n.rpartition("/")[0] == d)
        assert self.smb.names(self.case.path(d)) == here

    def create(self, name):
        new = self.place()
        data = b"made" * self.random.randrange(10000)
        self.smb.write_file(self.case.path(new), data)
        self.case.made(new).data = data

    def mkdir(self, name):
        new = self.place()
        self.smb.mkdir(self.case.path(new))
        self.case.made(new, 2)

    def remove(self, name):
        if sum(i.type == 1 for i in self.case.items.values()) < 6:
            return
        self.forget(name)
        self.smb.remove(self.case.path(name))
        self.case.gone(name)

    def rename(self, name):
        new = self.place()
        if self.random.random() < 0.3 and self.pick(2):
            name = self.pick(2)
            if (new + "/").startswith(name + "/"):
                return
        self.forget(name)
        if self.random.random() < 0.5:
            self.smb.rename(self.case.path(name), self.case.path(new))
        else:
            self.nfs.rename(self.case.path(name), self.case.path(new))
        self.case.moved(name, new)

    def rename_over(self, name):
        to = self.pick()
        if to == name or self.case.items[to] is self.case.items[name]:
            return
        self.forget(name), self.forget(to)
        self.smb.rename(self.case.path(name), self.case.path(to), replace=True)
        self.case.moved(name, to)

    def link(self, name):
        new = self.place()
        self.file(name).link(self.case.path(new))
        self.case.linked(new, name)

    # -- the others --------------------------------------------------------------

    def fill(self, name):
        """Somebody else wants a part of it."""
        if os.path.exists(self.world.volume / self.case.path(name)):
            what = self.random.choice((["fill"], ["data", str(self.random.randrange(SIZE)), "10"]))
            self.fills.append(subprocess.Popen(
                [str(STUBTOOL), "ask", str(self.world.volume), self.case.path(name), *what],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def kill_retriever(self, name):
        self.file(name)                 # what nobody has looked at cannot be opened now
        self.world.m.kill_retriever()
        try:
            self.write(name)
        finally:
            self.world.m.start_retriever()

    def kill_smbd(self, name):
        """What has been answered stays."""
        self.write(name)
        for pid in self.mine:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # what has not died yet has its files open still: they would not be removed
        wait_until(lambda: not self.mine & set(self.world.smbd.processes()), 60, "its end")
        self.connect()

    def drain(self, name):
        self.world.control("drain")

    WEIGHTS = {read: 10, read_all: 3, write: 12, write_nfs: 4, truncate: 4, zero: 4, copy: 5,
               flush: 3, look: 4, list: 3, create: 2, mkdir: 1, remove: 2, rename: 4,
               rename_over: 2, link: 2, fill: 8, kill_retriever: 1, kill_smbd: 1, drain: 2}

    def go(self):
        steps = self.random.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()), k=STEPS)
        for i, step in enumerate(steps):
            name = self.pick()
            try:
                step(self, name)
            except BaseException:
                print("step %d: %s(%s)" % (i, step.__name__, name))
                raise
        self.forget()
        for process in self.fills:
            process.wait(60)
        self.smb.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_random(case, world, client3, seed):
    run = Run(case, world, client3, seed)
    run.go()
    for name, item in case.items.items():
        item.mtime = ANY
        if item.type == 1:
            same(client3.read_file(case.path(name)), item.data)
