# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB as a source: a stock smbd's tree comes over to a new Ganesha exactly as it was,
whatever becomes of the connection meanwhile."""
import contextlib
import errno
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from lib import smbd
from lib.migration import Migration
from lib.programs import BUILD, WORKER
from lib.smbgate import SmbGate
from lib.smbsource import migrations, settings, with_worker
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.rpcserver import end_listener

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
NS = 10 ** 9
SOURCECAT = BUILD / "tests" / "tools" / "sourcecat"

pytestmark = [with_worker, pytest.mark.usefixtures("homes")]


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
    return settings(smb_credentials=login, call_timeout=2000) + more


@pytest.fixture
def make(moddir, new_volume, rpcshim, login, homes):
    with migrations(moddir, new_volume, rpcshim) as begin:
        yield lambda url, more="", **kw: begin(url, conf(login, more), **kw)


def cat(url, login, *argv, options=(), check=True):
    done = subprocess.run([str(SOURCECAT), "-t", "60000", "-a", str(login), "-p", str(WORKER), *options,
                           url, *argv], capture_output=True, timeout=120)
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


def test_names_are_exact(make, old, tree):
    """Over NFS a name is its bytes, though the server finds it whatever its case."""
    m = make(old.url() + "/names").init().start()
    with m.client("v3") as c:
        c = c.patient(30)
        assert c.exists("CamelCase")
        for name in ("camelcase", "CAMELCASE", "plain ", "plain.", "Plain", "ÜMLÄUT", "pla*", "?lain",
                     "plain::$DATA", "plain:stream", "a\\b", b"\xff\xfe", "~TILDE$"):
            assert not c.exists(name), name
        assert sorted(c.names()) == sorted(map(os.fsencode, os.listdir(tree / "names")))


def test_a_directory_of_the_share(make, old, tree):
    m = make(old.url() + "/deep/level-00/level-01").init().start()
    m.crawl()
    m.audit(complete=True)
    assert compare(tree / "deep" / "level-00" / "level-01", m.volume) == 40


def test_too_long_a_path(make, new_samba, moddir):
    """What no record can hold the path of is left out by name, and not in silence."""
    top = moddir / "long" / "tree"
    deep = top.joinpath(*["%d" % i + "n" * 198 for i in range(5)])
    deep.mkdir(parents=True)
    write(deep / ("f" * 23), b"1023 bytes")
    write(deep / ("g" * 24), b"1024 bytes")
    old = new_samba("long", top)
    m = make(old.url()).init().start()
    m.crawl()
    m.audit(parked=1)
    assert "g" * 24 in m.tool("parked", m.volume)["parked"][0]["reason"]
    twin = m.volume / deep.relative_to(top)
    assert (twin / ("f" * 23)).read_bytes() == b"1023 bytes"
    assert not (twin / ("g" * 24)).exists()


# -- when the source is lost --------------------------------------------------------


@pytest.fixture
def data(moddir):
    """Some files, of enough bytes to be in the middle of them."""
    top = moddir / ("data-%d" % len(list(moddir.glob("data-*"))))
    top.mkdir()
    rng = random.Random(5)
    for i in range(6):
        write(top / ("file-%d" % i), rng.randbytes(8 * MIB + i))
    (top / "dir").mkdir()
    for i in range(300):
        write(top / "dir" / str(i), rng.randbytes(i))
    return top


@pytest.fixture
def filer(new_samba, data):
    """A server of this test's own."""
    return new_samba("filer-" + data.name, data)


SLOWLY = "throttle = 2048\n"     # half a minute, until finish()


def under_way(m):
    """The crawler is in the middle of it."""
    status = m.status()
    return status["bytes_done"] > 4 * MIB and status["pending"] > 0


def children(parent, but="ZX"):
    """Pids of a process's workers; one that is not yet executed has its parent's name."""
    pids, own = [], pathlib.Path("/proc/%d/comm" % parent).read_text().strip()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if int(rest.split()[1]) == parent and rest.split()[0] not in but:
            assert name.startswith("postcopy-smb") or name == own, name
            pids += [int(path.parent.name)] if name != own else []
    return pids


def workers(m):
    return children(m.retriever.pid)


def finish(m, data):
    m.postcopy("throttle", m.volume, "0")
    assert m.crawler.wait(120) == 0
    m.audit(complete=True)
    assert compare(data, m.volume) == 308
    # that a worker has died is seen when it is to work again; one may be starting just now
    homes = pathlib.Path(os.environ["TMPDIR"])
    wait_until(lambda: len(list(homes.glob("postcopy-smb-*"))) <=
               len(children(m.retriever.pid, "")), 20, "a worker for each directory")


def test_server_killed(make, filer, data):
    m = make(filer.url(), SLOWLY).init().start()
    m.start_crawler()
    wait_until(lambda: under_way(m), 60, "some data")
    filer.kill9()
    wait_until(lambda: m.status()["state"] == "source-lost", 60, "the loss to be seen")
    wait_until(lambda: m.status()["source_trouble"] == "connection refused", 60, "why")
    filer.start()
    finish(m, data)
    assert m.status()["source_reconnects"] > 0 and m.status()["parked"] == 0


def test_workers_killed(make, filer, data):
    m = make(filer.url(), SLOWLY).init().start()
    m.start_crawler()
    wait_until(lambda: under_way(m), 60, "some data")
    seen = set()
    for _ in range(2):
        wait_until(lambda: set(workers(m)) - seen, 60, "new workers")
        for pid in workers(m):
            seen.add(pid)
            with contextlib.suppress(ProcessLookupError):   # given up by itself
                os.kill(pid, signal.SIGKILL)
    finish(m, data)
    assert m.status()["parked"] == 0


def test_idle_connections_lost(make, filer, data):
    """Four at once, as when the server was started anew: who asks next hears nothing of it."""
    with SmbGate(filer) as gate:
        m = make(gate.url(), "max_tries = 1\n").init().start()
        with m.client("v3") as c:
            for name in ("file-0", "file-1"):
                wait_until(lambda: gate.connections == 4, 60, "connections")
                wait_until(lambda: m.status()["active"] == 0, 30, "idle")
                gate.cut()
                assert c.patient(60).getattr(name).size == (data / name).stat().st_size
        assert m.status()["errors"] == 0, m.status()


def test_server_frozen(make, filer, data):
    """A client is told to try again, and gets its bytes when the server moves again."""
    m = make(filer.url()).init().start()
    with m.client("v3") as c:
        c.patient(30).getattr("file-0")
        filer.sigstop()
        try:
            with pytest.raises(NfsError) as e:
                c.read("file-0", 0, 4096)
            assert e.value.status == errors.JUKEBOX
            wait_until(lambda: m.status()["state"] == "source-lost", 60, "the loss to be seen")
            wait_until(lambda: "no answer" in m.status()["source_trouble"], 60, "why")
        finally:
            filer.sigcont()
        assert c.read_file("file-0") == (data / "file-0").read_bytes()


def test_share_gone(make, filer, data):
    m = make(filer.url(), SLOWLY).init().start()
    m.start_crawler()
    wait_until(lambda: under_way(m), 60, "some data")
    share, filer.shares[0] = filer.shares[0], smbd.Share(str(data), name="other")
    filer.restart(crash=True)
    wait_until(lambda: m.status().get("source_trouble") == "no such share", 60, "the loss")
    filer.shares[0] = share
    filer.restart()
    finish(m, data)
    assert m.status()["parked"] == 0


def status_of(call, *args):
    """The status with which it fails; None: it is here."""
    try:
        call(*args)
    except NfsError as e:
        return e.status


def test_tree_gone(make, filer, data):
    """A server that shows an empty place, as when a disk is not mounted, has not removed
    the files: nothing is lost, nothing is parked."""
    away = data.with_name(data.name + "-away")
    m = make(filer.url(), SLOWLY).init().start()
    m.start_crawler()
    wait_until(lambda: under_way(m), 60, "some data")
    data.rename(away)
    data.mkdir()
    filer.restart(crash=True)
    with m.client("v3") as c:
        wait_until(lambda: m.status().get("source_trouble") ==
                   "the share shows another directory than before", 60, "the loss")
        assert m.status()["state"] == "source-lost"
        asked = [(c.lookup, "dir/299")] + [(c.read, "file-%d" % i, 8 * MIB - 9, 9)
                                           for i in range(6)]
        assert {status_of(*one) for one in asked} - {None} == {errors.JUKEBOX}
    data.rmdir()
    away.rename(data)
    filer.restart(crash=True)
    finish(m, data)
    assert m.status()["parked"] == 0


def test_another_tree_from_the_start(make, filer, data):
    """A volume knows the root it was made for, as long as nothing is listed."""
    away = data.with_name(data.name + "-away")
    m = make(filer.url()).init()
    data.rename(away)
    data.mkdir()
    m.start()               # the root needs no source
    wait_until(lambda: "another directory" in m.status().get("source_trouble", ""), 60, "why")
    data.rmdir()
    away.rename(data)
    m.start_crawler()
    finish(m, data)


def test_retriever_killed(make, filer, data):
    """Its workers end with it, and take their directories along."""
    m = make(filer.url(), SLOWLY).init().start()
    m.start_crawler()
    wait_until(lambda: under_way(m), 60, "some data")
    pids = workers(m)
    assert pids
    m.kill_retriever()
    wait_until(lambda: not any(os.path.exists("/proc/%d" % p) for p in pids), 30, "workers' end")
    m.start_retriever()
    finish(m, data)


@pytest.mark.parametrize("moment", ["worker", ".smb", "up"])
def test_retriever_killed_early(make, filer, homes, moment):
    """While its workers connect: what they left is removed by them, or by the next."""
    m = make(filer.url()).init()
    m.start_retriever()
    if moment == "up":
        wait_until(lambda: m.status()["state"] != "source-lost", 20, "a connection", 0)
    elif moment == "worker":
        wait_until(lambda: workers(m), 20, "a worker", 0)
    else:
        wait_until(lambda: list(homes.glob("postcopy-smb-*/" + moment)), 20, moment, 0)
    pids = workers(m)
    m.kill_retriever()
    wait_until(lambda: not any(os.path.exists("/proc/%d" % p) for p in pids), 30, "workers' end")
    left = set(homes.glob("postcopy-smb-*"))
    m.start_retriever()
    wait_until(lambda: not left & set(homes.glob("postcopy-smb-*")), 20, "%s removed" % left)


def test_changed_over_there(make, filer, data):
    """Bytes of two versions are never mixed."""
    m = make(filer.url()).init().start()
    m.server.allow = ["converted to NFS3ERR_IO"]
    with m.client("v3") as c:
        c.patient(30).getattr("file-1")
        write(data / "file-1", b"x" * (8 * MIB + 1))
        with pytest.raises(NfsError):
            c.read_file("file-1")
    m.crawl()
    status = m.status()
    assert status["conflicts"] == 1 and status["parked"] == 0, status
    assert "changed on the old server" in m.tool("parked", m.volume)["parked"][0]["reason"]
    with open(m.volume / "file-1", "rb") as f, pytest.raises(OSError) as e:
        os.lseek(f.fileno(), 0, os.SEEK_DATA)
    assert e.value.errno == errno.ENXIO     # nothing of either version


def test_changed_by_a_local_program_over_there(make, filer, data):
    """smbd tells the write time as it was when the file was opened: of a handle that is kept it
    would be that for ever."""
    path = data / "file-2"
    size = path.stat().st_size
    m = make(filer.url(), "block_size = 65536\n").init().start()
    with m.client("v3") as c:
        assert len(c.patient(30).read("file-2", 0, 65536)[0]) == 65536
    read_at = time.monotonic()
    wait_until(lambda: time.monotonic() > read_at + 2, 10, "a handle that is old")
    with open(path, "r+b") as f:
        f.write(b"y" * size)
    m.crawl()
    status = m.status()
    assert status["conflicts"] == 1 and status["parked"] == 0, status
    assert "mtime" in m.tool("parked", m.volume)["parked"][0]["reason"]


# -- what init says -----------------------------------------------------------------


@pytest.fixture
def refused(moddir, new_volume, rpcshim, login):
    """init with this URL (and login) must fail: its error code and message."""
    volume = new_volume("xfs", "512M").path / "volume"
    volume.mkdir()

    def try_it(url, who=None):
        number = len(list(moddir.glob("r-*")))
        m = Migration(moddir / ("r-%d" % number), url, volume, shim=rpcshim,
                      conf=conf(who or login))
        answer = m.init(check=False)
        assert answer["exit"] != 0 and not (volume / ".postcopy").exists(), answer
        return answer["error"], answer["message"]

    return try_it


def make_login(moddir, text, mode=0o600):
    path = moddir / ("login-%d" % len(list(moddir.glob("login-*"))))
    path.write_text(text)
    path.chmod(mode)
    return path


def test_init_says_why(refused, new_samba, old, tree, moddir):
    host = "smb://127.0.0.1:%d" % old.port
    assert refused("smb://no.such.host.invalid/s")[0] == "unknown-host"
    error, text = refused("smb://127.0.0.1:1/share")
    assert error == "connection-refused" and "connection refused" in text
    error, text = refused(host + "/nothing")
    assert error == "not-an-export" and "no such share" in text
    error, text = refused(host + "/share/no/dir")
    assert error == "not-an-export" and "no directory no/dir on share share" in text
    error, text = refused(host + "/share/sizes/1")
    assert "is not a directory" in text
    error, text = refused("smb://root:secret@127.0.0.1/share")
    assert error == "uri-bad" and "smb_credentials" in text and "secret" not in text


def test_init_wants_a_login(refused, old, moddir):
    wrong = make_login(moddir, "username = root\npassword = not-this-one\n")
    error, text = refused(old.url(), wrong)
    assert error == "source-denied" and "logon failure" in text and "not-this-one" not in text
    nobody = make_login(moddir, "username = whoever\npassword = x\n")
    assert refused(old.url(), nobody)[0] == "source-denied"
    public = make_login(moddir, "username = root\npassword = %s\n" % smbd.PASSWORD, 0o644)
    error, text = refused(old.url(), public)
    assert error == "source-denied" and "can be read by others" in text
    error, text = refused(old.url(), moddir / "nothing-here")
    assert "No such file" in text


def test_nobody_is_a_guest(refused, new_samba, tree, moddir):
    """Neither because a server lets everybody in, nor because there is no password."""
    lax = new_samba("lax", tree, conf="map to guest = bad user\nguest account = root",
                    more="guest ok = yes")
    for text in ("username = whoever\npassword = x\n", "username = whoever\n"):
        error, _ = refused(lax.url(), make_login(moddir, text))
        assert error in ("source-denied", "source-protocol"), error


def test_no_right_to_the_share(refused, new_samba, tree, moddir):
    strict = new_samba("strict", shares=[smbd.Share(str(tree), more="valid users = root")])
    carol = make_login(moddir, "username = carol\npassword = %s\n" % smbd.PASSWORD)
    error, text = refused(strict.url(), carol)
    assert error == "source-denied" and "no right to use share" in text


def test_no_right_to_list(refused, new_samba, moddir):
    top = moddir / "private"
    top.mkdir(mode=0o711)
    (top / "mine").mkdir(mode=0o700)
    server = new_samba("private-srv", top)
    carol = make_login(moddir, "username = carol\npassword = %s\n" % smbd.PASSWORD)
    assert refused(server.url(), carol)[0] == "source-denied"


# -- protection ----------------------------------------------------------------------


class Insisting(smbd.Samba):
    """A server that the suite's own client, SMB 2.1 without signing, cannot talk to."""

    def _ready(self):
        assert self.process.poll() is None, self.tail()
        return self.smbclient("exit").returncode == 0


@pytest.mark.parametrize("server_wants", ["server smb encrypt = required",
                                          "server signing = mandatory",
                                          "server min protocol = SMB3_11",
                                          "server max protocol = SMB2_10"])
def test_servers_that_insist(moddir, tree, login, server_wants):
    name = "insists-" + server_wants.split()[-1].lower()
    with Insisting(moddir / name, tree, conf=server_wants) as server:
        done = cat(server.url(), login, "cat", "sizes/65537")
        assert done.stdout == (tree / "sizes" / "65537").read_bytes()


def test_encryption_required_of_us(new_samba, tree, login):
    plain = new_samba("plain", tree, conf="server smb encrypt = off")
    assert cat(plain.url(), login, "probe").stdout == b"ok\n"
    assert b"cannot encrypt" in cat(plain.url(), login, "probe", options=["-e"]).stdout


class Wire:
    """A proxy that keeps what it passes on."""

    def __init__(self, port):
        self.port, self.seen = port, bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def _accept(self):
        while True:
            try:
                a = self.listener.accept()[0]
            except OSError:
                return
            b = socket.create_connection(("127.0.0.1", self.port))
            for pair in ((a, b), (b, a)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                self.seen += data
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        end_listener(self.listener, self.acceptor)


def test_what_is_encrypted(old, tree, login):
    """Neither bytes nor names are to be seen on the wire."""
    secret, name = b"down here", "end".encode("utf-16-le")
    path = "deep/" + "/".join("level-%02d" % i for i in range(40)) + "/end"
    for options, clear in (([], True), (["-e"], False)):
        with Wire(old.port) as wire:
            url = "smb://127.0.0.1:%d/share" % wire.listener.getsockname()[1]
            assert cat(url, login, "cat", path, options=options).stdout == secret
        assert (secret in wire.seen) == clear and (name in wire.seen) == clear, options


# -- hostile ------------------------------------------------------------------------


HOSTILE = """#!/usr/bin/python3
import os, random, socket, struct, sys
s = socket.socket(fileno=3)
rng = random.Random(os.getpid())
tag = 0
def header(kind, n, magic=0x57534350, version=VERSION):
    return struct.pack("<IHHII", magic, version, kind, n, rng.choice((tag, tag, 0, 2 ** 32 - 1)))
attr = struct.pack("<IIIIQQQ", 0o40700, 0, 0, 2, 0, 0, %d) + struct.pack("<qI", 1, 0) * 3
def read_request():
    global tag
    h = s.recv(16, socket.MSG_WAITALL)
    if len(h) < 16:
        sys.exit()
    kind, n, tag = struct.unpack("<IHHII", h)[2:]
    s.recv(n, socket.MSG_WAITALL)
    return kind
read_request()
s.sendall(header(65, len(attr)) + attr)
answers = [
    lambda: header(68, 4) + struct.pack("<I", 0xffffffff),
    lambda: header(68, 4 + len(attr) + 3) + struct.pack("<I", 1) + attr + b"\\x03\\x00..",
    lambda: header(68, 4 + len(attr) + 5) + struct.pack("<I", 1) + attr + b"\\x01\\x00a\\xffx",
    lambda: header(70, 1 << 24),
    lambda: header(70, 0xffffffff) + b"x" * 100000,
    lambda: header(66, len(attr)) + attr,
    lambda: header(99, 0),
    lambda: header(64, 0) * 1000 + b"junk" * 10,
    lambda: header(72, 4) + b"\\x01\\x01\\xff\\xff",
    lambda: os.urandom(5000),
    lambda: header(71, len(attr) + 4 + 2 + 16 + 4 + 1) + attr + struct.pack("<IH", 1, 16) +
        b"trusted.postcopy" + struct.pack("<I", 1) + b"x",
]
while True:
    read_request()
    s.sendall(rng.choice(answers)())
"""


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1])


def test_hostile_worker(make, old, tree, moddir):
    """Nothing of what a worker sends is believed, and no memory is lost by it."""
    fake = moddir / "hostile-worker"
    wire = (ROOT / "retriever/smb/smb_wire.h").read_text()
    version = re.search(r"#define SMB_WIRE_VERSION (\d+)", wire)[1]
    fake.write_text(HOSTILE.replace("%d", str(tree.stat().st_ino)).replace("VERSION", version))
    fake.chmod(0o755)
    m = make(old.url(), allow=["impossible message from a worker"]).init()
    m.conf = m.conf.replace(str(WORKER), str(fake)) + "max_tries = 1000\n"
    m.start_retriever()
    m.start_crawler()
    wait_until(lambda: m.status()["source_reconnects"] > 12, 60, "many workers")
    assert rss_kib(m.retriever.pid) < 200 << 10
    m.kill_crawler()
    assert sorted(os.listdir(m.volume)) == [".postcopy"]
    assert m.scan()["uncovered"] == 0


# -- memory -------------------------------------------------------------------------


def test_a_huge_directory_takes_no_memory(new_samba, moddir, login, new_volume):
    top = new_volume("xfs", "1G").path / "huge"
    top.mkdir()
    for i in range(60000):
        os.mknod(top / ("a rather long name of one file, number %06d" % i))
    server = new_samba("huge", top)
    process = subprocess.Popen([str(SOURCECAT), "-t", "60000", "-c", "1", "-a", str(login), "-p",
                                str(WORKER), "-n", "3", server.url(), "count", ""],
                               stdout=subprocess.PIPE)
    most = 0
    while process.poll() is None:
        for pid in [process.pid, *children(process.pid)]:    # it, and its worker
            try:
                most = max(most, rss_kib(pid))
            except (OSError, StopIteration):
                pass
    assert process.stdout.read().count(b"60000 entries") == 3 and process.returncode == 0
    assert most < 40 << 10, most
