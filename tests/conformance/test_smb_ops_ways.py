# SPDX-License-Identifier: GPL-3.0-or-later
"""The other ways in which smbd may be told to work: without asynchronous I/O, with
sendfile and recvfile, reserving space, with other modules in the stack, from a share
inside of the volume.  A short run of what must not go wrong for each."""
import pytest

from lib.case import ANY, BLOCK, DIRS, SIZE
from lib.expect import same
from lib.smb import ALL
from lib.smbd import USERS, Share
from lib.smbtree import descriptor
from lib.world import BothWorld
from smb2client import wire

WAYS = {
    "sync": ("", "aio read size = 0\naio write size = 0"),
    "sendfile": ("", "use sendfile = yes\naio read size = 0\naio write size = 0"),
    "recvfile": ("", "aio write size = 0\nstrict locking = no"),
    "strict": ("", "strict allocate = yes\nstrict sync = yes\nsync always = yes"),
    "case sensitive": ("", "case sensitive = yes"),
    "audited": ("full_audit acl_xattr streams_xattr stub", "full_audit:success = none\n"
                "full_audit:failure = none"),
    "mac": ("catia fruit streams_xattr stub", "fruit:metadata = stream"),
    "recycle": ("recycle acl_xattr streams_xattr stub", ""),
    "first": ("stub acl_xattr streams_xattr", ""),
    "alone": ("stub", ""),
    "depot": ("streams_depot stub", "streams_depot:directory = .streams-of-smbd"),
}
CONF = {"recvfile": "min receivefile size = 4096\nserver signing = disabled\n"}


@pytest.fixture(scope="module", params=WAYS)
def world(moddir, loop_xfs, rpcshim, request):
    volume = loop_xfs.path / request.param.replace(" ", "-")
    volume.mkdir()
    stack, more = WAYS[request.param]
    w = BothWorld(moddir / request.param.replace(" ", "-"), volume, rpcshim, more=more,
                 smb_conf=CONF.get(request.param, ""),
                 **({"stack": tuple(stack.split())} if stack else {}))
    w.way = request.param
    w.also |= {b".recycle", b".streams-of-smbd"}
    with w:
        yield w


def test_read(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f")) as f:
        same(f.read(BLOCK - 10, 20), case.data("f")[BLOCK - 10:BLOCK + 10])
        same(f.read(), case.data("f"))


def test_write(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        for at in (100, BLOCK - 5000, SIZE - 10, SIZE + 2 * BLOCK):
            f.write(at, b"%d" % at * 3000)
            case.write("f", at, b"%d" % at * 3000)
        same(f.read(BLOCK, 10), case.data("f")[BLOCK:BLOCK + 10])


def test_resize(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        for size in (2 * BLOCK + 7, 5 * BLOCK):
            f.truncate(size)
            case.resize("f", size)
        f.zero(100, BLOCK)
        case.punch("f", 100, BLOCK - 100)
        same(f.read(), case.data("f"))


def test_copy(case, smb, place):
    case.file()
    case.file("to")
    case.enter(place, "f", "to")
    with smb.open(case.path("f")) as f, smb.open(case.path("to"), ALL) as to:
        assert to.copy_chunks(f, [(0, BLOCK + 5, 2 * BLOCK)]) == 2 * BLOCK
        case.write("to", BLOCK + 5, case.data("f")[:2 * BLOCK])
        same(to.read(), case.data("to"))


def test_descriptor(case, smb, place):
    """Owner and rights that a client gives, in NTACL or as a POSIX mode: they stay."""
    case.file(mode=0o640)
    case.enter(place, "f")
    smb.set_security(case.path("f"), descriptor("O:{alice}D:P(A;;FA;;;{alice})(A;;FR;;;WD)"),
                     wire.OWNER | wire.DACL)
    case.items["f"].uid, case.items["f"].mode = USERS["alice"][0], ANY
    found = (case.world.volume / case.path("f")).stat()
    assert found.st_uid == USERS["alice"][0] and found.st_mode & 0o707 == 0o704, found
    same(smb.read_file(case.path("f")), case.data("f"))


def test_streams(case, smb, place):
    if case.world.way == "alone":
        pytest.skip("no module for streams")
    case.file()
    case.enter(place, "f")
    smb.write_file(case.path("f:s"), b"of the stream")
    assert smb.read_file(case.path("f:s")) == b"of the stream"
    same(smb.read_file(case.path("f")), case.data("f"))
    case.free = True            # smbd keeps it as it likes


@pytest.mark.parametrize("state", DIRS)
def test_names(case, smb, state):
    case.dir("d")
    case.file("d/old")
    case.file("f")
    case.enter_dir(state)
    smb.rename(case.path("f"), case.path("d/f"))
    case.moved("f", "d/f")
    smb.write_file(case.path("d/new"), b"new")
    case.made("d/new").data = b"new"
    assert smb.names(case.path("d")) == ["f", "new", "old"]
    assert not smb.stat(case.path("d/new")).attributes & wire.ATTR_OFFLINE
    case.free = case.world.way == "recycle"
    smb.remove(case.path("d/old"))
    case.gone("d/old")
    assert "old" not in smb.names(case.path("d"))


def test_a_share_inside(case, smb, world):
    """The share's root is a directory of the volume, and a stub."""
    case.dir("d")
    case.file("d/f")
    case.reach("d")
    world.smbd.shares.append(Share(str(world.volume / case.path("d")), name=case.name,
                                   vfs=world.smbd.shares[0].vfs))
    world.smbd.write_config()
    with world.smbd.client(share=case.name) as c:
        assert c.names() == ["f"]
        same(c.read_file("f"), case.data("d/f"))
