# SPDX-License-Identifier: GPL-3.0-or-later
""""stub:recall deny": who is named there reads what is here and makes nothing come; all
others read everything.  "stub:recall attribute": the newer sign for what is not here."""
import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.smbd import Share
from lib.world import BothWorld
from smb2client import wire

WORLD = BothWorld
MORE = "stub:recall deny = bob @nobodys 10.0.0.0/8\nstub:recall attribute = yes"
SIGNS = wire.ATTR_OFFLINE | wire.ATTR_RECALL


@pytest.fixture(scope="module")
def far(world):
    """The same volume for clients of addresses that are denied: ours is one."""
    world.smbd.shares.append(Share(str(world.volume), name="far",
                                   vfs=world.smbd.shares[0].vfs,
                                   more="stub:recall deny = 10. 127.0.0.0/8"))
    world.smbd.write_config()
    return "far"


def denied(case, c):
    """What is here can be read, the rest cannot, and nothing comes."""
    path, node = case.path("f"), case.node("f")
    before = len(case.world.calls("READ", node))
    with c.open(path) as f:
        same(f.read(BLOCK, 100), case.data("f")[BLOCK:BLOCK + 100])
        assert smb_status(f.read, 0, 10) == "ACCESS_DENIED"
        assert smb_status(f.read, 2 * BLOCK - 5, 10) == "ACCESS_DENIED"
        assert f.info().size == SIZE
        with c.open(case.path("copy"), ALL, wire.OPEN_IF) as to:
            assert smb_status(to.copy_chunks, f, [(0, 0, 10)]) == "ACCESS_DENIED"
    c.remove(case.path("copy"))
    assert len(case.world.calls("READ", node)) == before
    case._touch("copy")


def test_a_user(case, smb, world):
    case.file(mode=0o666)
    case.source.mode = case.items[""].mode = 0o777
    case.enter("some", "f")
    with world.smbd.client("bob") as bob, world.smbd.client("alice") as alice:
        denied(case, bob)
        same(alice.read_file(case.path("f")), case.data("f"))
        same(bob.read_file(case.path("f")), case.data("f"))     # it is here now


def test_a_user_who_writes(case, smb, world):
    """Writing needs nothing of the old server."""
    case.file(mode=0o666)
    case.source.mode = case.items[""].mode = 0o777
    case.enter("partial", "f")
    with world.smbd.client("bob") as bob, bob.open(case.path("f"), ALL) as f:
        f.write(10, b"by bob")
        case.write("f", 10, b"by bob")
        assert f.read(10, 6) == b"by bob"
    same(smb.read_file(case.path("f")), case.data("f"))


def test_an_address(case, smb, world, far):
    case.file()
    case.enter("some", "f")
    with world.smbd.client(share=far) as c:
        denied(case, c)
    same(smb.read_file(case.path("f")), case.data("f"))


def test_the_attribute(case, smb):
    case.file()
    case.enter("partial", "f")
    assert smb.stat(case.path("f")).attributes & SIGNS == SIGNS
    assert smb.listdir(case.path())[0].attributes & SIGNS == SIGNS
    with smb.open(case.path("f"), ALL) as f:
        f.set_basic(attributes=SIGNS | wire.ATTR_HIDDEN)
    same(smb.read_file(case.path("f")), case.data("f"))
    case.world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")
    assert smb.stat(case.path("f")).attributes == wire.ATTR_HIDDEN
