# SPDX-License-Identifier: GPL-3.0-or-later
"""What a volume may look like after a power cut: the oracle of the cuts.

Operations are numbered and come one after the other; the log of the disk knows how
many had been sent and how many answered when the power went.  Expected plays them on
the source's tree and keeps every state in between:

  names   a file system's journal keeps changes of names in order, so the tree must
          be one of the states from the last one that is known to be durable to the
          last one that was sent;
  bytes   each sector must be as in one of the file's states since its last
          acknowledged stable write or COMMIT: the source's bytes count as the
          state before all, zeros only where some state has them.

Logical bytes are the local ones, with the source's where the record says that they
are missing.
"""
import os
from urllib.parse import unquote_to_bytes

from nfsclient.nfstypes import DIR, LNK, REG

SECTOR = 512
BLOCK = 4096                             # of the file systems
TYPES = {REG: "file", DIR: "dir", LNK: "symlink"}


class Object:
    """One inode: what it was on the source, and what clients did to it."""

    def __init__(self, kind, src=None):
        self.kind, self.src = kind, src
        self.touched = False             # by a client, so attributes may differ
        self.states = []                 # files: (operation, bytes)
        self.edges = {0}                 # offsets at which operations begin and end
        self.floor = 0                   # index of the last state that is stable
        self.ranges = []                 # (start, end, index): as floor, of these bytes
        self.failed = False              # a write or COMMIT: it may have been lost since
        self.named = 0                   # operation that gave or took a name last
        self.target = src.target if src else None
        if kind == "file":
            self.states.append((0, src.content.read(0, src.size) if src else b""))

    def source_bytes(self):
        return self.states[0][1] if self.src else None


class Expected:
    """The tree after `issued` of the operations, `acked` of them answered.

    failed: None, or the numbers of those answered with an error by a disk that may fail;
    undone: of those that were not done at all then.
    On such a disk a stable write vouches for its own range only: what was written before
    may have been lost already, which COMMIT has to tell, once."""

    def __init__(self, tree, ops, issued, acked, failed=None, undone=()):
        self.names = {}
        self._plant(tree.root, b"", {})
        self.trees = [(0, dict(self.names))]
        self.floor = 0                   # operation whose names are durable
        for number, op in enumerate(ops[:issued], 1):
            if number in undone:
                continue
            before = dict(self.names)
            getattr(self, "_" + op[0])(number, *op[1:])
            if self.names != before:
                self.trees.append((number, dict(self.names)))
            if failed and number in failed:
                if op[0] in ("write", "commit", "punch", "reserve"):
                    self.names[op[1]].failed = True
            elif number <= acked and self._promises(op):
                self._stable(op, failed is not None)

    def _plant(self, node, path, known):
        kind = TYPES[node.type]
        obj = known.setdefault(node, None) or Object(kind, node)
        known[node] = self.names[path] = obj
        if kind == "dir":
            for name, child in node.entries:
                self._plant(child, path + b"/" + name if path else name, known)

    def _promises(self, op):
        """Is it stable when it is answered?  Holes are, of stubs: a normal file's are the
        business of the file system below."""
        return op[0] in ("write", "commit") and op[-1]

    def _stable(self, op, may_fail):
        obj = self.names[op[1]]
        last = len(obj.states) - 1
        if op[0] == "write" and may_fail:
            obj.ranges.append((op[2], op[2] + len(op[3]), last))
        elif not obj.failed:
            obj.floor = last
        self.floor = max(self.floor, obj.named)

    # -- operations ---------------------------------------------------------

    def _new(self, number, path, obj):
        self.names[path] = obj
        obj.touched, obj.named = True, number
        self.names[path.rpartition(b"/")[0]].touched = True

    def _change(self, number, path, data, *edges):
        obj = self.names[path]
        obj.touched = True
        obj.states.append((number, data))
        obj.edges.update(edges)

    def _write(self, number, path, offset, data, _stable):
        old = self.names[path].states[-1][1]
        new = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data):]
        self._change(number, path, new, offset, offset + len(data), len(old))

    def _truncate(self, number, path, size):
        old = self.names[path].states[-1][1]
        self._change(number, path, old[:size].ljust(size, b"\0"), size, len(old))

    def _punch(self, number, path, offset, size):
        old = self.names[path].states[-1][1]
        start, end = min(offset, len(old)), min(offset + size, len(old))
        self._change(number, path, old[:start] + bytes(end - start) + old[end:], start, end)

    def _reserve(self, number, path, offset, size):
        """Room; the file becomes longer if it ends before."""
        old = self.names[path].states[-1][1]
        self._change(number, path, old.ljust(offset + size, b"\0"), len(old))

    def _commit(self, number, path, _stable):
        pass

    def _open(self, number, path, _proto):
        pass

    def _close(self, number, path):
        pass

    def _create(self, number, path):
        self._new(number, path, Object("file"))

    def _mkdir(self, number, path):
        self._new(number, path, Object("dir"))

    def _symlink(self, number, path, _target):
        self._new(number, path, Object("symlink"))

    def _link(self, number, path, new):
        self._new(number, new, self.names[path])

    def _remove(self, number, path):
        obj = self.names.pop(path)
        obj.touched, obj.named = True, number
        self.names[path.rpartition(b"/")[0]].touched = True

    _rmdir = _remove

    def _rename(self, number, old, new):
        moved = {p: o for p, o in self.names.items()
                 if p == old or p.startswith(old + b"/")}
        self._remove(number, old)
        for path in moved:
            self.names.pop(path, None)
        self._new(number, new, moved[old])
        for path, obj in moved.items():
            self.names[new + path[len(old):]] = obj

    def _chmod(self, number, path, _mode):
        self.names[path].touched = True

    def _look(self, number, path):
        pass

    _read = _list = _fold = _drain = _crawl = _crawled = _look


# -- an image ----------------------------------------------------------------

class Image:
    """What stubdump told of a volume at `where`."""

    def __init__(self, where, lines):
        self.where = os.fsencode(str(where))
        self.objects, self.damaged, self.volume = {}, [], None
        self.staged, self.provisional, self.entries = 0, set(), []
        for line in lines:
            if "path" in line:
                path = unquote_to_bytes(line["path"])
                self.objects[b"" if path == b"." else path] = line
            elif "damaged" in line:
                self.damaged.append(line["damaged"])
            elif "volume" in line:
                self.volume = line["volume"]
            elif "staging" in line:
                self.staged += 1
            elif "provisional" in line:
                self.provisional.add(line["ino"])
            elif line["stub"]:           # an entry of the journal; the others are stale
                self.entries.append(line["entry"])

    def unlisted(self, path):
        line = self.objects.get(path)
        return bool(line and line["stub"] and "unlisted" in line["stub"]["flags"])

    def local(self, path):
        with open(self.where + b"/" + path, "rb", buffering=0) as f:
            return f.read()

    def bytes_of(self, path, obj):
        """Logical bytes; None if something is missing that no source has."""
        line, data = self.objects[path], bytearray(self.local(path))
        for start, end in line["stub"]["missing"] if line["stub"] else ():
            source = obj.source_bytes()
            if source is None or end > len(source):
                return None
            data[start:end] = source[start:end]
        return bytes(data)


def _to_come(image, tree, path):
    """Is it no local name yet, because an unlisted directory will bring it?"""
    parent, _, name = path.rpartition(b"/")
    obj, above = tree[path], tree.get(parent)
    if not path or obj.src is None or above is None or above.src is None:
        return False
    if above.src.child(name) is not obj.src:
        return False
    return image.unlisted(parent) if parent in image.objects else _to_come(image, tree, parent)


def _names_wrong(image, tree):
    wrong = []
    for path, obj in tree.items():
        line = image.objects.get(path)
        if line is None and not _to_come(image, tree, path):
            wrong.append("%r is gone" % path)
        elif line and line["type"] != obj.kind:
            wrong.append("%r is a %s" % (path, line["type"]))
        if obj.kind == "dir" and (line is None or image.unlisted(path)):
            # all its names on the source will come
            prefix = path + b"/" if path else b""
            wrong += ["%r will come back" % (prefix + name) for name, _node in
                      (obj.src.entries if obj.src else ()) if prefix + name not in tree]
    return wrong + ["%r should not be there" % p for p in image.objects if p not in tree]


def _survives(sizes, i, ends, position):
    """May bytes of state i be at this position of a file that ended at one of the
    states `ends`?  Not if a truncate in between has cut them off."""
    return any(end <= i or min(sizes[i + 1:end + 1]) > position for end in ends)


def _zeroed(sizes, i):
    """How far a truncate to state i may have zeroed what is on the disk."""
    return -(-sizes[i] // BLOCK) * BLOCK if i and sizes[i] < sizes[i - 1] else 0


def _bytes_wrong(obj, data):
    """The first range whose bytes are in none of the states that count."""
    allowed = [state for _number, state in obj.states[obj.floor:]]
    if data in allowed:
        return None
    sizes = [len(state) for state in allowed]
    if not min(sizes) <= len(data) <= max(sizes):
        return "is %d bytes long, not %s" % (len(data), sorted(set(sizes)))
    ends = [i for i, size in enumerate(sizes) if size == len(data)] or range(len(sizes))
    edges = sorted({e for e in obj.edges if e < len(data)} |
                   set(range(0, len(data), SECTOR))) + [len(data)]
    # an end that moves on leaves zeros until the bytes come; one that moves back has
    # the rest of its block zeroed first
    padded = [state.ljust(max(sizes[i:] + [_zeroed(sizes, i)]), b"\0")
              for i, state in enumerate(allowed)]
    for start, end in zip(edges, edges[1:]):
        part = data[start:end]
        floor = max((index - obj.floor for first, last, index in obj.ranges
                     if first <= start < last), default=0)
        if not any(i >= floor and state[start:end] == part and _survives(sizes, i, ends, start)
                   for i, state in enumerate(padded)):
            return "[%d, %d) is %s" % (start, end, "ZEROS" if not any(part) else
                                       "%r..." % part[:16])
    return None


def _attrs_wrong(line, obj, path):
    src = obj.src
    want = dict(mode=src.mode, uid=src.uid, gid=src.gid)
    if obj.kind != "symlink":            # a symlink's times are not ours to set everywhere
        want["mtime"] = src.mtime
    if obj.kind == "file":
        want["nlink"] = src.nlink
    if obj.kind == "symlink":
        want["target"] = src.target.decode()
    return ["%r: %s is %r, was %r" % (path, key, line[key], value)
            for key, value in want.items() if line[key] != value]


def structure_wrong(image):
    """What needs no model: cover by the journal, counts and totals, damage."""
    wrong = ["damaged record: %s" % name for name in image.damaged]
    # one name of an inode in an unlisted directory will do: from there it goes only once
    # that is listed
    found = {line["ino"] for line in image.objects.values()
             if line["stub"] and line["stub"]["cover"] in ("journal", "parent")}
    for path, line in image.objects.items():
        if line["stub"] and line["ino"] not in found:
            wrong.append("%r: found by %s" % (path, line["stub"]["cover"]))
    counts = image.volume
    for key in ("uncovered", "corrupt", "foreign"):
        if counts[key]:
            wrong.append("%d %s" % (counts[key], key))
    waits = counts["journal"] - counts["parked"]
    if (counts["miscounted"] or not counts["whole"] or counts["left"] != waits
            or counts["found"] - counts["done"] - counts["parked"] != waits):
        wrong.append("the totals are wrong: %r" % counts)
    # the counter is right if each entry that is not stale names a stub of its own that
    # a client can reach, or that waits for its names, or that the next start removes
    reachable = {line["ino"] for line in image.objects.values() if line["stub"]}
    unknown = set(image.entries) - reachable - image.provisional
    if len(set(image.entries)) != len(image.entries) or len(unknown) > image.staged:
        wrong.append("entries %r, stubs %r, provisional %r, %d staged" % (
            sorted(image.entries), sorted(reachable), sorted(image.provisional), image.staged))
    if counts["complete"] and (counts["stubs"] or counts["unlisted"] or counts["journal"]):
        wrong.append("complete, with %r" % counts)
    return wrong


def logical(image, tree):
    """{path: (kind, contents)}, names that are still to come included."""
    found, here = {}, {}
    for path, obj in tree.items():
        if path in image.objects:
            here[obj] = path             # another name of it may be to come
    for path, obj in tree.items():
        local, value = here.get(obj), None
        if obj.kind == "file":
            value = obj.source_bytes() if local is None else image.bytes_of(local, obj)
        elif obj.kind == "symlink":
            value = (obj.target or b"").decode() if local is None else (
                image.objects[local]["target"])
        found[path] = obj.kind, value
    return found


def _tree_wrong(image, tree):
    wrong = []
    for path, (kind, value) in logical(image, tree).items():
        obj = tree[path]
        if kind == "file":
            problem = ("misses what no source has" if value is None
                       else _bytes_wrong(obj, value))
            if problem:
                wrong.append("%r %s" % (path, problem))
        if obj.src and not obj.touched and path in image.objects:
            wrong += _attrs_wrong(image.objects[path], obj, path)
    return wrong


def tree_wrong(image, tree):
    """What is wrong if it is this tree."""
    return structure_wrong(image) + (_names_wrong(image, tree) or _tree_wrong(image, tree))


def judge(image, expected):
    """(what is wrong, the tree that it is).  Names alone may fit several trees, if an
    object was replaced by another of the same name."""
    structure, tried = structure_wrong(image), []
    first = max(i for i, (number, _t) in enumerate(expected.trees) if number <= expected.floor)
    for _number, tree in reversed(expected.trees[first:]):
        names = _names_wrong(image, tree)
        wrong = names or _tree_wrong(image, tree)
        if not wrong:
            return structure, tree
        tried.append((bool(names), wrong))
    return structure + min(tried, key=lambda t: (t[0], len(t[1])))[1], None
