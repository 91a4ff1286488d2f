# SPDX-License-Identifier: GPL-3.0-or-later
"""An old server with POSIX ACLs, which it tells beside NFSv3: they come over, and where one does
not, nobody gets more than before.

The mode that such a server shows has the ACL's mask in the place of the group's bits.
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
from nfsclient import errors, hooks
from nfsclient.fakeserver import GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, FakeServer
from nfsclient.faketree import Tree
from nfsclient.nfstypes import FIFO


def acl(owner, group, mask, other, users=(), groups=()):
    return [(USER_OBJ, 0, owner), *((USER, 1000 + i, r) for i, r in enumerate(users)),
            (GROUP_OBJ, 0, group), *((GROUP, 2000 + i, r) for i, r in enumerate(groups)),
            *([(MASK, 0, mask)] if mask is not None else []), (OTHER, 0, other)]


# name: (the mode that the server shows, its ACL, the mode that is right without it, is it more
# than a mode?)
CASES = {
    "no-acl": (0o664, None, 0o664, False),
    "set-ids": (0o6775, None, 0o6775, False),
    "plain": (0o640, acl(6, 4, None, 0), 0o640, False),
    "mask-is-group": (0o664, acl(6, 6, 6, 4), 0o664, False),
    # the issue at hand: group::r-- with a mask of rwx, for a named user
    "mask": (0o670, acl(6, 4, 7, 0, users=[7]), 0o640, True),
    "mask-set-gid": (0o2770, acl(7, 0, 7, 0, groups=[7]), 0o2700, True),
    "mask-below-group": (0o640, acl(6, 6, 4, 0), 0o640, True),
    # who was kept out is one of the group, or of the others
    "user-kept-out": (0o664, acl(6, 6, 6, 4, users=[0]), 0o600, True),
    "group-kept-out": (0o664, acl(6, 6, 6, 4, groups=[0]), 0o660, True),
    "less-by-the-mask": (0o647, acl(6, 4, 4, 7, users=[7]), 0o644, True),
}
# what the server says -> the mode that is right
ODD = {
    "io-error": (hooks.status(errors.IO), 0o600),
    "no-acls-here": (hooks.status(errors.NOTSUPP), 0o664),
    "garbage": (hooks.patch(-20, b"\xff\xff\xff\xff"), 0o600),
    "no-group": (None, 0o600),
}


def put(tree, parent):
    for name, (mode, entries, _right, _lost) in CASES.items():
        tree.file(parent, name, b"x", mode=mode).acl = entries


@pytest.fixture
def server():
    tree = Tree()
    server = FakeServer(tree)
    server.acls = True
    tree.root.mode, tree.root.acl = 0o775, acl(7, 5, 7, 5, users=[7])
    listed = tree.mkdir(tree.root, "listed", mode=0o770)
    listed.acl = acl(7, 1, 7, 0, groups=[7])
    listed.default_acl = acl(7, 7, 7, 7)
    put(tree, listed)
    put(tree, tree.mkdir(tree.root, "looked-up"))
    tree.mkdir(tree.root, "default").default_acl = acl(7, 7, 7, 7)
    odd = tree.mkdir(tree.root, "odd")
    for name, (hook, _right) in ODD.items():
        node = tree.file(odd, name, b"x", mode=0o664)
        if hook:
            server.hook("GETACL", hooks.only(lambda call, node=node: call.node is node, hook))
        else:
            node.acl = [(USER_OBJ, 0, 6), (OTHER, 0, 4)]
    tree.special(odd, "fifo", FIFO, mode=0o666).acl = acl(6, 2, 6, 0, users=[6])
    tree.symlink(odd, "link", "target")
    with server:
        yield server


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def stored(entries):
    """What the kernel keeps of them."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", kind, rights, who if kind in (USER, GROUP) else 0xffffffff)
        for kind, who, rights in entries)


def acls(path):
    return {name.removeprefix("system.posix_acl_"): os.getxattr(path, name)
            for name in os.listxattr(path) if name.startswith("system.posix_acl_")}


def test_acls_come(server, new_migration, fresh_dir):
    """By look-up and by listing, with the mode that the server shows beside them."""
    m = new_migration(server.url(), fresh_dir).init().start()
    wanted = {name: {"access": stored(case[1])} if case[3] else {} for name, case in CASES.items()}
    with m.client("v3", patience=60) as client:
        for name, case in CASES.items():
            assert client.getattr("looked-up/" + name).mode == case[0], name
            assert acls(m.volume / "looked-up" / name) == wanted[name], name
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    for where in ("looked-up", "listed"):
        assert {name: mode(m.volume / where / name) for name in CASES} == {
            name: case[0] for name, case in CASES.items()}
        assert {name: acls(m.volume / where / name) for name in CASES} == wanted
    # three entries: who has no others has no mask
    inherited = {"default": stored(acl(7, 7, None, 7))}
    assert acls(m.volume) == {"access": stored(acl(7, 5, 7, 5, users=[7]))}
    assert acls(m.volume / "default") == inherited
    assert acls(m.volume / "listed") == {"access": stored(acl(7, 1, 7, 0, groups=[7])), **inherited}
    assert [mode(m.volume / name) for name in ("", "default", "listed")] == [0o775, 0o755, 0o770]
    # what could not be read, and a FIFO
    assert {name: mode(m.volume / "odd" / name) for name in ODD} == {
        name: right for name, (_hook, right) in ODD.items()}
    assert mode(m.volume / "odd/fifo") == 0o620
    assert 4 <= m.status()["acls_lost"] <= 5
    answer = m.tool("verify", "--all", m.volume, check=False)
    assert answer["result"] == "right" and not answer["found"], answer
    os.removexattr(m.volume / "listed/mask", "system.posix_acl_access")
    found = m.tool("verify", "--all", m.volume, check=False)["found"]
    assert [(f["path"], "acl" in f["what"]) for f in found] == [("listed/mask", True)], found
    m.postcopy("finish", m.volume)
    assert acls(m.volume / "looked-up/mask") == wanted["mask"]


def test_what_it_costs(server, new_migration, fresh_dir):
    """On demand: who has no ACL is complete with the look-up."""
    m = new_migration(server.url(), fresh_dir).init().start()
    with m.client("v3", patience=60) as client:
        client.getattr("looked-up")
        for name, wanted in (("plain", {"LOOKUP": 1, "GETACL": 1}),
                             ("mask", {"LOOKUP": 1, "GETACL": 2, "GETATTR": 1})):
            before = server.counts.copy()
            assert client.getattr("looked-up/" + name).mode == CASES[name][0]
            assert dict(server.counts - before) == wanted


@pytest.fixture
def keeps_none(workdir, monkeypatch):
    """The new file system has no ACLs, for all programs that look."""
    shim = build_c([TOOLS / "noaclshim.c"], workdir / "build" / "noaclshim.so", "-D_GNU_SOURCE",
                   "-shared", "-fPIC")
    return lambda: monkeypatch.setenv("LD_PRELOAD", str(shim))


def test_nobody_gets_more(server, keeps_none, new_migration, fresh_dir):
    """On a file system that keeps no ACLs."""
    keeps_none()
    m = new_migration(server.url(), fresh_dir).init().start()
    with m.client("v3", patience=60) as client:
        for name, (_mode, _acl, right, _lost) in CASES.items():
            assert client.getattr("looked-up/" + name).mode == right, name
    m.crawl()
    m.audit(complete=True)
    assert {name: mode(m.volume / "listed" / name) for name in CASES} == {
        name: right for name, (_mode, _acl, right, _lost) in CASES.items()}
    assert {name: mode(m.volume / "odd" / name) for name in ODD} == {
        name: right for name, (_hook, right) in ODD.items()}
    assert mode(m.volume / "odd/fifo") == 0o620
    assert mode(m.volume) == 0o755 and mode(m.volume / "listed") == 0o710
    assert mode(m.volume / "default") == 0o755
    lost = sum(case[3] for case in CASES.values())
    # both directories' files, four of "odd", "listed", "default"; by look-up and listing: twice
    assert 2 * lost + 6 <= m.status()["acls_lost"] <= 3 * lost + 7
    assert "ACL" in m.postcopy("status", m.volume).stdout
    assert "not kept: its ACL" in m.log.read_text()


def check(server, *more):
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", "--json",
                           "--source", server.url(), *map(str, more)], capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 3, done
    return json.loads(done.stdout)


def test_check_says_so(server, keeps_none, fresh_dir):
    answer = check(server, "--names", "--limit", "0")
    rows = {p["property"]: p for p in answer["properties"]}
    assert rows["posix-acl"]["volume"] == rows["mode"]["volume"] == "kept"
    found = {n["path"] for n in answer["names"] if n["kind"] == "acl"}
    odd = {"odd/io-error", "odd/garbage", "odd/no-group", "odd/fifo"}
    assert found == odd
    # ... for a file system that keeps none
    keeps_none()
    answer = check(server, "--names", "--limit", "0", fresh_dir)
    rows = {p["property"]: p for p in answer["properties"]}
    assert rows["posix-acl"]["volume"] == "lost"
    assert rows["mode"]["volume"] == "approximated" and "ACL" in rows["mode"]["why"]
    found = {n["path"] for n in answer["names"] if n["kind"] == "acl"}
    lost = {"%s/%s" % (d, name) for d in ("listed", "looked-up")
            for name, case in CASES.items() if case[3]}
    assert found == lost | odd | {"listed", "default"}
    server.acls = False
    rows = {p["property"]: p for p in check(server)["properties"]}
    assert rows["mode"]["volume"] == "kept" and rows["posix-acl"]["volume"] == "lost"


def test_what_ganesha_tells(old_server, new_volume, new_migration, fresh_dir):
    """4 has the protocol, and an empty ACL for everything: that is no ACL of nobody's.  6 tells."""
    tree = new_volume("xfs", "320M").path / "tree"
    tree.mkdir()
    (tree / "f").write_bytes(b"x")
    (tree / "f").chmod(0o664)
    m = new_migration(old_server(tree).url(), fresh_dir).init().start()
    m.crawl()
    m.audit(complete=True)
    assert mode(m.volume / "f") == 0o664
    assert ("does not tell of POSIX ACLs" in m.log.read_text()) == (release() == 4)


def test_an_acl_that_does_not_fit(server, new_volume, new_migration):
    """... parks its object alone: it does not come without, and the disk is not taken for full."""
    home = new_volume("ext4", "320M", mkfs=["-b", "4096"]).path / "volume"
    home.mkdir()
    large = server.tree.mkdir(server.tree.root, "large")
    for users in (200, 1000):
        server.tree.file(large, str(users), b"x", mode=0o670).acl = acl(6, 4, 7, 0, [7] * users)
    m = new_migration(server.url(), home, conf="max_tries = 1\n").init().start()
    m.crawl()
    parked = m.tool("parked", m.volume)["parked"]
    assert [p["path"] for p in parked] == ["large/1000"], parked
    assert "system.posix_acl_access of 8036 bytes" in m.log.read_text()
    assert mode(home / "large/200") == 0o670 and len(acls(home / "large/200")["access"]) == 1636
    assert mode(home / "large/1000") == 0o600 and not acls(home / "large/1000")


@pytest.mark.skipif(release() == 4, reason="nfs-ganesha 4 as Debian 12 builds it shows no ACL")
def test_acls_of_a_real_server(old_server, new_volume, new_migration, fresh_dir):
    tree = new_volume("xfs", "320M").path / "tree"
    tree.mkdir()
    for where in (tree, tree / "d"):
        where.mkdir(exist_ok=True)
        for name, (bits, entries, _right, more) in CASES.items():
            (where / name).write_bytes(name.encode())
            (where / name).chmod(bits)
            if more:
                os.setxattr(where / name, "system.posix_acl_access", stored(entries))
    os.setxattr(tree / "d", "system.posix_acl_default", stored(acl(7, 5, 7, 0, users=[7, 0])))
    os.setxattr(tree, "system.posix_acl_access", stored(acl(7, 5, 5, 5, groups=[5])))
    m = new_migration(old_server(tree).url(), fresh_dir).init().start()
    with m.client("v3", patience=60) as client:
        assert client.getattr("d/mask").mode == 0o670
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    for path in [tree, *tree.rglob("*")]:
        here = m.volume / path.relative_to(tree)
        # of a mask that is for nobody it shows what that leaves of the group
        wanted = {} if path.name == "mask-below-group" else acls(path)
        assert (mode(here), acls(here)) == (mode(path), wanted), path
    assert m.status()["acls_lost"] == 0
    answer = m.tool("verify", "--all", m.volume, check=False)
    assert answer["result"] == "right" and not answer["found"], answer
