# SPDX-License-Identifier: GPL-3.0-or-later
"""A migration from an SMB server brings over all that SMB knows: a stock smbd on the
volume shows what the old one did, and what cannot be kept is named."""
import os
import subprocess
import time

import pytest

from lib import smbtree
from lib.smbgate import SmbGate
from lib.smbsource import IDMAP, PATIENT, with_worker
from lib.smbtree import Builder, compare
from lib.wait import wait_until
from test_smb_meta import VERBOSE, build_access

pytestmark = with_worker

SHOWN = smbtree.RAW_NAMES + "\nveto files = /.postcopy/"


@pytest.fixture(scope="module")
def server(new_samba, tree):
    return new_samba("old", tree, more=smbtree.RAW_NAMES)


@pytest.fixture(scope="module")
def old(server):
    with server.client() as c:
        Builder(c, entries=50, deep=5).build()
        build_access(c)
        yield c


@pytest.fixture(scope="module")
def done(make, server, old):
    m = make(server.url()).init().start()
    m.crawl()
    m.audit(complete=True)
    return m


def lost(m):
    return [line for line in m.log.read_text().splitlines() if ": not kept: " in line]


def test_everything_comes_over(new_samba, old, done):
    """Descriptors byte for byte, streams, EAs, DOS attributes, times to 100 ns."""
    new = new_samba("new", done.volume, more=SHOWN, conf=VERBOSE, allow=["HAVE_BACKTRACE"])
    counts = {}
    with new.client() as c:
        found = [str(d) for d in compare(old, c, counts=counts)]
    assert not found, "\n".join(found)
    assert counts["objects"] > 200
    log = new.log_text()
    assert log.count("blob hash matches for file") >= counts["objects"]
    assert "blob hash does not match" not in log
    assert not lost(done) and done.status()["metadata_lost"] == 0


def test_owners_and_modes_over_nfs(done):
    """What a descriptor stands for, by the table of identities."""
    with done.client("v3") as c:
        attr = c.getattr("access/bobs")
        assert (attr.uid, attr.gid, attr.mode & 0o7777) == (70002, 70010, 0o740)
        attr = c.getattr("access/dir-staff-modify")
        assert (attr.uid, attr.gid) == (0, 0) and attr.mode & 0o7007 == 0


def test_a_name_that_is_looked_up_first_has_all(make, server, old):
    m = make(server.url()).init().start()
    with m.client("v3") as c:
        attr = c.getattr("access/bobs")
        assert (attr.uid, attr.gid, attr.mode & 0o7777) == (70002, 70010, 0o740)
    assert os.getxattr(m.volume / "access/bobs", "security.NTACL")
    m.crawl()
    m.audit(complete=True)


@pytest.mark.parametrize("credits", (2, 5, 6))
def test_few_credits(new_samba, make, tree, old, credits):
    """A server that takes few calls at once: not what three questions of two credits want."""
    few = new_samba("few%d" % credits, tree, more=smbtree.RAW_NAMES,
                    conf="smb2 max credits = %d" % credits)
    m = make(few.url(), call_timeout=PATIENT).init().start()
    m.crawl()
    m.audit(complete=True)
    assert m.status()["source_reconnects"] == 0
    new = new_samba("of-few%d" % credits, m.volume, more=SHOWN)
    with new.client() as c:
        assert not [str(d) for d in compare(old, c)]


def test_without_the_right_to_audit_entries(new_samba, make, tree, old):
    """All but the SACL is kept."""
    blind = new_samba("blind", tree, more=smbtree.RAW_NAMES)
    blind.tool("net", "sam", "rights", "revoke", "root", "SeSecurityPrivilege")
    m = make(blind.url()).init().start()
    m.crawl()
    m.audit(complete=True)
    new = new_samba("new-blind", m.volume, more=SHOWN)
    with new.client() as c:
        found = list(compare(old, c))
    assert {d.path for d in found if d.field == "sacl"} >= {
        "descriptors/audit", "descriptors/dir-audit-protected", "inherit"}
    assert all(d.field in ("sacl", "control") for d in found), "\n".join(map(str, found))


def test_what_cannot_be_kept_is_named(make, server, old):
    """ext4 keeps 4 KiB for each file: the object comes over, and the log says without what."""
    m = make(server.url(), "ext4").init().start()
    m.crawl()
    m.audit(complete=True)
    told = lost(m)
    assert m.status()["metadata_lost"] == len(told)
    assert any('"descriptors/large": not kept: security descriptor: ' in line for line in told)
    assert any('"streams/large": not kept: stream large: ' in line for line in told)
    assert not any('"descriptors/deny"' in line for line in told)
    mode = (m.volume / "descriptors/large").stat().st_mode
    assert mode & 0o707 == 0        # alice's entry, and its mask


def test_a_long_path_is_no_full_volume(new_samba, make, loop_xfs):
    """ext4 once more: the stub's record has its place beside the attributes, however long
    the path is."""
    top = loop_xfs.path / "deep"
    top.mkdir(mode=0o755)
    server = new_samba("deep", top, more=smbtree.RAW_NAMES)
    path = ""
    with server.client() as c:
        for level in "abcde":
            path += level * 192 + "/"       # Samba 4.22 makes directories under longer names
            c.mkdir(path.rstrip("/"))
        for n in range(1600, 3400, 200):
            c.write_file(path + "f%d" % n, b"content")
            c.write_file(path + "f%d:s" % n, b"s" * n)
    m = make(server.url(), "ext4").init().start()
    m.crawl()
    m.audit(complete=True)
    assert "takes no data" not in m.log.read_text()
    assert "stream s" in lost(m)[-1] and m.status()["volume_error"] == ""
    here = m.volume / path
    assert len(os.getxattr(here / "f1600", "user.DosStream.s:$DATA")) == 1601
    assert all((here / ("f%d" % n)).read_bytes() == b"content" for n in range(1600, 3400, 200))


BACKUP_INTENT = 0x4000
UNSIGNED = "smb_signing = desired\n"     # the gate answers in the server's name


def streams_of(path):
    return {name for name in os.listxattr(path) if name.startswith("user.DosStream.")}


def test_streams_that_only_a_backup_may_read(make, server, old):
    """Windows lets those who make backups read what they have no right to, if they say so."""
    with SmbGate(server) as gate:
        gate.refusal = lambda name, options: 0xc0000022 * (      # ACCESS_DENIED
            ":" in name and not options & BACKUP_INTENT)
        gate.unseen = BACKUP_INTENT     # Samba 4.22 opens no stream with it
        m = make(gate.url(), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(complete=True)
        assert gate.refused
        assert m.status()["source_reconnects"] == 0
    assert len(streams_of(m.volume / "streams/odd-names")) == 5


NO_DESCRIPTOR = b"\1\0\0\x90" + bytes(16)      # no owner, no group, no list


def test_a_server_that_knows_no_auditing_entries(make, server, old):
    """ksmbd leaves out whose it is and who may do what, too, if it is asked for them."""
    seen = []

    def answer(parts, said):
        seen.append(parts)
        return NO_DESCRIPTOR if parts & smbtree.WHOLE & ~7 else said
    with SmbGate(server) as gate:
        gate.security = answer
        m = make(gate.url(), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(complete=True)
    plain = make(server.url(), call_timeout=PATIENT).init().start()
    plain.crawl()
    assert set(seen) == {7, 15}
    assert access(m.volume) == access(plain.volume)


def access(volume):
    """{path: who may do what} of all objects."""
    found = {}
    for path in volume.rglob("*"):
        if ".postcopy" not in path.parts:
            facts = path.lstat()
            found[path.relative_to(volume)] = [facts.st_uid, facts.st_gid, facts.st_mode] + [
                os.getxattr(path, name) for name in sorted(os.listxattr(path))
                if name.startswith("system.posix_acl")]
    return found


def test_a_server_that_says_nothing_of_access(make, server, old):
    """Taken at its word everybody might do everything."""
    with SmbGate(server) as gate:
        gate.security = lambda parts, said: NO_DESCRIPTOR
        answer = make(gate.url(), conf=UNSIGNED).init(check=False)
    assert answer["exit"] != 0 and "what belongs to its root" in answer["message"], answer


def test_a_volume_is_made_of_a_slow_server(make, server, old):
    """Six seconds for each try to read what belongs to the root."""
    asked = []

    def late(name, options):
        if name == "" and options & BACKUP_INTENT:
            asked.append(time.sleep(6))
        return 0
    with SmbGate(server) as gate:
        gate.refusal = late
        make(gate.url(), conf=UNSIGNED).init()
    assert asked


def test_a_call_that_the_server_does_not_know(make, server, old):
    """It says so of one object: that one is parked, with what was said in the log, and its
    connection stays."""
    with SmbGate(server) as gate:
        gate.refusal = lambda name, options: 0xc00000bb * (      # NOT_SUPPORTED
            name == "streams\\several:b:$DATA")
        m = make(gate.url(), conf=UNSIGNED + "max_tries = 1\n",
                 call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(parked=1)
        assert m.tool("parked", m.volume)["parked"][0]["path"] == "streams/several"
        told = [line for line in m.log.read_text().splitlines()
                if "source " in line and "streams/several" in line]
        assert told and all("NT_STATUS_NOT_SUPPORTED" in line for line in told), told
        assert m.status()["source_reconnects"] == 0
        gate.refusal = None
        m.postcopy("retry", m.volume)
        m.crawl()
        m.audit(complete=True)
    assert len(streams_of(m.volume / "streams/several")) == 3


def test_a_damaged_idmap_is_told_and_waited_for(moddir, make, server, old):
    idmap = moddir / "own-idmap"
    idmap.write_text(IDMAP)
    m = make(server.url(), idmap=idmap).init()
    idmap.write_text("uid 5 alice\n")
    answer = make(server.url(), idmap=idmap).init(check=False)
    assert answer["exit"] != 0 and "own-idmap line 1: 'alice' is no SID" in str(answer), answer
    m.start_retriever()
    wait_until(lambda: "line 1: 'alice' is no SID" in str(m.status()), 30, "the reason")
    idmap.write_text(IDMAP)
    m.server.start()
    m.crawl()
    m.audit(complete=True)
    stat = (m.volume / "access/bobs").stat()
    assert (stat.st_uid, stat.st_gid) == (70002, 70010)
    subprocess.run(["getfattr", "-n", "security.NTACL", m.volume / "access/bobs"], check=True,
                   capture_output=True)


def test_a_file_with_too_many_streams_is_parked(new_samba, make, loop_xfs):
    """More than one answer holds: told with its reason, and the others come over."""
    top = loop_xfs.path / "streams"
    top.mkdir(mode=0o755)
    for name, count in (("many", 300), ("some", 30)):
        (top / name).write_bytes(b"data")
        for i in range(count):
            os.setxattr(top / name, "user.DosStream.s%03d:$DATA" % i, b"%03d" % i * 20000 + b"\0")
    m = make(new_samba("streams", top).url(), allow=[" error: "]).init().start_retriever()
    m.start_crawler()
    wait_until(lambda: m.status()["parked"] == 1 and not m.status()["pending"], 120, "the end")
    assert 'streams of "many": more than 16 MiB of them' in m.log.read_text()
    some = os.listxattr(m.volume / "some")
    assert len([name for name in some if name.startswith("user.DosStream.")]) == 30
    assert os.getxattr(m.volume / "some", "user.DosStream.s007:$DATA") == b"007" * 20000 + b"\0"
