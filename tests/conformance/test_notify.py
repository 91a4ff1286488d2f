# SPDX-License-Identifier: GPL-3.0-or-later
"""What the daemons tell the service manager: when they are ready, what there is to do, and that
they move.  What they wait for (the old server, the disk) is no reason to end them; what holds
them up inside is."""
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from lib.programs import CRAWLER
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

PATIENCE_S = 2                  # of the watchdog: a beat each half second
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


class Manager:
    """The service manager's end of the notify socket."""

    def __init__(self, path):
        self.path, self.said, self.beats = path, [], 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.on = {}            # called with the first message that has the key
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            text = self.sock.recv(4096).decode()
            for key in [k for k in self.on if k in text]:
                self.on.pop(key)()
            if text == "WATCHDOG=1":
                self.beats += 1
            elif text:
                self.said.append(text)

    def env(self):
        return ["env", "NOTIFY_SOCKET=%s" % self.path, "WATCHDOG_USEC=%d" % (PATIENCE_S * 10**6)]

    def wait(self, text):
        wait_until(lambda: any(text in said for said in self.said), 60, text)

    def heard(self):
        """How many beats there were, with those that wait in the socket."""
        mark = "MARK %d" % time.monotonic_ns()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(mark.encode(), str(self.path))
        wait_until(lambda: mark in self.said, 60, mark)
        return self.beats

    def beats_on(self, n=4):
        before = self.beats
        wait_until(lambda: self.beats >= before + n, 60, "%d beats of the watchdog" % n)


@contextlib.contextmanager
def frozen_thread(pid, name):
    """One thread of the process stands still; the others do not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    tid = next(int(t.name) for t in pathlib.Path("/proc/%d/task" % pid).iterdir()
               if (t / "comm").read_text().strip() == name)
    assert libc.ptrace(SEIZE, tid, None, None) == 0, os.strerror(ctypes.get_errno())
    try:
        assert libc.ptrace(INTERRUPT, tid, None, None) == 0
        os.waitpid(tid, WALL)
        yield
    finally:
        libc.ptrace(DETACH, tid, None, None)


@pytest.fixture
def fake():
    tree = Tree()
    for i in range(50):
        tree.file(tree.root, "f%d" % i, Pattern(1000 + i, seed=i + 1))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def manager(tmp_path):
    return Manager(tmp_path / "notify")


@pytest.fixture
def m(new_migration, fresh_dir, fake, manager):
    return new_migration(fake.url(), fresh_dir, wrap=manager.env()).init()


def listens(m):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asks, \
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        asks.connect(str(m.socket))
        control.connect(str(m.control))


def test_ready_is_said_when_it_listens(m, manager):
    found = []
    manager.on["READY=1"] = lambda: found.append(listens(m))
    m.start_retriever()
    manager.wait("READY=1")
    assert found == [None]
    manager.wait("STATUS=1 objects to go, 0 of them parked")    # the root
    m.retriever.send_signal(signal.SIGTERM)
    assert m.retriever.wait(60) == 0
    manager.wait("STOPPING=1")


def test_ready_is_not_said_by_one_that_cannot_serve(m, manager, tmp_path):
    m.start_retriever()
    manager.wait("READY=1")
    other = Manager(tmp_path / "other")
    done = subprocess.run([*other.env(), *m.retriever.args[len(m.wrap):]], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 1 and "another retriever is serving" in done.stderr
    assert not other.said and not other.beats


def test_a_reload_is_begun_and_ended(m, manager):
    m.start_retriever()
    manager.wait("READY=1")
    manager.said.clear()
    m.retriever.send_signal(signal.SIGHUP)
    manager.wait("READY=1")
    assert manager.said[0].startswith("RELOADING=1\nMONOTONIC_USEC="), manager.said
    assert int(manager.said[0].rpartition("=")[2]) <= time.monotonic_ns() // 1000


def test_finish_ends_it_with_a_status_of_its_own(m, manager):
    """The unit starts it again whatever happens, but not then."""
    m.start_retriever()
    m.crawl()
    manager.wait("STATUS=complete")
    m.postcopy("finish", m.volume)
    assert m.retriever.wait(60) == 3


def test_what_it_waits_for_is_no_reason_to_end_it(m, manager, fake, loop_xfs):
    """All workers wait: for the old server, then for a disk that takes nothing."""
    m.start_retriever()
    crawler = m.start_crawler()
    fake.pause()
    manager.beats_on()
    fake.resume()
    subprocess.run(["fsfreeze", "--freeze", str(loop_xfs.path)], check=True)
    try:
        manager.beats_on()
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(loop_xfs.path)], check=True)
    assert crawler.wait(120) == 0


def test_a_machine_that_stood_still_is_no_reason(m, manager):
    m.start_retriever()
    manager.beats_on()
    m.retriever.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: "T" in pathlib.Path("/proc/%d/stat" % m.retriever.pid).read_text()
                   .rpartition(")")[2].split()[0], 60, "a stopped retriever")
        before = manager.heard()
        end = time.monotonic() + PATIENCE_S
        wait_until(lambda: time.monotonic() > end, 60, "time")
        assert manager.heard() == before
    finally:
        m.retriever.send_signal(signal.SIGCONT)
    manager.beats_on()
    assert "stands still" not in m.log.read_text()


def test_a_thread_that_hangs_is_one(m, manager):
    m.allow.append("stands still")
    m.start_retriever()
    manager.beats_on()
    with frozen_thread(m.retriever.pid, "asks"):
        wait_until(lambda: "the thread that reads asks stands still" in m.log.read_text(), 60,
                   "that it is said")
        before = manager.heard()
        end = time.monotonic() + PATIENCE_S
        wait_until(lambda: time.monotonic() > end, 60, "time")
        assert manager.heard() == before
    manager.beats_on()


def test_the_crawler(m, manager, fake, tmp_path):
    m.start_retriever()
    own = Manager(tmp_path / "crawler-notify")
    fake.pause()                                        # all that it asks for waits
    crawler = subprocess.Popen([*own.env(), str(CRAWLER), str(m.volume)], start_new_session=True,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        own.wait("READY=1")
        own.wait("objects to go, 0 of them parked")
        own.beats_on()
        m.kill_retriever()
        own.wait("waiting for the retriever")
        own.beats_on()
        fake.resume()
        m.start_retriever()
        assert crawler.wait(120) == 0
        own.wait("STOPPING=1")
    finally:
        crawler.kill()
        crawler.wait()
