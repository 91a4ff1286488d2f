# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a retriever takes to start, on volumes of many files and journal entries."""
import json
import os
import socket
import statistics
import subprocess
import time

from lib.migration import Migration
from lib.programs import BUILD
from lib.volume import LoopVolume

JOURNALPAD = BUILD / "tests" / "tools" / "journalpad"
PER_DIR = 1000
COLD = 3


def make_files(volume, count):
    for first in range(0, count, PER_DIR):
        top = os.open(volume, os.O_RDONLY)
        name = "d%05d" % (first // PER_DIR)
        os.mkdir(name, dir_fd=top)
        here = os.open(name, os.O_RDONLY, dir_fd=top)
        for i in range(first, min(first + PER_DIR, count)):
            os.close(os.open("f%07d" % i, os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        os.close(top)


def answered(path):
    """Does a retriever answer at this control socket?"""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        try:
            s.connect(str(path))
        except OSError:
            return False
        s.sendall(b'{"cmd":"status"}\n')
        return bool(json.loads(s.makefile().readline() or "{}").get("ok"))


def start_seconds(m):
    """From the start of the retriever until it answers; it is killed then."""
    m.control.unlink(missing_ok=True)
    begin = time.monotonic()
    m.start_retriever(wait=False)
    while not answered(m.control):
        if m.retriever.poll() is not None:
            raise RuntimeError("retriever: " + m.log.read_text()[-1000:])
        if time.monotonic() - begin > 600:
            raise TimeoutError("the retriever does not answer")
        time.sleep(0.0005)
    taken = time.monotonic() - begin
    m.kill_retriever()
    return taken


def scan_seconds(m):
    begin = time.monotonic()
    m.tool("scan", m.volume)
    return time.monotonic() - begin


def measure(home, source, count, starts=0, scans=0):
    """A volume of so many files, with so many entries in its journal, of inodes that are gone:
    medians of that many starts, of COLD starts after a remount, and of scans after one."""
    with LoopVolume(home, "xfs", size="16G") as disk:
        volume = disk.path / "vol"
        volume.mkdir()
        m = Migration(home / "m", source.url(), volume).init()
        make_files(volume, count)
        subprocess.run([str(JOURNALPAD), str(volume), str(count)], check=True)
        start_seconds(m)
        seen = {"start": [start_seconds(m) for _ in range(starts)], "cold": [], "scan": []}
        for what, seconds, times in (("cold", start_seconds, COLD), ("scan", scan_seconds, scans)):
            for _ in range(times):
                disk.remount()
                seen[what].append(seconds(m))
        pending = m.tool("counts", volume)["pending"]
    return dict(files=count, pending=pending,
                **{what: statistics.median(times) for what, times in seen.items() if times})
