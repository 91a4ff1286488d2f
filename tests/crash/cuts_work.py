# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes on while the power may go: a tree on the source, and what clients do.

Every script below is one client's doing on objects of its own; a seed mixes them.
Operations are those of cuts_model.Expected: ("write", path, offset, data, stable) ...
Between ("open", path, "v4.1" or "v4.2") and ("close", path) they use NFSv4's open state.
"""
from nfsclient.faketree import Tree
from nfsclient.nfstypes import FILE_SYNC, UNSTABLE

NS = 1_600_000_000_123_456_789     # all times of the source: years ago


def source_tree(rng):
    """A tree whose every sector has bytes of its own."""
    tree = Tree()
    count = iter(range(1, 100000))

    def times():
        stamp = NS + next(count) * 1_000_003
        return dict(atime=stamp, mtime=stamp, ctime=stamp)

    def file(parent, name, size, **kw):
        return tree.file(parent, name, pattern(b"S%d" % next(count), size), uid=501, gid=20,
                         **times(), **kw)

    root = tree.root
    root.mtime = root.ctime = root.atime = NS
    for name, sizes in ((b"a", (3000, 9000, 20000, 40000, 65536, 5000)),
                        (b"b", (4096, 8192, 12345, 30000, 30001, 7)),
                        (b"c", (25000, 25000, 25000, 25000))):
        parent = tree.mkdir(root, name, **times())
        for i, size in enumerate(sizes):
            file(parent, b"f%d" % i, size, mode=rng.choice((0o600, 0o644, 0o755)))
        tree.file(parent, b"empty", b"", **times())
        tree.symlink(parent, b"way", b"../c/f0", **times())
    sub = tree.mkdir(tree.find(b"c"), b"sub", **times())
    for i in range(3):
        file(sub, b"s%d" % i, 6000 + i)
    small = tree.mkdir(root, b"small", **times())
    for i in range(24):
        file(small, b"t%02d" % i, 100 + 37 * i)
    lag = tree.mkdir(root, b"lag", **times())
    for i in range(4):
        file(lag, b"l%d" % i, 20000)
    whole = tree.mkdir(root, b"whole", **times())
    for i in range(12):
        file(whole, b"w%02d" % i, 4096)
    down = root
    for name in (b"d1", b"d2", b"d3"):
        down = tree.mkdir(down, name, **times())
    file(down, b"deep", 10000)
    held = tree.mkdir(root, b"held", **times())
    for i in range(5):
        file(held, b"o%d" % i, 30000 + 11 * i)
    x, y = (tree.mkdir(root, name, **times()) for name in (b"x", b"y"))
    for i in range(4):
        node = file(x, b"h%d" % i, 8000 + i)
        tree.hardlink(y, b"g%d" % i, node)
    return tree


def pattern(tag, size):
    """Bytes none of which is zero; each sector is unlike all others."""
    sectors = range(0, size, 512)
    return b"".join(((tag + b".%d|" % at) * 128)[:512] for at in sectors)[:size]


def scripts(rng):
    """Lists of operations, each to be done in order."""
    count = iter(range(1, 1000))

    def data(size):
        return pattern(b"W%d" % next(count), size)

    def write(path, offset, size, stable=False):
        return "write", path, offset, data(size), stable

    def commit(path):
        return "commit", path, True

    some = rng.randrange
    return [
        # all of a file, committed while the crawler finishes it
        [op for i in range(12) for path in (b"whole/w%02d" % i,)
         for op in (write(path, 0, 4096), commit(path))],
        [("read", b"d1/d2/d3/deep"), write(b"d1/d2/d3/deep", 4096, 4096, True),
         write(b"d1/d2/d3/deep", 6000, 100), ("list", b"d1/d2"), commit(b"d1/d2/d3/deep")],
        # partial writes into missing ranges, stable and not, again and again
        [write(b"a/f3", 8192, 4096), commit(b"a/f3"), write(b"a/f3", 8192, 2048),
         write(b"a/f3", 20000 + some(500), 3000), commit(b"a/f3"), write(b"a/f3", 0, 512)],
        [("look", b"b/f3"), write(b"b/f3", some(2000), 5000, True), write(b"b/f3", 15000, 700),
         write(b"b/f3", 15100, 700, True), ("read", b"b/f3")],
        # over the end, and over all of it
        [write(b"b/f2", 12000, 4000, True), write(b"b/f2", 30000, 600), commit(b"b/f2")],
        [write(b"b/f0", 0, 4096), commit(b"b/f0"), write(b"b/f0", 0, 4096),
         write(b"b/f1", 0, 8192)],
        # shorter, longer: what was cut off never comes back
        [("truncate", b"a/f2", 1000), ("truncate", b"a/f2", 9000),
         write(b"a/f2", 8600, 200, True), write(b"a/f2", 2000, 3000), commit(b"a/f2")],
        [("truncate", b"a/f4", 0), write(b"a/f4", 100, 5000, True), ("truncate", b"a/f4", 70000),
         commit(b"a/f4")],
        [write(b"b/f4", 4096, 4096), ("truncate", b"b/f4", 6000), commit(b"b/f4")],
        # names
        [("rename", b"a/f1", b"b/moved"), write(b"b/moved", 3000, 3000, True),
         ("remove", b"b/moved"), ("create", b"b/moved"), write(b"b/moved", 0, 1000, True)],
        [("list", b"c"), ("rename", b"c/sub", b"a/sub"), write(b"a/sub/s1", 1000, 1000, True),
         ("remove", b"a/sub/s0")],
        [("remove", b"a/f5"), ("create", b"a/f5"), write(b"a/f5", 0, 3000, True),
         ("rename", b"a/f5", b"a/f0"), write(b"a/f0", 100, 100), commit(b"a/f0")],
        [("mkdir", b"new"), ("create", b"new/n"), write(b"new/n", 0, 10000), commit(b"new/n"),
         ("symlink", b"new/l", b"n"), ("link", b"c/f2", b"new/h"),
         write(b"new/h", 5000, 5000, True), ("mkdir", b"new/sub"), ("rmdir", b"new/sub")],
        # hard links of the source, found in one directory and then in the other
        [("look", b"x/h0"), write(b"x/h0", 1000, 2000, True), ("list", b"y"),
         write(b"y/g0", 2000, 2000, True), ("remove", b"x/h1"), write(b"y/g1", 0, 700, True),
         ("rename", b"y/g2", b"x/g2"), ("read", b"x/h2")],
        [("chmod", b"small/t03", 0o640), ("list", b"small"), ("read", b"small/t05"),
         ("remove", b"small/t07"), ("rename", b"small/t08", b"small/t09"),
         write(b"small/t10", 50, 50, True)],
        [("read", b"c/f0"), write(b"c/f0", 10000, 100, True), write(b"c/f1", 0, 25000),
         commit(b"c/f1"), write(b"c/f1", 512, 512)],
        # NFSv4: what is missing is punched, written into, punched again, reserved, cut off
        [("open", b"held/o0", "v4.2"), ("punch", b"held/o0", 4096, 8192),
         write(b"held/o0", 6000 + some(1000), 1000), commit(b"held/o0"),
         ("punch", b"held/o0", 10000 + some(3000), 9000), ("close", b"held/o0")],
        [("open", b"held/o1", "v4.1"), write(b"held/o1", 5000, 3000), ("punch", b"held/o1", 0, 9000),
         ("truncate", b"held/o1", 20000), commit(b"held/o1"), ("reserve", b"held/o1", 18000, 9000),
         write(b"held/o1", 26000, 500), commit(b"held/o1"), ("close", b"held/o1")],
        [("reserve", b"held/o2", 8192, 8192), ("punch", b"held/o2", 20480, 50000),
         write(b"held/o2", 9000 + some(500), 600, True), ("punch", b"held/o2", 8192, 4096)],
        [("read", b"held/o3"), ("punch", b"held/o3", 100 + some(4000), 12000),
         ("open", b"held/o3", "v4.2"), write(b"held/o3", 8192, 4096, True),
         ("punch", b"held/o3", 8192, 2048), commit(b"held/o3"), ("close", b"held/o3")],
        [("punch", b"held/o4", 0, 40000), write(b"held/o4", 4096, 100), commit(b"held/o4")],
    ]


def mixed(rng):
    """The scripts, one operation of one of them at a time.  Early on some writes wait
    until their maps are folded without a COMMIT ("fold"); later the crawler starts."""
    todo, ops = [list(s) for s in scripts(rng)], []
    while todo:
        script = rng.choice(todo)
        ops.append(script.pop(0))
        if not script:
            todo.remove(script)
    fold = rng.randrange(len(ops) // 8, len(ops) // 4)
    crawl = rng.randrange(3 * len(ops) // 8, len(ops) // 2)
    lag = [("write", b"lag/l%d" % i, 4096 * i, pattern(b"L%d" % i, 4096), False)
           for i in range(4)]
    # nothing else syncs the volume around the fold
    more = [op for i in range(4) for path in (b"lag/n%d" % i,) for op in (
        ("create", path), ("write", path, 0, pattern(b"N%d" % i, 1000), True))]
    return [*ops[:fold], ("drain", b""), *lag, ("fold", b""), *more, *ops[fold:crawl], ("crawl", b""), *ops[crawl:]]


def perform(c, op):
    """One operation by Clients, which are patient."""
    kind, path, rest = op[0], op[1], op[2:]
    if kind == "write":
        offset, data, stable = rest
        client, f = c.on(path)
        done = client.write(f, offset, data, FILE_SYNC if stable else UNSTABLE)
        assert done.count == len(data), "short write"
        assert not stable or done.committed == FILE_SYNC, "not as stable as asked for"
    elif kind == "truncate":
        client, f = c.on(path)
        if f is path:
            client.setattr(f, size=rest[0])
        else:
            client.resize(f, rest[0])
    elif kind in ("punch", "reserve"):
        with c.space(path) as (client, f):
            (client.deallocate if kind == "punch" else client.allocate)(f, *rest)
    elif kind == "commit":
        client, f = c.on(path)
        client.commit(f)
    elif kind in ("open", "close"):
        getattr(c, kind)(path, *rest)
    elif kind == "chmod":
        c.client().setattr(path, mode=rest[0])
    elif kind == "look":
        c.client().getattr(path)
    elif kind == "read":
        c.client().read_file(path)
    elif kind == "list":
        c.client().listdir(path)
    else:                                # the client's own names: create, rename ...
        getattr(c.client(), kind)(path, *rest)
