# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares that begin below a volume's root, as administrators like them."""
import pytest

from lib.programs import MODULES
from lib.smbd import STACK, Samba, Share
from lib.world import SmbWorld

WORLD = SmbWorld


@pytest.fixture
def shared(world, moddir):
    """A factory of clients on a share of its own, at a directory of the volume."""
    made = []

    def make(path):
        server = Samba(moddir / ("share-" + path.replace("/", "-")), module_dir=MODULES, shares=[
            Share(str(world.volume / path), vfs=STACK)])
        made.append(server)
        return server.start().client()

    yield make
    for server in made:
        server.stop()


def tree(world):
    d = world.dir()
    world.tree.mkdir(world.node(d), b"sub", mode=0o777)
    return d, world.file(d + "/sub/f")


def test_a_directory_that_is_known(world, smb, shared):
    d, data = tree(world)
    smb.stat(d + "/sub")
    with shared(d + "/sub") as c:
        assert c.names() == ["f"]
        assert c.read_file("f") == data
        c.write_file("new", b"x")
    assert smb.names(d + "/sub") == ["f", "new"]


@pytest.mark.parametrize("levels", [1, 2])
def test_a_directory_that_nobody_has_looked_at(world, shared, levels):
    d, data = tree(world)
    with shared(d if levels == 1 else d + "/sub") as c:
        assert c.read_file("sub/f" if levels == 1 else "f") == data
