# SPDX-License-Identifier: GPL-3.0-or-later
"""What a history runs on: a fake old server with the history's tree, a volume, the
real retriever, crawler and Ganesha - and everything that may befall them.

    with Disk() as disk:
        rig = Rig(disk, tree, options); rig.start()
        rig.disturb({"op": "kill-server", "after": 3}); rig.finish(); rig.stop()
"""
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import tempfile
import threading
import time

from lib.migration import Migration, counted
from lib.programs import build_rpcshim
from lib.sourceversion import FORCED
from lib.volume import LoopVolume, kernel_handle
from lib.wait import wait_until
from model_mirrored import Backup
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer, Refuse
from nfsclient.faketree import Tree

BASE = pathlib.Path(os.environ.get("POSTCOPY_TEST_DIR", "/var/tmp/postcopy-tests"))
BLOCK = 65536                      # the smallest block the retriever takes
CONF = """block_size = %d
call_timeout = 1000
max_tries = 1000
""" % BLOCK
ASK = {"list": 2, "attr": 3, "data": 4, "fill": 5}


class Disk:
    """A file system for many volumes, and a place for logs."""

    def __init__(self, parent=None, fstype="xfs"):
        self.parent, self.fstype = parent, fstype

    def __enter__(self):
        BASE.mkdir(parents=True, exist_ok=True)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="model-", dir=self.parent or BASE))
        os.chmod(self.home, 0o755)
        self.volume = LoopVolume(self.home, self.fstype).create()
        self.shim = build_rpcshim(self.home / "build")
        return self

    def fresh(self):
        """(volume directory, directory for logs), both empty."""
        return (pathlib.Path(tempfile.mkdtemp(prefix="v-", dir=self.volume.path)),
                pathlib.Path(tempfile.mkdtemp(prefix="m-", dir=self.home)))

    def __exit__(self, *exc):
        self.volume.destroy()
        if not os.environ.get("POSTCOPY_KEEP"):
            shutil.rmtree(self.home, ignore_errors=True)


class Asker:
    """Asks the retriever as the crawler does, without waiting for answers."""

    def __init__(self, rig):
        self.rig, self.sock, self.number = rig, None, 0

    def ask(self, kind, path, offset=0, length=0):
        try:
            handle_type, handle = kernel_handle(self.rig.volume / path)
        except OSError:
            return                          # not there yet, or no more
        self.number += 1
        body = struct.pack("<QQiBBH", offset, length, handle_type, ASK[kind], len(handle), 0)
        packet = struct.pack("<IHHII", 0x4b414350, 1, 1, self.number,
                             16 + len(body) + len(handle)) + body + handle
        for _attempt in range(2):
            try:
                if self.sock is None:
                    self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    self.sock.connect(str(self.rig.m.socket))
                    self.sock.setblocking(False)
                self.sock.send(packet)
                while self.sock.recv(512):  # answers of earlier asks
                    pass
                self.close()
            except BlockingIOError:
                return
            except OSError:
                self.close()

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock = None


class Rig:
    def __init__(self, disk, objects, options, stock=False):
        """objects: the source's tree (model_plan); options: of the history; stock: a plain
        FSAL_VFS serves a local copy of the tree, nothing is migrated."""
        self.volume, home = disk.fresh()
        self.objects, self.stock = objects, stock
        self.fake = FakeServer(plant(objects), version="3" if options.get("join")
                               else FORCED or options.get("version", "3"))
        self.m = Migration(home, "", self.volume, shim=disk.shim, conf=CONF,
                           fsal_more=options.get("fsal", ""))
        self.m.server.exports[0].more = options.get("export", "")
        if stock:
            self.m.server.exports[0].fsal = "vfs"
        self.backup = Backup(disk, self.m, options["mirror"]) if options.get("mirror") and not stock else None
        self.asker = Asker(self)
        self.recoveries = 0
        self.unhook = lambda: None
        self.verifiers = set()             # of server processes that have died
        self.crawling = False
        self.reading = threading.Event()       # the source answers a READ

    def start(self):
        if self.stock:
            os.chmod(self.volume, 0o755)
            plant_locally(self.objects, self.volume)
            self.m.server.start()
            return self
        self.fake.hook("READ", hooks.after(lambda _call: self.reading.set()))
        self.fake.start()
        self.m.url = self.fake.url()
        self.m.init()
        if self.backup:
            self.backup.start()
        self.start_retriever()
        self.m.server.start()
        return self

    def start_retriever(self):
        self.m.start_retriever(wait=False)
        wait_until(self._listening, 60, "retriever")

    def _listening(self):
        assert self.m.retriever.poll() is None, self.m.log.read_text()
        try:
            return self.control("status")
        except (OSError, ValueError):
            return False

    def control(self, cmd, **more):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(60)
            sock.connect(str(self.m.control))
            sock.sendall(json.dumps(dict(more, cmd=cmd)).encode() + b"\n")
            with sock.makefile() as answers:
                answer = json.loads(answers.readline())
        assert answer["ok"], answer
        return answer

    def passes(self):
        """Is everything migrated, so that the new server is FSAL_VFS alone?"""
        if self.stock:
            return True
        status = self.control("status")
        return status["pending"] + status["parked"] + status["conflicts"] == 0

    # -- what may befall them ---------------------------------------------------

    def disturb(self, op):
        """Do one thing to the servers, `after` ms from now."""
        if self.stock and op["op"] != "kill-server":
            return
        if op.get("after"):
            time.sleep(op["after"] / 1000)
        name = op["op"].replace("-", "_")
        if hasattr(Backup, name):
            getattr(self.backup, name)(op)
        else:
            getattr(self, "_" + name)(op)

    def _kill_server(self, _op):
        self.m.server.kill9()
        self.m.server.start()
        self.recoveries += 1

    def _kill_retriever(self, op):
        self.m.kill_retriever()
        time.sleep(op.get("away", 0) / 1000)
        self.start_retriever()
        self.recoveries += 1

    def _crawl(self, op):
        """A crawler comes, or goes: in peace, or by kill -9."""
        if self.crawling:
            if op.get("kill"):
                self.m.kill_crawler()
                self.recoveries += 1
            else:
                Migration._end(self.m.crawler, 15)
        else:
            self.m.start_crawler("--workers", str(op.get("workers", 2)))
        self.crawling = not self.crawling

    def _complete(self, _op):
        """Until all has come, which no history of the writer waits for."""
        wait_until(lambda: self.control("status")["state"] == "complete", 300, "all of it here")

    def _pause(self, _op):
        self.control("pause")

    def _resume(self, _op):
        self.control("resume")
        self.control("throttle", bytes_per_s=0)

    def _throttle(self, op):
        self.control("throttle", bytes_per_s=op["rate"])

    def _drain(self, _op):
        self.control("drain")

    def _fill(self, op):
        self.asker.ask(op["kind"], op["path"], op.get("offset", 0), op.get("length", 0))

    def _source(self, op):
        """From now on the source is slow, busy, or loses connections."""
        self.unhook()
        rng, kind = random.Random(op["seed"]), op["kind"]

        def hook(server, call, answer):
            if call.proc.startswith("MOUNT") or call.proc in ("MNT", "NULL"):
                return answer()
            if kind == "slow":
                time.sleep(rng.uniform(0, op["ms"] / 1000))
            elif kind == "jukebox" and rng.random() < op["odds"]:
                raise Refuse(errors.JUKEBOX)
            elif kind == "cut" and rng.random() < op["odds"]:
                if op["seed"] % 2 and server.sessions.made:     # NFSv4.1: that is lost, instead
                    server.sessions.forget()
                    return answer()
                return hooks.cut(server, call, answer)
            elif kind == "drop" and rng.random() < op["odds"]:
                return hooks.drop(server, call, answer)
            return answer()

        self.unhook = self.fake.hook(op.get("procs"), hook)

    def _well(self, _op):
        """The source is well again."""
        self.unhook()
        self.unhook = lambda: None

    # -- the end ----------------------------------------------------------------

    def finish(self):
        """Crawl to the end and audit; then a new server that remembers nothing."""
        if self.stock:
            self.m.server.restart()
            return
        self._well(None)
        self._resume(None)
        if self.crawling:
            self._crawl({})
        self.asker.close()
        self.settle()
        self.audit(False)
        crawler = self.m.start_crawler("--workers", "8")
        assert crawler.wait(300) == 0, (self.m.workdir / "crawler.log").read_text()
        self.settle()
        self.audit(True)
        if self.backup:
            self.backup.finish()
            self.recoveries += self.backup.recoveries
        self.m.server.restart()
        assert not self.fake.misused, self.fake.misused

    def settle(self):
        def idle():
            self.control("drain")
            status = self.control("status")
            return status["inflight"] == 0 and status["active"] == 0
        wait_until(idle, 60, "retriever idle")

    def audit(self, complete):
        """Counter = scan, nothing parked; in the end nothing left over."""
        wait_until(lambda: self.control("status")["state"] != "checking", 60, "the last check")
        status, scan, counter = counted(lambda: self.control("status"), self.m.scan, "journal")
        assert scan["uncovered"] == 0 and scan["corrupt"] == 0, scan
        assert status["parked"] + status["conflicts"] == 0, (
            status, self.m.tool("parked", self.volume))
        if complete:
            assert status["state"] == "complete" and counter == 0, status
            assert scan["stubs"] == scan["unlisted"] == scan["leftovers"] == 0, scan

    def stop(self, good=True):
        """End everything; after a good history bad words in logs fail."""
        try:
            self.m.stop(scan=good)
        finally:
            for process in (self.m.crawler, self.m.retriever):
                Migration._end(process)
            self.m.server._kill(9)
            if self.backup:
                self.backup.stop(good)
            if not self.stock:
                self.fake.stop()
        for path in (self.volume, self.m.workdir):
            if good and not os.environ.get("POSTCOPY_KEEP"):
                shutil.rmtree(path, ignore_errors=True)


def plant(objects):
    """The fake server's tree of a history."""
    tree = Tree()
    for item in objects:
        head, _, name = item["path"].rpartition("/")
        parent = tree.find(head)
        kind, times = item["type"], {}
        if kind != "link":
            times = dict(uid=item["uid"], gid=item["gid"], atime=item["mtime"],
                         mtime=item["mtime"], ctime=item["mtime"])
        if kind == "dir":
            tree.mkdir(parent, name, mode=item["mode"], **times)
            parent.nlink += 1
        elif kind == "file":
            tree.file(parent, name, source_bytes(item), mode=item["mode"], **times)
        elif kind == "symlink":
            tree.symlink(parent, name, item["target"], **times)
        else:
            tree.hardlink(parent, name, tree.find(item["of"]))
    return tree


def source_bytes(item):
    """Contents of a file at the source: nowhere zero, nowhere twice the same, and told
    from any client's."""
    name = item["path"].encode()
    lines, size = [], 0
    while size < item["size"]:
        lines.append(b"<%s@%x>" % (name, size))
        size += len(lines[-1])
    return b"".join(lines)[:item["size"]]


def plant_locally(objects, top):
    """The same tree on a local directory, for a stock server."""
    for item in objects:
        path = os.path.join(top, item["path"])
        if item["type"] == "dir":
            os.mkdir(path)
        elif item["type"] == "file":
            pathlib.Path(path).write_bytes(source_bytes(item))
        elif item["type"] == "symlink":
            os.symlink(item["target"], path)
        else:
            os.link(os.path.join(top, item["of"]), path)
    for item in reversed(objects):
        path = os.path.join(top, item["path"])
        if item["type"] != "link":
            os.lchown(path, item["uid"], item["gid"])
            if item["type"] != "symlink":
                os.chmod(path, item["mode"])
            os.utime(path, ns=(item["mtime"], item["mtime"]), follow_symlinks=False)
