# SPDX-License-Identifier: GPL-3.0-or-later
"""Recording: a migration with clients on a disk that remembers.

Retriever, crawler and Ganesha work on a volume on logdisk while a client does what
cuts_work says; each operation leaves a mark in the disk's log when it is sent ("s")
and when it is answered ("a").  Adversaries:
    plain   as it comes
    meta    changes of names and records get to the disk at once, data only by a sync
    data    data gets to the disk early, records late
    eio     some writes and flushes of the disk fail (cuts_faults); what a client is told
            about with an error ("e" instead of "a") may have been done or not, or is known
            not to have been ("n")
    crawl-eio   the same with nobody but the crawler
"""
import contextlib
import ctypes
import json
import os
import pathlib
import pickle
import random
import subprocess
import threading

from clients import Clients
from cuts_faults import NAMELESS, CrawlPlan, Plan, Undone, was_done
from cuts_model import Expected, Image
import cuts_work
from disklog import Log
import images
from lib.migration import Migration
from lib.programs import BUILD, build_rpcshim
from lib.wait import wait_until
from nfsclient import NfsError, RpcError

STUBDUMP = BUILD / "tests" / "tools" / "stubdump"
LOGDISK = BUILD / "tests" / "crash" / "logdisk"
BASE = pathlib.Path(os.environ.get("POSTCOPY_TEST_DIR", "/var/tmp/postcopy-tests"))
SOCKETS = BASE / "cuts-sockets"          # the volumes' sockets; each run's own
KEPT = BASE / "cuts-kept"                # runs that failed
DELAY_US = 200
PATIENCE = 300                           # s, for what ends by itself


def dump(volume):
    done = subprocess.run([str(STUBDUMP), str(volume)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError("stubdump: %d %s" % (done.returncode, done.stderr.strip()))
    return Image(volume, [json.loads(line) for line in done.stdout.splitlines()])


def folded(volume):
    """Is all that is present of every stub durable, without anybody's COMMIT?"""
    stubs = [line["stub"] for line in dump(volume).objects.values() if line["stub"]]
    return all(stub["missing"] == stub["durable"] for stub in stubs)


def has_ended(disk):
    """Has the file system given up, after a write of its own that failed?"""
    try:
        os.utime(disk.mnt / "noise")
        return False
    except OSError:
        return True


class Disk:
    """A volume's file system on logdisk."""

    def __init__(self, image, log, where, fstype, options=""):
        self.where, self.log = pathlib.Path(where), log
        self.mnt, self._ctl = self.where / "mnt", self.where / "disk" / "ctl"
        for path in (self.mnt, self._ctl.parent):
            path.mkdir(parents=True)
        self.process = subprocess.Popen([str(LOGDISK), str(self._ctl.parent), str(image),
                                         str(log)], stdin=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is None and self._ctl.exists(), 10, "logdisk")
        device, fd = images.loop(self._ctl.parent / "disk", direct=True)
        images.mount(device, self.mnt, fstype,
                     ",".join(o for o in (images.OPTIONS[fstype], options) if o))
        os.close(fd)
        self._fd = os.open(self._ctl, os.O_WRONLY)
        self.tell("delay %d" % DELAY_US)

    def tell(self, command):
        os.write(self._fd, command.encode())

    def power_off(self):
        self.tell("freeze")

    def close(self):
        images.umount(self.mnt)
        os.close(self._fd)
        images.umount(self._ctl.parent)
        self.process.wait(30)


class Adversary(threading.Thread):
    """Brings one kind of thing to the disk early, over and over."""

    def __init__(self, how, disk, volume, fstype):
        super().__init__(daemon=True)
        # XFS needs no help for names: it is mounted so that each transaction is synced
        self.step = {("meta", "ext4"): self._names, ("data", "xfs"): self._bytes,
                     ("data", "ext4"): self._bytes}.get((how, fstype))
        self.resting = False
        self.disk, self.volume, self.ended, self.error = disk, volume, threading.Event(), None
        self._noise = os.open(disk.mnt / "noise", os.O_CREAT | os.O_RDWR)
        self._mode = 0o600
        self._libc = ctypes.CDLL(None)

    def run(self):
        try:
            while self.step and not self.ended.wait(0.001):
                if not self.resting:
                    self.step()
        except Exception as err:         # told by finish()
            self.error = err

    def _names(self):
        """A sync of another file takes along all changes of metadata so far."""
        self._mode ^= 0o100
        os.fchmod(self._noise, self._mode)
        os.fsync(self._noise)

    def _bytes(self):
        for top, _dirs, files in os.walk(self.volume):
            for name in files:
                with contextlib.suppress(OSError):    # gone, a link, a pipe
                    fd = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NOFOLLOW |
                                 os.O_NONBLOCK)
                    self._libc.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 2)
                    os.close(fd)

    def finish(self):
        self.ended.set()
        self.join(30)
        os.close(self._noise)
        if self.error:
            raise self.error


# -- recording ---------------------------------------------------------------

class Run:
    """One migration, recorded.  Everything is in `home`, on the scratch."""

    def __init__(self, home, fstype, how, seed, source):
        self.home, self.fstype, self.how, self.seed = pathlib.Path(home), fstype, how, seed
        self.source, self.sockets = source, SOCKETS
        self.home.mkdir(parents=True)
        self.base, self.logfile = self.home / "base.img", self.home / "disk.log"
        self.ops = cuts_work.mixed(random.Random(seed))
        self.faults = None
        if how == "eio":
            self.faults = Plan(self.ops, random.Random(seed))
        elif how == "crawl-eio":
            self.faults = CrawlPlan(fstype)
        self.log = None

    def _migration(self, volume):
        # with an even seed the crawler makes small files whole, else it fills stubs
        conf = "digests = 1\n"
        conf += "" if self.seed % 2 == 0 and not self.faults else "small_file = 0\n"
        return Migration(self.sockets, self.source.url(), volume, shim=self.shim, conf=conf)

    def record(self):
        self.shim = build_rpcshim(self.sockets / "build")
        images.make(self.base, self.fstype)
        with images.Mounted(self.base, self.home / "disk" / "init", self.fstype) as where:
            volume = pathlib.Path(where) / "vol"
            volume.mkdir()
            self._migration(volume).init()
        image = images.clone(self.base, self.home / "run.img")
        options = "wsync" if (self.fstype, self.how) == ("xfs", "meta") else ""
        disk = Disk(image, self.logfile, self.home / "disk", self.fstype, options)
        try:
            self._play(disk)
        finally:
            disk.power_off()
            disk.close()
            os.unlink(image)
        self.log = self.read_log()

    def read_log(self):
        return Log(self.logfile, images.ordered_place(self.base, self.fstype))

    def _play(self, disk):
        volume = disk.mnt / "vol"
        m = self._migration(volume)
        m.log.unlink(missing_ok=True)    # another run's
        adversary = Adversary(self.how, disk, volume, self.fstype)
        try:
            m.start()
            adversary.start()
            with Clients(m, 10 if self.faults else 60) as c:
                if self.faults:
                    self._play_on_failing(disk, m, adversary, c)
                    return
                for op in self.ops:
                    disk.tell("mark s")
                    self._one(m, adversary, c, op)
                    disk.tell("mark a")
            assert m.crawler.wait(PATIENCE) == 0, (m.workdir / "crawler.log").read_text()
            m.drain()
        finally:
            disk.power_off()
            m.server.kill9()
            m.kill_crawler()
            m.kill_retriever()
            adversary.finish()

    @staticmethod
    def _ended(process, seconds):
        try:
            process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def _one(self, m, adversary, clients, op):
        if op[0] == "fold":
            adversary.resting = True     # nothing happens meanwhile
            wait_until(lambda: folded(m.volume), 30, "fold of the maps")
            adversary.resting = False
        elif op[0] == "drain":
            m.drain()
        elif op[0] == "crawl":
            m.start_crawler("--workers", "2")
        elif op[0] == "crawled":
            wait_until(lambda: "sync of the volume" in m.log.read_text(), 30, "failed sync")
            for kind in "wd":
                adversary.disk.tell("fail %s 0" % kind)
            self._ended(m.crawler, 30)
        else:
            cuts_work.perform(clients, op)

    def _play_on_failing(self, disk, m, adversary, clients):
        """self.ops becomes what was really asked for.  Ends with the file system."""
        todo, undone, self.ops = self.faults.ops, Undone(), []
        disk.tell("spare %d %d" % images.log_place(self.base, self.fstype))
        for number, op in enumerate(todo):
            if number == self.faults.hard:
                self._ended(m.crawler, 3)
                disk.tell("spare 0 0")
            if number in self.faults.faults:
                disk.tell(self.faults.faults[number])
            if undone.hits(op):
                continue
            self.ops.append(op)
            disk.tell("mark s")
            try:
                self._one(m, adversary, clients, op)
                disk.tell("mark a")
                continue
            except (NfsError, RpcError):     # answered with an error, after the disk had one
                if op[0] in NAMELESS:
                    disk.tell("mark e")
                    continue
            except (AssertionError, TimeoutError):     # not a client's: the volume itself
                if not has_ended(disk):
                    raise
                return
            try:
                done = was_done(dump(m.volume), op)
            except (AssertionError, OSError):
                return
            disk.tell("mark e" if done else "mark n")
            if not done:
                undone.add(op)

    def expected(self, cut):
        marks = self.log.marks[:cut.marks]
        answers = [mark for mark in marks if mark != "s"]
        failed, undone = ({number for number, mark in enumerate(answers, 1) if mark == what}
                          for what in "en")
        return Expected(self.source.tree, self.ops, marks.count("s"), len(answers),
                     failed if self.faults else None, undone)

    def keep(self, failed, subsets):
        """What reproduces a failure, where it stays."""
        where = KEPT / ("%s-%s-%d-%d" % (self.fstype, self.how, self.seed, os.getpid()))
        where.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--sparse=always", str(self.base), str(self.logfile), str(where)],
                       check=True)
        with open(where / "run.pickle", "wb") as f:
            pickle.dump(dict(fstype=self.fstype, how=self.how, seed=self.seed, ops=self.ops,
                             port=self.source.port, subsets=subsets, failed=failed), f)
        return where
