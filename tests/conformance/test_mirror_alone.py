# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy finish` of a volume with a mirror: the migration ends, the backup goes on without a retriever and
without the old server."""
import json
import pathlib
import tempfile

import pytest

from lib.migration import Migration, SmbMigration
from lib.mirror import Mirror
from lib.smbd import STOCK
from lib.wait import wait_until

ELSEWHERE, TOLD, MIRRORED = 4, 3, 62


class Place:
    """Complete, with a backup that follows in sync."""

    def __init__(self, home, loop_xfs, old_server, rpcshim, kind, **more):
        self.old, self.volume, self.tree = (loop_xfs.path / (name + home.name) for name in ("old", "new", "backup"))
        for top in (self.old, self.volume, self.tree):
            top.mkdir()
        (self.old / "dir").mkdir()
        for i in range(5):
            (self.old / "dir" / ("f%d" % i)).write_bytes(b"%d" % i * 5000)
        self.source, self.backup = old_server(str(self.old)), old_server(str(self.tree))
        self.m = kind(home / "m", self.source.url(), self.volume, shim=rpcshim, **more).init()
        self.m.start_retriever()
        self.m.crawl()
        self.m.audit(complete=True)
        self.m._end(self.m.retriever, 15)
        self.m.postcopy("mirror", "add", self.backup.url(), self.volume)
        self.m.start()
        self.mirror = Mirror(home / "r", self.volume).start()
        self.mirror.equal(self.tree)
        self.m.postcopy("mirror", "mode", self.volume, "sync")
        wait_until(lambda: self.mirror.status()["awaited"], 60, "clients wait")

    def stop(self):
        self.mirror.stop()
        self.m.server.stop()
        self.m._end(self.m.retriever)


@pytest.fixture
def place(moddir, loop_xfs, old_server, rpcshim):
    made = []

    def make(kind, **more):
        home = pathlib.Path(tempfile.mkdtemp(prefix="alone", dir=moddir))
        made.append(Place(home, loop_xfs, old_server, rpcshim, kind, **more))
        return made[0]

    yield make
    for p in made:
        p.stop()


def told(m, *words):
    return m.postcopy(*words, check=False)


def finished_but_for_the_mirror(p):
    done = p.m.postcopy("finish", p.volume)
    assert "no old server" in done.stdout and p.backup.url() in done.stdout, done
    assert p.m.retriever.wait(60) == TOLD
    p.source.stop()


def gone(p):
    """The mirror is removed, then the rest."""
    p.mirror.drained()
    p.m.postcopy("mirror", "remove", p.volume)
    done = p.m.postcopy("finish", p.volume)
    assert "neither the old server nor postcopy" in done.stdout, done
    assert not (p.volume / ".postcopy").exists()


def test_goes_on(place):
    p = place(Migration)
    with p.m.client() as c:
        c.mkdir("before")
        finished_but_for_the_mirror(p)
        c.write_file("before/f", b"without a retriever")
        assert (p.tree / "before/f").read_bytes() == b"without a retriever"
        assert c.read_file("dir/f3") == b"3" * 5000
    s = json.loads(p.m.postcopy("status", "--json", p.volume).stdout)
    assert s["state"] == "complete" and s["counter"] == 0
    p.m.server.restart()
    p.mirror.stop()
    p.mirror.start()
    with p.m.client("v4.1") as c:
        c.write("dir/f3", 0, b"x" * 10)
        c.rename("dir/f4", "before/f4")
        c.remove("dir/f1")
        c.write_file("new", b"new")
    p.mirror.equal(p.tree)
    gone(p)
    with p.m.client() as c:
        assert c.read_file("new") == b"new"


def test_goes_on_smb(place):
    p = place(SmbMigration, more="nt acl support = no")      # the mirror has no ACLs
    finished_but_for_the_mirror(p)
    p.m.server.restart()
    with p.m.server.client() as c:
        assert c.read_file("dir/f2") == b"2" * 5000
        c.write_file("dir/new", b"new")
        assert (p.tree / "dir/new").read_bytes() == b"new"
    p.mirror.equal(p.tree)
    p.m.server.stop()
    gone(p)
    p.m.server.shares[0].vfs = STOCK
    p.m.server.start()
    with p.m.server.client() as c:
        assert c.read_file("dir/new") == b"new"


def test_no_retriever_starts(place):
    p = place(Migration)
    finished_but_for_the_mirror(p)
    p.m.start_retriever(wait=False)
    assert p.m.retriever.wait(60) == ELSEWHERE
    assert "only its mirror goes on: disable this service" in p.m.log.read_text()
    done = told(p.m, "finish", p.volume)
    assert done.returncode == MIRRORED and "mirror remove" in done.stderr, done
    done = told(p.m, "mirror", "mode", "--json", p.volume, "async")
    assert json.loads(done.stdout)["alone"], done


def test_what_is_not_complete(place):
    """It stays a migration: one name that is left over is enough."""
    p = place(Migration)
    with p.m.client() as c:
        c.mkdir("more")
    (p.volume / ".postcopy/staging/left").write_bytes(b"")
    done = told(p.m, "finish", p.volume)
    assert done.returncode and "leftovers" in done.stderr, done
    assert p.m.retriever.poll() is None and "alone" not in (p.volume / ".postcopy/mirror/conf").read_text()
    (p.volume / ".postcopy/staging/left").unlink()
