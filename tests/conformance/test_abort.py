# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy abort`: a migration is given up, and what is there stays as it is.

Whole files stay whole for any server; what misses something is aside, without rights, and in
the list; nobody reads zeros for data, and what clients wrote is there still."""
import json
import os
import subprocess

import pytest

from nfsclient import NfsError
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.rpc import AuthSys

MIB = 1 << 20
BIG, SMALL = Pattern(3 * MIB, seed=1), Pattern(70000, seed=2)
AWAY = ".postcopy-incomplete"


@pytest.fixture(params=["xfs"])
def place(request, new_volume):
    """The volume's directory: on XFS, where a test does not ask for more."""
    path = new_volume(request.param).path / "volume"
    path.mkdir()
    return path


@pytest.fixture
def running(new_migration, place):
    """whole: read.  half: a block read, and a client's bytes.  none: looked up.  one, two: one
    file, read in part.  dir: unlisted but for one name, which was read."""
    tree = Tree()
    for name in ("whole", "half", "none"):
        tree.file(tree.root, name, BIG if name == "half" else SMALL, mode=0o666)
    linked = tree.file(tree.root, "one", BIG)
    tree.hardlink(tree.root, "two", linked)
    d = tree.mkdir(tree.root, "dir")
    tree.file(d, "read", SMALL)
    tree.file(d, "never", SMALL)
    tree.symlink(tree.root, "link", b"whole")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), place, conf="block_size = 65536\nread_size = 65536\n")
        m.init().start()
        with m.client() as c:
            c = c.patient(60)
            names = c.names()
            assert {"whole", "half", "none", "one", "two", "dir", "link"} <= set(
                n.decode() if isinstance(n, bytes) else n for n in names)
            assert c.read_file("whole") == SMALL.read(0, 70000)
            assert c.read_file("dir/read") == SMALL.read(0, 70000)
            c.read("half", 0, 65536)
            c.write("half", 2 * MIB, b"mine", stable=2)
            c.read("one", MIB, 1000)
            c.mkdir("new")
            c.create("new/own")
            c.write("new/own", 0, b"a client's", stable=2)
        yield m


def abort(m, *argv, check=True):
    return m.postcopy("abort", "--json", "--yes", *argv, m.volume, check=check)


def lines(path):
    return {entry["path"]: entry for entry in map(json.loads, path.read_text().splitlines())}


def test_refused_while_somebody_has_it(running, tmp_path):
    m, to = running, tmp_path / "list"
    done = abort(m, "--list", to, check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["error"]) == (58, "in-use")
    for pid in (m.server.pid, m.retriever.pid):
        assert "(%d)" % pid in answer["message"]
    m.server.stop()
    done = abort(m, "--list", to, check=False)
    assert done.returncode == 58 and str(m.retriever.pid) in done.stderr
    assert not to.exists()
    m.kill_retriever()
    done = m.postcopy("abort", m.volume, "--list", to, check=False)      # nobody to ask
    assert done.returncode == 2 and "--yes" in done.stderr and not to.exists()
    done = abort(m, "--list", m.volume / "list", check=False)
    assert done.returncode == 2 and "outside" in done.stderr
    assert m.scan()["clean"]
    m.start()                                                            # and it goes on
    m.crawl()
    m.audit(complete=True)


on_both = pytest.mark.parametrize("place", ["xfs", "ext4"], indirect=True)


@on_both
def test_abort(running, tmp_path, new_server):
    m, to = running, tmp_path / "list"
    m.server.stop()
    m.kill_retriever()
    m.postcopy("abort", "--dry-run", "--list", to, m.volume)
    before = to.read_text()
    assert m.scan()["clean"] and not list(m.volume.glob("*" + AWAY))
    answer = json.loads(abort(m, "--list", to).stdout)
    assert answer["aborted"] and answer["list"] == str(to) and to.read_text() == before
    listed = lines(to)
    assert set(listed) == {"half", "none", "one", "two", "dir"}
    half = listed["half"]
    assert half["missing"] == ["data"] and half["changed_by_clients"]
    assert half["ranges"] == [[65536, 2 * MIB], [2 * MIB + 4, 3 * MIB]]
    assert (half["mode"], half["size"], half["type"]) == (0o666, 3 * MIB, "file")
    assert listed["none"]["ranges"] == [[0, 70000]] and not listed["none"]["changed_by_clients"]
    assert listed["one"]["inode"] == listed["two"]["inode"]
    assert listed["dir"]["missing"] == ["entries"] and listed["dir"]["source_handle"]
    assert not (m.volume / ".postcopy").exists()
    for path in m.volume.rglob("*"):
        assert "trusted.postcopy" not in os.listxattr(path, follow_symlinks=False), path
    with open(m.volume / ("half" + AWAY), "rb") as f:                    # root's to look at
        assert f.read(65536) == BIG.read(0, 65536)
        f.seek(2 * MIB)
        assert f.read(4) == b"mine"
    done = abort(m, "--list", to, check=False)
    assert done.returncode == 50 and to.read_text() == before

    stock = new_server("stock-" + m.volume.parent.parent.name, str(m.volume))
    with stock.client(cred=AuthSys(uid=1000, gid=1000)) as c:
        assert c.read_file("whole") == SMALL.read(0, 70000)
        assert c.read_file("dir/read") == SMALL.read(0, 70000)
        assert c.read_file("new/own") == b"a client's"
        for name in ("half", "none", "one", "two"):
            with pytest.raises(NfsError):
                c.getattr(name)
            a = c.getattr(name + AWAY)
            assert (a.mode & 0o7777, a.uid) == (0, 0)
            with pytest.raises(NfsError):
                c.read(name + AWAY, 0, 100)


@on_both
def test_one_that_broke_off_is_nobodys(running, tmp_path):
    """It says which file, nobody but abort opens the volume, and the first list counts."""
    m, to = running, tmp_path / "list"
    m.server.stop()
    m.kill_retriever()
    subprocess.run(["chattr", "+i", m.volume / "half"], check=True)
    try:
        done = abort(m, "--list", to, check=False)
    finally:
        subprocess.run(["chattr", "-i", m.volume / "half"], check=True)
    assert done.returncode == 41 and "half: Operation not permitted" in done.stderr
    first = to.read_text()
    assert set(lines(to)) == {"half", "none", "one", "two", "dir"}
    done = m.postcopy("status", m.volume, check=False)
    assert done.returncode == 57 and "postcopy abort" in done.stderr
    with pytest.raises(AssertionError):
        m.start_retriever()
    assert "being given up" in m.log.read_text()
    m.allow.append("being given up")
    m.retriever = None
    to.rename(tmp_path / "hidden")
    done = abort(m, "--list", tmp_path / "other", check=False)
    assert done.returncode == 41 and "put it back" in done.stderr
    (tmp_path / "hidden").rename(to)
    assert json.loads(abort(m, "--list", tmp_path / "other").stdout)["list"] == str(to)
    assert to.read_text() == first and not (tmp_path / "other").exists()
    for name in ("half", "none", "one", "two"):
        assert (m.volume / (name + AWAY)).stat().st_mode & 0o7777 == 0
    assert not (m.volume / ".postcopy").exists()
