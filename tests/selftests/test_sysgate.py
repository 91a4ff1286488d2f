# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of the crash tests sees, numbers, kills, fails and copies what it says."""
import os
import subprocess
import sys

import pytest

from lib.programs import BUILD

SYSGATE = BUILD / "tests" / "crash" / "sysgate"

# What the gated program begins with: tell() is a command to the gate.
BEGIN = """
import os, subprocess
gate = os.open(%r, os.O_WRONLY)
def tell(text):
    os.write(gate, text.encode())
os.chdir(%r)
"""


@pytest.fixture
def gated(fresh_dir, tmp_path):
    """gated(program) -> (exit status, its output, lines of the gate's log)."""
    def run(program):
        control, log = tmp_path / "control", tmp_path / "log"
        control.touch()
        done = subprocess.run(
            [str(SYSGATE), "-l", str(log), "-c", str(control), "--", sys.executable, "-c",
             BEGIN % (str(control), str(fresh_dir)) + program],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr, log.read_text().splitlines()
    return run


def calls(log):
    """(number, call) of each call in the log."""
    return [(int(line.split()[1]), line.split()[5]) for line in log if line.startswith("call ")]


def test_calls_are_numbered_in_their_order(gated):
    status, out, log = gated("""
tell("watch " + os.getcwd())
fd = os.open("a", os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"x", 0)
tell("mark between")
os.fsync(fd)
os.rename("a", "b")
os.setxattr("b", "trusted.t", b"1")
os.utime("b")
os.mkdir("d")
os.unlink("b")
open("/dev/null", "w").write("not on the volume")
tell("unwatch")
os.rmdir("d")
""")
    assert (status, out) == (0, "")
    assert calls(log) == list(enumerate(
        ["openat", "pwrite64", "fsync", "rename", "setxattr", "utimensat", "mkdir", "unlink"], 1))
    assert log.index("mark between") == [i for i, line in enumerate(log)
                                         if " fsync " in line][0] - 1


def test_opening_for_reading_is_no_change(gated, fresh_dir):
    (fresh_dir / "f").write_text("x")
    status, _out, log = gated("tell('watch ' + os.getcwd())\nopen('f').read()\n")
    assert (status, calls(log)) == (0, [])


def test_an_unnamed_file_and_its_name(gated, fresh_dir):
    status, out, log = gated("""
tell("watch " + os.getcwd())
fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.link("/proc/self/fd/%d" % fd, "named", src_dir_fd=0, follow_symlinks=True)
os.setxattr("/proc/self/fd/%d" % fd, "trusted.t", b"1")
""")
    assert (status, out) == (0, "")
    assert [what for _n, what in calls(log)] == ["openat", "linkat", "setxattr"]
    assert (fresh_dir / "named").exists()


def test_one_process_is_killed_instead_of_its_call(gated, fresh_dir):
    status, out, log = gated("""
tell("watch " + os.getcwd())
tell("kill 3 sh")
print(subprocess.run(["sh", "-c", "echo 1 > one; echo 2 > two; echo 3 > three"]).returncode)
print(sorted(os.listdir(".")))
""")
    assert (status, out) == (0, "-9\n['one']\n")
    assert any(line.startswith("killed ") for line in log)
    assert (fresh_dir / "one").read_text() == "1\n"


def test_all_are_killed_but_others(gated):
    status, out, _log = gated("""
tell("watch " + os.getcwd())
tell("killall 1 sleep tail")
sleepers = [subprocess.Popen(["sleep", "600"]), subprocess.Popen(["tail", "-f", "/dev/null"])]
while not all(open("/proc/%d/comm" % p.pid).read() in ("sleep\\n", "tail\\n") for p in sleepers):
    pass
os.mkdir("d")
print([p.wait() for p in sleepers])
""")
    assert (status, out) == (0, "[-9, -9]\n")


def test_a_call_fails(gated, fresh_dir):
    status, out, log = gated("""
import errno
tell("watch " + os.getcwd())
tell("fail 2 python ENOSPC")
for name in "abc":
    try:
        os.mkdir(name)
    except OSError as err:
        print(name, errno.errorcode[err.errno])
""")
    assert (status, out) == (0, "b ENOSPC\n")
    assert sorted(os.listdir(fresh_dir)) == ["a", "c"]
    assert "failed 2" in log


def test_what_is_no_command_is_refused(gated):
    status, out, _log = gated("""
try:
    tell("open the gate")
except OSError as err:
    print(err.errno)
""")
    assert (status, out) == (0, "22\n")


def test_the_exit_status_is_the_programs(gated):
    assert gated("os._exit(7)")[0] == 7
