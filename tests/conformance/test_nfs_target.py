# SPDX-License-Identifier: GPL-3.0-or-later
"""What retriever/source/target.h changes on a stock NFS server, through tests/tools/nfstarget: seen
in the directory that the server exports."""
import os
import random
import stat
import subprocess
import types

import pytest

from lib.ganesha import release
from lib.programs import BUILD
from lib.wait import wait_until
from test_rights import acl, acls, stored

NFSTARGET = BUILD / "tests" / "tools" / "nfstarget"
MIB = 1 << 20
NS = 10 ** 9
TIMES = (1111111111 * NS + 123456789, 1222222222 * NS + 987654321)


@pytest.fixture(scope="module")
def there(new_volume, old_server):
    """What is exported, where, and by whom."""
    tree = new_volume("xfs", "1G", options="noatime").path / "tree"
    tree.mkdir()
    return types.SimpleNamespace(tree=tree, server=old_server(tree))


@pytest.fixture
def here(there, request):
    """A directory of its own over there, the server, and nfstarget in that directory."""
    name = request.node.name.replace("/", "-")
    path = there.tree / name
    path.mkdir()

    def target(command, *args, error=None, data=b""):
        paths = 2 if command in ("link", "rename") else 1
        args = ["%s/%s" % (name, a) if i < paths else str(a) for i, a in enumerate(args)]
        done = subprocess.run([str(NFSTARGET), there.server.url(), command, *args], input=data,
                              capture_output=True, timeout=300, check=False)
        assert done.stderr.decode().split() == ([error] if error else []), (command, args)
        assert done.returncode == (1 if error else 0)
        return done.stdout.decode().strip()

    return types.SimpleNamespace(path=path, server=there.server, target=target)


def attr(mode, uid=1000, gid=2000, times=TIMES):
    return "mode=%o" % mode, "owner=%d:%d" % (uid, gid), "times=%d,%d" % times


def is_so(path, mode, uid=1000, gid=2000):
    st = os.lstat(path)
    assert (oct(st.st_mode), st.st_uid, st.st_gid) == (oct(mode), uid, gid), path
    return st


def has_times(path, times=TIMES):
    st = os.lstat(path)
    assert (st.st_atime_ns, st.st_mtime_ns) == times, path


KINDS = {"file": stat.S_IFREG | 0o640, "dir": stat.S_IFDIR | 0o2751, "fifo": stat.S_IFIFO | 0o600,
         "socket": stat.S_IFSOCK | 0o666, "char": stat.S_IFCHR | 0o620,
         "block": stat.S_IFBLK | 0o660}


def test_every_kind_is_made(here):
    for name, mode in KINDS.items():
        device = ("dev=8,300",) if name in ("char", "block") else ()
        said = here.target("make", name, *attr(mode), *device)
        st = os.lstat(here.path / name)
        assert stat.S_IFMT(st.st_mode) == stat.S_IFMT(mode)
        assert said.split()[-1] == str(st.st_ino), name
        if device:
            assert st.st_rdev == os.makedev(8, 300)
        here.target("make", name, *attr(mode), *device, error="EEXIST")
        # the server has done so much of it as it likes; the rest is set
        here.target("set", name, *attr(mode))
        is_so(here.path / name, mode)
        has_times(here.path / name)
    assert (here.path / "file").stat().st_size == 0


@pytest.mark.parametrize("length", [1, 1023, 4095])
def test_symlinks(here, length):
    target = "t" * length
    if length == 4095:      # more than file systems take, and Ganesha's answer has room for
        done = subprocess.run([str(NFSTARGET), here.server.url(), "make",
                               here.path.name + "/link", *attr(stat.S_IFLNK | 0o777),
                               "to=" + target], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 or done.stderr.split()[-1] in ("ENAMETOOLONG", "EIO", "EINVAL")
        return
    here.target("make", "link", *attr(stat.S_IFLNK | 0o777), "to=" + target)
    here.target("set", "link", "owner=1000:2000")
    assert os.readlink(here.path / "link") == target
    is_so(here.path / "link", stat.S_IFLNK | 0o777)


def test_writes_in_parallel(here):
    data = random.Random(3).randbytes(3 * MIB + 12345)
    assert here.target("max") == str(MIB)
    here.target("make", "file", *attr(stat.S_IFREG | 0o600))
    assert here.target("write", "file", 0, 4, data=data) == "durable"
    assert (here.path / "file").read_bytes() == data
    assert here.target("write", "file", 5 * MIB + 1, 2, data=b"behind a hole") == "durable"
    here.target("write", "file", MIB - 2, 1, data=b"over")
    want = data[:MIB - 2] + b"over" + data[MIB + 2:]
    want = want.ljust(5 * MIB + 1, b"\0") + b"behind a hole"
    assert (here.path / "file").read_bytes() == want
    for size in (MIB + 1, 7 * MIB, 0):
        here.target("set", "file", "size=%d" % size)
        want = want[:size].ljust(size, b"\0")
        assert (here.path / "file").read_bytes() == want


def test_attributes(here):
    path = here.path / "file"
    here.target("make", "file", *attr(stat.S_IFREG | 0o600))
    here.target("set", "file", "mode=100751")
    is_so(path, stat.S_IFREG | 0o751)
    here.target("set", "file", "owner=0:4294967294")
    is_so(path, stat.S_IFREG | 0o751, 0, 4294967294)
    # set-ID bits stay though the owner becomes another one, times though the size does
    here.target("set", "file", "size=77", *attr(stat.S_IFREG | 0o6711))
    assert is_so(path, stat.S_IFREG | 0o6711).st_size == 77
    has_times(path)
    for times in ((0, 1), (2 ** 31 * NS - 1, NS - 1), (1, 1700000000 * NS + 1)):
        here.target("set", "file", "times=%d,%d" % times)
        has_times(path, times)
    here.target("set", "file", "times=0,-1", error="EOVERFLOW")
    here.target("set", "file", "times=%d,0" % (2 ** 32 * NS), error="EOVERFLOW")
    has_times(path, times)


def test_names(here):
    path = here.path
    for name in ("d", "e", "e/full"):
        here.target("make", name, *attr(stat.S_IFDIR | 0o755))
    for name in ("a", "d/b", "e/full/x"):
        here.target("make", name, *attr(stat.S_IFREG | 0o644))
    here.target("link", "a", "d/too")
    assert (path / "a").stat().st_ino == (path / "d/too").stat().st_ino
    here.target("link", "a", "d/too", error="EEXIST")
    inode = (path / "a").stat().st_ino
    here.target("rename", "a", "d/moved")
    assert (path / "d/moved").stat().st_ino == inode and not (path / "a").exists()
    here.target("rename", "d/moved", "d/b")              # the other name of one, over another one
    assert (path / "d/b").stat().st_ino == inode
    here.target("rename", "d", "e/d")
    assert sorted(os.listdir(path / "e/d")) == ["b", "too"]
    here.target("rename", "nothing", "else", error="ENOENT")
    here.target("remove", "e/d/too")
    assert (path / "e/d/b").stat().st_nlink == 1
    here.target("remove", "e/d/too", error="ENOENT")
    here.target("rmdir", "e/full", error="ENOTEMPTY")
    here.target("rmdir", "e/full/x", error="ENOTDIR")
    here.target("remove", "e/full/x")
    here.target("rmdir", "e/full")
    assert os.listdir(path / "e") == ["d"]


def test_odd_names(here):
    """Bytes are what a name is; the longest one has 255."""
    for name in ("n" * 255, "new\nline", "caf\udce9", "-"):
        here.target("make", os.fsencode(name).decode("utf-8", "surrogateescape"),
                    *attr(stat.S_IFREG | 0o600))
        assert (here.path / name).is_file()
    assert len(os.listdir(here.path)) == 4


def test_the_server_comes_back(there, here, tmp_path):
    """What is asked while it is away is done when it is there again."""
    here.target("make", "file", *attr(stat.S_IFREG | 0o600))
    there.server.kill9()
    argv = [str(NFSTARGET), there.server.url(), "write", here.path.name + "/file", "0", "2"]
    log, data = tmp_path / "log", tmp_path / "data"
    data.write_bytes(b"x" * (2 * MIB))
    with data.open("rb") as given, log.open("wb") as err, subprocess.Popen(
            argv, stdin=given, stdout=subprocess.PIPE, stderr=err) as process:
        wait_until(lambda: "trying on" in log.read_text(), 60, "it has tried")
        there.server.restart()
        assert process.stdout.read() == b"durable\n"
        assert process.wait(60) == 0
    assert (here.path / "file").read_bytes() == data.read_bytes()


def test_a_server_that_may_not_be_written_to(old_server, here):
    server = old_server(here.path, readonly=True)
    (here.path / "file").write_bytes(b"old")
    for args in (("set", "file", "mode=100600"), ("make", "new", *attr(stat.S_IFREG | 0o600)),
                 ("write", "file", "0", "1"), ("remove", "file"), ("rename", "file", "b"),
                 ("link", "file", "b"), ("rmdir", "file")):
        done = subprocess.run([str(NFSTARGET), server.url(), *args], input=b"new",
                              capture_output=True, timeout=300, check=False)
        assert done.returncode == 1 and done.stderr.split()[-1] == b"EROFS", args
    assert os.listdir(here.path) == ["file"]
    assert (here.path / "file").read_bytes() == b"old"


@pytest.mark.skipif(release() > 4, reason="this one has ACLs")
def test_no_acls(here):
    here.target("make", "file", *attr(stat.S_IFREG | 0o600))
    here.target("acl", "file", error="EOPNOTSUPP")


@pytest.mark.skipif(release() == 4, reason="nfs-ganesha 4 as Debian 12 builds it shows no ACL")
def test_acls(here):
    access = stored(acl(7, 5, 7, 1, users=[7, 0], groups=[1]))
    default = stored(acl(7, 5, 5, 0, users=[5, 4]))
    here.target("make", "file", *attr(stat.S_IFREG | 0o600))
    here.target("make", "dir", *attr(stat.S_IFDIR | 0o700))
    here.target("acl", "file", "access=" + access.hex())
    here.target("acl", "dir", "access=" + access.hex(), "default=" + default.hex())
    assert acls(here.path / "file") == {"access": access}
    assert acls(here.path / "dir") == {"access": access, "default": default}
    here.target("acl", "dir", "default=" + default.hex())     # as its mode has it
    assert acls(here.path / "dir") == {"default": default}
    here.target("acl", "dir")
    here.target("acl", "file")
    assert not acls(here.path / "dir") and not acls(here.path / "file")
