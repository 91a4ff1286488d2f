# SPDX-License-Identifier: GPL-3.0-or-later
"""A name that Ganesha still has in its cache is gone from the volume.

That is how it is after a REMOVE or RENAME that was done but answered with an error,
since the record of what it was done to could not be stored (tests/crash/kills.py,
"fail N ganesha.nfsd EIO"): the client's next try must come to an end.
"""
import os

from lib.expect import status_of
from nfsclient import errors


def vanish(case, client, name):
    """One of two names, seen by the server, then gone behind its back."""
    case.file("other")
    case.hardlink(name, "other")
    case.file("free")
    case.enter("partial", "free")
    case.finished("")
    client.listdir(case.path())
    os.unlink(case.world.volume / case.path(name))
    case.free = True                     # link count and times are not the model's now


def test_remove(case, client):
    vanish(case, client, "f")
    # stock FSAL_VFS says so once, which makes MDCACHE forget the directory, if it has not yet
    assert status_of(client.remove, case.path("f")) in (errors.STALE, errors.NOENT)
    assert status_of(client.remove, case.path("f")) == errors.NOENT
    assert client.read_file(case.path("other")) == case.data("other")


def test_rename(case, client):
    vanish(case, client, "f")
    assert status_of(client.rename, case.path("f"), case.path("g")) == errors.NOENT
    assert not client.exists(case.path("g"))


def test_rename_over_it(case, client):
    vanish(case, client, "f")
    client.rename(case.path("free"), case.path("f"))
    assert client.read_file(case.path("f")) == case.data("free")
    assert client.read_file(case.path("other")) == case.data("other")
