# SPDX-License-Identifier: GPL-3.0-or-later
"""Care for the old server: requests per second, backing off when it gets slow, fewer connections; all
while it runs, kept over restarts, and never at a client's cost (docs/decisions/0101)."""
import collections
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from lib import smbd
from lib.line import line
from lib.processes import descendants
from lib.programs import VOLUME_TOOL
from lib.smbcount import CREATE, Counter
from lib.smbsource import PATIENT, credentials, migrations, settings, with_worker
from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

DIRS, FILES, SIZE = 3, 240, 3000
WIDE = 6000         # more than a listing hands on before somebody takes it
SLACK = 30          # requests of who connects
EACH = 0.004        # s: how long the slow server has to do with one request


def name(i):
    return "d%d/f%03d" % (i % DIRS, i)


@pytest.fixture
def fake():
    tree = Tree()
    dirs = [tree.mkdir(tree.root, "d%d" % d) for d in range(DIRS)]
    for i in range(FILES):
        tree.file(dirs[i % DIRS], "f%03d" % i, Pattern(SIZE, seed=i + 1))
    tree.file(tree.mkdir(tree.mkdir(tree.root, "up"), "deep"), "one", b"one")
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    return new_migration(fake.url(), fresh_dir).init().start()


def throttle(m, *args):
    return json.loads(m.postcopy("throttle", m.volume, *args, "--json").stdout)


def connected(m):
    wait_until(lambda: m.status()["source_connected"], 60, "a connection")


class Rate:
    """Not more requests than the rate allows, from now on, however late we look."""

    def __init__(self, counts, rate):
        self.counts, self.rate = counts, rate
        self.began, self.before = time.monotonic(), self.seen()

    def seen(self):
        return sum(self.counts.copy().values())

    def look(self):
        n = self.seen() - self.before
        assert n <= self.rate * (time.monotonic() - self.began + 0.05) + SLACK, n
        return n


# -- requests per second ------------------------------------------------------------------

def test_so_many_requests_in_a_second(m, fake):
    connected(m)
    assert throttle(m, "--requests", "25")["throttle_requests_per_s"] == 25
    rate = Rate(fake.counts, 25)
    crawler = m.start_crawler()
    wait_until(lambda: rate.look() > 60, 120, "some of it")
    assert crawler.poll() is None
    assert "25 requests/s in the background" in m.postcopy("status", m.volume).stdout
    throttle(m, "--requests", "0")
    assert crawler.wait(120) == 0
    m.audit(complete=True)


def test_clients_are_not_held(m, fake):
    """Nor where they ask for what is held for the crawler: at that rate they would wait for minutes."""
    connected(m)
    throttle(m, "--requests", "1")
    m.start_crawler()
    # its small files' READs wait for a minute, and after them that directory
    wait_until(lambda: fake.counts["READDIRPLUS"] >= 2 + DIRS and m.status()["active"] > DIRS, 60,
               "the crawler's asks")
    began = time.monotonic()
    with m.client() as c:
        c.patient(60)
        assert set(c.names("up/deep")) >= {b"one"}
        for d in range(DIRS):
            assert len(c.names("d%d" % d)) == FILES // DIRS
        for i in range(FILES):
            assert c.read_file(name(i)) == Pattern(SIZE, seed=i + 1).read(0, SIZE)
    assert time.monotonic() - began < 60
    throttle(m, "--requests", "0")
    assert m.crawler.wait(120) == 0
    m.audit(complete=True)


def test_a_comparison_is_held_likewise(m, fake):
    m.crawl()
    throttle(m, "--requests", "30")
    rate = Rate(fake.counts, 30)
    with subprocess.Popen([str(VOLUME_TOOL), "verify", "--all", "--again", str(m.volume)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: rate.look() > 60, 120, "some of it")
        assert process.poll() is None
        throttle(m, "--requests", "0")
        out = process.communicate(timeout=120)[0]
    assert json.loads(out)["result"] == "right"


# -- latency ------------------------------------------------------------------------------

class Slow:
    """It answers one request after the other, and knows how many wait."""

    def __init__(self, each):
        self.each, self.lock, self.waiting = each, threading.Lock(), 0
        self.seen = collections.deque(maxlen=40)

    def __call__(self, server, call, answer):
        self.waiting += 1
        self.seen.append(self.waiting)
        with self.lock:
            time.sleep(self.each)
        self.waiting -= 1
        return answer()

    def most(self):
        return max(list(self.seen), default=0)


def test_it_backs_off(m, fake):
    """Ten of its requests take 40 ms where nobody else asks."""
    connected(m)
    slow = Slow(EACH)
    fake.hook("READ GETATTR LOOKUP ACCESS", slow)
    throttle(m, "--latency", str(int(EACH * 10000)))
    crawler = m.start_crawler()

    def few():
        s = m.status()
        return s["source_backs_off"] and len(slow.seen) == 40 and slow.most() <= 14 and s
    s = wait_until(few, 120, "few at a time")
    assert crawler.poll() is None and s["source_latency_ms"] > 0
    throttle(m, "--latency", "0")
    assert not m.status()["source_backs_off"]
    assert crawler.wait(120) == 0
    m.audit(complete=True)


def test_where_others_make_it_slow(m, fake):
    """Not one request of ours takes less than the set point: it is asked seldom, and still."""
    connected(m)
    quick = fake.hook("READ GETATTR LOOKUP ACCESS READDIRPLUS", hooks.delay(0.1))
    slow = Slow(0)
    fake.hook("READ GETATTR LOOKUP ACCESS", slow)
    throttle(m, "--latency", "5")
    crawler = m.start_crawler()
    wait_until(lambda: len(slow.seen) > 20 and m.status()["source_backs_off"], 120, "some requests")
    slow.seen.clear()
    wait_until(lambda: len(slow.seen) > 3, 120, "it goes on")
    assert slow.most() <= 2, slow.seen
    quick()
    assert crawler.wait(120) == 0                       # nobody makes it slow any more
    m.audit(complete=True)


# -- as many as bring something -----------------------------------------------------------
# What is found in the end, tests/unit/test_limiter.c has, with a clock of its own.

def test_a_long_line_has_many_under_way(fake, fresh_dir, new_migration):
    """Near it begins with 16."""
    fake.hook(None, hooks.delay(0.1))
    m = new_migration(fake.url(), fresh_dir).init().start()
    connected(m)
    m.crawl()
    assert fake.max_in_flight > 20
    m.audit(complete=True)


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_so_many_as_are_set(fake, fresh_dir, new_migration, version):
    fake.version = version
    m = new_migration(fake.url(), fresh_dir, conf="background_calls = 3\n").init().start()
    connected(m)
    slow = Slow(0.001)
    fake.hook("READ", slow)
    m.crawl()
    assert throttle(m)["background_calls_most"] == 3
    assert 1 < max(slow.seen) <= 3, slow.seen
    m.audit(complete=True)


# -- connections --------------------------------------------------------------------------

@pytest.mark.parametrize("version", ["3", "4.2"])
def test_connections(fake, fresh_dir, new_migration, version):
    fake.version = version
    m = new_migration(fake.url(), fresh_dir).init().start()
    connected(m)
    wait_until(lambda: fake.rpc.connections == 4, 60, "all that are configured")
    gate = hooks.Gate()
    fake.hook("READ", hooks.first(3, gate))
    crawler = m.start_crawler()
    wait_until(lambda: gate.waiting > 0, 60, "a READ under way")
    assert throttle(m, "--connections", "1")["source_connections"] == 1
    gate.open()                                         # what was under way ends before
    wait_until(lambda: fake.rpc.connections == 1, 60, "one connection")
    assert crawler.wait(120) == 0
    throttle(m, "--connections", "6")
    wait_until(lambda: fake.rpc.connections == 6, 60, "six connections")
    m.audit(complete=True)
    assert m.status()["source_reconnects"] == 0
    assert " lost" not in m.log.read_text()


def workers(m):
    def comm(pid):
        with contextlib.suppress(OSError):
            return pathlib.Path("/proc/%d/comm" % pid).read_text().strip()
    return sum(comm(pid) == "postcopy-smb-wo" for pid in descendants(m.retriever.pid))


def plant(top, paths):
    for i, path in enumerate(paths):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"%d " % i * (SIZE // 3))
    for path in (top, *top.rglob("*")):
        os.chown(path, smbd.USERS["alice"][0], 100)


@pytest.fixture
def share(new_volume, new_samba, request):
    top = new_volume("xfs", "300M").path / "old"
    plant(top, request.param if hasattr(request, "param") else map(name, range(FILES)))
    counter = Counter(new_samba(request.node.originalname[5:], top).port)
    yield counter
    counter.close()


@pytest.fixture
def make(moddir, new_volume, rpcshim, tmp_path):
    who = credentials(tmp_path)
    with migrations(moddir, new_volume, rpcshim) as begin:
        def started(port, **more):
            m = begin("smb://127.0.0.1:%d/share" % port,
                      settings(**who, **more)).init().start()
            connected(m)
            return m
        yield started


@pytest.fixture
def smb(make, share):
    return make(share.port, connections=3)


@with_worker
def test_connections_of_smb(smb):
    wait_until(lambda: workers(smb) == 3, 60, "all that are configured")
    throttle(smb, "--connections", "1")
    wait_until(lambda: workers(smb) == 1, 60, "one connection")
    smb.crawl()
    throttle(smb, "--connections", "5")
    wait_until(lambda: workers(smb) == 5, 60, "five connections")
    smb.audit(complete=True)
    assert smb.status()["source_reconnects"] == 0


@with_worker
def test_requests_of_smb(smb, share):
    """Each object is opened once, and these are as many as there are requests."""
    throttle(smb, "--requests", "20")
    rate = Rate(share.counts, 20)
    rate.seen = lambda: share.counts[CREATE]
    rate.before = rate.seen()
    crawler = smb.start_crawler()
    wait_until(lambda: rate.look() > 50, 120, "some of it")
    assert crawler.poll() is None
    throttle(smb, "--requests", "0")
    assert crawler.wait(120) == 0
    smb.audit(complete=True)


@with_worker
@pytest.mark.parametrize("share", [["d/f%04d" % i for i in range(WIDE)]], indirect=True, ids=["wide"])
def test_a_listing_of_smb_is_in_nobodys_way(make, share):
    """It is under way while its small files are asked for, and here these go one at a time."""
    with line("127.0.0.1", share.port, 3000) as far:
        m = make(far.port, call_timeout=PATIENT)
        throttle(m, "--latency", "5")
        crawler = m.start_crawler()
        wait_until(lambda: m.status()["source_backs_off"], 60, "fewer at a time")
        before = share.counts[CREATE]
        wait_until(lambda: share.counts[CREATE] > before + 40, 120, "it goes on")
        throttle(m, "--latency", "0")
        assert crawler.wait(120) == 0
        assert m.status()["whole"] == WIDE
        m.audit(complete=True)


def test_a_mounted_source(moddir, fresh_dir, new_migration, new_volume):
    top = new_volume("xfs", "300M").path / "old"
    plant(top, map(name, range(FILES)))
    m = new_migration("file://%s" % top, fresh_dir).init().start()
    connected(m)
    throttle(m, "--requests", "40", "--connections", "1")
    began, before = time.monotonic(), m.status()["source_calls"]
    crawler = m.start_crawler()

    def some():
        n = m.status()["source_calls"] - before
        # also what is queued: no more than the crawler asks for at a time
        return n > 80 and time.monotonic() - began
    took = wait_until(some, 120, "some of it")
    assert crawler.poll() is None and took > 0.2
    throttle(m, "--requests", "0", "--connections", "8")
    assert crawler.wait(120) == 0
    m.audit(complete=True)


# -- clients first ------------------------------------------------------------------------

def test_threads_of_the_background_come_second(m, fake):
    m.crawl()

    def niceness():
        found = collections.Counter()
        for task in pathlib.Path("/proc/%d/task" % m.retriever.pid).iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):     # some end meanwhile
                found[int((task / "stat").read_text().rpartition(")")[2].split()[16])] += 1
        return found
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    # eight workers, and all connections but the first
    found = wait_until(lambda: (now := niceness())[10] >= 8 + 3 and now, 60, "threads that come second")
    assert set(found) == {usual, 10} and found[usual] >= 8 + 1, found


# -- as it is set -------------------------------------------------------------------------

def test_it_is_kept(m):
    m.postcopy("throttle", m.volume, "2M", "--requests", "77", "--latency", "30", "--connections", "2")
    m.postcopy("pause", m.volume)
    m.conf += "throttle_requests = 5\nthrottle_latency = 6\nconnections = 7\n"
    wanted = {"throttle_bytes_per_s": 2 << 20, "throttle_requests_per_s": 77, "throttle_latency_ms": 30,
              "source_connections": 2}
    for _ in range(2):
        m.kill_retriever()
        m.start_retriever()
        said = throttle(m)
        assert {key: said[key] for key in wanted} == wanted
    assert m.status()["state"] == "paused"
    by = {s["key"]: s for s in json.loads(
        m.postcopy("config", "show", "--json", m.volume).stdout)["settings"]}
    assert [(by[key]["value"], by[key]["from"]) for key in (
        "throttle_requests", "throttle_latency", "connections")] == [
            (77, "command"), (30, "command"), (2, "command")]
    text = m.postcopy("throttle", m.volume).stdout
    assert "limited to 2.0 MiB/s and 77 requests/s" in text and "longer than 30 ms" in text
    assert "connections to the old server: 2" in text


def test_what_is_configured_counts_before(m):
    m.kill_retriever()
    m.conf += "throttle_requests = 55\nthrottle_latency = 66\nconnections = 7\n"
    m.start_retriever()
    said = throttle(m)
    assert (said["throttle_requests_per_s"], said["throttle_latency_ms"], said["source_connections"]) == (
        55, 66, 7)
    throttle(m, "--requests", "0")
    said = throttle(m)
    assert (said["throttle_requests_per_s"], said["throttle_latency_ms"]) == (0, 66)


@pytest.mark.parametrize("damage", [b"requests=1", b"x" * 64, b"requests=-5 latency=-1 connections=-1".ljust(
    63) + b"\n", b"requests=1 latency=1 connections=17".ljust(63) + b"\n"])
def test_damaged_limits_undo_no_pause(m, damage):
    m.postcopy("pause", m.volume)
    throttle(m, "--requests", "3")
    m.kill_retriever()
    (m.volume / ".postcopy/limits").write_bytes(damage)
    m.start_retriever()
    assert ".postcopy/limits or " in m.log.read_text()
    assert m.status()["state"] == "paused"
    assert throttle(m)["throttle_requests_per_s"] == 0
    said = m.postcopy("config", "check", m.volume, check=False)
    assert "limits beside it" in said.stdout + said.stderr


def test_a_volume_of_an_earlier_release(m):
    """It has no such file."""
    m.kill_retriever()
    (m.volume / ".postcopy/limits").unlink()
    m.start_retriever()
    assert throttle(m, "--connections", "3")["source_connections"] == 3
    m.kill_retriever()
    m.start_retriever()
    assert throttle(m)["source_connections"] == 3


@pytest.mark.parametrize("argv, why", [
    (("--requests", "1000001"), "from 0 to 1000000"), (("--requests", "-1"), "requests"),
    (("--latency", "fast"), "'fast'"), (("--connections", "0"), "from 1 to 16"),
    (("--connections", "17"), "from 1 to 16"), (("5M", "6M", "7M"), "7M"),
    (("fast",), "'fast'")])
def test_wrong_usage(m, argv, why):
    done = m.postcopy("throttle", *(() if "M" in argv[0] else (m.volume,)), *argv, check=False)
    assert done.returncode == 2 and why in done.stderr and not done.stdout
    assert throttle(m)["throttle_requests_per_s"] == 0


def test_a_careless_command(m):
    """Not even what was right of it counts."""
    for key, wrong in (("latency_ms", {"requests_per_s": 5, "latency_ms": -1}),
                       ("requests_per_s", {"requests_per_s": 2 ** 40}),
                       ("requests_per_s", {"requests_per_s": "5"}),
                       ("connections", {"connections": 0, "requests_per_s": 5}),
                       ("latency_ms", {"latency_ms": 10 ** 9}), ("connections", {"connections": 4.5}),
                       ("bytes_per_s", {"bytes_per_s": -1})):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(m.control))
            sock.sendall(json.dumps(dict(wrong, cmd="throttle")).encode() + b"\n")
            with sock.makefile() as lines:
                answer = json.loads(lines.readline())
        assert not answer["ok"] and answer["error"].startswith(key + ":"), answer
    said = throttle(m)
    assert (said["throttle_requests_per_s"], said["source_connections"]) == (0, 4)
