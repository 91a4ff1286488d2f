# SPDX-License-Identifier: GPL-3.0-or-later
"""What the test_smb_* suites share: a fake old server (NFS), a volume, and an smbd with
our module on it.

    World                   for the module; each test makes a directory of its own at the source
    explore(client, path)   looks at a directory as Windows Explorer does
"""
import contextlib
import itertools
import json
import pathlib
import socket
import subprocess

import pytest

from lib.migration import BUILD
from lib.smbmigration import SmbMigration
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.hooks import Gate, only
from smb2client import SmbError, wire

STUBTOOL = BUILD / "tests" / "tools" / "stubtool"
BLOCK = 65536                       # the retriever's block_size
SIZE = 5 * BLOCK + 1234             # a file of several blocks and an odd end
EPOCH = 116444736000000000          # 1970 in 100 ns since 1601
OLD = 1500000000 * 10 ** 9          # times of the source: long ago


def pattern(size, seed=1):
    return Pattern(size, seed).read(0, size)


def status_of(call, *args, **options):
    """The status with which a call fails."""
    with pytest.raises(SmbError) as caught:
        call(*args, **options)
    return caught.value.status


def smb_time(ns):
    return EPOCH + ns // 100


class World:
    SMB = True

    def __init__(self, home, volume, shim=None, **options):
        self.tree = Tree()
        self.tree.root.mode = 0o777
        self.fake = FakeServer(self.tree).start()
        self.volume = pathlib.Path(volume)
        self.m = SmbMigration(home, self.fake.url(), volume, shim=shim,
                              conf="block_size = %d\n" % BLOCK, **options)
        self.m.init().start()
        self.smbd = self.m.server
        self._number = itertools.count(1)
        self.models = {}            # path: (node, bytes or None) of what clients left alone

    def dir(self, mode=0o777, **attrs):
        """A directory at the source's root, of which nobody has heard yet; its name."""
        name = "t%03d" % next(self._number)
        self.tree.mkdir(self.tree.root, name.encode(), mode=mode,
                        **{"mtime": OLD, "ctime": OLD + 5, **attrs})
        return name

    def file(self, path, size=SIZE, **attrs):
        """A file at the source below a directory that is there."""
        parent, _, name = path.rpartition("/")
        seed = next(self._number)
        node = self.tree.file(self.tree.find(parent.encode()), name.encode(),
                              Pattern(size, seed),
                              **{"mode": 0o666, "mtime": OLD + 100, "ctime": OLD + 200, **attrs})
        self.models[path] = (node, pattern(size, seed))
        return self.models[path][1]

    def node(self, path):
        return self.tree.find(path.encode())

    def show(self, path):
        """The record of an object, by our own tool."""
        done = subprocess.run([str(STUBTOOL), "show", str(self.volume), path],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (path, done.stderr)
        return json.loads(done.stdout)

    def ask(self, path, *request):
        """Fill it, or so, as the crawler does."""
        done = subprocess.run([str(STUBTOOL), "ask", str(self.volume), path, *map(str, request)],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (path, request, done.stderr)

    def finish(self, path):
        """Fill it, and wait until its record is gone."""
        self.ask(path, "fill")
        self.settle()

    def settle(self):
        """Records of what is complete are gone (they go in batches)."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(60)
            sock.connect(str(self.m.control))
            sock.sendall(b'{"cmd": "drain"}\n')
            assert json.loads(sock.makefile().readline()).get("ok")
        self.m.drain()

    def reads(self, path=None):
        """READs the old server has had, of a file or in all."""
        return [c for c in list(self.fake.calls) if c.proc == "READ" and
                (path is None or c.node is self.node(path))]

    @contextlib.contextmanager
    def held(self, procs, path):
        """The old server holds its answers about an object until the block ends."""
        node, gate = self.node(path), Gate()
        remove = self.fake.hook(procs, only(lambda call: call.node is node, gate))
        try:
            yield gate
        finally:
            gate.open()
            remove()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close()

    def close(self):
        """Crawl, audit, and compare all that no test has changed."""
        try:
            self.m.crawl()
            self.m.audit(complete=True)
            with self.m.client() as c:
                for path, (_, data) in self.models.items():
                    assert c.read_file(path) == data, path
        finally:
            try:
                self.m.stop()
            finally:
                self.fake.stop()


def explore(client, path):
    """What Explorer asks about a directory, and about each of its files: everything but
    data.  Returns {name: (entry of the listing, Info of the open file, streams)}."""
    seen = {}
    with client.open(path, wire.READ_DATA | wire.READ_ATTRIBUTES | wire.SYNCHRONIZE,
                     options=wire.OPT_DIRECTORY) as d:
        d.query(wire.INFO_FS, wire.FS_ATTRIBUTE)
        entries = [e for e in d.list() if e.name not in (".", "..")]
    for entry in entries:
        name = path + "/" + entry.name
        with client.open(name, wire.READ_ATTRIBUTES | wire.READ_CONTROL | wire.READ_EA |
                         wire.SYNCHRONIZE) as f:                  # properties, the Security tab
            info, streams = f.info(), f.streams()
            f.eas()
            f.query(wire.INFO_FILE, wire.NETWORK_OPEN)
            f.security()
        client.open(name, wire.READ_DATA | wire.READ_ATTRIBUTES | wire.EXECUTE).close()  # icons
        with client.open(path, wire.READ_DATA, options=wire.OPT_DIRECTORY) as d:
            assert [e.name for e in d.list(entry.name)] == [entry.name]
        seen[entry.name] = (entry, info, streams)
    return seen
