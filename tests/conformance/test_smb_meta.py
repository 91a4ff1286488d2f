# SPDX-License-Identifier: GPL-3.0-or-later
"""What is stored of an SMB file is what a stock smbd then shows, and POSIX lets nobody do more.

The old server's tree is read over SMB, stored by tests/tools/smbmeta (the code of the
retriever's worker) on files that another stock smbd exports, and read again.  No part
of the migration runs here.
"""
import os
import re
import subprocess

import pytest

from lib import smbd, smbtree
from lib.programs import BUILD
from lib.smbsource import IDMAP
from lib.smbtree import WHOLE, Builder, compare, descriptor
from smb2client import SmbError, wire
from samba import NTSTATUSError
from samba.dcerpc import security
from samba.ndr import ndr_unpack
from samba.security import access_check

TOOL = BUILD / "tests/tools/smbmeta"
# The messages of acl_xattr on hashes are of no class of their own, at the highest level.
VERBOSE = "log level = 10 " + " ".join(
    "%s:1" % c for c in ("vfs", "smb", "smb2", "auth", "passdb", "locking", "tdb", "acls", "sam",
                         "idmap", "rpc_parse"))

# More that decides on access; {alice} and {bob} are in group 70010, {carol} is not.
STAFF = "S-1-22-2-70010"
ACCESS = {
    "staff-modify": "D:P(A;OICI;0x1301bf;;;%s)" % STAFF,
    "staff-modify-here": "D:P(A;;0x1301bf;;;%s)(A;;FA;;;{alice})" % STAFF,
    "staff-denied": "D:P(D;;FW;;;%s)(A;;FA;;;WD)" % STAFF,
    "bob-denied": "D:P(D;;FR;;;{bob})(A;;FA;;;%s)(A;;FR;;;WD)" % STAFF,
    "order": "D:P(A;;FR;;;WD)(D;;FA;;;{bob})(A;;FA;;;{carol})",
    "write-only": "D:P(A;;FW;;;{bob})(A;;FX;;;{carol})(A;;FA;;;{alice})",
    "append-only": "D:P(A;;0x4;;;WD)(A;;FR;;;WD)",
    "owner-rights": "O:{alice}D:P(A;;FR;;;S-1-3-4)(A;;FA;;;%s)" % STAFF,
    "authenticated": "D:P(A;OICI;0x1200a9;;;AU)(A;OICIIO;FA;;;CO)",
    "ghost-denied": "D:P(D;;FW;;;{nobody}-5)(A;;FA;;;WD)",
    "generic": "D:P(A;;GR;;;{bob})(A;;GA;;;{carol})",
    "bobs": "O:{bob}G:%sD:P(A;;FA;;;{bob})(A;;FR;;;%s)" % (STAFF, STAFF),
}


def build_access(c):
    """A file and a directory of each."""
    c.mkdir("access")
    for name, sddl in ACCESS.items():
        c.write_file("access/" + name, b"12345")
        c.mkdir("access/dir-" + name)
        for path in ("access/" + name, "access/dir-" + name):
            raw = descriptor(sddl)
            c.set_security(path, raw, smbtree.parts_of(raw))


def store(path, raw, tmp, idmap=None, **more):
    """Run the tool; its lines."""
    (tmp / "sd").write_bytes(raw)
    argv = [TOOL, "-d", tmp / "sd"]
    if idmap:
        argv += ["-m", idmap]
    for name, value in more.items():
        for i, (stream, data) in enumerate(value.items() if isinstance(value, dict) else ()):
            (tmp / ("%s%d" % (name, i))).write_bytes(data)
            argv += ["-" + name, "%s=%s" % (stream, tmp / ("%s%d" % (name, i)))]
        if value is True:
            argv.append("-" + name)
        elif isinstance(value, int):
            argv += ["-" + name, str(value)]
    done = subprocess.run([*argv, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class Mirror:
    """Stores what a client sees in another directory; lost: {path: lines}."""

    def __init__(self, client, top, tmp, idmap):
        self.client, self.top, self.tmp, self.idmap = client, top, tmp, idmap
        self.lost, self.objects = {}, 0

    def copy(self, path=""):
        with self.client.open(path, smbtree.READ_ALL) as f:
            info, streams, raw = f.info(), f.streams(), f.security(WHOLE)
            eas = f.eas() if info.ea_size else {}    # names are bytes
        there = self.top / path
        contents = {name: self.client.read_file(path + name) if size else b""
                    for name, size in streams.items() if name != "::$DATA"}
        if info.directory:
            there.mkdir(exist_ok=True)
            for entry in self.client.listdir(path):
                self.copy(path + "/" + entry.name if path else entry.name)
        else:
            there.write_bytes(self.client.read_file(path) if info.size else b"")
        # a directory last: what is made in it takes its default ACL, and its time
        lines = store(there, raw, self.tmp, self.idmap, a=info.attributes, c=info.created,
                      w=info.written, t=info.accessed, x=info.changed, s=contents,
                      e={os.fsdecode(name): value for name, value in eas.items()})
        lost = [line for line in lines if line.startswith("lost")]
        if lost:
            self.lost[path] = lost
        self.objects += 1


@pytest.fixture(scope="module")
def tmp(moddir):
    path = moddir / "tmp"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def idmap(tmp):
    (tmp / "idmap").write_text(IDMAP)
    return tmp / "idmap"


@pytest.fixture(scope="module")
def servers(new_samba, loop_xfs):
    for name in ("old", "new"):
        (loop_xfs.path / name).mkdir()
        (loop_xfs.path / name).chmod(0o755)
    return {name: new_samba(name, loop_xfs.path / name, more=smbtree.RAW_NAMES, conf=conf,
                            allow=["HAVE_BACKTRACE"])     # told of how smbd was built
            for name, conf in (("old", ""), ("new", VERBOSE))}


@pytest.fixture(scope="module")
def quiet(new_samba, loop_xfs, servers):
    """The new server's files once more, without the log."""
    return new_samba("quiet", loop_xfs.path / "new", more=smbtree.RAW_NAMES)


@pytest.fixture(scope="module")
def old(servers):
    with servers["old"].client() as c:
        Builder(c, entries=10, deep=4).build()
        build_access(c)
        yield c


@pytest.fixture(scope="module")
def mirror(old, loop_xfs, tmp, idmap):
    m = Mirror(old, loop_xfs.path / "new", tmp, idmap)
    m.copy()
    return m


def test_everything_is_shown_as_it_was(servers, old, mirror):
    """Descriptors byte for byte, streams, EAs, DOS attributes, times to 100 ns."""
    with servers["new"].client() as new:
        counts = {}
        found = [str(d) for d in compare(old, new, counts=counts)]
    assert not found, "\n".join(found)
    assert not mirror.lost
    assert counts["objects"] == mirror.objects > 150
    log = servers["new"].log_text()
    assert len(re.findall("blob hash matches for file", log)) >= mirror.objects
    assert "blob hash does not match" not in log
    assert "ACL validation for" not in log and "parse_acl_blob returned" not in log


def test_the_proof_sees_a_fall_back(servers, old, mirror, loop_xfs):
    """A mode changed by others: the descriptor is not taken, and the log says so."""
    path = loop_xfs.path / "new/access/order"
    mode = path.stat().st_mode
    path.chmod(0o600)
    with servers["new"].client() as new:
        assert any(d.field == "dacl" for d in compare(old, new, "access/order"))
    assert "blob hash does not match for file access/order" in servers["new"].log_text()
    path.chmod(mode)
    with servers["new"].client() as new:
        assert not list(compare(old, new, "access/order"))


def test_children_inherit_once(servers, old, mirror):
    """Made on both sides: the same; and what was there has not inherited again."""
    with servers["new"].client() as new:
        for c in (old, new):
            for top in ("inherit", "inherit/dir", "access/dir-authenticated"):
                c.write_file(top + "/later", b"x")
                c.mkdir(top + "/later-dir")
                c.write_file(top + "/later-dir/later", b"x")
        for top in ("inherit", "access/dir-authenticated"):
            found = [str(d) for d in compare(old, new, top)
                     if d.field not in ("written", "created")]
            assert not found, "\n".join(found)
        raw = new.security("inherit/later", WHOLE)
        assert raw == old.security("inherit/later", WHOLE)
        assert raw != new.security("inherit", WHOLE)


def may(client, path, access):
    try:
        client.open(path, access).close()
        return True
    except SmbError as err:
        assert err.status == "ACCESS_DENIED", err
        return False


def nt_may(raw, user, access):
    """As the descriptor says, judged by Samba: an smbd that is asked needs the disk's consent."""
    token = security.token()
    gids = [gid for gid, members in smbd.GROUPS.values() if user in members]
    sids = [smbtree.sid(user), *("S-1-22-2-%d" % gid for gid in [smbd.USERS[user][1], *gids]),
            "S-1-1-0", "S-1-5-2", "S-1-5-11", "S-1-5-32-545"]
    token.num_sids = len(sids)
    token.sids = [security.dom_sid(s) for s in sids]
    try:
        access_check(ndr_unpack(security.descriptor, raw), token, access)
        return True
    except NTSTATUSError:
        return False


def posix_may(path, user, flags):
    """As the kernel judges, in a child that is that user."""
    uid, gid, _ = smbd.USERS[user]
    groups = [g for g, members in smbd.GROUPS.values() if user in members]
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            os._exit(0 if os.access(path, flags) else 1)
        except BaseException:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 1)
    return status == 0


RIGHTS = {
    os.R_OK: wire.READ_DATA | wire.READ_EA,
    os.W_OK: wire.WRITE_DATA | wire.APPEND | wire.WRITE_EA | wire.WRITE_ATTRIBUTES,
    os.X_OK: wire.EXECUTE,
}


@pytest.mark.parametrize("user", ["alice", "bob", "carol"])
def test_posix_gives_nothing_more(old, mirror, loop_xfs, user):
    """Whoever may do something on the disk may by the descriptor, or owns it; and not nothing."""
    granted = missed = 0
    for top in ("access", "descriptors", "inherit"):
        for path in sorted((loop_xfs.path / "new" / top).iterdir()):
            raw = old.security("%s/%s" % (top, path.name))
            for flag, right in RIGHTS.items():
                posix, nt = posix_may(path, user, flag), nt_may(raw, user, right)
                owner = path.stat().st_uid == smbd.USERS[user][0] and \
                    nt_may(raw, user, wire.WRITE_DAC)
                assert nt or owner or not posix, (path, user, flag)
                granted += posix
                missed += nt and not posix
    print("%s: granted %d, missed %d" % (user, granted, missed))
    assert granted > 20
    assert missed < granted


OPENS = {
    "read": wire.READ_DATA, "write": wire.WRITE_DATA | wire.APPEND, "look": wire.READ_ATTRIBUTES,
    "descriptor": wire.READ_CONTROL, "change": wire.WRITE_DAC, "delete": wire.DELETE,
}


# smbd works on files as the user: what POSIX cannot say is missing over SMB, too.
LESS = {
    "alice": {"access/ghost-denied": "write",           # may be in a denied group
              "access/owner-rights": "write",           # as a user; not what her groups may
              "descriptors/unknown": "write",           # as the first
              "descriptors/single-rights": "read",      # without READ_EA
              "descriptors/dir-single-rights": "read"},
    "bob": {"access/ghost-denied": "write",
            "access/bob-denied": "write"},              # as a user; not what his groups may
    "carol": {"access/ghost-denied": "write"},
}
CLOSED = "inherit/"     # nobody but alice may pass: see test_bypass_traverse_checking


@pytest.mark.parametrize("user", ["alice", "bob", "carol"])
def test_smb_users_work_as_before(servers, quiet, old, mirror, loop_xfs, user):
    """More than before only where the old smbd gave less than the descriptor."""
    less, same = {}, 0
    with servers["old"].client(user) as was, quiet.client(user) as is_:
        for top in ("access", "descriptors", "inherit"):
            for path in sorted((loop_xfs.path / "new" / top).iterdir()):
                name = "%s/%s" % (top, path.name)
                for what, access in OPENS.items():
                    before, now = may(was, name, access), may(is_, name, access)
                    same += before == now
                    if now and not before:
                        assert nt_may(old.security(name), user, access), (name, what)
                    if before and not now and not name.startswith(CLOSED):
                        less[name] = what
    assert less == LESS[user]
    assert same > 280


def test_bypass_traverse_checking(new_samba, loop_xfs, tmp, idmap):
    """What is below a directory where one has no rights is in reach with -T, and its names are not."""
    top = loop_xfs.path / "traverse"
    raw = {"closed": descriptor("O:{alice}D:P(A;;FA;;;{alice})"),
           "open": descriptor("O:{alice}D:P(A;;FA;;;{alice})(A;;FR;;;{bob})")}
    for flag in (True, False):
        closed = top / str(flag) / "closed"
        closed.mkdir(parents=True)
        (closed / "open").write_bytes(b"below")
        store(closed / "open", raw["open"], tmp, idmap)
        store(closed, raw["closed"], tmp, idmap, **({"T": True} if flag else {}))
    server = new_samba("traverse", top)
    with server.client("bob") as c:
        assert c.read_file("True/closed/open") == b"below"
        with pytest.raises(SmbError, match="ACCESS_DENIED"):
            c.names("True/closed")
        assert not may(c, "False/closed/open", wire.READ_DATA)
    with server.client("carol") as c:
        assert not may(c, "True/closed/open", wire.READ_DATA)
    with server.client() as c:      # it is a part of what the hash is over
        assert c.security("True/closed") == c.security("False/closed") == raw["closed"]


def test_a_group_works_together(new_samba, loop_xfs, tmp, idmap):
    """Modify for a group, as most shares have it: members rename and remove each other's files."""
    top = loop_xfs.path / "together"
    modify = "D:P(A;OICI;0x1301bf;;;%s)" % STAFF
    for name, flags in (("loose", {}), ("strict", {"S": True})):
        (top / name).mkdir(parents=True)
        store(top / name, descriptor(modify), tmp, idmap, **flags)
    store(top, descriptor("D:P(A;;FA;;;WD)"), tmp, idmap)
    server = new_samba("together", top)
    with server.client("alice") as alice, server.client("bob") as bob:
        for name in ("loose", "strict"):
            alice.write_file(name + "/removed", b"1")
            alice.write_file(name + "/renamed", b"2")
            bob.remove(name + "/removed")
        bob.write_file("loose/renamed", b"bob's")
        bob.rename("loose/renamed", "loose/anew")
        assert alice.read_file("loose/anew") == b"bob's"
        with pytest.raises(SmbError, match="ACCESS_DENIED"):    # the price of it
            bob.rename("strict/renamed", "strict/anew")
    with server.client("carol") as carol:
        assert not may(carol, "loose/anew", wire.READ_DATA)


def test_what_does_not_fit_is_named(new_volume, new_samba, tmp, idmap):
    """ext4 as Debian makes it: all attributes of a file in 4 KiB; nothing is dropped silently."""
    top = new_volume("ext4", "1G").path / "share"
    top.mkdir(mode=0o755)
    large = descriptor("O:{alice}D:P(A;;FA;;;{alice})" +
                       "".join("(A;;FR;;;{nobody}-%d)" % n for n in range(200)))
    small = descriptor("O:{alice}D:P(A;;FA;;;{alice})(A;;FR;;;{bob})")
    (top / "large").touch()
    (top / "small").touch()
    lines = store(top / "large", large, tmp, idmap, s={"a": b"1" * 2000, "b": b"2" * 3000})
    lost = [line for line in lines if line.startswith("lost")]
    assert [line.split(":")[0] for line in lost] == ["lost security descriptor", "lost stream b"]
    lines = store(top / "small", small, tmp, idmap, s={"a": b"1" * 2000, "b": b"2" * 3000})
    assert [line for line in lines if line.startswith("lost")] == [
        "lost stream b: 3001 bytes are more than the new file system or Samba takes"]
    server = new_samba("ext4", top)
    with server.client() as c:
        assert c.security("small") == small
        for name in ("small", "large"):
            assert c.streams(name)[":a:$DATA"] == 2000
            assert c.read_file(name + ":a") == b"1" * 2000
        # without its descriptor: what POSIX says, which is no more
        assert c.security("large") != large
    with server.client("carol") as c:
        assert not may(c, "large", wire.READ_DATA)
    with server.client("alice") as c:
        assert may(c, "large", wire.READ_DATA)
