# SPDX-License-Identifier: GPL-3.0-or-later
"""A migration from a file system that is mounted here (file://): everything comes over, from
another file system and, with shared blocks, from the same; and what is no source of it (nothing
mounted, another disk, a dead one) is never believed."""
import ctypes
import errno
import fcntl
import json
import os
import re
import stat
import struct
import subprocess
from urllib.parse import quote

import pytest

import oldtree
from lib.programs import STUBTOOL
from lib.wait import wait_until
from test_real_source import far_down, modes, odd_links, sizes, sparse

MIB, TIB = 1 << 20, 1 << 40
XFS_IOC_GOINGDOWN = 0x8004587d
BEFORE_1970 = -10 ** 18 - 7


def url(path):
    return "file://" + quote(os.fsencode(path))


# -- trees --------------------------------------------------------------------

def attributes(top):
    """What NFS and SMB sources cannot bring."""
    os.mkdir(top)
    for name in (b"file", b"dir", b"both"):
        path = os.path.join(top, name)
        os.mkdir(path) if name == b"dir" else oldtree.write(path, b"x" * 5000, 0o640)
    file, directory, both = (os.path.join(top, n) for n in (b"file", b"dir", b"both"))
    subprocess.run(["setfacl", "-m", "u:1000:rw,g:1001:r,m::rw", file], check=True)
    subprocess.run(["setfacl", "-m", "u:1000:rwx", "-d", "-m", "u:1002:rx,g::r", directory],
                   check=True)
    oldtree.write(os.path.join(directory, b"inside"), b"inherits, or not")
    os.setxattr(file, b"user.comment", b"\0binary\xff")
    os.setxattr(directory, b"user.empty", b"")
    os.setxattr(both, b"user.large", os.urandom(1500))
    os.setxattr(both, b"security.NTACL", os.urandom(200))
    subprocess.run(["setfacl", "-m", "u:1000:r", both], check=True)
    os.link(both, os.path.join(top, b"both-again"))
    for path, when in ((file, BEFORE_1970), (both, 4102444800 * 10 ** 9 + 7)):
        os.utime(path, ns=(when, when + 1))


def build(root):
    for name, make in {"homes": oldtree.homes, "names": oldtree.names, "modes": modes,
                       "special": oldtree.special, "symlinks": oldtree.symlinks,
                       "hardlinks": oldtree.hardlinks, "times": oldtree.times, "sizes": sizes,
                       "sparse": sparse, "far-down": far_down, "odd-links": odd_links,
                       "attributes": attributes,
                       "crowd": lambda p: oldtree.crowd(p, 1500)}.items():
        make(os.path.join(os.fsencode(root), name.encode()))


def xattrs(fd_path):
    return {name: os.getxattr(fd_path, name) for name in os.listxattr(fd_path)
            if not name.startswith("trusted.")}


def one(name, fd):
    st = os.stat(name, dir_fd=fd, follow_symlinks=False)
    kind = stat.S_IFMT(st.st_mode)
    told = {"mode": st.st_mode, "uid": st.st_uid, "gid": st.st_gid, "mtime": st.st_mtime_ns,
            "atime": st.st_atime_ns}
    if kind != stat.S_IFDIR:
        told.update(nlink=st.st_nlink, size=st.st_size, rdev=st.st_rdev)
    if kind == stat.S_IFLNK:
        told["target"] = os.readlink(name, dir_fd=fd)
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        at = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME, dir_fd=fd)
        told["xattrs"] = xattrs(at)
        if kind == stat.S_IFREG:
            with open(at, "rb", closefd=False) as f:
                told["data"] = hash(f.read())
        os.close(at)
    return st, told


def everything(top):
    """{path: what is kept of it}, and the names of each inode."""
    found, inodes = {}, {}
    st, told = one(b".", os.open(top, os.O_RDONLY))
    found[b""] = told
    for path, dirs, files, fd in os.fwalk(os.fsencode(top)):
        below = path[len(os.fsencode(top)):]
        for name in dirs + files:
            if not below and name == b".postcopy":
                continue
            st, told = one(name, fd)
            found[below + b"/" + name] = told
            if stat.S_ISREG(st.st_mode):
                inodes.setdefault(st.st_ino, set()).add(below + b"/" + name)
    return found, sorted(map(sorted, inodes.values()))


def same(here, there):
    assert sorted(here[0]) == sorted(there[0])
    wrong = [(path, what, value, there[0][path].get(what)) for path, told in here[0].items()
             for what, value in told.items() if there[0][path].get(what) != value]
    assert not wrong and here == there, wrong[:5]


# -- whole migrations ---------------------------------------------------------

@pytest.fixture(scope="module")
def old(new_volume):
    """An old file system, read-only."""
    disk = new_volume("xfs", "600M")
    tree = disk.path / "tree"
    tree.mkdir()
    build(tree)
    disk.remount("ro")
    return tree


def migrate(m, finish=True):
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 120)
    m.audit(complete=True)
    if finish:
        m.postcopy("finish", m.volume)


def totals_are_right(m, there, killed=False):
    """Each byte and each object is counted once. What a kill may lose is the count of objects that
    missed nothing from the beginning, of one batch."""
    t, objects = m.status()["totals"], m.scan()["objects"]
    assert t["whole"] and not t["left"] and not t["parked"], t
    assert t["found_bytes"] == t["done_bytes"] == sum(
        there[0][names[0]]["size"] for names in there[1]), t
    assert not t["left_bytes"] and not t["parked_bytes"], t
    plain = sum(stat.S_IFMT(told["mode"]) != stat.S_IFDIR and not told["size"] or
                stat.S_ISLNK(told["mode"]) for told in there[0].values())
    assert objects - (plain if killed else 0) <= t["found"] == t["done"] <= objects, (t, objects)


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
def test_everything_comes_over(fstype, old, new_volume, new_migration):
    volume = new_volume(fstype, "1G", options="noatime").path / "volume"
    volume.mkdir()
    there = everything(old)
    m = new_migration(url(old), volume).init().start_retriever()
    migrate(m, finish=False)
    totals_are_right(m, there)
    m.postcopy("finish", m.volume)
    same(everything(volume), there)
    same(everything(old), there)


def test_on_one_file_system_blocks_are_shared(new_volume, new_migration):
    disk = new_volume("xfs", "700M", options="noatime")
    tree, volume = disk.path / "tree", disk.path / "volume"
    tree.mkdir()
    volume.mkdir()
    build(tree)
    data = os.urandom(64 * MIB + 5)
    (tree / "large").write_bytes(data)
    os.sync()
    there, free = everything(tree), os.statvfs(disk.path).f_bfree
    m = new_migration(url(tree), volume).init().start_retriever()
    migrate(m)
    os.sync()
    now = os.statvfs(disk.path)
    same(everything(volume), there)
    assert (free - now.f_bfree) * now.f_frsize < 48 * MIB, "64 MiB and more were copied"
    with open(volume / "large", "r+b") as f:        # and nobody sees what is written to the copy
        f.write(b"new")
    assert (tree / "large").read_bytes() == data


def test_where_blocks_are_shared_local_writes_stay(disk, new_migration):
    """What a program wrote into the volume around the servers becomes a conflict, as from any
    other source."""
    (disk.path / "volume").mkdir()
    m = new_migration(url(disk.path / "d"), disk.path / "volume").init().start_retriever()
    subprocess.run([str(STUBTOOL), "ask", str(m.volume), ".", "list"], check=True,
                   capture_output=True)
    written = b"local" * 1000
    (m.volume / "f7").write_bytes(written)
    m.crawl()
    assert m.status()["conflicts"] == 1 and (m.volume / "f7").read_bytes() == written
    m.audit(parked=1)
    m.postcopy("resolve", "--ours", m.volume, "f7")
    m.crawl()
    assert (m.volume / "f7").read_bytes() == written
    assert (m.volume / "f8").read_bytes() == b"8" * 20000


def test_holes_stay_and_are_not_read(new_volume, new_migration, fresh_dir):
    disk, places = new_volume("ext4", "300M"), (0, 50 * MIB, TIB - 1 + 4096 * 3)
    with open(disk.path / "sparse", "wb") as f:
        for at in places:
            f.seek(at)
            f.write(b"data" * 1024)
        f.truncate(2 * TIB + 5)
    m = new_migration(url(disk.path), fresh_dir).init().start_retriever()
    migrate(m, finish=False)
    s, st = m.status(), os.stat(fresh_dir / "sparse")
    assert st.st_blocks * 512 < MIB and st.st_size == 2 * TIB + 5
    assert s["bytes_holes"] > 2 * TIB - 100 * MIB and s["bytes_done"] < 100 * MIB, s
    with open(fresh_dir / "sparse", "rb") as f:
        for at in places:
            f.seek(at)
            assert f.read(5000) == b"data" * 1024 + bytes(5000 - 4096)


def test_clients_read_while_it_comes(old, new_migration, fresh_dir):
    m = new_migration(url(old), fresh_dir).init().start()
    with m.client("v3") as c:
        assert c.patient(60).read_file(c.lookup("sizes/1048577")[0]) == \
            (old / "sizes/1048577").read_bytes()
        fh, attrs = c.lookup("attributes/file")
        assert (attrs.mode, attrs.size) == (0o660, 5000)     # the group's bits are the mask
    migrate(m)


def test_killed_retrievers_go_on(old, new_volume, new_migration):
    volume = new_volume("xfs", "1G", options="noatime").path / "volume"
    volume.mkdir()
    there = everything(old)
    m = new_migration(url(old), volume, allow=[".*"]).init().start_retriever()
    crawler = m.start_crawler()
    for _ in range(4):
        seen = m.status()["entries"]
        wait_until(lambda: crawler.poll() is not None or m.status()["entries"] > seen + 100 or
                   not m.status()["pending"], 60)
        m.kill_retriever()
        assert not m.scan()["miscounted"]
        m.start_retriever()         # what it does now may look uncovered for a moment
        assert not m.tool("scan", m.volume, check=False)["miscounted"]
    crawler.wait(300)
    migrate(m, finish=False)
    totals_are_right(m, there, killed=True)
    m.postcopy("finish", m.volume)
    same(everything(volume), there)


def test_what_is_not_kept_is_told(disk, new_migration, fresh_dir):
    """... and gives nobody more rights."""
    oldtree.write(disk.path / "ping", b"program")
    os.setxattr(disk.path / "ping", "security.capability",
                struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    os.mkfifo(disk.path / "fifo")
    os.chmod(disk.path / "fifo", 0o660)
    subprocess.run(["setfacl", "-m", "u:1000:r", "-m", "m::rw", disk.path / "fifo"], check=True)
    m = new_migration(url(disk.path), fresh_dir, conf="log_level = debug\n").init()
    m.start_retriever()
    migrate(m, finish=False)
    s = m.status()
    assert (s["metadata_lost"], s["acls_lost"]) == (1, 1), s
    assert stat.S_IMODE(os.lstat(fresh_dir / "fifo").st_mode) == 0o640
    assert os.listxattr(fresh_dir / "ping") == []
    log = m.log.read_text()
    assert '"ping": not kept: attribute security.capability' in log
    assert re.search(r"ask \w+: source READ \w+ 0\+\d+: done, ", log), "debug"


# -- what is not the source ---------------------------------------------------

@pytest.fixture
def disk(new_volume):
    """An old file system that something happens to: a directory, files."""
    with new_volume("xfs", "320M") as disk:
        (disk.path / "d").mkdir()
        for number in range(20):
            (disk.path / "d" / ("f%d" % number)).write_bytes(b"%d" % number * 20000)
        yield disk


def check(m, disk):
    migrate(m)
    for number in range(20):
        assert (m.volume / "d" / ("f%d" % number)).read_bytes() == b"%d" % number * 20000


def lost(m, why):
    def told():
        s = m.status()
        return not s["source_connected"] and why in s["source_trouble"]
    wait_until(told, 60, why)
    s = m.status()
    assert s["parked"] == s["conflicts"] == 0, s


def back(m):
    wait_until(lambda: m.status()["source_connected"], 60, "source is there")


def begun(m, disk):
    """The directory is listed, nothing of its files has come."""
    m.init().start_retriever()
    for path, *ask in ((".", "lookup", "d"), ("d", "list")):
        subprocess.run([str(STUBTOOL), "ask", str(m.volume), path, *ask], check=True,
                       capture_output=True)
    return m


@pytest.mark.parametrize("other", ["nothing", "another", "started without"])
def test_unmounted(other, disk, new_volume, new_migration, fresh_dir):
    m = begun(new_migration(url(disk.path), fresh_dir, allow=[".*"]), disk)
    if other == "started without":
        m.kill_retriever()
        disk.umount()
        m.start_retriever()
    else:
        subprocess.run(["umount", "-l", disk.path], check=True)
    if other == "another":
        subprocess.run(["mount", "-t", "tmpfs", "none", disk.path], check=True)
        (disk.path / "d").mkdir()
    crawler = m.start_crawler()
    lost(m, "not on the file system")
    if other == "another":
        subprocess.run(["umount", disk.path], check=True)
    disk.mount()
    back(m)
    crawler.wait(120)
    check(m, disk)


def test_shut_down(disk, new_migration, fresh_dir):
    m = begun(new_migration(url(disk.path), fresh_dir, allow=[".*"]), disk)
    top = os.open(disk.path, os.O_RDONLY)
    fcntl.ioctl(top, XFS_IOC_GOINGDOWN, ctypes.c_uint32(0))
    os.close(top)
    crawler = m.start_crawler()
    lost(m, os.strerror(errno.EIO))
    wait_until(lambda: subprocess.run(["umount", disk.path], capture_output=True).returncode == 0,
               60, "nobody holds it")
    disk.mount()
    back(m)
    crawler.wait(120)
    check(m, disk)


def test_renamed_and_changed(disk, new_migration, fresh_dir):
    """A renamed object is the same; one that was written, or made anew, is a conflict."""
    m = begun(new_migration(url(disk.path), fresh_dir), disk)
    os.rename(disk.path / "d", disk.path / "e")
    os.rename(disk.path / "e/f1", disk.path / "f1")
    (disk.path / "e/f2").write_bytes(b"other")
    (disk.path / "e/f3").unlink()
    (disk.path / "e/f3").write_bytes(b"3" * 20000)
    m.crawl()
    s = m.status()
    assert (s["parked"] + s["conflicts"], s["pending"]) == (2, 0), s
    assert (fresh_dir / "d/f1").read_bytes() == b"1" * 20000


def test_other_file_systems_below_are_told(disk, new_volume, new_migration, fresh_dir):
    (disk.path / "below").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", disk.path / "below"], check=True)
    try:
        (disk.path / "below/file").write_bytes(b"of another")
        m = new_migration(url(disk.path), fresh_dir).init().start_retriever()
        answer = m.tool("check", "--names", "--source", url(disk.path), check=False)
        assert "below" in str(answer) and answer["exit"] == 3, answer
        m.crawl()
        status, _ = m.audit(parked=1)
        assert not (fresh_dir / "below").exists()
        assert (fresh_dir / "d/f1").read_bytes() == b"1" * 20000
    finally:
        subprocess.run(["umount", disk.path / "below"], check=True)


@pytest.mark.parametrize("crawled", [False, True], ids=["just made", "complete"])
def test_volumes_in_a_source_are_refused(crawled, disk, new_migration, fresh_dir):
    """Its own volume, by whatever way, or another's: a volume's stubs have no data."""
    m = new_migration(url(disk.path), fresh_dir, allow=[".*"]).init().start_retriever()
    inner, other = disk.path / "inner", fresh_dir.parent / "other"
    for path in (inner, other):
        path.mkdir(exist_ok=True)
    (other / "file").write_bytes(b"of another source")
    its = new_migration(url(other), inner).init().start_retriever()
    if crawled:
        migrate(its, finish=False)
    m.crawl()
    s = m.status()
    assert s["parked"] == 1 and s["conflicts"] == 0, s
    assert not crawled or not list((fresh_dir / "inner").iterdir())
    assert (fresh_dir / "d/f1").read_bytes() == b"1" * 20000
    if not crawled:
        refused(new_migration, url(inner), fresh_dir.parent / "third", "volume of postcopy")


# -- init ---------------------------------------------------------------------

def refused(new_migration, source, volume, why):
    volume.mkdir(exist_ok=True)
    answer = new_migration(source, volume).init(check=False)
    assert not answer["ok"] and why in answer["message"], answer


def test_init_refuses(disk, new_migration, fresh_dir):
    volume = fresh_dir / "volume"
    empty = fresh_dir / "empty"
    empty.mkdir()
    refused(new_migration, url(empty), volume, "nothing is mounted there")
    refused(new_migration, url(fresh_dir / "none"), volume, "No such file")
    refused(new_migration, url("/proc"), volume, "cannot be a source")
    refused(new_migration, url(fresh_dir), volume, "lies inside the source")
    (fresh_dir / "a").mkdir()
    refused(new_migration, url(fresh_dir / "a" / ".."), volume, "'..'")
    refused(new_migration, "file://host/path", volume, "no host")
    refused(new_migration, "file:///a?b", volume, "%3F")
    refused(new_migration, str(disk.path), volume, "did you mean 'file:///")
    file = fresh_dir / "file"
    file.write_bytes(b"")
    refused(new_migration, url(file), volume, "directory")


def test_init_tells(disk, new_migration, fresh_dir):
    m = new_migration(url(disk.path), fresh_dir)
    answer = m.tool("check", "--source", url(disk.path), fresh_dir, check=False)
    fates = {p["property"]: p["volume"] for p in answer["properties"]}
    assert fates["posix-acl"] == fates["user-xattrs"] == fates["mtime"] == "kept", fates
    assert fates["btime"] == fates["capabilities"] == "lost", fates
    assert any(w["code"] == "source-not-frozen" for w in answer["warnings"]), answer
    disk.remount("ro")
    answer = m.tool("check", "--source", url(disk.path), fresh_dir, check=False)
    assert not any(w["code"] == "source-not-frozen" for w in answer["warnings"]), answer


def test_the_unit_waits_for_the_mount(disk, new_migration, fresh_dir):
    m = new_migration(url(disk.path), fresh_dir).init()
    answer = json.loads(m.postcopy("blocks", "--json", fresh_dir).stdout)
    assert answer["drop_in"] == ('[Unit]\nRequiresMountsFor="%s"\n[Service]\nBindReadOnlyPaths="%s"\n'
                                 % (disk.path, disk.path))
    assert 'Pseudo = "/%s"' % fresh_dir.name in answer["export_block"]
    assert answer["drop_in"] in m.postcopy("blocks", fresh_dir).stdout
