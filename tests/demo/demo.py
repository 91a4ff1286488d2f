#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: a whole migration, seen by a client, compared at the end.

Started by ./demo, which has installed and built everything. See ./demo --help.
"""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import oldtree  # noqa: E402
import visitor  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: E402
from rich.table import Table  # noqa: E402
from stage import DemoError, Stage, wait_for  # noqa: E402
from lib.programs import build_nfstree, build_rpcshim  # noqa: E402
from nfsclient.errors import NfsError  # noqa: E402
from nfsclient.rpc import RpcError  # noqa: E402

EXIT_SAME, EXIT_DIFFERENT, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 2, 130
MIB = 1 << 20
GIB = 1 << 30
STALL_S = 300           # no progress for so long: give up

console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def say(text):
    console.print("[bold cyan]::[/] %s" % escape(text), soft_wrap=True)


def load_postcopy(build):
    """The postcopy command as a module, for its control socket client."""
    loader = importlib.machinery.SourceFileLoader("postcopy", str(build / "crawler" / "postcopy"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("postcopy", loader))
    loader.exec_module(module)
    return module


def remove_empty(directory):
    with contextlib.suppress(OSError):
        directory.rmdir()


class Demo:
    KEYS = ("files", "bytes", "differences", "seconds", "first_listing_ms", "first_byte_ms",
            "files_per_s", "mib_per_s", "parked")       # of --json

    def __init__(self, args, stage):
        self.args, self.stage = args, stage
        self.build = Path(args.build)
        self.postcopy = load_postcopy(self.build)
        self.shim = build_rpcshim(self.build / "demo-tools")
        self.nfstree = build_nfstree(self.build / "demo-tools")
        self.old_uri = self.volume_dir = self.new = self.volume = None
        self.result = {}

    def command(self, *argv, parse=True):
        """postcopy ...: its JSON answer; DemoError with its message otherwise."""
        done = subprocess.run([self.build / "crawler" / "postcopy", *argv],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace")
        answer = {}
        with contextlib.suppress(ValueError):
            answer = json.loads(done.stdout) if parse else {}
        if parse and not answer or done.returncode and not parse:
            raise DemoError("postcopy %s: %s" % (argv[0], done.stderr.strip() or
                                                 "status %d" % done.returncode))
        return answer

    # -- the two servers -------------------------------------------------------

    def old_server(self):
        """Make an old server with a real tree, or take the given one."""
        if self.args.source:
            self.old_uri = self.args.source
            return
        need = oldtree.needed_bytes(self.args.size)
        self.stage.need_space(2 * need + GIB)
        volume = self.stage.loop_volume("oldfs", 2 * need + GIB)
        tree = volume.path / "data"
        tree.mkdir()
        oldtree.build(tree, self.args.size, say)
        say("starting the old server (stock ganesha.nfsd, read-only export)")
        server = self.stage.server("old", tree, self.shim, readonly=True)
        self.old_uri = server.url().replace("&version=3", "")

    def new_volume(self):
        """The directory that is to be filled."""
        if self.args.volume:
            self.volume_dir = str(Path(self.args.volume).resolve())
            return
        size = 4 * GIB if self.args.source else 2 * oldtree.needed_bytes(self.args.size) + GIB
        volume = self.stage.loop_volume("newfs", size)
        self.volume_dir = str(volume.path / "data")
        os.mkdir(self.volume_dir)

    def init(self):
        sources = self.sources()
        say("postcopy init %s %s" % (" ".join(shlex.quote(x) for x in sources), self.volume_dir))
        run = self.stage.run
        if not self.args.keep and not self.args.volume:
            if not self.postcopy.VOLUMES.parent.exists():
                self.stage.callback(remove_empty, self.postcopy.VOLUMES.parent)
            self.stage.callback(self.postcopy.forget_volume, self.volume_dir)
        answer = self.command("init", "--json", *sources, "--socket",
                              str(run / "ask.sock"), "--control", str(run / "control.sock"),
                              *self.settings(), self.volume_dir)
        if not answer["ok"] and not self.is_ours(answer):
            raise DemoError(answer["message"])
        for warning in answer.get("warnings", []):
            console.print("   [yellow]warning:[/] %s" % escape(warning["message"]), soft_wrap=True)
        self.volume = self.postcopy.Volume(self.volume_dir)

    def sources(self):
        """Options of init: the old server."""
        return ["--source", self.old_uri]

    def settings(self):
        """Options of init and of the retriever."""
        conf = self.stage.run / "postcopy.conf"
        conf.write_text("finish_delay = 2\n")      # nobody waits a minute for the end of a demo
        return ["--config", str(conf)]

    def is_ours(self, answer):
        """An interrupted demo on the same volume and source goes on."""
        if answer["error"] != "target-is-volume":
            return False
        known = self.postcopy.volume_tool("counts", self.volume_dir)
        if known["source"] != self.old_uri:
            raise DemoError("%s is a volume of another source, %s" % (
                self.volume_dir, known["source"]))
        say("%s is a volume of this source already: going on with it" % self.volume_dir)
        os.makedirs(os.path.dirname(known["socket"]), exist_ok=True)
        return True

    def start(self):
        say("starting the retriever and the new server (ganesha.nfsd with FSAL STUB)")
        self.start_retriever()
        self.new = self.stage.server("new", self.volume_dir, self.shim, fsal="stub",
                                     plugin_dir=self.build / "fsal_stub")

    def start_retriever(self):
        self.daemon = self.stage.daemon("retriever",
                                        str(self.build / "retriever" / "postcopy-retriever"),
                                        *self.settings(), self.volume_dir)
        wait_for(self.retriever_ready, 30, "the retriever does not come up; its log: %s" %
                 (self.stage.run / "retriever.log"))

    def retriever_ready(self):
        if self.daemon.poll() is not None:
            raise DemoError("the retriever ended with status %d:\n%s" % (
                self.daemon.returncode, self.stage.log_tail("retriever")))
        try:
            return self.volume.control.ask("status", 5)["source_connected"]
        except self.postcopy.Failure:
            return False

    # -- what a client sees ------------------------------------------------------

    def first_access(self):
        """A client's first listing and first byte, while nothing is migrated."""
        with visitor.connect_uri(self.old_uri) as old:
            cold = oldtree.deepest() if not self.args.source else visitor.find_cold(old)
        start = time.monotonic()
        with self.new.client("v3") as client:
            entries = client.listdir()
            self.result["first_listing_ms"] = round((time.monotonic() - start) * 1000, 1)
            say("first listing: %d names after %.1f ms" % (
                len(entries), self.result["first_listing_ms"]))
            self.result["first_byte_ms"] = None
            if cold:
                start = time.monotonic()
                client.patient(60).read(client.lookup_path(cold), 0, 1)
                self.result["first_byte_ms"] = round((time.monotonic() - start) * 1000, 1)
                say("first byte of a cold file %d levels deep: after %.1f ms" % (
                    cold.count(b"/"), self.result["first_byte_ms"]))

    def migrate(self):
        """Crawl until nothing is pending, with a client at work meanwhile."""
        say("crawling, while a client lists and reads")
        guest = self.guest()
        start = time.monotonic()
        guest.start()
        crawler = self.stage.daemon("crawler", str(self.build / "crawler" / "postcopy-crawler"),
                                    "--leave-parked", "--workers", str(self.args.workers),
                                    "--json",
                                    self.volume_dir)
        last = self.watch(crawler)
        self.result["seconds"] = round(time.monotonic() - start, 2)
        guest.stop()
        if crawler.returncode != 0:
            raise DemoError("the crawler ended with status %d:\n%s" % (
                crawler.returncode, self.stage.log_tail("crawler")))
        self.visit = guest.report
        self.result["bytes_done"] = last["bytes_done"]
        self.result["made"] = last.get("entries", 0)    # by this run: an older one may have begun
        self.result["parked"] = last["parked"] + last["conflicts"]

    def guest(self):
        return visitor.Visitor(visitor.connect_uri(self.old_uri), self.new.client("v3"))

    def watch(self, crawler):
        """Show progress until the crawler ends; the last status."""
        view = Progress(TextColumn("   "), BarColumn(bar_width=30),
                        TextColumn("{task.fields[text]}"), TimeElapsedColumn(), console=console,
                        transient=True, disable=not console.is_terminal)
        moved, before, said, status = time.monotonic(), None, 0.0, {}
        with view:
            task = view.add_task("", total=None, text="")
            while crawler.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    crawler.wait(0.25)
                status = self.volume.status()
                text = self.line(status)
                view.update(task, total=status["done"] + status["counter"] or 1,
                            completed=status["done"], text=text)
                now = time.monotonic()
                if not console.is_terminal and now - said >= 5:
                    console.print("   " + text, soft_wrap=True)
                    said = now
                key = (status["done"], status["pending"], status["bytes_done"])
                if key != before:
                    moved, before = now, key
                elif now - moved > STALL_S:
                    raise DemoError("no progress for %d s: %s" % (STALL_S, text))
                if status["state"] == "retriever-down":
                    raise DemoError("the retriever is gone:\n%s" % self.stage.log_tail("retriever"))
        return self.volume.status()

    def line(self, s):
        count, size = self.postcopy.count, self.postcopy.size
        return "%s done, %s pending, %s files/s, %s/s, %s so far%s" % (
            count(s["done"]), count(s["pending"]), count(s["rate_files"]), size(s["rate_bytes"]),
            size(s["bytes_done"]), ", %d parked" % (s["parked"] + s["conflicts"])
            if s["parked"] or s["conflicts"] else "")

    # -- the end ------------------------------------------------------------------

    def scan(self):
        say("postcopy scan")
        self.volume.control.ask("drain", 600)
        found = self.command("scan", "--json", self.volume_dir)
        if not found["finished"] and not self.result["parked"]:
            left = {k: found[k] for k in ("stubs", "unlisted", "uncovered", "corrupt", "journal",
                                          "leftovers") if found[k]}
            raise DemoError("the counter says complete, but the scan found %s" % left)

    def manifests(self):
        """[old, new]: a line for each object, as NFS shows it."""
        manifests = []
        for name, uri in (("old", self.old_uri), ("new", self.new.url())):
            path = self.stage.run / (name + ".manifest")
            done = subprocess.run([self.nfstree, "--no-atime", "--quiet", "-o", path, uri],
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode not in (0, 2):
                raise DemoError("cannot read the %s server: %s" % (name, done.stderr.strip()))
            manifests.append(path)
        return manifests

    def compare(self):
        """Every object of both servers, as NFS shows them."""
        say("comparing both servers through NFS: type, size, mode, owner, times, links, SHA-256")
        manifests = self.manifests()
        done = subprocess.run([self.nfstree, "--diff", "--show", "20", *manifests],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace")
        if done.returncode not in (0, 1):
            raise DemoError("nfstree --diff: %s" % done.stderr.strip())
        self.count(*manifests)
        if done.returncode == 1:
            print(done.stdout, done.stderr, sep="\n")
        self.count_wrong(self.differences(*manifests) if done.returncode == 1 else 0)

    def count_wrong(self, differences):
        self.result["differences"] = differences + len(self.visit.wrong)
        for line in self.visit.wrong[:20]:
            print("the client read wrong data:", line)

    @staticmethod
    def lines(path):
        with open(path, "rb") as f:
            return [line.rstrip(b"\n").split(b"\t") for line in f if not line.startswith(b"#")]

    def count(self, old, new):
        rows = self.lines(old)
        self.result["files"] = len(rows)
        self.result["bytes"] = sum(int(r[5]) for r in rows
                                   if len(r) > 5 and r[1] in (b"reg", b"file", b"f")
                                   and r[5].isdigit())

    def differences(self, old, new):
        a, b = ({r[0]: r for r in self.lines(p)} for p in (old, new))
        return max(1, sum(a.get(k) != b.get(k) for k in a.keys() | b.keys()))

    def finish(self):
        if self.args.source or self.result["differences"] or self.result["parked"]:
            return
        say("postcopy finish")
        self.command("finish", self.volume_dir, parse=False)
        say("still served, without postcopy: %d names" % self.still_served())

    def still_served(self):
        with self.new.client("v3") as client:
            return len(client.listdir())

    def summary(self):
        r, v = self.result, self.visit
        seconds = max(r["seconds"], 0.01)
        r["files_per_s"] = round(r["made"] / seconds, 1)
        r["mib_per_s"] = round(r["bytes_done"] / MIB / seconds, 1)
        table = Table(show_header=False, box=None)
        rows = [("objects", "%d, %s of data" % (r["files"], self.postcopy.size(r["bytes"]))),
                ("migrated in", "%.1f s: %.0f files/s, %.1f MiB/s" % (
                    r["seconds"], r["files_per_s"], r["mib_per_s"])),
                ("first listing", "%.1f ms" % r["first_listing_ms"]),
                ("first byte", "%s ms" % r["first_byte_ms"]),
                ("client meanwhile", "%d listings, %d reads, slowest answer %.0f ms, %d times "
                 "'try again'" % (v.listings, v.reads, v.worst_ms, v.delays)),
                *self.more_rows(),
                ("parked", str(r["parked"])), ("differences", str(r["differences"]))]
        good = not r["parked"] and not r["differences"]
        for name, value in rows:
            table.add_row(name, value, style="bold green" if good and name == "differences"
                          else "bold red" if not good and name in ("parked", "differences") else "")
        console.print()
        console.print(table)
        if self.args.json:
            Path(self.args.json).write_text(json.dumps({k: r[k] for k in self.KEYS}) + "\n")
        return EXIT_SAME if good else EXIT_DIFFERENT

    def more_rows(self):
        """(name, value) of the summary's table."""
        return []

    def play(self):
        self.old_server()
        self.new_volume()
        self.init()
        self.start()
        self.first_access()
        self.migrate()
        self.scan()
        self.compare()
        self.finish()
        status = self.summary()
        if self.args.source:
            say("the volume stays at %s; end its migration with 'postcopy finish'" %
                self.volume_dir if self.args.volume else "the old server was only read")
        if self.args.keep:
            say("kept: %s" % self.stage.run)
        return status


def arguments():
    p = argparse.ArgumentParser(prog="./demo", add_help=False, allow_abbrev=False)
    p.add_argument("--build", required=True)
    p.add_argument("--source")
    p.add_argument("--volume")
    p.add_argument("--size", choices=("small", "full"), default="full")
    p.add_argument("--workers", type=int, default=16)
    p.add_argument("--json")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--smb", action="store_true")
    p.add_argument("--both", action="store_true")
    p.add_argument("--workdir", default="/var/tmp/postcopy-demo")
    return p.parse_args()     # ./demo has checked them


def main():
    args = arguments()
    if args.both:
        from both_demo import BothDemo as kind
    elif args.smb:
        from smb_demo import SmbDemo as kind
    else:
        kind = Demo

    def terminate(number, frame):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, terminate)
    try:
        with Stage(args.workdir, args.keep) as stage:
            try:
                return kind(args, stage).play()
            finally:        # a second Ctrl-C must not end the tidying up half-way
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        print("\ndemo: interrupted, everything it started is gone", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (DemoError, RuntimeError, NfsError, RpcError, OSError) as err:
        print("demo: %s" % err, file=sys.stderr)
    except Exception as err:  # our own command's Failure, or SMB's
        if type(err).__name__ not in ("Failure", "NoRetriever", "SmbError", "Gone"):
            raise
        print("demo: %s" % err, file=sys.stderr)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.modules["demo"] = sys.modules["__main__"]      # for smb_demo
    sys.exit(main())
