# SPDX-License-Identifier: GPL-3.0-or-later
""".postcopy is not there for any SMB client, however it is spelled."""
import os

import pytest

from lib.expect import smb_status
from lib.world import SmbWorld
from smb2client import SmbError, wire

WORLD = SmbWorld
HIDDEN = (".postcopy", ".POSTCOPY", ".Postcopy")


@pytest.fixture(scope="module")
def d(world):
    """The only directory: tests list the root, and what comes later is not seen."""
    return world.dir()


@pytest.fixture(params=["root", "alice"])
def user(world, d, request):
    with world.m.client(request.param) as c:
        yield c


@pytest.mark.parametrize("name", HIDDEN)
def test_our_directory_is_not_there(world, d, user, name):
    for path in (name, name + "/journal", name + "/x/y"):
        assert smb_status(user.open, path) in ("OBJECT_NAME_NOT_FOUND", "OBJECT_PATH_NOT_FOUND")
        assert smb_status(user.open, path, wire.DELETE) in (
            "OBJECT_NAME_NOT_FOUND", "OBJECT_PATH_NOT_FOUND")
    assert name not in user.names()
    assert user.names("", ".post*") == []
    assert user.names("", name) == []


def changes(user, mine, name):
    """All that could make, move or remove something of that name."""
    return (lambda: user.mkdir(name), lambda: user.write_file(name, b""),
            lambda: user.write_file(name + "/f", b""),
            lambda: user.write_file(name + ":stream", b""),
            lambda: user.rename(mine, name), lambda: user.rename(mine, name + "/f"),
            lambda: user.rename(name, mine + "-moved"), lambda: user.remove(name))


def ours(world):
    return {n: os.lstat(world.volume / ".postcopy" / n).st_ino
            for n in os.listdir(world.volume / ".postcopy")}


def test_our_directory_is_not_made_or_moved(world, d, user, request):
    mine = "%s/%s" % (d, abs(hash(request.node.name)))
    user.write_file(mine, b"mine")
    before = ours(world)
    for change in changes(user, mine, ".postcopy"):
        with pytest.raises(SmbError):
            change()
    assert ours(world) == before
    assert user.read_file(mine) == b"mine"
    user.remove(mine)


@pytest.mark.parametrize("name", HIDDEN[1:])
def test_another_spelling_is_another_name(world, d, user, request, name):
    """smbd looks for names without regard to case: ours is not what it finds."""
    mine = "%s/%s" % (d, abs(hash(request.node.name)))
    user.write_file(mine, b"mine")
    before = ours(world)
    for change in changes(user, mine, name):
        try:
            change()
        except SmbError:
            pass
        assert ours(world) == before
    for path in (name + "/f", name, mine, mine + "-moved/f", mine + "-moved"):
        try:
            user.remove(path)
        except SmbError:
            pass
    assert ours(world) == before
