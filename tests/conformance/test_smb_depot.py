# SPDX-License-Identifier: GPL-3.0-or-later
"""Alternate data streams of any size, as Samba's streams_depot keeps them
(docs/decisions/0021): real smbds on both sides see the same."""
import os
import pathlib

import pytest

import smbd
import smbtree
from migration import BUILD
from smb2client import SmbError, wire
from smbmigration import SmbMigration
from smbtree import Builder, compare, descriptor, pattern
from test_smb_meta import IDMAP
from util import wait_until

WORKER = BUILD / "retriever" / "postcopy-smb-worker"

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")

KIB, MIB = 1 << 10, 1 << 20
STOCK = ("acl_xattr", "fileid", "streams_depot")
OLD = ("acl_xattr", "streams_depot")
SIZES = (0, 1, 65535, 65536, MIB, 20 * MIB)
NAMES = ("sp ace", "\u65e5\u672c", "dot.", "UPPER", "$weird$", "per%cent", "semi;", "x" * 200,
         "...", "#hash", "'quote'", "\U0001f600")


def lines(depot):
    """Of the new share, as init prints them."""
    return """%s
fileid:algorithm = fsname
streams_depot:directory = %s
streams_depot:delete_lost = yes
""" % (smbtree.RAW_NAMES, depot)


@pytest.fixture(scope="module")
def server(new_samba, loop_xfs):
    top = loop_xfs.path / "old"
    top.mkdir(mode=0o755)
    return new_samba("old", shares=[smbd.Share(
        str(top), vfs=OLD, more="%s\nstreams_depot:directory = %s" % (
            smbtree.RAW_NAMES, loop_xfs.path / "old-streams"))])


def streams(client, path, sizes):
    """sizes: {stream: bytes}"""
    for name, size in sizes.items():
        client.write_file("%s:%s" % (path, name), pattern(size + len(name), size))


@pytest.fixture(scope="module")
def old(server):
    with server.client() as c:
        streams(c, "", {"of the root": 70000})
        for path in ("file", "dir"):
            c.write_file("file", b"data") if path == "file" else c.mkdir(path)
            streams(c, path, {"size %d" % size: size for size in SIZES})
        c.mkdir("odd")
        c.write_file("odd/names", b"1")
        streams(c, "odd/names", {name: 10 + i for i, name in enumerate(NAMES)})
        c.write_file("odd/many", b"2")
        streams(c, "odd/many", {"stream %03d" % i: 100 * i for i in range(300)})
        c.write_file("odd/none", b"3")
        c.write_file("odd/secret", b"4")
        streams(c, "odd/secret", {"s": 100000})
        raw = descriptor("D:P(A;;FA;;;{alice})(A;;FR;;;{bob})")
        c.set_security("odd/secret", raw, smbtree.parts_of(raw))
        yield c


@pytest.fixture
def make(workdir, moddir, new_volume, rpcshim, server, old):
    made = []
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    (moddir / "idmap").write_text(IDMAP)

    def factory(top, url=None, conf="", **kw):
        conf += "".join('%s = "%s"\n' % x for x in (
            ("smb_credentials", login), ("smb_worker", WORKER), ("smb_idmap", moddir / "idmap")))
        home = pathlib.Path(top) / ("m%d" % len(os.listdir(top)))
        home.mkdir(mode=0o755)
        m = SmbMigration(moddir / ("%s-%s" % (top.name, home.name)), url or server.url(),
                         home / "volume", shim=rpcshim, conf=conf + "call_timeout = 5000\n",
                         stack=(*STOCK, "stub"), more=lines(home / "streams"), **kw)
        m.volume.mkdir()
        m.depot = home / "streams"
        m.streams = "depot:%s" % m.depot
        made.append(m)
        return m

    yield factory
    for m in made:
        m.stop()


@pytest.fixture(scope="module", params=["xfs", "ext4"])
def disk(request, new_volume):
    return new_volume(request.param, "2G").path


@pytest.fixture(scope="module")
def xfs(new_volume):
    return new_volume("xfs", "2G").path


def found(m):
    """Directories of objects in the depot, and what is on its way."""
    return sorted(m.depot.glob("??/??/*")), sorted(m.depot.glob(".postcopy-*/*"))


def plain(m, new_samba):
    """A stock smbd on the volume."""
    return new_samba("stock-%s" % m.workdir.name, shares=[smbd.Share(
        str(m.volume), vfs=STOCK, more=lines(m.depot) + "veto files = /.postcopy/\n")])


def test_all_sizes_come_over(make, disk, new_samba, old):
    """By the crawler alone; stock smbd shows the bytes of the old one."""
    m = make(disk).init()
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    assert m.status()["metadata_lost"] == 0
    with plain(m, new_samba).client() as c:
        counts = {}
        assert [str(d) for d in compare(old, c, counts=counts)] == []
        assert counts["objects"] == 8
        assert len(c.streams("file")) == len(SIZES) + 1
    there, staged = found(m)
    assert len(there) == 6 and staged == []
    assert not [x for x in os.listxattr(m.volume / "odd/none") if x == "user.SAMBA_STREAMS"]
