# SPDX-License-Identifier: GPL-3.0-or-later
"""The suite's own clients, against Debian's stock Ganesha on XFS.

If these fail, no other result of the suite means anything.
"""
import os
import stat
import threading
import time

import pytest

from lib.expect import status_of
from lib.wait import wait_until
from nfsclient import NfsError, RpcBroken, RpcTimeout, connect, errors
from nfsclient.nfs3 import UNCHECKED, Nfs3
from nfsclient.nfstypes import ACCESS_MODIFY, ACCESS_READ, CHR, FIFO, LNK, NOW, SOCK, UNSTABLE
from nfsclient.rpc import AuthSys

ALL = ("v3", "v4.0", "v4.1", "v4.2")
V4 = ALL[1:]
TIME = 1234567890123456789
LATE = (3 << 30) * 10 ** 9 + 7        # beyond 31 bits of seconds


@pytest.fixture(scope="module")
def tree(loop_xfs):
    os.chmod(loop_xfs.path, 0o755)
    return loop_xfs.path


@pytest.fixture(scope="module")
def server(old_server, tree):
    return old_server(tree)


@pytest.fixture(params=ALL)
def client(server, request):
    with server.client(request.param) as c:
        yield c


@pytest.fixture(params=V4)
def client4(server, request):
    with server.client(request.param) as c:
        yield c


@pytest.fixture
def top(client, tree, request):
    """A directory of this test's own: its name for the client; local is tree/top."""
    name = "".join(ch if ch.isalnum() else "_" for ch in request.node.name)
    client.mkdir(name)
    return name


@pytest.fixture
def local(tree, top):
    return tree / top


# -- data ---------------------------------------------------------------------

def test_write_and_read(client, top, local):
    data = os.urandom(3 * (1 << 20) + 17)
    client.write_file(top + "/f", data)
    assert client.read_file(top + "/f") == data
    assert (local / "f").read_bytes() == data
    assert client.read_file(top + "/f", chunk=70001) == data


def test_read_at_and_past_the_end(client, top, local):
    (local / "f").write_bytes(b"0123456789")
    assert client.read(top + "/f", 4, 3) == (b"456", False)
    assert client.read(top + "/f", 8, 100) == (b"89", True)
    assert client.read(top + "/f", 100, 10) == (b"", True)
    (local / "empty").write_bytes(b"")
    assert client.read_file(top + "/empty") == b""


def test_write_unstable_and_commit(client, top, local):
    client.create(top + "/f")
    result = client.write(top + "/f", 5, b"abc", UNSTABLE)
    assert result.count == 3
    assert client.commit(top + "/f") == result.verifier
    assert (local / "f").read_bytes() == bytes(5) + b"abc"


# -- attributes -----------------------------------------------------------------

def test_getattr_agrees_with_stat(client, top, local):
    (local / "f").write_bytes(b"x" * 12345)
    os.chown(local / "f", 1234, 4321)
    os.chmod(local / "f", 0o6751)
    os.utime(local / "f", ns=(TIME, TIME + 1))
    os.link(local / "f", local / "g")
    a, st = client.getattr(top + "/f"), os.stat(local / "f")
    assert (a.type_name, a.mode, a.uid, a.gid) == ("reg", 0o6751, 1234, 4321)
    assert (a.size, a.nlink, a.fileid) == (12345, 2, st.st_ino)
    assert (a.atime, a.mtime, a.ctime) == (TIME, TIME + 1, st.st_ctime_ns)


def test_setattr(client, top, local):
    client.write_file(top + "/f", b"0123456789")
    client.setattr(top + "/f", mode=0o604, uid=7, gid=8)
    client.setattr(top + "/f", size=4)
    client.setattr(top + "/f", atime=TIME, mtime=LATE)
    st = os.stat(local / "f")
    assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_size) == (0o604, 7, 8, 4)
    assert (st.st_atime_ns, st.st_mtime_ns) == (TIME, LATE)
    assert client.getattr(top + "/f").mtime == LATE
    client.setattr(top + "/f", mtime=NOW)
    assert TIME < os.stat(local / "f").st_mtime_ns < LATE


def test_v4_times_before_1970(client4, tree):
    path = "early-" + client4.proto
    client4.write_file(path, b"")
    client4.setattr(path, mtime=-TIME)
    assert os.stat(tree / path).st_mtime_ns == client4.getattr(path).mtime == -TIME


def test_access_by_credentials(client, server, top, local):
    (local / "f").write_bytes(b"")
    os.chown(local / "f", 1000, 2000)
    os.chmod(local / "f", 0o640)
    both = ACCESS_READ | ACCESS_MODIFY
    expected = {(1000, 1): both, (1, 2000): ACCESS_READ, (1, 1): 0}
    for (uid, gid), granted in expected.items():
        with server.client(client.proto, cred=AuthSys(uid, gid)) as other:
            assert other.access(top + "/f", both) == granted
    with server.client(client.proto, cred=AuthSys(1, 1, (5, 2000))) as other:
        assert other.read_file(top + "/f") == b""
        assert status_of(other.write, top + "/f", 0, b"x") in (errors.ACCES, errors.PERM)


# -- names ------------------------------------------------------------------------

def test_create_modes(client, top, local):
    for how in ("unchecked", "guarded", "exclusive"):
        attrs = client.create("%s/%s" % (top, how), mode=0o640, how=how)[1]
        assert attrs.mode == 0o640
    client.create(top + "/unchecked")
    assert status_of(client.create, top + "/guarded", how="guarded") == errors.EXIST
    assert client.names(top) == [b"exclusive", b"guarded", b"unchecked"]


def test_exclusive_create_again_with_same_verifier(client, top):
    fh = client.create(top + "/x", how="exclusive", verifier=b"12345678")[0]
    assert client.create(top + "/x", how="exclusive", verifier=b"12345678")[0] == fh
    assert status_of(client.create, top + "/x", how="exclusive",
                     verifier=b"87654321") == errors.EXIST


def test_directories(client, top, local):
    client.mkdir(top + "/d", mode=0o700)
    client.mkdir(top + "/d/e")
    assert stat.S_IMODE(os.stat(local / "d").st_mode) == 0o700
    assert status_of(client.rmdir, top + "/d") == errors.NOTEMPTY
    client.rmdir(top + "/d/e")
    client.rmdir(top + "/d")
    assert not client.exists(top + "/d")
    assert status_of(client.lookup, top + "/d") == errors.NOENT


def test_symlinks(client, top, local):
    target = b"../some \xff where/" + b"x" * 500
    client.symlink(top + "/s", target)
    assert client.readlink(top + "/s") == target
    assert os.readlink(os.fsencode(local / "s")) == target
    assert client.lookup(top + "/s")[1].type == LNK


def test_special_files(client, top, local):
    client.mknod(top + "/null", CHR, mode=0o600, rdev=(1, 3))
    client.mknod(top + "/pipe", FIFO)
    client.mknod(top + "/sock", SOCK)
    st = os.stat(local / "null")
    assert (os.major(st.st_rdev), os.minor(st.st_rdev)) == (1, 3)
    assert client.getattr(top + "/null").rdev == (1, 3)
    assert [e.attrs.type_name for e in sorted(client.listdir(top), key=lambda e: e.name)] \
        == ["chr", "fifo", "sock"]


def test_link_rename_remove(client, top, local):
    client.write_file(top + "/a", b"1")
    client.mkdir(top + "/d")
    client.link(top + "/a", top + "/b")
    assert client.getattr(top + "/a").nlink == 2
    client.rename(top + "/b", top + "/d/c")
    assert client.names(top) == [b"a", b"d"]
    assert client.fh(top + "/d/c") == client.fh(top + "/a")
    client.remove(top + "/a")
    assert client.read_file(top + "/d/c") == b"1"
    assert sorted(os.listdir(local)) == ["d"]


def test_names_are_bytes(client, top, local):
    # NFSv4 names are UTF-8, and Ganesha insists on it.
    names = [b"a b", b"tab\t", b"new\nline", "\u00fc".encode(), b"back\\slash", b"n" * 255]
    names += [b"\xff\xfe"] if client.proto == "v3" else []
    for name in names:
        client.write_file((client.fh(top), name), name)
    assert client.names(top) == sorted(names)
    assert sorted(os.listdir(os.fsencode(local))) == sorted(names)
    assert all(client.read_file((client.fh(top), n)) == n for n in names)
    assert status_of(client.create, top + "/" + "n" * 256) == errors.NAMETOOLONG


def test_list_a_large_directory(client, top, local):
    for i in range(1500):
        (local / ("file-%04d" % i)).touch()
    for entries in (client.listdir(top), client.listdir(top, maxcount=4096)):
        assert len({e.name for e in entries}) == len(entries) == 1500
        assert all(e.attrs.fileid == e.fileid and e.fh for e in entries)
    assert len(client.names(top)) == 1500


def test_walk(client, top, local):
    os.makedirs(local / "a/b/c")
    (local / "a/b/f").write_bytes(b"")
    assert [path for path, _entry in client.walk(top)] == [b"a", b"a/b", b"a/b/c", b"a/b/f"]


# -- NFSv3 only ---------------------------------------------------------------------

def test_v3_pipelining(server, tree):
    (tree / "pipeline").write_bytes(b"".join(i.to_bytes(4, "big") for i in range(4096)))
    with server.client("v3") as c:
        raw, fh = c.raw, c.fh("pipeline")
        calls = [raw.submit("READ", raw.read_args(fh, 4 * i, 4)) for i in range(0, 4096, 7)]
        results = [raw.read_result(raw.finish("READ", call))[0] for call in calls]
        assert results == [i.to_bytes(4, "big") for i in range(0, 4096, 7)]
        assert c.conn.connects == 1


def test_v3_wcc_and_guard(server, tree):
    (tree / "guard").write_bytes(b"abc")
    with server.client("v3") as c:
        fh = c.fh("guard")
        result = c.raw.write(fh, 0, b"x")
        assert result.wcc.after.size == 3
        ctime = c.getattr(fh).ctime
        assert status_of(c.setattr, fh, guard_ctime=ctime + 1, mode=0o600) == errors.NOT_SYNC
        c.setattr(fh, guard_ctime=ctime, mode=0o600)


def test_v3_information(server):
    with server.client("v3") as c:
        assert c.fsstat().tbytes > 1 << 28
        assert c.fsinfo().rtmax >= 1 << 16
        assert c.pathconf().no_trunc
        dots = {e.name for e in c.raw.readdir(c.root).entries}
        assert {b".", b".."} <= dots


def test_v3_mount_of_unknown_export(server):
    with pytest.raises(NfsError):
        connect("v3", "127.0.0.1", server.port, server.mount_port, "/nothing")


# -- NFSv4 only ---------------------------------------------------------------------

def test_v4_change_attribute_moves(client4, tree):
    path = "change-" + client4.proto
    client4.write_file(path, b"1")
    before = client4.getattr(path).change
    time.sleep(0.05)                    # the clock of the file system counts in ticks
    client4.write(path, 0, b"2")
    assert client4.getattr(path).change > before


def test_v4_locks(client4, server, tree):
    path = "lock-" + client4.proto
    (tree / path).write_bytes(b"")
    f = client4.open(path, write=True)
    client4.lock(f, 0, 100)
    client4.lock(f, 200, 100)
    client4.unlock(f, 0, 50)
    assert client4.locktest(f, 60, 10, owner="b").offset == 50
    assert client4.locktest(f, 0, 10, owner="b") is None
    with server.client(client4.proto) as other:
        g = other.open(path, write=True)
        assert status_of(other.lock, g, 250, 1) == errors.DENIED
        other.lock(g, 0, 10)
        other.unlock(g, 0, 1000)
        client4.unlock(f, 0, 1 << 40)
        other.lock(g, 250, 1, exclusive=False)
        client4.lock(f, 250, 1, exclusive=False)
        other.close_file(g)
    client4.close_file(f)


def test_v4_open_state(client4, tree):
    path = "open-" + client4.proto
    (tree / path).write_bytes(b"0123")
    with client4.opened(path) as f:
        assert status_of(client4.write, f, 0, b"x") == errors.OPENMODE
        assert client4.read(f, 0, 4) == (b"0123", True)
    closed = f.stateid
    assert closed == bytes(16)
    client4.renew()


def test_v41_many_calls_at_once(server, tree):
    (tree / "slots").write_bytes(b"s" * 100)
    with server.client("v4.1") as c:
        fh, wrong = c.fh("slots"), []

        def work():
            for _ in range(50):
                if c.getattr(fh).size != 100:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(24)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong


def test_v42_seek_and_deallocate(server, tree):
    with open(tree / "holes", "wb") as f:
        f.write(b"x" * 65536)
        f.truncate(1 << 20)
    with server.client("v4.2") as c, c.opened("holes", write=True) as f:
        assert c.seek(f, 0, hole=True) == (False, 65536)
        c.deallocate(f, 0, 4096)
        assert c.read(f, 4095, 2)[0] == b"\0x"


# -- a server that goes away ----------------------------------------------------------

@pytest.mark.parametrize("proto", ALL)
def test_client_survives_restart(old_server, tree, proto):
    (tree / "survivor").write_bytes(b"still here")
    own = old_server(tree)
    with own.client(proto) as c:
        fh = c.fh("survivor")
        for crash in (True, False):
            own.restart(crash=crash)
            wait_until(lambda: c.getattr(fh).size == 10)
            assert c.read_file("survivor") == b"still here"
        own.kill9()
        with pytest.raises(RpcBroken):
            c.getattr(fh)


def test_frozen_server_times_out(old_server, tree):
    own = old_server(tree)
    with own.client("v3") as c:
        own.sigstop()
        c.conn.timeout = 0.3
        try:
            with pytest.raises(RpcTimeout):
                c.getattr(c.root)
        finally:
            own.sigcont()
        c.conn.timeout = 30
        assert c.getattr(c.root)


def test_readonly_and_squash(old_server, tree):
    (tree / "closed").write_bytes(b"x")
    os.chmod(tree / "closed", 0o600)
    own = old_server(tree, readonly=True, squash="Root_Squash")
    with own.client("v3") as c:
        assert status_of(c.create, "new") == errors.ROFS
        assert status_of(c.read, "closed", 0, 1) == errors.ACCES
        assert isinstance(c.raw, Nfs3) and UNCHECKED == "unchecked"
