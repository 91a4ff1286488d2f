# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup that is also shared over SMB: what only SMB carries is the same over there, too: DOS attributes,
creation times, streams, extended attributes and descriptors of Windows."""
import contextlib
import json
import os
import subprocess
import time

import pytest

from lib import smbtree
from lib.mirror import ATTRS, Changes, Mirror, finished
from lib.mirror import make as make_mirror
from lib.programs import MODULES, POSTCOPY, WORKER
from lib.smbd import PASSWORD, STACK, Samba, Share
from lib.smbsource import IDMAP, with_module
from lib.smbtree import Builder, compare, descriptor
from lib.wait import wait_until
from smb2client import wire

pytestmark = with_module

ACCESS = "system.posix_acl_access"
MORE = smbtree.RAW_NAMES + "\nveto files = /.postcopy/\nhide files = /.postcopy-aside-*/"


def mirror_conf(home):
    """Lines of the settings: the account at the share, and the worker."""
    login, idmap = home / "login", home / "idmap"
    login.write_text("username = root\npassword = %s\n" % PASSWORD)
    login.chmod(0o600)
    idmap.write_text(IDMAP)
    return 'smb_credentials = "%s"\nsmb_worker = "%s"\nsmb_idmap = "%s"\n' % (login, WORKER, idmap)


class Shared:
    """A volume, its mirror, and their shares: `new` with our module, `old` without."""

    def __init__(self, top, home, new_server, volume):
        self.home, self.tree, self.volume = home, top / "mirror", volume
        self.tree.mkdir()
        self.server = new_server(home.name + "-target", tree=str(self.tree))
        self.smbd = Samba(home / "mirror-smb", str(self.tree), more=MORE)
        self.new = Samba(home / "new-smb", module_dir=MODULES, allow=["HAVE_BACKTRACE"],
                         shares=[Share(str(self.volume), vfs=STACK, more=MORE)])
        self.mirror = None

    def begin(self):
        make_mirror(self.volume, self.server.url(), smb=self.smbd.url())
        self.mirror = Mirror(self.home / "mirror", self.volume, mirror_conf(self.home)).start()
        return self

    def equal(self, path="", same_trees=True):
        """Both shares say the same, and the trees below are, too."""
        self.mirror.drained()
        counts = {}
        with self.new.client() as new, self.smbd.client() as old:
            found = [str(d) for d in compare(new, old, path, counts=counts)
                     if not (d.field == "extra" and d.path.startswith(".postcopy-aside-"))]
        assert found == [], "\n".join(found[:40])
        if same_trees:
            assert not self.mirror.differences(self.tree)
        return counts["objects"]

    def verified(self, **how):
        self.mirror.ask("verify", **how)
        wait_until(lambda: self.mirror.ask("verified")["verify"] != "running", 120, "verify")
        return self.mirror.ask("verified")


def empty_volume(top, workdir):
    """One to which all has come, and is gone: what no SMB client has touched has no creation time for Samba."""
    volume, old = top / "volume", top / "before"
    for path in (volume, old):
        path.mkdir(parents=True)
    (old / "first").write_bytes(b"from the old server")
    finished(workdir, volume, old)
    (volume / "first").unlink()
    return volume


@contextlib.contextmanager
def shared(top, home, new_server, volume):
    home.mkdir()
    s = Shared(top, home, new_server, volume)
    with s.smbd, s.new:
        try:
            yield s.begin()
        finally:
            if s.mirror:
                s.mirror.stop()


@pytest.fixture(scope="module")
def disk(new_volume):
    """Of the volume and the mirror of `s`, and nobody else's."""
    return new_volume("xfs")


@pytest.fixture(scope="module")
def s(disk, moddir, workdir, new_server):
    with shared(disk.path, moddir / "s", new_server, empty_volume(disk.path, workdir)) as made:
        yield made


class Ground:
    """A directory of a test's own."""

    def __init__(self, s, client):
        self.s, self.client = s, client
        self.top = "t%d" % len(os.listdir(s.volume))
        client.mkdir(self.top)

    def __call__(self, name):
        return "%s/%s" % (self.top, name)

    def equal(self):
        self.s.equal(self.top)


@pytest.fixture
def at(s):
    with s.new.client() as client:
        ground = Ground(s, client)
        yield ground
        ground.equal()


def test_all_that_smb_carries(s, monkeypatch):
    """One of each kind, made by an administrator; and a full comparison finds the same.  NFSv3 has no
    times before 1970."""
    monkeypatch.setattr(smbtree, "TIMES", {k: v for k, v in smbtree.TIMES.items() if k != "1960"})
    with s.new.client() as c:
        Builder(c, entries=30, deep=5).build()
    assert s.equal() > 150
    status = s.mirror.status()
    assert status["not_mirrored"] == [] and status["smb"] == s.smbd.url(), status
    assert status["smb_left_out_total"] == 0 and not status["parked"], status
    found = s.verified()
    assert found["different"] == 0 and found["objects"] > 150, found


def test_all_that_came_from_windows(new_samba, make, tree, loop_xfs, moddir, new_server, monkeypatch):
    """Descriptors that the migration has stored: their modes are not those that a Samba makes of them, and who may do
    what is said by the descriptor all the same."""
    monkeypatch.setattr(smbtree, "TIMES", {k: v for k, v in smbtree.TIMES.items() if k != "1960"})
    source = new_samba("source", tree, more=smbtree.RAW_NAMES)
    with source.client() as c:
        Builder(c, entries=10, deep=3).build()
    m = make(source.url()).init()
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    m.stop()
    (loop_xfs.path / "windows").mkdir()
    with shared(loop_xfs.path / "windows", moddir / "windows", new_server, m.volume) as w:
        w.mirror.drained()
        with source.client() as was, w.smbd.client() as there:
            found = [str(d) for d in compare(was, there)
                     if not (d.field == "extra" and d.path.startswith(".postcopy-aside-"))]
        assert found == [], "\n".join(found[:40])
        verified = w.verified()
        assert verified["different"] == 0 and verified["objects"] > 120, verified
        before = w.mirror.status()["objects_total"]
        w.mirror.ask("walk")
        wait_until(lambda: w.mirror.status()["objects_total"] > before + 120, 120, "one more comparison of all")
        w.mirror.drained()
        with source.client() as was, w.smbd.client() as there:
            assert [str(d) for d in compare(was, there, "descriptors")] == []


def the(c, name, access, change):
    with c.open(name, access | wire.READ_ATTRIBUTES) as f:
        change(f)


CHANGES = {
    "hide": lambda c, f: the(c, f, wire.WRITE_ATTRIBUTES, lambda o: o.set_basic(attributes=wire.ATTR_HIDDEN)),
    "read only": lambda c, f: the(c, f, wire.WRITE_ATTRIBUTES,
                                  lambda o: o.set_basic(attributes=wire.ATTR_READONLY)),
    "born": lambda c, f: the(c, f, wire.WRITE_ATTRIBUTES, lambda o: o.set_basic(created=smbtree.EPOCH + 12345)),
    "ea": lambda c, f: the(c, f, wire.WRITE_EA, lambda o: o.set_ea(b"NEW", b"value")),
    "other ea": lambda c, f: the(c, f, wire.WRITE_EA, lambda o: o.set_ea(b"ONE", b"another value")),
    "no ea": lambda c, f: the(c, f, wire.WRITE_EA, lambda o: o.set_ea(b"ONE", b"")),
    "stream": lambda c, f: c.write_file(f + ":new", b"in a stream"),
    "longer stream": lambda c, f: c.write_file(f + ":s", b"longer than it was"),
    "shorter stream": lambda c, f: c.write_file(f + ":s", b""),
    "no stream": lambda c, f: c.remove(f + ":s"),
    "descriptor": lambda c, f: c.set_security(f, descriptor("D:P(A;;FA;;;{bob})(D;;FW;;;{carol})")),
    "owner": lambda c, f: c.set_security(f, descriptor("O:{alice}"), wire.OWNER),
}


@pytest.mark.parametrize("kind", ["file", "dir"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_change(at, what, kind):
    c, name = at.client, at("changed")
    if kind == "dir":
        c.mkdir(name)
    else:
        c.write_file(name, b"bytes")
    the(c, name, wire.WRITE_EA, lambda o: o.set_ea(b"ONE", b"value"))
    c.write_file(name + ":s", b"stream")
    c.set_security(name, descriptor("D:(A;;FA;;;{alice})(A;;FR;;;WD)"))
    at.equal()
    CHANGES[what](c, name)


def test_written_and_renamed_while_read_only(at):
    """What cannot be written over there, as it is, is changed all the same."""
    c, name = at.client, at("ro")
    c.write_file(name, b"bytes")
    c.write_file(name + ":s", b"stream")
    CHANGES["read only"](c, name)
    at.equal()
    the(c, name, wire.WRITE_ATTRIBUTES, lambda o: o.set_basic(attributes=wire.ATTR_NORMAL))
    c.write_file(name + ":s", b"another one")
    c.write_file(name + ":t", b"one more")
    CHANGES["read only"](c, name)
    c.mkdir(at("to"))
    c.rename(name, at("to/ro"))


def test_replaced(at):
    """Another file comes to the name: what the one before had stays with it, or goes."""
    c = at.client
    for name, user in (("a", "alice"), ("b", "bob")):
        c.write_file(at(name), name.encode())
        c.write_file(at(name) + ":of " + name, name.encode() * 100)
        c.set_security(at(name), descriptor("D:P(A;;FA;;;{%s})" % user))
    at.equal()
    c.rename(at("a"), at("b"), True)
    c.write_file(at("a"), b"new")


def test_mode_by_nfs_takes_the_descriptor_out_of_force(at):
    """Then the mode counts here, and over there."""
    c, name = at.client, at("mode")
    c.write_file(name, b"bytes")
    c.set_security(name, descriptor("D:P(A;;FA;;;{alice})"))
    at.equal()
    with Changes(at.s.volume) as changes:
        changes.around([(changes.at(name), ATTRS)], lambda: os.removexattr(changes.at(name), ACCESS))
        changes.chmod(name, 0o640)
        changes.chown(name, 1001, 1002)
    at.s.mirror.drained()
    st = os.stat(at.s.tree / name)
    assert (st.st_mode & 0o7777, st.st_uid, st.st_gid) == (0o640, 1001, 1002)
    c.set_security(name, descriptor("D:P(A;;FA;;;{bob})"))


def test_acl_in_another_order(at):
    """The kernel keeps the entries of users as they were stored; smbd sorts them, and the descriptor stays in force."""
    c, name = at.client, at("order")
    c.write_file(name, b"bytes")
    at.equal()
    at.s.mirror.ask("pause")
    c.set_security(name, descriptor("D:P(A;;FA;;;{alice})(A;;FR;;;{bob})(A;;FX;;;{carol})"))
    with Changes(at.s.volume) as changes:
        path = changes.at(name)
        acl = os.getxattr(path, ACCESS)
        entries = [acl[i:i + 8] for i in range(4, len(acl), 8)]
        users = [e for e in entries if e[0] == 2]
        assert len(users) > 1
        rest = [e for e in entries if e[0] > 2]
        other = acl[:4] + entries[0] + b"".join(reversed(users)) + b"".join(rest)
        assert len(other) == len(acl) and other != acl
        changes.around([(path, ATTRS)], lambda: os.setxattr(path, ACCESS, other))
        assert os.getxattr(path, ACCESS) == other
    at.s.mirror.ask("resume")


def test_changed_by_somebody_else(at):
    """It is found by a full comparison, and made equal by its repair."""
    s, name = at.s, at("theirs")
    at.client.write_file(name, b"bytes")
    at.client.write_file(name + ":s", b"stream")
    at.equal()
    with s.smbd.client() as foreign:
        foreign.write_file(name + ":s", b"written by somebody else")
        foreign.write_file(name + ":t", b"made by somebody else")
    found = s.verified()
    assert [d["what"] for d in found["differences"] if d["path"] == name] == ["other streams"], found
    s.verified(repair=True)


def test_what_smb_cannot_say(s):
    """It is mirrored over NFS, and counted."""
    name = "colon: in it"
    before = s.mirror.status()["smb_left_out_total"]
    with Changes(s.volume) as changes:
        changes.write(name, b"bytes")
        s.mirror.drained()
        assert (s.tree / name).read_bytes() == b"bytes"
        status = s.mirror.status()
        shown = subprocess.run([str(POSTCOPY), "mirror", "status", str(s.volume)], capture_output=True, text=True)
        changes.unlink(name)
    assert status["smb_left_out_total"] > before and status["smb_left_out"] == name, status
    assert "SMB has no path" in shown.stdout and name in shown.stdout, shown
    s.mirror.drained()


def test_killed_again_and_again(at):
    """The replicator dies in the middle; what was owed is made equal."""
    c = at.client
    for turn in range(6):
        for i in range(20):
            name = at("killed %d" % i)
            c.write_file(name, b"turn %d" % turn)
            c.write_file(name + ":s%d" % (turn % 3), os.urandom(2000))
            c.set_security(name, descriptor("D:P(A;;FA;;;{%s})(A;;FR;;;WD)" %
                                            ("alice", "bob", "carol")[(turn + i) % 3]))
        time.sleep(0.15 * turn)     # somewhere in it
        at.s.mirror.kill()
        at.s.mirror.start()


def test_paths_that_the_kernel_has_forgotten(s, disk):
    """Of a file that is owed, and not open, only its handle is known: its directory is looked for."""
    with s.new.client() as c:
        c.mkdir("cold")
        c.mkdir("cold/below")
        c.write_file("cold/below/f", b"bytes")
        s.equal("cold")
        s.mirror.ask("pause")
        c.write_file("cold/below/f:s", b"stream")
    s.mirror.stop()
    servers = (s.new, s.smbd, s.server)
    for server in servers:
        server.stop()
    disk.remount()
    for server in servers:
        server.start()
    s.mirror.start().ask("resume")
    s.equal("cold")


def test_another_path_over_there(at):
    """Somebody has renamed the directory at the mirror: nothing is written to what is not the same, it is told,
    and a full comparison mends it."""
    s, c = at.s, at.client
    c.mkdir(at("d"))
    c.write_file(at("d/f"), b"bytes")
    at.equal()
    with s.smbd.client() as foreign:
        foreign.rename(at("d"), at("moved"))
        foreign.mkdir(at("d"))
        foreign.write_file(at("d/f"), b"of somebody else")
        c.write_file(at("d/f:s"), b"stream")
        wait_until(lambda: [p["path"] for p in s.mirror.status()["parked"]] == [at("d/f")], 120, "what is parked")
        assert ":s:$DATA" not in foreign.streams(at("d/f"))
    s.verified(repair=True)
    s.mirror.ask("retry")


def test_away(at):
    """While the share is away the mirror is; then it is made equal by itself."""
    s, name = at.s, at("away")
    at.client.write_file(name, b"bytes")
    at.equal()
    s.smbd.stop()
    try:
        s.mirror.state("gone")
        at.client.write_file(name + ":s", b"stream")
        at.client.write_file(name, b"other bytes")
        wait_until(lambda: s.mirror.status()["owed"], 60, "what is owed")
        wait_until(lambda: s.mirror.status()["target"]["trouble"], 60, "a word about it")
    finally:
        s.smbd.start()
    wait_until(lambda: s.mirror.status()["state"] != "gone", 120, "return")


def mode(s, word):
    done = subprocess.run([str(POSTCOPY), "mirror", "mode", str(s.volume), word], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_in_sync(at):
    """Acknowledged: over there, too."""
    s, c, name = at.s, at.client, at("in sync")
    s.mirror.drained()
    mode(s, "sync")
    try:
        wait_until(lambda: s.mirror.status()["awaited"], 120, "what is awaited")
        with s.smbd.client() as there:
            c.write_file(name, b"bytes")
            c.write_file(name + ":s", b"stream")
            assert there.read_file(name + ":s") == b"stream"
            c.set_security(name, descriptor("D:P(A;;FA;;;{carol})"))
            assert there.security(name) == c.security(name)
            the(c, name, wire.WRITE_EA, lambda o: o.set_ea(b"E", b"x"))
            with there.open(name, wire.READ_EA) as f:
                assert f.eas()
    finally:
        mode(s, "async")


# ---- as an administrator types it ------------------------------------------------------------------------

def add(at, share, *words, user="root", code=0):
    """`mirror add` with this share: the answer."""
    at.home.joinpath("login").write_text("username = %s\npassword = %s\n" % (user, PASSWORD))
    done = subprocess.run([str(POSTCOPY), "mirror", "add", "--config", str(at.conf), "--smb", share, "--json",
                           at.server.url(), str(at.volume)], capture_output=True, text=True, timeout=300)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 if code == 0 else answer["error"] == code, (answer, done.stderr)
    assert not os.listdir(at.tree) and (code == 0 or len(done.stderr.strip().splitlines()) == 1), done
    return answer


@pytest.fixture(scope="module")
def to_add(loop_xfs, moddir, workdir, new_server):
    """One without a mirror; shares of other kinds than the one that is wanted."""
    (moddir / "add").mkdir()
    a = Shared(loop_xfs.path / "add", moddir / "add", new_server, empty_volume(loop_xfs.path / "add", workdir))
    a.conf = moddir / "add/postcopy.conf"
    a.conf.write_text(mirror_conf(moddir / "add"))
    other = loop_xfs.path / "add/other"
    other.mkdir()
    tree = str(a.tree)
    a.smbd.shares += [Share(str(other), name="other"), Share(tree, name="bare", vfs=()),
                      Share(tree, name="plain", vfs=("acl_xattr",)),
                      Share(tree, name="no attributes", more="store dos attributes = no"),
                      Share(str(loop_xfs.path / "add"), name="above")]
    with a.smbd:
        yield a


@pytest.mark.parametrize("share, code, words", [
    ("other", "mirror", "does not show what is made"),
    ("above", "mirror", "does not show what is made"),
    ("bare", "mirror", "acl_xattr"),
    ("plain", "mirror", "streams_xattr"),
    ("no attributes", "mirror", "does not keep DOS attributes as"),
    ("none", "mirror", "none"),
])
def test_shares_that_do_not_fit(to_add, share, code, words):
    assert words in add(to_add, to_add.smbd.url(share), code=code)["message"]


def test_other_uris_and_accounts(to_add):
    assert "smb://" in add(to_add, "nfs://127.0.0.1/share", code="uri-bad")["message"]
    message = add(to_add, to_add.smbd.url(), user="alice", code="source-denied")["message"]
    assert "administrator" in message, message


def test_added(to_add):
    """Also a directory of a share; then it is shown."""
    answer = add(to_add, to_add.smbd.url("above") + "/mirror")
    assert answer["smb"].endswith("/above/mirror"), answer
    m = Mirror(to_add.home / "mirror", to_add.volume, mirror_conf(to_add.home)).start()
    try:
        with to_add.new, to_add.new.client() as c:
            c.write_file("f", b"bytes")
            c.write_file("f:s", b"stream")
        m.drained()
        with to_add.smbd.client() as c:
            assert c.read_file("f:s") == b"stream"
        shown = subprocess.run([str(POSTCOPY), "mirror", "status", str(to_add.volume)], capture_output=True, text=True)
        assert "over SMB" in shown.stdout and "not mirrored" not in shown.stdout, shown
    finally:
        m.stop()
