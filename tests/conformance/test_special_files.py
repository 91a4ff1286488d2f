# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices, sockets and FIFOs by their handles.  FSAL_VFS knows some of them by a name, and has
none for one that a client comes with: after Ganesha has forgotten the object, which it does
when one of its names is removed, and when it is started anew."""
import os

import pytest

from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.nfstypes import BLK, CHR, FIFO, SOCK

TYPES = {"file": None, "block": BLK, "char": CHR, "fifo": FIFO, "socket": SOCK}


@pytest.fixture
def m(fresh_dir, new_migration):
    tree = Tree()
    tree.root.mode = 0o777
    with FakeServer(tree) as fake:
        m = new_migration(fake.url(), fresh_dir).init().start()
        m.server.exports[0].more = "Attr_Expiration_Time = 0;"
        m.server.write_config()
        m.server.restart()
        yield m


def make(client, name, ftype):
    if ftype is None:
        return client.create(name)[0]
    rdev = (7, 99) if ftype in (BLK, CHR) else (0, 0)
    return client.mknod(name, ftype, rdev=rdev) or client.lookup(name)[0]


def later(path):
    """The file system's clock has moved on since the object's last change."""
    probe = path.parent / "clock"

    def moved():
        probe.touch()
        os.utime(probe)
        return os.lstat(probe).st_ctime_ns > os.lstat(path).st_ctime_ns
    wait_until(moved, 60, "a later time")
    probe.unlink()


def test_change_time_after_another_name_was_removed(m, fresh_dir, proto):
    with m.client(proto) as c:
        c = c.patient(60)
        c.mkdir("d")
        for name, ftype in TYPES.items():
            fh = make(c, "d/" + name, ftype)
            c.link("d/" + name, "d/other")
            before = c.getattr(fh)
            assert before.nlink == 2, name
            later(fresh_dir / "d" / name)
            c.remove("d/other")
            for _ in range(2):
                after = c.getattr(fh)
                assert (after.nlink, after.ctime > before.ctime) == (1, True), name
            # the name that it was made by goes, the other one stays
            c.link("d/" + name, "d/other")
            assert c.getattr(fh).nlink == 2, name
            os.unlink(fresh_dir / "d" / name)
            assert c.getattr(fh).nlink == 1, name
            c.remove("d/other")


def test_handle_survives_a_restart(m, proto):
    with m.client(proto) as c:
        c = c.patient(60)
        c.mkdir("d")
        handles = {name: make(c, "d/" + name, ftype) for name, ftype in TYPES.items()}
        before = {name: c.getattr(fh) for name, fh in handles.items()}
    m.server.restart()
    with m.client(proto) as c:
        c = c.patient(60)
        for name, fh in handles.items():
            for _ in range(2):
                after = c.getattr(fh)
                assert (after.type, after.rdev, after.ctime) == (
                    before[name].type, before[name].rdev, before[name].ctime), name
