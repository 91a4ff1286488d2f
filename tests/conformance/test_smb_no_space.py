# SPDX-License-Identifier: GPL-3.0-or-later
"""A full volume: what SMB clients remove and cut goes, that is how people make room."""
import os

import pytest

from lib.expect import smb_status
from lib.programs import MODULES
from lib.wait import wait_until
from lib.world import SmbWorld
from smb2client import wire
from test_no_space import SMALL, Disk


@pytest.fixture(scope="module")
def world(moddir, new_volume):
    if not (MODULES / "stub.so").exists():
        pytest.skip("no Samba module in %s" % MODULES)
    volume = new_volume("xfs", SMALL["xfs"]).path / "volume"
    volume.mkdir()
    # else smbd looks for other spellings of a new name, and has the directory listed
    with SmbWorld(moddir / "world", volume, more="case sensitive = yes",
                  allow=["pending journal: transaction failed: No space left"]) as w:
        yield w


def test_names_go_where_nobody_has_listed(world, smb):
    d = world.dir()
    for i in range(300):
        world.tree.mkdir(world.node(d), b"sub%03d" % i, mode=0o777)
    theirs = d + "/theirs"
    world.file(theirs)
    smb.write_file(d + "/own", b"own" * 10000)
    smb.write_file(d + "/cut", b"cut" * 10000)
    smb.mkdir(d + "/owndir")
    smb.stat(theirs), smb.stat(d + "/sub007")
    wait_until(lambda: os.stat(world.volume / ".postcopy/reserve").st_blocks > 0, 60, "room kept")
    disk = Disk(world.volume.parent)
    try:
        disk.fill()
        assert smb_status(smb.names, d) == "DISK_FULL"
        with smb.open(d + "/cut", wire.WRITE_DATA | wire.READ_ATTRIBUTES) as f:
            f.truncate(3)
        smb.remove(d + "/own")
        smb.remove(d + "/owndir")
        assert "unlisted" in world.show(d)["flags"]
        smb.remove(theirs)
        del world.models[theirs]
        smb.remove(d + "/sub007")
        names = smb.names(d)
        assert len(names) == 300 and "cut" in names and "sub007" not in names
    finally:
        disk.free()
