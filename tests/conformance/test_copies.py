# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of stubs, and of whole volumes: what root's cp, a backup or dd leave.

A copied stub has a hole in place of its content, and nobody fills it: an I/O error, never
zeros, and the migration is not complete before it is gone.  A volume whose files were
copied elsewhere refuses to open; one that was copied block by block is the same volume.
"""
import os
import pathlib
import subprocess

import pytest

from lib.migration import SmbMigration
from lib.programs import CRAWLER, MODULES, RETRIEVER
from lib.refusal import export_refused, share_refused
from lib.smbd import Samba
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from smb2client import SmbError

SIZE = 70000
RECORD = "trusted.postcopy"
IO = [r"converted to NFS3ERR_IO", r"Input/output error", r"but was set non-retryable"]
COPY = r"is a copy of a volume|copy of its files|cannot open the volume"


def data(name):
    return Pattern(SIZE, seed=ord(name[-1])).read(0, SIZE)


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    for name in ("f0", "f1", "f2", "f3"):
        tree.file(tree.root, name.encode(), Pattern(SIZE, seed=ord(name[-1])), mode=0o666)
    for name in (b"cold", b"warm"):
        tree.file(tree.mkdir(tree.root, name, mode=0o777), b"in", Pattern(100, seed=7), mode=0o666)
    with FakeServer(tree) as server:
        yield server


def copy(source, target):
    """As an administrator copies; what is missing stays behind."""
    subprocess.run(["cp", "-a", "--sparse=auto", str(source), str(target)], check=True)


def copy_volume(m, volume, target):
    """All files of a volume, with all that they have; everybody is stopped."""
    m.server.stop()
    m.kill_retriever()
    copy(m.volume, target)
    assert any(RECORD in os.listxattr(p) for p in pathlib.Path(target).iterdir() if p.is_file())


def fails(call, *args, **options):
    with pytest.raises((NfsError, SmbError)) as caught:
        call(*args, **options)
    return caught.value.status


@pytest.mark.allow_log(*IO)
@pytest.mark.parametrize("proto", ["v3", "v4.1"])
def test_a_copied_stub_is_an_error(source, fresh_dir, new_migration, proto):
    m = new_migration(source.url(), fresh_dir)
    m.server.allow = IO
    m.init().start()
    with m.client(proto) as c:
        assert b"f1" in c.names()
        for target in ("copy", "other"):
            copy(m.volume / "f1", m.volume / target)
        copy(m.volume / "cold", m.volume / "dir")
        c.write_file("mine", b"mine")
        assert {b"copy", b"other", b"dir"} <= set(c.names())
        assert c.getattr("copy").size == SIZE
        for call in ((c.read_file, "copy"), (c.write, "copy", 0, b"x"), (c.names, "dir"),
                     (c.lookup, "dir/in"), (c.write_file, "dir/new", b"x"),
                     (c.rename, "copy", "moved"), (c.link, "copy", "linked"),
                     (lambda: c.setattr("copy", size=10),)):
            assert fails(*call) == errors.IO, call
        m.crawl()
        for name in ("f0", "f1", "f2", "f3"):
            assert c.read_file(name) == data(name)
        assert c.read_file("cold/in") == Pattern(100, seed=7).read(0, 100)
        s = m.status()
        assert (s["state"], s["counter"], s["copies"]) == ("blocked", 0, 3), s
        assert sorted(s["found"]) == ["copy", "dir", "other"]
        assert fails(c.read_file, "copy") == errors.IO
        shown = m.postcopy("status", m.volume).stdout
        assert "3 copies of stubs" in shown and "other" in shown
        scan = m.tool("scan", m.volume, check=False)
        assert (scan["exit"], scan["foreign"], scan["finished"]) == (3, 3, False)
        assert {f["path"] for f in scan["found"]} == {"copy", "dir", "other"}
        done = m.postcopy("finish", m.volume, check=False)
        assert done.returncode == 53 and "3 copies of stubs" in done.stderr, done
        # a client can get rid of them
        c.remove("copy")
        c.rename("mine", "other")
        c.rmdir("dir")
        assert c.read_file("other") == b"mine"
        wait_until(lambda: m.status()["state"] == "complete", 60, "the end")
        m.audit(complete=True)


@pytest.mark.allow_log(*IO)
def test_a_copied_stub_over_smb(source, fresh_dir, workdir):
    m = SmbMigration(workdir / "copies-smb", source.url(), fresh_dir)
    m.init().start()
    try:
        with m.client() as c:
            assert "f1" in c.names()
            for target in ("copy", "other"):
                copy(m.volume / "f1", m.volume / target)
            copy(m.volume / "cold", m.volume / "dir")
            c.write_file("mine", b"mine")
            assert {"copy", "other", "dir"} <= set(c.names())
            assert c.stat("copy").size == SIZE
            for call in ((c.read_file, "copy"), (c.write_file, "copy", b"x"), (c.names, "dir"),
                         (c.stat, "dir/in"), (c.write_file, "dir/new", b"x"),
                         (c.rename, "copy", "moved")):
                status = fails(*call)
                assert "NOT_FOUND" not in status, (call, status)
            m.crawl()
            assert c.read_file("f1") == data("f1")
            assert m.status()["state"] == "blocked"
            assert "NOT_FOUND" not in fails(c.read_file, "copy")
            c.remove("copy")
            c.rename("mine", "other", replace=True)
            assert c.read_file("other") == b"mine"
            (m.volume / "dir").rmdir()         # the administrator's: SMB lists before it removes
            wait_until(lambda: m.status()["state"] == "complete", 60, "the end")
            m.audit(complete=True)
    finally:
        m.stop(scan=False)


@pytest.mark.allow_log(".*")
@pytest.mark.parametrize("known", [True, False])
def test_a_copied_volume_is_refused(source, fresh_dir, new_volume, new_migration, known):
    """Also one of an early release, that does not know where it was made."""
    m = new_migration(source.url(), fresh_dir)
    m.init().start()
    with m.client() as c:
        c.names(), c.names("warm")
    if not known:
        forget_home(m)
    disk = new_volume("ext4", "256M")
    copy_volume(m, fresh_dir, disk.path / "new")
    there = disk.path / "new"
    done = subprocess.run([str(RETRIEVER), str(there)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 4 and "copy" in done.stderr, done
    if known:
        done = subprocess.run([str(CRAWLER), str(there)], capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 4 and "copy" in done.stderr, done
        for command in ("status", "finish", "moved"):
            done = m.postcopy(command, there, check=False)
            assert done.returncode == 56 and "copy" in done.stderr, done
        m2 = new_migration(source.url(), there, allow=[COPY])
        m2.server.allow = [".*"]
        with export_refused(m2.server, "it is a copy of a volume"):
            pass
        with share_refused(Samba(m2.workdir / "smbd", str(there), vfs=("stub",),
                                 module_dir=MODULES, allow=[".*"]), "it is a copy of a volume"):
            pass
    # and the original goes on
    m.start()
    m.crawl()
    m.audit(complete=True)
    disk.destroy()


def forget_home(m):
    conf = m.volume / ".postcopy" / "volume.conf"
    lines = conf.read_text().splitlines()
    assert sum(line.startswith("home=") for line in lines) == 1
    conf.write_text("".join(line + "\n" for line in lines if not line.startswith("home="))
                    .replace("format=2", "format=1"))


def test_a_volume_of_an_early_release(source, fresh_dir, new_migration):
    m = new_migration(source.url(), fresh_dir)
    m.init()
    home = (m.volume / ".postcopy" / "volume.conf").read_text()
    forget_home(m)
    m.start()
    assert (m.volume / ".postcopy" / "volume.conf").read_text() == home
    m.crawl()
    m.audit(complete=True)


def test_a_copied_disk_with_another_uuid(source, new_volume, new_migration):
    """xfs_admin -U, xfs_copy: the inodes are the same.  'postcopy moved' says so."""
    disk = new_volume("xfs", "320M")
    m = new_migration(source.url(), disk.path / "v")
    m.volume.mkdir()
    m.init().start()
    with m.client() as c:
        c.names(), c.read_file("f0")
    m.server.stop()
    m.stop(scan=False)
    disk.umount()
    twin = disk.twin("xfs_admin", "-U", "generate")
    m2 = new_migration(source.url(), twin.path / "v")
    m2.workdir = m.workdir          # its sockets
    done = m2.postcopy("status", m2.volume, check=False)
    assert done.returncode == 56 and "UUID" in done.stderr, done
    m2.postcopy("moved", m2.volume)
    m2.start()
    m2.crawl()
    m2.audit(complete=True)
    with m2.client() as c:
        assert c.read_file("f2") == data("f2")
    m2.server.stop()
    m2.stop()
    twin.destroy()


@pytest.mark.allow_log(r"does not serve this volume")
def test_two_copies_of_a_disk_at_once(source, new_volume, new_migration):
    """With one UUID they are one volume, with one socket: the retriever of the one never
    answers for the other."""
    disk = new_volume("ext4", "128M")
    m = new_migration(source.url(), disk.path / "v")
    m.volume.mkdir()
    m.init().start()
    with m.client() as c:
        c.names()
    m.server.stop()
    m.kill_retriever()
    disk.umount()
    twin = disk.twin()
    disk.mount()
    m.start()
    m2 = new_migration(source.url(), twin.path / "v", fsal_more="Delay_V3 = 100;")
    m2.server.allow = [r"does not serve this volume"]
    done = subprocess.run([str(RETRIEVER), str(m2.volume)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 1 and "in use" in done.stderr, done
    assert m2.postcopy("moved", m2.volume, check=False).returncode == 54
    m2.server.start()
    with m2.client() as c:
        assert fails(c.patient(3).read_file, "f1") == errors.JUKEBOX
    wait_until(lambda: "does not serve this volume" in m2.server.log_text(), 60, "the line")
    m2.server.stop()
    m.crawl()
    m.audit(complete=True)
    m.stop()
    twin.destroy()
    disk.destroy()
