# SPDX-License-Identifier: GPL-3.0-or-later
"""Where another file system of the old server begins: told by `init --check`, migrated with what it
lies in, and never mixed up with that by equal file ids.  (Exports below NFSv4's pseudo root, of a
real server: test_nfs4_source.py.)"""
import os
import subprocess

import pytest

from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

VERSIONS = (3, "4.0", "4.2")
FILES = 10


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def numbered(tree, at, text, fsid):
    """Files whose numbers are the same in each file system, one of them with two names."""
    for i in range(FILES):
        node = tree.file(at, "f%d" % i, b"%s %d" % (text, i), atime=10 ** 18, mtime=10 ** 18)
        node.fileid = 1000 + i
        node.claim(fsid=(fsid, 0))
        if i == 1:
            tree.hardlink(at, "f1-too", node)
    at.claim(fsid=(fsid, 0))


@pytest.fixture
def fake():
    """An export that shows two disks which are mounted in it, one in the other (crossmnt)."""
    tree = Tree()
    here, disk = tree.mkdir(tree.root, "here"), tree.mkdir(tree.root, "disk")
    numbered(tree, here, b"here", 1)
    numbered(tree, disk, b"disk", 2)
    inner = tree.mkdir(disk, "inner")
    numbered(tree, inner, b"inner", 3)
    disk.fileid = inner.fileid = tree.root.fileid       # each is the root of its own
    with FakeServer(tree) as server:
        yield server


def checked(m):
    return m.tool("check", "--names", "--source", m.url, m.volume, check=False)


def test_borders_are_told(version, fake, new_migration, fresh_dir):
    answer = checked(new_migration(fake.url(version=version), fresh_dir))
    assert {(n["kind"], n["path"]) for n in answer["names"]} == {
        ("border", "disk"), ("border", "disk/inner")}
    kind = next(k for k in answer["kinds"] if k["kind"] == "border")
    assert (kind["volume"], kind["count"]) == ("kept", 2)


def test_nothing_is_mixed_up(version, fake, new_migration, fresh_dir):
    m = new_migration(fake.url(version=version), fresh_dir).init().start()
    with m.client("v3", patience=60) as c:              # one way in, the crawler the other
        assert c.read_file("disk/inner/f3") == b"inner 3"
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    for path, text in (("here", b"here"), ("disk", b"disk"), ("disk/inner", b"inner")):
        at = fresh_dir / path
        assert [(at / ("f%d" % i)).read_bytes() for i in range(FILES)] == [
            b"%s %d" % (text, i) for i in range(FILES)]
        assert (at / "f1").samefile(at / "f1-too") and os.stat(at / "f1").st_nlink == 2
        assert os.stat(at / "f2").st_nlink == 1
    answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", fresh_dir,
                    check=False)
    assert answer["result"] == "right", answer


# -- several exports, one below the other ----------------------------------------------------------

def warnings(answer):
    return {w["code"]: w["message"] for w in answer["warnings"]}


def test_exports_below_are_told(fake, new_migration, fresh_dir):
    """One is shown as what it is, one as the empty directory that it is mounted on; what is no
    directory here, or not below, is nobody's business."""
    plain = fake.tree.mkdir(fake.tree.root, "plain")
    fake.tree.file(plain, "f", b"the same file system, exported twice")
    fake.tree.mkdir(plain, "hidden")
    fake.exports += ["/export/disk/", "/export/plain", "/export/plain/hidden", "/exports/else",
                     "/export/not/there", "/export/../up", "/export//here/f1", "/", ""]
    m = new_migration(fake.url(), fresh_dir)
    for told in (warnings(checked(m)), warnings(m.init(check=False))):
        assert told["export-below"].startswith("1 exports") and "disk" in told["export-below"]
        assert told["export-hidden"].startswith("1 exports")
        assert "plain/hidden" in told["export-hidden"] and "crossmnt" in told["export-hidden"]


def test_a_mount_service_that_does_not_tell(fake, new_migration, fresh_dir):
    fake.hook("EXPORT", hooks.system_err)
    m = new_migration(fake.url(), fresh_dir)
    assert not {"export-below", "export-hidden"} & set(warnings(checked(m)))
    assert m.init(check=False)["ok"]


def test_many_exports_are_cut(fake, new_migration, fresh_dir):
    """What a server lists is hostile: long, much, and with controls of terminals."""
    fake.exports += ["/export/" + "x" * 900, "/export/\x1b[31mred"] + [
        "/export/h%d" % i for i in range(3000)]
    for i in range(40):
        fake.tree.mkdir(fake.tree.root, "h%d" % i)
    told = warnings(checked(new_migration(fake.url(), fresh_dir)))["export-hidden"]
    assert len(told) < 768 and "\x1b" not in told and "h0, h1" in told


@pytest.mark.parametrize("version", [3, "4.2"])
def test_a_disk_that_is_mounted_in_an_export(version, new_volume, new_server, new_migration,
                                             fresh_dir):
    """nfs-ganesha's FSAL_VFS: it comes, or is parked with a reason; it is never silently empty."""
    outer, inner = new_volume("xfs", "512M"), new_volume("xfs", "512M")
    (inner.path / "f").write_bytes(b"in the inner one")
    inner.umount()
    top = outer.path / "tree"
    (top / "disk").mkdir(parents=True)
    (top / "f").write_bytes(b"in the outer one")
    subprocess.run(["mount", "-t", "xfs", inner.device, str(top / "disk")], check=True)
    try:
        server = new_server("crossmnt-%s" % version, str(top))
        m = new_migration(server.url(version=version), fresh_dir,
                          conf="max_tries = 1\n", allow=[".*"]).init().start()
        m.server.allow = [".*"]
        m.crawl()
        assert (fresh_dir / "f").read_bytes() == b"in the outer one"
        if m.status()["parked"]:
            reason, = (p["reason"] for p in m.tool("parked", fresh_dir)["parked"])
            assert "disk" in reason, reason
        else:
            assert (fresh_dir / "disk/f").read_bytes() == b"in the inner one"
        m.stop()
        server.stop()
    finally:
        subprocess.run(["umount", str(top / "disk")], check=True)
