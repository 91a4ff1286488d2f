# SPDX-License-Identifier: GPL-3.0-or-later
"""What is one file at the old server, and what is another: numbers alone do not tell.

Old servers as a kernel nfsd on btrfs: several subvolumes, one fsid, and inode numbers
that begin anew in each; handles that carry the directory; numbers used again.
"""
import json
import struct
import subprocess

import pytest

from lib.migration import source_url
from lib.programs import POSTCOPY
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

NS = 10 ** 9
WHEN = 1600000000 * NS


class Kernel(Tree):
    """Some nodes have the handles that the Linux kernel makes with subtree_check, some
    those of a server that is known for nothing, with the directory in them too."""

    def __init__(self):
        super().__init__()
        self.subtree, self.opaque = set(), set()

    def handle(self, node, directory):
        fh = node.fh
        if node in self.subtree:         # export by fsid=, ext4: inode, generation; directory
            fh = (bytes([1, 0, 1, 2]) + struct.pack("<I", 7)
                  + struct.pack("<IIII", node.fileid, node.generation, directory.fileid, 1))
        elif node in self.opaque:
            fh = b"ODD1" + struct.pack("<QQ", node.fileid, directory.fileid)
        self.by_fh[fh] = node
        return fh


def linked(tree, places, content, fileid, **kw):
    """One file of that number, with a name in each place."""
    (parent, name), *others = places
    node = tree.file(parent, name, content, atime=WHEN, mtime=WHEN, ctime=WHEN, **kw)
    node.fileid = fileid
    for parent, name in others:
        tree.hardlink(parent, name, node)
    return node


def subvolume(tree, name):
    """A directory that is numbered as the root of each btrfs subvolume is."""
    d = tree.mkdir(tree.root, name)
    d.fileid = 256
    below = tree.mkdir(d, "old")
    below.fileid = 300
    return d, below


@pytest.fixture
def migrate(new_migration, fresh_dir):
    def run(server, **kw):
        m = new_migration(server.url(), fresh_dir, conf="max_tries = 1\n", **kw)
        m.server.allow = ["converted to NFS3ERR_IO"]
        return m.init().start()
    return run


def test_subvolumes_of_one_fsid(migrate):
    """alice's and bob's inbox are inode 257 each, of two names each, alike in size and
    times; so is a file and its snapshot, which the handle's generation does not tell."""
    tree = Kernel()
    users = {}
    for user, uid in (("alice", 1001), ("bob", 1002), ("carol", 1003)):
        top, below = subvolume(tree, user)
        users[user] = linked(tree, [(top, "inbox"), (below, "inbox")],
                             b"mail of %-10s" % user.encode(), 257, uid=uid, mode=0o600)
    # handles of the Linux kernel's with the directory in them: one file, and another one
    d, below = subvolume(tree, "checked")
    one = linked(tree, [(d, "one"), (below, "one"), (d, "uno")], b"first", 400)
    two = linked(tree, [(d, "two"), (below, "two")], b"other", 400)
    one.generation, two.generation = 5, 6
    tree.subtree |= {one, two}
    # ... and of a server that says nothing of its handles
    odd, below = subvolume(tree, "odd")
    tree.opaque.add(linked(tree, [(odd, "name"), (below, "name")], b"whose?", 500))
    with FakeServer(tree) as server:
        m = migrate(server)
        with m.client("v3", patience=60) as client:
            client.getattr("bob/old/inbox")          # by look-up, before any listing
        m.crawl()
        with m.client("v3", patience=60) as client:
            for user, node in users.items():
                path = m.volume / user
                assert (path / "inbox").samefile(path / "old" / "inbox")
                for name in ("inbox", "old/inbox"):
                    assert (path / name).stat().st_uid == node.uid
                    assert client.read_file("%s/%s" % (user, name)) == node.content.data
            top = m.volume / "checked"
            assert (top / "one").samefile(top / "old/one") and (top / "one").samefile(top / "uno")
            assert (top / "two").samefile(top / "old/two")
            assert not (top / "one").samefile(top / "two")
            assert client.read_file("checked/old/one") == b"first"
            assert client.read_file("checked/old/two") == b"other"
            assert not (m.volume / "odd/name").samefile(m.volume / "odd/old/name")
            assert client.read_file("odd/old/name") == client.read_file("odd/name") == b"whose?"
        m.audit(complete=True)
        # the odd server's two names became two files: that is counted, and told
        assert m.status()["links_split"] == 2
        assert m.log.read_text().count("file id 500") == 2
        assert "links" in m.postcopy("status", m.volume).stdout


@pytest.mark.parametrize("same_handle", [False, True], ids=["generations", "none"])
def test_number_is_used_again(migrate, same_handle):
    """A file was seen by one name; it was removed, and another one got its number."""
    tree = Tree()
    dirs = [tree.mkdir(tree.root, n) for n in "abc"]
    old = linked(tree, [(dirs[0], "f"), (dirs[1], "f")], b"", 700)
    with FakeServer(tree) as server:
        m = migrate(server)
        with m.client("v3", patience=60) as client:
            assert client.names("a") == [b"f"]
            tree.unlink(dirs[0], "f")
            tree.unlink(dirs[1], "f")
            new = linked(tree, [(dirs[1], "g"), (dirs[2], "g")], b"another file's", 700)
            if same_handle:
                new.fh, tree.by_fh[old.fh] = old.fh, new
            m.crawl()
            for name in ("b/g", "c/g"):
                assert client.read_file(name) == b"another file's"
            assert client.getattr("a/f").size == 0
            assert (m.volume / "b/g").samefile(m.volume / "c/g")
        wait_until(lambda: m.status()["pending"] == 0, 60, "the end")
        assert m.scan()["uncovered"] == 0


def test_check_tells_subvolumes_from_cycles():
    """... and neither of them is walked for ever."""
    tree = Tree()
    tree.root.fileid = 256
    top, _below = subvolume(tree, "home")
    snapshot = tree.mkdir(top, ".snapshot")
    snapshot.fileid = 256
    tree.file(snapshot, "f", b"")
    tree.link(snapshot, "up", top)
    with FakeServer(tree) as server:
        done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", "--names",
                               "--json", "--source", source_url(server.url(), None)],
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == 3, done
    answer = json.loads(done.stdout)
    found = {(n["kind"], n["path"]) for n in answer["names"]}
    assert found == {("subvolume", "home"), ("subvolume", "home/.snapshot"),
                     ("cycle", "home/.snapshot/up")}
    assert answer["walked"]["names"] == 5
    assert {p["property"]: p["volume"] for p in answer["properties"]}["hard-links"] == "kept"
    assert "repeated-file-ids" in {w["code"] for w in answer["warnings"]}


def test_times_that_may_be_others(migrate):
    """1901 and 2042 are the same 32 bits: taken as the protocol says, and said."""
    tree = Tree()
    odd = int.from_bytes((-2000000000).to_bytes(4, "big", signed=True), "big") * NS
    times = {"old": (WHEN, odd), "read": ((1 << 31) * NS, WHEN),
             "last": (WHEN, ((1 << 31) - 1) * NS), "plain": (WHEN, WHEN)}
    for name, (atime, mtime) in times.items():
        tree.file(tree.root, name, b"x", atime=atime, mtime=mtime, ctime=odd)
    with FakeServer(tree) as server:
        done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", "--names",
                               "--json", "--source", server.url()], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        answer = json.loads(done.stdout)
        assert {n["path"] for n in answer["names"] if n["kind"] == "time-unsure"} == {"old", "read"}
        rows = {p["property"]: p for p in answer["properties"]}
        assert "1970" in rows["mtime"]["why"] and "1970" in rows["atime"]["why"]
        m = migrate(server)
        m.crawl()
        m.audit(complete=True)
        for name, (_atime, mtime) in times.items():
            assert (m.volume / name).stat().st_mtime_ns == mtime
        assert m.status()["times_unsure"] == 2
        assert "1970" in m.postcopy("status", m.volume).stdout
        assert "before 1970" in m.log.read_text()


# -- the disk of the old server is not there ---------------------------------------------------

class Unmounted:
    """While it is entered, the handle of a directory leads to the empty one below the mount
    point: other numbers, no entries, no names, and no error."""

    def __init__(self, server, node, bare):
        self.server, self.node, self.bare = server, node, bare

    def __enter__(self):
        tree = self.server.tree
        self.kept = tree.by_fh[self.node.fh]
        below = tree.mkdir(Tree().root, "below")
        below.fileid = 2
        below.claim(fsid=(77, 0))
        below.parent, below.fh = below, self.node.fh
        tree.by_fh[self.node.fh] = below
        if self.bare:                       # a server that says little
            self.unhook = self.server.hook("LOOKUP READDIRPLUS READDIR", without_attributes)
        return self

    def __exit__(self, *exc):
        self.server.tree.by_fh[self.node.fh] = self.kept
        if self.bare:
            self.unhook()


def without_attributes(_server, call, answer):
    """Answers of a directory come without its attributes."""
    results = answer()
    at = 4
    if call.proc == "LOOKUP" and results[:4] == bytes(4):
        size = int.from_bytes(results[4:8], "big")
        at = 8 + (size + 3) // 4 * 4
        at += 88 if results[at:at + 4] != bytes(4) else 4
    if results[at:at + 4] == bytes(4):
        return results
    return results[:at] + bytes(4) + results[at + 88:]


@pytest.fixture
def disk():
    tree = Tree()
    data = tree.mkdir(tree.root, "data")
    for top in (tree.root, data):
        for i in range(3):
            tree.file(top, "f%d" % i, b"content %d" % i)
        tree.symlink(top, "link", "target")
    with FakeServer(tree) as server:
        yield server


def all_is_here(m):
    m.crawl()
    m.audit(complete=True)
    for top in (m.volume, m.volume / "data"):
        assert {p.name for p in top.iterdir()} - {".postcopy", "data"} == {"f0", "f1", "f2",
                                                                         "link"}
        assert [(top / ("f%d" % i)).read_bytes() for i in range(3)] == [
            b"content %d" % i for i in range(3)]


@pytest.mark.parametrize("bare", [False, True], ids=["attributes", "bare"])
def test_unmounted_export(migrate, disk, bare):
    """The root itself: the source is lost as long, and says so; nothing ends."""
    m = migrate(disk, allow=["another directory there"])
    with Unmounted(disk, disk.tree.root, bare), m.client("v3", patience=1) as client:
        with pytest.raises(NfsError) as info:
            client.getattr("f1")
        assert info.value.status == errors.JUKEBOX
        crawler = m.start_crawler()
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "the loss")
        assert "mounted" in m.status()["source_trouble"]
        with pytest.raises(NfsError) as info:
            client.names("")
        assert info.value.status == errors.JUKEBOX
        status = m.status()
        assert status["pending"] > 0 and status["parked"] == status["conflicts"] == 0
        # a retriever that begins now finds it out as well
        m.kill_retriever()
        m.start_retriever()
        wait_until(lambda: "mounted" in m.status().get("source_trouble", ""), 60, "the loss")
        assert crawler.poll() is None
        m.kill_crawler()
    wait_until(lambda: m.status()["source_connected"], 60, "the disk again")
    all_is_here(m)


@pytest.mark.parametrize("bare", [False, True], ids=["attributes", "bare"])
def test_unmounted_below_the_export(migrate, disk, bare):
    """A directory in it: what is there waits, loudly; the rest goes on."""
    m = migrate(disk)
    with m.client("v3", patience=60) as client:
        assert b"data" in client.names("")
    with Unmounted(disk, disk.tree.find("data"), bare), m.client("v3", patience=1) as client:
        with pytest.raises(NfsError) as info:
            client.getattr("data/f1")
        assert info.value.status == errors.JUKEBOX
        m.start_crawler()
        wait_until(lambda: m.status()["pending"] == 1, 60, "the rest")
        status = m.status()
        assert status["source_connected"] and "mounted" in status["source_trouble"]
        assert status["parked"] == status["conflicts"] == 0
        m.kill_crawler()
    all_is_here(m)
