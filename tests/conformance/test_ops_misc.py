# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server says of itself and of its file system: FSSTAT, FSINFO, PATHCONF and the
file-system attributes of v4.  A volume that is being filled says what stock Ganesha says
of the same file system, whatever object is asked about, and asks the old server nothing.
"""
import pytest

from lib import ganesha
from lib.case import PLACES, SIZE
from lib.expect import status_of
from nfsclient import errors
from nfsclient.nfs4_attrs import READERS, get_bitmap
from nfsclient.nfstypes import FIFO
from nfsclient.rpc import AuthSys
from nfsclient.xdr import Unpacker

ATTR_CACHE = 0
MIB = 1 << 20

# v4 attributes of the file system or the server (RFC 8881, 5.6 and 5.7)
FIXED = {
    0: get_bitmap,              # supported_attrs
    2: Unpacker.u32,            # fh_expire_type
    5: Unpacker.boolean,        # link_support
    6: Unpacker.boolean,        # symlink_support
    7: Unpacker.boolean,        # named_attr
    9: Unpacker.boolean,        # unique_handles
    10: Unpacker.u32,           # lease_time
    13: Unpacker.u32,           # aclsupport
    15: Unpacker.boolean,       # cansettime
    16: Unpacker.boolean,       # case_insensitive
    17: Unpacker.boolean,       # case_preserving
    18: Unpacker.boolean,       # chown_restricted
    26: Unpacker.boolean,       # homogeneous
    27: Unpacker.u64,           # maxfilesize
    28: Unpacker.u32,           # maxlink
    29: Unpacker.u32,           # maxname
    30: Unpacker.u64,           # maxread
    31: Unpacker.u64,           # maxwrite
    34: Unpacker.boolean,       # no_trunc
}
SPACE = {number: Unpacker.u64 for number in (21, 22, 23, 42, 43, 44)}


@pytest.fixture(scope="module")
def stock(moddir, rpcshim, loop_xfs):
    """Debian's Ganesha with its own FSAL on the same file system, beside the volume."""
    tree = loop_xfs.path / "stock"
    tree.mkdir()
    (tree / "f").write_bytes(b"x")
    server = ganesha.Ganesha(moddir / "stock", str(tree), shim=rpcshim)
    with server:
        yield server


@pytest.fixture
def known():
    """The v4 client decodes the attributes of this module, too."""
    added = {n: r for n, r in {**FIXED, **SPACE}.items() if n not in READERS}
    READERS.update(added)
    yield
    for number in added:
        del READERS[number]


def objects(case, place):
    """The paths of one object of each kind, in a state."""
    case.file("f")
    case.dir("d")
    case.file("d/g", size=10)
    case.symlink("l", "f")
    case.special("p", FIFO)
    case.enter(place, "f")
    return ["", case.path(), case.path("f"), case.path("d"), case.path("l"), case.path("p")]


# -- v3 --------------------------------------------------------------------------------

def test_fsinfo(case, client3, stock, place):
    with stock.client("v3") as other:
        want = other.fsinfo(b"f")
    assert want.rtmax >= MIB and want.wtmax >= MIB and want.maxfilesize >= 1 << 40
    assert want.properties & 0x1b == 0x1b   # links, symlinks, homogeneous, times can be set
    for path in objects(case, place):
        assert client3.fsinfo(path) == want


def test_pathconf(case, client3, stock, place):
    with stock.client("v3") as other:
        want = other.pathconf(b"f")
    assert want.name_max >= 255 and want.case_preserving and not want.case_insensitive
    for path in objects(case, place):
        assert client3.pathconf(path) == want


def test_fsstat(case, client3, stock, place):
    """Space is that of the new file system, not of the old server."""
    for path in objects(case, place):
        stat = client3.fsstat(path)
        with stock.client("v3") as other:
            want = other.fsstat(b"f")
        assert stat.tbytes == want.tbytes
        assert abs(stat.fbytes - want.fbytes) < 64 * MIB
        assert 0 < stat.abytes <= stat.fbytes <= stat.tbytes
        assert 0 < stat.afiles <= stat.ffiles <= stat.tfiles


def test_fsstat_of_a_handle_that_is_gone(case, client3):
    case.file()
    fh = client3.fh(case.path("f"))
    client3.remove(case.path("f"))
    case.gone("f")
    for call in (client3.fsstat, client3.fsinfo, client3.pathconf):
        assert status_of(call, fh) == errors.STALE


# -- v4 --------------------------------------------------------------------------------

def test_fixed_attributes(case, client4, stock, place, known):
    with stock.client(client4.proto) as other:
        want = other.attributes(b"f", sorted(FIXED))
    assert set(FIXED) - set(want) <= {13}
    assert want[29] >= 255 and want[30] >= MIB and want[31] >= MIB and want[17] and not want[16]
    for path in objects(case, place):
        assert client4.attributes(path, sorted(FIXED)) == want


def test_space_attributes(case, client4, stock, place, known):
    for path in objects(case, place):
        got = client4.attributes(path, sorted(SPACE))
        with stock.client(client4.proto) as other:
            want = other.attributes(b"f", sorted(SPACE))
        assert got[44] == want[44] and abs(got[43] - want[43]) < 64 * MIB
        assert 0 < got[42] <= got[43] <= got[44]
        assert 0 < got[21] <= got[22] <= got[23]


def test_ids(case, client, place):
    """One file system, an own number for each object, none of the old server's."""
    paths = objects(case, place)
    attrs = [client.getattr(path) for path in paths]
    assert len({a.fsid for a in attrs}) == 1
    assert [a.fileid for a in attrs] == [(case.world.volume / path).lstat().st_ino
                                         for path in paths]
    assert len({a.fileid for a in attrs}) == len(paths)


# -- all ----------------------------------------------------------------------------------

def test_asking_fetches_nothing(case, client3, world, place):
    paths = objects(case, place)
    handles = [client3.fh(p) for p in paths]
    world.settle()
    before = len(world.fake.calls)
    for fh in handles:
        client3.fsstat(fh), client3.fsinfo(fh), client3.pathconf(fh)
    assert [c.proc for c in list(world.fake.calls)[before:] if c.proc != "NULL"] == []


def test_while_the_old_server_is_gone(case, client, world, known):
    """Nothing of this waits."""
    paths = objects(case, "partial")
    handles = [client.fh(p) for p in paths]
    world.fake.pause()
    hasty = client.patient(0)
    for fh in handles:
        if client.proto == "v3":
            hasty.fsstat(fh), hasty.fsinfo(fh), hasty.pathconf(fh)
        else:
            hasty.attributes(fh, sorted({**FIXED, **SPACE}))
    world.fake.resume()


@pytest.mark.parametrize("stub", [p for p in PLACES if p != "normal"])
def test_used_space_of_a_stub(case, client, stub):
    """Never less than its size: what uses no space is taken for one hole."""
    case.file()
    case.enter(stub, "f")
    attrs = client.getattr(case.path("f"))
    assert attrs.used >= attrs.size == SIZE


def test_fsstat_by_a_stranger(case, client3, world, place):
    """Anybody may ask how much space there is."""
    case.file(mode=0)
    case.enter(place, "f")
    with world.client("v3", cred=AuthSys(4711, 4711)) as stranger:
        assert stranger.fsstat(client3.fh(case.path("f"))).tbytes > 0
