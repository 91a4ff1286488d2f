# SPDX-License-Identifier: GPL-3.0-or-later
"""A name goes while a CREATE of it is being answered.

The CREATE has opened the file that was there and waits for the file's lock, to truncate
it.  What it says in the end must not be about a file that nobody has a name of: Ganesha
would put the name into its list again and show a file that is not there.  NFSv3 only: an
OPEN of NFSv4 opens by handle what it has found, and no list changes.
"""
import contextlib
import fcntl
import os
import struct
import threading

import pytest

from ops import *  # noqa: F401,F403
from util import wait_until

ATTR_CACHE = 0
F_OFD_SETLK = 37


@contextlib.contextmanager
def locked(volume, ino):
    """The lock of libstubcore/lock.c that whoever changes an object takes."""
    with open(volume / ".postcopy" / "lock", "r+b") as f:
        fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqiI", fcntl.F_WRLCK, os.SEEK_SET, ino, 1,
                                                0, 0))
        yield


def somebody_waits(ino):
    with open("/proc/locks") as f:
        return any(fields[1] == "->" and int(fields[-2]) == ino for fields in map(str.split, f))


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
        wait_until(lambda: somebody_waits(ino), 30, "CREATE waits for the lock")
        if how == "removed":
            os.unlink(local)
        else:
            os.rename(local, local.with_name("g"))
    creating.join(60)
    fh, attrs = made[0]
    assert attrs.size == 0 and attrs.nlink == 1
    st = os.lstat(local)
    assert st.st_ino == attrs.fileid != ino
    with world.client("v3") as other:
        assert other.lookup(case.path("f"))[1].fileid == st.st_ino
    case.free = True                     # what went behind the server's back went there only
