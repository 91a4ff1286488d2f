# SPDX-License-Identifier: GPL-3.0-or-later
"""nfstree, and the servers and volumes the suite starts."""
import contextlib
import hashlib
import os
import subprocess
import threading
import time

import pytest

from lib import ganesha
from lib.server import BadLog
from lib.volume import LoopVolume, VolumeError, is_mounted, sweep_stale
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

FIELDS = ("path type mode uid gid size mtime atime nlink group rdev target sha256 "
          "error").split()


@pytest.fixture(scope="module")
def data(loop_xfs):
    """A tree with one of everything."""
    top = loop_xfs.path / "data"
    (top / "d/e").mkdir(parents=True)
    for i in range(200):
        (top / "d" / ("f%d" % i)).write_bytes(os.urandom(i * 100))
    (top / "large").write_bytes(os.urandom((9 << 20) + 5))
    os.link(top / "d/f7", top / "twin")
    os.symlink("x\ty", top / "sym")
    os.mkfifo(top / "pipe")
    os.mknod(top / "null", 0o020600, os.makedev(1, 3))
    os.mkdir(os.fsencode(top) + b"/\xff \\")
    os.utime(top / "large", ns=(5, -1500000000))
    return top


@pytest.fixture(scope="module")
def server(old_server, data):
    return old_server(data)


def run(nfstree, *args):
    return subprocess.run([str(nfstree), *map(str, args)], capture_output=True, text=True,
                          timeout=120)


def parse(text):
    lines = text.splitlines()
    assert lines[0].startswith("#nfstree 1\t")
    return {line.split("\t")[0]: dict(zip(FIELDS, line.split("\t"))) for line in lines[1:]}


# -- nfstree -------------------------------------------------------------------------

def test_manifest_tells_everything(nfstree, server, data):
    done = run(nfstree, server.url())
    assert done.returncode == 0, done.stderr
    found = parse(done.stdout)
    assert len(found) == 1 + 2 + 200 + 5 + 1
    for i in range(200):
        content = (data / "d" / ("f%d" % i)).read_bytes()
        line = found["d/f%d" % i]
        assert line["sha256"] == hashlib.sha256(content).hexdigest()
        assert line["size"] == str(i * 100)
    large = found["large"]
    assert large["sha256"] == hashlib.sha256((data / "large").read_bytes()).hexdigest()
    assert large["mtime"] == "4294967294.500000000" and large["atime"] == "0.000000005"
    assert found["twin"]["group"] == found["d/f7"]["group"] == "d/f7"
    assert found["twin"]["nlink"] == "2" and large["group"] == "-"
    assert found["sym"]["target"] == "x\\x09y"
    assert found["null"]["rdev"] == "1:3" and found["pipe"]["type"] == "fifo"
    assert found["\\xff \\x5c"]["type"] == "dir"
    assert found["."]["type"] == "dir"


def test_manifest_order_and_diff(nfstree, server, data, moddir):
    a, b = moddir / "a", moddir / "b"
    assert run(nfstree, "-o", a, server.url()).returncode == 0
    assert run(nfstree, "--no-atime", "--jobs", 3, "-o", b, server.url()).returncode == 0
    same = run(nfstree, "--diff", a, b)
    assert same.returncode == 0 and same.stdout == "209 objects equal, 0 different\n"
    assert run(nfstree, "--diff", "--atime", a, b).returncode == 1
    lines = b.read_text().splitlines(keepends=True)
    lines[5] = lines[5].replace("file\t0644", "file\t0600")
    del lines[9]
    b.write_text("".join(lines))
    done = run(nfstree, "--diff", a, b)
    assert done.returncode == 1
    assert "mode: 0644 | 0600" in done.stdout and "< d/" in done.stdout
    assert done.stdout.endswith("207 objects equal, 2 different\n")
    assert "1 different" in run(nfstree, "--diff", "--ignore", "mode", a, b).stdout
    assert run(nfstree, "--diff", a, "/etc/passwd").returncode == 64


def test_survives_restarts_and_black_holes(nfstree, server, moddir):
    a, b = moddir / "ra", moddir / "rb"
    assert run(nfstree, "-o", a, server.url()).returncode == 0
    from nfsclient.proxy import Proxy
    with Proxy.for_server(server) as proxy:
        proxy.delays = {"READ": 0.02}
        process = subprocess.Popen([str(nfstree), "--jobs", "1", "--timeout", "1", "-o",
                                    str(b), proxy.url()], stderr=subprocess.PIPE, text=True)
        for disturb in (proxy.cut, lambda: server.restart(crash=True), server.restart):
            seen = proxy.counts["READ"]
            while proxy.counts["READ"] < seen + 20 and process.poll() is None:
                time.sleep(0.005)
            disturb()
        proxy.pause()
        time.sleep(1.5)                  # longer than --timeout
        proxy.resume()
        stderr = process.communicate(timeout=300)[1]
    assert process.returncode == 0, stderr
    assert run(nfstree, "--diff", a, b).returncode == 0
    assert " 0 reconnects" not in stderr


def test_lost_server_and_wrong_usage(nfstree, server):
    with FakeServer(Tree()) as fake:
        url = fake.url()
    assert run(nfstree, "--retry-seconds", 1, url).returncode == 3
    assert run(nfstree, server.url().replace("/export", "/nothing")).returncode == 3
    assert run(nfstree, "smb://x/y").returncode == 64


def test_jukebox_and_short_reads(nfstree):
    tree = Tree()
    tree.file(tree.root, "f", Pattern(3 << 20))
    with FakeServer(tree) as fake:
        fake.read_limit = 100000
        fake.entry_attrs = fake.entry_handles = False
        for proc in ("READ", "READDIRPLUS", "LOOKUP", "GETATTR", "FSINFO"):
            fake.hook(proc, hooks.jukebox(3))
        done = run(nfstree, fake.url())
        assert done.returncode == 0, done.stderr
        assert "15 delays" in done.stderr
        want = hashlib.sha256(Pattern(3 << 20).read(0, 3 << 20)).hexdigest()
        assert parse(done.stdout)["f"]["sha256"] == want
        fake.hook("READ", hooks.status(errors.JUKEBOX))
        done = run(nfstree, "--retry-seconds", 5, fake.url())
        assert done.returncode == 2 and "JUKEBOX" in parse(done.stdout)["f"]["error"]


@pytest.mark.parametrize("spoil,path,error", [
    (lambda t: t.link(t.root, "..", t.root), ".", None),
    (lambda t: t.link(t.root, "a/b", t.find("f")), ".", "bad-name"),
    (lambda t: t.link(t.root, "", t.find("f")), ".", "bad-name"),
    (lambda t: t.link(t.find("d"), "loop", t.root), "d/loop", "directory-cycle"),
    (lambda t: t.find("f").claim(size=2 ** 64 - 1), "f", "early-eof"),
    (lambda t: t.find("f").claim(size=6), "f", "early-eof"),
    (lambda t: setattr(t.find("d"), "gone", True), "d", "STALE"),
])
def test_hostile_trees(nfstree, spoil, path, error):
    tree = Tree()
    tree.file(tree.root, "f", b"12345")
    tree.mkdir(tree.root, "d")
    spoil(tree)
    with FakeServer(tree) as fake:
        done = run(nfstree, fake.url())
    assert done.returncode == (2 if error else 0), done.stderr
    assert (error or "-") in parse(done.stdout)[path]["error"]


@pytest.mark.parametrize("hook,error", [
    (hooks.stuck_cookie, "cookie-loop"), (lambda node: hooks.empty_pages, "empty-page"),
    (lambda node: hooks.duplicate_names(node), "listed-twice"),
    (lambda node: hooks.garbage(bytes(3)), "READDIRPLUS"),
    (lambda node: hooks.truncate(150), "READDIRPLUS")])
def test_hostile_listings(nfstree, hook, error):
    tree = Tree()
    node = tree.file(tree.root, "f", b"12345")
    with FakeServer(tree) as fake:
        fake.hook("READDIRPLUS", hook(node))
        done = run(nfstree, fake.url())
    assert done.returncode == 2
    assert error in done.stdout


def test_change_while_reading_is_an_error(nfstree):
    tree = Tree()
    tree.file(tree.root, "f", Pattern(2 << 20))
    with FakeServer(tree) as fake:
        fake.hook("READ", hooks.only(lambda c: c.index == 2,
                                     hooks.before(lambda c: c.node.touch())))
        done = run(nfstree, fake.url())
    assert done.returncode == 2
    assert parse(done.stdout)["f"]["error"] == "mtime-changed"


# -- servers and volumes -----------------------------------------------------------

def test_bad_words_are_found(moddir, rpcshim, data):
    server = ganesha.Ganesha(moddir / "bad", data, shim=rpcshim).start()
    assert server.scan() == []
    with open(server.log, "a") as f:
        f.write("x :FSAL :CRIT :something is wrong\nx :MAIN :EVENT :fine\n")
    assert len(server.scan(["nothing"])) == 1
    assert server.scan() == []
    with open(server.log, "a") as f:
        f.write("x :FSAL :CRIT :something is wrong\n")
    with pytest.raises(BadLog):
        server.stop()


def test_missing_export_is_noticed(moddir, rpcshim):
    server = ganesha.Ganesha(moddir / "missing", moddir / "nothing-there", shim=rpcshim)
    with pytest.raises((AssertionError, TimeoutError)):
        server.start(timeout=3)
    assert not server.alive


def test_two_exports(moddir, rpcshim, data):
    exports = [ganesha.Export(str(data), "/one"), ganesha.Export(str(data / "d"), "/two")]
    with ganesha.Ganesha(moddir / "two", exports=exports, shim=rpcshim) as server:
        for proto in ("v3", "v4.1"):
            with server.client(proto, "/two") as c:
                assert c.getattr("f3").size == 300


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_volume_goes_away_even_when_busy(moddir, fstype):
    with LoopVolume(moddir, fstype, "1G") as volume:
        (volume.path / "f").write_bytes(b"x")
        volume.remount()
        assert (volume.path / "f").read_bytes() == b"x"
        busy = open(volume.path / "f")
        threading.Timer(0.3, busy.close).start()
    assert not is_mounted(volume.path) and not volume.home.exists()


@contextlib.contextmanager
def namespace(propagation):
    """Somebody's mount namespace, made now."""
    with subprocess.Popen(["unshare", "--mount", "--propagation", propagation, "sh", "-c",
                           "echo ready; exec sleep infinity"],
                          stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "ready\n"
            yield holder.pid
        finally:
            holder.kill()


def test_unmounted_is_unmounted_everywhere(moddir):
    """A new mount namespace has all that is mounted, as long as it lasts, or is unmounted."""
    with LoopVolume(moddir, "xfs", "1G") as volume, namespace("slave") as pid:
        with open("/proc/%d/mountinfo" % pid) as f:
            assert str(volume.path) in f.read()
        volume.umount()
        with open("/proc/%d/mountinfo" % pid) as f:
            assert str(volume.path) not in f.read()
        assert not volume.is_in_use()
        volume.mount()


def test_who_unmounts_waits_for_others(moddir):
    with LoopVolume(moddir, "xfs", "1G") as volume:
        with namespace("private"):
            unmounting = threading.Thread(target=volume.umount)
            unmounting.start()
            wait_until(lambda: not is_mounted(volume.path), 60, "unmounted here")
            assert volume.is_in_use() and unmounting.is_alive()
        unmounting.join(120)
        assert not volume.is_in_use() and not unmounting.is_alive()


def test_no_twin_of_a_file_system_that_is_in_use(moddir):
    """xfs_admin does nothing then, and ends with 0."""
    with LoopVolume(moddir, "xfs", "1G") as volume, namespace("private"):
        for number in range(100):
            (volume.path / str(number)).touch()
        os.sync()
        for number in range(100):
            (volume.path / str(number)).rename(volume.path / ("x%d" % number))
        subprocess.run(["umount", str(volume.path)], check=True)
        with pytest.raises(VolumeError, match="xfs_admin"):
            volume.twin("xfs_admin", "-U", "generate")


def test_sweep_of_dead_runs(moddir):
    volume = LoopVolume(moddir / "dead", "xfs", "1G").create()
    assert sweep_stale(moddir / "dead") == 0
    (volume.home / "owner").write_text("1 1\n")
    assert sweep_stale(moddir / "dead") == 1
    assert not is_mounted(volume.path)
    volume.destroy()
