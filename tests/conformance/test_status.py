# SPDX-License-Identifier: GPL-3.0-or-later
"""What the administrator is told: `postcopy status` agrees with a full scan whenever
nothing is in flight, and pause, resume, throttle and finish do what they say."""
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from lib.programs import CRAWLER, POSTCOPY, RETRIEVER, VOLUME_TOOL
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

RECORD = "trusted.postcopy"
MIB = 1 << 20
PROMISED = {"state": str, "pending": int, "done": int, "parked": int, "conflicts": int,
            "bytes_done": int, "rate_files": float, "rate_bytes": float, "source": str}
SMALL, BIG = 40, 8 * MIB


@pytest.fixture
def fake():
    tree = Tree()
    d = tree.mkdir(tree.root, "d")
    for i in range(SMALL):
        tree.file(d, "f%d" % i, Pattern(2000, seed=i + 1))
    tree.mkdir(d, "empty")
    first = tree.file(tree.root, "one", Pattern(300))
    tree.hardlink(d, "two", first)
    tree.symlink(d, "s", "one")
    tree.file(tree.root, "big", Pattern(BIG))
    with FakeServer(tree) as server:
        yield server


OBJECTS = SMALL + 6          # root, d, empty, one = two, s, big


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="""
block_size = 1048576
buffer = 4194304
max_tries = 1
""").init()
    m.by_command = True
    return m


@pytest.fixture
def running(m):
    m.start()
    wait_until(lambda: m.status()["source_connected"], 60, "a connection")
    with m.client() as c:
        yield m, c.patient(60)


def told(m, *command, check=True):
    done = m.postcopy(*command, m.volume, check=False)
    assert not check or done.returncode == 0, done
    return done


def agree(m):
    """status = journal = scan, when nothing is in flight."""
    if m.retriever and m.retriever.poll() is None:
        m.drain()
    status = m.status()
    scan = json.loads(told(m, "scan", "--json").stdout)
    assert {k: type(status[k]) for k in PROMISED} == PROMISED, status
    assert status["pending"] + status["parked"] + status["conflicts"] == status["counter"]
    assert status["counter"] == scan["journal"] == scan["covered"] + scan["stale"], (status, scan)
    assert scan["parked"] == status["parked"] + status["conflicts"]
    assert scan["uncovered"] == scan["corrupt"] == scan["foreign"] == 0 and scan["clean"], scan
    assert scan["finished"] == (status["state"] == "complete"), (status, scan)
    assert status["source"] == m.url
    totals_agree(status, scan)
    return status, scan


def totals_agree(status, scan):
    t = status["totals"]
    assert t["left"] == status["pending"]
    assert t["parked"] == status["parked"] + status["conflicts"]
    assert t["found"] == t["done"] + t["left"] + t["parked"], t
    assert t["found_bytes"] == t["done_bytes"] + t["left_bytes"] + t["parked_bytes"], t
    assert t["left_bytes"] + t["parked_bytes"] == scan["journal_bytes"], (t, scan)
    assert t["whole"]


CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def test_names_that_a_terminal_obeys(fresh_dir, new_migration):
    """8-bit control characters and bytes that are no UTF-8, in all that status shows."""
    tree = Tree()
    tree.file(tree.root, "f", b"x").claim(uid=(1 << 32) - 1)
    volume = fresh_dir / os.fsdecode(b"v\xe4\x9b2J\xc2\x9b31m")
    volume.mkdir()
    with FakeServer(tree, export="/e\ufffd2J\x9b31m") as server:
        url = server.url().replace("\ufffd", os.fsdecode(b"\x9b"))
        m = new_migration(url, volume, conf="max_tries = 1", allow=["impossible", "parked"]).init()
        m.by_command = True
        for start in (lambda: None, m.start_retriever):
            start()
            assert m.status()["source"] == url and m.status()["volume"] == str(volume)
            for command in ("status", "parked", "scan"):
                done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), command, str(volume)],
                                      capture_output=True, timeout=300)
                assert done.returncode == 0, done
                assert not CONTROLS.search(done.stdout.decode()), done.stdout
            raw = subprocess.run([str(VOLUME_TOOL), "counts", str(volume)], capture_output=True)
            assert not CONTROLS.search(raw.stdout.decode())
        m.crawl()
        assert m.status()["parked"] == 1
        assert "v\\xe4\\x9b2J\\u009b31m" in told(m, "status").stdout


def everything_is_done(status, lost=0):
    """lost: of the objects without an entry (one symbolic link); their count is stored with the
    next transaction."""
    t = status["totals"]
    assert (t["done"], t["left"], t["parked"]) == (t["found"], 0, 0), t
    assert OBJECTS - lost <= t["found"] <= OBJECTS, t
    assert t["found_bytes"] == t["done_bytes"] == SMALL * 2000 + 300 + BIG, t
    assert t["partly_bytes"] == t["directories_left"] == 0


# -- at several points of a migration -----------------------------------------------------------

def test_after_init(m):
    """Without a retriever: one thing is pending, the root."""
    status, scan = agree(m)
    assert (status["state"], status["pending"]) == ("retriever-down", 1)
    assert (scan["unlisted"], scan["stubs"], scan["objects"]) == (1, 0, 1)


def test_after_start(running):
    m, _c = running
    status, _scan = agree(m)
    assert (status["state"], status["pending"], status["done"]) == ("migrating", 1, 0)
    assert status["source_connected"] and status["source_lost_s"] == 0


def test_after_a_look_up(running):
    """One round trip; no entry of its own: the root stands for it."""
    m, c = running
    c.getattr("one")
    status, scan = agree(m)
    assert status["pending"] == 1 and scan["in_unlisted"] == 1
    assert scan["missing_bytes"] == 300


def test_after_a_listing(running):
    m, c = running
    assert len(c.names()) == 3
    status, scan = agree(m)
    assert status["pending"] == 3          # d, one, big
    assert (scan["unlisted"], scan["stubs"], scan["missing_bytes"]) == (1, 2, BIG + 300)
    assert status["done"] >= 1             # the root


def test_after_partial_reads(running, fake):
    m, c = running
    c.names()
    assert c.read("big", 3 * MIB, 1000)[0] == fake.tree.find("big").content.read(3 * MIB, 1000)
    status, scan = agree(m)
    assert status["pending"] == 3
    assert scan["missing_bytes"] == BIG + 300 - status["bytes_done"]
    assert 1000 <= status["bytes_done"] < BIG
    assert status["totals"]["partly_bytes"] == status["bytes_done"]
    assert status["totals"]["left_bytes"] == BIG + 300
    c.read_file("big")
    status, scan = agree(m)
    assert status["pending"] == 2 and status["bytes_done"] == BIG
    assert status["totals"]["partly_bytes"] == 0 and status["totals"]["done_bytes"] == BIG


def test_after_changes_of_clients(running):
    """Removed, overwritten and truncated stubs: stale entries, dropped by the crawl."""
    m, c = running
    c.names(), c.names("d")
    c.remove("d/f0")
    c.write("d/f1", 0, bytes(2000))
    c.setattr("d/f2", size=0)
    c.rename("d/f3", "moved")
    status, scan = agree(m)
    assert status["pending"] == status["counter"] > 0
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("moved") == Pattern(2000, seed=4).read(0, 2000)
    assert c.getattr("d/f2").size == 0 and c.read_file("d/f1") == bytes(2000)


def test_after_part_of_a_crawl(running, fake):
    m, _c = running
    gate = hooks.Gate()
    fake.hook("READ", hooks.only(lambda call: call.index > SMALL // 2, gate))
    m.start_crawler()
    wait_until(lambda: gate.waiting > 0, 20, "half of the files")
    m.crawler.terminate()
    assert m.crawler.wait(20) == 0
    gate.open()
    status, scan = agree(m)
    assert status["state"] == "migrating" and status["done"] > 0
    # small files come with their directories: of what is left each has its record
    assert 0 < status["pending"] == scan["stubs"] + scan["unlisted"]
    m.crawl()
    m.audit(complete=True)


def test_totals_over_crashes(running, fake):
    """Killed twice in the middle: no object, and no byte, is counted twice or forgotten."""
    m, _c = running
    for reads in (8, 36):
        gate = hooks.Gate()
        undo = fake.hook("READ", hooks.only(lambda call: call.index > reads, gate))
        m.start_crawler()
        wait_until(lambda: gate.waiting > 0, 60, "some of the files")
        m.kill_retriever()
        m.kill_crawler()
        undo()
        gate.open()
        m.start_retriever()
        wait_until(lambda: m.status()["source_connected"], 60, "a connection")
        agree(m)
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    everything_is_done(agree(m)[0], lost=1)


def test_after_a_crawl(running):
    m, _c = running
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 20)
    status, scan = agree(m)
    assert (status["pending"], status["counter"], scan["objects"]) == (0, 0, OBJECTS)
    everything_is_done(status)
    assert status["bytes_done"] == SMALL * 2000 + 300 + BIG
    assert scan["missing_bytes"] == scan["leftovers"] == 0


def test_with_parked_objects(running, fake):
    """Parked is not done: never complete, and `retry` brings it back."""
    m, c = running
    m.server.allow = ["converted to NFS3ERR_IO"]
    node = fake.tree.find("big")
    undo = fake.hook("READ", hooks.only(lambda call: call.node is node,
                                        hooks.status(errors.IO)))
    m.crawl()
    status, scan = agree(m)
    assert (status["parked"], status["pending"], status["state"]) == (1, 0, "only-parked")
    assert status["only_parked"] is True
    assert scan["missing_bytes"] == BIG
    assert "big" in told(m, "parked").stdout and "see 'postcopy parked'" in told(m, "status").stdout
    undo()
    assert "1 objects" in told(m, "retry").stdout       # no crawler runs: by the retriever
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)


def test_retry_is_heard(running, fake):
    """A crawler stays while anything is unfinished: `retry` alone is enough. Without one
    the retriever tries, and the command says so; `status` says it all the time."""
    m, _c = running
    node = fake.tree.find("big")
    fails = fake.hook("READ", hooks.only(lambda call: call.node is node,
                                         hooks.status(errors.IO)))
    assert m.status()["crawler"] is False and "none runs" in told(m, "status").stdout
    m.start_crawler(stay=True)
    wait_until(lambda: m.status()["parked"] == 1 and m.status()["pending"] == 0, 60, "parked")
    log = m.workdir / "crawler.log"
    wait_until(lambda: "1 parked objects" in log.read_text(), 30, "it says what it waits for")
    assert m.crawler.poll() is None and m.status()["crawler"] is True
    assert "running" in told(m, "status").stdout
    m.kill_crawler()
    wait_until(lambda: m.status()["crawler"] is False, 30, "known to be gone")
    said = told(m, "retry").stdout
    assert "1 objects will be tried again" in said and "no crawler runs" in said
    assert "postcopy-crawler %s" % m.volume in said
    m.start_crawler(stay=True)
    wait_until(lambda: m.status()["parked"] == 1, 60, "parked again")
    fails()
    assert told(m, "retry").stdout == "1 objects are tried again\n"
    assert m.crawler.wait(60) == 0
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)


def test_parked_objects_that_clients_end(running, fake):
    """Removed or written anew, they need nothing from there any more: no `retry` needed."""
    m, c = running
    m.server.allow = ["converted to NFS3ERR_IO"]
    bad = [fake.tree.find("big"), fake.tree.find("one"), fake.tree.find("d/f0")]
    was = bad[2].mtime, bad[2].ctime
    c.names(), c.names("d")
    fake.hook("READ", hooks.only(lambda call: call.node in bad[:2], hooks.status(errors.IO)))
    bad[2].touch()
    m.crawl()
    bad[2].mtime, bad[2].ctime = was            # of the module's tree
    assert [m.status()[k] for k in ("parked", "conflicts", "pending")] == [2, 1, 0]
    c.remove("big")
    wait_until(lambda: m.status()["parked"] == 1, 30, "the removed one is dropped")
    c.setattr("one", size=0)
    c.setattr("d/f0", size=0)
    wait_until(lambda: m.status()["state"] == "complete", 30, "the others are complete")
    m.audit(complete=True)


def test_with_conflicts(running, fake):
    """What changed over there is no error, is never done, and has its own retry."""
    m, c = running
    m.server.allow = ["converted to NFS3ERR_IO"]
    c.names(), c.names("d")
    node = fake.tree.find("d/f0")
    was = node.mtime, node.ctime
    node.touch()
    m.crawl()
    status, scan = agree(m)
    assert (status["conflicts"], status["parked"], status["pending"]) == (1, 0, 0)
    assert status["state"] == "only-parked" and scan["missing_bytes"] == 2000
    assert "conflict" in told(m, "parked").stdout
    assert "0 objects" in told(m, "retry").stdout      # that is for errors
    node.mtime, node.ctime = was
    assert "1 objects" in told(m, "retry", "--conflicts").stdout
    wait_until(lambda: m.status()["state"] == "complete", 60)
    assert m.status()["only_parked"] is False
    m.audit(complete=True)


def test_without_a_retriever(running):
    m, c = running
    c.names()
    status, scan = agree(m)
    m.kill_retriever()
    after, scan_after = agree(m)
    assert after["state"] == "retriever-down" and not after["source_connected"]
    assert (after["pending"], scan_after) == (status["pending"], scan)
    done = told(m, "pause", check=False)
    assert done.returncode == 3 and "no retriever is running" in done.stderr


# -- watching ---------------------------------------------------------------------------------

class Watcher:
    """`postcopy status --watch`, on a terminal or (--json) into a pipe."""

    def __init__(self, m, *options):
        argv = ["/usr/bin/python3", str(POSTCOPY), "status", "--watch", *options, str(m.volume)]
        self.output, theirs = os.pipe() if options else pty.openpty()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs,
                                        stderr=theirs, env=dict(os.environ, TERM="xterm"))
        os.close(theirs)
        self.text = ""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            while data := os.read(self.output, 65536):
                self.text += data.decode()
        except OSError:                                # a terminal whose other end is gone
            pass

    def end(self, timeout=300):
        """Its exit status, and what it said."""
        try:
            code = self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.thread.join(10)
            os.close(self.output)
        return code, self.text


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_watch(running, fake, options):
    """Every second, and ends by itself when everything is there."""
    m, _c = running
    gate = hooks.Gate()
    fake.hook("READ", gate)
    watcher = Watcher(m, *options)
    wait_until(lambda: "migrating" in watcher.text, 20)
    m.start_crawler()
    wait_until(lambda: gate.waiting > 0, 20)
    at = len(watcher.text)
    wait_until(lambda: len(watcher.text) > at + 100, 20, "another look")
    assert watcher.process.poll() is None
    gate.open()
    code, text = watcher.end()
    assert code == 0 and "complete" in text and "Traceback" not in text
    if options:
        seen = [json.loads(line) for line in text.splitlines()]
        states = [s["state"] for s in seen if s["state"] != "checking"]
        assert states[-2:] == ["migrating", "complete"]
        assert seen[0]["pending"] == 1 and seen[0]["done"] == 0
        assert seen[-1]["pending"] == 0 and seen[-1]["done"] >= OBJECTS - 1
    assert m.crawler.wait(60) == 0
    m.audit(complete=True)


def test_watch_into_a_pipe(running):
    """A line for each look, at once: for a log, or grep."""
    m, _c = running
    watcher = Watcher(m, "--watch")
    wait_until(lambda: watcher.text.count("migrating: 1 pending") > 1, 60, "two lines")
    m.crawl()
    code, text = watcher.end()
    assert code == 0 and "complete: 0 pending" in text.splitlines()[-1]
    assert "no crawler runs" in text.splitlines()[0]


def test_watch_of_what_is_complete(running):
    m, _c = running
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 20)
    code, text = Watcher(m, "--json").end()
    assert code == 0 and len(text.splitlines()) == 1


def test_watch_is_interrupted(running):
    m, _c = running
    watcher = Watcher(m)
    wait_until(lambda: "migrating" in watcher.text, 20)
    watcher.process.send_signal(signal.SIGINT)
    code, text = watcher.end()
    assert code == 130 and "Traceback" not in text


def test_rates(running):
    """Files and bytes per second, over the last seconds."""
    m, _c = running
    status = m.status()
    assert status["rate_files"] == status["rate_bytes"] == 0
    crawler, seen = m.start_crawler(), set()

    def both():                         # not at once, if the disk is slow
        now = m.status()
        seen.update(key for key in ("rate_files", "rate_bytes") if now[key] > 0)
        return len(seen) == 2
    wait_until(both, 60, "rates")
    assert crawler.wait(60) == 0


# -- pause, resume, throttle --------------------------------------------------------------------

def test_pause_and_resume(running, fake):
    """Nothing in the background; clients are served, also with read-ahead."""
    m, c = running
    told(m, "pause")
    assert m.status()["state"] == "paused"
    m.start_crawler()
    wait_until(lambda: m.status()["active"] > 0, 20, "the crawler asks")
    assert c.read_file("big", chunk=256 << 10) == Pattern(BIG).read(0, BIG)
    assert fake.bytes_read == BIG                      # and nothing else
    assert RECORD in os.listxattr(m.volume)            # the root is not listed
    assert m.status()["done"] <= 1
    told(m, "resume")
    assert m.status()["state"] in ("migrating", "complete")
    assert m.crawler.wait(60) == 0
    m.audit(complete=True)


def test_pause_and_throttle_survive(running):
    """What was said by command counts after a restart, and more than the configuration."""
    m, _c = running
    told(m, "pause")
    throttle(m, "2M")
    m.conf += "throttle = 70000\n"
    for _ in range(2):
        m.kill_retriever()
        m.start_retriever()
        s = m.status()
        assert (s["state"], s["throttle_bytes_per_s"]) == ("paused", 2 * MIB)
    assert "2.0 MiB/s" in told(m, "status").stdout
    told(m, "resume")
    throttle(m, "0")
    m.kill_retriever()
    m.start_retriever()
    wait_until(lambda: m.status()["state"] == "migrating", 60, "a connection")
    assert m.status()["throttle_bytes_per_s"] == 0
    m.kill_retriever()
    settings = m.volume / ".postcopy" / "settings"
    settings.write_bytes(settings.read_bytes()[:20])
    m.start_retriever()                                # says so, and begins anew
    assert "settings cannot be read or is damaged" in m.log.read_text()
    assert m.status()["throttle_bytes_per_s"] == 70000 * 1024
    m.crawl()
    m.audit(complete=True)


def test_pause_in_the_middle_of_a_file(running, fake):
    """What is paused holds memory and is in the middle of a file: clients do not care."""
    m, c = running
    big, gate = fake.tree.find("big"), hooks.Gate()
    fake.hook("READ", hooks.only(lambda call: call.node is big and call.offset > 0, gate))
    c.names()
    m.start_crawler()
    wait_until(lambda: gate.waiting > 0, 20)
    told(m, "pause")
    gate.open()
    assert c.read_file("big", chunk=256 << 10) == Pattern(BIG).read(0, BIG)
    status = m.status()         # all may have been fetched by now
    assert status["state"] == ("paused" if status["counter"] else "complete")
    told(m, "resume")
    assert m.crawler.wait(60) == 0
    m.audit(complete=True)


def throttle(m, rate):
    return m.postcopy("throttle", m.volume, rate)


def test_throttle(running, fake):
    """The crawler's data comes at that rate; clients are never throttled."""
    m, c = running
    c.names()
    assert "2.0 MiB/s" in throttle(m, "2M").stdout
    assert m.status()["throttle_bytes_per_s"] == 2 * MIB
    start = time.monotonic()
    crawler = m.start_crawler()
    wait_until(lambda: fake.bytes_read > 0, 20)
    assert crawler.wait(60) == 0
    took = time.monotonic() - start
    assert 0.5 * BIG / (2 * MIB) < took < 10 * BIG / (2 * MIB), took
    m.audit(complete=True)


def test_throttle_leaves_clients_alone(running):
    m, c = running
    throttle(m, "1K")
    start = time.monotonic()
    assert c.read_file("big", chunk=256 << 10) == Pattern(BIG).read(0, BIG)
    assert time.monotonic() - start < 60               # by that rate: 2 h


def test_new_throttle_counts_at_once(running):
    """Also for what waits for its turn by the old one: 40 files at 2 s each."""
    m, _c = running
    throttle(m, "1K")
    crawler = m.start_crawler()
    wait_until(lambda: m.status()["active"] > 8, 20)
    assert "not limited" in throttle(m, "0").stdout
    assert crawler.wait(60) == 0
    m.audit(complete=True)


# -- the end ------------------------------------------------------------------------------------

def test_finish_refuses_what_is_not_complete(running):
    m, c = running
    c.names()
    agree(m)
    done = told(m, "finish", check=False)
    assert done.returncode == 53 and done.stderr.startswith("postcopy: not complete: 3 pending")
    assert m.retriever.poll() is None and (m.volume / ".postcopy").is_dir()
    m.kill_retriever()
    done = told(m, "finish", check=False)
    assert done.returncode == 53 and "not complete" in done.stderr
    assert (m.volume / ".postcopy/volume.conf").exists()


def test_finish_refuses_what_is_parked(running, fake):
    m, _c = running
    fake.hook("READ", hooks.only(lambda call: call.node is fake.tree.find("big"),
                                 hooks.status(errors.IO)))
    m.crawl()
    done = told(m, "finish", check=False)
    assert done.returncode == 53 and "1 parked" in done.stderr
    assert (m.volume / ".postcopy").is_dir()


def test_finish(running):
    """.postcopy is gone, the retriever has ended, and Ganesha goes on serving."""
    m, c = running
    m.crawl()
    before = c.getattr(b"")
    told(m, "finish")
    assert m.retriever.wait(60) == 3                   # its unit does not start it again
    assert not (m.volume / ".postcopy").exists()
    assert not any(RECORD in os.listxattr(p, follow_symlinks=False)
                   for p in [m.volume, *m.volume.rglob("*")])
    assert c.read_file("big") == Pattern(BIG).read(0, BIG)
    assert c.getattr(b"").mtime == before.mtime
    c.write_file("new", b"new")
    c.mkdir(".postcopy")                               # a name like any other now
    c.remove("one")
    assert len(c.names()) == 4
    m.server.restart()
    with m.client() as again:
        assert again.read_file("new") == b"new" and again.exists(".postcopy")
    assert told(m, "status", check=False).returncode == 50
    pathlib.Path(m.volume / ".postcopy").rmdir()


def test_finish_without_a_retriever(running):
    m, c = running
    m.crawl()
    m.retriever.terminate()
    assert m.retriever.wait(20) == 0
    told(m, "finish")
    assert not (m.volume / ".postcopy").exists()
    assert c.read_file("one") == Pattern(300).read(0, 300)


def test_nothing_to_crawl_after_finish(running):
    m, _c = running
    m.crawl()
    told(m, "finish")
    assert m.start_crawler().wait(20) == 4
    assert "finished" in (m.workdir / "crawler.log").read_text()


# -- beside it ------------------------------------------------------------------------------------

@pytest.mark.parametrize("what", [".", ".postcopy"])
def test_removed_by_hand(fake, new_migration, loop_xfs, what):
    """The directory, or .postcopy in it: the daemons end, and say why."""
    top = loop_xfs.path / ("removed" + what.strip("."))
    top.mkdir()
    m = new_migration(fake.url(), top, allow=["removed while it was served"]).init()
    m.start_retriever()
    told(m, "pause")
    crawler = m.start_crawler(stay=True)
    wait_until(lambda: m.status()["crawler"], 60, "a crawler")
    shutil.rmtree(top / what)
    assert m.retriever.wait(60) == 1 and crawler.wait(60) == 0
    assert "has been removed while it was served" in m.log.read_text()
    assert "is finished, or was removed" in (m.workdir / "crawler.log").read_text()
    m.retriever = None                                 # its status is told above


def test_removed_while_the_crawler_starts(fake, new_migration, loop_xfs):
    """It has said that it is there, and has not opened the journal yet."""
    top = loop_xfs.path / "early"
    top.mkdir()
    m = new_migration(fake.url(), top, allow=["removed while it was served"]).init()
    m.start_retriever()
    fd = os.open(top / ".postcopy" / "journal", os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)                 # docs/decisions/0025
        crawler = m.start_crawler(stay=True)
        wait_until(lambda: m.status()["crawler"], 60, "a crawler")
        shutil.rmtree(top)
    finally:
        os.close(fd)
    assert crawler.wait(60) == 0
    assert "is finished, or was removed" in (m.workdir / "crawler.log").read_text()
    assert m.retriever.wait(60) == 1
    m.retriever = None


def test_crawler_without_a_journal(m):
    """A volume that is still there is not taken for one that was removed."""
    shutil.move(m.volume / ".postcopy" / "journal", m.volume.parent / "kept")
    try:
        assert m.start_crawler().wait(60) == 1
    finally:
        shutil.move(m.volume.parent / "kept", m.volume / ".postcopy" / "journal")
    assert "cannot read the pending journal: No such file" in (
        m.workdir / "crawler.log").read_text()


def test_versions():
    """All programs say the same one."""
    said = {subprocess.run([*argv, "--version"], capture_output=True, text=True,
                           timeout=300).stdout.split()[1]
            for argv in ((VOLUME_TOOL,), (CRAWLER,), (RETRIEVER,), ("/usr/bin/python3", POSTCOPY))}
    assert len(said) == 1


def loaded():
    """The command, as a module."""
    loader = importlib.machinery.SourceFileLoader("postcopy", str(POSTCOPY))
    command = importlib.util.module_from_spec(importlib.util.spec_from_loader("postcopy", loader))
    sys.modules["postcopy"] = command
    loader.exec_module(command)
    return command


def test_many_volumes_are_remembered(tmp_path):
    """Commands that run at the same time: the list of volumes has all of them."""
    command = loaded()
    command.VOLUMES = tmp_path / "list" / "volumes"
    dirs = [tmp_path / str(i) for i in range(60)]
    for d in dirs:
        (d / ".postcopy").mkdir(parents=True)
    children = []
    for n in range(6):
        children.append(os.fork())
        if not children[-1]:
            for d in dirs[n::6]:
                command.remember_volume(str(d))
            os._exit(0)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 6
    assert set(command.configured_volumes()) == set(map(str, dirs))
    command.forget_volume(str(dirs[0]))
    assert set(command.configured_volumes()) == set(map(str, dirs[1:]))


def test_init_again(running):
    """An `init` that was killed at its end is repeated as if nothing had been, until the
    first thing has come; `blocks` prints what it printed at any time."""
    m, _c = running
    same = ["init", "--json", "--source", m.url, "--socket", m.socket, "--control", m.control,
            m.volume]
    again = json.loads(m.postcopy(*same).stdout)
    blocks = json.loads(told(m, "blocks", "--json").stdout)
    assert again["resumed"] and again["export_block"] == blocks["export_block"]
    assert str(m.volume) in blocks["export_block"] and blocks["uuid"] in blocks["export_block"]
    assert "path = %s" % m.volume in told(m, "blocks").stdout
    for wrong in (["--source", m.url.replace("/export", "/export/d")], ["--socket", "/run/other"]):
        done = m.postcopy("init", "--source", m.url, *wrong, m.volume, check=False)
        assert done.returncode and "is a volume already" in done.stderr, done
    m.crawl()
    done = m.postcopy(*same, check=False)
    assert done.returncode and "is a volume already" in done.stderr
    quote = m.workdir / 'a"b'
    quote.mkdir()
    done = m.postcopy("init", "--source", m.url, quote, check=False)
    assert done.returncode == 2 and "a quote" in done.stderr and not os.listdir(quote)


@pytest.mark.parametrize("name, config", [("a%Ub", "smb.conf"), ("a  b", "smb.conf"),
                                          ("a ", "smb.conf"), ('a"b', "Ganesha's")])
def test_paths_that_configurations_cannot_have(fake, fresh_dir, name, config):
    """smbd would show another directory, or Ganesha read something else: init refuses, and
    no block is printed for a volume that came to such a name."""
    (fresh_dir / name).mkdir()
    done = subprocess.run([POSTCOPY, "init", "--source", fake.url(), fresh_dir / name],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "cannot have" in done.stderr and not any(
        (fresh_dir / name).iterdir())
    command = loaded()
    answer = {"volume": str(fresh_dir / name), "source": fake.url(), "uuid": "u"}
    command.with_blocks(answer)
    assert answer["share_block"].startswith("# smb.conf cannot have")
    assert answer["export_block"].startswith("# Ganesha's" if config == "Ganesha's" else "EXPORT")


def test_blocks_of_odd_paths(fresh_dir):
    """What they print is taken as it is meant."""
    odd = str(fresh_dir / "a'b #{;}= \u00fc [x] $HOME")
    pathlib.Path(odd).mkdir()
    answer = {"volume": odd, "source": "nfs://old/export", "uuid": "u", "depot": odd}
    loaded().with_blocks(answer)
    conf = fresh_dir / "smb.conf"
    conf.write_text("[global]\n%s" % answer["share_block"])
    said = subprocess.run(["testparm", "-s", "--parameter-name=path", "--section-name=%s" % re.search(
        r"\[(.*)\]\n", answer["share_block"])[1], conf], capture_output=True, text=True,
        timeout=300)
    assert said.stdout.rstrip("\n") == odd, said
    for key in ("RequiresMountsFor", "ReadWritePaths", "BindPaths"):
        value = re.search("^%s=(.*)$" % key, answer["drop_in"], re.M)[1]
        assert shlex.split(value) == [("-" if key == "BindPaths" else "") + odd]
