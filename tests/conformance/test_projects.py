# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that hand a project id on (chattr +P -p N): what comes over belongs to the
project it would belong to if it had been made there, and listing goes on."""
import fcntl
import os
import struct

import pytest

from lib.volume import VolumeError
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import FIFO, Pattern, Tree
from nfsclient.nfstypes import UNSTABLE

GET, SET, INHERIT = 0x801C581F, 0x401C5820, 0x200       # linux/fs.h: struct fsxattr


def project(path):
    """(id, handed on) of a file or directory."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        flags, _, _, number = struct.unpack("IIII12x", fcntl.ioctl(fd, GET, bytes(28)))
    finally:
        os.close(fd)
    return number, bool(flags & INHERIT)


def hand_on(path, number, inherit=True):
    fd = os.open(path, os.O_RDONLY)
    try:
        flags, *rest = struct.unpack("IIII12x", fcntl.ioctl(fd, GET, bytes(28)))
        flags = flags | INHERIT if inherit else flags & ~INHERIT
        fcntl.ioctl(fd, SET, struct.pack("IIII12x", flags, rest[0], rest[1], number))
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    for name in (b"five", b"six", b"none"):
        d = tree.mkdir(tree.root, name, mode=0o777)
        tree.file(d, b"f", Pattern(5000, seed=3), mode=0o666)
        tree.file(d, b"empty", b"", mode=0o666)
        tree.mkdir(d, b"sub", mode=0o777)
        tree.file(tree.find(name + b"/sub"), b"deep", Pattern(100), mode=0o666)
        tree.symlink(d, b"link", b"f")
        tree.special(d, b"fifo", FIFO)
        twice = tree.file(d, b"twice", Pattern(3000, seed=4), mode=0o666)
        tree.hardlink(d, b"again", twice)
    tree.file(tree.root, b"top", Pattern(10), mode=0o666)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture(params=["xfs", "ext4"])
def disk(request, new_volume):
    mkfs = ("-O", "project,quota", "-I", "256") if request.param == "ext4" else ()
    try:
        disk = new_volume(request.param, "320M", mkfs=mkfs)
    except VolumeError as err:
        if request.param == "xfs":
            raise
        pytest.skip("this kernel has no quotas, without which ext4 has no projects: %s" % err)
    with disk:
        (disk.path / "volume").mkdir()
        yield disk


def test_what_comes_is_of_its_project(source, disk, new_migration):
    m = new_migration(source.url(), disk.path / "volume")
    hand_on(m.volume, 4)
    m.init().start()
    with m.client() as c:
        assert len(c.names()) == 4
        for name, number in (("five", 5), ("six", 6)):
            assert project(m.volume / name) == (4, True)    # as mkdir in the root would give
            hand_on(m.volume / name, number)
        hand_on(m.volume / "none", 0, inherit=False)
        hand_on(m.volume / ".postcopy/staging", 4)          # chattr -R of an administrator
        hand_on(m.volume / ".postcopy/provisional", 4)
        assert c.read_file("five/f") == Pattern(5000, seed=3).read(0, 5000)     # looked up
        m.crawl()
        m.audit(complete=True)
        for name, number in (("five", 5), ("six", 6), ("none", 0)):
            there = m.volume / name
            for file in ("f", "empty", "twice", "again", "sub/deep"):
                assert project(there / file) == (number, False), (name, file)
            assert project(there / "sub") == (number, number != 0)
            assert os.readlink(there / "link") == "f"
            assert os.stat(there / "twice").st_nlink == 2
        assert project(m.volume / "top") == (4, False)
        # clients hear what the stock server says
        with pytest.raises(NfsError) as caught:
            c.rename("five/f", "six/moved")
        assert caught.value.status == errors.XDEV
        c.rename("five/f", "five/moved")
    m.postcopy("finish", m.volume)


def test_what_is_not_durable_is_noted_in_a_project(source, disk, new_migration):
    """Somebody has set one for the whole volume, and so for our directories; only staging/ gets rid of it."""
    m = new_migration(source.url(), disk.path / "volume").init()
    notes, staging = m.volume / ".postcopy/lagging", m.volume / ".postcopy/staging"
    for path in m.volume, m.volume / ".postcopy", notes, staging:
        hand_on(path, 4)
    m.start()
    with m.client() as c:
        c.patient(60).read_file("five/f")       # something was staged
        assert project(staging) == (0, False) and project(notes) == (4, True)
        c.patient(60).write("five/f", 0, b"new", UNSTABLE)
        wait_until(lambda: os.listdir(notes), 60, "it is noted that the write is not durable")
    m.crawl()
    m.audit(complete=True)


def test_a_link_between_projects_is_refused(disk, new_migration):
    """The file system takes the name in one of them only: said, and the rest comes."""
    tree = Tree()
    tree.root.mode = 0o777
    for name in (b"five", b"six"):
        tree.file(tree.mkdir(tree.root, name, mode=0o777), b"f", Pattern(5000, seed=3))
    tree.hardlink(tree.find(b"six"), b"linked", tree.find(b"five/f"))
    with FakeServer(tree) as server:
        m = new_migration(server.url(), disk.path / "volume")
        m.init().start()
        with m.client() as c:
            c.names()
            hand_on(m.volume / "five", 5)
            hand_on(m.volume / "six", 6)
            assert c.names("five") == [b"f"]
            m.start_crawler()
            wait_until(lambda: m.status()["parked"] == 1, 60, "the parked directory")
            parked = m.tool("parked", m.volume)["parked"]
            assert parked[0]["path"] == "six" and '"linked"' in parked[0]["reason"], parked
            assert c.read_file("six/f") == Pattern(5000, seed=3).read(0, 5000)
            # without the project it can be made
            hand_on(m.volume / "six", 6, inherit=False)
            m.postcopy("retry", m.volume)
            wait_until(lambda: m.status()["state"] == "complete", 60, "the end")
            assert os.stat(m.volume / "six/linked").st_nlink == 2
        m.kill_crawler()
        m.stop()
