# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of both protocols on the same files, in every state of a migration.

Byte-range locks meet as they do on stock servers: the same scenario runs on plain
FSAL_VFS and a stock smbd on the same file system, and must end in the same answers.
What one side changes while the other has the file open, both see alike.
(What is seen how soon: test_smb_coherence.py.)
"""
import contextlib
import os
import pathlib
import stat

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient import NfsError, errors
from smb2client import SmbError

WORLD = BothWorld
ATTR_CACHE = 60
SOON = 20.0             # s; untold it would be a minute
END = (1 << 63) - 1     # how far POSIX locks go
# SMB's lock and NFS's: (offset, length, exclusive)
RANGES = {
    "same": ((BLOCK, 100, True), (BLOCK, 100, True)),
    "one byte": ((0, 1, True), (0, 1, True)),
    "overlapping": ((100, 2 * BLOCK, True), (BLOCK + 7, 5 * BLOCK, True)),
    "behind the end": ((SIZE + 10, 10, True), (SIZE + 19, 1, True)),
    "touching": ((100, 100, True), (200, 100, True)),
    "shared and exclusive": ((10, 50, False), (0, 100, True)),
    "exclusive and shared": ((10, 50, True), (59, 100, False)),
    "both shared": ((10, 50, False), (0, 100, False)),
}


@pytest.fixture(scope="module")
def stock(world, moddir, loop_xfs, new_server, new_samba):
    """(directory, Ganesha, smbd), both as they come."""
    top = loop_xfs.path / "stock"
    top.mkdir()
    (top / "f").write_bytes(b"x" * SIZE)
    return top, new_server("stock", top), new_samba("stock-smbd", top)


@pytest.fixture
def stock_pair(stock, client4):
    with stock[1].client(client4.proto) as nfs, stock[2].client() as smb:
        yield nfs.patient(10), smb


def said(call, *args, **options):
    """Its status, whatever the protocol."""
    try:
        call(*args, **options)
    except NfsError as err:
        return errors.NAMES[err.status]
    except SmbError as err:
        return err.status
    return "OK"


def meet(nfs, smb, path, smb_range, nfs_range):
    """Who gets which lock, told by both sides; the file is as free in the end as before."""
    (at, length, exclusive), (nfs_at, nfs_length, nfs_exclusive) = smb_range, nfs_range
    seen = []
    with smb.open(path, ALL) as theirs:
        mine = nfs.open(path, write=True)
        try:
            def lock_nfs(owner):
                seen.append(("nfs", said(nfs.patient(0).lock, mine, nfs_at, nfs_length,
                                         exclusive=nfs_exclusive, owner=owner)))
                return seen[-1][1] == "OK"

            def lock_smb():
                seen.append(("smb", said(theirs.lock, at, length, shared=not exclusive)))
                return seen[-1][1] == "OK"

            assert lock_smb()
            seen.append(("asked", nfs.locktest(path, nfs_at, nfs_length, nfs_exclusive, "c") is None))
            if lock_nfs("a"):
                nfs.unlock(mine, nfs_at, nfs_length, owner="a")
            theirs.unlock(at, length)
            assert lock_nfs("b")                # it was let go
            if lock_smb():
                theirs.unlock(at, length)
            seen.append(("write", said(theirs.write, nfs_at, b"?")))
            nfs.unlock(mine, nfs_at, nfs_length, owner="b")
            assert lock_smb()
        finally:
            nfs.patient(10).close_file(mine)
    with smb.open(path, ALL) as again:          # closing lets go, on both sides
        seen.append(("again", said(again.lock, 0, SIZE)))
    seen.append(("test", nfs.locktest(path, 0, END) is None))
    return seen


@pytest.mark.parametrize("stub", ["normal", "partial", "some", "dummy", "looked"])
def test_locks_meet(case, client4, smb, stock_pair, stub):
    case.file()
    case.enter(stub, "f")
    for name, ranges in RANGES.items():
        found = meet(client4, smb, case.path("f"), *ranges)
        assert found == meet(*stock_pair, "f", *ranges), name
        conflict = name not in ("touching", "both shared")
        assert [status for who, status in found if who == "nfs"][0] == (
            "DENIED" if conflict else "OK"), name
        assert [status for who, status in found if who == "smb"][1] == (
            "LOCK_NOT_GRANTED" if conflict else "OK"), name
        if ("write", "OK") in found:
            case.write("f", ranges[1][0], b"?")
    assert smb.stat(case.path("f")).size == len(case.data("f"))


def test_locks_outlive_a_fill(case, client4, smb, world):
    """The file becomes complete below both sides' locks."""
    case.file()
    case.enter("partial", "f")
    path = case.path("f")
    with smb.open(path, ALL) as theirs:
        mine = client4.open(path, write=True)
        theirs.lock(0, BLOCK)
        client4.lock(mine, 3 * BLOCK, BLOCK)
        world.stubtool("ask", path, "fill")
        case.finished("f")
        assert said(client4.patient(0).lock, mine, 10, 1, owner="b") == "DENIED"
        assert said(theirs.lock, 3 * BLOCK + 5, 1) == "LOCK_NOT_GRANTED"
        theirs.unlock(0, BLOCK)
        client4.lock(mine, 10, 1, owner="b")
        client4.patient(10).close_file(mine)
        theirs.lock(3 * BLOCK + 5, 1)
        same(theirs.read(), case.data("f"))


def test_a_killed_smbd_lets_go(case, client4, world):
    """Locks of an SMB client whose process died are NFS's to take."""
    case.file()
    case.enter("some", "f")
    path = case.path("f")
    mine = client4.open(path, write=True)
    with world.smbd.client() as smb:
        smb.open(path, ALL).lock(0, SIZE)
        assert said(client4.patient(0).lock, mine, 5, 1) == "DENIED"
        world.smbd.kill_client(smb)
        wait_until(lambda: said(client4.lock, mine, 0, END) == "OK", SOON, "let go")
    client4.patient(10).close_file(mine)


# -- what one side has open, the other changes ------------------------------------------

@pytest.mark.parametrize("stub", ["normal", "partial", "some"])
def test_removed_over_nfs_while_open_over_smb(case, client, smb, stub):
    """The name is gone at once; the open file goes on, whatever was missing of it."""
    case.file()
    case.enter(stub, "f")
    path, data = case.path("f"), case.data("f")
    with smb.open(path, ALL) as f:
        client.remove(path)
        case.gone("f")
        assert smb_status(smb.stat, path) == "OBJECT_NAME_NOT_FOUND"
        assert smb.names(case.path()) == []
        f.write(100, b"still here")
        same(f.read(), data[:100] + b"still here" + data[110:])


@pytest.mark.parametrize("stub", ["normal", "partial", "some"])
def test_removed_over_smb_while_open_over_nfs(case, client4, smb, stub):
    case.file()
    case.enter(stub, "f")
    path = case.path("f")
    f = client4.open(path, write=True)
    client4.names(case.path())
    smb.remove(path)
    case.gone("f")
    wait_until(lambda: not client4.exists(path), SOON, "gone", interval=0.001)
    wait_until(lambda: list(client4.names(case.path())) == [], SOON, "not listed",
               interval=0.001)
    said(client4.close_file, f)             # what stock Ganesha says of it is its affair


@pytest.mark.parametrize("stub", ["normal", "partial", "some"])
def test_renamed_over_nfs_while_open_over_smb(case, client, smb, stub):
    case.file()
    case.dir("d")
    case.enter(stub, "f")
    path = case.path("f")
    with smb.open(path, ALL) as f:
        client.rename(path, case.path("d/g"))
        case.moved("f", "d/g")
        f.write(2 * BLOCK - 3, b"through the old handle")
        case.write("d/g", 2 * BLOCK - 3, b"through the old handle")
        f.truncate(4 * BLOCK)
        case.resize("d/g", 4 * BLOCK)
        same(f.read(), case.data("d/g"))
    same(smb.read_file(case.path("d/g")), case.data("d/g"))
    assert smb.names(case.path()) == ["d"]


@pytest.mark.parametrize("stub", ["normal", "partial", "some"])
def test_replaced_over_smb_while_open_over_nfs(case, client4, smb, stub):
    """The name leads to the other file, within the bound; of what was there nothing shows."""
    case.file(), case.file("g", size=BLOCK + 5)
    case.enter(stub, "f", "g")
    path = case.path("f")
    f = client4.open(path, write=True)
    same(client4.read(f, 0, 100)[0], case.data("f")[:100])
    smb.rename(case.path("g"), path, replace=True)
    case.moved("g", "f")
    wait_until(lambda: client4.lookup(path)[1].size == BLOCK + 5, SOON, "replaced",
               interval=0.001)
    same(client4.read_file(path), case.data("f"))
    assert [n.decode() for n in client4.names(case.path())] == ["f"]
    said(client4.close_file, f)


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("stub", ["normal", "some"])
def test_what_smb_removes_frees_its_space(case, client3, smb, world, stub, how):
    """Though the NFS server keeps a file open that NFSv3 clients have read."""
    case.file(), case.file("g", size=10)
    case.enter(stub, "f", "g")
    path = case.path("f")
    same(client3.read_file(path), case.data("f"))
    number = os.lstat(world.volume / path).st_ino
    assert number in held_by(world.m.server.pid)
    if how == "removed":
        smb.remove(path)
        case.gone("f")
    else:
        smb.rename(case.path("g"), path, replace=True)
        case.moved("g", "f")
    wait_until(lambda: number not in held_by(world.m.server.pid), SOON, "let go")


def held_by(pid):
    """Inode numbers of the regular files that a process has open."""
    found = set()
    for fd in pathlib.Path("/proc/%d/fd" % pid).glob("*"):
        with contextlib.suppress(OSError):
            st = os.stat(fd)
            found |= {st.st_ino} if stat.S_ISREG(st.st_mode) else set()
    return found


@pytest.mark.parametrize("stub", ["normal", "partial", "some"])
def test_turns(case, client, smb, stub):
    """Each side goes on where the other has stopped."""
    case.file()
    case.enter(stub, "f")
    path = case.path("f")
    fh = client.fh(path)
    with smb.open(path, ALL) as f:
        for i in range(12):
            at, text = i * 30011 % SIZE, b"%d, by turns;" % i
            case.write("f", at, text)
            if i % 2:
                f.write(at, text)
            else:
                client.write(fh, at, text)
            end = len(case.data("f"))
            assert f.info().size == end
            wait_until(lambda: client.getattr(fh).size == end, SOON, "size", interval=0.001)
            same(f.read(at, 100), case.data("f")[at:at + 100])
            same(client.read(fh, at, 100)[0], case.data("f")[at:at + 100])
        f.zero(5, BLOCK + 5)
        case.punch("f", 5, BLOCK)
        same(client.read(fh, 0, 2 * BLOCK)[0], case.data("f")[:2 * BLOCK])
    same(client.read_file(path), case.data("f"))


# -- one answer, whoever is asked -----------------------------------------------------------

@pytest.mark.parametrize("who", ["nfs", "smb"])
@pytest.mark.parametrize("other", ["none", "another name"])
def test_what_replacing_lists(case, client, smb, world, who, other):
    """A name is replaced in an unlisted directory.  It is listed only if the file that had the
    name lives on under another one, where nothing would lead the crawler to it."""
    case.dir("d", mode=0o777)
    case.file("d/f"), case.file("d/stays"), case.file("g")
    case.list()
    case.reach("d/f")
    if other != "none":
        client.link(case.path("d/f"), case.path("kept"))
        case.linked("kept", "d/f")
    if who == "nfs":
        client.rename(case.path("g"), case.path("d/f"))
    else:
        smb.rename(case.path("g"), case.path("d/f"), replace=True)
    case.moved("g", "d/f")
    assert bool(world.listings(case.node("d"))) == (other != "none")
    wait_until(lambda: client.read_file(case.path("d/f")) == case.data("d/f"), 20, "NFS is told")
    if other != "none":
        same(smb.read_file(case.path("kept")), case.data("kept"))
