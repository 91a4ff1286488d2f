# SPDX-License-Identifier: GPL-3.0-or-later
"""LOOKUP, GETATTR, ACCESS, READDIR(PLUS), FSSTAT: looking changes nothing."""
import pytest

from lib.case import GROUP, SIZE, USER
from lib.expect import status_of, view
from nfsclient import errors
from nfsclient.nfs4_attrs import READERS
from nfsclient.nfstypes import (ACCESS_EXECUTE, ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ, BLK, CHR,
                                DIR, FIFO, SOCK)
from nfsclient.rpc import AuthSys
from nfsclient.xdr import Unpacker

ATTR_CACHE = 0


def agrees(attrs, node):
    """The client is shown what the old server has."""
    for key in ("type", "mode", "uid", "gid", "nlink", "mtime", "ctime"):
        assert getattr(attrs, key) == getattr(node, key), key
    if node.type != DIR:
        assert attrs.size == node.size
    if attrs.change is not None:
        assert attrs.change == max(node.mtime, node.ctime)


# -- LOOKUP, GETATTR ------------------------------------------------------------

@pytest.mark.parametrize("stub", ["partial", "some", "dummy", "cold"])
def test_getattr(case, client, stub):
    case.file(mode=0o4751)
    case.enter(stub, "f")
    agrees(client.getattr(case.path("f")), case.node("f"))


def test_getattr_of_a_normal_file(case, client):
    case.file(mode=0o4751)
    before = case.node("f")
    case.enter("normal", "f")
    attrs = client.getattr(case.path("f"))
    assert (attrs.mode, attrs.uid, attrs.gid, attrs.size, attrs.mtime) == (
        0o4751, USER, GROUP, SIZE, before.mtime)


@pytest.mark.parametrize("stub", ["listed", "unlisted", "dummy"])
def test_getattr_of_a_directory(case, client, stub):
    case.dir("d", mode=0o2775)
    case.file("d/f", size=10)
    case.list()
    if stub == "dummy":
        case.world.stubtool("dummy", case.path("d"))
    before = view(client.getattr(case.path("d")))
    agrees(client.getattr(case.path("d")), case.node("d"))
    client.names(case.path("d"))
    after = view(client.getattr(case.path("d")))
    assert {k: after[k] for k in after if k not in ("ctime", "change", "size")} == \
           {k: before[k] for k in before if k not in ("ctime", "change", "size")}
    assert after["ctime"] >= before["ctime"]


def test_getattr_by_an_old_handle(case, client):
    """A handle of a stub is good for the normal file: same inode, same handle."""
    case.file()
    fh = client.fh(case.path("f"))
    agrees(client.getattr(fh), case.node("f"))
    case.enter("normal", "f")
    assert client.getattr(fh).size == SIZE
    assert client.fh(case.path("f")) == fh


@pytest.mark.parametrize("ftype,rdev", [(FIFO, (0, 0)), (SOCK, (0, 0)), (CHR, (1, 3)),
                                        (BLK, (259, 262143))])
@pytest.mark.parametrize("listed", [True, False])
def test_special_files(case, client, ftype, rdev, listed):
    case.special("s", ftype, rdev)
    if listed:
        case.list()
    fh, attrs = client.lookup(case.path("s"))
    assert (attrs.type, attrs.rdev, attrs.mode) == (ftype, rdev, 0o604)
    assert (attrs.uid, attrs.gid, attrs.mtime) == (USER, GROUP, case.node("s").mtime)


def test_lookup_asks_for_one_name(case, client, world):
    case.dir("d")
    for i in range(30):
        case.file("d/f%d" % i)
    client.lookup(case.path("d/f7"))
    assert world.listings(case.node("d")) == 0
    assert {c.name for c in world.calls("LOOKUP", case.node("d"))} == {b"f7"}


def test_lookup_of_what_is_nowhere(case, client, world):
    case.dir("d")
    case.file("d/f")
    for listed in (False, True):
        if listed:
            case.list("d")
        assert status_of(client.lookup, case.path("d/nothing")) == errors.NOENT
    assert client.names(case.path("d")) == [b"f"]


def test_lookup_deep(case, client, world):
    """One LOOKUP for each level, no listing."""
    path = "a"
    case.dir(path)
    for i in range(10):
        for n in range(5):
            case.file("%s/beside%d" % (path, n), size=10)
        path += "/d%d" % i
        case.dir(path)
    case.file(path + "/f")
    before = len(world.calls("LOOKUP"))
    assert client.read_file(case.path(path + "/f")) == case.data(path + "/f")
    assert len(world.calls("LOOKUP")) - before <= 14
    assert all(world.listings(case.node(p)) == 0 for p in ("a", "a/d0", path))


def test_lookup_does_not_move_the_directory(case, client):
    case.dir("d")
    for i in range(5):
        case.file("d/f%d" % i)
    before = view(client.getattr(case.path("d")))
    assert before.pop("size") is not None and before["mtime"] == case.node("d").mtime
    for i in range(5):
        client.lookup(case.path("d/f%d" % i))
        after = view(client.getattr(case.path("d")))
        del after["size"]            # that of a directory is the file system's own
        assert after == before


def test_lookup_in_a_file(case, client):
    case.file()
    case.enter("partial", "f")
    fh = client.fh(case.path("f"))
    assert status_of(client.lookup, (fh, b"x")) == errors.NOTDIR


@pytest.mark.parametrize("name", ["with space", "new\nline", "caf\xe9", "\u65e5\u672c", "x" * 255,
                                  "..."])
@pytest.mark.parametrize("listed", [True, False])
def test_names_are_bytes(case, client, name, listed):
    case.file(name, size=10)
    if listed:
        case.list()
    client.lookup(case.path(name))
    assert client.names(case.path()) == [name.encode()]


# -- ACCESS ---------------------------------------------------------------------

@pytest.mark.parametrize("uid,gid,gids", [(0, 0, ()), (USER, 9, ()), (8, GROUP, ()), (8, 9, (GROUP,)),
                                          (8, 9, ())])
@pytest.mark.parametrize("mode", [0o640, 0o751, 0o007])
def test_access(case, client, world, state, uid, gid, gids, mode):
    """By the old server's mode and owner, whatever the local inode has."""
    case.file(mode=mode)
    case.enter(state, "f")
    bits = mode >> 6 if uid == USER else mode >> 3 if GROUP in (gid, *gids) else mode
    mask = ACCESS_READ | ACCESS_MODIFY | ACCESS_EXECUTE
    want = (ACCESS_READ if bits & 4 else 0) | (ACCESS_MODIFY if bits & 2 else 0) | (
        ACCESS_EXECUTE if bits & 1 else 0)
    if uid == 0:
        want = ACCESS_READ | ACCESS_MODIFY | (ACCESS_EXECUTE if mode & 0o111 else 0)
    with world.client(client.proto, cred=AuthSys(uid, gid, gids)) as c:
        assert c.access(case.path("f"), mask) == want


def test_access_to_a_dummy_directory(case, client, world):
    case.dir("d", mode=0o751)
    case.file("d/f", size=10, mode=0o644)
    case.list()
    world.stubtool("dummy", case.path("d"))
    with world.client(client.proto, cred=AuthSys(8, 9)) as c:
        assert c.access(case.path("d"), ACCESS_READ | ACCESS_LOOKUP) == ACCESS_LOOKUP
        assert status_of(c.names, case.path("d")) == errors.ACCES
        assert c.read_file(case.path("d/f")) == case.data("d/f")


def test_reading_without_permission(case, client, world, state):
    case.file(mode=0o600)
    case.enter(state, "f")
    with world.client(client.proto, cred=AuthSys(8, 9)) as c:
        assert status_of(c.read_file, case.path("f")) == errors.ACCES
        assert status_of(c.write, case.path("f"), 0, b"x") == errors.ACCES
    with world.client(client.proto, cred=AuthSys(USER, 9)) as c:
        assert c.read_file(case.path("f")) == case.data("f")


# -- READDIR --------------------------------------------------------------------

@pytest.mark.parametrize("attrs", [True, False])
@pytest.mark.parametrize("count", [0, 1, 50, 700])
def test_readdir(case, client, attrs, count):
    """Whole, every name once, with the old server's attributes."""
    case.dir("d")
    for i in range(count):
        case.file("d/file-%04d" % i, size=i + 1, mode=0o600 + i % 8)
    found = client.listdir(case.path("d"), attrs=attrs, maxcount=16384)
    assert sorted(e.name for e in found) == [b"file-%04d" % i for i in range(count)]
    for entry in found[:20] if attrs else ():
        agrees(entry.attrs, case.node("d/" + entry.name.decode()))
    assert client.getattr(case.path("d")).mtime == case.node("d").mtime


def test_readdir_with_dummies(case, client):
    case.dir("d")
    for i in range(5):
        case.file("d/f%d" % i, size=100 + i)
    case.list("d")
    for i in range(5):
        case.world.stubtool("dummy", case.path("d/f%d" % i))
    for entry in client.listdir(case.path("d")):
        agrees(entry.attrs, case.node("d/" + entry.name.decode()))


def test_readdir_after_lookups(case, client):
    """Names that were looked up before are listed once, and keep their inode."""
    case.dir("d")
    for i in range(40):
        case.file("d/f%02d" % i, size=10)
    known = {b"f%02d" % i: client.getattr(case.path("d/f%02d" % i)).fileid for i in (3, 17, 39)}
    found = client.listdir(case.path("d"))
    assert sorted(e.name for e in found) == [b"f%02d" % i for i in range(40)]
    assert {e.name: e.fileid for e in found if e.name in known} == known


def test_readdir_of_all_types(case, client):
    case.dir("d")
    case.dir("d/dir")
    case.symlink("d/link", "../x")
    case.special("d/fifo", FIFO)
    case.special("d/null", CHR, (1, 3))
    case.file("d/file", size=5)
    for entry in client.listdir(case.path("d")):
        node = case.node("d/" + entry.name.decode())
        assert (entry.attrs.type, entry.attrs.mode, entry.attrs.mtime) == (
            node.type, node.mode, node.mtime)


def test_readdir_lists_once(case, client, world):
    case.dir("d")
    for i in range(10):
        case.file("d/f%d" % i, size=10)
    client.names(case.path("d"))
    calls = world.listings(case.node("d"))
    client.names(case.path("d"))
    assert calls > 0 and world.listings(case.node("d")) == calls


def test_readdir_with_the_old_server_gone(case, client, world):
    """Whole or DELAY, never a part."""
    for d in ("listed", "unlisted"):
        case.dir(d)
        for i in range(5):
            case.file("%s/f%d" % (d, i), size=10)
    case.list()
    case.list("listed")
    fh = {d: client.fh(case.path(d)) for d in ("listed", "unlisted")}
    client.lookup(case.path("unlisted/f2"))
    world.fake.pause()
    assert status_of(client.patient(0).readdir_page, fh["unlisted"]) == errors.DELAY
    assert len(client.names(fh["listed"])) == 5
    world.fake.resume()
    assert client.names(fh["unlisted"]) == [b"f%d" % i for i in range(5)]


def test_readdir_of_a_file(case, client):
    case.file()
    case.enter("partial", "f")
    assert status_of(client.names, case.path("f")) == errors.NOTDIR


# -- FSSTAT -----------------------------------------------------------------------

def test_fsstat(case, client3, world):
    case.file()
    for path in (b"", case.path("f"), case.path()):
        stat = client3.fsstat(path)
        assert 0 < stat.abytes <= stat.fbytes <= stat.tbytes < 4 << 30
        assert 0 < stat.ffiles <= stat.tfiles
    assert client3.fsinfo(case.path("f")).rtmax >= 65536
    assert client3.pathconf(case.path()).name_max >= 255
    assert world.calls("READ", case.node("f")) == []


def test_space_attributes(case, client4):
    """v4: space_avail, space_free, space_total; files_avail, files_free, files_total."""
    case.file()
    numbers = (42, 43, 44, 21, 22, 23)
    for number in numbers:
        READERS.setdefault(number, Unpacker.u64)
    found = client4.attributes(case.path("f"), sorted(numbers))
    assert 0 < found[42] <= found[43] <= found[44] < 4 << 30
    assert 0 < found[21] <= found[22] <= found[23]
