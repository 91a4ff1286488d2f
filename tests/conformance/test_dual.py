# SPDX-License-Identifier: GPL-3.0-or-later
"""One old tree, exported over NFS and shared over SMB: names, links, numbers and data come
from NFS, what Windows knows from SMB, joined object by object."""
import glob
import json
import os
import shutil
import subprocess

import pytest

from lib import smbtree
from lib.programs import MODULES
from lib.smbd import STACK, Samba, Share
from lib.smbsource import with_module
from lib.smbtree import Builder, compare
from lib.wait import wait_until
from nfsclient.nfstypes import DIR, LNK, REG
from smb2client import wire
from test_smb_meta import VERBOSE

pytestmark = with_module

RAW = smbtree.RAW_NAMES
UNSPEAKABLE = [b"not \xff UTF-8", b"a:b", b"que?", b"back\\slash", b"new\nline"]


def posix_only(top):
    """What SMB does not show as it is."""
    os.mkdir(top + b"/posix")
    with open(top + b"/posix/file", "wb") as f:
        f.write(b"x" * 5000)
    os.chmod(top + b"/posix/file", 0o640)
    os.chown(top + b"/posix/file", 70001, 70010)
    os.mkdir(top + b"/posix/dir")
    os.link(top + b"/posix/file", top + b"/posix/second")
    os.link(top + b"/posix/file", top + b"/posix/dir/third")
    os.symlink(b"../posix/fi\xffle", top + b"/posix/symlink")
    os.mkfifo(top + b"/posix/fifo", 0o620)
    os.mknod(top + b"/posix/device", 0o060600, os.makedev(7, 99))
    with open(top + b"/posix/setuid", "wb") as f:
        f.write(b"#!")
    os.chown(top + b"/posix/setuid", 70002, 70010)
    os.chmod(top + b"/posix/setuid", 0o4750)
    for uid, gid in ((65534, 65534), (70002, 65534), (65534, 70010), (77777, 77777)):
        path = top + b"/posix/of-%d-%d" % (uid, gid)
        with open(path, "wb") as f:
            f.write(path)
        os.chown(path, uid, gid)
        os.chmod(path, 0o640)
    os.mkdir(top + b"/strange")
    for name in UNSPEAKABLE:
        with open(top + b"/strange/" + name, "wb") as f:
            f.write(name)
        os.chmod(top + b"/strange/" + name, 0o604)
    for i, name in enumerate((b"posix", b"strange", b".")):
        os.utime(top + b"/" + name, ns=(10 ** 18 + i * 100, 10 ** 18 + i * 700))


@pytest.fixture(scope="module")
def samba(new_samba, tree):
    server = new_samba("old-smb", tree, more=RAW)
    with server.client() as c:
        Builder(c, entries=40, deep=5).build()
        posix_only(os.fsencode(tree))
        # else smbd calculates it, from an access time that changes
        for name in ("file", "setuid", "dir"):
            with c.open("posix/" + name, wire.WRITE_ATTRIBUTES) as f:
                f.set_basic(created=smbtree.EPOCH + 77)
    return server


@pytest.fixture(scope="module")
def ganesha(old_server, samba, tree):
    return old_server(tree)


@pytest.fixture(scope="module")
def done(make, ganesha, samba):
    m = make(ganesha.url(), join=samba.url()).init().start()
    with m.client("v3") as c:       # by name, before anything is listed
        assert c.patient(60).getattr(b"descriptors/deny").size > 0
        assert c.read_file(b"posix/dir/third") == b"x" * 5000
    m.crawl()
    m.audit(complete=True)
    return m


def walk(client):
    """{path: what must be the same}; numbers and modes of what SMB does not know, too."""
    found = {}
    for path, entry in client.walk():
        a = entry.attrs
        found[path] = [a.type, a.uid, a.gid, a.size if a.type == REG else 0, a.mtime]
        if a.type not in (REG, DIR):
            found[path] += [a.mode & 0o7777]
        if a.type == REG:
            found[path] += [a.nlink, client.read_file(path)]
        if a.type == LNK:
            found[path] += [client.readlink(path)]
    return found


def not_joined(m):
    return [line for line in m.log.read_text().splitlines() if ": not joined: " in line]


def test_names_links_and_data_are_those_of_nfs(ganesha, done):
    with ganesha.client("v3") as was, done.client("v3") as is_:
        old, new = walk(was), walk(is_)
        inodes = {is_.getattr(b"posix/" + n).fileid for n in (b"file", b"second", b"dir/third")}
    assert {b"strange/" + n for n in UNSPEAKABLE} < old.keys()
    assert {p: a for p, a in old.items() if new.get(p) != a} == {}
    assert old.keys() == new.keys() and len(inodes) == 1


def test_what_windows_knows_is_that_of_smb(samba, done, moddir):
    """Through our module; the descriptors' hashes fit what is stored for NFS."""
    more = RAW + "\nveto files = /.postcopy/"
    counts = {}
    with Samba(moddir / "new-smb", module_dir=MODULES, conf=VERBOSE, allow=["HAVE_BACKTRACE"],
               shares=[Share(str(done.volume), vfs=STACK, more=more)]) as new:
        with samba.client() as was, new.client() as is_:
            tops = sorted(e.name for e in was.listdir("") if e.name not in ("posix", "strange"))
            found = [str(d) for top in tops for d in compare(was, is_, top, counts=counts)]
            found += [str(d) for name in ("file", "second", "dir", "setuid")
                      for d in compare(was, is_, "posix/" + name, counts=counts)]
        log = new.log_text()
    assert found == [], "\n".join(found)
    assert counts["objects"] > 150
    assert log.count("blob hash matches for file") >= counts["objects"]
    assert "blob hash does not match" not in log


def test_numbers_are_those_of_nfs_modes_those_of_the_descriptor(tree, done):
    names = sorted(glob.glob("posix/of-*", root_dir=tree))
    assert len(names) == 4
    for name in ("posix/file", "posix/setuid", "posix/dir", *names):
        old, new = os.stat(tree / name), os.stat(done.volume / name)
        assert (old.st_uid, old.st_gid, oct(old.st_mode)) == \
            (new.st_uid, new.st_gid, oct(new.st_mode)), name
    assert os.stat(done.volume / "descriptors/deny").st_uid == \
        os.stat(tree / "descriptors/deny").st_uid


def test_what_smb_cannot_say_is_told_and_not_parked(done):
    status, told = done.status(), not_joined(done)
    shown = done.postcopy("status", done.volume).stdout
    assert "joined with" in shown and "not joined" in shown
    assert len(told) == len(UNSPEAKABLE), told
    assert status["mismatches"] == len(told) and "not joined" in status["mismatch"]
    assert any("strange/not \\xff UTF-8" in line for line in told)
    for name in UNSPEAKABLE:
        st = os.stat(os.fsencode(done.volume) + b"/strange/" + name)
        assert st.st_mode & 0o7777 == 0o604
        assert ntacl(os.fsencode(done.volume) + b"/strange/" + name) is None


def ntacl(path):
    try:
        return os.getxattr(path, "security.NTACL")
    except OSError:
        return None


@pytest.fixture(scope="module")
def copy(new_samba, loop_xfs, old_server):
    """A share of a copy: other file ids, and some objects are others."""
    one, two = loop_xfs.path / "one", loop_xfs.path / "two"
    (one / "dir").mkdir(parents=True)
    for name in ("same", "size", "time", "gone", "kind", "dir/below"):
        (one / name).write_bytes(name.encode() * 10)
    subprocess.run(["cp", "-a", one, two], check=True)
    (two / "size").write_bytes(b"short")
    os.utime(two / "time", ns=(10 ** 18, 10 ** 18))
    (two / "gone").unlink()
    (two / "kind").unlink()
    (two / "kind").mkdir()
    shutil.copystat(one, two)
    return old_server(one), new_samba("copy", two)


def test_what_is_not_the_same_is_told(make, copy):
    nfs, share = copy
    m = make(nfs.url(), join=share.url()).init().start()
    m.crawl()
    m.audit(complete=True)
    told = not_joined(m)
    for name, why in (("size", "60"), ("time", "written at"), ("gone", "does not have it"),
                      ("kind", "another type")):
        assert len([x for x in told if '"%s": not joined: ' % name in x]) == 1, told
    assert m.status()["mismatches"] == len(told) == 4, told
    for name in ("size", "time", "gone", "kind"):
        assert ntacl(m.volume / name) is None
        assert (m.volume / name).read_bytes() == name.encode() * 10
    for name in ("same", "dir", "dir/below"):
        assert ntacl(m.volume / name)


def test_one_of_another_file_id_is_another(make, loop_xfs, old_server, new_samba):
    """Size and time agree: two files change places after they were listed."""
    top = loop_xfs.path / "swap"
    top.mkdir()
    for name in "abc":
        (top / name).write_bytes(b"12345")
        os.utime(top / name, ns=(10 ** 18, 10 ** 18))
    share = new_samba("swap", top)
    m = make(old_server(top).url(), join=share.url()).init()
    share.stop()
    m.start()
    m.start_crawler()
    wait_until(lambda: all((m.volume / name).exists() for name in "abc"), 60, "names")
    os.rename(top / "a", top / "tmp")
    os.rename(top / "b", top / "a")
    os.rename(top / "tmp", top / "b")
    share.start()
    wait_until(lambda: ntacl(m.volume / "c") and m.status()["mismatches"] == 2, 120, "all three")
    told = not_joined(m)
    assert len(told) == 2 and all("file id" in line for line in told), told
    assert any('"a": not' in line for line in told) and any('"b": not' in line for line in told)
    assert ntacl(m.volume / "a") is ntacl(m.volume / "b") is None


def test_nothing_is_filled_with_half(make, ganesha, samba):
    """Without SMB all wait: names come, no file opens to whom its descriptor denies it."""
    m = make(ganesha.url(), join=samba.url())
    lost = m.init(check=False)["not_migrated"]
    assert "NFSv4 ACLs" in lost and not {"security descriptors (Windows ACLs)",
                                         "hard links"} & set(lost)
    samba.stop()
    try:
        m.start()
        wait_until(lambda: m.status().get("source_trouble"), 60, "the lost share")
        assert m.status()["state"] == "source-lost"
        crawler = m.start_crawler()
        wait_until(lambda: (m.volume / "posix").exists(), 60, "names")
        assert ntacl(m.volume / "posix") is None
        assert not_joined(m) == []
    finally:
        samba.start()
    assert crawler.wait(300) == 0
    m.drain()
    m.audit(complete=True)
    assert len(not_joined(m)) == len(UNSPEAKABLE)
    assert ntacl(m.volume / "posix") and ntacl(m.volume / "descriptors/deny")


def test_only_the_same_tree_is_joined(make, ganesha, copy):
    answer = make(ganesha.url(), join=copy[1].url()).init(check=False)
    assert answer["exit"] and "is not the same directory" in answer["message"], answer
    for url, join in ((ganesha.url(), ganesha.url()), (copy[1].url(), copy[1].url())):
        assert make(url, join=join).init(check=False)["error"] == "usage"
    status, answer, told = check(make, ganesha.url(), copy[1].url())
    assert status == 1 and "is not the same directory" in told and told.count("\n") == 1


def check(make, url, join, *more):
    """`init --check`: its status, its JSON, and what it said besides."""
    m = make(url, join=join)
    conf = m.workdir / "check.conf"
    conf.write_text(m.conf)
    done = m.postcopy("init", "--check", "--json", "--source", url, "--join", join, "--config",
                      conf, *more, m.volume, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_checked_before(make, ganesha, samba, tree):
    """One table of both, and the names that will come without what the share knows."""
    before = {p: os.lstat(p).st_ctime_ns for p in tree.rglob("*")}
    status, answer, told = check(make, ganesha.url(), samba.url(), "--names")
    assert status == 3 and answer["ok"] and told.count("\n") == told.count(" names in "), told
    assert (answer["source"], answer["join"]) == (ganesha.url(), samba.url())
    assert answer["protocols"] == ["nfs", "smb"]
    rows = {p["property"]: p for p in answer["properties"]}
    for code in ("names", "data", "owner", "mtime", "hard-links", "symlinks", "special-files"):
        assert (rows[code]["from"], rows[code]["source"]) == ("nfs", "seen"), rows[code]
        assert rows[code]["volume"] != "lost"
    for code in ("btime", "security-descriptor", "dos-attributes", "user-xattrs"):
        assert (rows[code]["from"], rows[code]["volume"]) == ("smb", "kept"), rows[code]
    for code in ("mode", "posix-acl", "streams"):
        assert (rows[code]["from"], rows[code]["volume"]) == ("smb", "approximated"), rows[code]
    assert {c for c, p in rows.items() if p["volume"] == "lost"} == {
        "nfs4-acl", "capabilities", "inode-flags", "locks", "quotas", "snapshots"}
    found = {os.fsencode(n["path"]): n["why"] for n in answer["names"]
             if n["kind"] == "not-joined" and "unless" not in n["why"]}
    assert found == {b"strange/" + n: "SMB has no such names" for n in UNSPEAKABLE}
    assert {p: os.lstat(p).st_ctime_ns for p in tree.rglob("*")} == before


def test_checked_as_people_see_it(make, ganesha, samba):
    m = make(ganesha.url(), join=samba.url())
    (m.workdir / "check.conf").write_text(m.conf)
    argv = ("init", "--check", "--source", ganesha.url(), "--config", m.workdir / "check.conf")
    done = m.postcopy(*argv, "--join", samba.url(), check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 3 and "joined with" in done.stdout.replace("\n", " ")
    assert ["creation", "time", "SMB", "seen", "kept"] in [words[:5] for words in lines]
    assert ["hard", "links", "NFS", "seen", "kept"] in [words[:5] for words in lines]
    for join, status, text in ((samba.url("none"), 1, "smbclient -L"),
                               (ganesha.url(), 2, "beside an nfs:// one")):
        done = m.postcopy(*argv, "--join", join, check=False)
        assert done.returncode == status and text in done.stderr, done
        assert done.stderr.count("\n") == 1
