# SPDX-License-Identifier: GPL-3.0-or-later
"""What NFS clients do at random in a tree that they know the names of, listed or not.

    fill(top, random.Random(1))             an old server's tree
    Work(client, rng, other).step()         one operation, by one of two clients
    w = Workers([client, ...], seed); w.start(); ...; w.end()      several, until the end
    k = Knowing(client, "dir", seed); k.start(); ...; k.check(tree)     one that knows what it was told
"""
import os
import random
import threading

from nfsclient import NfsError
from nfsclient.errors import DELAY, IO, ROFS, SERVERFAULT
from nfsclient.nfstypes import DIR, FILE_SYNC, UNSTABLE

LARGE = 3 << 20
WRONG = (DELAY, IO, SERVERFAULT, ROFS)          # DELAY: patience is over


def fill(top, rng, depth=0):
    """A tree of some of everything, of about 300 objects.  One file is more than a mirror gets by one call."""
    for i in range(6):
        size = rng.choice((0, 1, 100, 5000, 70000, 300000)) if depth or i else LARGE
        (top / ("f%d" % i)).write_bytes(rng.randbytes(size))
        os.chown(top / ("f%d" % i), 1000 + i, 100)
        os.utime(top / ("f%d" % i), (1e9 + i, 1.1e9 + i))
    os.symlink("f0", top / "s")
    os.mkfifo(top / "p")
    if depth < 3:
        for i in range(3):
            (top / ("d%d" % i)).mkdir()
            fill(top / ("d%d" % i), rng, depth + 1)
            os.link(top / "f3", top / ("d%d" % i) / "linked")
    os.utime(top, (1e9, 1.2e9))


class Work:
    """What clients do, at random."""

    def __init__(self, client, rng, other):
        self.c, self.rng, self.other = client, rng, other
        self.made = 0

    def some_dir(self):
        """A path of directories, listed by nobody here."""
        path = []
        while self.rng.random() < 0.6:
            path.append("d%d" % self.rng.randrange(3))
        return "/".join(path)

    def some(self):
        name = self.rng.choice(("f0", "f1", "f2", "f3", "f4", "f5", "linked", "s", "p", "d0", "d1", "d2",
                                "n%d" % self.rng.randrange(self.made + 1)))
        return self.join(self.some_dir(), name)

    def new(self):
        self.made += 1
        return self.join(self.some_dir(), "n%d" % self.made)

    @staticmethod
    def join(where, name):
        return where + "/" + name if where else name

    def remove_tree(self, c, path):
        for entry in c.listdir(path):
            below = self.join(path, os.fsdecode(entry.name))
            if entry.attrs and entry.attrs.type == DIR:
                self.remove_tree(c, below)
            else:
                c.remove(below)
        c.rmdir(path)

    def step(self):
        c, rng = self.rng.choice((self.c, self.other)), self.rng
        what = rng.choice(("write", "write", "over", "cut", "new", "new", "new", "mkdir", "rename", "rename",
                           "rename", "into", "link", "remove", "remove", "symlink", "mode", "list", "tree"))
        try:
            if what == "write":
                c.write(self.some(), rng.randrange(400000), rng.randbytes(rng.choice((1, 100, 50000))))
            elif what == "over":
                c.write(self.some(), 0, rng.randbytes(20))
            elif what == "cut":
                c.setattr(self.some(), size=rng.choice((0, 10, 400000)))
            elif what == "new":
                c.write_file(self.new(), rng.randbytes(rng.choice((0, 10, 100000))))
            elif what == "mkdir":
                c.mkdir(self.new())
            elif what == "rename":
                c.rename(self.some(), self.new())
            elif what == "into":
                c.rename(self.some(), self.some())
            elif what == "link":
                c.link(self.some(), self.new())
            elif what == "remove":
                c.remove(self.some())
            elif what == "symlink":
                c.symlink(self.new(), "somewhere")
            elif what == "mode":
                c.setattr(self.some(), mode=rng.randrange(0o10000), uid=rng.randrange(3), gid=5)
            elif what == "list":
                c.listdir(self.some_dir())
            elif rng.random() < 0.2:
                self.remove_tree(c, self.some())
        except NfsError as err:
            if err.status in WRONG:
                raise


class Workers(threading.Thread):
    """Several clients at work, until they are told to end."""

    def __init__(self, clients, seed):
        super().__init__()
        self.work = [Work(c, random.Random(seed * 100 + i), c) for i, c in enumerate(clients)]
        for i, work in enumerate(self.work):
            work.made = 1000 * i                # names of its own
        self.over, self.errors = threading.Event(), []

    def one(self, work):
        try:
            while not self.over.is_set():
                work.step()
        except Exception as err:                # told by the test
            self.errors.append(err)

    def run(self):
        threads = [threading.Thread(target=self.one, args=(w,)) for w in self.work]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def end(self):
        self.over.set()
        self.join()
        assert not self.errors, self.errors


class Knowing(threading.Thread):
    """Changes a directory of its own, empty or with what @files has, and knows what was acknowledged: until it
    fails, or is told that it is over."""

    def __init__(self, client, top, seed):
        super().__init__()
        self.c, self.top, self.rng = client, top, random.Random(seed)
        self.files = {}             # name: bytes
        self.doubt = set()          # names of the operation that was not answered
        self.done, self.error = 0, None
        self.past = {}              # name: what was acknowledged of it, in order
        self.over = threading.Event()

    def run(self):
        try:
            while not self.over.is_set():
                self.step()
        except Exception as e:
            self.error = e

    def step(self):
        """What is answered when it is over stays in doubt."""
        rng, names = self.rng, sorted(self.files)
        what = rng.choice(("new", "new", "write", "rename", "remove", "cut"))
        name = rng.choice(names) if names else None
        if what == "new" or not names:
            name, what = "n%d" % rng.randrange(10 ** 6), "new"
        self.doubt = {name}
        after = getattr(self, "_" + what)(self.top + "/", name)
        self.settle()
        if self.over.is_set():
            return
        self.files.pop(name, None)
        self.files.update(after)
        for now in after:
            self.past[now] = [*self.past.get(name, ()), (self.done, self.did)][-6:]
        self.doubt = set()
        self.done += 1

    def settle(self):
        """What it takes until what was done counts as acknowledged."""

    def _new(self, top, name):
        data = self.rng.randbytes(self.rng.choice((0, 10, 9000)))
        self.did = "new %d" % len(data)
        self.c.write_file(top + name, data)
        return {name: data}

    def _write(self, top, name):
        at, data = self.rng.randrange(5000), self.rng.randbytes(100)
        how = self.rng.choice((UNSTABLE, FILE_SYNC))
        self.did = "write %d at %d, %s" % (len(data), at, how)
        self.c.write(top + name, at, data, how)
        if how == UNSTABLE:
            self.c.commit(top + name)
        was = self.files[name].ljust(at, b"\0")
        return {name: was[:at] + data + was[at + len(data):]}

    def _cut(self, top, name):
        self.did = "cut"
        self.c.setattr(top + name, size=7)
        return {name: self.files[name][:7].ljust(7, b"\0")}

    def _rename(self, top, name):
        to = "r%d" % self.rng.randrange(10 ** 6)
        self.doubt.add(to)
        self.did = "rename of " + name
        self.c.rename(top + name, top + to)
        return {to: self.files[name]}

    def _remove(self, top, name):
        self.c.remove(top + name)
        return {}

    def wrong(self, tree):
        """What the directory has not of what was acknowledged, or has although it was not; None."""
        return self.wrong_of({p.name: p.read_bytes() for p in (tree / self.top).iterdir()})

    def wrong_of(self, there):
        """The same of what is there: {name: bytes}."""
        there = {n: b for n, b in there.items() if n not in self.doubt}
        known = {n: b for n, b in self.files.items() if n not in self.doubt}
        if there == known:
            return None
        return "%s: names %s, bytes of %s; in doubt: %s; done: %d" % (
            self.top, sorted(there.keys() ^ known.keys()),
            {n: self.differ(n, there[n]) for n in there if n in known and there[n] != known[n]},
            sorted(self.doubt), self.done)

    def differ(self, name, got):
        want = self.files[name]
        at = [i for i, (a, b) in enumerate(zip(got, want)) if a != b]
        return "%d bytes for %d, others from %s to %s, after %s" % (
            len(got), len(want), at[:1], at[-1:], self.past.get(name))

    def check(self, tree):
        assert self.wrong(tree) is None, self.wrong(tree)
