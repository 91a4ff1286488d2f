# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB as a source: a stock smbd's tree comes over to a new Ganesha exactly as it was,
whatever becomes of the connection meanwhile."""
import os
import random
import signal
import subprocess
import pathlib

import pytest

import smbd
from migration import BUILD, Migration
from util import wait_until

MIB = 1 << 20
NS = 10 ** 9
WORKER = BUILD / "retriever" / "postcopy-smb-worker"
SOURCECAT = BUILD / "tests" / "tools" / "sourcecat"

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")


def write(path, data, mtime=None):
    with open(path, "wb") as f:
        f.write(data)
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))


def make_tree(top):
    """Names, sizes, times, depth and width, as a Windows user may have them."""
    top.mkdir()
    rng = random.Random(3)
    names = ["plain", "two words", "a.b.c", "ümläut", "日本語", "emoji-😀", "100%", "%41", "a%2fb",
             "#hash", "semi;colon", "it's", "q=1&r=2", "[x]{y}", "~tilde$", "@at", "-dash",
             "CamelCase", "x" * 200, "é" * 100, "back`tick", "plus+", "comma,", "!"]
    (top / "names").mkdir()
    for i, name in enumerate(names):
        write(top / "names" / name, name.encode(), (1500000000 + i) * NS + i * 100)
        (top / "names" / (name[:120] + ".dir")).mkdir()
    (top / "sizes").mkdir()
    edges = (0, 1, 4096, 65536, MIB, 4 * MIB, 10 * MIB)
    for size in sorted({max(0, e + d) for e in edges for d in (-1, 0, 1)}):
        write(top / "sizes" / str(size), rng.randbytes(size))
    (top / "times").mkdir()
    for i, t in enumerate([1, NS * 10 ** 6 + 100, 1700000000123456700, 4102444800 * NS]):
        write(top / "times" / str(i), b"t", t)
    deep = top / "deep"
    for i in range(40):
        deep = deep / ("level-%02d" % i)
    deep.mkdir(parents=True)
    write(deep / "end", b"down here")
    (top / "empty").mkdir()
    (top / "wide").mkdir()
    for i in range(10000):
        write(top / "wide" / ("file-%05d" % i), b"")
    for path in sorted(top.rglob("*"), reverse=True):
        if path.is_dir() and path.name != "wide":
            os.utime(path, ns=(1600000000 * NS, 1600000000 * NS + 100))


@pytest.fixture(scope="module")
def tree(new_volume):
    top = new_volume("xfs", "1G", options="noatime").path / "tree"
    make_tree(top)
    return top


@pytest.fixture(scope="module")
def old(new_samba, tree):
    return new_samba("old", tree)


@pytest.fixture(scope="module")
def login(moddir):
    path = moddir / "login"
    path.write_text("# for tests\nusername = root\npassword = %s\n" % smbd.PASSWORD)
    path.chmod(0o600)
    return path


def conf(login, more=""):
    return 'smb_credentials = "%s"\nsmb_worker = "%s"\ncall_timeout = 2000\n%s' % (
        login, WORKER, more)


@pytest.fixture
def make(moddir, new_volume, rpcshim, login):
    made = []

    def factory(url, more="", **kw):
        number = len(list(moddir.glob("m-*")))
        m = Migration(moddir / ("m-%d" % number), url, new_volume("xfs", "2G").path / "volume",
                      shim=rpcshim, conf=conf(login, more), **kw)
        m.volume.mkdir()
        made.append(m)
        return m

    yield factory
    for m in made:
        m.stop()


def cat(url, login, *argv, options=(), check=True):
    done = subprocess.run([str(SOURCECAT), "-a", str(login), "-p", str(WORKER), *options, url,
                           *argv], capture_output=True, timeout=120)
    if check:
        assert done.returncode == 0, done.stderr
    return done


# -- what comes over ----------------------------------------------------------------


def compare(old, new):
    """Types, sizes, bytes and mtimes of two local trees (100 ns, as SMB has them)."""
    count = 0
    for path in [old, *sorted(old.rglob("*"))]:
        twin = new / path.relative_to(old)
        a, b = path.lstat(), twin.lstat()
        assert a.st_mode >> 12 == b.st_mode >> 12, path
        assert a.st_mtime_ns // 100 == b.st_mtime_ns // 100, (path, a, b)
        if path.is_file():
            assert a.st_size == b.st_size, path
            assert path.read_bytes() == twin.read_bytes(), path
        else:
            assert sorted(os.listdir(path)) == sorted(
                n for n in os.listdir(twin) if n != ".postcopy"), path
        count += 1
    return count


def test_a_whole_tree(make, old, tree):
    m = make(old.url()).init().start()
    with m.client("v3") as c:
        want = (tree / "sizes" / str(4 * MIB + 1)).read_bytes()
        assert c.read_file("sizes/%d" % (4 * MIB + 1)) == want
        assert sorted(c.names("names")) == sorted(map(os.fsencode, os.listdir(tree / "names")))
    m.crawl()
    m.audit(complete=True)
    assert compare(tree, m.volume) > 10100
