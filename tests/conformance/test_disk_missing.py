# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is not mounted, and a server that was told which volume it shows: refused,
before the migration, in the middle of it and after its end.  A finished migration itself
takes no server down."""
import json
import os
import pathlib

import pytest

from lib.migration import SmbMigration
from nfsclient import NfsError
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.rpc import RpcBroken
from smb2client import SmbError

DATA = b"of the old server" * 100
OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    tree.file(tree.mkdir(tree.root, b"d", mode=0o777), b"f", DATA, mode=0o666)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def disk(new_volume):
    with new_volume("xfs", "320M") as disk:
        yield disk


def uuid_of(volume):
    conf = (pathlib.Path(volume) / ".postcopy" / "volume.conf").read_text()
    return dict(line.split("=", 1) for line in conf.splitlines())["uuid"]


def refused(m, monkeypatch, why):
    """The server starts without the export."""
    seen = len(m.server.log_text())
    with monkeypatch.context() as patch:
        patch.setattr(m.server, "_ready", lambda: why in m.server.log_text()[seen:])
        m.server.start()
    try:
        with pytest.raises((NfsError, OSError, RpcBroken)):
            m.client().close()
    finally:
        m.server.stop(scan=False)


@pytest.mark.allow_log(".*")
def test_nfs(source, disk, new_migration, monkeypatch):
    m = new_migration(source.url(), disk.path)
    m.server.allow = [".*"]
    m.init().start_retriever()
    export = m.server.exports[0]
    export.fsal_more = 'Volume = "%s";' % uuid_of(disk.path).upper()
    m.server.start()
    with m.client() as c:
        assert c.read_file("d/f") == DATA
    m.server.stop()
    export.fsal_more = 'Volume = "%s";' % OTHER
    refused(m, monkeypatch, "but here is the volume")
    export.fsal_more = 'Volume = "postcopy";'
    refused(m, monkeypatch, "that is no UUID")
    export.fsal_more = 'Volume = "%s";' % uuid_of(disk.path)
    m.kill_retriever()
    disk.umount()
    refused(m, monkeypatch, "is its file system mounted?")
    assert os.listdir(disk.path) == []
    disk.mount()
    m.start()
    m.crawl()
    m.postcopy("finish", m.volume)
    with m.client() as c:           # nobody is thrown out
        c.write_file("d/new", b"new")
        m.server.restart()
    with m.client() as c:
        assert (c.read_file("d/f"), c.read_file("d/new")) == (DATA, b"new")
    m.server.stop()
    disk.umount()
    refused(m, monkeypatch, "is its file system mounted?")
    disk.mount()
    export.tree = str(disk.path / "d")      # a directory of what was the volume
    m.server.start()
    with m.client() as c:
        assert c.read_file("f") == DATA
    m.server.stop()


def refused_smb(m, monkeypatch):
    """The server starts, and nobody can connect to the share."""
    def ready():
        done = m.server.smbclient("exit", share="share")
        return "tree connect failed" in done.stdout + done.stderr

    with monkeypatch.context() as patch:
        patch.setattr(m.server, "_ready", ready)
        m.server.start()
    with pytest.raises(SmbError):
        m.client().close()
    m.server.stop(scan=False)


@pytest.mark.allow_log(".*")
def test_smb(source, disk, workdir, monkeypatch):
    m = SmbMigration(workdir / "disk-smb", source.url(), disk.path)
    m.server.allow = [".*"]
    m.init().start_retriever()
    share = m.server.shares[0]
    share.more = "stub:volume = %s" % uuid_of(disk.path)
    m.server.start()
    try:
        with m.client() as c:
            assert c.read_file("d/f") == DATA
        m.server.stop()
        for wrong in (OTHER, "postcopy"):
            share.more = "stub:volume = %s" % wrong
            refused_smb(m, monkeypatch)
        share.more = "stub:volume = %s" % uuid_of(disk.path)
        m.kill_retriever()
        disk.umount()
        refused_smb(m, monkeypatch)
        assert "is its file system mounted?" in m.server.log_text()
        assert os.listdir(disk.path) == []
        disk.mount()
        m.start()
        m.crawl()
        m.postcopy("finish", m.volume)
        with m.client() as c:
            c.write_file("d/new", b"new")
        m.server.restart()
        with m.client() as c:
            assert (c.read_file("d/f"), c.read_file("d/new")) == (DATA, b"new")
        m.server.stop()
        disk.umount()
        refused_smb(m, monkeypatch)
        disk.mount()
    finally:
        m.stop(scan=False)


def test_init_prints_it(source, disk, new_migration):
    m = new_migration(source.url(), disk.path)
    answer = json.loads(m.postcopy("init", "--json", "--source", source.url(), "--socket",
                                   m.socket, "--control", m.control, m.volume).stdout)
    assert 'Volume = "%s";' % answer["uuid"] in answer["export_block"]
    assert "stub:volume = %s\n" % answer["uuid"] in answer["share_block"]
