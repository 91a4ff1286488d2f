# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot that was taken while the volume was being filled: what is not in it is an
error for who reads it by "previous versions", never zeros; what is in it can be read."""
import datetime
import shutil
import struct
import subprocess

import pytest

from lib.case import SIZE
from lib.expect import same, smb_status
from lib.smb import ALL, EPOCH, UNIX
from lib.world import BothWorld
from smb2client import wire

TAKEN = datetime.datetime(2020, 11, 20, 10, 0, 0, tzinfo=datetime.timezone.utc)
SNAP = ".snapshots"


@pytest.fixture(scope="module")
def world(moddir, loop_xfs, rpcshim):
    volume = loop_xfs.path / "volume"
    volume.mkdir()
    w = BothWorld(moddir, volume, rpcshim, stack=("shadow_copy2", "acl_xattr", "streams_xattr",
                                                 "stub"),
                 more="shadow:snapdir = %s\nshadow:mountpoint = %s" % (SNAP, volume))
    w.also.add(SNAP.encode())
    with w:
        yield w


def take(world, case):
    """As a snapshot has it: all that is in a case's directory, records too."""
    home = world.volume / SNAP / TAKEN.strftime("@GMT-%Y.%m.%d-%H.%M.%S") / case.path()
    home.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(world.volume / case.path()), str(home)], check=True)
    return home


def then(smb, path, access=wire.READ_DATA | wire.READ_ATTRIBUTES):
    """Open what was there when the snapshot was taken."""
    when = EPOCH + int(TAKEN.timestamp()) * UNIX
    return smb.open(path, access, contexts=[(b"TWrp", struct.pack("<Q", when))])


def test_previous_versions(case, smb, world):
    for name in ("stub", "some", "normal"):
        case.file(name)
    case.enter("partial", "stub")
    case.enter("some", "some")
    case.enter("normal", "normal")
    snapshot = take(world, case)
    for stage in ("migrating", "filled"):
        with then(smb, case.path("normal")) as f:
            same(f.read(), case.data("normal"))
        for name in ("stub", "some"):
            with then(smb, case.path(name)) as f:
                assert f.size == SIZE
                for at in (0, 65536, SIZE - 10):
                    assert smb_status(f.read, at, 10) == "IO_DEVICE_ERROR", (stage, name)
                to = "copy of %s, %s" % (name, stage)
                case.made(to)
                with smb.open(case.path(to), ALL, wire.CREATE_NEW) as copy:
                    assert smb_status(copy.copy_chunks, f, [(0, 0, 10)]) == "IO_DEVICE_ERROR"
            if stage == "migrating":
                same(smb.read_file(case.path(name)), case.data(name))
                world.stubtool("ask", case.path(name), "fill")
                case.finished(name)
    shutil.rmtree(snapshot)             # to the volume these are copies of stubs


def test_another_file_system_inside(case, smb, world, new_volume):
    """As btrfs shows a snapshot: a path of the volume, another device, with records."""
    for name in ("stub", "normal"):
        case.file(name)
    case.enter("partial", "stub")
    case.enter("normal", "normal")
    other, here = new_volume("ext4", "300M").path, world.volume / SNAP / case.name
    subprocess.run(["cp", "-a", str(world.volume / case.path()), str(other)], check=True)
    here.mkdir(parents=True)
    subprocess.run(["mount", "--bind", str(other), str(here)], check=True)
    try:
        place = "%s/%s/%s/" % (SNAP, case.name, case.path())
        same(smb.read_file(place + "normal"), case.data("normal"))
        with smb.open(place + "stub") as f, smb.open(place + "copy", ALL, wire.CREATE_NEW) as to:
            assert smb_status(f.read, 0, 10) == "IO_DEVICE_ERROR"
            assert smb_status(to.copy_chunks, f, [(0, 0, 10)]) == "IO_DEVICE_ERROR"
        same(smb.read_file(case.path("stub")), case.data("stub"))
    finally:
        subprocess.run(["umount", "-l", str(here)], check=True)
        here.rmdir()
