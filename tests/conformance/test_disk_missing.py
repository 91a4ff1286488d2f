# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that is not mounted, and a server that was told which volume it shows: refused,
before the migration, in the middle of it and after its end.  A finished migration itself
takes no server down."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from lib.expect import same
from lib.migration import SmbMigration
from lib.refusal import export_refused, nobody_gets_in, share_refused
from lib.wait import wait_until
from nfsclient import PROTOCOLS
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from smb2client import SmbError

DATA = b"of the old server" * 100
NAMES = ("cold", "f", "late")
OTHER = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    d = tree.mkdir(tree.root, b"d", mode=0o777)
    for name in NAMES:
        tree.file(d, name.encode(), DATA, mode=0o666)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def disk(new_volume):
    with new_volume("xfs", "320M") as disk:
        yield disk


def uuid_of(volume):
    conf = (pathlib.Path(volume) / ".postcopy" / "volume.conf").read_text()
    return dict(line.split("=", 1) for line in conf.splitlines())["uuid"]


@pytest.fixture
def over_smb(source, disk, workdir):
    """A migration whose share names its volume; ends before the disk does."""
    m = SmbMigration(workdir / ("smb-" + disk.home.name), source.url(), disk.path)
    m.server.allow = [".*"]
    m.init()
    m.server.shares[0].more = "stub:volume = %s" % uuid_of(disk.path)
    yield m
    m.stop(scan=False)


def refused(m, why):
    with export_refused(m.server, why):
        pass


def unmounted_half_way_and_at_the_end(m, disk, refused):
    """refused(m, why): its server is started, says so, and lets nobody in."""
    m.kill_retriever()
    disk.umount()
    refused(m, "is its file system mounted?")
    assert os.listdir(disk.path) == []
    disk.mount()
    m.start()
    m.crawl()
    m.postcopy("finish", m.volume)
    with m.client() as c:           # a finished migration throws nobody out
        c.write_file("d/new", b"new")
    m.server.restart()
    with m.client() as c:
        assert (c.read_file("d/f"), c.read_file("d/new")) == (DATA, b"new")
    m.server.stop()
    disk.umount()
    refused(m, "is its file system mounted?")
    disk.mount()


@pytest.mark.allow_log(".*")
def test_nfs(source, disk, new_migration):
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
    refused(m, "but here is the volume")
    export.fsal_more = 'Volume = "postcopy";'
    refused(m, "that is no UUID")
    export.fsal_more = 'Volume = "%s";' % uuid_of(disk.path)
    unmounted_half_way_and_at_the_end(m, disk, refused)
    export.tree = str(disk.path / "d")      # a directory of what was the volume
    m.server.start()
    with m.client() as c:
        assert c.read_file("f") == DATA
    m.server.stop()


def refused_smb(m, *why):
    with share_refused(m.server, *why):
        pass


@pytest.mark.allow_log(".*")
def test_smb(disk, over_smb):
    m, share = over_smb.start(), over_smb.server.shares[0]
    with m.client() as c:
        assert c.read_file("d/f") == DATA
    m.server.stop()
    for wrong, why in ((OTHER, "is its file system mounted?"), ("postcopy", "no UUID")):
        share.more = "stub:volume = %s" % wrong
        refused_smb(m, why)
    share.more = "stub:volume = %s" % uuid_of(disk.path)
    unmounted_half_way_and_at_the_end(m, disk, refused_smb)


def test_init_prints_it(source, disk, new_migration):
    m = new_migration(source.url(), disk.path)
    answer = json.loads(m.postcopy("init", "--json", "--source", m.url, "--socket",
                                   m.socket, "--control", m.control, m.volume).stdout)
    assert 'Volume = "%s";' % answer["uuid"] in answer["export_block"]
    assert "stub:volume = %s\n" % answer["uuid"] in answer["share_block"]


# -- what lies there is not the volume, or no volume any more ------------------------------

@pytest.fixture(params=["nfs", "smb"])
def serving(request, source, disk, new_migration):
    """A migration half-way; refuses(why): its server is started, says so and lets nobody in."""
    if request.param == "smb":
        m = request.getfixturevalue("over_smb")
        m.refuses = lambda *why: share_refused(m.server, *why)
    else:
        m = new_migration(source.url(), disk.path)
        m.refuses = lambda *why: export_refused(m.server, *why)
        m.server.allow = [".*"]
        m.init()
        m.server.exports[0].fsal_more = 'Volume = "%s";' % uuid_of(disk.path)
    m.start()
    with m.client() as c:
        assert c.read_file("d/f") == DATA
    return m


def whole(m, *names):
    with m.client() as c:
        for name in names:
            assert c.read_file("d/" + name) == DATA


@pytest.mark.allow_log(".*")
@pytest.mark.parametrize("what, why", [
    ("lost", "is its file system mounted?"), ("empty", "is damaged"),
    ("no volume", "is its file system mounted?"), ("ended", "is its file system mounted?")])
def test_what_is_there_is_not_it(serving, disk, what, why):
    """volume.conf was removed, or emptied by a disk that was full; a directory that looks alike,
    from a backup perhaps; what another volume has left when it was finished."""
    m = serving
    m.server.stop(scan=False)
    m._end(m.retriever, signal.SIGTERM)
    conf = disk.path / ".postcopy" / "volume.conf"
    good = conf.read_bytes()
    if what == "empty":
        conf.write_bytes(b"")
    elif what == "lost":
        conf.unlink()
    else:
        disk.umount()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk.path)], check=True)
        (disk.path / "d").mkdir()
        (disk.path / "d" / "f").write_bytes(b"")
        if what == "ended":
            os.setxattr(disk.path, "trusted.postcopy.done", OTHER.encode())
    with m.refuses(why):
        pass
    if what in ("no volume", "ended"):
        assert os.listdir(disk.path) == ["d"] and os.listdir(disk.path / "d") == ["f"]
        subprocess.run(["umount", str(disk.path)], check=True)
        disk.mount()
    else:
        conf.write_bytes(good)
    m.start()
    whole(m, *NAMES)


@pytest.mark.allow_log(".*")
def test_mounted_later_nfs(source, disk, new_migration):
    """After the server's start: the export stays refused, until the server is told to look again.
    In between nothing is shown, and nobody writes below the mount point."""
    m = new_migration(source.url(), disk.path)
    m.server.allow = [".*"]
    m.init()
    m.server.exports[0].fsal_more = 'Volume = "%s";' % uuid_of(disk.path)
    disk.umount()
    with export_refused(m.server, "is its file system mounted?"):
        disk.mount()
        m.start_retriever()
        nobody_gets_in(m.server, m.server.pseudo)
        m.server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: gets_in(m), 60, "the export")
        with m.client() as c:
            assert c.patient(60).read_file("d/f") == DATA


def gets_in(m):
    m.client().close()
    return True


@pytest.mark.allow_log(".*")
def test_mounted_later_smb(disk, over_smb):
    """A share is looked at when somebody connects: then it is there."""
    m = over_smb
    disk.umount()
    with share_refused(m.server, "is its file system mounted?"):
        assert os.listdir(disk.path) == []
        disk.mount()
        m.start_retriever()
        with m.client() as c:
            assert c.read_file("d/f") == DATA


# -- it goes while it is served ------------------------------------------------------------------

@pytest.mark.allow_log(".*")
def test_detached_nfs(source, disk, new_migration):
    """umount -l: Ganesha has it open, and shows it as before; never what is below."""
    m = new_migration(source.url(), disk.path)
    m.server.allow = [".*"]
    m.init()
    m.server.exports[0].fsal_more = 'Volume = "%s";' % uuid_of(disk.path)
    m.start()
    clients = [m.client(proto).patient(60) for proto in PROTOCOLS]
    for c in clients:
        assert c.read_file("d/f") == DATA
    subprocess.run(["umount", "-l", str(disk.path)], check=True)
    for c in (*clients, *(m.client(proto).patient(60) for proto in PROTOCOLS)):
        assert c.read_file("d/f") == DATA and c.read_file("d/cold") == DATA
        assert c.names("d") >= [name.encode() for name in NAMES]
        c.write_file("d/new-%s-%d" % (c.proto, id(c)), b"new")
        assert os.listdir(disk.path) == []
        c.close()
    m.server.stop(scan=False)
    with export_refused(m.server, "is its file system mounted?"):
        assert os.listdir(disk.path) == []
    m._end(m.retriever, signal.SIGTERM)
    disk.mount()
    m.start()
    with m.client() as c:
        assert len(c.names("d")) == len(NAMES) + 2 * len(PROTOCOLS)
        assert c.patient(60).read_file("d/late") == DATA


def try_all(c):
    """What comes of it: right, or an error."""
    for name in NAMES:
        with contextlib.suppress(SmbError):
            assert c.read_file("d/" + name) == DATA
    with contextlib.suppress(SmbError):
        assert set(c.names("d")) >= set(NAMES)
    with contextlib.suppress(SmbError):
        assert "d" in c.names("")
    for call in (lambda: c.write_file("new", b"new"), lambda: c.write_file("d/new", b"new"),
                 lambda: c.mkdir("newdir"), lambda: c.mkdir("d/newdir")):
        with contextlib.suppress(SmbError):
            call()


@pytest.mark.allow_log(".*")
@pytest.mark.parametrize("below", ["nothing", "alike", "over"])
def test_detached_smb(disk, over_smb, below):
    """Sessions that have it open see it, or errors; never what is below, where names may be the
    same; and nobody comes in anew."""
    m = over_smb.start()
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(m.client(user)) for user in ("root", "alice")]
        for c in sessions:
            assert c.read_file("d/f") == DATA
        f = sessions[0].open("d/f")
        subprocess.run(["umount", "-l", str(disk.path)] if below != "over" else
                       ["mount", "-t", "tmpfs", "tmpfs", str(disk.path)], check=True)
        if below != "nothing":
            (disk.path / "d").mkdir()
            for name in NAMES:
                (disk.path / "d" / name).write_bytes(b"below")
            subprocess.run(["chmod", "-R", "a+rwX", str(disk.path)], check=True)
        before = sorted(map(str, disk.path.rglob("*")))
        for _ in range(2):
            for c in sessions:
                try_all(c)
        for call in (lambda: same(f.read(), DATA), f.close):
            with contextlib.suppress(SmbError):
                call()
        assert sorted(map(str, disk.path.rglob("*"))) == before
        for name in NAMES if below != "nothing" else ():
            assert (disk.path / "d" / name).read_bytes() == b"below"
        with pytest.raises(SmbError):
            m.client().close()
        said = m.server.log_text()
        assert "is its file system mounted?" in said
        assert 1 <= said.count("its file system is not mounted there any more") <= len(sessions)
        subprocess.run(["find", str(disk.path), "-mindepth", "1", "-delete"], check=True)
        if below == "over":             # and they go on
            subprocess.run(["umount", str(disk.path)], check=True)
        else:
            disk.mount()
        for c in (*sessions, stack.enter_context(m.client())):
            for name in NAMES:
                assert c.read_file("d/" + name) == DATA


@pytest.mark.allow_log(".*")
def test_detached_smb_after_the_end(disk, over_smb):
    """When the migration is finished it is the administrator's file system all the same."""
    m = over_smb.start()
    m.crawl()
    m.postcopy("finish", m.volume)
    m.server.restart()
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(m.client(user)) for user in ("root", "alice")]
        for c in sessions:
            assert c.read_file("d/f") == DATA
        holds = stack.enter_context(open(disk.path / "d"  / "f", "rb"))
        subprocess.run(["umount", "-l", str(disk.path)], check=True)
        disk.path.chmod(0o777)
        for _ in range(2):
            for c in sessions:
                try_all(c)
        assert os.listdir(disk.path) == [] and not holds.closed
        disk.mount()
