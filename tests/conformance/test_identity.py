# SPDX-License-Identifier: GPL-3.0-or-later
"""What is one file at the old server, and what is another: numbers alone do not tell.

Old servers as a kernel nfsd on btrfs: several subvolumes, one fsid, and inode numbers
that begin anew in each; handles that carry the directory; numbers used again.
"""
import json
import struct
import subprocess

import pytest

from migration import POSTCOPY
from util import wait_until

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
                               "--json", "--source", server.url()], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == 3, done
    answer = json.loads(done.stdout)
    found = {(n["kind"], n["path"]) for n in answer["names"]}
    assert found == {("subvolume", "home"), ("subvolume", "home/.snapshot"),
                     ("cycle", "home/.snapshot/up")}
    assert answer["walked"]["names"] == 5
    assert {p["property"]: p["volume"] for p in answer["properties"]}["hard-links"] == "kept"
    assert "repeated-file-ids" in {w["code"] for w in answer["warnings"]}
