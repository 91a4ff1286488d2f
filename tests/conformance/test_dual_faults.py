# SPDX-License-Identifier: GPL-3.0-or-later
"""Two sources of one tree that disagree, or of which one is away, in mid-migration: no
object gets what another one's descriptor or streams say, and what clients change stays."""
import os
import struct

import pytest

import smbd
from nfsclient.proxy import Proxy
from servers import Export
from smbgate import SmbGate
from smbsource import make, tree, with_module  # noqa: F401

pytestmark = with_module

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
    return new_server("old", exports=[export]), new_samba("old-smb", tree)


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
    """Another file comes in its place after the first of its streams was read."""
    for name, mark in (("f", b"ours"), ("other", b"theirs")):
        path = old.file("streams/" + name)
        for stream in ("one", "two"):
            os.setxattr(path, "user.DosStream.%s:$DATA" % stream, mark + b"\0")
    ours, theirs = old.top / "streams/f", old.top / "streams/other"
    old.smb.before("streams/f:two:$DATA", lambda: os.rename(theirs, ours))
    m = migrate(joined).start()
    m.server.allow = ["converted to NFS3ERR_IO"]
    m.crawl()
    assert not theirs.exists()
    kept = [xattr(m.volume / "streams/f", "user.DosStream.%s:$DATA" % s) for s in ("one", "two")]
    assert kept in ([b"ours\0", b"ours\0"], [None, None]), kept
    m.audit(parked=1 if joined else 2)      # over SMB the other one has gone, too


