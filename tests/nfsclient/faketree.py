# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree in memory that fakeserver serves.

Nothing is checked: names may be any bytes, a directory may contain itself,
attributes may lie.  That is the point.

    tree = Tree()
    d = tree.mkdir(tree.root, "dir")
    tree.file(d, "f", b"hello", mode=0o640, mtime=1234567890123456789)
    tree.file(d, "big", Pattern(10 << 30))
    tree.file(d, "liar", b"x").claim(size=2**64 - 1)
    tree.link(d, b"a/b", d)               # hostile name, and a cycle
"""
import array
import itertools
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Optional

from .nfstypes import (BLK, CHR, DIR, FIFO, LNK, REG, SOCK, Attrs, as_bytes)


class Pattern:
    """Contents of any size without memory: the 64-bit word at offset 8*n is
    seed << 48 | (n + 1), little endian.  No aligned 8 bytes are ever zero."""

    def __init__(self, size, seed=1):
        self.size, self.seed = size, seed

    def __len__(self):
        return self.size

    def read(self, offset, count):
        count = max(0, min(count, self.size - offset))
        first, last = offset // 8, (offset + count + 7) // 8
        base = self.seed << 48
        words = array.array("Q", range(base + first + 1, base + last + 1))
        if sys.byteorder == "big":
            words.byteswap()
        start = offset - first * 8
        return words.tobytes()[start:start + count]


class Bytes:
    """Contents that are simply there."""

    def __init__(self, data):
        self.data = bytes(data)
        self.size = len(data)

    def read(self, offset, count):
        return self.data[offset:offset + count]


class Sparse:
    """Contents with data at some places only: {offset: bytes}, and a size."""

    def __init__(self, size, data):
        self.size = size
        self.data = sorted(data.items())

    def read(self, offset, count):
        count = max(0, min(count, self.size - offset))
        out = bytearray(count)
        for at, data in self.data:
            start, end = max(at, offset), min(at + len(data), offset + count)
            if start < end:
                out[start - offset:end - offset] = data[start - at:end - at]
        return bytes(out)

    def seek(self, offset, what):
        """Where the next data (what 0) or hole begins; None: there is none."""
        for at, data in self.data:
            if offset < at:
                return offset if what else at
            if offset < at + len(data):
                if not what:
                    return offset
                offset = at + len(data)
        return offset if what else None


@dataclass(eq=False)
class Node:
    """One object.  Change its fields at any time, also while being served."""
    type: int
    fileid: int
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    nlink: int = 1
    atime: int = 0
    mtime: int = 0
    ctime: int = 0
    rdev: tuple = (0, 0)
    target: bytes = b""
    content: object = None
    entries: list = field(default_factory=list)      # of (name, Node), ordered
    claims: dict = field(default_factory=dict)       # attribute -> lie
    parent: Optional["Node"] = None
    fh: bytes = b""
    acl: list = None                                 # of (type, id, rights); None: the mode
    default_acl: list = field(default_factory=list)
    gone: bool = False                               # answers STALE
    xattrs: Optional[dict] = field(default_factory=dict)     # by NFSv4.2; None: NOTSUPP
    born: Optional[int] = None                       # by NFSv4: ns; None: it is not told

    def claim(self, **lies):
        """Show these attributes instead of the true ones; returns self."""
        self.claims.update(lies)
        return self

    @property
    def size(self):
        if self.type == REG:
            return self.content.size
        if self.type == LNK:
            return len(self.target)
        return 4096 if self.type == DIR else 0

    def attrs(self):
        values = dict(type=self.type, mode=self.mode, nlink=self.nlink,
                      uid=self.uid, gid=self.gid, size=self.size, used=self.size,
                      rdev=self.rdev, fsid=(1, 0), fileid=self.fileid,
                      atime=self.atime, mtime=self.mtime, ctime=self.ctime)
        values.update(self.claims)
        return Attrs(**values)

    def child(self, name):
        for entry, node in list(self.entries):
            if entry == name:
                return node
        return None

    def touch(self):
        """Let it look changed: mtime and ctime move."""
        self.mtime = self.ctime = max(time.time_ns(), self.ctime + 1)


class Tree:
    def __init__(self, fh_size=32):
        self.fh_size = fh_size
        self._fileids = itertools.count(100)
        self.by_fh = {}
        self.lock = threading.RLock()
        self.root = self._new(DIR, mode=0o755, nlink=2)
        self.root.parent = self.root

    def _new(self, ftype, **kw):
        now = time.time_ns()
        for key in ("atime", "mtime", "ctime"):
            kw.setdefault(key, now)
        node = Node(ftype, next(self._fileids), **kw)
        node.fh = (b"FAKE" + node.fileid.to_bytes(8, "big")).ljust(self.fh_size, b"\xa5")
        self.by_fh[node.fh] = node
        return node

    def link(self, parent, name, node):
        """Give a node (another) name in a directory.  Any bytes will do."""
        with self.lock:
            parent.entries.append((as_bytes(name), node))
            if node.parent is None:
                node.parent = parent
        return node

    def _add(self, parent, name, node):
        return self.link(parent, name, node)

    def mkdir(self, parent, name, **kw):
        kw.setdefault("mode", 0o755)
        kw.setdefault("nlink", 2)
        return self._add(parent, name, self._new(DIR, **kw))

    def file(self, parent, name, content=b"", **kw):
        if isinstance(content, (bytes, bytearray, str)):
            content = Bytes(as_bytes(content))
        return self._add(parent, name, self._new(REG, content=content, **kw))

    def symlink(self, parent, name, target, **kw):
        kw.setdefault("mode", 0o777)
        return self._add(parent, name, self._new(LNK, target=as_bytes(target), **kw))

    def special(self, parent, name, ftype, rdev=(0, 0), **kw):
        assert ftype in (BLK, CHR, FIFO, SOCK)
        return self._add(parent, name, self._new(ftype, rdev=rdev, **kw))

    def handle(self, node, _directory):
        """The handle of a node found in that directory.  Override it for a server whose
        handles tell of more than the node, and put them into by_fh."""
        return node.fh

    def hardlink(self, parent, name, node):
        node.nlink += 1
        return self.link(parent, name, node)

    def unlink(self, parent, name):
        """Take a name away; the last one takes the object with it."""
        name = as_bytes(name)
        with self.lock:
            node = parent.child(name)
            parent.entries = [e for e in parent.entries if e[0] != name]
            node.nlink -= 1
            if node.nlink <= (1 if node.type == DIR else 0):
                node.gone = True
        return node

    def find(self, path):
        """The node at a path; None if there is none."""
        node = self.root
        for name in as_bytes(path).split(b"/"):
            if name:
                node = node.child(name) if node else None
        return node

    def fill(self, depth=1, dirs=3, files=10, size=100, parent=None, seed=1):
        """A regular tree: dirs and files at every level; returns object count."""
        parent, count = parent or self.root, 0
        for i in range(files):
            self.file(parent, "f%d" % i, Pattern(size, seed=seed + i))
            count += 1
        if depth > 0:
            for i in range(dirs):
                below = self.mkdir(parent, "d%d" % i)
                count += 1 + self.fill(depth - 1, dirs, files, size, below, seed + i)
        return count
