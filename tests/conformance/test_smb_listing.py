# SPDX-License-Identifier: GPL-3.0-or-later
"""A cold directory of an SMB source, listed through the new smbd: it costs the old server its own
listing, not something for each entry.  What is shown is the old server's, what a client asks of
an entry is complete, and nobody gets a right that he will not have."""
import collections
import os
import signal
import subprocess

import pytest

from lib import smbd
from lib.expect import smb_status, status_of
from lib.processes import descendants
from lib.programs import MODULES, STUBTOOL
from lib.smbcount import CLOSE, CREATE, QUERY_DIRECTORY, QUERY_INFO, Counter
from lib.smbd import STACK, Samba, Share
from lib.smbsource import with_module
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.rpc import AuthSys
from smb2client import wire

pytestmark = with_module

MANY = 1200
PAGE = 400              # names that fit one answer of the old server, at least
KINDS = {"plain": 0x20, "hidden": 0x22, "system": 0x26, "readonly": 0x21}
BORN = 131000000000000000       # 2016, NTTIME
ALICE, BOB = (smbd.USERS[name][0] for name in ("alice", "bob"))
PATIENCE = "stub:wait = 100000"
CALL_MS = 20000         # as it is for administrators, more or less
WAITING = ("NETWORK_BUSY", "ACCESS_DENIED")


def private(path, uid):
    path.write_bytes(b"private")
    os.chown(path, uid, uid)
    path.chmod(0o600)


@pytest.fixture(scope="module")
def server(new_samba, tree):
    (tree / "many").mkdir()
    for i in range(MANY):
        os.mknod(tree / "many" / ("f%04d" % i))
    for top in ("kinds", "rights", "again", "killed", "set", "hide"):
        (tree / top).mkdir(mode=0o777)
        (tree / top).chmod(0o777)
    for top in ("rights", "hide"):
        private(tree / top / "hers", ALICE)
        private(tree / top / "his", BOB)
    for top in ("again", "killed", "set"):
        for i in range(20):
            (tree / top / ("f%02d" % i)).write_bytes(b"%d" % i)
            (tree / top / ("f%02d" % i)).chmod(0o640)
    s = new_samba("old", tree)
    with s.client(timeout=120) as c:
        for name, attributes in KINDS.items():
            c.write_file("kinds/" + name, name.encode())
            c.mkdir("kinds/dir-" + name)
            for path, more in (("kinds/" + name, 0), ("kinds/dir-" + name, 0x10)):
                with c.open(path, wire.WRITE_ATTRIBUTES) as f:
                    f.set_basic(attributes | more, created=BORN)
        c.write_file("kinds/with-ea", b"ea")
        with c.open("kinds/with-ea", wire.READ_EA | wire.WRITE_EA) as f:
            f.set_ea(b"COLOUR", b"blue")
    return s


@pytest.fixture(scope="module")
def old(server):
    counter = Counter(server.port)
    yield counter
    counter.close()


@pytest.fixture(scope="module")
def m(make, server):
    m = make(server.url(), call_timeout=CALL_MS).init().start()
    m.server.allow = ["converted to NFS[34]ERR_IO"]
    return m


@pytest.fixture(scope="module")
def new(moddir, m):
    shares = [Share(str(m.volume), vfs=STACK, more=PATIENCE),
              Share(str(m.volume), name="hasty", vfs=STACK, more="stub:wait = 3000"),
              Share(str(m.volume), name="seen", vfs=STACK, more="hide unreadable = yes\n" + PATIENCE)]
    with Samba(moddir / "new", module_dir=MODULES, shares=shares) as server:
        yield server


def dummies(m, top):
    """Entries whose attributes have not come."""
    seen = [subprocess.run([STUBTOOL, "show", m.volume, "%s/%s" % (top, name)], check=True,
                           capture_output=True, text=True).stdout
            for name in os.listdir(m.volume / top)]
    return sum("dummy" in text for text in seen)


def by_name(client, path):
    return {e.name: e for e in client.listdir(path)}


def test_the_old_server_is_asked_for_the_list_only(make, moddir, old):
    m = make("smb://127.0.0.1:%d/share" % old.port, call_timeout=CALL_MS).init().start()
    with Samba(moddir / "counted", module_dir=MODULES,
               shares=[Share(str(m.volume), vfs=STACK, more=PATIENCE)]) as new, \
            new.client(timeout=120) as c:
        before = old.counts.copy()
        assert len(c.names("many")) == MANY
        asked = old.counts - before
        assert asked[QUERY_DIRECTORY] <= MANY / PAGE + 5
        # as many connections as are wanted, each is set up and looks at the root
        assert sum(asked[command] for command in (CREATE, CLOSE, QUERY_INFO)) <= MANY / 10, asked
        # so it counts: each that is opened is asked about
        before = old.counts.copy()
        for i in range(0, MANY, 100):
            assert c.stat("many/f%04d" % i).size == 0
        assert (old.counts - before)[CREATE] >= MANY / 100


def test_the_new_smbd_looks_at_each_entry_through_what_is_open(make, moddir, server):
    """So many calls for an entry, none of which opens it by its handle."""
    m = make(server.url(), call_timeout=CALL_MS).init().start()
    with Samba(moddir / "traced", module_dir=MODULES,
               shares=[Share(str(m.volume), vfs=STACK, more=PATIENCE)]) as new, \
            new.client(timeout=120) as c:
        c.stat("many")
        out = new.workdir / "listing.strace"
        tracer = subprocess.Popen(["strace", "-f", "-o", str(out), "-p", str(new.pid_of(c))],
                                  stderr=subprocess.PIPE, text=True)
        try:
            assert "attached" in tracer.stderr.readline()
            assert len(c.names("many")) == MANY
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=30)
    calls = collections.Counter(line.split()[1].partition("(")[0] for line in out.read_text().splitlines())
    assert calls["getxattr"] >= MANY, calls
    assert calls["open_by_handle_at"] < MANY / 10, calls
    assert sum(calls.values()) <= 30 * MANY, calls


def test_all_that_a_listing_shows(m, new, server):
    with server.client(timeout=120) as there, new.client(timeout=120) as here:
        told, shown = by_name(there, "kinds"), by_name(here, "kinds")
        assert dummies(m, "kinds") >= len(KINDS)
        assert told.keys() == shown.keys()
        for name, want in told.items():
            got = shown[name]
            assert got.attributes & ~wire.ATTR_OFFLINE == want.attributes, name
            for field in ("size", "created", "accessed", "written", "changed", "short_name"):
                assert getattr(got, field) == getattr(want, field), (name, field)
            assert bool(got.ea_size) == bool(want.ea_size), name
        assert shown["with-ea"].ea_size


def test_the_same_afterwards(m, new):
    """Attributes that come afterwards change nothing that was shown."""
    with new.client(timeout=120) as c:
        before = by_name(c, "kinds")
        for name in before:
            c.stat("kinds/" + name)
        assert dummies(m, "kinds") == 0
        after = by_name(c, "kinds")
    for name, was in before.items():
        got = after[name]
        assert (got.attributes, got.size, got.created, got.written, got.changed) == (
            was.attributes, was.size, was.created, was.written, was.changed), name


def test_who_asks_of_an_entry_gets_all_of_it(m, new, server):
    with server.client(timeout=120) as there, new.client(timeout=120) as here:
        names = here.names("again")
        assert dummies(m, "again") == len(names)
        # also the last one, which smbd has looked at last, and by the same session
        for name in (names[-1], names[0]):
            path = "again/" + name
            assert here.security(path) == there.security(path)
            assert here.stat(path).created == there.stat(path).created
    with m.client("v3", patience=120) as c:
        attr = c.getattr("again/" + names[5])
        assert (attr.uid, attr.mode & 0o777) == (0, 0o640)


def test_nobody_gets_more_than_he_will_have(m, new):
    """Neither while the attributes are on their way, nor if they never come."""
    with new.client("bob", share="hasty", timeout=120) as bob, \
            new.client("alice", share="hasty", timeout=120) as alice:
        assert bob.names("rights") == ["hers", "his"] == alice.names("rights")
        assert dummies(m, "rights") == 2
        m.kill_retriever()
        try:
            assert bob.names("rights") == ["hers", "his"]
            for who in (bob, alice):
                for name in ("hers", "his"):
                    assert smb_status(who.read_file, "rights/" + name) in WAITING
                    assert smb_status(who.open, "rights/" + name, wire.WRITE_DATA) in WAITING
                    assert smb_status(who.security, "rights/" + name) in WAITING
            for uid in (ALICE, BOB):
                with m.client("v3", cred=AuthSys(uid=uid, gid=uid), patience=3) as c:
                    assert status_of(c.read_file, "rights/hers") in (errors.JUKEBOX, errors.ACCES)
        finally:
            m.start_retriever()
        assert wait_until(lambda: alice.read_file("rights/hers"), 120) == b"private"
        assert wait_until(lambda: bob.read_file("rights/his"), 120) == b"private"
        assert smb_status(bob.read_file, "rights/hers") == "ACCESS_DENIED"
    with m.client("v3", cred=AuthSys(uid=BOB, gid=BOB), patience=120) as c:
        assert status_of(c.read_file, "rights/hers") == errors.ACCES


def test_a_share_that_hides_what_one_may_not_read(new):
    """There the rights of each entry are asked for before it is shown."""
    with new.client("bob", share="seen", timeout=120) as bob, \
            new.client("alice", share="seen", timeout=120) as alice:
        assert bob.names("hide") == ["his"]
        assert alice.names("hide") == ["hers"]


def test_the_worker_is_killed_between_listing_and_attributes(m, new):
    with new.client(timeout=120) as c:
        names = c.names("killed")
        assert dummies(m, "killed") == len(names) == 20
        for pid in descendants(m.retriever.pid):
            os.kill(pid, signal.SIGKILL)
        for i, name in enumerate(names):
            assert wait_until(lambda path="killed/" + name: c.read_file(path), 60) == b"%d" % i
    with m.client("v3", patience=120) as c:
        assert {c.getattr("killed/" + name).mode & 0o777 for name in names} == {0o640}


def test_what_is_set_on_an_entry_stays(m, new, server):
    """The attributes come before a change of them, and never over it."""
    with new.client(timeout=120) as c:
        names = c.names("set")
        assert dummies(m, "set") == len(names)
        with c.open("set/f00", wire.WRITE_ATTRIBUTES) as f:
            f.set_basic(wire.ATTR_HIDDEN, created=BORN + 10)
        with server.client(timeout=120) as there:
            hers = there.security("rights/hers")
        c.set_security("set/f01", hers)
        m.crawl()
        for _ in "ab":
            shown = by_name(c, "set")
            assert shown["f00"].attributes & wire.ATTR_HIDDEN
            assert shown["f00"].created == BORN + 10
            assert c.security("set/f01", wire.DACL) == \
                c.security("rights/hers", wire.DACL)
    m.audit(complete=True)
