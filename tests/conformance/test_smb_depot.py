# SPDX-License-Identifier: GPL-3.0-or-later
"""Alternate data streams of any size, as Samba's streams_depot keeps them
(docs/decisions/0021): real smbds on both sides see the same."""
import itertools
import os

import pytest

from lib import smbd, smbtree
from lib.migration import SmbMigration
from lib.programs import WORKER
from lib.smbtree import compare, descriptor, pattern
from lib.wait import wait_until
from smb2client import SmbError, wire
from test_smb_meta import IDMAP

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")

MIB = 1 << 20
NUMBERS = itertools.count()
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
        for path, sddl in (("", "D:P(A;;0x1f01ff;;;WD)"), ("odd", "D:P(A;;0x1f01ff;;;WD)"),
                           ("odd/secret", "D:P(A;;0x1f01ff;;;{alice})(A;;FR;;;{bob})")):
            raw = descriptor(sddl)
            c.set_security(path, raw, smbtree.parts_of(raw))
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
        home = top / ("m%d" % next(NUMBERS))
        home.mkdir(mode=0o755)
        m = SmbMigration(moddir / home.name, url or server.url(),
                         home / "volume", shim=rpcshim, conf=conf + "call_timeout = 5000\n",
                         stack=(*STOCK, "stub"), more=lines(top / "streams"), **kw)
        m.volume.mkdir()
        m.depot = top / "streams"       # of all volumes there: it has many directories
        m.streams = "depot:%s" % m.depot
        m.before = set(m.depot.glob("??/??/*"))
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
    """Directories of its objects in the depot, and what is on its way."""
    return (sorted(set(m.depot.glob("??/??/*")) - m.before),
            [p for p in m.depot.glob(".postcopy-*/*")])


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
    assert "user.SAMBA_STREAMS" not in os.listxattr(m.volume / "odd/none")
    m.kill_retriever()
    assert list(m.depot.glob(".postcopy-*"))
    m.tool("remove", m.volume)
    assert not list(m.depot.glob(".postcopy-*")) and found(m)[0] == there


def test_a_comparison_looks_into_the_depot(make, xfs, old):
    """A stream that was lost there is a damage; one that clients have written is theirs."""
    m = make(xfs).init().start()
    m.crawl()
    m.audit(complete=True)

    def verify():
        answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                        check=False)
        assert answer["ok"], answer
        return {f["path"]: (f["class"], set(f["what"])) for f in answer["found"]}

    assert verify() == {}
    lost, = (d for d in found(m)[0] for d in d.glob(":stream 007:*"))
    lost.unlink()
    with m.client() as c:
        c.write_file("odd/secret:s", b"a client's")
    was = verify()
    assert was.pop("odd/many") == ("different", {"stream"})
    assert was.pop("odd/secret")[0] == "changed" and was == {}, was


def test_a_full_depot_waits_for_room(make, xfs, new_volume, new_samba, old):
    """On a file system of its own: nothing is taken for there that is not."""
    small = new_volume("xfs", "400M").path
    m = make(xfs)
    m.allow.append(" error: ")
    m.depot = small / "streams"
    m.streams = "depot:%s" % m.depot
    m.init().start_retriever()
    free = os.statvfs(small)
    with open(small / "filler", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, free.f_bavail * free.f_frsize - 8 * MIB)
    m.start_crawler()
    wait_until(lambda: m.status()["pending"] and "No space left" in m.log.read_text(), 60,
               "a full depot")
    m.kill_crawler()
    (small / "filler").unlink()
    m.postcopy("retry", "--all", m.volume)
    m.crawl()
    m.audit(complete=True)
    with plain(m, new_samba).client() as c:
        assert [str(d) for d in compare(old, c)] == []


def test_all_sizes_on_first_sight(make, xfs, old):
    """A client of the new smbd sees every stream before anything else was asked for."""
    m = make(xfs).init().start()
    with m.client() as c:
        assert [str(d) for d in compare(old, c, migrating=True)] == []
    m.crawl()
    m.audit(complete=True)
    with m.client() as c:
        assert [str(d) for d in compare(old, c)] == []


def test_a_joined_source_has_streams_too(make, xfs, loop_xfs, old_server, server, old):
    """Names and data over NFS, streams over SMB."""
    m = make(xfs, url=old_server(loop_xfs.path / "old").url())
    m.join = server.url()
    m.init().start()
    with m.client() as c:
        assert c.read_file("file:size %d" % MIB) == old.read_file("file:size %d" % MIB)
    m.crawl()
    m.audit(complete=True)
    assert m.status()["mismatches"] == 0
    with m.client() as c:
        assert [str(d) for d in compare(old, c) if d.field.startswith("stream")] == []


def test_what_clients_change_stays(make, xfs, old):
    """Streams written, made and removed before and after the crawler: never an old one."""
    m = make(xfs).init().start()
    gone = "size 1"
    with m.client() as c:
        c.write_file("file:size 65536", b"new")     # a dummy until now
        c.remove("file:%s" % gone)
        c.write_file("dir:fresh", b"fresh")
        m.kill_retriever()
        m.start_retriever()
        m.crawl()
        m.audit(complete=True)
        assert c.read_file("file:size 65536") == b"new"
        assert c.read_file("dir:fresh") == b"fresh"
        assert ":%s:$DATA" % gone not in c.streams("file")
        wanted = {":size %d:$DATA" % size: size for size in SIZES if size != 1}
        wanted.update({":size 65536:$DATA": 3, "::$DATA": 4})
        assert c.streams("file") == wanted
        assert c.read_file("file:size %d" % MIB) == old.read_file("file:size %d" % MIB)


def test_users_have_the_rights_of_the_file(make, xfs):
    """Who may write the file may write its streams, who may read it may read them; all users
    may make streams of their own files."""
    m = make(xfs).init().start()
    data = pattern(100001, 100000)
    with m.client("alice") as c:
        assert c.read_file("odd/secret:s") == data
        c.write_file("odd/secret:mine", b"alice")
        with c.open("odd/secret:s", wire.WRITE_DATA) as f:
            f.write(0, b"A")
    with m.client("bob") as c:
        assert c.read_file("odd/secret:s") == b"A" + data[1:]
        with pytest.raises(SmbError) as caught:
            c.write_file("odd/secret:s", b"B")
        assert caught.value.status == "ACCESS_DENIED"
    with m.client("carol") as c:
        with pytest.raises(SmbError) as caught:
            c.read_file("odd/secret:s")
        assert caught.value.status == "ACCESS_DENIED"
    for user in ("alice", "bob"):
        with m.client(user) as c:
            c.write_file("odd/%s" % user, b"1")
            c.write_file("odd/%s:own" % user, b"2")
            assert c.read_file("odd/%s:own" % user) == b"2"
    path, = [p for p in found(m)[0] if (p / ":mine:$DATA").exists()]
    assert os.stat(path / ":s:$DATA").st_mode & 0o7007 == 0
    m.crawl()
    m.audit(complete=True)


def test_nothing_stays_of_what_is_removed(make, xfs):
    m = make(xfs).init().start()
    with m.client() as c:
        assert c.names("odd") == ["many", "names", "none", "secret"]
        for name in ("many", "names", "none", "secret"):
            c.remove("odd/" + name)
        c.remove("odd")
        c.remove("file")
        c.remove("dir")
    m.crawl()
    m.audit(complete=True)
    there, staged = found(m)
    assert [[p.name for p in d.iterdir()] for d in there] == [[":of the root:$DATA"]]
    assert staged == []


def half(m):
    """Streams of which more than one block has come."""
    return [p for p in m.depot.glob(".postcopy-*/*/*") if p.stat().st_size > MIB]


def test_removed_in_the_middle_of_a_stream(make, xfs):
    """By somebody who does not wait for attributes, as NFS need not."""
    m = make(xfs, conf="throttle = 1024\n").init().start_retriever()
    m.start_crawler()
    wait_until(lambda: half(m), 60, "the middle of a stream")
    wait_until(lambda: len(list(m.volume.iterdir())) == 4, 60, "the root's names")
    (m.volume / "file").unlink()
    (m.volume / "dir").rmdir()
    m.postcopy("throttle", m.volume, "0")
    assert m.crawler.wait(120) == 0
    m.audit(complete=True)
    names = {p.name for d in found(m)[0] for p in d.iterdir()}
    assert ":size 1:$DATA" not in names and ":stream 001:$DATA" in names
    assert found(m)[1] == []


def test_killed_in_the_middle_of_a_stream(make, xfs, new_samba, old):
    """What was half fetched is in nobody's way, and is fetched again."""
    m = make(xfs, conf="throttle = 1024\n").init()
    m.start_retriever()
    m.start_crawler()

    wait_until(lambda: half(m), 60, "the middle of a stream")
    m.kill_retriever()
    m.kill_crawler()
    there, staged = found(m)
    assert half(m) and staged
    assert not [p for d in there for p in d.iterdir() if p.stat().st_size > 10 * MIB]
    m.conf = m.conf.replace("throttle = 1024", "throttle = 0")
    m.start_retriever()
    assert not half(m)
    m.crawl()
    m.audit(complete=True)
    with plain(m, new_samba).client() as c:
        assert [str(d) for d in compare(old, c)] == []
    assert found(m)[1] == []


def test_a_device_of_another_name_is_told(make, xfs):
    """smbd would look for the streams elsewhere: nothing is stored where it does not look."""
    m = make(xfs).init()
    conf = m.volume / ".postcopy/volume.conf"
    text = conf.read_text()
    conf.write_text(text.replace("depot_id=", "depot_id=1"))
    m.start_retriever(wait=False)
    assert m.retriever.wait(30) == 1
    assert "mounted from a device of another name" in m.log.read_text()
    conf.write_text(text)
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)


@pytest.mark.parametrize("where, code", [
    ("depot:{volume}/streams", "target-failed"), ("depot:{volume}", "target-failed"),
    ("depot:/nowhere/at/all", "target-failed"), ("depot:relative", "usage"),
    ("depot:/x;y", "usage"), ("depot:/x/", "usage"), ("depot:", "usage"), ("files", "usage"),
    ("depot:/x:y", "usage"), ("depot:/x  y", "usage")])
def test_bad_places_are_refused(make, xfs, where, code):
    m = make(xfs)
    m.streams = where.format(volume=m.volume)
    answer = m.init(check=False)
    assert answer["exit"] != 0 and answer["error"] == code, answer
    assert not list(m.volume.iterdir())


def test_the_table_knows_the_choice(make, xfs):
    m = make(xfs)
    conf = m.workdir / "check.conf"
    conf.write_text(m.conf)

    def streams_of(*options):
        answer = m.tool("check", "--source", m.url, "--config", conf, *options, m.volume,
                        check=False)
        row, = [p for p in answer["properties"] if p["property"] == "streams"]
        return row

    assert streams_of()["volume"] == streams_of("--streams", "xattr")["volume"] == "approximated"
    row = streams_of("--streams", m.streams)
    assert row["volume"] == "kept" and "any size" in row["why"]
    answer = m.init(check=False)
    assert answer["depot"] == str(m.depot)
    assert "alternate data streams" not in answer["not_migrated"]
