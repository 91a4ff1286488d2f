# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rows of tests/bench/run are measured on: old servers, near and far, and migrations.

    old = Old(home, top, quick)
    with line(10, old.nfs("small").host, old.nfs("small").port) as port, \\
            migration(home, old, "small", port) as m:
        seconds = crawl_seconds(m)
        check_whole(m)

A tree, and the servers that export it, are made when a row first asks for them.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

import lib.line
from lib.ganesha import of_debian
from lib.migration import Migration, SmbMigration
from lib.programs import BUILD, MODULES, WORKER, build_rpcshim
from lib.smbd import PASSWORD, Samba
from lib.smbsource import settings
from lib.volume import LoopVolume

BASE = pathlib.Path(os.environ.get("POSTCOPY_TEST_DIR", "/var/tmp/postcopy-tests"))
TOOLS = BUILD / "tests" / "tools"
PARCOPY, PUT, NFSTREE = TOOLS / "nfsparcopy", TOOLS / "nfsput", TOOLS / "nfstree"
SOURCECAT, DELAYPROXY = TOOLS / "sourcecat", TOOLS / "delayproxy"
STUBMAKE, JOURNALPAD = TOOLS / "stubmake", TOOLS / "journalpad"
SMB = (WORKER, MODULES / "stub.so")     # what rows of SMB need beside
LIMIT_S = 1800
SMALL, PER_DIR = 4096, 250
WIDE, LEVELS, ENTRIES, THIN = 16, 16, 1000, 10
CHAINS = 9
MIB = 1 << 20
GBIT = 117_000_000      # bytes/s that TCP brings over a line of 1 Gbit/s


def timed(function, *args):
    begin = time.monotonic()
    function(*args)
    return time.monotonic() - begin


def sync(path):
    subprocess.run(["sync", "-f", str(path)], check=True)


def touch_memory(disk, size):
    """A virtual machine may have to get memory from its host first: 2 s for a GiB, ten times as long as
    all that is done with it."""
    path = disk / "touch"
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(b"x" * MIB)
    path.unlink()


def tool(*argv):
    done = subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True,
                          timeout=LIMIT_S)
    return done.stdout


def commit():
    done = subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"],
                          capture_output=True, text=True)
    return done.stdout.strip()


def cpu_of(pid):
    """Seconds of processor time, of all its threads that ever were."""
    return time.clock_gettime(~pid << 3 | 2)    # CLOCK_PROCESS_CPUTIME_ID of another process


# -- the old server, near and far ----------------------------------------------------------


def write_dirs(top, dirs, files, size):
    top.mkdir()
    data = os.urandom(size)
    for d in range(dirs):
        (top / ("d%04d" % d)).mkdir()
        for f in range(files):
            (top / ("d%04d" % d) / ("f%04d" % f)).write_bytes(data)


def write_deep(top, levels, entries):
    """Each level has so many entries, one of them the next level; the last has COLD."""
    top.mkdir()
    for _ in range(levels):
        for f in range(entries - 1):
            (top / ("f%04d" % f)).touch()
        top = top / "next"
        top.mkdir()
    (top / "cold").write_bytes(os.urandom(SMALL))


def write_chains(top, levels):
    top.mkdir()
    for n in range(CHAINS):
        write_deep(top / ("c%d" % n), levels - 1, THIN)


def chains(old):
    """Files of which each lies below directories of its own."""
    return ["/".join(["c%d" % n] + ["next"] * (old.levels - 1) + ["cold"]) for n in range(CHAINS)]


def write_large(top, size):
    """So many bytes in four files."""
    top.mkdir()
    for n in range(4):
        with open(top / ("file%d" % n), "wb") as f:
            for _ in range(size // MIB // 4):
                f.write(os.urandom(MIB))


def write_big(top, size):
    top.mkdir()
    with open(top / "file", "wb") as f:
        for _ in range(size // MIB):
            f.write(os.urandom(MIB))


class Old:
    """The old servers of a run, one for each tree and protocol."""

    def __init__(self, home, top, quick, release=None):
        self.home, self.top, self.quick = home, top, quick
        self.release = release      # of Debian, whose NFS server it is; None: this machine's
        self.turn = 0               # of rows_version.py
        self.files = 2000 if quick else 20000       # of small
        self.few = 1000 if quick else 5000
        self.dirs = 4 if quick else WIDE            # of wide
        self.levels = 8 if quick else LEVELS        # of deep and thin
        self.size = (64 if quick else 1024) * MIB   # of big
        self.cold = "/".join(["next"] * self.levels + ["cold"])
        self.shim = build_rpcshim(home / "build")
        self.servers = {}

    def tree(self, name):
        make = {"small": lambda top: write_dirs(top, self.files // PER_DIR, PER_DIR, SMALL),
                "few": lambda top: write_dirs(top, self.few // PER_DIR, PER_DIR, SMALL),
                "wide": lambda top: write_dirs(top, self.dirs, ENTRIES, 0),
                "deep": lambda top: write_deep(top, self.levels, ENTRIES),
                "thin": lambda top: write_deep(top, self.levels, THIN),
                "chains": lambda top: write_chains(top, self.levels),
                "large": lambda top: write_large(top, self.size),
                "big": lambda top: write_big(top, self.size)}
        if not (self.top / name).exists():
            make[name](self.top / name)
            sync(self.top)
        return str(self.top / name)

    def nfs(self, name):
        if ("nfs", name) not in self.servers:
            kind = of_debian(self.release, BASE)
            self.servers["nfs", name] = kind(self.home / ("old-nfs-" + name), self.tree(name),
                                             readonly=True, shim=self.shim).start()
        return self.servers["nfs", name]

    def smb(self, name):
        if ("smb", name) not in self.servers:
            self.servers["smb", name] = Samba(self.home / ("old-smb-" + name), self.tree(name),
                                              readonly=True).start()
        return self.servers["smb", name]

    def stop(self):
        for server in self.servers.values():
            server.stop(scan=False)

    def url(self, name, port=None, version="3"):
        s = self.nfs(name)
        mount = "&mountport=%d" % s.mount_port if version == "3" else ""
        return "nfs://%s%s?nfsport=%d%s&version=%s" % (s.host, s.pseudo, port or s.port, mount,
                                                       version)

    def smb_url(self, name, port=None):
        s = self.smb(name)
        return "smb://%s:%d/%s" % (s.host, port or s.port, s.shares[0].name)

    @property
    def login(self):
        path = self.home / "login"
        if not path.exists():
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write("username = root\npassword = %s\n" % PASSWORD)
        return path


@contextlib.contextmanager
def line(delay_ms, host, port, rate=0):
    """The port of the same server at the end of a long line, or of one of so many bytes/s."""
    if not delay_ms and not rate:
        yield port
        return
    with lib.line.line(host, port, delay_ms * 500, rate) as end:
        yield end.port


# -- migrations ----------------------------------------------------------------------------


def ask_status(control):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(control))
        s.sendall(b'{"cmd":"status"}\n')
        return json.loads(s.makefile().readline())


def crawl(m, every_s=0.02, look=lambda crawler, seconds: None):
    """Until the counter is 0; the crawler's end is not waited for.  look() is called after each answer."""
    crawler = m.start_crawler()
    end = time.monotonic() + LIMIT_S
    while True:
        begin = time.monotonic()
        status = ask_status(m.control)
        look(crawler, time.monotonic() - begin)
        if not status["pending"]:
            return
        if crawler.poll() or status["parked"] + status["conflicts"]:
            raise RuntimeError("crawler %s, %s" % (crawler.poll(), status))
        if time.monotonic() > end:
            raise TimeoutError("still %d pending" % status["pending"])
        time.sleep(every_s)


def crawl_seconds(m):
    """Until all of it is on disk."""
    return timed(lambda: (crawl(m), sync(m.volume)))


def check_whole(m):
    m.crawler.wait(LIMIT_S)
    m.audit(complete=True)


@contextlib.contextmanager
def disk(home, size="8G"):
    with LoopVolume(home, "xfs", size=size) as volume:
        target = volume.path / "new"
        target.mkdir()
        yield target


@contextlib.contextmanager
def begun(m):
    """A migration from its start to its end."""
    m.init()
    try:
        yield m.start()
    finally:
        m.stop(scan=False)
        shutil.rmtree(m.workdir, ignore_errors=True)


@contextlib.contextmanager
def migration(home, old, name, port=None, conf="", version="3"):
    with disk(home) as volume, begun(Migration(home / "m", old.url(name, port, version), volume,
                                               shim=old.shim, conf=conf)) as m:
        yield m


@contextlib.contextmanager
def smb_migration(home, old, name, port=None):
    with disk(home) as volume, begun(SmbMigration(home / "m", old.smb_url(name, port), volume,
                                                  conf=settings(smb_credentials=old.login))) as m:
        yield m
