# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes on while processes are killed: small trees, and what clients do to them.

A case is a tree on the source and a list of operations, those of cuts_work and
    ("open0", path)          create over a name: cut to nothing
    ("times", path)          a client sets the modification time
    ("part", path, offset, size)   read a part
    ("crawl",)               the crawler works to the end
    ("settle",)              wait until nothing is in flight
and those of SMB clients (kills_smb).
A seed moves offsets and sizes; the kinds of operations stay.
"""
from cuts_model import Expected
from cuts_work import pattern
import cuts_work
import kills_smb
from nfsclient.faketree import Tree

NS = 1_500_000_000_000_000_000      # all times of the source: long ago
BLOCK = 65536                       # the retriever's block_size
SET_TIME = 1_700_000_000_000_000_000


class Source:
    """A tree in the making."""

    def __init__(self):
        self.tree, self._count = Tree(), iter(range(1, 10000))
        root = self.tree.root
        root.atime = root.mtime = root.ctime = NS

    def _old(self):
        stamp = NS + next(self._count) * 1_000_003
        return dict(uid=1001, gid=1002, atime=stamp, mtime=stamp, ctime=stamp)

    def _place(self, path):
        head, _, name = path.rpartition("/")
        return self.tree.find(head), name.encode()

    def dir(self, path):
        parent, name = self._place(path)
        parent.nlink += 1
        return self.tree.mkdir(parent, name, **self._old())

    def file(self, path, size, mode=0o640):
        data = pattern(b"S%d" % next(self._count), size)
        return self.tree.file(*self._place(path), data, mode=mode, **self._old())

    def link(self, path, of):
        self.tree.hardlink(*self._place(path), self.tree.find(of))

    def symlink(self, path, target):
        self.tree.symlink(*self._place(path), target, **self._old())


class Data:
    """Bytes that clients write, all different."""

    def __init__(self):
        self._count = iter(range(1, 10000))

    def __call__(self, path, offset, size, stable=False):
        return "write", path, offset, pattern(b"W%d" % next(self._count), size), stable


# -- cases: each fills a Source and returns the operations --------------------

def looking(s, rng):
    """Look-ups that create stubs, listing with them there, directories in directories."""
    s.dir("a"), s.dir("a/sub"), s.dir("a/sub/deep"), s.dir("b")
    for i in range(4):
        s.file("a/f%d" % i, 3000 + rng.randrange(20000))
    s.file("a/sub/g", 5000), s.file("a/sub/deep/h", 700), s.file("a/empty", 0)
    s.symlink("a/way", "../b/k")
    s.file("b/k", 12345, 0o4755)
    return [("look", b"a/f1"), ("look", b"a/sub/deep/h"), ("read", b"a/f1"), ("look", b"a/way"),
            ("list", b"a/sub"), ("list", b"a"), ("read", b"a/sub/g"), ("list", b""),
            ("crawl",)]


def linked(s, rng):
    """Hard links across directories, with their provisional files."""
    s.dir("x"), s.dir("y"), s.dir("z")
    for i in range(4):
        s.file("x/h%d" % i, 4000 + rng.randrange(9000))
        s.link("y/g%d" % i, "x/h%d" % i)
    s.link("z/k0", "x/h0")
    write = Data()
    return [("look", b"x/h0"), write(b"x/h0", rng.randrange(3000), 900, True), ("list", b"y"),
            ("read", b"y/g1"), ("settle",), ("look", b"x/h1"), ("remove", b"y/g2"),
            ("rename", b"y/g3", b"z/moved"), ("link", b"x/h0", b"y/more"),
            write(b"y/g0", 2000, 1500), ("commit", b"x/h0", True), ("list", b""), ("crawl",)]


def bytes_(s, rng):
    """Writes and truncates in every state of a file."""
    s.dir("d")
    big = 2 * BLOCK + 4321
    for name in "mnopqrst":
        s.file("d/" + name, big if name in "mno" else 30000 + rng.randrange(9000))
    write, some = Data(), rng.randrange
    return [write(b"d/m", some(4000), 5000), ("commit", b"d/m", True),
            write(b"d/m", BLOCK + some(999), 4096, True), ("part", b"d/m", BLOCK, 10),
            write(b"d/m", BLOCK + 100, 3000), write(b"d/m", 2 * BLOCK, 2000, True),
            ("part", b"d/n", 0, 10), ("truncate", b"d/n", BLOCK + 10000),
            ("truncate", b"d/n", 2 * BLOCK), write(b"d/n", 2 * BLOCK - 100, 300),
            ("truncate", b"d/o", 5000), write(b"d/o", 9000, 500, True),
            write(b"d/p", 29000, 20000), write(b"d/q", 60000, 1000, True),
            ("truncate", b"d/r", 0), write(b"d/r", 0, 700), ("truncate", b"d/r", 40000),
            ("open0", b"d/s"), write(b"d/s", 100, 100), ("commit", b"d/s", True),
            write(b"d/t", 0, 4096), write(b"d/t", 8192, 4096), write(b"d/t", 4096, 4096, True),
            ("read", b"d/t"), ("read", b"d/m"), ("crawl",)]


def held(s, rng):
    """NFSv4: holes, room and ends of files that are open, and of which something is missing."""
    s.dir("h")
    for name in "abcd":
        s.file("h/" + name, 2 * BLOCK + 777)
    write, some = Data(), rng.randrange
    return [("open", b"h/a", "v4.2"), ("punch", b"h/a", 4096, 8192),
            write(b"h/a", 6000 + some(999), 1000), ("commit", b"h/a", True),
            ("punch", b"h/a", BLOCK - some(5000), 20000), ("close", b"h/a"),
            ("part", b"h/b", BLOCK, 10), ("open", b"h/b", "v4.1"),
            write(b"h/b", 100 + some(99), 3000), ("truncate", b"h/b", BLOCK + 5000),
            ("punch", b"h/b", BLOCK - 3000, 50000), ("commit", b"h/b", True),
            ("reserve", b"h/b", BLOCK, 30000), write(b"h/b", BLOCK + 29000, 500),
            ("close", b"h/b"), ("reserve", b"h/c", 8192, BLOCK),
            write(b"h/c", 9000 + some(99), 600, True), ("punch", b"h/c", 8192, 4096),
            ("punch", b"h/d", 0, 3 * BLOCK), ("crawl",)]


def naming(s, rng):
    """Names come, go and move, in listed and unlisted directories."""
    s.dir("a"), s.dir("b"), s.dir("b/in"), s.dir("c"), s.dir("e")
    for i in range(6):
        s.file("a/f%d" % i, 2000 + rng.randrange(5000))
    for i in range(3):
        s.file("b/in/g%d" % i, 3000 + rng.randrange(5000))
    s.file("c/k", 6000), s.file("c/l", 6000)
    write = Data()
    return [("rename", b"a/f0", b"c/moved"), ("rename", b"b", b"c/b"),
            ("look", b"c/b/in/g1"), ("rename", b"c/b/in/g1", b"c/b/in/g2"),
            ("remove", b"a/f1"), ("rename", b"a/f2", b"a/f3"), ("link", b"a/f4", b"c/hard"),
            ("rmdir", b"e"), ("mkdir", b"e"), ("create", b"e/n"), write(b"e/n", 0, 3000, True),
            ("symlink", b"e/s", b"../a"), ("chmod", b"a/f5", 0o600), ("times", b"c/k"),
            ("open0", b"c/l"), ("create", b"a/f1"), write(b"a/f1", 10, 100),
            ("rename", b"c/b", b"e/b"), ("remove", b"c/hard"), ("crawl",)]


def batch(s, rng):
    """Nothing but the crawler: fills, and completion in batches."""
    for d in "abc":
        s.dir(d)
        for i in range(8):
            s.file("%s/f%d" % (d, i), rng.choice((0, 1, 4096, 9000, 20000)))
    s.link("c/again", "a/f1")
    write = Data()
    return [("crawl",), write(b"b/f1", 5, 100), ("list", b"a")]


def shared(s, rng):
    """SMB and NFS clients on the same files."""
    return kills_smb.both(s, rng, Data())


CASES = {"shared": shared, "looking": looking, "linked": linked, "bytes": bytes_, "held": held, "naming": naming,
         "batch": batch}


# -- what they lead to ----------------------------------------------------------

class Killed(kills_smb.Operations, Expected):
    """SIGKILL leaves the page cache alone: names, sizes and attributes are as answered.

    So are bytes, as long as one process lives that has the volume open.  When all die
    an era ends (libstubcore/era.c): unstable writes that were not committed may be
    lost, as a client must expect of a server that comes back with another verifier.
    """

    def __init__(self, tree, ops, issued, acked, all_died=False):
        super().__init__(tree, ops, issued, acked)
        self.floor, self.acked = acked, acked
        for obj in self.objects():
            if not all_died:
                obj.floor = self._last(obj)

    def _promises(self, op):
        """Of a file that is normal the page cache keeps the hole."""
        return super()._promises(op) or op[0] == "punch" or (
            op[0] in ("swrite", "szero", "scopy") and op[-1])

    def objects(self):
        return {id(o): o for _n, names in self.trees for o in names.values()}.values()

    def _last(self, obj):
        known = [i for i, (number, _data) in enumerate(obj.states) if number <= self.acked]
        return known[-1] if known else 0

    def sizes(self, obj):
        """Of a file: as answered, or as what was sent since would have it."""
        return [len(data) for _number, data in obj.states[self._last(obj):]]

    def _open0(self, number, path):
        self._truncate(number, path, 0)

    def _times(self, number, path):
        self.names[path].touched = True

    def _crawl(self, number):
        pass

    _settle = _crawl

    def _part(self, number, path, offset, size):
        pass


READS = ("read", "part")


def perform(m, c, op):
    """One operation; c are Clients of migration m.  Returns the bytes that were read."""
    if op[0] == "read":
        return c.client().read_file(op[1])
    if op[0] == "part":
        return c.client().read(op[1], op[2], op[3])[0]
    if op[0] in kills_smb.DO:
        kills_smb.perform(m.smb, op)
    elif op[0] == "crawl":
        m.crawl_on()
    elif op[0] == "settle":
        m.drain()
    elif op[0] == "open0":
        c.client().create(op[1], size=0)
    elif op[0] == "times":
        c.client().setattr(op[1], mtime=SET_TIME)
    else:
        cuts_work.perform(c, op)
    return None


def read_wrong(expected, op, data):
    """Of the bytes that an operation has read, of which a READ may return fewer."""
    now, part = expected.names[op[1]].states[-1][1], op[0] == "part"
    right = now[op[2]:op[2] + len(data)] if part else now
    return [] if data == right and (data or not part) else ["%r: other bytes" % (op,)]


def sizes_wrong(image, tree, expected):
    return ["%r is %d bytes long, not %s" % (path, image.objects[path]["size"], expected.sizes(obj))
            for path, obj in tree.items() if obj.kind == "file" and path in image.objects and
            image.objects[path]["size"] not in expected.sizes(obj)]


def links_wrong(image, tree):
    """One inode for all names; while some are to come, a provisional file holds it.  Clients are shown no
    fewer names than there are: it would pass for complete too early."""
    wrong, groups = [], {}
    for path, obj in tree.items():
        if obj.kind == "file":
            groups.setdefault(id(obj), (obj, []))[1].append(path)
    for obj, paths in groups.values():
        inodes = {image.objects[p]["ino"] for p in paths if p in image.objects}
        if len(inodes) > 1:
            wrong.append("%r: %d inodes" % (paths, len(inodes)))
        to_come = [p for p in paths if p not in image.objects]
        if inodes and to_come and not inodes & image.provisional:
            wrong.append("%r: nothing holds the inode for %r" % (paths, to_come))
        shown = {image.objects[p]["nlink"] for p in paths if p in image.objects}
        if not shown <= {len(paths), len(paths) + 1}:   # a name more: somebody died when it had just gone, or came
            wrong.append("%r: %s names are shown" % (paths, sorted(shown)))
    return wrong
