# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/soak ends what it has started; tests/pauses leaves alone what a test has stopped."""
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import time
import types

from lib.processes import descendants, state
from lib.programs import TESTS
from lib.wait import wait_until

# One that hears no SIGINT, as a shell's jobs in the background, and one in a session of its own
RUN = """
trap '' INT
sleep 1000 & echo $! > %(where)s/deaf.new
setsid sleep 1000 & echo $! > %(where)s/apart.new
mv %(where)s/deaf.new %(where)s/deaf; mv %(where)s/apart.new %(where)s/apart
%(end)s
"""
LOADED = """
import importlib.machinery, importlib.util, sys, time
sys.path.insert(0, %(tests)r)
loader = importlib.machinery.SourceFileLoader("soak", %(tests)r + "/soak")
soak = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
loader.exec_module(soak)
"""
SOAK = LOADED + """
soak.command, soak.ORDERLY_S = lambda *_: ["bash", "-c", %(run)r], 1
sys.argv[1:] = ["--runs", "1", "--keep", %(keep)r]
sys.exit(soak.main())
"""


def loaded(name):
    loader = importlib.machinery.SourceFileLoader(name, str(TESTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def started(where, end):
    run = RUN % {"where": where, "end": end}
    soak = subprocess.Popen(
        [sys.executable, "-c", SOAK % {"tests": str(TESTS), "run": run, "keep": str(where)}],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: (where / "apart").exists(), 60, "a run")
    return soak, [int((where / name).read_text()) for name in ("deaf", "apart")]


def test_what_a_soak_has_started_ends_with_it(tmp_path):
    soak, pids = started(tmp_path, "wait")
    soak.send_signal(signal.SIGTERM)
    assert soak.wait(60) == 143, soak.stdout.read()
    assert [pid for pid in pids if state(pid)] == []


def test_what_a_run_leaves_ends_before_the_next(tmp_path):
    soak, pids = started(tmp_path, "exit 0")
    assert soak.wait(60) == 0, soak.stdout.read()
    assert [pid for pid in pids if state(pid)] == []


ORPHAN = """
bash -c 'sleep 0.1 & echo $! > %(where)s/orphan.new'
mv %(where)s/orphan.new %(where)s/orphan
while test -e /proc/$(cat %(where)s/orphan); do sleep 0.01; done
"""


def test_an_orphan_that_ends_is_gone(tmp_path):
    """Who waits for it looks for its number: a killed daemon's children, say."""
    soak, _pids = started(tmp_path, ORPHAN % {"where": tmp_path} + "exit 0")
    assert soak.wait(60) == 0, soak.stdout.read()


def test_a_pause_does_not_end_a_stop(monkeypatch):
    pauses = loaded("pauses")
    with subprocess.Popen(["sleep", "1000"]) as child:
        try:
            assert pauses.pause(child.pid, 0)
            wait_until(lambda: state(child.pid)[0] == "S", 60, "it goes on after a pause")
            # a test stops it meanwhile
            monkeypatch.setattr(pauses, "time", types.SimpleNamespace(
                sleep=lambda _: stop_again(child.pid)))     # of its own: wait_until() sleeps too
            assert pauses.pause(child.pid, 0)
            monkeypatch.undo()
            assert pauses.wanted_stopped(child.pid)
            assert state(child.pid)[0] == "T"
            os.kill(child.pid, signal.SIGCONT)
            wait_until(lambda: state(child.pid)[0] == "S", 60, "it goes on when the test says so")
        finally:
            child.kill()


def stop_again(pid):
    wait_until(lambda: state(pid)[0] == "T", 60, "it stands still")
    os.kill(pid, signal.SIGSTOP)


def test_a_pause_leaves_no_nsenter_stopped():
    """It has stopped itself, as its child was."""
    pauses = loaded("pauses")
    with subprocess.Popen(["nsenter", "--target", str(os.getpid()), "--pid", "sleep", "1000"],
                          start_new_session=True) as top:
        try:
            child = wait_until(lambda: next(iter(descendants(top.pid)), None), 60, "a child")
            os.kill(child, signal.SIGSTOP)
            wait_until(lambda: state(top.pid)[0] == "T", 60, "a stopped nsenter")
            pauses.release(descendants(os.getpid()))
            assert state(top.pid)[0] == "T"             # as long as its child is
            os.kill(child, signal.SIGCONT)
            pauses.release({top.pid: "T", child: "S"})
            wait_until(lambda: state(top.pid)[0] == "S", 60, "it goes on")
        finally:
            os.killpg(top.pid, signal.SIGKILL)


STANDS = LOADED + """
watch = soak.Standstills(beat=0.01, most=0.5)
watch.start()
print("begun", flush=True)
sys.stdin.readline()
while not any(seconds >= 1 for _since, seconds in watch.seen):
    time.sleep(0.01)
print(max(seconds for _since, seconds in watch.seen))
print(len(watch.since(0)), len(watch.since(2 ** 40)))
"""


def test_a_standstill_is_seen():
    watch = subprocess.Popen([sys.executable, "-c", STANDS % {"tests": str(TESTS)}], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert watch.stdout.readline() == "begun\n"
    watch.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 1.2, 60, "more than a second")
    watch.send_signal(signal.SIGCONT)
    said, _ = watch.communicate("\n", timeout=60)
    longest, counts = said.split("\n")[:2]
    assert float(longest) >= 1 and int(counts.split()[0]) >= 1 and counts.split()[1] == "0", said
