# SPDX-License-Identifier: GPL-3.0-or-later
"""Migration: a whole migration for one test - old server, volume, retriever,
new server - and the audit at its end.  SmbMigration: the new server is an smbd.

    m = Migration(workdir, url, volume_dir, shim=shim).init().start()
    with m.client("v3") as c: ...
    m.crawl(); m.audit(complete=True); m.stop()

The old server is whatever `url` points at (a stock Ganesha, a proxy in front of
one, or the fake server).  kill_retriever(), kill_crawler() and m.server.kill9()
are crashes; start_retriever() and m.server.start() come back on the same sockets.
"""
import atexit
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

from lib import debian
from lib.ganesha import Ganesha
from lib.programs import BUILD, MODULES, PLUGINS, POSTCOPY, VOLUME_TOOL
from lib.smbd import STACK, Samba, Share
from lib.sourceversion import FORCED
from lib.wait import wait_until

BAD_LINES = re.compile(r" error: |Sanitizer|runtime error:|SEGV|assert|== ?ERROR|terminate")


def counted(status, scan, *found):
    """(status, scan, counter) when the counter is the sum of what the scan has found.

    Polled: what was finished leaves the journal a moment (and a disk flush) later, and a
    removed file that a server has not closed yet is neither there nor stale."""
    def agree():
        now, seen = status(), scan()
        counter = now["pending"] + now["parked"] + now["conflicts"]
        if counter != sum(seen[what] for what in found):
            raise ValueError(now, seen)
        t = now.get("totals")       # not where an earlier release serves the volume
        if t and "journal_bytes" in seen and (
                t["left_bytes"] + t["parked_bytes"] != seen["journal_bytes"]
                or t["left"] + t["parked"] != counter
                or t["found"] != t["done"] + t["left"] + t["parked"]
                or t["found_bytes"] != t["done_bytes"] + t["left_bytes"] + t["parked_bytes"]):
            raise ValueError(t, seen)
        return now, seen, counter

    return wait_until(agree, 60, "counter = scan")


AT_ONCE = "finish_delay = 0\n"

SOURCE_VERSION = FORCED or "3"


def source_url(url, join):
    """That of NFSv3, of the version that all are read by; --join is of NFSv3 only."""
    if SOURCE_VERSION == "3" or join or not url.startswith("nfs://"):
        return url
    return re.sub(r"&mountport=\d+&version=3$", "&version=" + SOURCE_VERSION, url)


class Migration:
    def __init__(self, workdir, url, volume, shim=None, conf="", fsal_more="", allow=(),
                 wrap=(), join=None):
        """conf: lines of postcopy.conf; fsal_more: keys of FSAL STUB; allow: log
        lines (regular expressions) that are fine; wrap: command in front of the
        retriever (strace, valgrind); join: the URI of --join."""
        self.workdir = pathlib.Path(workdir)
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.url, self.join = source_url(url, join), join
        self.volume = pathlib.Path(volume)
        self.conf, self.allow, self.wrap = conf, list(allow), list(wrap)
        keys = [line.split("=")[0].strip() for line in conf.splitlines()]
        assert len(keys) == len(set(keys)), "the last one counts: %s" % conf
        self.server = Ganesha(self.workdir / "new", str(volume), fsal="stub",
                              plugin_dir=PLUGINS, shim=shim, fsal_more=fsal_more,
                              pseudo="/export")
        self.streams = None         # init's --streams
        self.way_back = False       # init's --way-back
        self.build = BUILD          # whose retriever and crawler are started
        self.by_command = False     # status() is what `postcopy status --json` tells
        self.retriever = self.crawler = None
        self._seen = 0

    # -- commands -----------------------------------------------------------

    @property
    def socket(self):
        return self.workdir / "ask.sock"

    @property
    def control(self):
        return self.workdir / "control.sock"

    def tool(self, *argv, check=True):
        """postcopy-volume: its JSON answer, with "exit" added."""
        done = subprocess.run([str(VOLUME_TOOL), *map(str, argv)], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=600)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise AssertionError("postcopy-volume %s: %s%s" % (
                argv, done.stdout, done.stderr)) from None
        answer["exit"] = done.returncode
        if check:
            assert done.returncode == 0, answer
        return answer

    def postcopy(self, *argv, check=True):
        """The postcopy command, as an administrator calls it."""
        done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), *map(str, argv)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=600)
        if check:
            assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def init(self, check=True, **more):
        options = ["--socket", self.socket, "--control", self.control]
        if self.join:
            options += ["--join", self.join]
        if self.streams:
            options += ["--streams", self.streams]
        if self.way_back:
            options.append("--way-back")
        if self.conf:
            (self.workdir / "postcopy.conf").write_text(self.conf)
            options += ["--config", self.workdir / "postcopy.conf"]
        answer = self.tool("init", "--source", self.url, *options, self.volume, check=check)
        return self if check else answer

    def status(self):
        """What it says once the check before the end, if that is running, is over."""
        def told():
            s = None if self.by_command else self.asked()
            s = s or json.loads(self.postcopy("status", "--json", self.volume).stdout)
            return s["state"] != "checking" and s

        return wait_until(told, 60, "the check before the end")

    def asked(self):
        """What the postcopy command would tell of a retriever that runs, without its costs: a
        Python and postcopy-volume each time.  None: nobody answers."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(10)
                sock.connect(str(self.control))
                sock.sendall(b'{"cmd": "status"}\n')
                with sock.makefile(errors="surrogateescape") as lines:
                    s = json.loads(lines.readline())
        except (OSError, ValueError):
            return None
        if not s.pop("ok"):
            return None
        return dict(s, counter=s["pending"] + s["parked"] + s["conflicts"],
                    volume=os.path.realpath(self.volume))

    def scan(self):
        return self.tool("scan", self.volume)

    # -- processes ----------------------------------------------------------

    @property
    def log(self):
        return self.workdir / "retriever.log"

    def start_retriever(self, wait=True):
        conf = self.workdir / "postcopy.conf"
        # most tests end when the counter is 0: no minute more after each client's read
        conf.write_text(("" if "finish_delay" in self.conf else AT_ONCE) + self.conf)
        with open(self.log, "ab") as out, open(os.devnull, "rb") as null:   # as systemd's
            self.retriever = subprocess.Popen(
                [*self.wrap, str(self.build / "retriever" / "postcopy-retriever"), "--config",
                 str(conf), str(self.volume)],
                stdin=null, stdout=out, stderr=out, start_new_session=True)
        atexit.register(self._end, self.retriever)
        if wait:
            wait_until(self._retriever_up, 60, "retriever")
        return self

    def _retriever_up(self):
        assert self.retriever.poll() is None, self.log.read_text()
        return self.asked() is not None

    @staticmethod
    def _end(process, sig=signal.SIGKILL):
        if process and process.poll() is None:
            process.send_signal(sig)
            process.wait(60)

    def kill_retriever(self):
        self._end(self.retriever)

    def start(self):
        self.start_retriever()
        self.server.start()
        return self

    def start_crawler(self, *options, stay=False):
        """stay: it waits for parked objects to be tried again, as it does by itself."""
        if not stay:
            options += "--leave-parked",
        with open(self.workdir / "crawler.log", "ab") as out:
            self.crawler = subprocess.Popen([self.build / "crawler" / "postcopy-crawler", *options,
                                             str(self.volume)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)
        atexit.register(self._end, self.crawler)
        return self.crawler

    def kill_crawler(self):
        self._end(self.crawler)

    def crawl(self, timeout=300):
        """Crawl to the end."""
        crawler = self.start_crawler()
        assert crawler.wait(timeout) == 0, (self.workdir / "crawler.log").read_text()
        self.drain()

    def drain(self):
        """Nothing is in flight any more; hard links have their turn too."""
        wait_until(lambda: self.status()["inflight"] == 0 and self.status()["active"] == 0, 60,
                   "retriever idle")

    def client(self, proto="v3", **options):
        return self.server.client(proto, **options)

    def stop(self, scan=True):
        """End everything in peace; bad words in any log fail."""
        try:
            self.server.stop(scan=scan)
        finally:
            self._end(self.crawler, signal.SIGTERM)
            self._end(self.retriever, signal.SIGTERM)
        if scan:
            assert not self.bad_lines(), "\n".join(self.bad_lines())
            assert self.retriever is None or self.retriever.returncode in (0, 3, -9), \
                self.retriever.returncode

    def bad_lines(self):
        allowed = re.compile("|".join("(?:%s)" % a for a in (*self.allow, "^$")))
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [line for line in text.splitlines()
                if BAD_LINES.search(line) and not allowed.search(line)]

    # -- audit --------------------------------------------------------------

    def audit(self, complete=False, parked=0):
        """Counter = full scan, nothing uncovered, nothing left over."""
        self.drain()
        status, scan, counter = counted(self.status, self.scan, "covered", "stale")
        assert scan["uncovered"] == 0, scan
        assert scan["corrupt"] == 0, scan
        assert not scan.get("miscounted"), (scan, status)   # no such word of an earlier release
        assert status["parked"] + status["conflicts"] == parked, (
            status, self.tool("parked", self.volume))
        if complete:
            assert status["state"] == "complete", status
            assert counter == 0, status
            assert scan["stubs"] == scan["unlisted"] == scan["leftovers"] == 0, scan
        return status, scan


class SmbMigration(Migration):
    """The same whose new server is an smbd with our module; its clients are SMB sessions."""

    def __init__(self, workdir, url, volume, shim=None, conf="", more="", allow=(), wrap=(),
                 stack=STACK, release=None, **smbd):
        """more: lines of the share; release: of Debian, whose smbd it is; smbd: options of class
        Samba; the rest as Migration."""
        super().__init__(workdir, url, volume, shim=shim, conf=conf, allow=allow, wrap=wrap)
        self.server = Samba(self.workdir / "smbd", release=release,
                            module_dir=debian.modules(release) if release else MODULES,
                            shares=[Share(str(volume), vfs=stack, more=more)], **smbd)

    def client(self, user="root", **options):
        return self.server.client(user, **options)
