# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup of a volume that has come over: whatever is changed here is the same over there, of all
kinds of objects, and what was only renamed is not sent again."""
import json
import os
import pathlib
import random
import socket
import stat
import subprocess

import pytest

from lib.mirror import Changes, Mirror, finished, make
from lib.programs import POSTCOPY
from lib.wait import wait_until

MIB = 1 << 20
NS = 10 ** 9


def source(top):
    """What the volume has before it gets a mirror: some of everything."""
    rng = random.Random(5)
    os.makedirs(top / "dir/below/far")
    (top / "dir/file").write_bytes(b"in a directory")
    (top / "dir/below/far/end").write_bytes(rng.randbytes(3 * MIB + 17))
    (top / "empty").touch()
    os.link(top / "dir/file", top / "dir/below/other name")
    os.symlink("dir/file", top / "symlink")
    os.symlink(b"\xff" * 200, os.fsencode(top) + b"/odd target")
    os.mkfifo(top / "fifo", 0o600)
    os.mknod(top / "device", stat.S_IFCHR | 0o660, os.makedev(10, 9))
    with open(os.fsencode(top) + b"/\xe4\xff " + b"n" * 252, "wb") as f:
        f.write(b"255 bytes, not UTF-8")
    os.chown(top / "dir/file", 1001, 1002)
    os.chmod(top / "dir/below", 0o2751)
    os.chmod(top / "empty", 0o4755)
    os.utime(top / "empty", ns=(5 * NS, 1234567890 * NS + 123456789))
    os.utime(top / "dir", ns=(NS, 2 * NS))


@pytest.fixture(scope="module")
def trees(loop_xfs):
    return loop_xfs.path


@pytest.fixture(scope="module")
def backup(trees, workdir, moddir, new_server):
    """The volume with its mirror, and the directory that is the mirror."""
    old, mirror, volume = (trees / name for name in ("old", "mirror", "volume"))
    for top in (old, mirror, volume):
        top.mkdir()
    source(old)
    server = new_server(moddir / "target", tree=str(mirror))
    finished(workdir, volume, old)
    make(volume, server.url())
    m = Mirror(moddir / "mirror", volume).start()
    m.tree, m.server = mirror, server
    m.equal(mirror)
    yield m
    m.stop()


@pytest.fixture
def c(backup):
    with Changes(backup.volume) as changes:
        yield changes
    backup.equal(backup.tree)


def test_all_of_it_comes(backup):
    """Whatever the volume had; nothing is left aside."""
    assert not backup.differences(backup.tree)
    assert not list((backup.tree / backup.aside).iterdir())
    s = backup.status()
    assert s["state"] == "following" and s["owed"] == 0 and not s["parked"], s


def test_new_objects(backup, c):
    c.mkdir("new")
    c.mkdir("new/in it", 0o700)
    c.write("new/in it/file", b"x" * 100)
    c.symlink("new/link", "in it/file")
    c.mknod("new/fifo", stat.S_IFIFO | 0o640)
    c.mknod("new/block", stat.S_IFBLK | 0o600, os.makedev(7, 3))
    c._named("new/socket", lambda p: socket.socket(socket.AF_UNIX).bind(p))
    c.write(b"new/\xc3\x28 no UTF-8", b"odd")
    c.write(b"new/" + b"l" * 255, b"long")


def test_hard_links(backup, c):
    """Also between directories, and one that is made while the file is new over there."""
    c.mkdir("links")
    c.mkdir("links/b")
    c.write("links/a", b"one file")
    c.link("links/a", "links/b/a")
    c.link("links/a", "links/c")
    backup.equal(backup.tree)
    c.link("links/b/a", "links/d")
    c.unlink("links/a")


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 3 * MIB + 5])
def test_bytes(backup, c, size):
    name = "bytes-%d" % size
    c.write(name, random.Random(size).randbytes(size))
    backup.equal(backup.tree)
    c.write(name, b"changed at its end", size)
    c.write(name, b"!", 0)


def test_middle_of_a_big_file(backup, c):
    """Only what differs is written."""
    c.write("big", random.Random(1).randbytes(40 * MIB))
    backup.equal(backup.tree)
    before = backup.status()["bytes_total"]
    c.write("big", b"changed", 17 * MIB + 5)
    backup.equal(backup.tree)
    assert backup.status()["bytes_total"] - before <= 8192


@pytest.mark.parametrize("to", [0, 1, 5000, 2 * MIB, 9 * MIB])
def test_truncate(backup, c, to):
    name = "cut-%d" % to
    c.write(name, b"\xa5" * (5 * MIB + 1))
    backup.equal(backup.tree)
    c.truncate(name, to)


def test_holes(backup, c):
    """A new file has them over there too; what became one there reads as zeros."""
    c.write("sparse", b"end", 64 * MIB)
    backup.equal(backup.tree)
    assert os.stat(backup.tree / "sparse").st_blocks * 512 < 4 * MIB
    c.write("sparse", b"\xff" * MIB, 10 * MIB)
    backup.equal(backup.tree)
    c.write("sparse", bytes(MIB), 10 * MIB)


def test_attributes(backup, c):
    c.write("attributes", b"x")
    c.chown("attributes", 4321, 1234)
    c.chmod("attributes", 0o6711)
    c.utime("attributes", 3 * NS + 1, 1999999999 * NS + 999999999)
    c.mkdir("attributes-dir")
    c.chmod("attributes-dir", 0o1777)
    c.chown("attributes-dir", 7, 8)
    c.utime("attributes-dir", NS, 2 * NS)
    c.symlink("attributes-link", "anywhere")
    c.chown("attributes-link", 5, 6)
    c.utime("attributes-link", NS, 77 * NS)


def inode(path):
    return os.lstat(path).st_ino


def test_rename_sends_nothing(backup, c):
    """A file, and a directory with everything below, are the same inodes over there afterwards."""
    c.mkdir("from")
    c.mkdir("from/tree")
    c.mkdir("from/tree/deep")
    c.mkdir("to")
    c.write("from/tree/deep/file", random.Random(3).randbytes(4 * MIB))
    c.write("from/file", random.Random(4).randbytes(4 * MIB))
    backup.equal(backup.tree)
    t = backup.tree
    were = [inode(t / "from" / n) for n in ("tree", "tree/deep", "tree/deep/file", "file")]
    sent = backup.status()["bytes_total"]
    c.rename("from/tree", "to/elsewhere")
    c.rename("from/file", "from/same directory")
    c.rename("from/same directory", "to/file")
    c.rename("from", "to/from")
    backup.equal(backup.tree)
    assert [inode(t / "to" / n) for n in ("elsewhere", "elsewhere/deep", "elsewhere/deep/file",
                                          "file")] == were
    assert backup.status()["bytes_total"] == sent


def test_taken_from_aside(backup, c):
    """It is whole: where it comes to has just been compared and rests, and what is aside is looked at
    meanwhile."""
    for i in range(4):
        for name in ("left-%d", "left-%d/tree", "left-%d/tree/below", "rests-%d"):
            c.mkdir(name % i)
        c.write("left-%d/tree/below/file" % i, b"whole")
    backup.equal(backup.tree)
    for i in range(4):
        was = inode(backup.tree / ("left-%d/tree" % i))
        c.create("rests-%d/now" % i)
        wait_until((backup.tree / ("rests-%d/now" % i)).exists, 60, "the new file")
        c.rename("left-%d/tree" % i, "rests-%d/tree" % i)
        backup.equal(backup.tree)
        assert inode(backup.tree / ("rests-%d/tree" % i)) == was


def test_inside_out(backup, c):
    """What was above is below."""
    c.mkdir("outer")
    c.mkdir("outer/inner")
    c.write("outer/inner/file", b"x" * MIB)
    backup.equal(backup.tree)
    was, sent = inode(backup.tree / "outer/inner"), backup.status()["bytes_total"]
    c.rename("outer/inner", "inner")
    c.rename("outer", "inner/outer")
    backup.equal(backup.tree)
    assert inode(backup.tree / "inner") == was
    assert backup.status()["bytes_total"] == sent


@pytest.mark.parametrize("kind", ["files", "directories", "both"])
def test_swap(backup, c, kind):
    top = "swap-" + kind
    c.mkdir(top)
    for name, is_dir in (("a", kind == "directories"), ("b", kind != "files")):
        if is_dir:
            c.mkdir("%s/%s" % (top, name))
            c.write("%s/%s/file" % (top, name), name.encode() * MIB)
        else:
            c.write("%s/%s" % (top, name), name.encode() * MIB)
    backup.equal(backup.tree)
    were = [inode(backup.tree / top / n) for n in "ab"]
    sent = backup.status()["bytes_total"]
    c.swap(top + "/a", top + "/b")
    backup.equal(backup.tree)
    assert [inode(backup.tree / top / n) for n in "ba"] == were
    assert backup.status()["bytes_total"] == sent


def test_replaced(backup, c):
    """By a rename, and by a new file of the same name: another type, too."""
    c.write("replaced", b"old" * 1000)
    c.write("by this", b"new")
    c.write("dir instead", b"x")
    backup.equal(backup.tree)
    c.rename("by this", "replaced")
    c.unlink("dir instead")
    c.mkdir("dir instead")
    c.write("dir instead/file", b"y")


def test_removed(backup, c):
    """Also whole trees; nothing is left aside, and the root's times are as here."""
    c.mkdir("going")
    for i in range(30):
        c.mkdir("going/%d" % i)
        c.write("going/%d/file" % i, b"x" * i)
    backup.equal(backup.tree)
    c.remove_tree("going")
    backup.equal(backup.tree)
    assert not list((backup.tree / backup.aside).iterdir())


def test_out_of_what_goes(backup, c):
    """What is taken out of a tree before that is removed is not sent again."""
    c.mkdir("doomed")
    c.mkdir("doomed/keep")
    c.write("doomed/keep/file", b"k" * MIB)
    backup.equal(backup.tree)
    was, sent = inode(backup.tree / "doomed/keep"), backup.status()["bytes_total"]
    c.mkdir("kept")
    c.rename("doomed/keep", "kept/keep")
    c.rmdir("doomed")
    backup.equal(backup.tree)
    assert inode(backup.tree / "kept/keep") == was
    assert backup.status()["bytes_total"] == sent


def test_many_names(backup, c):
    c.mkdir("many")
    for i in range(700):
        c.write("many/%d" % i, b"%d" % i)
    backup.equal(backup.tree)
    for i in range(0, 700, 3):
        c.unlink("many/%d" % i)
    for i in range(1, 700, 3):
        c.rename("many/%d" % i, "many/renamed %d" % i)


def test_random_changes(backup, c):
    """All kinds, while it follows."""
    rng = random.Random(11)
    c.mkdir("random")
    dirs, files = ["random"], []

    def any_name():
        return "%s/%d" % (rng.choice(dirs), rng.randrange(10 ** 9))

    for _ in range(400):
        what = rng.randrange(8)
        if what <= 1 or len(files) < 4:
            files.append(any_name())
            c.write(files[-1], rng.randbytes(rng.choice([0, 10, 70000])))
        elif what == 2 and len(dirs) < 30:
            dirs.append(any_name())
            c.mkdir(dirs[-1])
        elif what == 3:
            i = rng.randrange(len(files))
            new = any_name()
            c.rename(files[i], new)
            files[i] = new
        elif what == 4:
            c.unlink(files.pop(rng.randrange(len(files))))
        elif what == 5:
            files.append(any_name())
            c.link(rng.choice(files[:-1]), files[-1])
        elif what == 6:
            c.write(rng.choice(files), rng.randbytes(100), rng.randrange(100000))
        else:
            c.chmod(rng.choice(files + dirs), rng.choice([0o600, 0o755, 0o711]))


# ---- mirror verify ----

def verify(m, volume, *words):
    """(exit status, its answer)"""
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "mirror", "verify", "--json", *words, str(volume)],
                          capture_output=True, text=True, timeout=300)
    answer = json.loads(done.stdout)
    assert not done.stderr and answer["ok"] and answer["verify"] == "done", done
    return done.returncode, answer


def differences(answer):
    return {(d["path"], d["what"]) for d in answer["differences"]}


def alike(backup):
    """All of it is."""
    status, answer = verify(backup, backup.volume)
    assert status == 0 and not answer["differences"] and not answer["different"], answer
    assert answer["owed"] == 0 and answer["waiting"] == 0, answer
    return answer


def test_verify_alike(backup):
    backup.drained()
    answer = alike(backup)
    paths = [os.path.join(top, name) for top, dirs, files in os.walk(backup.volume) for name in dirs + files
             if ".postcopy" not in (name, *pathlib.Path(top).parts)]
    assert answer["objects"] == len(paths) + 1
    assert answer["bytes"] == sum(os.lstat(p).st_size for p in paths if stat.S_ISREG(os.lstat(p).st_mode))
    assert not backup.status()["owed"]


def flip(path):
    st = path.stat()
    with open(path, "r+b") as f:
        f.seek(MIB + 7)
        byte = f.read(1)
        f.seek(MIB + 7)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def swap(top):
    for a, b in (("file", "x"), ("other", "file"), ("x", "other")):
        os.rename(top / a, top / b)


DAMAGE = {
    "bytes": (lambda top: flip(top / "big"), {("big", "other data")}),
    "longer": (lambda top: os.truncate(top / "file", 5000), {("file", "other size")}),
    "shorter": (lambda top: os.truncate(top / "big", MIB), {("big", "other size")}),
    "mode": (lambda top: os.chmod(top / "file", 0o4711), {("file", "other mode")}),
    "owner": (lambda top: os.chown(top / "file", 77, -1), {("file", "other owner")}),
    "times": (lambda top: os.utime(top / "file", ns=(NS, 3 * NS)), {("file", "other times")}),
    "mode of a directory": (lambda top: os.chmod(top / "dir", 0o1777), {("dir", "other mode")}),
    "owner of a symlink": (lambda top: os.lchown(top / "link", 5, 6), {("link", "other owner")}),
    "missing here": (lambda top: os.unlink(top / "file"), {("", "other times"), ("file", "is over there only")}),
    "missing there": (lambda top: (top / "new").write_bytes(b"x"), {
        ("", "other times"), ("new", "is missing over there"), ("new", "is not known over there")}),
    "directory": (lambda top: os.mkdir(top / "dir/new"), {
        ("dir", "other times"), ("dir/new", "is missing over there"), ("dir/new", "is not known over there")}),
    "another object": (swap, {("", "other times"), ("file", "is another object over there"),
                              ("other", "is another object over there")}),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_verify_finds(backup, c, what):
    """What differs and is in no ledger is told, nothing is changed by that; then it can be made equal."""
    name = "verified " + what
    top = backup.volume / name
    damage, found = DAMAGE[what]
    c.mkdir(name)
    c.mkdir(name + "/dir")
    c.symlink(name + "/link", "file")
    for one in ("file", "other"):
        c.write(name + "/" + one, one.encode())
    c.write(name + "/big", random.Random(7).randbytes(2 * MIB + 5))
    backup.equal(backup.tree)
    damage(top)         # as nobody ever told
    found = {((name + "/" + path).rstrip("/"), text) for path, text in found}
    status, answer = verify(backup, backup.volume)
    assert status == 1 and differences(answer) == found, (differences(answer), found)
    assert answer["different"] == len(found) and not answer["repairs"]
    status, answer = verify(backup, backup.volume, "--repair")
    # what is carried over meanwhile may be there when it is looked at
    assert status == 1 and answer["repairs"] and set() < differences(answer) <= found, (differences(answer), found)
    backup.equal(backup.tree)
    alike(backup)


def test_verify_another_target(backup, c):
    """A symlink never changes, so nobody else looks: it is told all the same."""
    c.symlink("to verify", "here")
    backup.equal(backup.tree)
    with backup.server.client() as x:
        x.remove(b"to verify")
        x.symlink(b"to verify", b"there")
    assert ("to verify", "is another object over there") in differences(verify(backup, backup.volume)[1])
    verify(backup, backup.volume, "--repair")
    backup.equal(backup.tree)


def test_verify_says_it(backup, c):
    """For people; and many differences are counted."""
    c.mkdir("many differ")
    backup.equal(backup.tree)
    for i in range(150):
        (backup.volume / "many differ" / str(i)).touch()
    done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), "mirror", "verify", str(backup.volume)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "301 differences" in done.stdout and "--repair" in done.stdout, done
    assert done.stdout.count("\n") == 103, done.stdout
    verify(backup, backup.volume, "--repair")
    backup.equal(backup.tree)
