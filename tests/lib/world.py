# SPDX-License-Identifier: GPL-3.0-or-later
"""Worlds: a fake old server, a volume, a retriever and new servers, for a module's tests.

    NfsWorld    Ganesha; each test has a Case: a directory, its model, the state it is in
    BothWorld   the same with an smbd beside it, on the same volume
    SmbWorld    an smbd alone; tests make directories and files at the source

The old server's root is never listed before the end, so each test adds its own
directory to it and only its name is looked up.  At the end everything is crawled,
audited, and compared with the models.  The fixture is in fixtures.py.
"""
import contextlib
import itertools
import json
import os
import pathlib
import socket
import subprocess

from lib import debian
from lib.case import BLOCK, OLD, SIZE, Case, pattern
from lib.migration import Migration, SmbMigration, counted
from lib.programs import MODULES, STUBTOOL
from lib.smbd import STACK, Samba, Share
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.hooks import Gate, only


class World:
    """finish() crawls and tells, as text, what is not as it should be in the end."""
    KIND = Migration
    SMB = False                         # it needs the module for Samba
    ROOT_MODE = 0o755                   # at the source

    def __init__(self, home, volume, shim=None, conf="", attr_cache=None, **options):
        """options: as of the Migration."""
        self.tree = Tree()
        self.tree.root.mode = self.ROOT_MODE
        self.fake = FakeServer(self.tree).start()
        self.volume = pathlib.Path(volume)
        self.m = self.KIND(home, self.fake.url(), volume, shim=shim,
                           conf="block_size = %d\n%s" % (BLOCK, conf), **options)
        if attr_cache is not None:
            self.m.server.exports[0].more = "Attr_Expiration_Time = %d;" % attr_cache
        self.m.init().start()
        self._number, self.finished = itertools.count(1), False

    # -- tools --------------------------------------------------------------

    def stubtool(self, command, path, *more):
        done = subprocess.run([str(STUBTOOL), command, str(self.volume), path,
                               *map(str, more)], capture_output=True, text=True)
        assert done.returncode == 0, (command, path, more, done.stderr)
        return done.stdout

    def show(self, path):
        """The record of an object."""
        return json.loads(self.stubtool("show", path))

    def control(self, cmd):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(60)
            sock.connect(str(self.m.control))
            sock.sendall(json.dumps({"cmd": cmd}).encode() + b"\n")
            answer = json.loads(sock.makefile().readline())
        assert answer.get("ok"), answer
        return answer

    def settle(self):
        """Nothing is in flight any more."""
        def idle():
            before = self.control("status")      # who is at work hands in what drain waits for
            self.control("drain")
            status = self.control("status")
            return not any((before["active"], status["inflight"], status["active"]))
        wait_until(idle, 60, "retriever idle")

    def calls(self, proc, node=None):
        """Calls the old server has had: all, or those about a node."""
        return [c for c in list(self.fake.calls)
                if c.proc == proc and (node is None or c.node is node)]

    # -- the end ------------------------------------------------------------

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.finished |= kind is not None
        self.stop()

    def stop(self):
        try:
            found = [] if self.finished else self.finish()
            self.m.stop()
        finally:
            for process in (self.m.crawler, self.m.retriever):
                Migration._end(process)
            self.m.server._kill(9)
            self.fake.stop()
        assert not found, "after the crawl:\n" + "\n".join(found)


class NfsWorld(World):
    def __init__(self, home, volume, shim=None, **options):
        super().__init__(home, volume, shim, **options)
        self.also = {b"probe"}          # names in the root that are no case's
        self.cases = []

    def case(self, label):
        self.cases.append(Case(self, "t%03d" % next(self._number), label))
        return self.cases[-1]

    def client(self, proto="v3", **options):
        return self.m.client(proto, **options).patient(30)

    def seen(self, client, path):
        """(handle, attributes) as they are at the end of a test."""
        return client.lookup(path)

    def listings(self, node):
        return len(self.calls("READDIRPLUS", node)) + len(self.calls("READDIR", node))

    def audit(self):
        """Migration.audit() without its processes."""
        self.settle()
        status, scan, _counter = counted(lambda: self.control("status"), self.m.scan,
                                         "covered", "stale")
        assert scan["uncovered"] == 0 and scan["corrupt"] == 0, scan
        assert status["parked"] + status["conflicts"] == 0, (
            status, self.m.tool("parked", self.volume))

    def finish(self):
        """Compares through a new server process: types, bytes, sizes, modes, owners, link
        groups, targets, devices, mtimes."""
        self.finished = True
        self.m.audit()
        self.m.crawl()
        self.m.audit(complete=True)
        self.m.server.restart()
        assert self.fake.writes == 0
        with self.client("v3") as c:
            names = set(c.names())
            wanted = {case.name.encode() for case in self.cases if not case.free}
            found = ["root: %r" % n for n in sorted((names ^ wanted) - self.also)
                     if n not in {case.name.encode() for case in self.cases if case.free}]
            for case in self.cases:
                if not case.free:
                    found += ["%s (%s): %s" % (case.name, case.label, text)
                              for text in case.compare(c)]
        return found


class BothWorld(NfsWorld):
    """The models are compared in the end through NFS."""
    SMB = True

    def __init__(self, home, volume, shim=None, more="", stack=STACK, smb_conf="", attr_cache=0,
                 release=None, **options):
        super().__init__(home, volume, shim, attr_cache=attr_cache, **options)
        self.smbd = Samba(self.m.workdir / "smbd", conf=smb_conf, release=release,
                          module_dir=debian.modules(release) if release else MODULES,
                          shares=[Share(str(volume), vfs=stack, more=more)]).start()

    def seen(self, client, path):
        """smbd sets the time once more when a file is closed, and NFS is told a moment later."""
        def told():
            fh, attrs = client.lookup(path)
            return attrs.mtime == os.lstat(self.volume / path).st_mtime_ns and (fh, attrs)

        return wait_until(told, 60, "the time of %s" % path, interval=0.001)

    def audit(self):
        """As ever, but for files that SMB clients have removed while Ganesha has them open:
        they are in the journal, and no walk finds them, until it closes them."""
        self.settle()
        status, scan = self.control("status"), self.m.scan()
        counter = status["pending"] + status["parked"] + status["conflicts"]
        assert scan["uncovered"] == 0 and scan["corrupt"] == 0, scan
        assert counter <= scan["journal"] and scan["covered"] <= counter, (status, scan)
        assert status["parked"] + status["conflicts"] == 0, (
            status, self.m.tool("parked", self.volume))

    def finish(self):
        self.smbd.stop()
        self.m.server.restart()
        self.settle()
        return super().finish()

    def stop(self):
        try:
            super().stop()
        finally:
            self.smbd.kill9()


class SmbWorld(World):
    KIND, SMB, ROOT_MODE = SmbMigration, True, 0o777

    def __init__(self, home, volume, shim=None, **options):
        super().__init__(home, volume, shim, **options)
        self.smbd = self.m.server
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

    def ask(self, path, *request):
        """Fill it, or so, as the crawler does."""
        self.stubtool("ask", path, *request)

    def fill(self, path):
        """Fill it, and wait until its record is gone."""
        self.ask(path, "fill")
        self.settle()

    def reads(self, path=None):
        """READs the old server has had, of a file or in all."""
        return self.calls("READ", path and self.node(path))

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

    def finish(self):
        """Compares all that no test has changed."""
        self.finished = True
        self.m.crawl()
        self.m.audit(complete=True)
        with self.m.client() as c:
            return ["%s has other bytes" % path for path, (_, data) in self.models.items()
                    if c.read_file(path) != data]
