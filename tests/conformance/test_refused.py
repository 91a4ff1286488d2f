# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that the new file system refuses (docs/decisions/0006): here symlinks with more
than the 1023 bytes of target that XFS takes.

The directory is listed without them and parked; a refused name is an I/O error for
clients, never "no such file"; `postcopy retry` tries these names and no others.
"""
import errno
import json
import os
import shutil

import pytest

from lib.expect import status_of
from lib.programs import BUILD
from lib.smbd import Samba, Share
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from smb2client import SmbError

RECORD = "trusted.postcopy"
LONG = b"t" * 1500
TWO = pytest.mark.parametrize("proto", ["v3", "v4.1"])
OTHERS = [b"dir", b"f0", b"f1", b"f2", b"short"]


@pytest.fixture
def fake():
    tree = Tree()
    d = tree.mkdir(tree.root, "d")
    for i in range(3):
        tree.file(d, "f%d" % i, Pattern(3000, seed=i + 1))
    tree.symlink(d, "long", LONG)
    tree.symlink(d, "short", "f0")
    tree.file(tree.mkdir(d, "dir"), "below", Pattern(100))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="max_tries = 1\n").init()
    m.server.allow = ["converted to NFS[34]ERR_IO"]
    return m.start()


@pytest.fixture
def crawled(m):
    m.crawl()
    return m


def patient(m, proto="v3"):
    """Who may have to ask may get DELAY first, also where the answer is an error."""
    return m.client(proto).patient(60)


def parked(m):
    return [(p.get("path"), p["reason"]) for p in m.tool("parked", m.volume)["parked"]]


def retry(m):
    """What is parked is tried again, to the end."""
    assert "1 objects" in m.postcopy("retry", m.volume).stdout
    m.crawl()


# -- what is told ---------------------------------------------------------------------------------

def test_parked_and_nothing_hidden(crawled):
    m = crawled
    status, scan = m.audit(parked=1)
    assert (status["state"], status["pending"], status["parked"]) == ("only-parked", 0, 1)
    assert (scan["refused"], scan["unlisted"], scan["stubs"]) == (1, 0, 1)
    assert scan["clean"] and not scan["finished"] and scan["leftovers"] == 0
    (path, reason), = parked(m)
    assert path == "d" and 'entry "long"' in reason and "too long" in reason
    assert m.postcopy("finish", m.volume, check=False).returncode == 53
    assert 'entry "long"' in m.log.read_text()


def test_parked_when_a_client_lists(m):
    """Not only by the crawl."""
    with patient(m) as c:
        assert c.names("d") == OTHERS
    m.audit(parked=1)
    assert parked(m)[0][0] == "d"


def test_odd_names(fake, m):
    name = b"\xff\n" + b"o" * 253
    fake.tree.symlink(fake.tree.find("d"), name, LONG)
    m.crawl()
    m.audit(parked=1)
    assert m.scan()["refused"] == 2
    assert "2 names" in parked(m)[0][1]
    with patient(m) as c:
        assert status_of(c.lookup, (c.fh("d"), name)) == errors.IO


# -- what clients see -----------------------------------------------------------------------------

@TWO
def test_look_up_before_the_listing(m, proto):
    """The directory is not parked by looking, however often."""
    with patient(m, proto) as c:
        for _ in range(3):
            assert status_of(c.lookup, "d/long") == errors.IO
        assert status_of(c.lookup, "d/nothing") == errors.NOENT
        assert c.read_file("d/f0") == Pattern(3000, seed=1).read(0, 3000)
    assert parked(m) == []
    m.crawl()
    assert len(parked(m)) == 1


@TWO
def test_everything_else_is_there(crawled, fake, proto):
    with patient(crawled, proto) as c:
        assert c.getattr("d").mtime == fake.tree.find("d").mtime
        assert c.names("d") == OTHERS
        for i in range(3):
            assert c.read_file("d/f%d" % i) == Pattern(3000, seed=i + 1).read(0, 3000)
        assert c.readlink("d/short") == b"f0"
        assert c.read_file("d/dir/below") == Pattern(100).read(0, 100)
        assert status_of(c.lookup, "d/long") == errors.IO
        assert status_of(c.lookup, "d/nothing") == errors.NOENT


@TWO
def test_refused_name_cannot_be_taken(crawled, proto):
    """What exists on the old server is not made anew here."""
    with patient(crawled, proto) as c:
        assert status_of(c.create, "d/long") == errors.IO
        assert status_of(c.mkdir, "d/long") == errors.IO
        assert status_of(c.symlink, "d/long", "x") == errors.IO
        assert status_of(c.rename, "d/f0", "d/long") == errors.IO
        assert status_of(c.link, "d/f0", "d/long") == errors.IO
        assert status_of(c.remove, "d/long") == errors.IO
        assert c.names("d") == OTHERS
        c.write_file("d/new", b"new")
        assert c.read_file("d/new") == b"new"


@TWO
def test_directory_is_not_empty(crawled, proto):
    with patient(crawled, proto) as c:
        c.remove("d/dir/below"), c.rmdir("d/dir")
        for name in ("f0", "f1", "f2", "short"):
            c.remove("d/" + name)
        assert c.names("d") == []
        assert status_of(c.rmdir, "d") == errors.NOTEMPTY
        c.mkdir("other")
        assert status_of(c.rename, "other", "d") in (errors.NOTEMPTY, errors.EXIST)
        c.rename("d", "moved")
        assert status_of(c.lookup, "moved/long") == errors.IO
    crawled.drain()
    assert parked(crawled)[0][0] == "moved"


def over_smb(m):
    """An smbd with our module on the same volume."""
    if not (BUILD / "vfs_stub" / "stub.so").exists():
        pytest.skip("no Samba module in %s" % BUILD)
    smbd = Samba(m.workdir / "smbd", module_dir=BUILD / "vfs_stub",
                 shares=[Share(str(m.volume), vfs=("stub",))])
    m.server.restart()              # who does not know yet what the other server has found
    return smbd.start()


def said_smb(call, *args, **kw):
    with pytest.raises(SmbError) as info:
        call(*args, **kw)
    return info.value.status


@pytest.mark.parametrize("state", ["unlisted", "listed"])
def test_both_servers_say_the_same(m, state):
    """What is refused is an error, and what is nowhere is not there."""
    if state == "listed":
        m.crawl()
    smbd = over_smb(m)
    with smbd.client() as smb, patient(m) as nfs:
        for name in ("nothing", "long", "nothing"):
            refused = name == "long"
            assert said_smb(smb.stat, "d/" + name) == (
                "IO_DEVICE_ERROR" if refused else "OBJECT_NAME_NOT_FOUND"), name
            assert status_of(nfs.lookup, "d/" + name) == (
                errors.IO if refused else errors.NOENT), name
        assert said_smb(smb.write_file, "d/long", b"new") == "IO_DEVICE_ERROR"
        smb.write_file("d/new", b"new")
        assert nfs.read_file("d/new") == b"new"
        nfs.write_file("d/newer", b"newer")
        assert smb.read_file("d/newer") == b"newer"
    smbd.stop()


# -- retry ------------------------------------------------------------------------------------------

def test_retry_of_what_is_refused_again(crawled):
    """Only the refused name is tried: what clients removed does not come back."""
    m = crawled
    with patient(m) as c:
        c.remove("d/f0")
        c.rename("d/f1", "f1")
        retry(m)
        assert len(parked(m)) == 1 and m.scan()["refused"] == 1
        assert c.names("d") == [b"dir", b"f2", b"short"]
        assert status_of(c.lookup, "d/long") == errors.IO
    m.audit(parked=1)


def test_retry_of_what_fits_now(crawled, fake):
    m = crawled
    fake.tree.find("d/long").target = b"short now"
    with patient(m) as c:
        c.remove("d/f0")
        before = c.getattr("d").mtime
        retry(m)
        wait_until(lambda: m.status()["state"] == "complete", 60)
        assert c.readlink("d/long") == b"short now"
        assert c.names("d") == [b"dir", b"f1", b"f2", b"long", b"short"]
        assert c.getattr("d").mtime == before
    m.audit(complete=True)
    assert RECORD not in os.listxattr(m.volume / "d")


@TWO
def test_retry_is_seen_in_a_cached_listing(fake, m, proto):
    """The directory's times do not move, and it is not complete yet: nothing of it would
    tell the server that a name has come."""
    d = fake.tree.find("d")
    fake.tree.symlink(d, "longer", LONG)
    m.crawl()
    with patient(m, proto) as c:
        assert c.names("d") == OTHERS
        fake.tree.find("d/long").target = b"short now"
        retry(m)
        wait_until(lambda: b"long" in c.names("d"), 30, "the name")
        assert c.names("d") == sorted([*OTHERS, b"long"])
    m.drain()
    assert m.scan()["refused"] == 1


def test_retry_of_a_directory_that_fits_now(crawled, fake):
    """What comes late is a stub like any other, and comes whole."""
    m = crawled
    d = fake.tree.find("d")
    fake.tree.unlink(d, "long")
    late = fake.tree.mkdir(d, "long")
    fake.tree.file(late, "f", Pattern(70000))
    retry(m)
    with patient(m) as c:
        assert c.read_file("d/long/f") == Pattern(70000).read(0, 70000)
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)


def test_retry_of_what_is_gone(crawled, fake):
    m = crawled
    fake.tree.unlink(fake.tree.find("d"), "long")
    retry(m)
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    with patient(m) as c:
        assert status_of(c.lookup, "d/long") == errors.NOENT


def test_retry_when_only_some_fit(m, fake):
    d = fake.tree.find("d")
    for i in range(5):
        fake.tree.symlink(d, "s%d" % i, LONG)
    m.crawl()
    assert m.scan()["refused"] == 6 and "6 names" in parked(m)[0][1]
    for i in range(0, 5, 2):
        d.child(b"s%d" % i).target = b"fits"
    retry(m)
    assert m.scan()["refused"] == 3
    with patient(m) as c:
        assert c.names("d") == sorted([*OTHERS, b"s0", b"s2", b"s4"])
        assert status_of(c.lookup, "d/s1") == errors.IO
    m.audit(parked=1)


def test_retriever_restarts(crawled, fake):
    """It is on the disk."""
    m = crawled
    m.kill_retriever()
    with patient(m) as c:
        assert status_of(c.lookup, "d/long") == errors.IO      # without one, too
        m.start_retriever()
        m.crawl()
        m.audit(parked=1)
        fake.tree.find("d/long").target = b"fits"
        retry(m)
        assert c.readlink("d/long") == b"fits"
    m.audit(complete=True)


# -- limits ---------------------------------------------------------------------------------------

def test_more_than_a_record_holds(m, fake):
    """Then nothing is listed, and the whole directory is parked."""
    wide = fake.tree.mkdir(fake.tree.root, "wide")
    for i in range(40):
        fake.tree.symlink(wide, "%02d" % i + "w" * 98, LONG)
    fake.tree.file(wide, "f", Pattern(100))
    m.crawl()
    _status, scan = m.audit(parked=2)
    assert scan["unlisted"] == 1 and dict(parked(m))["wide"].startswith("listing, entry")
    with patient(m) as c:
        assert status_of(c.names, "wide") == errors.IO
    for _name, node in wide.entries[:20]:
        node.target = b"fits"
    m.postcopy("retry", m.volume)
    m.crawl()
    with patient(m) as c:
        assert len(c.names("wide")) == 21
    assert m.scan()["refused"] == 21


def test_all_names_of_a_hard_linked_one(m, fake):
    """Refused by each name; the file beside it with two names comes whole."""
    node = fake.tree.find("d/long")
    fake.tree.hardlink(fake.tree.root, "long2", node)
    fake.tree.hardlink(fake.tree.root, "f0too", fake.tree.find("d/f0"))
    m.crawl()
    _status, scan = m.audit(parked=2)
    assert scan["refused"] == 2
    assert sorted(p for p, _reason in parked(m)) == [".", "d"]
    assert os.stat(m.volume / "f0too").st_ino == os.stat(m.volume / "d/f0").st_ino
    node.target = b"fits"
    m.postcopy("retry", m.volume)
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    assert os.lstat(m.volume / "long2").st_ino == os.lstat(m.volume / "d/long").st_ino


@pytest.fixture
def on_ext4(new_volume, new_migration, fake):
    home = new_volume("ext4", "256M").path / "volume"
    home.mkdir()
    fake.tree.find("d/long").target = b"fits"
    m = new_migration(fake.url(), home, conf="max_tries = 1\n").init()
    m.server.allow = ["converted to NFS[34]ERR_IO"]
    return m.start()


def test_too_many_links(on_ext4, fake):
    """ext4 takes 65000: a name is refused that cannot be linked, as one that cannot be made."""
    m = on_ext4
    fake.tree.hardlink(fake.tree.root, "f0too", fake.tree.find("d/f0"))
    with patient(m) as c:
        assert c.names() == [b"d", b"f0too"]
        aside = m.volume.parent / "aside"
        aside.mkdir()
        with pytest.raises(OSError) as info:
            for i in range(65000):
                os.link(m.volume / "f0too", aside / str(i))
        assert info.value.errno == errno.EMLINK
        assert c.names("d") == [b"dir", b"f1", b"f2", b"long", b"short"]
        assert status_of(c.lookup, "d/f0") == errors.IO
    m.audit(parked=1)
    assert 'entry "f0"' in parked(m)[0][1] and "Too many links" in parked(m)[0][1]
    shutil.rmtree(aside)
    retry(m)
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    assert os.stat(m.volume / "f0too").st_ino == os.stat(m.volume / "d/f0").st_ino


def test_file_too_large(on_ext4, fake):
    """ext4 takes no 4 EiB."""
    m = on_ext4
    fake.tree.file(fake.tree.find("d"), "huge", Pattern(100)).claim(size=1 << 62)
    m.crawl()
    m.audit(parked=1)
    (path, reason), = parked(m)
    assert path == "d" and 'entry "huge"' in reason and "too large" in reason
    with patient(m) as c:
        assert c.names("d") == sorted([*OTHERS, b"long"])
        assert status_of(c.lookup, "d/huge") == errors.IO
    assert json.loads(m.postcopy("scan", "--json", m.volume).stdout)["refused"] == 1
