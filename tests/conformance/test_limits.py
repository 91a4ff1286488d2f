# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not grow: calls for a first access, start-up time, memory, journal."""
import collections
import os
import pathlib
import re
import signal
import subprocess

import pytest

from lib.programs import BUILD
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.proxy import Proxy

JOURNALPAD = BUILD / "tests" / "tools" / "journalpad"
MIB = 1 << 20
WAITS = "Delay_V3 = 20000;"     # no DELAY only since a process stood still


def peak_rss(pid):
    """Largest resident size of a process so far, in bytes."""
    text = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text).group(1)) * 1024


# -- first access ------------------------------------------------------------

@pytest.fixture(scope="module")
def deep_source():
    """16 levels of 1000-entry directories; the file lies at the bottom."""
    tree = Tree()
    parent = tree.root
    for level in range(16):
        for i in range(999):
            tree.file(parent, b"f%03d" % i, b"x")
        parent = tree.mkdir(parent, b"down")
    tree.file(parent, b"deep", b"the bottom")
    with FakeServer(tree) as server:
        yield server


def test_first_byte_asks_for_names_only(deep_source, new_migration, fresh_dir):
    m = new_migration(deep_source.url(), fresh_dir, fsal_more=WAITS).init().start()
    deep_source.reset_counts()
    with m.client("v3") as c:
        fh = c.lookup_path(b"down/" * 16 + b"deep")
        data, eof = c.read(fh, 0, 4096)
        assert data == b"the bottom" and eof
        assert c.delays == 0
    counts = deep_source.counts
    assert counts["READDIRPLUS"] == counts["READDIR"] == 0, counts
    assert counts["LOOKUP"] == 17, counts
    assert counts["READ"] == 1, counts
    m.audit()


# -- listing -----------------------------------------------------------------

def fill_directory(path, count):
    path.mkdir()
    for i in range(count):
        os.close(os.open(path / ("n%06d" % i), os.O_CREAT | os.O_WRONLY, 0o644))
        if i % 7 == 0:
            os.truncate(path / ("n%06d" % i), 10)


def test_1000_entries_without_delay(old_server, loop_xfs, new_migration, fresh_dir):
    """Once in five times at least: a machine may be too busy."""
    tree = loop_xfs.path / "thousand"
    tree.mkdir()
    for number in range(5):
        fill_directory(tree / ("d%d" % number), 1000)
    m = new_migration(old_server(tree).url(), fresh_dir).init().start()
    with m.client("v3") as c:
        for number in range(5):
            fh = c.fh("d%d" % number)
            before = c.delays
            assert c.names(fh) == [b"n%06d" % i for i in range(1000)]
            if c.delays == before:
                break
        else:
            pytest.fail("each of five listings with a delay")
    m.audit()


def test_100000_entries_with_delay_then_whole(old_server, loop_xfs, new_migration, fresh_dir):
    tree = loop_xfs.path / "hundredthousand"
    fill_directory(tree, 100000)
    m = new_migration(old_server(tree).url(), fresh_dir).init().start()
    with m.client("v3") as c:
        seen = collections.Counter(e.name for e in c.patient(300).listdir(b"", attrs=False))
        assert c.delays > 0
    assert len(seen) == 100000
    assert set(seen.values()) == {1}
    assert min(seen) == b"n000000" and max(seen) == b"n099999"
    m.audit()


# -- recovery ----------------------------------------------------------------

def start_work(m):
    """Of the retriever, from its start until it answers: ms of all its threads on a processor.
    (How long that takes says more of the machine.)"""
    m.start_retriever(wait=False)
    wait_until(lambda: m.socket.exists() and m.status()["state"] == "migrating", 60,
               interval=0.005)
    tasks = pathlib.Path("/proc/%d/task" % m.retriever.pid).glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def recovery_work(m):
    m.start_retriever()
    works = []
    for _ in range(5):
        m.kill_retriever()
        works.append(start_work(m))
    m.kill_retriever()
    return min(works)


def test_recovery_and_crawler_with_a_million_pending(new_migration, new_volume):
    """Start-up does not depend on the journal's length; neither does memory."""
    tree = Tree()
    tree.file(tree.root, b"f", b"x")
    path = new_volume("xfs", "4G").path
    with FakeServer(tree) as source:
        few, many = path / "few", path / "many"
        few.mkdir()
        many.mkdir()
        small = new_migration(source.url(), few).init()
        large = new_migration(source.url(), many).init()
        journal = many / ".postcopy" / "journal" / "data.mdb"
        before = journal.stat().st_blocks * 512
        for m, count in ((small, 10_000), (large, 1_000_000)):
            subprocess.run([JOURNALPAD, m.volume, str(count)], check=True)
        per_entry = (journal.stat().st_blocks * 512 - before) / 1e6
        assert per_entry < 300, "%.0f bytes an entry" % per_entry
        assert large.tool("counts", many)["pending"] == 1_000_001

        works = recovery_work(large), recovery_work(small)
        print("recovery, 1M against 10k entries: %.1f and %.1f ms of work; %.0f bytes an entry"
              % (*works, per_entry))
        assert works[0] < 3 * works[1], works    # 100 times the entries

        large.start_retriever()
        crawler = large.start_crawler()
        done = wait_until(lambda: large.status()["done"] >= 200_000 and peak_rss(crawler.pid),
                          600, "200000 entries worked off")
        print("crawler's peak: %.1f MiB" % (done / MIB))
        assert done < 64 * MIB
        crawler.send_signal(signal.SIGTERM)
        assert crawler.wait(60) == 0


# -- memory ------------------------------------------------------------------

def test_retriever_memory_with_64_fills(old_server, loop_xfs, new_migration, fresh_dir):
    tree = loop_xfs.path / "large"
    tree.mkdir()
    for i in range(64):
        with open(tree / ("big%02d" % i), "wb") as f:
            f.truncate(16 * MIB)
            f.write(os.urandom(4096))
    with Proxy.for_server(old_server(tree)) as proxy:
        m = new_migration(proxy.url(), fresh_dir, conf="fill_workers = 64\n"
                          "call_timeout = 60000\n").init().start_retriever()
        proxy.hold("READ")
        crawler = m.start_crawler("--workers", "64")
        wait_until(lambda: m.status()["active"] >= 48, what="48 fills at a time")
        proxy.release()
        assert crawler.wait(300) == 0
    peak = peak_rss(m.retriever.pid)
    print("retriever's peak: %.1f MiB" % (peak / MIB))
    assert peak < 128 * MIB
    m.audit(complete=True)


# -- after completion --------------------------------------------------------

def syscalls_of(server, work):
    """Calls of the server's threads during work(), by name."""
    out = server.workdir / "strace.out"
    tracer = subprocess.Popen(["strace", "-f", "-c", "-o", str(out), "-p", str(server.pid)],
                              stderr=subprocess.PIPE, text=True)
    try:
        assert "attached" in tracer.stderr.readline()
        work()
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=300)
    calls = {}
    for line in out.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[0][0].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = int(fields[3])
    return calls


# waits and wake-ups of thread pools, and their threads: how many there are depends on timing
SCHEDULING = {"futex", "epoll_wait", "clock_nanosleep", "restart_syscall", "poll", "sched_yield",
              "rt_sigreturn", "epoll_ctl", "madvise", "munmap", "mmap", "mprotect", "brk",
              "nanosleep", "getrusage", "clock_gettime", "gettimeofday", "epoll_pwait", "read",
              "write", "rt_sigprocmask", "clone3", "rseq", "set_robust_list", "prctl", "exit",
              "sched_getaffinity"}


def test_complete_volume_costs_no_system_call(old_server, loop_xfs, new_migration, new_server,
                                              fresh_dir):
    tree = loop_xfs.path / "plain"
    tree.mkdir()
    for i in range(200):
        (tree / ("f%03d" % i)).write_bytes(b"x" * 5000)
    m = new_migration(old_server(tree).url(), fresh_dir).init().start()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", what="complete")
    m.server.restart()                   # cold caches on both sides
    plain = new_server("plain", m.volume, fsal="vfs")

    def load(server):
        with server.client("v3") as c:
            def work():
                for i in range(200):
                    fh = c.lookup_path(b"f%03d" % i)
                    c.getattr(fh)
                    assert c.read(fh, 0, 8192)[0] == b"x" * 5000
            return syscalls_of(server, work)

    stub, vfs = load(m.server), load(plain)
    names = (set(stub) | set(vfs)) - SCHEDULING
    assert "open_by_handle_at" in names, "strace saw nothing of the work: %s" % stub
    # threads of Ganesha's own make a call now and then; one more for each of the
    # 200 look-ups, getattrs or reads would be 200 more
    more = {n: (stub.get(n, 0), vfs.get(n, 0)) for n in names
            if stub.get(n, 0) - vfs.get(n, 0) > 10}
    assert not more, "STUB, VFS: %s" % more
