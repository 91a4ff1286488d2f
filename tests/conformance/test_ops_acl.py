# SPDX-License-Identifier: GPL-3.0-or-later
"""ACLs that NFSv4 clients set.  The FSAL_VFS of Debian 13's Ganesha keeps them as POSIX ACLs:
what is set on a stub is there after the fill, and what comes from the old server neither
gets nor loses one.  That of Debian 12 knows none, and refuses."""
import contextlib
import os
import struct

import pytest

from lib.case import DIRS
from lib.expect import same, status_of
from lib.ganesha import release
from nfsclient import errors
from nfsclient.nfs4 import ANONYMOUS, Compound
from nfsclient.nfs4_attrs import get_bitmap, put_bitmap
from nfsclient.rpc import AuthSys
from nfsclient.xdr import Packer

ATTR_CACHE = 0
ACL = 12                                # FATTR4_ACL
EVE = 4242                              # has no right but by the ACL
READ, WRITE = 0x160081, 0x6             # with attributes and the ACL itself
INHERITED = 3                           # by files and directories
LOCAL, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
KEEPS = release() >= 6


def set_acl(client, path, flags=0, more=0):
    """The owner, the group and EVE may read and write."""
    whole = READ | WRITE | more
    aces = [(b"OWNER@", whole, 0), (b"%d" % EVE, whole, 0), (b"GROUP@", whole, 0x40),
            (b"EVERYONE@", 0, 0)]
    acl = Packer().u32(len(aces))
    for who, mask, flag in aces:
        acl.u32(0).u32(flag | flags).u32(mask).opaque(who)
    args = put_bitmap(Packer().fixed(ANONYMOUS), [ACL]).opaque(acl.done())
    compound = Compound().putfh(client.fh(path))
    compound.add("SETATTR", args, get_bitmap)
    return client.run(compound)


def users(path, which=LOCAL):
    """{uid: rights} of the users that a local ACL names."""
    try:
        data = os.getxattr(path, which)
    except OSError:
        return {}
    return {who: rights for tag, rights, who in struct.iter_unpack("<HHI", data[4:]) if tag == 2}


def change(case, client, name, **how):
    """The users that a local ACL must name now; in the model, the mode that the server
    makes of it."""
    if not KEEPS:
        assert status_of(set_acl, client, case.path(name), **how) == errors.ATTRNOTSUPP
        return {}
    set_acl(client, case.path(name), **how)
    case.items[name].mode = client.getattr(case.path(name)).mode & 0o7777
    return {EVE: 7 if how else 6}


def may(world, client, path):
    """Of READ and MODIFY, what EVE may."""
    with contextlib.closing(world.client(client.proto, cred=AuthSys(EVE, EVE))) as eve:
        return eve.access(path, 0x5)


def test_a_file(case, client4, world, place):
    """Before and after the fill of its data."""
    for name in ("now", "later"):
        case.file(name, mode=0o640)
    case.enter(place, "now", "later")
    for name in ("later", "now"):
        client4.getattr(case.path(name))
        named = change(case, client4, name)
        assert users(world.volume / case.path(name)) == named
    world.stubtool("ask", case.path("now"), "fill")
    case.finished("now")
    for name in ("later", "now"):
        assert users(world.volume / case.path(name)) == named
        assert may(world, client4, case.path(name)) == (0x5 if named else 0)
    same(client4.read_file(case.path("now")), case.data("now"))


def test_as_the_first_call(case, client4, world):
    """Attributes of the old server that come later take nothing away."""
    case.file(mode=0o640)
    case.enter("dummy", "f")
    named = change(case, client4, "f")
    same(client4.read_file(case.path("f")), case.data("f"))
    case.finished("f")
    assert users(world.volume / case.path("f")) == named


@pytest.mark.parametrize("kind", DIRS)
def test_a_directory_hands_it_down(case, client4, world, kind):
    """To what is made here.  What comes from the old server has what it had there."""
    case.dir(mode=0o770)
    case.file("d/old", mode=0o640)
    case.enter_dir(kind)
    named = change(case, client4, "d", flags=INHERITED, more=0x61)
    top = world.volume / case.path("d")
    assert users(top, DEFAULT) == users(top) == named
    client4.write_file(case.path("d/new"), b"new")
    same(client4.read_file(case.path("d/old")), case.data("d/old"))
    assert users(top / "new").keys() == named.keys()
    assert users(top / "old") == {}
    assert os.stat(top / "old").st_mode & 0o7777 == 0o640
    client4.remove(case.path("d/new"))
    case.made("d/new"), case.gone("d/new")
