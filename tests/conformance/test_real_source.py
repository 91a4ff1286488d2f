# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole migration from a stock Ganesha: a tree with some of everything comes over
exactly as it was, while clients read it, and nothing changes on the old server."""
import os
import random
import stat
import subprocess
import threading

import pytest

import oldtree
from lib.richtree import modes
from lib.wait import wait_until
from nfsclient.nfstypes import DIR, LNK, REG

MIB = 1 << 20
NS = 10 ** 9
LEVELS = 45                 # of 100 bytes each: no path leads there
# Beyond oldtree's: the last second an NFSv3 time has, and a 2038 that is far behind.
TIMES = [0, (1 << 32) * NS - 1, (1 << 31) * NS, 4102444800 * NS + 7]


def sizes(top):
    """Around the sizes where something changes: blocks, READs, asks."""
    os.mkdir(top)
    rng = random.Random(1)
    edges = [1, 512, 4096, 65536, 128 << 10, MIB, 10 * MIB]
    for size in sorted({0, *(e + d for e in edges for d in (-1, 0, 1))}):
        oldtree.write(os.path.join(top, b"%d" % size), rng.randbytes(size))


def sparse(top):
    os.mkdir(top)
    for name, length, pieces in [(b"islands", 12 * MIB, [0, 5 * MIB + 5, 11 * MIB]),
                                 (b"hole", 3 * MIB + 1, []), (b"tail", 4 * MIB, [0]),
                                 (b"end", 1234 * 4096 + 7, [1234 * 4096])]:
        with open(os.path.join(top, name), "wb") as f:
            for offset in pieces:
                f.seek(offset)
                f.write(b"\xa5" * min(4096, length - offset))
            f.truncate(length)


def times(top):
    os.mkdir(top)
    for i, mtime in enumerate(TIMES):
        for atime in (TIMES[0] + 1, TIMES[-1]):
            path = os.path.join(top, b"%d-%d" % (i, atime))
            oldtree.write(path, b"x" * i)
            os.utime(path, ns=(atime, mtime))
    os.utime(top, ns=(TIMES[1], TIMES[2]))


def far_down(top):
    """Deeper than PATH_MAX, with something at the end."""
    os.mkdir(top)
    fd = os.open(top, os.O_RDONLY)
    for i in range(LEVELS):
        name = b"%03d" % i + b"n" * 97
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    end = os.open(b"end", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=fd)
    os.write(end, b"down here")
    os.close(end)
    os.close(fd)


def odd_links(top):
    """Names of things that are no regular files."""
    os.mkdir(top)
    os.mkdir(os.path.join(top, b"other"))
    for name, make in {b"symlink": lambda p: os.symlink(b"x" * 1023, p),
                       b"fifo": lambda p: os.mkfifo(p, 0o600),
                       b"device": lambda p: os.mknod(p, stat.S_IFCHR | 0o660,
                                                     os.makedev(10, 9))}.items():
        path = os.path.join(top, name)
        make(path)
        os.link(path, os.path.join(top, b"other", b"too-" + name), follow_symlinks=False)


@pytest.fixture(scope="module")
def tree(new_volume):
    """Where the old server keeps it.  noatime: reading leaves no trace."""
    volume = new_volume("xfs", "1G", options="noatime")
    root = os.fsencode(volume.path / "tree")
    os.mkdir(root)
    for name, make in {"homes": oldtree.homes, "names": oldtree.names, "modes": modes,
                       "special": oldtree.special, "symlinks": oldtree.symlinks,
                       "hardlinks": oldtree.hardlinks, "times": oldtree.times,
                       "more-times": times, "sizes": sizes, "sparse": sparse,
                       "far-down": far_down, "odd-links": odd_links,
                       "deep": lambda p: oldtree.deep(p, 40),
                       "crowd": lambda p: oldtree.crowd(p, 2500)}.items():
        make(os.path.join(root, name.encode()))
    return root


@pytest.fixture(scope="module")
def old(old_server, tree):
    return old_server(os.fsdecode(tree))


def manifest(nfstree, server, path):
    done = subprocess.run([str(nfstree), "-o", str(path), server.url()], capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return path


def diff(nfstree, a, b):
    done = subprocess.run([str(nfstree), "--diff", str(a), str(b)],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[0])


def each(tree):
    """(path, stat) of everything in a tree, its top first."""
    yield b"", os.stat(tree)
    for path, dirs, files, fd in os.fwalk(tree):
        for name in (os.fsencode(n) for n in dirs + files):
            yield (os.path.join(path, name)[len(tree):],
                   os.stat(name, dir_fd=fd, follow_symlinks=False))


def stats(tree):
    """What the old server's own file system says of every name."""
    return {path: (st.st_ino, st.st_mode, st.st_nlink, st.st_uid, st.st_gid, st.st_size,
                   st.st_blocks, st.st_mtime_ns, st.st_ctime_ns, st.st_atime_ns)
            for path, st in each(tree)}


def atimes(tree):
    """Not from a server: to clients Ganesha shows those that its cache makes of reads."""
    return {path: st.st_atime_ns for path, st in each(tree)}


@pytest.fixture(scope="module")
def before(nfstree, moddir, old, tree):
    """The old server before anybody migrated anything."""
    return manifest(nfstree, old, moddir / "before"), stats(tree)


class Visitor(threading.Thread):
    """A client that looks at everything, in an order of its own, and compares it with
    the files of the old server."""

    def __init__(self, m, proto, tree):
        super().__init__(daemon=True)
        self.m, self.proto, self.tree = m, proto, tree
        self.random = random.Random(proto)
        self.wrong, self.error, self.seen = [], None, 0

    def run(self):
        fd = os.open(self.tree, os.O_RDONLY)
        try:
            with self.m.client(self.proto, patience=60) as c:
                self.client = c.patient(60)
                self.visit(c.root, fd, b"")
        except Exception as err:
            self.error = err
        finally:
            os.close(fd)

    def visit(self, fh, fd, path):
        entries = self.client.listdir(fh)
        if sorted(e.name for e in entries) != sorted(os.fsencode(n) for n in os.listdir(fd)):
            self.wrong.append((path, "names"))
        self.random.shuffle(entries)
        for entry in entries:
            self.seen += 1
            self.compare(entry, fd, path + b"/" + entry.name)
            if entry.attrs.type == DIR:
                below = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
                self.visit(entry.fh, below, path + b"/" + entry.name)
                os.close(below)

    def compare(self, entry, fd, path):
        a, st = entry.attrs, os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
        if (a.mode, a.uid, a.gid, a.mtime) != (st.st_mode & 0o7777, st.st_uid, st.st_gid,
                                               st.st_mtime_ns):
            self.wrong.append((path, a, st))
        if a.type != DIR and (a.size, a.nlink) != (st.st_size, st.st_nlink):
            self.wrong.append((path, a, st))
        if a.type == LNK:
            same = self.client.readlink(entry.fh) == os.readlink(entry.name, dir_fd=fd)
        elif a.type == REG:
            with open(os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb") as f:
                same = self.client.read_file(entry.fh) == f.read()
        else:
            same = True
        if not same:
            self.wrong.append((path, "contents"))


@pytest.mark.parametrize("fstype, version", [("xfs", 3), ("ext4", 3), ("xfs", 4)])
def test_everything_comes_over(fstype, version, new_volume, new_migration, nfstree, moddir, tree,
                               old, before):
    volume = new_volume(fstype, "1G", options="noatime")
    home = volume.path / "volume"
    home.mkdir()
    old.restart()                # reads have moved the access times that its cache tells
    m = new_migration(old.url(version=version), home).init().start()
    visitors = [Visitor(m, proto, tree) for proto in ("v3", "v4.1")]
    for v in visitors:
        v.start()
    wait_until(lambda: all(v.seen or v.error for v in visitors), 120, "clients are at it")
    m.crawl()
    there, inodes = before
    assert len(inodes) > 3000
    for v in visitors:
        v.join(300)
        assert not v.is_alive() and not v.error and not v.wrong, (v.error, v.wrong[:5])
        assert v.seen == len(inodes) - 1
    wait_until(lambda: m.status()["state"] == "complete", 60)
    status, scan = m.audit(complete=True)
    assert status["counter"] == scan["journal"] == scan["missing_bytes"] == 0
    assert scan["clean"] and scan["finished"]
    assert scan["objects"] == len({st[0] for st in inodes.values()})

    m.postcopy("finish", home)
    assert atimes(os.fsencode(home)) == {path: st[-1] for path, st in inodes.items()}
    here = manifest(nfstree, m.server, moddir / ("new-%s-%d" % (fstype, version)))
    again = manifest(nfstree, old, moddir / ("old-%s-%d" % (fstype, version)))
    assert diff(nfstree, there, here) == diff(nfstree, there, again) == len(inodes)
    assert stats(tree) == inodes
