# SPDX-License-Identifier: GPL-3.0-or-later
"""Hard links of the old server under random changes of names: by one client, with every
link count compared on the way, and by four at once."""
import contextlib
import itertools
import random
import threading

import pytest

from nfsclient import PROTOCOLS, NfsError
from nfsclient.hooks import delay
from nfsclient.nfstypes import REG
from ops import *  # noqa: F401,F403
from ops import BLOCK, errors, pattern, same

ATTR_CACHE = 0


class History:
    """Random changes of names; after each, every link count must be the model's."""
    DIRS = ("", "p", "q", "r", "s")

    def __init__(self, case, client, seed):
        self.case, self.client, self.random = case, client, random.Random(seed)
        self.number = itertools.count()
        for d in self.DIRS[1:]:
            case.dir(d)
        for i in range(5):
            names = self.random.sample(["%s/h%d%s" % (d, i, twin) if d else "h%d%s" % (i, twin)
                                        for d in self.DIRS for twin in "ab"],
                                       self.random.randint(2, 6))
            case.file(names[0], size=self.random.choice([0, 100, BLOCK + 7]))
            for name in names[1:]:
                case.hardlink(name, names[0])

    def files(self):
        return sorted(n for n, item in self.case.items.items() if item.type == REG)

    def place(self):
        d = self.random.choice(self.DIRS)
        name = "%s%d" % (self.random.choice("hn"), next(self.number) + 100)
        return d + "/" + name if d else name

    def step(self):
        case, client, files = self.case, self.client, self.files()
        what = self.random.choice(["list", "lookup", "lookup", "read", "write", "remove", "remove",
                                   "link", "link", "rename", "rename", "over", "create", "fill"])
        if not files:
            what = "create"
        name = self.random.choice(files) if files else None
        if what == "list":
            client.names(case.path(self.random.choice(self.DIRS)))
        elif what == "lookup":
            client.lookup(case.path(name))
        elif what == "read":
            same(client.read_file(case.path(name)), case.data(name))
        elif what == "write":
            data = pattern(50, self.random.randrange(1, 60000))
            client.write(case.path(name), 20, data)
            case.write(name, 20, data)
        elif what == "remove":
            client.remove(case.path(name))
            case.gone(name)
        elif what == "link":
            new = self.place()
            client.link(case.path(name), case.path(new))
            case.linked(new, name)
        elif what == "rename":
            new = self.place()
            client.rename(case.path(name), case.path(new))
            case.moved(name, new)
        elif what == "over":
            new = self.random.choice(files)
            client.rename(case.path(name), case.path(new))
            case.moved(name, new)
        elif what == "fill":
            case.reach(name)
            case.world.stubtool("ask", case.path(name), "fill")
        else:
            new = self.place()
            client.write_file(case.path(new), b"made")
            case.made(new, data=b"made", mode=0o644)
        return "%s %s" % (what, name)

    def check(self):
        items = list(self.case.items.values())
        for name in self.random.sample(self.files(), min(3, len(self.files()))):
            attrs = self.client.getattr(self.case.path(name))
            want = sum(i is self.case.items[name] for i in items)
            assert (attrs.nlink, attrs.size) == (want, len(self.case.data(name))), name


@pytest.mark.parametrize("seed", range(8))
def test_random_history(case, client, seed):
    history, said = History(case, client, seed), []
    try:
        for _ in range(60):
            said.append(history.step())
            history.check()
        case.world.audit()
    except BaseException:
        print("\n".join(said))
        raise


class Worker(threading.Thread):
    """A client that changes names of its own, of inodes that have names of others, too."""

    def __init__(self, case, client, number, lock, seed):
        super().__init__()
        self.case, self.client, self.me, self.lock = case, client, number, lock
        self.random, self.error, self.number = random.Random(seed), None, itertools.count()
        self.mine = [n for n in case.items if n.startswith("w%d/" % number)]

    def run(self):
        try:
            for _ in range(40):
                self.step()
        except BaseException as err:
            self.error = err

    def step(self):
        case, client = self.case, self.client
        what = self.random.choice(["list", "read", "write", "remove", "link", "link", "rename",
                                   "over", "fill", "fill"])
        name = self.random.choice(self.mine)
        new = "w%d/n%d-%d" % (self.random.randrange(4), self.me, next(self.number))
        if what == "list":
            try:
                client.names(case.path("w%d" % self.random.randrange(4)))
            except NfsError as err:      # stock Ganesha, when a name vanishes in mid-scan
                assert err.status == errors.NOENT, err
        elif what == "read":
            # without an open: v4.1 of stock Ganesha loses opens while names of the file go
            assert len(client.read(case.path(name), 0, 2 * BLOCK)[0]) == len(case.data(name))
        elif what == "write":
            data = pattern(16, self.random.randrange(1, 60000))
            client.write(case.path(name), 16 * self.me, data)
            with self.lock:
                case.write(name, 16 * self.me, data)
        elif what == "fill":             # as the crawler, so that some are finished early
            client.lookup(case.path(name))
            case.world.stubtool("ask", case.path(name), "fill")
        elif what == "remove" and len(self.mine) > 1:
            client.remove(case.path(name))
            self.mine.remove(name)
            with self.lock:
                case.gone(name)
        elif what == "link":
            client.link(case.path(name), case.path(new))
            self.mine.append(new)
            with self.lock:
                case.linked(new, name)
        elif what in ("rename", "over"):
            if what == "over":
                new = self.random.choice(self.mine)
            client.rename(case.path(name), case.path(new))
            with self.lock:
                if case.items.get(new) is not case.items[name]:
                    self.mine = [n for n in self.mine if n not in (name, new)] + [new]
                case.moved(name, new)


@pytest.mark.parametrize("seed", range(6))
def test_four_clients_at_once(case, world, seed):
    """Each has its names, in directories of all; the old server answers when it likes."""
    chance, lock = random.Random(seed), threading.Lock()
    for w in range(4):
        case.dir("w%d" % w)
    for i in range(12):
        names = chance.sample(["w%d/h%d%s" % (w, i, t) for w in range(4) for t in "ab"],
                              chance.randint(2, 7))
        case.file(names[0], size=BLOCK + 7)
        for name in names[1:]:
            case.hardlink(name, names[0])
    world.fake.hook("LOOKUP READDIRPLUS READ", lambda s, c, answer: delay(
        chance.choice([0, 0, 0.002, 0.01]))(s, c, answer))
    with contextlib.ExitStack() as stack:
        workers = [Worker(case, stack.enter_context(world.client(PROTOCOLS[w % 3])), w, lock,
                          seed * 10 + w) for w in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join(120)
    for w in workers:
        if w.error:
            raise w.error
    world.fake.clear_hooks()
    world.audit()
    with world.client("v3") as c:
        for name, item in case.items.items():
            if item.type == REG:
                fh, attrs = c.lookup(case.path(name))
                assert attrs.nlink == sum(i is item for i in case.items.values()), name
                same(c.read_file(fh), item.data)
