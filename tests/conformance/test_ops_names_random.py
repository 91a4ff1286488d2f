# SPDX-License-Identifier: GPL-3.0-or-later
"""Random changes of names: of hard links of the old server, with every link count compared
on the way; of a tree of directories; and of hard links by four clients at once."""
import contextlib
import itertools
import random
import threading

import pytest

from lib.case import BLOCK, pattern
from lib.expect import same, status_of
from nfsclient import PROTOCOLS, NfsError, errors
from nfsclient.hooks import delay
from nfsclient.nfstypes import DIR, REG

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


class Tree:
    """Random changes of a tree of directories; each answer and listing is the model's."""

    def __init__(self, case, client, seed):
        self.case, self.client, self.random = case, client, random.Random(seed)
        self.number = itertools.count()
        self.grow("", 3)

    def grow(self, top, depth):
        for i in range(self.random.randint(0, 3)):
            self.case.file(self.below(top, "f%d" % i), size=self.random.choice([0, 50, BLOCK]))
        for i in range(self.random.randint(1, 3) if depth else 0):
            self.case.dir(self.below(top, "d%d" % i))
            self.grow(self.below(top, "d%d" % i), depth - 1)

    @staticmethod
    def below(top, name):
        return top + "/" + name if top else name

    def pick(self, ftype):
        return self.random.choice(sorted(n for n, i in self.case.items.items()
                                         if i.type == ftype and n) or [None])

    def inside(self, top):
        """Names in a directory, as the model has them."""
        head = top + "/" if top else ""
        return sorted(n[len(head):] for n in self.case.items
                      if n.startswith(head) and n and "/" not in n[len(head):])

    def new(self):
        return self.below(self.random.choice(["", self.pick(DIR) or ""]),
                          "n%d" % next(self.number))

    def may_replace(self, old, new):
        """Statuses with which a rename of a directory over new may fail."""
        if new == old or (new + "/").startswith(old + "/"):
            return (errors.INVAL, errors.NOTEMPTY, errors.EXIST) if new != old else ()
        if new in self.case.items and (old.startswith(new + "/") or self.inside(new)):
            return (errors.NOTEMPTY, errors.EXIST, errors.INVAL)
        return ()

    def step(self):
        case, client = self.case, self.client
        what = self.random.choice(["list", "lookup", "mkdir", "create", "remove", "rmdir", "rmdir",
                                   "move", "move", "over", "rename"])
        d, f = self.pick(DIR), self.pick(REG)
        if what == "list":
            d = self.random.choice([d or "", ""])
            assert [n.decode() for n in client.names(case.path(d))] == self.inside(d), d
        elif what == "lookup" and f:
            assert client.getattr(case.path(f)).size == len(case.data(f))
        elif what == "mkdir":
            new = self.new()
            client.mkdir(case.path(new), mode=0o755)
            case.made(new, DIR, mode=0o755)
        elif what == "create":
            new = self.new()
            client.write_file(case.path(new), b"made")
            case.made(new, data=b"made", mode=0o644)
        elif what == "remove" and f:
            client.remove(case.path(f))
            case.gone(f)
        elif what == "rmdir" and d:
            if self.inside(d):
                assert status_of(client.rmdir, case.path(d)) in (errors.NOTEMPTY, errors.EXIST)
            else:
                client.rmdir(case.path(d))
                case.gone(d)
        elif what in ("move", "over") and d:
            new = self.new() if what == "move" else self.pick(DIR)
            wrong = self.may_replace(d, new)
            if wrong:
                assert status_of(client.rename, case.path(d), case.path(new)) in wrong
            else:
                client.rename(case.path(d), case.path(new))
                if new != d:
                    case.moved(d, new)
        elif what == "rename" and f:
            new = self.random.choice([self.new(), f])
            client.rename(case.path(f), case.path(new))
            case.moved(f, new)
        return "%s %s %s" % (what, d, f)


@pytest.mark.parametrize("seed", range(8))
def test_random_tree(case, client, seed):
    tree, said = Tree(case, client, seed), []
    try:
        for _ in range(60):
            said.append(tree.step())
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
