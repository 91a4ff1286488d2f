# SPDX-License-Identifier: GPL-3.0-or-later
"""Over SMB: symlinks of the old server, which smbd follows, to what is not here yet; none
leads into .postcopy.  And the end: the share goes on, in the same session, when the volume
is complete, and when .postcopy is gone."""
import os

import pytest

from lib.case import SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.world import BothWorld
from nfsclient.nfstypes import FIFO
from smb2client import wire

WORLD = BothWorld
NOT_FOUND = ("OBJECT_NAME_NOT_FOUND", "OBJECT_PATH_NOT_FOUND", "STOPPED_ON_SYMLINK",
             "ACCESS_DENIED")


@pytest.fixture(params=["cold", "looked", "partial"])
def tree(case, request):
    case.dir("d")
    case.dir("d/e")
    case.file("d/e/g")
    case.file("d/h")
    case.symlink("file", "d/e/g")
    case.symlink("dir", "d")
    case.symlink("d/up", "../d/e")
    case.symlink("twice", "dir/up/g")
    case.symlink("nowhere", "d/none")
    case.symlink("loop", "loop")
    case.symlink("out", "../../../../../../etc/passwd")
    case.symlink("in", "../.postcopy/journal")
    case.enter(request.param, "file", "dir")
    return case


@pytest.mark.parametrize("path, to", [("file", "d/e/g"), ("dir/h", "d/h"), ("dir/e/g", "d/e/g"),
                                      ("d/up/g", "d/e/g"), ("twice", "d/e/g"),
                                      ("dir/up/g", "d/e/g")])
def test_followed(tree, smb, path, to):
    with smb.open(tree.path(path)) as f:
        assert f.size == SIZE
        same(f.read(), tree.data(to))
    with smb.open(tree.path(path), ALL) as f:
        f.write(5, b"through the link")
        tree.write(to, 5, b"through the link")
    same(smb.read_file(tree.path(to)), tree.data(to))


def test_listed(tree, smb, world):
    """What leads to nothing, or out of the share, is not shown; nor does a stock Samba 4.22 show
    what leads through another link, but in the share's root."""
    assert smb.names(tree.path("dir")) == ["e", "h", "up"]
    names = smb.names(tree.path())
    shown = {"d", "dir", "file"} | ({"twice"} if world.smbd.version < (4, 22) else set())
    assert shown <= set(names)
    assert not {"out", "in"} & set(names)


@pytest.mark.parametrize("path", ["nowhere", "loop", "out", "in", "in/data.mdb", "nowhere/x"])
def test_not_followed(tree, smb, path):
    assert smb_status(smb.read_file, tree.path(path)) in NOT_FOUND
    assert smb_status(smb.names, tree.path(path)) in NOT_FOUND


def test_a_fifo_does_not_hang(case, smb):
    case.special("pipe", FIFO)
    case.file()
    assert "f" in smb.names(case.path())
    smb.echo()
    same(smb.read_file(case.path("f")), case.data("f"))


# -- the end ---------------------------------------------------------------------------

@pytest.fixture
def ending(moddir, loop_xfs, rpcshim, request):
    volume = loop_xfs.path / request.node.name
    volume.mkdir()
    w = BothWorld(moddir / "end", volume, rpcshim)
    with w:
        yield w
        w.finished = True       # by the test
        w.smbd.stop()


def test_the_end(ending):
    w, case = ending, ending.case("end")
    case.file()
    case.dir("d")
    case.file("d/g")
    with w.smbd.client() as c, c.open(case.path("f"), ALL) as f:
        same(f.read(0, 1000), case.data("f")[:1000])
        before = c.stat(case.path("f"))
        assert c.fs_attributes() & wire.FS_REMOTE_STORAGE
        assert before.attributes & wire.ATTR_OFFLINE
        w.m.crawl()
        w.m.audit(complete=True)
        with w.smbd.client() as other:       # smbd asks when a client connects
            assert not other.fs_attributes() & wire.FS_REMOTE_STORAGE
        same(f.read(), case.data("f"))
        f.write(0, b"after")
        case.write("f", 0, b"after")
        assert not c.stat(case.path("f")).attributes & wire.ATTR_OFFLINE
        assert ".postcopy" not in c.names()
        assert smb_status(c.names, ".postcopy") in NOT_FOUND
        assert smb_status(c.mkdir, ".postcopy") in ("ACCESS_DENIED", "OBJECT_NAME_COLLISION")
        w.m._end(w.m.retriever, 15)
        w.m.server.stop()
        w.m.postcopy("finish", w.volume)
        assert ".postcopy" not in os.listdir(w.volume)
        same(c.read_file(case.path("d/g")), case.data("d/g"))
        same(f.read(), case.data("f"))
        c.mkdir(".postcopy")                 # a name like any other now
        c.write_file(".postcopy/mine", b"mine")
        assert c.read_file(".postcopy/mine") == b"mine" and ".postcopy" in c.names()
    with w.smbd.client() as c:
        same(c.read_file(case.path("f")), case.data("f"))
        assert c.read_file(".postcopy/mine") == b"mine"
