# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's client: uses the new server while it is being filled.

It sees what any NFS client sees, and compares each byte it reads with the old
server's.
"""
import random
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from nfsclient import connect
from nfsclient.errors import NfsError
from nfsclient.nfstypes import DIR, REG
from nfsclient.rpc import RpcConnection, RpcError
from nfsclient.xdr import Packer

CHUNK = 65536
PORTMAP, PORTMAP_PORT = (100000, 2), 111
NFS, MOUNT = 100003, 100005


def getport(host, program):
    """Ask the portmapper for the TCP port of version 3 of a program."""
    with RpcConnection(host, PORTMAP_PORT, *PORTMAP, timeout=10) as conn:
        args = Packer()
        for word in (program, 3, 6, 0):
            args.u32(word)
        port = conn.call(3, args.done()).u32()
    if not port:
        raise RpcError("%s has no NFSv3 over TCP" % host)
    return port


def connect_uri(uri):
    """An NFSv3 client on nfs://host[:port]/export[?nfsport=N&mountport=N]."""
    parts = urlsplit(uri)
    query = {k: v[0] for k, v in parse_qs(parts.query).items()}
    host = parts.hostname
    nfs = int(query.get("nfsport") or parts.port or getport(host, NFS))
    mount = int(query.get("mountport") or getport(host, MOUNT))
    return connect("v3", host, nfs, mount, unquote(parts.path) or "/")


def find_cold(client, depth=16, width=200):
    """A non-empty file as deep as a quick look finds; None if there is none."""
    best, at, path = None, client.root, b""
    for _ in range(depth):
        entries = client.listdir(at)[:width]
        files = [e for e in entries if e.attrs and e.attrs.type == REG and e.attrs.size]
        dirs = [e for e in entries if e.attrs and e.attrs.type == DIR]
        if files:
            best = path + files[0].name
        if not dirs:
            break
        at, path = client.fh((at, dirs[0].name)), path + dirs[0].name + b"/"
    return best


@dataclass
class Report:
    """What the visitor saw."""
    listings: int = 0
    reads: int = 0
    bytes: int = 0
    worst_ms: float = 0.0
    delays: int = 0
    wrong: list = field(default_factory=list)


class Visitor(threading.Thread):
    """Lists random directories and reads random pieces until stop()."""

    errors = (NfsError, RpcError, AssertionError, OSError)

    def __init__(self, old, new, pause=0.02):
        super().__init__(name="visitor", daemon=True)
        self.old, self.new, self.pause = old, new, pause
        self.report = Report()
        self.failure = None
        self._over = threading.Event()
        self._random = random.Random(1)

    def stop(self):
        self._over.set()
        self.join(120)
        self.report.delays = self.new.delays
        if self.is_alive():
            raise RuntimeError("the client hangs: no answer of the new server for 120 s")
        if self.failure:
            raise self.failure

    def run(self):
        try:
            while not self._over.is_set():
                self.walk()
        except self.errors as err:
            self.failure = RuntimeError("the client failed on the new server: %s" % err)

    def walk(self):
        """From the root down at random, reading on the way."""
        at, path = self.new.root, b""
        while not self._over.is_set():
            entries = self.timed(self.new.listdir, at)
            self.report.listings += 1
            files = [e for e in entries if e.attrs and e.attrs.type == REG and e.attrs.size]
            for entry in self._random.sample(files, min(2, len(files))):
                self.read(path + entry.name, entry.attrs.size)
            dirs = [e for e in entries if e.attrs and e.attrs.type == DIR]
            if not dirs:
                return
            entry = self._random.choice(dirs)
            path += entry.name + b"/"
            at = self.new.fh((at, entry.name))

    def read(self, path, size):
        offset = self._random.randrange(size) // CHUNK * CHUNK
        want = min(CHUNK, size - offset)
        new = self.timed(self.piece, self.new, path, offset, want)
        old = self.piece(self.old, path, offset, want)
        self.report.reads += 1
        self.report.bytes += len(new)
        if new != old:
            self.report.wrong.append("%r: bytes %d to %d differ" % (path, offset, offset + want))
        self._over.wait(self.pause)

    @staticmethod
    def piece(client, path, offset, count):
        fh, parts = client.lookup_path(path), []
        patient = client.patient(60)
        while count > 0:
            data, eof = patient.read(fh, offset, count)
            parts.append(data)
            offset, count = offset + len(data), count - len(data)
            if eof or not data:
                break
        return b"".join(parts)

    def timed(self, function, *args):
        start = time.monotonic()
        try:
            return function(*args)
        finally:
            self.report.worst_ms = max(self.report.worst_ms, (time.monotonic() - start) * 1000)
