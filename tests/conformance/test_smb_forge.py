# SPDX-License-Identifier: GPL-3.0-or-later
"""Nobody can forge a stub (docs/design.md, invariant 9), nor see what we keep: over SMB, by
extended attributes, streams and ioctls, as a user and as an administrator."""
import os
import struct

import pytest

from lib.case import SIZE
from lib.world import SmbWorld
from smb2client import SmbError, wire

WORLD = SmbWorld
EA = wire.READ_EA | wire.WRITE_EA | wire.READ_ATTRIBUTES
RECORD = "trusted.postcopy"
NAMES = ("postcopy", "trusted.postcopy", "TRUSTED.POSTCOPY", "user.postcopy",
         "security.postcopy", "postcopy.map", "trusted.postcopy.map", "trusted.postcopy.stub")


@pytest.fixture(params=["root", "alice"])
def user(world, request):
    with world.m.client(request.param) as c:
        yield c


def records(path):
    """The extended attributes that are ours, as root sees them on the disk."""
    return {n: os.getxattr(path, n) for n in os.listxattr(path) if n.startswith(RECORD)}


def told(world, path):
    """What the record says, but for times: any change to an inode moves those."""
    shown = world.show(path)
    assert shown["stub"]
    return {k: v for k, v in shown.items() if k not in ("local", "ctime", "mtime")}


@pytest.fixture
def stub(world):
    d = world.dir()
    world.file(d + "/f")
    return d + "/f"


@pytest.mark.parametrize("name", NAMES)
def test_an_ea_is_no_record(world, user, stub, name):
    """Whatever a client calls its attribute, ours stay as they were, and data comes."""
    user.stat(stub)
    before, ours = told(world, stub), records(world.volume / stub).keys()
    with user.open(stub, EA) as f:
        for value in (b"forged", b""):
            try:
                f.set_ea(name.encode(), value)
            except SmbError as err:
                assert err.status not in ("UNSUCCESSFUL",), err
    assert told(world, stub) == before
    assert records(world.volume / stub).keys() == ours
    assert user.read_file(stub) == world.models[stub][1]


def test_no_record_is_listed(world, user, stub):
    user.stat(stub)
    assert records(world.volume / stub)
    with user.open(stub, EA | wire.READ_CONTROL) as f:
        assert f.eas() == {} and f.info().ea_size == 0
        assert f.streams() == {"::$DATA": SIZE}
    with user.open(stub.split("/")[0], EA) as d:
        assert d.eas() == {} and d.info().ea_size == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_no_record(world, user, stub, name):
    user.stat(stub)
    before, ours = told(world, stub), records(world.volume / stub).keys()
    try:
        user.write_file("%s:%s" % (stub, name), b"forged")
    except SmbError as err:
        assert err.status in ("OBJECT_NAME_INVALID", "ACCESS_DENIED", "NOT_SUPPORTED"), err
    assert told(world, stub) == before
    assert records(world.volume / stub).keys() == ours
    assert user.read_file(stub) == world.models[stub][1]


def test_a_new_file_is_no_stub(world, user, stub):
    """Copied attributes, streams and all: a record is not among them."""
    d = stub.split("/")[0]
    with user.open(stub, EA) as f:
        eas = f.eas()
    with user.open(d + "/mine", EA | wire.WRITE_DATA, wire.OPEN_IF) as f:
        for name, value in {**eas, b"trusted.postcopy": b"x" * 80}.items():
            try:
                f.set_ea(name, value)
            except SmbError:
                pass
        f.write(0, b"mine")
    assert records(world.volume / d / "mine") == {}
    assert user.read_file(d + "/mine") == b"mine"
    assert not user.stat(d + "/mine").attributes & wire.ATTR_OFFLINE


def test_offline_is_not_set_by_a_client(world, user):
    """It is computed: set on a normal file it says nothing, cleared on a stub neither."""
    d = world.dir()
    data = world.file(d + "/f")
    with user.open(d + "/f", wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES) as f:
        f.set_basic(attributes=wire.ATTR_HIDDEN)
        assert f.info().attributes & (wire.ATTR_HIDDEN | wire.ATTR_OFFLINE) == \
            wire.ATTR_HIDDEN | wire.ATTR_OFFLINE
    user.write_file(d + "/mine", b"x")
    with user.open(d + "/mine", wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES) as f:
        f.set_basic(attributes=wire.ATTR_OFFLINE | wire.ATTR_ARCHIVE)
    assert not user.stat(d + "/mine").attributes & wire.ATTR_OFFLINE
    assert user.read_file(d + "/f") == data


# -- ioctls --------------------------------------------------------------------------------

@pytest.mark.parametrize("code", [0x900A4, 0x900A8, 0x900AC, 0x900C0, 0x9009C, 0x900BC, 0x94CF,
                                  0x98098, 0x900A0, 0x980BC, 0x900D7, 0x900DF],
                         ids=hex)
def test_other_ioctls(world, user, stub, code):
    """Reparse points, object ids and what else there is: refused, or of no use."""
    user.stat(stub)
    before, ours = told(world, stub), records(world.volume / stub)
    with user.open(stub, wire.MAXIMUM_ALLOWED) as f:
        try:
            answer = f.ioctl(code, bytes(64))
        except SmbError:
            answer = b""
    assert not any(value in answer for value in ours.values())
    assert told(world, stub) == before
    assert user.read_file(stub) == world.models[stub][1]


def test_extents_are_not_shared_with_a_stub(world, smb, stub):
    """FSCTL_DUP_EXTENTS_TO_FILE would share holes."""
    d = stub.split("/")[0]
    with smb.open(stub) as f, smb.open(d + "/twin", wire.MAXIMUM_ALLOWED,
                                             wire.CREATE_NEW) as g:
        g.truncate(65536)
        try:
            g.ioctl(wire.FSCTL_DUP_EXTENTS, f.id + struct.pack("<QQQ", 0, 0, 65536))
            assert g.read() == world.models[stub][1][:65536]
        except SmbError:
            assert g.read() == bytes(65536)
