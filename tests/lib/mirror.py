# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume with a mirror: the replicator, and who changes the volume.

    volume = finished(workdir, volume, tree)    # a volume to which all of @tree has come
    make(volume, url)                           # a backup; everything is owed to it
    m = Mirror(workdir, volume).start()
    with Changes(volume) as c:
        c.write("a", b"bytes"); c.rename("a", "b")
    m.drained()

Changes enters into the ledger what it is about to change, as a server's module does, through
libstubcore.so; names are bytes or text below the volume.
"""
import atexit
import ctypes
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess
import tempfile

from lib.migration import Migration
from lib.programs import BUILD, MIRROR
from lib.twotrees import compare
from lib.wait import wait_until

CORE = BUILD / "libstubcore" / "libstubcore.so"
FOLD, EVERYTHING = 2, 1
DATA, ATTRS, NAMES = 1, 2, 4
WAY_BACK, BACKUP = 1, 2
ASYNC, CONTINUE = 1, 1
URI_MAX = 1024
# Of what a mirror keeps; times of access move when it is read, and NFSv3 has no other attributes.
COMPARED = ("names", "types", "sizes", "data", "modes", "owners", "mtime", "links", "symlinks",
            "devices")


class Handle(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("len", ctypes.c_uint8), ("bytes", ctypes.c_uint8 * 128)]


class Entered(ctypes.Structure):
    _fields_ = [("map", ctypes.c_void_p), ("flight", ctypes.c_uint32), ("what", ctypes.c_uint32),
                ("h", Handle), ("from_", ctypes.c_uint64), ("to", ctypes.c_uint64),
                ("name", ctypes.c_char * 256)]


class Conf(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("mode", ctypes.c_int), ("gone", ctypes.c_int),
                ("lag_s", ctypes.c_uint32), ("alone", ctypes.c_bool), ("uri", ctypes.c_char * URI_MAX),
                ("smb", ctypes.c_char * URI_MAX)]


def core():
    lib = ctypes.CDLL(str(CORE), use_errno=True)
    lib.stub_volume_open.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_void_p,
                                     ctypes.c_void_p, ctypes.c_void_p]
    lib.stub_volume_close.argtypes = [ctypes.c_void_p]
    lib.stub_mirror_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool]
    lib.stub_ledger_enter.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32,
                                      ctypes.c_void_p]
    lib.stub_ledger_leave.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.stub_ledger_leave.restype = None
    return lib


def done(result, what):
    if result < 0:
        raise OSError(-result, os.strerror(-result), what)


class Volume:
    """One that is open."""

    def __init__(self, path):
        self.path = os.fsencode(path)
        self.lib = core()
        self.v = ctypes.c_void_p()
        done(self.lib.stub_volume_open(self.path, FOLD, None, None, ctypes.byref(self.v)),
             "volume")

    def close(self):
        self.lib.stub_volume_close(self.v)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def make(path, url, kind=BACKUP, everything=True, smb=""):
    with Volume(path) as v:
        conf = Conf(kind, ASYNC, CONTINUE, 0, False, url.encode(), smb.encode())
        done(v.lib.stub_mirror_create(v.v, ctypes.byref(conf), everything), "mirror")


def finished(workdir, volume, tree):
    """A volume to which everything of the directory @tree has come; nothing serves it.  Sockets are
    in a directory in @workdir: its path must be short."""
    m = Migration(tempfile.mkdtemp(prefix="m-", dir=workdir), "file://%s" % tree, volume).init()
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    m._end(m.retriever, signal.SIGTERM)
    return pathlib.Path(volume)


class Changes(Volume):
    """Who changes the volume.  Each method is an operation, in between enter and leave."""

    def at(self, name):
        return os.path.join(self.path, os.fsencode(name))

    def handle(self, path):
        libc = ctypes.CDLL(None, use_errno=True)

        class Kernel(ctypes.Structure):
            _fields_ = [("len", ctypes.c_uint), ("type", ctypes.c_int),
                        ("bytes", ctypes.c_uint8 * 128)]

        k, mount, h = Kernel(128), ctypes.c_int(), Handle()
        if libc.name_to_handle_at(-100, path, ctypes.byref(k), ctypes.byref(mount), 0):
            raise OSError(ctypes.get_errno(), "name_to_handle_at", path)
        h.type, h.len = k.type, k.len
        ctypes.memmove(h.bytes, k.bytes, k.len)
        return h

    def around(self, objects, operation):
        """@objects: (path, what) of each."""
        entered = []
        try:
            for path, what in objects:
                e, h = Entered(), self.handle(path)
                done(self.lib.stub_ledger_enter(self.v, ctypes.byref(h), what, ctypes.byref(e)),
                     path)
                entered.append(e)
            return operation()
        finally:
            for e in entered:
                self.lib.stub_ledger_leave(self.v, ctypes.byref(e))

    def _named(self, name, operation):
        """A new name, or one that goes."""
        path = self.at(name)
        return self.around([(os.path.dirname(path), NAMES | ATTRS)], lambda: operation(path))

    def _object(self, name, what, operation):
        path = self.at(name)
        return self.around([(path, what)], lambda: operation(path))

    def create(self, name, mode=0o644):
        self._named(name, lambda p: os.close(os.open(p, os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                                                     mode)))

    def write(self, name, data, offset=0):
        if not os.path.lexists(self.at(name)):
            self.create(name)

        def put(path):
            fd = os.open(path, os.O_WRONLY)
            try:
                os.pwrite(fd, data, offset)
            finally:
                os.close(fd)

        self._object(name, DATA | ATTRS, put)

    def truncate(self, name, size):
        self._object(name, DATA | ATTRS, lambda p: os.truncate(p, size))

    def mkdir(self, name, mode=0o755):
        self._named(name, lambda p: os.mkdir(p, mode))

    def rmdir(self, name):
        self._named(name, os.rmdir)

    def unlink(self, name):
        path = self.at(name)
        self.around([(os.path.dirname(path), NAMES | ATTRS), (path, ATTRS)],
                    lambda: os.unlink(path))

    def symlink(self, name, target):
        self._named(name, lambda p: os.symlink(target, p))

    def mknod(self, name, mode, device=0):
        self._named(name, lambda p: os.mknod(p, mode, device))

    def link(self, old, new):
        a, b = self.at(old), self.at(new)
        self.around([(a, ATTRS), (os.path.dirname(b), NAMES | ATTRS)],
                    lambda: os.link(a, b, follow_symlinks=False))

    def rename(self, old, new):
        a, b = self.at(old), self.at(new)
        objects = [(os.path.dirname(a), NAMES | ATTRS), (os.path.dirname(b), NAMES | ATTRS),
                   (a, ATTRS)]
        if os.path.lexists(b):
            objects.append((b, ATTRS))
        self.around(objects, lambda: os.rename(a, b))

    def swap(self, one, other):
        """RENAME_EXCHANGE."""
        a, b = self.at(one), self.at(other)
        libc = ctypes.CDLL(None, use_errno=True)

        def exchange():
            if libc.renameat2(-100, a, -100, b, 2):
                raise OSError(ctypes.get_errno(), "renameat2", a)

        self.around([(os.path.dirname(a), NAMES | ATTRS), (os.path.dirname(b), NAMES | ATTRS),
                     (a, ATTRS), (b, ATTRS)], exchange)

    def chmod(self, name, mode):
        self._object(name, ATTRS, lambda p: os.chmod(p, mode))

    def chown(self, name, uid, gid):
        self._object(name, ATTRS, lambda p: os.lchown(p, uid, gid))

    def utime(self, name, atime, mtime):
        self._object(name, ATTRS, lambda p: os.utime(p, ns=(atime, mtime), follow_symlinks=False))

    def remove_tree(self, name):
        top = self.at(name)
        for where, dirs, files in os.walk(top, topdown=False):
            for f in files:
                self.unlink(os.path.join(where, f)[len(self.path) + 1:])
            for d in dirs:
                path = os.path.join(where, d)
                below = path[len(self.path) + 1:]
                if stat.S_ISLNK(os.lstat(path).st_mode):
                    self.unlink(below)
                else:
                    self.rmdir(below)
        self.rmdir(name)


class Mirror:
    """The replicator of a volume."""

    def __init__(self, workdir, volume, conf=""):
        self.workdir, self.volume, self.conf = pathlib.Path(workdir), pathlib.Path(volume), conf
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.process = None
        about = dict(line.split("=", 1) for line in
                     (self.volume / ".postcopy/volume.conf").read_text().splitlines() if "=" in line)
        self.socket = pathlib.Path(about["control"] + ".mirror")
        self.aside = ".postcopy-aside-" + about["uuid"]

    @property
    def log(self):
        return self.workdir / "mirror.log"

    def start(self, wait=True):
        conf = self.workdir / "mirror.conf"
        conf.write_text("call_timeout = 2000\n" + self.conf)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen([str(MIRROR), "--config", str(conf),
                                             str(self.volume)], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True)
        atexit.register(self.kill)
        if wait:
            wait_until(self._up, 60, "replicator")
        return self

    def _up(self):
        assert self.process.poll() is None, self.log.read_text()
        return self.ask("status")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)

    def stop(self):
        """In good order."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(120) == 0, self.log.read_text()
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        assert "Sanitizer" not in text and "runtime error" not in text, text

    def ask(self, cmd, **more):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(300)
            s.connect(str(self.socket))
            s.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            with s.makefile() as lines:
                answer = json.loads(lines.readline())
        assert answer.pop("ok"), answer
        return answer

    def status(self):
        return self.ask("status")

    def state(self, name, timeout=60):
        wait_until(lambda: self.status()["state"] == name, timeout, "state " + name)

    def drained(self, timeout=120):
        """Until both sides are equal, and durable; shows what keeps them from it."""
        try:
            wait_until(lambda: self.ask("drained")["drained"], timeout, "drained")
        except TimeoutError:
            raise AssertionError("%s\n%s" % (self.status(), self.log.read_text())) from None

    def differences(self, tree):
        """{property: paths} in which the mirror's @tree is not the volume."""
        found = compare(self.volume, tree, without=(b".postcopy", self.aside.encode()))
        bad = {}
        for name in COMPARED:
            paths = [p for p in found[name].paths
                     # Ganesha's FSAL_VFS does not set those of symlinks
                     if not (name == "mtime" and os.path.islink(self.volume / os.fsdecode(p)))]
            if paths:
                bad[name] = paths
        return bad

    def equal(self, tree, timeout=120):
        self.drained(timeout)
        aside = pathlib.Path(tree) / self.aside
        assert not aside.exists() or not list(aside.iterdir())
        bad = self.differences(tree)
        assert not bad, (bad, self.log.read_text()[-3000:])
