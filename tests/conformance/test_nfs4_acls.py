# SPDX-License-Identifier: GPL-3.0-or-later
"""An old server that tells NFSv4 ACLs: they come as POSIX ACLs that say the same, or as the
nearest that give nobody more, and that is told.

The server is the tests' own: nfs-ganesha 4.3 of Debian 12 claims ACLs where its file system has
none.  What 6.5 shows is the last test's.
"""
import json
import os
import stat
import struct
import subprocess

import pytest

from lib.ganesha import release
from lib.programs import POSTCOPY, TOOLS, build_c
from lib.wait import wait_until
from nfsclient.fakeserver import GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, FakeServer
from nfsclient.faketree import Tree
from nfsclient.nfstypes import FIFO
from test_smb_meta import VERBOSE

ALLOW, DENY, AUDIT = 0, 1, 2
R, W, X, DELETE_CHILD = 0x1, 0x6, 0x20, 0x40
RW, RX, RWX = R | W, R | X, R | W | X
WRITE_ACL, ANY = 0x40000, 0x120080
BELOW, ONLY, IS_GROUP = 0x3, 0x8, 0x40
ALICE = "alice@example.org"


def entries(owner, group, other, users=(), groups=(), mask=None):
    """A POSIX ACL, as the kernel keeps it."""
    every = [(USER_OBJ, 0xffffffff, owner), *((USER, *u) for u in users),
             (GROUP_OBJ, 0xffffffff, group), *((GROUP, *g) for g in groups),
             *([(MASK, 0xffffffff, mask)] if mask is not None else []), (OTHER, 0xffffffff, other)]
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, rights, who) for kind, who, rights in every)


def own(group=0, other=0):
    return [(ALLOW, 0, RWX | ANY | WRITE_ACL, "OWNER@"), (ALLOW, IS_GROUP, group | ANY, "GROUP@"),
            (ALLOW, 0, other | ANY, "EVERYONE@")]


# name: (the mode that the server shows, its ACL, the mode here, the ACL here or None for no more
# than the mode, is it only near?)
CASES = {
    "no-acl": (0o664, None, 0o664, None, False),
    "empty": (0o664, [], 0o664, None, False),
    "plain": (0o6750, own(RX), 0o6750, None, False),
    # as Linux shows user:1002:rwx, group::r--, group:2002:---, other::r--, with a mask of rwx
    "of-posix": (0o774, [(ALLOW, 0, RWX | ANY | WRITE_ACL, "OWNER@"), (ALLOW, 0, RWX | ANY, "1002"),
                         (ALLOW, 0, R | ANY, "GROUP@"), (ALLOW, IS_GROUP, ANY, "2002"),
                         (DENY, IS_GROUP, R, "2002"), (ALLOW, 0, R | ANY, "EVERYONE@")],
                 0o774, entries(7, 4, 4, [(1002, 7)], [(2002, 0)], 7), False),
    "kept-out": (0o755, [(DENY, 0, RWX, "1002"), *own(RX, RX)],
                 0o755, entries(7, 5, 5, [(1002, 0)], (), 5), False),
    "named": (0o700, [*own(), (ALLOW, 0, R, ALICE)], 0o740,
              entries(7, 0, 0, [(5001, 4)], (), 4), False),
    # a member of the group may not write, and may be the owner, and the user
    "group-first": (0o770, [(DENY, IS_GROUP, W, "2002"), (ALLOW, 0, RWX, "1002"), *own(RWX)],
                    0o570, entries(5, 5, 0, [(1002, 5)], [(2002, 0)], 7), True),
    "may-change": (0o740, [*own(R), (ALLOW, 0, WRITE_ACL, "1002")], 0o740, None, True),
    "audited": (0o740, [*own(R), (AUDIT, 0x10, RWX, "EVERYONE@")], 0o740, None, True),
    "stranger": (0o740, [*own(R), (ALLOW, 0, RWX, "eve@example.org")], 0o740, None, True),
    "more-than-the-mode": (0o700, own(RWX, RWX), 0o700, None, True),
}
# what directories leave to what is made in them: (their mode, ACL, mode here, default here, near)
DIRS = {
    "inherited": (0o750, [*own(RX), (ALLOW, BELOW | ONLY, RWX, "OWNER@"),
                          (ALLOW, BELOW | ONLY, RWX, "1002"), (ALLOW, BELOW | ONLY, R, "GROUP@")],
                  0o750, entries(7, 4, 0, [(1002, 7)], (), 7), False),
    "files-only": (0o750, [*own(RX), (ALLOW, BELOW | ONLY, RWX, "OWNER@"),
                           (ALLOW, 0x1 | ONLY, R, "EVERYONE@")],
                   0o750, entries(7, 0, 0), True),
    "no-deleting": (0o770, [(DENY, 0, DELETE_CHILD, "GROUP@"), *own(RWX)], 0o1770, None, True),
}
NEAR = {n for n, c in CASES.items() if c[4]}
MORE = {n for n, c in CASES.items() if c[3]}


@pytest.fixture
def server():
    tree = Tree()
    server = FakeServer(tree)
    server.acls4 = {}

    def put(node, acl):
        if acl is not None:
            server.acls4[node.fileid] = acl

    def put_files(parent):
        for name, (mode, acl, *_) in CASES.items():
            put(tree.file(parent, name, b"x", mode=mode, uid=1000, gid=100), acl)

    put(tree.root, [*own(RX, RX), (ALLOW, 0, RWX, "1002")])
    listed = tree.mkdir(tree.root, "listed", mode=0o755)
    put(listed, own(RX, RX))
    put_files(listed)
    put_files(tree.mkdir(tree.root, "looked-up"))
    for name, (mode, acl, *_) in DIRS.items():
        put(tree.mkdir(tree.root, name, mode=mode, uid=1000, gid=100), acl)
    put(tree.special(tree.root, "fifo", FIFO, mode=0o670), [*own(R), (ALLOW, 0, RW, "1002")])
    tree.symlink(tree.root, "link", "target")
    with server:
        yield server


@pytest.fixture
def conf(workdir):
    """postcopy.conf with a table of ids that knows Alice."""
    table = workdir / "idmap-acls"
    table.write_text("uid 5001 %s\n" % ALICE)
    table.chmod(0o600)
    return "smb_idmap = %s\n" % table


STRANGE = ['has an entry for "eve@example.org"']


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def acl(path, kind="access"):
    try:
        return os.getxattr(path, "system.posix_acl_" + kind)
    except OSError:
        return None


def verify(m):
    return m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume, check=False)


def test_acls_come(server, new_migration, fresh_dir, conf):
    """By look-up and by listing."""
    m = new_migration(server.url(version=4), fresh_dir, conf=conf, allow=STRANGE).init().start()
    assert (acl(m.volume), mode(m.volume)) == (entries(7, 5, 5, [(1002, 7)], (), 7), 0o775)
    with m.client("v3", patience=60) as client:
        for name, (_mode, _acl, right, wanted, _near) in CASES.items():
            assert client.getattr("looked-up/" + name).mode == right, name
            assert acl(m.volume / "looked-up" / name) == wanted, name
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    for where in ("looked-up", "listed"):
        for name, (_mode, _acl, right, wanted, _near) in CASES.items():
            path = m.volume / where / name
            assert (mode(path), acl(path)) == (right, wanted), path
    for name, (_mode, _acl, right, wanted, _near) in DIRS.items():
        path = m.volume / name
        assert (mode(path), acl(path), acl(path, "default")) == (right, None, wanted), name
    assert mode(m.volume / "fifo") == 0o640
    assert acl(m.volume / "listed", "default") is None
    status = m.status()
    assert status["acls_lost"] == 1
    near = 2 * len(NEAR) + sum(d[4] for d in DIRS.values())
    # those that have no more than a mode once more, when what was looked up is listed
    assert near <= status["acls_near"] <= near + len(NEAR - MORE), status
    assert "nearest" in m.postcopy("status", m.volume).stdout
    assert "as the nearest POSIX ACL" in m.log.read_text()
    answer = verify(m)
    assert answer["result"] == "right" and not answer["found"], answer
    os.removexattr(m.volume / "listed/of-posix", "system.posix_acl_access")
    found = verify(m)["found"]
    assert [(f["path"], "acl" in f["what"]) for f in found] == [("listed/of-posix", True)], found
    m.postcopy("finish", m.volume)
    assert acl(m.volume / "looked-up/of-posix") == CASES["of-posix"][3]


def test_what_it_costs(server, new_migration, fresh_dir, conf):
    """On demand: who has no more than a mode is complete with the look-up; others are asked for
    whatever goes with them."""
    m = new_migration(server.url(version=4), fresh_dir, conf=conf).init().start()
    with m.client("v3", patience=60) as client:
        client.getattr("looked-up")
        for name, wanted in (("plain", {"LOOKUP": 1}),
                             ("of-posix", {"LOOKUP": 1, "GETATTR": 1, "LISTXATTRS": 1})):
            before = server.counts.copy()
            assert client.getattr("looked-up/" + name).mode == CASES[name][2]
            assert dict(server.counts - before) == wanted


# -- for shares of Samba ----------------------------------------------------------------------

def sid(kind, number):
    """S-1-22-KIND-NUMBER: a user (1) or group (2) by number."""
    return struct.pack("<BB6sII", 1, 2, b"\0\0\0\0\0\x16", kind, number)


def test_samba_shows_the_whole_acl(server, new_migration, new_samba, fresh_dir, conf):
    """acl_xattr takes what is stored as its own: it is tied to mode and POSIX ACL by a hash."""
    m = new_migration(server.url(version=4), fresh_dir, conf=conf + "nfs4_ntacl = 1\n",
                      allow=STRANGE).init().start()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    have = {n for n in CASES if "security.NTACL" in os.listxattr(m.volume / "listed" / n)}
    assert have == NEAR | MORE
    for name, (_mode, _acl, right, wanted, _near) in CASES.items():
        path = m.volume / "listed" / name
        assert (mode(path), acl(path)) == (right, wanted), path
    answer = verify(m)
    assert answer["result"] == "right" and not answer["found"], answer
    new = new_samba("new", m.volume, more="veto files = /.postcopy/", conf=VERBOSE,
                    allow=["HAVE_BACKTRACE"])
    with new.client() as c:
        for name in sorted(NEAR | MORE):
            raw = c.security("listed/" + name)
            assert sid(1, 1000) in raw and sid(2, 100) in raw, name
        for name in DIRS:
            assert sid(1, 1000) in c.security(name), name
        # the right to change the ACL, which no POSIX ACL has
        assert struct.pack("<I", WRITE_ACL) + sid(1, 1002) in c.security("listed/may-change")
        assert struct.pack("<I", RWX) + sid(1, 1002) in c.security("listed/kept-out")
    log = new.log_text()
    assert log.count("blob hash matches for file") >= len(NEAR | MORE)
    assert "blob hash does not match" not in log


# -- who is not known -------------------------------------------------------------------------

def test_whom_it_denies_must_be_known(server, new_migration, fresh_dir, conf, workdir):
    node = server.tree.file(server.tree.root, "denied", b"x", mode=0o755)
    server.acls4[node.fileid] = [(DENY, 0, RWX, "eve@example.org"), *own(RX, RX)]
    m = new_migration(server.url(version=4), fresh_dir, conf=conf + "max_tries = 1\n",
                      allow=[*STRANGE, 'denies rights to "eve@example.org"',
                             "impossible answer"]).init().start()
    m.crawl()
    parked = m.tool("parked", m.volume)["parked"]
    assert [p["path"] for p in parked] == ["denied"], parked
    assert mode(m.volume / "denied") & 0o077 == 0 and acl(m.volume / "denied") is None
    assert 'denies rights to "eve@example.org"' in m.log.read_text()
    table = workdir / "idmap-acls"
    table.write_text(table.read_text() + "uid 5002 eve@example.org\n")
    m.kill_retriever()
    m.start_retriever()
    m.postcopy("retry", "--errors", fresh_dir)
    m.crawl()
    m.audit(complete=True)
    assert acl(m.volume / "denied") == entries(7, 5, 5, [(5002, 0)], (), 5)


def test_a_root_that_denies_a_stranger(server, new_migration, fresh_dir, conf):
    """Nothing would come below it: init says so, and leaves nothing behind."""
    server.acls4[server.tree.root.fileid] = [(DENY, 0, RWX, "eve@example.org"), *own(RX, RX)]
    answer = new_migration(server.url(version=4), fresh_dir, conf=conf).init(check=False)
    assert answer["exit"] != 0 and not answer["ok"], answer
    assert "\n" not in answer["message"]
    assert not (fresh_dir / ".postcopy").exists()


# -- an odd server ----------------------------------------------------------------------------

@pytest.mark.parametrize("acl4", [
    [(4, 0, R, "OWNER@")], [(ALLOW, 0, R, "x" * 1025)], [(ALLOW, 0, R, "OWNER@")] * 2049])
def test_impossible_acls(acl4, server, new_migration, fresh_dir, conf):
    """Nobody knows who may do what: it does not come, and all else does."""
    node = server.tree.file(server.tree.mkdir(server.tree.root, "odd"), "odd", b"x", mode=0o755)
    server.acls4[node.fileid] = acl4
    m = new_migration(server.url(version=4), fresh_dir, conf=conf + "max_tries = 1\n",
                      allow=[*STRANGE, "impossible"]).init().start()
    m.crawl()
    assert not (m.volume / "odd/odd").exists()
    assert [p["path"] for p in m.tool("parked", m.volume)["parked"]] == ["odd"]
    m.audit(parked=1)
    assert acl(m.volume / "listed/of-posix") == CASES["of-posix"][3]


# -- a file system that keeps no ACLs, and what is told before --------------------------------

@pytest.fixture
def keeps_none(workdir, monkeypatch):
    """The new file system has no ACLs, for all programs that look."""
    shim = build_c([TOOLS / "noaclshim.c"], workdir / "build" / "noaclshim.so", "-D_GNU_SOURCE",
                   "-shared", "-fPIC")
    return lambda: monkeypatch.setenv("LD_PRELOAD", str(shim))


def test_nobody_gets_more(server, keeps_none, new_migration, fresh_dir, conf):
    keeps_none()
    m = new_migration(server.url(version=4), fresh_dir, conf=conf, allow=STRANGE).init().start()
    m.crawl()
    m.audit(complete=True)
    right = {name: case[2] for name, case in CASES.items()}
    # what is left where an entry is missing
    right.update({"of-posix": 0o740, "kept-out": 0o700, "named": 0o700, "group-first": 0o550})
    for where in ("listed", "looked-up"):
        assert {name: mode(m.volume / where / name) for name in CASES} == right
    status = m.status()
    lost = 2 * len(MORE) + sum(d[3] is not None for d in DIRS.values()) + 2    # the root, the FIFO
    assert lost - 1 <= status["acls_lost"] <= lost, status
    assert status["acls_near"] == 2 * len(NEAR - MORE) + 1, status


def check(server, *more):
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", "--json",
                           "--source", server.url(version=4), *map(str, more)],
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 3, done
    return json.loads(done.stdout)


def test_check_says_so(server, keeps_none, fresh_dir):
    answer = check(server, "--names", "--limit", "0")
    rows = {p["property"]: p for p in answer["properties"]}
    assert rows["nfs4-acl"]["volume"] == "approximated" and rows["mode"]["volume"] == "kept"
    near = {"%s/%s" % (d, n) for d in ("listed", "looked-up") for n in NEAR | {"named"}}
    found = {n["path"] for n in answer["names"] if n["kind"] == "acl-near"}
    # without the table Alice is a stranger, too
    assert found == near | {n for n, d in DIRS.items() if d[4]}
    assert {n["path"] for n in answer["names"] if n["kind"] == "acl"} == {"fifo"}
    keeps_none()
    rows = {p["property"]: p for p in check(server, fresh_dir)["properties"]}
    assert rows["nfs4-acl"]["volume"] == "lost" and rows["mode"]["volume"] == "approximated"
    server.acls4 = None
    rows = {p["property"]: p for p in check(server)["properties"]}
    assert rows["nfs4-acl"]["source"] == "not offered", rows["nfs4-acl"]


# -- a real one -------------------------------------------------------------------------------

@pytest.mark.skipif(release() == 4, reason="nfs-ganesha 4 as Debian 12 builds it shows no ACL")
def test_acls_of_a_real_server(old_server, new_volume, new_migration, fresh_dir):
    """Ganesha shows POSIX ACLs as NFSv4's: they are the same again."""
    top = new_volume("xfs", "512M").path / "tree"
    top.mkdir()
    given = {"mask": "u:1001:rwx,g::r,o::-", "kept-out": "u:1002:-,g::rx,o::rx",
             "groups": "g:2001:rwx,g:2002:r,g::r,o::-", "plain": ""}
    for where in (top, top / "d"):
        where.mkdir(exist_ok=True)
        for name, text in given.items():
            (where / name).write_bytes(b"x")
            (where / name).chmod(0o755 if name == "kept-out" else 0o640)
            if text:
                subprocess.run(["setfacl", "-m", text, where / name], check=True)
    subprocess.run(["setfacl", "-d", "-m", "u::rwx,u:1001:rx,g::rx,o::-", top / "d"], check=True)
    m = new_migration(old_server(top).url(version=4), fresh_dir).init().start()
    with m.client("v3", patience=60) as client:
        assert client.getattr("d/mask").mode == 0o670
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    for path in [top, *top.rglob("*")]:
        here = m.volume / path.relative_to(top)
        assert (mode(here), acl(here), acl(here, "default")) == (
            mode(path), acl(path), acl(path, "default")), path
    assert (m.status()["acls_lost"], m.status()["acls_near"]) == (0, 0)
    answer = verify(m)
    assert answer["result"] == "right" and not answer["found"], answer
