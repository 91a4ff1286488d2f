# SPDX-License-Identifier: GPL-3.0-or-later
"""A test's directory at the old server, and the model of what clients did to it.

    def test_x(case, client, state):
        f = case.file("f", size=1000)         # at the source, and in the model
        case.enter(state, "f")                # normal, partial, some, dummy, cold, looked
        client.write(f, 10, b"abc")
        case.write("f", 10, b"abc")           # the model does the same
"""
import itertools
import os
from dataclasses import dataclass, field

from lib.expect import difference
from lib.wait import wait_until
from nfsclient import NfsError
from nfsclient.faketree import Pattern
from nfsclient.nfstypes import DIR, LNK, REG

BLOCK = 65536                       # the retriever's block_size
SIZE = 5 * BLOCK + 1234             # a file of several blocks and an odd end
STATES = ("normal", "partial", "some", "dummy", "cold")
PLACES = STATES + ("looked",)       # the last two: in an unlisted directory
DIRS = ("listed", "unlisted", "dummy", "cold", "looked")
USER, GROUP = 1001, 1002
OLD = 1500000000 * 10 ** 9          # times of the source: long ago
ANY = object()                      # model: whatever clients see when the test ends
_ages = itertools.count(1)


def overlay(old, offset, data):
    """Bytes after a write: zeros where the file is extended."""
    old = old + bytes(max(0, offset - len(old)))
    return old[:offset] + data + old[offset + len(data):]


def pattern(size, seed=1):
    return Pattern(size, seed % 65536).read(0, size)


@dataclass
class Item:
    """What the model knows of an object.  Several names of one: the same Item."""
    type: int
    mode: object = ANY
    uid: object = ANY
    gid: object = ANY
    mtime: object = ANY
    data: bytes = b""
    target: bytes = b""
    rdev: tuple = (0, 0)
    fh: object = None
    seen: dict = field(default_factory=dict)     # for each ANY: what clients saw


class Case:
    def __init__(self, world, name, label):
        self.world, self.name, self.label = world, name, label
        self.free = False                 # not compared in the end
        self.source = self._adopt(world.tree.mkdir(world.tree.root, name, **self._old()))
        self.items = {"": self._item(self.source)}
        self._seeds = itertools.count(len(world.cases) * 100 + 1)

    @staticmethod
    def _old(**kw):
        n = next(_ages)
        values = dict(uid=USER, gid=GROUP, atime=OLD + n, mtime=OLD + 10 ** 9 + n,
                      ctime=OLD + 2 * 10 ** 9 + n)
        values.update(kw)
        return values

    @staticmethod
    def _adopt(node):
        return node

    @staticmethod
    def _item(node, data=b""):
        return Item(node.type, node.mode, node.uid, node.gid, node.mtime, data, node.target,
                    node.rdev)

    # -- names --------------------------------------------------------------

    def path(self, name=""):
        """The path that clients use."""
        return self.name + "/" + name if name else self.name

    def node(self, name=""):
        """The node at the source."""
        return self.world.tree.find(self.path(name))

    def _place(self, name):
        head, _, tail = name.rpartition("/")
        return self.node(head), tail

    # -- at the source, and in the model --------------------------------------

    def file(self, name="f", size=SIZE, data=None, **kw):
        kw.setdefault("mode", 0o640)
        if data is None:
            data = pattern(size, next(self._seeds))
        parent, tail = self._place(name)
        node = self.world.tree.file(parent, tail, data, **self._old(**kw))
        self.items[name] = self._item(node, data)
        return self.path(name)

    def dir(self, name="d", **kw):
        kw.setdefault("mode", 0o750)
        parent, tail = self._place(name)
        node = self.world.tree.mkdir(parent, tail, **self._old(**kw))
        parent.nlink += 1
        self.items[name] = self._item(node)
        return self.path(name)

    def symlink(self, name, target, **kw):
        parent, tail = self._place(name)
        node = self.world.tree.symlink(parent, tail, target, **self._old(**kw))
        self.items[name] = self._item(node)
        return self.path(name)

    def special(self, name, ftype, rdev=(0, 0), **kw):
        kw.setdefault("mode", 0o604)
        parent, tail = self._place(name)
        node = self.world.tree.special(parent, tail, ftype, rdev, **self._old(**kw))
        self.items[name] = self._item(node)
        return self.path(name)

    def hardlink(self, name, of):
        parent, tail = self._place(name)
        self.world.tree.hardlink(parent, tail, self.node(of))
        self.items[name] = self.items[of]
        return self.path(name)

    # -- states -------------------------------------------------------------

    def reach(self, name=""):
        """Look a path up at the source, listing nothing."""
        at = ""
        for part in self.path(name).split("/"):
            if not os.path.lexists(self.world.volume / at / part):
                self.world.stubtool("ask", at or ".", "lookup", part)
            at = at + "/" + part if at else part

    def list(self, name=""):
        self.reach(name)
        self.world.stubtool("ask", self.path(name), "list")

    def enter(self, state, *names):
        """Bring objects into a state; all but "cold" and "looked" list their
        directories.  No server has seen them yet."""
        if state == "cold":
            return
        if state == "looked":
            for name in names:
                self.reach(name)
            return
        for parent in sorted({n.rpartition("/")[0] for n in names}):
            self.list(parent)
        for name in names:
            getattr(self, "_enter_" + state)(self.path(name))

    def enter_dir(self, state, name="d"):
        """Bring a directory of the source into one of DIRS; its path for clients."""
        if state in ("listed", "unlisted", "dummy"):
            self.list(name.rpartition("/")[0])
        if state == "listed":
            self.list(name)
        elif state == "looked":
            self.reach(name)
        elif state == "dummy":
            self.world.stubtool("dummy", self.path(name))
        return self.path(name)

    def _enter_partial(self, path):
        pass

    def _enter_dummy(self, path):
        self.world.stubtool("dummy", path)

    def _enter_some(self, path):
        if self.show_path(path)["local"]["size"] > 3 * BLOCK:
            for block in (1, 3):
                self.world.stubtool("ask", path, "data", block * BLOCK, 10)
            missing = self.show_path(path)["now"]
            assert [BLOCK, 2 * BLOCK] not in missing and len(missing) == 3, missing

    def _enter_normal(self, path):
        self.world.stubtool("ask", path, "fill")
        self.world.control("drain")
        wait_until(lambda: not self.show_path(path)["stub"], 60, "%s normal" % path)

    def show(self, name=""):
        return self.world.show(self.path(name))

    def show_path(self, path):
        return self.world.show(path)

    def finished(self, name):
        """Wait until an object that needs nothing more is normal."""
        def normal():
            self.world.control("drain")
            return not self.show(name)["stub"]
        wait_until(normal, 60, "%s normal" % name)

    # -- the model: what a client's operation does ---------------------------

    def _touch(self, name):
        self.items[name.rpartition("/")[0]].mtime = ANY

    def write(self, name, offset, data):
        item = self.items[name]
        item.data, item.mtime = overlay(item.data, offset, data), ANY

    def punch(self, name, offset, length):
        item = self.items[name]
        length = max(0, min(length, len(item.data) - offset))
        if length:
            item.data = overlay(item.data, offset, bytes(length))
        item.mtime = ANY

    def resize(self, name, size):
        item = self.items[name]
        item.data, item.mtime = (item.data + bytes(max(0, size - len(item.data))))[:size], ANY

    def made(self, name, ftype=REG, **kw):
        self._touch(name)
        self.items[name] = Item(ftype, **kw)
        return self.items[name]

    def gone(self, name):
        self._touch(name)
        for key in [k for k in self.items if k == name or k.startswith(name + "/")]:
            del self.items[key]

    def moved(self, old, new):
        if self.items.get(new) is self.items[old]:
            return                       # two names of one inode: nothing happens
        if new in self.items:
            self.gone(new)
        self._touch(old), self._touch(new)
        for key in [k for k in self.items if k == old or k.startswith(old + "/")]:
            self.items[new + key[len(old):]] = self.items.pop(key)

    def linked(self, name, of):
        self._touch(name)
        self.items[name] = self.items[of]

    def data(self, name):
        return self.items[name].data

    # -- the end ------------------------------------------------------------

    def close(self):
        """Remember what clients see of everything the model leaves open."""
        if self.free:
            return
        with self.world.client("v3") as c:
            for name, item in self.items.items():
                wanted = [k for k in ("mode", "uid", "gid", "mtime")
                          if getattr(item, k) is ANY and k not in item.seen]
                if wanted:
                    fh, attrs = self.world.seen(c, self.path(name))
                    item.seen.update({k: getattr(attrs, k) for k in wanted})
                    item.fh = fh

    def compare(self, c):
        """Differences between the model and what a client finds, after the crawl."""
        try:
            found = dict(self._walk(c))
        except NfsError as err:
            return [str(err)]
        wrong = ["%s is missing" % n for n in self.items if n not in found]
        wrong += ["%s should not be there" % n for n in found if n not in self.items]
        inodes = {}
        for name in sorted(set(found) & set(self.items)):
            wrong += ["%s: %s" % (name or ".", text)
                      for text in self._differs(c, self.items[name], *found[name])]
            inodes.setdefault(id(self.items[name]), set()).add(found[name][1].fileid)
        wrong += ["a hard link is broken: file ids %s" % sorted(i)
                  for i in inodes.values() if len(i) > 1]
        return wrong

    def _walk(self, c):
        fh, attrs = c.lookup(self.name)
        yield "", (fh, attrs)
        for path, entry in c.walk(fh):
            yield path.decode("utf-8", "surrogateescape"), (entry.fh, entry.attrs)

    def _differs(self, c, item, fh, attrs):
        if attrs.type != item.type:
            yield "type %d, not %d" % (attrs.type, item.type)
            return
        for key in ("mode", "uid", "gid", "mtime"):
            want = getattr(item, key)
            want = item.seen.get(key, want) if want is ANY else want
            if want is not ANY and getattr(attrs, key) != want:
                yield "%s %s, not %s" % (key, getattr(attrs, key), want)
        if item.fh and item.fh != fh:
            yield "its file handle has changed"
        if item.type == REG:
            data = c.read_file(fh)
            if attrs.size != len(item.data):
                yield "size %d, not %d" % (attrs.size, len(item.data))
            if data != item.data:
                yield difference(data, item.data)
        elif item.type == LNK and c.readlink(fh) != item.target:
            yield "target %r, not %r" % (c.readlink(fh), item.target)
        elif attrs.rdev != item.rdev and item.type != DIR:
            yield "device %s, not %s" % (attrs.rdev, item.rdev)
        names = sum(i is item for i in self.items.values())
        if item.type != DIR and attrs.nlink != names:
            yield "nlink %d, not %d" % (attrs.nlink, names)
