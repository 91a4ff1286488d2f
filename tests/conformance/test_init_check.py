# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy init --check`: what it tells of a real old server and of hostile ones, that
its limits are those of real file systems, and that it changes nothing anywhere."""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from lib.ganesha import release
from lib.ports import free_port
from lib.programs import POSTCOPY, VOLUME_TOOL, copy_program
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.hooks import (Gate, cut, delay, empty_pages, endless_listing, garbage, only, patch,
                             status, truncate)
from nfsclient.nfstypes import BLK, CHR

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
TIB = 1 << 40
# What NFSv3 loses whatever the server is; POSIX ACLs, if it does not tell them beside it.
ALWAYS = {"btime", "posix-acl", "nfs4-acl", "security-descriptor", "user-xattrs", "streams",
          "dos-attributes", "capabilities", "inode-flags", "locks", "quotas", "snapshots"}

TOP = b"all"
TREE = {                # name -> kinds that SMB clients would miss it for
    b"plain": [], "grüße-日本語".encode(): [], b".hidden": [], b"%41": [], b"-rf": [], b"COM10": [],
    b"latin1-\xe4": ["not-utf8"], b"\xff\xfe": ["not-utf8"],
    b"new\nline": ["smb-character"], b"\x1b[31mred": ["smb-character"],
    b"quote\"": ["smb-character"], b"semi:colon": ["smb-character"], b"back\\slash": ["smb-character"],
    b"star*": ["smb-character"], b"dot.": ["smb-ending"], b"space ": ["smb-ending"],
    b"...": ["smb-ending"], b"CON": ["smb-device"], b"nul.txt": ["smb-device"],
    b"\xff?.": ["not-utf8", "smb-character", "smb-ending"],
}
TWINS = [{b"readme", b"README", b"ReadMe"}, {"ärger".encode(), "Ärger".encode()}]


def check(*argv):
    return subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", *map(str, argv)],
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


def answer(*argv, exit=3):
    done = check("--json", *argv)
    assert done.returncode == exit, done
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


def said(done, code, *texts):
    """It ended with this status after exactly one line that says these things."""
    assert done.returncode == code, done
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("postcopy"), lines
    for text in texts:
        assert text in lines[0]


def rows(a):
    return {p["property"]: p for p in a["properties"]}


def counts(a):
    return {k["kind"]: k["count"] for k in a["kinds"] if k["count"]}


def paths(a, kind):
    return {os.fsencode(n["path"]) for n in a["names"] if n["kind"] == kind}


def url(server):
    return "--source", server.url()


@pytest.fixture(scope="module")
def tree(new_volume):
    """Made on ext4: it takes symlinks' targets that XFS does not."""
    root = os.fsencode(new_volume("ext4", "64M", options="noatime", mkfs=("-b", "4096")).path / "tree")
    top = os.path.join(root, TOP)
    os.makedirs(top)
    for name in [*TREE, *set().union(*TWINS)]:
        with open(os.path.join(top, name), "wb"):
            pass
    with open(os.path.join(root, b"secret"), "wb") as f:
        os.fchmod(f.fileno(), 0o600)
    os.symlink(b"t" * 1023, os.path.join(root, b"fits"))
    os.symlink(b"t" * 1024, os.path.join(root, b"too-long"))
    deep = root
    for _ in range(10):
        deep = os.path.join(deep, b"d" * 100)
        os.mkdir(deep)
    os.mkdir(os.path.join(deep, b"e" * 13))             # 10 * 101 + 13 = 1023
    with open(os.path.join(deep, b"e" * 13, b"f"), "wb"):
        pass
    os.mkdir(os.path.join(deep, b"e" * 14))
    return root


@pytest.fixture(scope="module")
def old(old_server, tree):
    return old_server(os.fsdecode(tree))


@pytest.fixture(scope="module")
def fake():
    tree = Tree()
    tree.file(tree.mkdir(tree.root, "d"), "f", b"x")
    tree.file(tree.root, "secret", b"x", mode=0o600)
    with FakeServer(tree) as server:
        yield server
        assert server.writes == 0


@pytest.fixture
def honest(fake):
    yield fake
    fake.clear_hooks()


# -- a real source --------------------------------------------------------------------

def test_names_of_a_real_server(old, tree, fresh_dir):
    a = answer(*url(old), "--names", "--protocols", "nfs,smb", fresh_dir)
    for kind in {k for kinds in TREE.values() for k in kinds}:
        assert paths(a, kind) == {TOP + b"/" + n for n, kinds in TREE.items() if kind in kinds}, kind
    twins = {}
    for n in a["names"]:
        if n["kind"] == "case-twin":
            twins.setdefault(os.fsencode(n["twin"]), set()).add(os.fsencode(n["path"]))
    found = [{first} | {p[len(TOP) + 1:] for p in others} for first, others in twins.items()]
    assert sorted(map(sorted, found)) == sorted(map(sorted, TWINS))
    end = (b"d" * 100 + b"/") * 10
    assert paths(a, "long-path") == {end + b"e" * 13 + b"/f", end + b"e" * 14}
    assert paths(a, "refused") == {b"too-long"}
    why = [n["why"] for n in a["names"] if n["kind"] == "refused"]
    assert why == ["a symlink's target of 1024 bytes, 1023 are the most"]
    assert counts(a) == {"case-twin": 3, "not-utf8": 3, "smb-character": 7, "smb-ending": 4,
                         "smb-device": 2, "long-path": 2, "refused": 1}
    everything = sum(len(d) + len(f) for _, d, f in os.walk(tree))
    assert a["walked"] == {"names": everything, "stopped": False, "directories":
                           1 + sum(len(d) for _, d, _ in os.walk(tree))}
    assert a["ok"] and a["lost"]


def test_to_nfs_most_names_are_fine(old, fresh_dir):
    a = answer(*url(old), "--names", fresh_dir)
    assert counts(a) == {"refused": 1} and a["protocols"] == ["nfs"]
    a = answer(*url(old), "--names")                        # limits of no file system
    assert counts(a) == {} and "target" not in a


def test_properties_of_a_real_server(old, fresh_dir):
    a = answer(*url(old), fresh_dir)
    r = rows(a)
    # it has the ACL protocol, and 4 tells of no ACL
    told = release() > 4
    assert {code for code, p in r.items() if p["volume"] == "lost"} == ALWAYS - (
        {"posix-acl"} if told else set())
    assert "names" not in a and "kinds" not in a and "walked" not in a
    for code in ("types", "data", "sizes", "owner", "group", "mtime", "atime", "hard-links",
                 "special-files"):
        assert (r[code]["source"], r[code]["volume"]) == ("seen", "kept"), r[code]
    assert r["mode"]["volume"] == ("kept" if told else "approximated")
    assert ("not known" in r["mode"]["why"]) == (not told)
    assert r["posix-acl"]["source"] == ("seen" if told else "unknown"), r["posix-acl"]
    assert r["symlinks"]["volume"] == "approximated" and "1023" in r["symlinks"]["why"]
    assert r["btime"]["source"] == "not offered"
    assert a["source_says"]["chown_restricted"] and not a["source_says"]["case_insensitive"]
    assert a["target"] == str(fresh_dir) and a["target_has"]["filesystem"] == "xfs"


def test_text(old, fresh_dir):
    """What people see: nothing in it that moves a terminal's cursor."""
    done = check(*url(old), "--names", "--protocols", "nfs,smb", fresh_dir)
    text = done.stdout.decode()
    assert done.returncode == 3 and not done.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\udc80-\udcff]", text)
    lines = text.splitlines()
    for line in ("    all/new\\nline", "    all/\\x1b[31mred", "    all/latin1-\\xe4",
                 "    all/back\\\\slash"):
        assert line in lines
    assert [re.split("  +", line.strip()) for line in lines if line.startswith("creation time")] == [
        ["creation time", "not offered", "lost", "NFSv3 does not carry it"]]
    assert "3 case-twin: names" in text and lines[-1].startswith("lost: creation time")


def test_accepted_losses(old, fresh_dir):
    a = answer(*url(old), "--accept", ",".join(ALWAYS), fresh_dir, exit=0)
    assert not a["lost"] and rows(a)["quotas"]["accepted"] and not rows(a)["mtime"]["accepted"]
    a = answer(*url(old), "--accept", ",".join(ALWAYS), "--names", fresh_dir)
    assert a["lost"] and counts(a) == {"refused": 1}
    a = answer(*url(old), "--accept", ",".join(ALWAYS | {"refused"}), "--names", fresh_dir, exit=0)
    assert counts(a) == {"refused": 1} and not a["lost"]
    done = check(*url(old), "--accept", ",".join(ALWAYS), fresh_dir)
    assert done.returncode == 0 and b"nothing is lost" in done.stdout
    answer(*url(old), "--accept", ",".join(ALWAYS - {"quotas"}), fresh_dir)


def test_sparse_files_are_counted(fresh_dir):
    """NFSv3 reads their holes over the wire: how much that is can be known before."""
    tree = Tree()
    tree.file(tree.root, b"plain", b"data")
    tree.file(tree.root, b"sparse", b"").claim(size=16 * TIB, used=1 << 20)
    tree.file(tree.root, b"hole", b"").claim(size=3 << 20, used=0)
    tree.file(tree.root, b"nearly", b"").claim(size=3 << 20, used=(2 << 20) + 1)
    tree.file(tree.root, b"larger", b"").claim(size=3 << 20, used=4 << 20)
    tree.mkdir(tree.root, b"d").claim(size=3 << 20, used=0)
    with FakeServer(tree) as server:
        a = answer(*url(server), "--names", fresh_dir)
        assert (a["walked"]["sparse_files"], a["walked"]["sparse_bytes"]) == \
            (2, 16 * TIB - (1 << 20) + (3 << 20))
        text = check(*url(server), "--names", fresh_dir).stdout
        assert b"2 files take 16.0 TiB less room there than their size" in text, text


def test_limit(old, fresh_dir):
    a = answer(*url(old), "--names", "--protocols", "smb", "--limit", "2", fresh_dir)
    kinds = {k["kind"]: k for k in a["kinds"]}
    assert (kinds["smb-character"]["count"], kinds["smb-character"]["shown"]) == (7, 2)
    assert len(paths(a, "smb-character")) == 2 and len(paths(a, "refused")) == 1
    text = check(*url(old), "--names", "--protocols", "smb", "--limit", "2", fresh_dir).stdout
    assert text.count(b"--limit 0 shows all") == sum(k["count"] > 2 for k in a["kinds"])


def test_init_tells_the_same(old, fresh_dir, new_migration):
    lost = [p["title"] for p in answer(*url(old), fresh_dir)["properties"] if p["volume"] == "lost"]
    told = new_migration(old.url(), fresh_dir).init(check=False)
    assert told["ok"] and told["not_migrated"] == lost and "creation time" in lost


def snapshot(root):
    return {p: os.lstat(p) for top, dirs, files in os.walk(root)
            for p in [top, *(os.path.join(top, n) for n in dirs + files)]}


def test_nothing_is_written(old, tree, new_volume):
    """Neither on the source nor on the target: not even a read-only one minds."""
    target = new_volume("xfs", "512M")
    here = target.path / "here"
    here.mkdir()
    target.remount("ro")
    image = hashlib.sha256(target.image.read_bytes()).digest()
    volumes = pathlib.Path(os.environ["POSTCOPY_VOLUMES"])
    volumes.write_text("/srv/data\n")
    before = snapshot(tree)
    a = answer(*url(old), "--names", "--protocols", "nfs,smb", here)
    assert [w["code"] for w in a["warnings"]] == ["target-read-only"]
    assert hashlib.sha256(target.image.read_bytes()).digest() == image
    assert snapshot(tree) == before
    assert volumes.read_text() == "/srv/data\n"


def test_init_after_check_makes_the_volume(old, fresh_dir):
    answer(*url(old), fresh_dir)
    assert os.listdir(fresh_dir) == []
    (fresh_dir / "mine").write_bytes(b"x")
    a = answer(*url(old), fresh_dir)
    assert [w["code"] for w in a["warnings"]] == ["target-not-empty"]
    assert "'mine'" in a["warnings"][0]["message"]


# -- the new file system -----------------------------------------------------------------

@pytest.mark.parametrize("fstype, mkfs", [("xfs", ()), ("xfs", ("-m", "bigtime=0")), 
                                          ("ext4", ("-b", "4096")), ("ext4", ("-b", "1024")),
                                          ("ext4", ("-b", "4096", "-I", "128"))])
def test_limits_are_those_of_the_file_system(fake, new_volume, fstype, mkfs):
    volume = new_volume(fstype, "512M", mkfs=mkfs)
    home = volume.path / "home"
    home.mkdir()
    has = answer(*url(fake), home)["target_has"]

    os.symlink("s" * has["symlink_max"], home / "s")
    with pytest.raises(OSError, match="too long"):
        os.symlink("s" * (has["symlink_max"] + 1), home / "s2")
    most = has["device_major_max"], has["device_minor_max"]
    os.mknod(home / "dev", 0o20600, os.makedev(*most))
    for major, minor in ((most[0] + 1, 0), (0, most[1] + 1)):
        with pytest.raises(OSError, match="Invalid argument"):
            os.mknod(home / "dev2", 0o20600, os.makedev(major, minor))
    (home / ("n" * has["name_max"])).write_bytes(b"")
    with pytest.raises(OSError, match="too long"):
        (home / ("n" * (has["name_max"] + 1))).write_bytes(b"")
    with open(home / "f", "wb") as f:
        os.truncate(f.fileno(), has["max_file_size"])
        if has["max_file_size"] < 2 ** 63 - 1:
            with pytest.raises(OSError, match="too large"):
                os.truncate(f.fileno(), has["max_file_size"] + 1)
        for when, kept in ((has["time_max"], True), (has["time_max"] + 1, False),
                           (has["time_min"], True), (has["time_min"] - 1, False)):
            os.utime(f.fileno(), ns=(0, when * 10 ** 9))
            assert (os.fstat(f.fileno()).st_mtime_ns == when * 10 ** 9) == kept, when
        os.utime(f.fileno(), ns=(0, 10 ** 9 + 1))
        rounded = os.fstat(f.fileno()).st_mtime_ns == 10 ** 9
        assert rounded == (has["time_unit_ns"] > 1)
    assert has["xattrs_max"] == (0 if fstype == "xfs" else int(mkfs[1]))
    for i, size in enumerate((60000 if fstype == "xfs" else has["xattrs_max"] - 300, 30000)):
        try:
            os.setxattr(home / "f", "user.%d" % i, bytes(size))
        except OSError:
            assert i == 1 and fstype == "ext4"
        else:
            assert i == 0 or fstype == "xfs"
    if has["link_max"] <= 65000:
        for i in range(1, has["link_max"]):
            os.link(home / "f", home / ("l%d" % i))
        with pytest.raises(OSError, match="Too many links"):
            os.link(home / "f", home / "one-more")
    else:
        assert fstype == "xfs" and has["link_max"] == 2 ** 31 - 1


def test_files_that_cannot_be_read():
    """No listing tells: one byte of each is read."""
    tree = Tree()
    tree.file(tree.root, "secret", b"x", mode=0o600)
    tree.file(tree.root, "empty", b"")
    d = tree.mkdir(tree.root, "d")
    bad = {tree.file(d, name, b"bytes"): what for name, what in (
        ("denied", errors.ACCES), ("broken", errors.IO))}
    for i in range(600):
        tree.file(d, "f%d" % i, b"%d" % i)
    with FakeServer(tree) as server:
        for node, what in bad.items():
            server.hook("READ", only(lambda call, n=node: call.node is n, status(what)))
        a = answer(*url(server), "--names")
        assert counts(a) == {} and "files_read" not in a["walked"]
        a = answer(*url(server), "--read")
        assert a["walked"]["files_read"] == 604 == a["walked"]["names"] - 1
        assert counts(a) == {"unreadable": 2} and a["lost"]
        assert {n["path"]: n["why"] for n in a["names"]} == {
            "d/denied": "Permission denied", "d/broken": "Input/output error"}
        text = check(*url(server), "--read").stdout.decode()
        assert "d/denied" in text and "2 unreadable" in text
        assert server.writes == 0


def test_what_the_new_file_system_refuses(new_volume, fresh_dir):
    tree = Tree()
    tree.file(tree.root, "secret", b"x", mode=0o600)
    tree.file(tree.root, "big").claim(size=17 * TIB)
    tree.file(tree.root, "fits").claim(size=15 * TIB)
    tree.file(tree.root, "linked").claim(nlink=65001)
    tree.file(tree.root, "late", mtime=((1 << 32) - 1) * 10 ** 9)
    tree.file(tree.root, "nobody's", b"x").claim(uid=(1 << 32) - 1)
    for name, kind, rdev in (("most", CHR, (511, 0x3ffff)), ("major", BLK, (512, 1)),
                             ("minor", CHR, (1, 0x40000)), ("never", CHR, (0x1000, 1))):
        tree.special(tree.root, name, kind, rdev)
    small = new_volume("ext4", "48M", mkfs=("-b", "4096", "-I", "128")).path / "here"
    small.mkdir()
    with FakeServer(tree) as server:
        a = answer(*url(server), "--names", small)
        assert "target-no-space" in [w["code"] for w in a["warnings"]]
        assert paths(a, "refused") == {b"big", b"linked", b"never"}
        assert rows(a)["special-files"]["volume"] == "kept"
        assert paths(a, "time-range") == {b"late"}
        assert paths(a, "impossible") == {b"nobody's"}
        assert rows(a)["mtime"]["volume"] == "approximated"
        assert "2038-01-19" in rows(a)["mtime"]["why"]
        assert "rounded" in rows(a)["atime"]["why"]
        assert rows(a)["sizes"]["volume"] == "approximated"
        a = answer(*url(server), "--names", fresh_dir)
        assert counts(a) == {"impossible": 1, "refused": 3, "time-unsure": 1} and \
            rows(a)["mtime"]["volume"] == "kept"
        assert paths(a, "refused") == {b"major", b"minor", b"never"}
        assert "a device number of 512, 1: 511, 262143 are the most" in [
            n["why"] for n in a["names"] if n["kind"] == "refused"]
        special = rows(a)["special-files"]
        assert special["volume"] == "kept" and "up to 511, 262143" in special["why"]
        a = answer(*url(server), "--names")             # no file system is given
        assert paths(a, "refused") == {b"never"}


def test_what_is_told_of_a_real_server_comes_true(old, tree, fresh_dir, new_migration):
    told = answer(*url(old), "--names", fresh_dir)
    m = new_migration(old.url(), fresh_dir).init().start()
    m.crawl()
    parked = m.tool("parked", m.volume)["parked"]
    assert m.scan()["refused"] == counts(told)["refused"] == len(parked) == 1
    (path,) = paths(told, "refused")
    assert os.fsdecode(path) in parked[0]["reason"]
    here, there = ({p[len(root):] for p in snapshot(root) if "/.postcopy" not in p}
                   for root in (str(fresh_dir), os.fsdecode(tree)))
    assert there - here == {"/" + os.fsdecode(path)} and not here - there


def test_what_is_told_of_absurd_entries_comes_true(new_volume, new_migration):
    tree = Tree()
    tree.file(tree.root, "secret", b"x", mode=0o600)
    tree.file(tree.root, "big").claim(size=17 * TIB)
    tree.special(tree.root, "device", CHR, rdev=(1 << 12, 0))
    tree.file(tree.root, "late", mtime=((1 << 32) - 1) * 10 ** 9)
    for name, entry in (("owner", "nobody's"), ("name", "a/b"), ("long", "n" * 256)):
        node = tree.file(tree.mkdir(tree.root, name), entry, b"x")
        if name == "owner":
            node.claim(uid=(1 << 32) - 1)
    home = new_volume("ext4", "256M", mkfs=("-b", "4096", "-I", "128")).path / "home"
    home.mkdir()
    with FakeServer(tree) as server:
        told = answer(*url(server), "--names", home)
        m = new_migration(server.url(), home, allow=["impossible listing"]).init().start()
        m.server.allow = ["converted to NFS3ERR_IO"]
        m.crawl()
        parked = {p["path"]: p["reason"] for p in m.tool("parked", home)["parked"]}
        bad = paths(told, "impossible") | paths(told, "long-name")
        assert bad == {b"owner/nobody's", b"name/a/b", b"long/" + b"n" * 256}
        assert set(parked) == {".", *(os.fsdecode(p).split("/")[0] for p in bad)}, parked
        assert counts(told)["refused"] == 2
        assert m.scan()["refused"] == 3         # and the entry of nobody
        assert paths(told, "refused") == {b"big", b"device"}
        assert not {"big", "device"} & set(os.listdir(home)) and (home / "secret").exists()
        assert paths(told, "time-range") == {b"late"}
        assert os.stat(home / "late").st_mtime == told["target_has"]["time_max"]


# -- answers of all kinds -----------------------------------------------------------------

def test_what_the_server_says(honest):
    said_of = answer(*url(honest))
    assert said_of["source_says"] == {
        "max_file_size": 2 ** 63 - 1, "time_delta_ns": 1, "hard_links": True, "symlinks": True,
        "link_max": 32000, "name_max": 255, "case_insensitive": False, "case_preserving": True,
        "chown_restricted": True, "bytes_total": 1 << 40, "bytes_free": 1 << 39,
        "files_total": 1 << 30, "files_free": 1 << 29, "posix_acl": False,
        "security": "sys"}
    assert rows(said_of)["posix-acl"]["source"] == "not offered"


def test_space(honest, fresh_dir):
    warnings = {w["code"]: w["message"] for w in answer(*url(honest), fresh_dir)["warnings"]}
    assert "512.0 GiB" in warnings["space-short"]       # of which 2 GiB are free here


def test_folding_server(honest):
    honest.hook("PATHCONF", patch(4 + 4 + 84 + 16, b"\0\0\0\1"))
    r = rows(answer(*url(honest)))
    assert r["names"]["volume"] == "approximated" and "A and a" in r["names"]["why"]


def test_absurd_numbers(honest, fresh_dir):
    honest.hook("PATHCONF", patch(92, b"\xff" * 24))
    honest.hook("FSSTAT", patch(92, b"\xff" * 52))
    honest.hook("FSINFO", patch(92 + 28, b"\xff" * 16))
    a = answer(*url(honest), fresh_dir)
    assert a["source_says"]["name_max"] == 2 ** 32 - 1
    assert a["source_says"]["time_delta_ns"] == 0
    assert a["source_says"]["max_file_size"] == 2 ** 64 - 1
    assert {p["property"] for p in a["properties"] if p["volume"] == "lost"} == ALWAYS


@pytest.mark.parametrize("procs", ["PATHCONF", "FSSTAT", "PATHCONF FSSTAT"])
@pytest.mark.parametrize("hook", [status(errors.NOTSUPP), status(errors.IO), garbage(), truncate(50),
                                  truncate(0), cut], ids=["notsupp", "io", "garbage", "half", "empty", "cut"])
def test_missing_answers(honest, procs, hook):
    """Unknown, not an error: everything else is told."""
    honest.hook(procs, hook)
    says = answer(*url(honest))["source_says"]
    assert ("name_max" in says) == ("PATHCONF" not in procs)
    assert ("bytes_total" in says) == ("FSSTAT" not in procs)
    assert says["hard_links"] and says["posix_acl"] is False


def test_hostile_listings(honest):
    top, d = honest.tree.root, honest.tree.find("d")
    honest.tree.link(d, "again", top)
    honest.tree.link(d, b"a/b", honest.tree.find("secret"))
    honest.tree.file(d, b"n" * 256)
    locked = honest.tree.mkdir(top, "locked")
    empty = honest.tree.mkdir(top, "empty")
    try:
        honest.hook("READDIRPLUS", only(lambda c: c.node is locked and c.cred.uid == 0,
                                        status(errors.ACCES)))
        honest.hook("READDIRPLUS", only(lambda c: c.node is empty, empty_pages))
        a = answer(*url(honest), "--names")
        assert counts(a) == {"unlisted": 2, "cycle": 1, "impossible": 1, "long-name": 1}
        why = {n["path"]: n["why"] for n in a["names"] if n["kind"] == "unlisted"}
        assert why == {"locked": "Permission denied", "empty": "the old server's list is impossible"}
        assert paths(a, "cycle") == {b"d/again"} and paths(a, "impossible") == {b"d/a/b"}
    finally:
        d.entries = d.entries[:1]
        top.entries = [e for e in top.entries if e[0] in (b"d", b"secret")]


def test_terminal_controls(honest):
    """C0, C1, bidirectional overrides, broken UTF-8: harmless in text and in JSON."""
    names = [b"\x1b]0;title\x07", b"\xc2\x9b31m?", "\u202egnp.exe?".encode(), b"\x9b31m", b"a\rb"]
    top = honest.tree.root
    kept = list(top.entries)
    for name in names:
        honest.tree.file(top, name)
    try:
        done = check(*url(honest), "--names", "--protocols", "smb", "--json")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout.decode())
        told = {os.fsencode(n["path"]) for n in json.loads(done.stdout)["names"]}
        assert told == set(names)
        text = check(*url(honest), "--names", "--protocols", "smb").stdout.decode()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        for line in ("\\x1b]0;title\\x07", "\\x9b31m", "\\u009b31m?", "\\u202egnp.exe?", "a\\rb"):
            assert "    %s\n" % line in text
    finally:
        top.entries = kept


def test_progress_and_interruption(honest):
    """A directory without end: progress is told, ^C ends it and keeps what was found."""
    d = honest.tree.find("d")
    honest.hook("READDIRPLUS", only(lambda c: c.node is d, endless_listing(
        honest.tree.find("secret"), 100)))
    honest.hook("READDIRPLUS", only(lambda c: c.node is d, delay(0.01)))
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(["/usr/bin/python3", str(POSTCOPY), "init", "--check", *url(honest),
                               "--names", "--json"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert any(re.search(rb"[1-9]\d\d+ names in 2 directories, 0 to look at", line)
                       for line in child.stderr)
            child.send_signal(number)
            out, _ = child.communicate(timeout=300)
        assert child.returncode == 130
        a = json.loads(out)
        assert a["walked"]["stopped"] and a["walked"]["names"] > 100 and a["ok"]


def test_interrupted_while_the_source_is_silent(honest):
    gate = Gate()
    honest.hook("READDIRPLUS", only(lambda c: c.node is honest.tree.find("d"), gate))
    with subprocess.Popen(["/usr/bin/python3", str(POSTCOPY), "init", "--check", *url(honest),
                           "--names"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as child:
        wait_until(lambda: gate.waiting, 60, "the walk")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
        gate.open()
    assert child.returncode == 130 and b"stopped, there are more" in out


def test_interrupted_before_the_walk(honest):
    """Nothing is known then: nothing is printed, and it is no error of the source."""
    gate = Gate()
    honest.hook("FSINFO", gate)
    for option in ((), ("--json",)):
        with subprocess.Popen(["/usr/bin/python3", str(POSTCOPY), "init", "--check", *url(honest),
                               *option], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            wait_until(lambda: gate.waiting, 60, "the first question")
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=300)
        gate.open()
        wait_until(lambda: not gate.waiting)
        gate.shut()
        assert (child.returncode, out, err) == (130, b"", b"")
    gate.open()


# -- wrong input ---------------------------------------------------------------------------

def test_errors_are_1(fake, fresh_dir):
    port = free_port()
    for uri, text in (("nfs://", "nfs://"), ("/local", "/local"), ("nfs://h/x?a=b", "a"),
                      ("nfs://127.0.0.1/x?nfsport=%d&mountport=%d" % (port, port), "refused"),
                      (fake.url().replace("/export", "/nothing"), "showmount"),
                      ("//h/My Share", "'smb://h/My Share'"), ("\\\\h\\s\\d", "'smb://h/s/d'"),
                      ("cifs://h/s", "'smb://h/s'"), ("h:/export", "'nfs://h/export'"),
                      ("h", "nfs://host/export, smb://host/share or file:///path")):
        said(check("--source", uri), 1, text)
        said(check("--source", uri, "--names", "--json"), 1, text)
    said(check(*url(fake), fresh_dir / "no"), 1, "does not exist")
    (fresh_dir / "f").write_bytes(b"")
    said(check(*url(fake), fresh_dir / "f"), 1, "not a directory")
    said(check(*url(fake), "/dev/shm"), 1, "tmpfs")
    done = check("--source", "nfs://", "--json")
    assert json.loads(done.stdout)["error"] == "uri-bad"


@pytest.mark.parametrize("uri", [
    "smb://me:se@cret@old/share", "nfs://me:secret@old/export", "smb://me:sec/ret@old/share",
    "ftp://me:secret@old/x", "//me:secret@old/share", "me:secret@old:/export"])
def test_no_password_of_a_uri_is_shown(fake, fresh_dir, uri):
    """Whatever is wrong with the command; it is in no file either."""
    inside = re.search("me:(.*)@old", uri)[1]
    for command in (["init", "--check", "--source", uri], ["init", "--source", uri, fresh_dir],
                    ["init", "--check", "--json", "--source", uri],
                    ["init", "--json", "--source", uri, fresh_dir],
                    ["init", *url(fake), "--join", uri, fresh_dir],
                    ["init", *url(fake), uri], ["init", uri, fresh_dir], ["status", uri],
                    ["status", "--json", uri], [uri], ["init", "--sauce=" + uri],
                    ["config", "check", uri]):
        done = subprocess.run([str(POSTCOPY), *map(str, command)], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300)
        assert done.returncode != 0
        assert inside not in done.stdout + done.stderr, done
    done = subprocess.run([str(VOLUME_TOOL), "check", "--sauce=" + uri], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 2 and inside not in done.stdout + done.stderr, done
    done = check("--source", uri)
    assert b"***@old" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(fresh_dir.iterdir())


def test_a_stale_export_is_said(honest):
    """As of Linux' server when the exported disk is not mounted, or its fsid was changed."""
    for procs, what in (("FSINFO", "FSINFO"), ("GETATTR", "GETATTR")):
        honest.hook(procs, status(errors.STALE))
        line = check(*url(honest)).stderr.decode()
        assert what in line and "stale" in line and "exportfs" in line, line
        assert "must speak NFSv3" not in line
        honest.clear_hooks()


def test_a_claimed_granularity_is_no_limit(honest, fresh_dir):
    """Linux' server claims a second, and sends nanoseconds."""
    honest.hook("FSINFO", patch(92 + 36, b"\0\0\0\1\0\0\0\0"))
    a = answer(*url(honest), fresh_dir)
    assert a["source_says"]["time_delta_ns"] == 10 ** 9
    for code in ("mtime", "atime"):
        assert rows(a)[code]["volume"] == "kept", rows(a)[code]
        assert "to the ns" in rows(a)[code]["why"] and "claims 1" in rows(a)[code]["why"]


def test_squashed_root_is_an_error(fake):
    fake.root_squash = True
    try:
        said(check(*url(fake)), 1, "squashed", "no_root_squash")
    finally:
        fake.root_squash = False


def test_source_inside_the_target(fresh_dir, old_server):
    (fresh_dir / "src").mkdir()
    (fresh_dir / "src" / "f").write_bytes(b"x")
    said(check(*url(old_server(fresh_dir / "src")), fresh_dir), 1, "inside the target")


@pytest.mark.parametrize("argv, text", [
    (("--protocols", "cifs"), "want nfs, smb or nfs,smb"), (("--accept", "frob"), "'frob'"),
    (("--limit", "-1"), "'-1'"), (("--workers", "99"), "1 to 16")])
def test_wrong_options(fake, argv, text):
    said(check(*url(fake), *argv), 2, text)


@pytest.mark.parametrize("option", [("--names",), ("--read",), ("--protocols", "nfs"), ("--accept", "quotas"),
                                    ("--limit", "1"), ("--workers", "1")])
def test_options_of_check_only(fake, fresh_dir, option):
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", *url(fake), *option,
                           str(fresh_dir)], capture_output=True, timeout=300)
    said(done, 2, option[0], "--check only")
    assert os.listdir(fresh_dir) == []


def test_init_wants_a_directory(fake):
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", *url(fake)],
                          capture_output=True, timeout=300)
    said(done, 2, "DIR")


def test_not_root(fake, fresh_dir):
    os.chmod(fresh_dir, 0o755)
    # a copy: the tree may stand in /root, where nobody cannot even execute it
    program = copy_program(POSTCOPY, fresh_dir)
    said(subprocess.run([*NOBODY, "/usr/bin/python3", program, "init", "--check", *url(fake)],
                        capture_output=True, timeout=300), 1, "must be run as root")
