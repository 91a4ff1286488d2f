# SPDX-License-Identifier: GPL-3.0-or-later
"""A share that lies above a volume, and stubs whose volume is not there: refused, never
zeros, never an empty directory.  What is beside them is served as ever."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from lib.case import SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.smbd import STACK, Share
from lib.wait import wait_until
from lib.world import BothWorld
from smb2client import SmbError, wire

WORLD = BothWorld
REFUSED = ("ACCESS_DENIED",)
LIST = wire.READ_DATA | wire.READ_ATTRIBUTES | wire.SYNCHRONIZE


@pytest.fixture(scope="module")
def above(world, loop_xfs):
    """The directory that the volume is in, as a share with our module."""
    beside = loop_xfs.path / "beside"
    beside.mkdir()
    (beside / "f").write_bytes(b"beside")
    beside.chmod(0o777)
    loop_xfs.path.chmod(0o777)
    os.symlink("volume", loop_xfs.path / "link")
    world.smbd.shares.append(Share(str(loop_xfs.path), name="above", vfs=STACK))
    world.smbd.write_config()
    return loop_xfs.path


@pytest.fixture
def upper(world, above):
    with world.smbd.client(share="above") as c:
        yield c


def told(world, path):
    return [line for line in world.smbd.log_text().splitlines()
            if "%s is a volume of postcopy" % path in line]


def refuse(upper, case, root):
    """All that a client may try."""
    there = root + "/" + case.path()
    for call in (lambda: upper.read_file(there + "/f"), lambda: upper.stat(there + "/f"),
                 lambda: upper.stat(there), lambda: upper.names(there),
                 lambda: upper.names(root), lambda: upper.write_file(there + "/new", b"x"),
                 lambda: upper.write_file(root + "/new", b"x"),
                 lambda: upper.mkdir(there + "/newdir"), lambda: upper.mkdir(root + "/newdir"),
                 lambda: upper.remove(there + "/f"),
                 lambda: upper.rename(there + "/f", there + "/g"),
                 lambda: upper.rename(there + "/f", "stolen"),
                 lambda: upper.rename("beside/f", there + "/g"),
                 lambda: upper.names(root + "/.postcopy"),
                 lambda: upper.stat(root + "/.postcopy/volume.conf")):
        assert smb_status(call) in REFUSED


@pytest.mark.parametrize("state", ["partial", "dummy", "cold", "normal"])
def test_a_volume_below_the_share(case, smb, upper, world, above, state):
    case.file()
    case.enter(state, "f")
    refuse(upper, case, "volume")
    refuse(upper, case, "link")
    assert told(world, above / "volume")
    assert {"beside", "volume"} <= set(upper.names())
    assert upper.read_file("beside/f") == b"beside"
    upper.write_file("beside/" + case.name, b"mine")
    assert upper.read_file("beside/" + case.name) == b"mine"
    same(smb.read_file(case.path("f")), case.data("f"))


def test_a_volume_made_under_an_open_session(case, upper, world, above):
    """The directory was looked at before."""
    home = above / ("late-" + case.name)
    (home / "sub").mkdir(parents=True)
    assert upper.names(home.name) == ["sub"] and upper.names(home.name + "/sub") == []
    shutil.copytree(world.volume / ".postcopy", home / ".postcopy")
    wait_until(lambda: told(world, home) or not _names(upper, home.name + "/sub"), 10, "refusal")
    assert smb_status(upper.names, home.name) in REFUSED
    assert told(world, home)


def _names(client, path):
    try:
        client.names(path)
    except SmbError:
        return False
    return True


def test_a_directory_of_a_user_is_no_volume(upper, above):
    """Whatever is written in it: only root makes volumes."""
    home = above / "users"
    (home / ".postcopy").mkdir(parents=True)
    (home / ".postcopy" / "volume.conf").write_text("format=1\n")
    (home / "f").write_bytes(b"mine")
    os.chown(home / ".postcopy", 70001, 70001)
    assert upper.read_file("users/f") == b"mine"
    assert sorted(upper.names("users")) == [".postcopy", "f"]


# -- stubs without their volume --------------------------------------------------------------

def lose(case, above):
    """A case's directory beside the volume, with the records."""
    home = above / "beside" / ("lost-" + case.name)
    subprocess.run(["cp", "-a", str(case.world.volume / case.path()), str(home)], check=True)
    return "beside/" + home.name


def test_stubs_whose_volume_is_gone(case, smb, upper, above):
    for name in ("stub", "some", "normal"):
        case.file(name)
    case.dir("d")
    case.file("d/x")
    case.enter("partial", "stub")
    case.enter("some", "some")
    case.enter("normal", "normal")
    lost = lose(case, above)
    same(upper.read_file(lost + "/normal"), case.data("normal"))
    assert set(upper.names(lost)) == {"stub", "some", "normal", "d"}
    for name in ("/stub", "/some"):
        with upper.open(lost + name) as f, \
                upper.open(lost + name + ".copy", ALL, wire.CREATE_NEW) as to:
            assert f.size == SIZE
            for at in (0, 65536, SIZE - 10):
                assert smb_status(f.read, at, 10) == "IO_DEVICE_ERROR", name
            assert smb_status(to.copy_chunks, f, [(0, 0, 10)]) == "IO_DEVICE_ERROR"
        for access in (ALL, wire.WRITE_DATA, 4):     # 4: append
            assert smb_status(upper.open, lost + name, access) == "IO_DEVICE_ERROR"
        assert smb_status(upper.open, lost + name, ALL, wire.OVERWRITE) == "IO_DEVICE_ERROR"
    for call in (lambda: upper.names(lost + "/d"), lambda: upper.stat(lost + "/d/x"),
                 lambda: upper.write_file(lost + "/d/new", b""),
                 lambda: upper.mkdir(lost + "/d/new")):
        assert smb_status(call) in REFUSED
    assert not os.listdir(above / lost / "d")


def test_another_volume_inside_of_ours(case, smb, world, new_volume):
    """On a file system of its own, mounted there: refused; a snapshot of ours is not."""
    case.file()
    case.enter("partial", "f")
    other, here = new_volume("xfs", "512M").path, world.volume / ("other-" + case.name)
    shutil.copytree(world.volume / ".postcopy", other / ".postcopy",
                    ignore=shutil.ignore_patterns("journal"))
    subprocess.run(["cp", "-a", str(world.volume / case.path()), str(other)], check=True)
    world.also.add(here.name.encode())
    here.mkdir()
    subprocess.run(["mount", "--bind", str(other), str(here)], check=True)
    try:
        there = here.name + "/" + case.path()
        with smb.open(there + "/f") as f:
            assert f.size == SIZE and smb_status(f.read, 0, 10) == "IO_DEVICE_ERROR"
        conf = other / ".postcopy" / "volume.conf"
        conf.write_text(re.sub(r"uuid=.", "uuid=x", conf.read_text()))
        with world.smbd.client() as c:
            for call in (lambda: c.stat(there + "/f"), lambda: c.names(here.name),
                         lambda: c.write_file(here.name + "/new", b"")):
                assert smb_status(call) in REFUSED
            same(c.read_file(case.path("f")), case.data("f"))
        assert told(world, here)
    finally:
        subprocess.run(["umount", "-l", str(here)], check=True)
        here.rmdir()


# -- what it costs ---------------------------------------------------------------------------

def traced(world, client, work):
    """The lines of strace about our attribute, and about ways up, while work() runs."""
    pid, out = world.smbd.pid_of(client), world.smbd.workdir / "above.strace"
    tracer = subprocess.Popen(["strace", "-f", "-o", str(out), "-p", str(pid)],
                              stderr=subprocess.PIPE, text=True)
    try:
        assert "attached" in tracer.stderr.readline()
        work()
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=30)
    lines = out.read_text().splitlines()
    assert any("openat" in line for line in lines)
    return [line for line in lines if "trusted.postcopy" in line or '"..",' in line or
            '".postcopy"' in line]


def test_a_share_that_is_all_right_pays_nothing(case, world, smb):
    case.dir("d")
    names = ["d/f%d" % i for i in range(10)]
    for name in names:
        case.file(name, size=1000)
    case.enter("normal", *names)

    def work():
        for name in names:
            same(smb.read_file(case.path(name)), case.data(name))
    work()
    assert not [line for line in traced(world, smb, work) if '"..",' in line or
                '".postcopy"' in line]


def test_a_share_without_a_volume_pays_little(case, upper, world, above):
    """A look at the way up now and then, and one at each file that is read."""
    home = above / "beside" / case.name
    home.mkdir()
    for i in range(50):
        (home / str(i)).write_bytes(b"x")

    def work():
        for i in range(50):
            assert upper.stat("beside/%s/%d" % (case.name, i)).size == 1
        for i in range(10):
            assert upper.read_file("beside/%s/%d" % (case.name, i)) == b"x"
    work()
    seen = traced(world, upper, work)
    records = [line for line in seen if "trusted.postcopy" in line]
    assert 10 <= len(records) < 40, seen
