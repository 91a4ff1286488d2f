# SPDX-License-Identifier: GPL-3.0-or-later
"""A name goes, or comes, while an operation on it waits for a lock.

A CREATE has opened the file that was there and waits for the file's lock, to truncate
it.  What it says in the end must not be about a file that nobody has a name of: Ganesha
would put the name into its list again and show a file that is not there.  NFSv3 only: an
OPEN of NFSv4 opens by handle what it has found, and no list changes.

A RENAME has found nothing at its new name.  What another client puts there until it has
its locks is replaced, and loses a link.
"""
import contextlib
import fcntl
import os
import struct
import threading

import pytest

from lib.wait import wait_until

ATTR_CACHE = 0
F_OFD_SETLK = 37


@contextlib.contextmanager
def locked(volume, ino):
    """The lock of libstubcore/lock.c that whoever changes an object takes."""
    with open(volume / ".postcopy" / "lock", "r+b") as f:
        fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqiI", fcntl.F_WRLCK, os.SEEK_SET, ino, 1,
                                                0, 0))
        yield


def somebody_waits(volume, ino):
    st = os.stat(volume / ".postcopy" / "lock")
    place = ["%02x:%02x:%d" % (os.major(st.st_dev), os.minor(st.st_dev), st.st_ino), str(ino)]
    with open("/proc/locks") as f:
        return any(fields[1] == "->" and fields[-3:-1] == place for fields in map(str.split, f))


@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_truncating_create(case, client3, world, how):
    case.file("f")
    case.enter("partial", "f")
    local = world.volume / case.path("f")
    ino = os.lstat(local).st_ino
    made = []
    with locked(world.volume, ino):
        creating = threading.Thread(target=lambda: made.append(
            client3.create(case.path("f"), mode=0o600, size=0)), daemon=True)
        creating.start()
        wait_until(lambda: somebody_waits(world.volume, ino), 60, "CREATE waits for the lock")
        if how == "removed":
            os.unlink(local)
        else:
            os.rename(local, local.with_name("g"))
    creating.join(60)
    fh, attrs = made[0]
    assert attrs.size == 0 and attrs.nlink == 1
    st = os.lstat(local)
    assert st.st_ino == attrs.fileid     # the number of what was removed may be used again
    assert how == "removed" or st.st_ino != ino
    with world.client("v3") as other:
        assert other.lookup(case.path("f"))[1].fileid == st.st_ino
    case.free = True                     # what went behind the server's back went there only


def shard(ino):
    """Threads of one process first take one of these locks (libstubcore/lock.c)."""
    return (ino * 0x9e3779b97f4a7c15 >> 56) % 256


def test_rename_over_a_new_link(case, client, world):
    names = ["f", "g0", "g1", "g2"]
    for name in names:
        case.file(name)
    case.enter("partial", *names)
    case.finished("")                    # no lock is taken for it
    client.listdir(case.path())
    inos = {name: os.lstat(world.volume / case.path(name)).st_ino for name in names}
    name = next(n for n in names[1:] if shard(inos[n]) != shard(inos["f"]))
    other = world.client("v3")
    link = other.fh(case.path("f")), (other.fh(case.path()), "new")
    rename = (client.fh(case.path()), name), (client.fh(case.path()), "new")
    with locked(world.volume, inos[name]):
        with locked(world.volume, inos["f"]):
            linking = threading.Thread(target=other.link, args=link, daemon=True)
            linking.start()
            wait_until(lambda: somebody_waits(world.volume, inos["f"]), 60, "LINK waits")
            renaming = threading.Thread(target=client.rename, args=rename, daemon=True)
            renaming.start()
            wait_until(lambda: somebody_waits(world.volume, inos[name]), 60, "RENAME waits")
        wait_until(lambda: os.path.lexists(world.volume / case.path("new")), 30, "LINK done")
    renaming.join(60), linking.join(60)
    other.close()
    case.moved(name, "new")
    assert client.names(case.path()) == sorted(n.encode() for n in {*names, "new"} - {name})
    assert client.getattr(case.path("new")).fileid == inos[name]
    for name in ("f", "new"):
        assert client.getattr(case.path(name)).nlink == 1
