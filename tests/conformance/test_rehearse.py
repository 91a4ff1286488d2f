# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy rehearse`: what it sees of old servers is there, what limits them is named, and
nothing is written anywhere. How good its predictions are: test_predict.py."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from lib import smbd
from lib.ports import free_port
from lib.programs import POSTCOPY, VOLUME_TOOL, WORKER, copy_program
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.hooks import Gate, delay

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
MIB = 1 << 20
TIME = "10"             # at most: it ends when all is read
FEW_CALLS = "connections = 1\ninflight = 8\n"       # the crawler's: 6 of them


def argv(*options, program=POSTCOPY):
    return ["/usr/bin/python3", str(program), "rehearse", *map(str, options)]


def rehearse(*options, exit=0, before=()):
    return said(subprocess.run([*before, *argv(*options, "--json")], capture_output=True,
                               stdin=subprocess.DEVNULL, timeout=300), exit)


def said(done, exit):
    assert done.returncode == exit, done
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1, done
    return json.loads(done.stdout)


def url(server):
    return "--source", server.url()


def grow(tree, dirs, files, content=b"x" * 5000):
    for i in range(dirs):
        d = tree.mkdir(tree.root, "d%d" % i)
        for k in range(files):
            tree.file(d, "f%d" % k, content)


@pytest.fixture
def config(tmp_path):
    def make(text):
        path = tmp_path / "postcopy.conf"
        path.write_text(text)
        return "--config", path
    return make


@pytest.fixture
def fake():
    """It must never be asked to change anything."""
    tree = Tree()
    with FakeServer(tree) as server:
        yield server
        assert server.writes == 0
        server.clear_hooks()


# -- what is there ----------------------------------------------------------------------

def test_all_of_a_small_tree(fake):
    grow(fake.tree, 20, 30)
    d = fake.tree.mkdir(fake.tree.root, "other")
    fake.tree.file(d, "large", b"y" * (3 * MIB))
    fake.tree.file(d, "empty")
    fake.tree.symlink(d, "link", "nowhere")
    a = rehearse(*url(fake), "--minutes", TIME)
    seen, p = a["seen"], a["prediction"]
    assert (seen["objects"], seen["bytes"]) == (1 + 21 + 603, 600 * 5000 + 3 * MIB), a
    assert (seen["directories"], seen["directories_listed"]) == (22, 22)
    assert (seen["small_files"], seen["large_files"]) == (600, 1)
    assert p["exact"] and p["objects"] == [625] * 3 and p["bytes"] == [seen["bytes"]] * 3
    assert seen["bytes_read"] >= seen["bytes"]                  # some of it again
    assert a["complete"] and a["ok"] and not a["stopped"]
    assert seen["files_failed"] == seen["directories_failed"] == seen["bad_names"] == 0
    assert set(a["phases"]) >= {"list", "small", "large"}
    assert a["samples"][-1][1:] == [625, seen["bytes"], 601, seen["bytes"]]
    # each directory once, each file not more often than it is measured
    assert fake.counts["READDIRPLUS"] <= 2 * 22 and fake.counts["WRITE"] == 0


def test_for_people(fake):
    grow(fake.tree, 12, 5)
    done = subprocess.run(argv(*url(fake), "--minutes", TIME), capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0].endswith("was rehearsed; nothing was written"), lines
    for name, text in (("seen", "73 objects in 13 directories"), ("in all", "73 objects"),
                       ("takes", "not known: all of it was read within"), ("limit", ""),
                       ("listing", "objects/s"), ("small files", "files/s")):
        assert any(re.match(r"%s +.*%s" % (name, re.escape(text)), x) for x in lines), (name, lines)


def test_a_file_with_two_names_is_one(fake):
    d = fake.tree.mkdir(fake.tree.root, "d")
    f = fake.tree.file(d, "a", b"x" * 1000, nlink=2)
    fake.tree.link(d, "b", f)
    a = rehearse(*url(fake), "--minutes", TIME)
    assert (a["seen"]["objects"], a["seen"]["bytes"]) == (3, 1000)


def test_what_cannot_be_read_is_told(fake):
    grow(fake.tree, 1, 3)
    fake.check_permissions = fake.root_squash = True
    fake.tree.file(fake.tree.root, "secret", b"x" * 10, mode=0o600)
    fake.tree.mkdir(fake.tree.root, "closed", mode=0o700)
    a = rehearse(*url(fake), "--minutes", TIME)
    seen = a["seen"]
    assert (seen["files_failed"], seen["files_denied"], seen["directories_failed"]) == (1, 1, 1)
    assert not a["prediction"]["exact"]


@pytest.fixture(scope="module")
def tree(new_volume):
    top = new_volume("xfs", "512M", options="noatime").path / "tree"
    for i in range(40):
        (top / ("d%d" % (i % 8)) / ("e%d" % i)).mkdir(parents=True)
        for k in range(10):
            (top / ("d%d" % (i % 8)) / ("e%d" % i) / ("f%d" % k)).write_bytes(b"z" * 3000)
    (top / "large").write_bytes(b"l" * (2 * MIB))
    return top


SEEN = {"objects": 1 + 8 + 40 + 400 + 1, "bytes": 400 * 3000 + 2 * MIB, "directories_listed": 49,
        "small_files": 400, "large_files": 1, "files_failed": 0, "directories_failed": 0}


def stats(top):
    return {os.path.join(d, n): os.lstat(os.path.join(d, n))
            for d, dirs, files in os.walk(top) for n in dirs + files}


def expect_tree(a, tree, before):
    assert {name: a["seen"][name] for name in SEEN} == SEEN
    assert a["complete"] and a["prediction"]["exact"]
    assert stats(tree) == before                    # mounted noatime: not even these move


def test_a_real_nfs_server(old_server, tree):
    before = stats(tree)
    expect_tree(rehearse(*url(old_server(str(tree))), "--minutes", TIME), tree, before)


def test_a_file_system_that_is_mounted(tree):
    before = stats(tree)
    a = rehearse("--source", "file://%s" % tree, "--minutes", TIME)
    expect_tree(a, tree, before)
    assert a["prediction"]["limit"] in ("source-disk", "machine", "unknown")


@pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")
def test_a_real_smb_server(new_samba, tree, tmp_path, config):
    login = tmp_path / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    before = stats(tree)
    a = rehearse("--source", new_samba("old", tree).url(), "--minutes", TIME,
                 *config('smb_credentials = "%s"\nsmb_worker = "%s"\n' % (login, WORKER)))
    expect_tree(a, tree, before)


# -- what limits ------------------------------------------------------------------------

def slow(fake, hook):
    for proc in ("READ", "READDIRPLUS"):
        fake.hook(proc, hook)


def facts(a):
    return json.dumps({"work": a["prediction"]["work"], "phases": a["phases"]}, indent=1)


def test_latency(fake, config):
    """Each call takes 50 ms, however many there are."""
    grow(fake.tree, 100, 3)
    slow(fake, delay(0.05))
    a = rehearse(*url(fake), "--minutes", TIME, *config(FEW_CALLS))
    w = a["prediction"]["work"]["small"]
    assert w["limit"] == "latency", facts(a)
    assert w["call_alone_ms"] >= 50 and w["inflight"] > 2
    assert fake.max_in_flight <= 8                  # and one more call for the root


def one_at_a_time(seconds, free=lambda call: False):
    """Those that are not free wait for each other, as for a disk's head."""
    lock = threading.Lock()

    def run(_server, call, answer):
        if not free(call):
            with lock:
                time.sleep(seconds)
        return answer()
    return run


def test_a_queue_at_the_old_server(fake, config):
    grow(fake.tree, 100, 3)
    slow(fake, one_at_a_time(0.03))
    a = rehearse(*url(fake), "--minutes", TIME, *config(FEW_CALLS))
    w = a["prediction"]["work"]["small"]
    assert w["limit"] in ("source-or-network", "source"), facts(a)
    assert w["call_ms"] > 1.6 * w["call_alone_ms"]


def test_the_old_servers_disk(fake, config):
    """What was read once comes out of its memory."""
    grow(fake.tree, 100, 3)
    had = set()

    def cached(call):
        known = call.proc == "READ" and call.node in had
        had.add(call.node)
        return known

    slow(fake, one_at_a_time(0.03, cached))
    a = rehearse(*url(fake), "--minutes", TIME, *config(FEW_CALLS))
    small, phase = a["prediction"]["work"]["small"], a["phases"]["small"]
    busy = phase["cpu_busy"] / phase["cpu_all"]     # with what else runs on this machine
    assert small["limit"] == "source-disk" or (small["limit"], busy >= 0.9) == ("machine", True), \
        facts(a)


# -- ends before the end ------------------------------------------------------------------

def start(*options):
    return subprocess.Popen(argv(*options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(fake, number):
    grow(fake.tree, 50, 5)
    slow(fake, delay(0.2))
    with start(*url(fake), "--minutes", "60", "--json") as child:
        assert any(re.search(rb"[1-9]\d+ objects in", line) for line in child.stderr)
        child.send_signal(number)
        out, _ = child.communicate(timeout=300)
    assert child.returncode == 130
    a = json.loads(out)
    assert a["stopped"] and a["ok"] and a["seen"]["objects"] > 10 and not a["complete"]


def test_interrupted_while_the_source_is_silent(fake):
    gate = Gate()
    grow(fake.tree, 50, 5)
    fake.hook("READ", gate)
    with start(*url(fake), "--minutes", "60", "--json") as child:
        wait_until(lambda: gate.waiting, 60, "a read")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
        gate.open()
    assert child.returncode == 130 and json.loads(out)["stopped"]


def test_killed(fake):
    """Nobody reads on for an answer that nobody gets."""
    gate = Gate()
    grow(fake.tree, 50, 5)
    fake.hook("READ", gate)             # else it might have come to its end
    with start(*url(fake), "--minutes", "60") as child:
        wait_until(lambda: gate.waiting, 60, "a read")
        tool = int(pathlib.Path("/proc/%d/task/%d/children" % (child.pid, child.pid)).read_text())
        child.kill()
        try:                            # both have our pipes
            child.communicate(timeout=300)
        finally:
            gate.open()
    wait_until(lambda: not pathlib.Path("/proc/%d" % tool).exists(), 60, "the end of the helper")


def test_the_source_goes_away(fake, config):
    grow(fake.tree, 50, 5)
    slow(fake, delay(0.2))
    with start(*url(fake), "--minutes", "60", "--json",
               *config("give_up_after = 2\ncall_timeout = 1000\n")) as child:
        assert any(re.search(rb"[1-9]\d+ objects in", line) for line in child.stderr)
        fake.stop()
        out, err = child.communicate(timeout=120)
        fake.start()
    assert child.returncode == 1
    assert b"the rehearsal broke off" in err
    a = json.loads(out)
    assert not a["ok"] and a["error"] == "source-failed" and a["seen"]["objects"] > 10
    assert "prediction" in a


# -- what is written to the new file system ------------------------------------------------

def room(top):
    st = os.statvfs(top)
    return st.f_bfree, st.f_ffree


def expect_empty(top, before):
    assert os.listdir(top) == []
    wait_until(lambda: room(top)[0] >= before[0] - 64 and room(top)[1] >= before[1] - 64, 60,
               "room as before")


def test_what_is_written_is_gone(fake, fresh_dir):
    grow(fake.tree, 10, 30)
    fake.tree.file(fake.tree.root, "large", b"y" * (20 * MIB))
    before = room(fresh_dir)
    a = rehearse(*url(fake), "--minutes", TIME, fresh_dir)
    assert a["complete"] and a["target"] == str(fresh_dir)
    assert a["phases"]["small"]["here_us"] > 0 and a["phases"]["large"]["here_us"] > 0
    expect_empty(fresh_dir, before)


def test_killed_while_it_writes(fake, fresh_dir):
    grow(fake.tree, 100, 30)
    fake.hook("READ", delay(0.05))
    before = room(fresh_dir)
    with start(*url(fake), "--minutes", "60", fresh_dir) as child:
        wait_until(lambda: fake.counts["READ"] > 100, 60, "reading")
        tool = int(pathlib.Path("/proc/%d/task/%d/children" % (child.pid, child.pid)).read_text())
        os.kill(tool, signal.SIGKILL)
        child.communicate(timeout=300)
    assert child.returncode == 128 + 9
    expect_empty(fresh_dir, before)


def test_the_new_file_system_is_full(fake, new_volume):
    top = new_volume("ext4", "8M").path / "d"
    top.mkdir()
    before = room(top)
    fake.tree.file(fake.tree.root, "large", b"y" * (24 * MIB))
    with start(*url(fake), "--minutes", "5", "--json", top) as child:
        out, err = child.communicate(timeout=120)
    assert child.returncode == 1 and b"%s: the rehearsal broke off: No space" % bytes(top) in err
    assert json.loads(out)["error"] == "target-failed"
    expect_empty(top, before)


# -- wrong input, and who may ------------------------------------------------------------

def test_one_line_says_why(fake):
    port = free_port()
    for uri, status, text in (
            ("nfs://127.0.0.1/x?nfsport=%d&mountport=%d" % (port, port), 13, "refused"),
            (fake.url().replace("/export", "/nothing"), 15 - 1, "showmount"),
            ("/local", 11, "/local"), ("smb://u:secret@h/s", 11, "password")):
        done = subprocess.run(argv("--source", uri), capture_output=True, text=True, timeout=120)
        lines = done.stderr.splitlines()
        assert (done.returncode, len(lines)) == (status, 1), done
        assert text in lines[0] and "secret" not in lines[0]
        a = json.loads(subprocess.run(argv("--source", uri, "--json"), capture_output=True,
                                      timeout=120).stdout)
        assert not a["ok"] and text in a["message"]


def test_the_new_file_system_is_none(fake, fresh_dir):
    (fresh_dir / "f").write_bytes(b"")
    for where, status in ((fresh_dir / "none", 30), (fresh_dir / "f", 31), ("/proc", None)):
        done = subprocess.run(argv(*url(fake), where), capture_output=True, text=True, timeout=300)
        assert done.returncode >= 30 and status in (None, done.returncode), done
        assert len(done.stderr.splitlines()) == 1 and str(where) in done.stderr
    assert not fake.counts["READDIRPLUS"]


@pytest.mark.parametrize("options", [("--minutes", "0"), ("--minutes", "x"), ("--minutes", "nan"),
                                     ("--minutes", "20000"), ("/srv/data", "/srv/more")])
def test_usage(fake, options):
    done = subprocess.run(argv(*url(fake), *options), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done


def test_without_root(fake, fresh_dir):
    """Who may read is the source's to say; of a file system root is needed for handles."""
    grow(fake.tree, 3, 3)
    fresh_dir.chmod(0o755)
    program = copy_program(POSTCOPY, fresh_dir)     # the build may stand in /root
    shutil.copy(VOLUME_TOOL, fresh_dir)
    a = said(subprocess.run([*NOBODY, *argv(*url(fake), "--minutes", TIME, "--json",
                                            program=program)], capture_output=True, timeout=120), 0)
    assert a["complete"]
    done = subprocess.run([*NOBODY, *argv("--source", "file:///", program=program)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 10 and "as root" in done.stderr
