# SPDX-License-Identifier: GPL-3.0-or-later
"""Two sources of one tree that disagree, or of which one is away, in mid-migration: no
object gets what another one's descriptor or streams say, and what clients change stays."""
import os
import struct
import threading

import pytest

from lib import smbd
from lib.ganesha import NO_LISTINGS, Export
from lib.programs import MODULES
from lib.smbd import STACK, Share
from lib.smbgate import SmbGate
from lib.smbsource import with_module
from lib.smbtree import descriptor, parts_of
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.proxy import Proxy
from smb2client import SmbError, wire
from samba.dcerpc import security
from samba.ndr import ndr_pack, ndr_unpack

pytestmark = with_module

RECORD = "trusted.postcopy"
ALICE, BOB = 70001, 70002
LONG_AGO = 10 ** 18


class Old:
    """One tree behind both protocols, with something before each."""

    def __init__(self, top, nfs, smb, samba):
        self.top, self.nfs, self.smb, self.samba = top, nfs, smb, samba

    def file(self, path, data=b"12345", uid=ALICE, mode=0o600):
        path = self.top / path
        path.parent.mkdir(exist_ok=True, mode=0o755)
        path.write_bytes(data)
        os.chown(path, uid, uid)
        os.chmod(path, mode)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
        return path


@pytest.fixture(scope="module")
def servers(new_server, new_samba, tree):
    """They see at once what the tests change below them."""
    export = Export(str(tree), "/export", "vfs", more="Attr_Expiration_Time = 0;")
    return (new_server("old", exports=[export], conf=NO_LISTINGS),
            new_samba("old-smb", tree))


@pytest.fixture
def old(servers, tree):
    with Proxy.for_server(servers[0]) as nfs, SmbGate(servers[1]) as smb:
        yield Old(tree, nfs, smb, servers[1])


@pytest.fixture
def migrate(make, old):
    """A migration of both, not started; it ends with the test."""
    made = []

    def factory(joined=True):
        url, join = (old.nfs.url(), old.smb.url()) if joined else (old.smb.url(), None)
        made.append(make(url, join=join, conf="max_tries = 1\n"))
        return made[-1].init()

    yield factory
    for m in made:
        m.stop()


def xattr(path, name):
    try:
        return os.getxattr(path, name)
    except OSError:
        return None


def ntacl(m, path):
    return xattr(m.volume / path, "security.NTACL")


def names(value, user):
    """Does the descriptor name him?"""
    return struct.pack("<I", smbd.USERS[user][2]) in value


def not_joined(m):
    return [line for line in m.log.read_text().splitlines() if ": not joined: " in line]


def parked(m):
    return [e["reason"] for e in m.tool("parked", m.volume)["parked"]]


# -- another object in its place, between the two answers -------------------------------------

def same_inode(make_it, ino):
    """Make a file until it has the inode of one that is gone."""
    spare = []
    while True:
        path = make_it()
        if path.stat().st_ino == ino:
            break
        assert len(spare) < 1000
        spare.append(path.rename(path.with_name(".spare-%d" % len(spare))))
    for other in spare:
        other.unlink()


@pytest.mark.parametrize("kind", ("another", "same inode"))
def test_replaced_between_the_answers(old, migrate, kind):
    """alice's private file is bob's public one when SMB is asked."""
    path = old.file("%s/f" % kind, b"")
    ino = path.stat().st_ino

    def replace():
        if kind == "another":
            os.rename(old.file("%s/new" % kind, b"", BOB, 0o666), path)
        else:
            path.unlink()
            same_inode(lambda: old.file("%s/f" % kind, b"", BOB, 0o666), ino)

    old.smb.before("%s/f" % kind, replace)
    m = migrate().start()
    m.server.allow = ["converted to NFS3ERR_IO"]
    m.crawl()
    new = (m.volume / kind / "f").stat()
    assert path.stat().st_uid == BOB            # it was replaced
    assert new.st_mode & 0o077 == 0 and ntacl(m, "%s/f" % kind) is None
    assert len(parked(m)) == 1 and "replaced on the old server" in parked(m)[0], parked(m)
    m.audit(parked=1)


@pytest.mark.parametrize("joined", (True, False))
def test_streams_of_one_file(old, migrate, joined):
    """Another file comes in its place after the first of its streams was read.  Made only then:
    what the crawler has begun to bring when it is renamed is a conflict, too, or is not."""
    def with_streams(name, mark):
        path = old.file("streams/" + name)
        for stream in ("one", "two"):
            os.setxattr(path, "user.DosStream.%s:$DATA" % stream, mark + b"\0")
        return path

    ours = with_streams("f", b"ours")
    old.smb.before("streams/f:two:$DATA", lambda: os.rename(
        with_streams("other", b"theirs"), ours))
    m = migrate(joined).start()
    m.server.allow = ["converted to NFS3ERR_IO"]
    m.crawl()
    assert os.getxattr(ours, "user.DosStream.one:$DATA") == b"theirs\0"     # it was replaced
    kept = [xattr(m.volume / "streams/f", "user.DosStream.%s:$DATA" % s) for s in ("one", "two")]
    assert kept in ([b"ours\0", b"ours\0"], [None, None]), kept
    assert os.listdir(m.volume / "streams") == ["f"] and xattr(m.volume / "streams/f", RECORD)
    m.audit(parked=1)


# -- moved, away ------------------------------------------------------------------------------

def listed(m, old, name, count):
    """The names of a directory are here, and nothing else of what is in it: SMB is away."""
    with m.client() as c:
        c.patient(30).getattr(name)
    old.smb.refuse()
    crawler = m.start_crawler()
    wait_until(lambda: len(os.listdir(m.volume / name)) == count, 60, "names")
    return crawler


def the_end(m, crawler, **audit):
    assert crawler.wait(300) == 0, (m.workdir / "crawler.log").read_text()
    m.audit(**audit)


def test_moved_after_it_was_listed(old, migrate):
    """What SMB has no more under its path comes as NFS knows it; what is gone does not come."""
    for name in ("same", "renamed", "removed", "replaced", "dir/below"):
        (old.top / "moved").mkdir(exist_ok=True)
        old.file("moved/" + name)
    m = migrate().start()
    crawler = listed(m, old, "moved", 5)
    top = old.top / "moved"
    (top / "renamed").rename(top / "elsewhere")
    old.file("moved/renamed", uid=BOB, mode=0o666)
    (top / "removed").unlink()
    old.file("moved/new", uid=BOB, mode=0o666).rename(top / "replaced")
    (top / "dir").rename(top / "another dir")
    old.smb.accept()
    the_end(m, crawler, parked=2)
    told = not_joined(m)
    assert len(told) == m.status()["mismatches"] == 3, told
    assert ['"moved/renamed": not joined: file id ' in t for t in told].count(True) == 1, told
    for name in ("dir", "dir/below"):
        assert any('"moved/%s": not joined: the share does not' % name in t for t in told), told
    assert ["replaced on the old" in reason for reason in parked(m)] == [True] * 2, parked(m)
    assert names(ntacl(m, "moved/same"), "alice")
    for name in ("renamed", "removed", "replaced", "dir/below"):
        assert ntacl(m, "moved/" + name) is None, name
        assert os.stat(m.volume / "moved" / name).st_mode & 0o077 == 0, name
    for name in ("renamed", "dir/below"):
        assert os.stat(m.volume / "moved" / name).st_uid == ALICE
        assert (m.volume / "moved" / name).read_bytes() == b"12345"


def test_one_is_away_then_the_other(old, migrate):
    """Neither half alone fills anything."""
    old.file("away/f", mode=0o640)
    m = migrate().start()
    crawler = listed(m, old, "away", 1)
    with m.client(patience=0) as c:
        for smb_is_back in (False, True):
            if smb_is_back:
                old.nfs.refuse()
                old.nfs.cut()
                old.smb.accept()
            wait_until(lambda: m.status()["state"] == "source-lost", 60, "the loss")
            with pytest.raises(NfsError) as err:
                c.getattr("away/f")
            assert err.value.status == errors.JUKEBOX and ntacl(m, "away/f") is None
        old.nfs.accept()
        a = c.patient(30).getattr("away/f")
    assert (a.uid, a.mode & 0o7777) == (ALICE, 0o640) and names(ntacl(m, "away/f"), "alice")
    the_end(m, crawler, complete=True)
    assert not_joined(m) == []


# -- clients of the new server ------------------------------------------------------------------

class Doing(threading.Thread):
    """A client's call that waits for its answer."""

    def __init__(self, call, *args):
        super().__init__(daemon=True)
        self.call, self.args, self.error = call, args, None
        self.start()

    def run(self):
        try:
            self.call(*self.args)
        except Exception as err:            # told by finish()
            self.error = err

    def finish(self):
        self.join(60)
        assert not self.is_alive() and self.error is None, self.error


@pytest.fixture
def new_smbd(new_samba):
    """make(m): an smbd with our module beside m's Ganesha; ends with the test."""
    made = []

    def make_one(m):
        made.append(new_samba("new-%s" % m.workdir.name, module_dir=MODULES,
                              shares=[Share(str(m.volume), vfs=STACK)]))
        return made[-1]

    yield make_one
    for server in made:
        server.stop()


def dacl(raw):
    return ndr_pack(ndr_unpack(security.descriptor, raw).dacl)


def by_nfs(m, do):
    with m.client("v3", patience=60) as c:
        do(c.patient(60))


def test_what_clients_change_meanwhile_stays(old, migrate, new_smbd):
    """Modes, descriptors, bytes and names of objects whose SMB half has not come."""
    for name in ("mode", "acl", "bytes", "name", "size", "gone"):
        path = old.file("change/" + name, mode=0o640)
        os.setxattr(path, "user.DosStream.s:$DATA", b"stream\0")
    m = migrate().start()
    smbd_of_m = new_smbd(m)
    crawler = listed(m, old, "change", 6)
    raw = descriptor("D:P(A;;FA;;;{bob})(A;;FR;;;{carol})")

    def set_acl():
        with smbd_of_m.client(timeout=300) as c:
            try:
                c.set_security("change/acl", raw, parts_of(raw))
                return True
            except SmbError as err:
                assert err.status == "NETWORK_BUSY"     # it waits for some time only
                return False

    doing = [Doing(wait_until, set_acl, 60, "the descriptor")] + [Doing(by_nfs, m, do) for do in (
        lambda c: c.setattr("change/mode", mode=0o600),
        lambda c: c.write("change/bytes", 2, b"XY"),
        lambda c: c.rename("change/name", "change/renamed"),
        lambda c: c.setattr("change/size", size=2),
        lambda c: c.remove("change/gone"))]
    # They have been asked for, and nothing has come.  In one directory look-ups wait in turn.
    with m.client(patience=0, timeout=120) as c:
        with pytest.raises(NfsError) as err:
            c.getattr("change/mode")
        assert err.value.status == errors.JUKEBOX
    assert all(d.is_alive() for d in doing[:3]), [d.error for d in doing]
    old.smb.accept()
    for d in doing:
        d.finish()
    the_end(m, crawler, complete=True)
    assert not_joined(m) == []
    top = m.volume / "change"
    assert sorted(os.listdir(top)) == ["acl", "bytes", "mode", "renamed", "size"]
    assert {n: os.stat(top / n).st_mode & 0o7777 for n in ("mode", "bytes", "renamed")} == {
        "mode": 0o600, "bytes": 0o640, "renamed": 0o640}
    assert {n: (top / n).read_bytes() for n in ("mode", "bytes", "renamed", "size")} == {
        "mode": b"12345", "bytes": b"12XY5", "renamed": b"12345", "size": b"12"}
    with smbd_of_m.client() as c:
        shown = c.security("change/acl", wire.DACL)
    assert dacl(shown) == dacl(raw)
    for name in os.listdir(top):
        assert xattr(top / name, "user.DosStream.s:$DATA") == b"stream\0", name
        assert names(ntacl(m, "change/" + name), "alice"), name
