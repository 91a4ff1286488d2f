# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client's read of a stub costs: looks at its record, in all processes together."""
import contextlib
import signal
import subprocess

import pytest

from lib.expect import same
from lib.world import BothWorld

WORLD = BothWorld
ATTR_CACHE = 60
TRIES = 6       # the least counts: a process may do something else meanwhile, or be slow


def looks(world, pids, work):
    """How often a stub record is read during work()."""
    out = world.m.workdir / "looks.strace"
    tracer = subprocess.Popen(
        ["strace", "-f", "-e", "trace=getxattr,fgetxattr", "-o", str(out),
         *(word for pid in pids for word in ("-p", str(pid)))],
        stderr=subprocess.PIPE, text=True)
    try:
        for _pid in pids:
            assert "attached" in tracer.stderr.readline()
        work()
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=60)
    return len([line for line in out.read_text().splitlines()
                if '"trusted.postcopy"' in line and "EBADF" not in line])


def cold_reads(case, world, pid, opened):
    """The looks that a read of 4 KiB takes, of several files of which nothing is here."""
    names = ["f%d" % i for i in range(TRIES)]
    for name in names:
        case.file(name)
    case.list()
    pids, found = (pid, world.m.retriever.pid), []
    for name in names:
        with opened(case.path(name)) as read:
            def work():
                same(read(), case.data(name)[:4096])
            found.append(looks(world, pids, work))
            if found[-1] <= 4:
                break
    return found


@pytest.mark.parametrize("client", ["v3", "v4.1"], indirect=True)
def test_a_cold_read_over_nfs(case, client, world):
    @contextlib.contextmanager
    def opened(path):
        fh = client.fh(path)
        if client.proto == "v3":
            client.getattr(fh)
            yield lambda: client.read(fh, 0, 4096)[0]
        else:
            f = client.open(path)
            client.getattr(fh)
            yield lambda: client.read(f, 0, 4096)[0]
            client.close_file(f)
    found = cold_reads(case, world, world.m.server.pid, opened)
    assert 2 <= min(found) <= 4, found


def test_a_cold_read_over_smb(case, smb, world):
    @contextlib.contextmanager
    def opened(path):
        with smb.open(path) as f:
            yield lambda: f.read(0, 4096)
    found = cold_reads(case, world, world.smbd.pid_of(smb), opened)
    assert 2 <= min(found) <= 4, found
