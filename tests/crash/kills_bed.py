# SPDX-License-Identifier: GPL-3.0-or-later
"""Bed: one migration below sysgate, started anew from the same image as often as wanted."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from clients import Clients
from cuts_model import Image, judge
import images
import kills_smb
from kills_work import BLOCK, READS, Killed, perform, read_wrong
from lib.migration import AT_ONCE, Migration
from lib.programs import BUILD
from lib.wait import wait_until
from nfsclient import NfsError, RpcError, errors
from smb2client import Gone, SmbError

BASE = pathlib.Path(os.environ.get("POSTCOPY_TEST_DIR", "/var/tmp/postcopy-tests"))
SYSGATE = BUILD / "tests" / "crash" / "sysgate"
STUBDUMP = BUILD / "tests" / "tools" / "stubdump"
SMB_SHIM = BUILD / "tests" / "tools" / "smbshim.so"
SHIM = BUILD / "tests" / "tools" / "rpcshim.so"
PATIENCE = 60

# What an operation says that was done already when its answer got lost.
DONE_ALREADY = {"remove": errors.NOENT, "rmdir": errors.NOENT, "rename": errors.NOENT,
                "mkdir": errors.EXIST, "symlink": errors.EXIST, "link": errors.EXIST}
# What was open went with the server that died while an operation was under way.
GONE_WITH_IT = (errors.BAD_STATEID, errors.STALE_STATEID, errors.EXPIRED, errors.BADSESSION,
                errors.STALE_CLIENTID)


def dump_lines(volume, *options):
    """What stubdump says, as objects of JSON."""
    done = subprocess.run([str(STUBDUMP), *options, str(volume)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, "stubdump: %d %s" % (done.returncode, done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


STABLE_OR_NOT = ("write", "swrite", "szero", "scopy")    # told by the last of its parts


class Quick(Migration):
    """A Migration that asks the retriever itself, not by way of a command."""
    smb = None                   # an smbd on the same volume, if the case wants one

    def ask(self, cmd):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(str(self.control))
            s.sendall(b'{"cmd":"%s"}\n' % cmd.encode())
            return json.loads(s.makefile().readline())

    def status(self):
        try:
            return self.ask("status")
        except (OSError, ValueError):
            return {"state": "retriever-down"}

    def drain(self):
        def idle():
            self.ask("drain")
            status = self.status()
            return status["inflight"] == 0 and status["active"] == 0
        wait_until(idle, PATIENCE, "retriever idle")

    def crawl_on(self):
        """Crawl to the end, whoever dies."""
        def crawled():
            return self.start_crawler("--workers", "2").wait(PATIENCE) == 0
        wait_until(crawled, PATIENCE, "crawled")
        wait_until(lambda: self.status()["state"] == "complete", PATIENCE, "complete")


class Reviver(threading.Thread):
    """Starts again what has been killed."""

    def __init__(self, m, server=True):
        super().__init__(daemon=True)
        self.m, self.server = m, server
        self.ended, self.error = threading.Event(), None

    def run(self):
        try:
            while not self.ended.wait(0.01):
                if self.m.retriever.poll() is not None:
                    self.m.start_retriever()
                if self.server and not self.m.server.alive:
                    self.m.server.start()
                if self.m.smb and not self.m.smb.alive:
                    self.m.smb.start()
        except Exception as err:             # told by finish()
            self.error = err

    def finish(self):
        self.ended.set()
        self.join(PATIENCE)
        if self.error:
            raise AssertionError("cannot start again: %s" % self.error)


class Bed:
    def __init__(self, home, source, gate, whole):
        """whole: the crawler makes small files whole, it does not fill stubs."""
        self.home, self.source, self._gate = pathlib.Path(home), source, gate
        self.base, self.image = self.home / "base.img", self.home / "run.img"
        self.mnt, self.copies = self.home / "mnt", self.home / "copies"
        self.sockets, self.log = self.home / "m", self.home / "log"
        self.conf = AT_ONCE + "block_size = %d\nmax_tries = 1000\n" % BLOCK
        self.conf += "" if whole else "small_file = 0\n"
        for path in (self.mnt, self.copies, self.sockets):
            path.mkdir(parents=True)

    def tell(self, command):
        os.write(self._gate, command.encode())

    def _migration(self):
        return Quick(self.sockets, self.source.url(), self.mnt, shim=SHIM, conf=self.conf)

    def prepare(self):
        images.make(self.base, "xfs")
        with images.Mounted(self.base, self.mnt, "xfs"):
            self._migration().init()

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)

    @contextlib.contextmanager
    def found(self, base):
        """A migration on a fresh copy of an image; nothing runs yet."""
        for name in ("ask.sock", "control.sock"):
            (self.sockets / name).unlink(missing_ok=True)
        images.clone(base, self.image)
        with images.Mounted(self.image, self.mnt, "xfs"):
            m = self._migration()
            try:
                yield m
            finally:
                m.kill_crawler()
                if m.smb:
                    m.smb.kill9()
                m.server.kill9()
                m.kill_retriever()

    @contextlib.contextmanager
    def _running(self, ops):
        with self.found(self.base) as m:
            m.start()
            if kills_smb.wants_smb(ops):
                m.smb = kills_smb.server(self.home / "smbd", self.mnt, SMB_SHIM,
                                         BUILD / "vfs_stub").start()
            yield m

    @contextlib.contextmanager
    def logging(self, log):
        """What the gate writes meanwhile goes to `log`."""
        since = os.path.getsize(os.environ["SYSGATE_LOG"])
        yield
        with open(os.environ["SYSGATE_LOG"], "rb") as f:
            f.seek(since)
            log.write_bytes(f.read())

    def record(self, ops):
        """Run once; copies of each state go to `copies`, the gate's log to `log`."""
        with self.logging(self.log), self._running(ops) as m:
            self.tell("watch %s" % self.mnt)
            self.tell("snap %s %s" % (self.image, self.copies))
            try:
                with Clients(m, PATIENCE) as c:
                    for op in ops:
                        self.tell("mark s")
                        perform(m, c, op)
                        self.tell("mark a")
                    m.drain()
            finally:
                self.tell("unwatch")

    # -- with something going wrong --------------------------------------------

    def disturbed(self, case, command):
        """Run with a command of sysgate given; what is wrong with what was read, and in the
        end.  "full": nothing that is fetched for a reader can be stored.

        Unstable writes may be lost when all processes die or a sync fails, and our
        client does not send them again: it writes stably then."""
        ops = case.ops if command.startswith("kill ") else [
            (*op[:-1], True) if op[0] in STABLE_OR_NOT else op for op in case.ops]
        wrong = []
        with self._running(ops) as m:
            reviver = Reviver(m)
            self.tell("watch %s" % self.mnt)
            if command != "full":
                self.tell(command)
            reviver.start()
            try:
                opened = {}
                for number, op in enumerate(ops, 1):
                    if command == "full":
                        self.tell("fail every %s ENOSPC" % (
                            "pwrite64" if op[0] in READS else "nothing"))
                    data = self._persist(m, op, opened)
                    if data is not None:
                        wrong += read_wrong(case.expected(number, number, False), op, data)
                m.crawl_on()
            finally:
                reviver.finish()
                self.tell("unwatch")
            wrong += self._read_all(m, case)
            m.drain()
            m.audit(complete=True)
            m.stop(scan=False)
            lines = dump_lines(self.mnt)
            n = len(case.ops)
            more, _tree = judge(Image(self.mnt, lines), Killed(case.tree, case.ops, n, n))
        return wrong + more

    def _persist(self, m, op, opened):
        """An operation by a client that comes back until it has an answer.  Returns the bytes
        that were read."""
        tries, data = 0, None

        def once():
            nonlocal tries, data
            tries += 1
            try:
                with Clients(m, PATIENCE, opened, timeout=10) as c:
                    data = perform(m, c, op)
                return True
            except NfsError as err:
                if tries > 1 and err.status == DONE_ALREADY.get(op[0]):
                    return True
                if tries > 1 and err.status == errors.STALE:
                    return False             # what it was looked up for is gone: look again
                if err.status in GONE_WITH_IT:
                    return False
                if err.status in (errors.NOSPC, errors.DQUOT, errors.IO):
                    return False             # what sysgate let fail came as far as here
                raise AssertionError("%r: %s" % (op[:3], err)) from None
            except (SmbError, Gone) as err:
                return kills_smb.is_done(op, err, tries)
            except (RpcError, OSError):      # the server is away
                return False
        wait_until(once, PATIENCE, "%r" % (op[:3],))
        return data

    @staticmethod
    def _read(c, path):
        """As kernels do it: what is STALE is looked up once more."""
        try:
            return c.read_file(path)
        except NfsError as err:
            if err.status != errors.STALE:
                raise
            return c.read_file(path)

    def _read_all(self, m, case):
        """What a client reads at the end, against the model."""
        n, wrong = len(case.ops), []
        tree = Killed(case.tree, case.ops, n, n).trees[-1][1]
        with m.client("v3", patience=PATIENCE) as c:
            for path, obj in tree.items():
                if obj.kind == "file" and self._read(c, path) != obj.states[-1][1]:
                    wrong.append("%r: other bytes" % path)
        return wrong
