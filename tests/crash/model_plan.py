# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories: a source's tree and what clients, daemons and the network do, as JSON.

    {"seed", "options", "tree": [objects], "steps": [[operation, ...], ...]}

The operations of one step are in flight at the same time.  Objects are named by
path: what a path leads to is looked up when the step begins, so any part of a
history is a history too (which is what makes shrinking easy).

A history has several acts, each in a directory of its own, so that there is always
something that nobody has touched yet.  The few names in an act collide a lot.  The
writer of a history keeps a model itself, only to write more that makes sense.
"""
import random

import model_mirrored
from model_world import ROOT, Inode, PossibleWorld, Token, outcomes
from nfsclient.nfstypes import DIR, LNK, REG

SIZES = (0, 0, 1, 100, 4095, 4096, 4097, 5000, 12288, 20000, 65535, 65536, 65537, 140000)
OLD = 1500000000 * 10 ** 9               # times of the source: long ago
FILES = ("f0", "f1", "f2", "f3")
NEW = ("f0", "f1", "f2", "f3", "n0", "n1", "h0")
MODES = (0o600, 0o640, 0o644, 0o755, 0o444)
# (operation, how often alone, how often together with others)
KINDS = (("read", 18, 24), ("write", 20, 26), ("size", 8, 10), ("create", 6, 6),
         ("remove", 5, 5), ("rename", 8, 6), ("link", 5, 3), ("symlink", 1, 1),
         ("mkdir", 2, 1), ("rmdir", 2, 1), ("attrs", 5, 2), ("readdir", 4, 3),
         ("getattr", 6, 4), ("lookup", 4, 4), ("readlink", 1, 0), ("commit", 3, 3),
         ("deallocate", 4, 4), ("allocate", 1, 1), ("seek", 3, 0))


class Writer:
    CACHING = 0.2             # of so many histories Ganesha caches attributes
    mirror = None             # the mode, if the volume is to have one

    def __init__(self, seed, operations):
        self.rng = random.Random("model %s" % seed)
        self.seed, self.left = seed, operations
        self.tree, self.steps, self.number = [], [], 0
        self.paused = 0

    def pick(self, *choices):
        return self.rng.choice(choices)

    # -- the source's tree --------------------------------------------------------

    def plant(self, kind, path, **more):
        item = {"type": kind, "path": path}
        if kind != "link":
            item.update(mode=self.pick(*MODES), uid=self.pick(0, 1001), gid=self.pick(0, 1002),
                        mtime=OLD + len(self.tree) * 10 ** 9 + self.rng.randrange(10 ** 9))
        if kind == "dir":
            item["mode"] |= 0o700
        elif kind == "symlink":
            item["mode"] = 0o777
        self.tree.append(dict(item, **more))

    def plant_act(self, top):
        self.plant("dir", top)
        for name in FILES:
            if self.rng.random() < 0.9:
                self.plant("file", top + "/" + name, size=self.pick(*SIZES))
        self.plant("file", top + "/big", size=400000)
        for name in ("d0", "d1"):
            self.plant("dir", top + "/" + name)
        for name in FILES[:2]:
            self.plant("file", top + "/d0/" + name, size=self.pick(*SIZES))
        if self.rng.random() < 0.5:
            self.plant("dir", top + "/d0/d1")
            self.plant("file", top + "/d0/d1/f0", size=self.pick(*SIZES))
        first = top + "/d0/f0"
        for _ in range(self.pick(0, 1, 1, 2)):
            self.plant("link", "%s/h%d" % (self.pick(top, top + "/d1"), len(self.tree)),
                       of=first)
        self.plant("symlink", top + "/s0", target=self.pick("f0", "d0/f0", "nowhere", "/etc"))

    # -- what clients do ------------------------------------------------------------

    def write(self):
        """All of it: {"seed", "options", "tree", "steps"}."""
        acts = max(1, self.left // 90)
        for number in range(acts):
            self.plant_act("a%d" % number)
        self.world = first_world(self.tree)
        # Stock Ganesha's cached attributes are wrong after operations at the same time,
        # and after a CREATE that truncates: neither is asked for where it caches.
        self.caching = self.rng.random() < self.CACHING
        options = {"fsal": self.pick("", "Delay_V3 = 20; Delay_V4 = 10;",
                                     "Delay_V3 = 1; Delay_V4 = 1;"),
                   "export": "" if self.caching else "Attr_Expiration_Time = 0;"}
        if self.mirror:
            options["mirror"] = self.mirror
        if self.rng.random() < 0.7:
            self.source()
        share = self.left // acts
        for number in range(acts):
            self.top, end = "a%d" % number, self.left - share
            self.storms()
            while self.left > max(0, end):
                self.step()
        if self.paused:
            self.steps.append([{"op": "resume"}])
        return {"seed": self.seed, "options": options, "tree": self.tree, "steps": self.steps}

    def step(self):
        if self.paused:
            self.paused -= 1
            if not self.paused:
                self.steps.append([{"op": "resume"}])
        if self.rng.random() < 0.05:
            self.trouble()
        if self.rng.random() < 0.3 and not self.caching:
            return self.together()
        self.steps.append([self.operation(1)])

    def together(self):
        """Several at once, mostly on the same objects."""
        self.focus = self.path() if self.rng.random() < 0.8 else None
        ops = [self.operation(2) for _ in range(self.pick(2, 2, 3, 4))]
        self.focus = None
        chance = self.rng.random()
        if chance < 0.25:
            ops.append({"op": "fill", "kind": self.pick("fill", "fill", "list"),
                        "path": self.path(), "after": self.pick(0, 0, 1, 3)})
        elif chance < 0.27:
            ops.append({"op": "kill-retriever", "after": self.rng.randrange(6),
                        "away": self.pick(0, 0, 50)})
        elif chance < 0.29:
            ops = ops[:2]
            ops.append({"op": "kill-server", "after": self.rng.randrange(4)})
        elif chance < 0.33 and self.mirror:
            ops.append(dict(model_mirrored.trouble(self.rng), after=self.rng.randrange(4)))
        self.steps.append(ops)

    def storms(self):
        """Writes to a file of many blocks while the source's answers come in."""
        for _ in range(0 if self.caching else self.pick(1, 2)):
            path = self.top + "/big"
            ops = [self.given(path, "read", offset=0, length=350000)]
            ops += [self.given(path, "write", on_read=self.rng.randrange(3000), length=100,
                               offset=self.rng.randrange(400000)) for _ in range(4)]
            if self.rng.random() < 0.3:
                ops.append(self.given(path, "size", on_read=self.rng.randrange(3000)))
            self.steps.append(ops)

    def given(self, path, kind, **more):
        """An operation on this path."""
        self.number += 1
        self.left -= 1
        op = {"op": kind, "id": self.number, "c": self.pick("v3", "v4.1")}
        self.always = path
        getattr(self, "_" + kind)(op)
        self.always = None
        op.update(more)
        self.imagine(op)
        return op

    def trouble(self):
        """Something befalls the daemons or the source."""
        if self.mirror and self.rng.random() < 0.4:
            self.steps.append([model_mirrored.trouble(self.rng)])
            return
        chance = self.rng.random()
        if chance < 0.5:
            self.source()
        elif chance < 0.7:
            self.steps.append([{"op": "crawl", "workers": self.pick(1, 2, 4),
                                "kill": self.pick(0, 1)}])
        elif chance < 0.8 and not self.paused:
            self.paused = self.rng.randrange(2, 20)
            self.steps.append([self.pick({"op": "pause"}, {"op": "throttle", "rate": 20000})])
        elif chance < 0.9:
            self.steps.append([{"op": "drain"}])
        else:
            self.steps.append([{"op": self.pick("kill-retriever", "kill-server")}])

    def source(self):
        self.number += 1
        kind = self.pick("slow", "slow", "slow", "jukebox", "cut", "well", "drop")
        op = {"op": "source", "kind": kind, "seed": self.number}
        if kind == "slow":
            op.update(ms=self.pick(2, 5, 15), procs=self.pick(None, "READ"))
        elif kind == "drop":                # each costs a time-out of the retriever
            op.update(odds=0.01)
        else:
            op.update(odds=self.pick(0.05, 0.2))
        self.steps.append([{"op": "well"} if kind == "well" else op])

    focus = always = None

    def path(self, kind=None):
        """A path in this act: of the wanted type mostly, or of nothing."""
        if self.always:
            return self.always
        if self.focus and kind in (None, REG) and self.rng.random() < 0.75:
            return self.focus
        found = [p for p, n in self.world.paths(self.world.find(self.top), self.top)
                 if p != self.top and (kind is None or self.world[n].type == kind)]
        if found and self.rng.random() < 0.93:
            return self.rng.choice(found)
        return self.new_path()

    def dir_path(self):
        found = [p for p, n in self.world.paths(self.world.find(self.top), self.top)
                 if self.world[n].type == DIR]
        return self.rng.choice(found)

    def new_path(self):
        return self.dir_path() + "/" + self.pick(*NEW)

    def operation(self, column):
        kind = self.rng.choices([k[0] for k in KINDS], [k[column] for k in KINDS])[0]
        self.number += 1
        self.left -= 1
        op = {"op": kind, "id": self.number, "c": self.pick("v3", "v4.1")}
        getattr(self, "_" + kind)(op)
        self.imagine(op)
        return op

    def imagine(self, op):
        """The model goes on as if the operation had been done."""
        bound = bind(self.world, op)
        if bound:
            self.world = outcomes(self.world, bound)[0][0]

    # -- one method for each kind -----------------------------------------------------

    def _position(self, path):
        """An offset that may be interesting in this file."""
        number = self.world.find(path)
        size = self.world[number].size if number else 0
        near = self.pick(0, 0, size, size, size // 2, 4096, 8192, 65536,
                         self.rng.randrange(size + 1000))
        return max(0, near + self.pick(0, 0, 0, 0, -1, 1, -100, 100, 5000))

    def _read(self, op):
        op["path"] = self.path(REG)
        op["offset"] = self._position(op["path"])
        op["length"] = self.pick(1, 10, 512, 4096, 5000, 20000, 70000)

    def _write(self, op):
        op["path"] = self.path(REG)
        op["offset"] = self._position(op["path"])
        op["length"] = self.pick(1, 10, 100, 512, 3000, 4096, 4096, 10000, 66000)
        op["stable"] = self.pick(0, 0, 0, 1)

    def _deallocate(self, op):
        op["c"], op["path"] = "v4.2", self.path(REG)
        op["offset"] = self._position(op["path"])
        op["length"] = self.pick(1, 100, 4096, 10000, 66000)

    _allocate = _deallocate

    def _seek(self, op):
        op["c"], op["path"], op["hole"] = "v4.2", self.path(REG), self.pick(True, False)
        op["offset"] = self._position(op["path"])

    def _size(self, op):
        op["op"], op["path"] = "setattr", self.path(REG)
        op["size"] = self._position(op["path"])

    def _attrs(self, op):
        op["op"], op["path"] = "setattr", self.path(self.pick(REG, REG, DIR))
        what = self.pick("mode", "uid", "gid", "mtime", "mtime")
        op[what] = {"mode": self.pick(*MODES) | (0o700 if "d" in op["path"][-2:] else 0),
                    "uid": self.pick(0, 1001, 1003), "gid": self.pick(0, 1002),
                    "mtime": self.pick("now", OLD + self.number * 1000)}[what]

    def _create(self, op):
        op["path"] = self.pick(self.path(REG), self.new_path())
        op["mode"] = self.pick(*MODES)
        op["how"] = self.pick("unchecked", "unchecked", "guarded")
        if op["how"] == "unchecked" and not self.caching and self.rng.random() < 0.6:
            op["size"] = 0

    def _remove(self, op):
        op["path"] = self.path(self.pick(REG, REG, REG, LNK, DIR))

    def _rmdir(self, op):
        op["path"] = self.path(self.pick(DIR, DIR, DIR, REG))

    def _mkdir(self, op):
        op["path"], op["mode"] = self.dir_path() + "/" + self.pick("d0", "d1", "d2"), 0o755

    def _symlink(self, op):
        op["path"], op["target"] = self.new_path(), "t%d" % self.number

    def _rename(self, op):
        op["path"] = self.path(self.pick(REG, REG, REG, REG, DIR, LNK))
        last = op["path"].rpartition("/")[2]
        op["path2"] = self.pick(self.path(REG), self.new_path(),
                                self.dir_path() + "/" + last)

    def _link(self, op):
        op["path"] = self.path(self.pick(REG, REG, REG, REG, LNK))
        op["path2"] = self.pick(self.dir_path() + "/h0", self.new_path(), self.path())

    def _readdir(self, op):
        op["path"], op["attrs"] = self.dir_path(), self.pick(True, True, False)

    def _getattr(self, op):
        op["path"] = self.path()

    _lookup = _getattr

    def _readlink(self, op):
        op["path"] = self.path(LNK)

    def _commit(self, op):
        op["path"] = self.path(REG)


BY_NAME = frozenset(("lookup", "create", "remove", "rmdir", "mkdir", "symlink", "rename"))


def bind(world, op):
    """The operation with ids for its paths; None if they lead nowhere."""
    bound = dict(op)
    if op["op"] in BY_NAME:
        head, _, bound["name"] = op["path"].rpartition("/")
        bound["dir"] = world.find(head)
        where = ["dir"]
    else:
        bound["obj"] = world.find(op["path"])
        where = ["obj"]
    if "path2" in op:
        head, _, last = op["path2"].rpartition("/")
        key, name = ("dir2", "name2") if op["op"] == "rename" else ("dir", "name")
        bound[key], bound[name] = world.find(head), last
        where.append(key)
    for key in where:
        if bound[key] is None:
            return None
        if key != "obj" and world[bound[key]].type != DIR:
            return None
    return bound


def first_world(objects):
    """The source's tree: the truth."""
    from model_rig import source_bytes
    inodes = {ROOT: Inode(DIR, 0o755, 0, 0, Token("root"), nlink=2, entries={})}
    ids = {"": ROOT}
    for item in objects:
        head, _, name = item["path"].rpartition("/")
        parent = inodes[ids[head]]
        if item["type"] == "link":
            number = ids[item["of"]]
            inodes[number] = inodes[number].but(nlink=inodes[number].nlink + 1)
        else:
            number = item["path"]
            kind = {"dir": DIR, "file": REG, "symlink": LNK}[item["type"]]
            inodes[number] = Inode(
                kind, item["mode"], item["uid"], item["gid"], item["mtime"],
                nlink=2 if kind == DIR else 1, entries={} if kind == DIR else None,
                data=source_bytes(item) if kind == REG else b"",
                target=item.get("target", "").encode())
        ids[item["path"]] = number
        inodes[ids[head]] = parent.but(entries=dict(parent.entries, **{name: number}),
                                       nlink=parent.nlink + (item["type"] == "dir"))
    return PossibleWorld(inodes)
