# SPDX-License-Identifier: GPL-3.0-or-later
"""A wide directory of an SMB source: listed through the new smbd and through the new Ganesha
each name is there exactly once, the old server is asked once for the list and once for
each entry, for several at a time, and nobody needs much memory for it.

Of POSTCOPY_WIDE entries, 2000 for ./check; POSTCOPY_WIDE=100000 takes minutes.
"""
import os
import pathlib
import re
import subprocess

import pytest

from lib import smbd
from lib.migration import Migration
from lib.programs import MODULES, STUBTOOL, WORKER
from lib.smbcount import CREATE, QUERY_DIRECTORY, Counter
from lib.smbd import STACK

ENTRIES = int(os.environ.get("POSTCOPY_WIDE", 2000))
NAMES = {"a file of the wide directory, number %06d" % i for i in range(ENTRIES)}
MEMORY_KB = 150 << 10           # of each process
PAGE = 400                      # names that fit one answer of the old server, at least

pytestmark = pytest.mark.skipif(not WORKER.exists() or not (MODULES / "stub.so").exists(),
                                reason="built without Samba's headers")


@pytest.fixture(scope="module")
def old(new_samba, new_volume):
    top = new_volume("xfs", "1G", options="noatime").path / "tree"
    (top / "wide").mkdir(parents=True)
    for name in NAMES:
        os.mknod(top / "wide" / name)
    counter = Counter(new_samba("old", top, readonly=True).port)
    yield counter
    counter.close()


@pytest.fixture
def m(moddir, new_volume, rpcshim, old):
    login = moddir / "login"
    with open(os.open(login, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write("username = root\npassword = %s\n" % smbd.PASSWORD)
    top = new_volume("xfs", "2G").path / "volume"
    top.mkdir()
    m = Migration(moddir / top.parent.parent.name, "smb://127.0.0.1:%d/share" % old.port, top,
                  shim=rpcshim, conf='smb_credentials = "%s"\nsmb_worker = "%s"\n' % (
                      login, WORKER))
    yield m.init().start()
    m.stop()


@pytest.fixture
def samba(m):
    with smbd.Samba(m.workdir / "new-smb", module_dir=MODULES,
                    shares=[smbd.Share(str(m.volume), vfs=STACK)]) as server:
        yield server


def highest(pid):
    """The most memory that a process ever had, in KiB."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/%d/status" % pid).read_text())[1])


def children(pid):
    return [int(p) for t in pathlib.Path("/proc/%d/task" % pid).iterdir()
            for p in (t / "children").read_text().split()]


def once(names):
    assert len(names) == ENTRIES and set(names) == NAMES


def by_smb(samba):
    with samba.client(timeout=600) as c:
        once([e.name for e in c.listdir("wide") if e.name not in (".", "..")])
        assert highest(samba.pid_of(c)) < MEMORY_KB


def by_nfs(m):
    with m.client("v3", patience=600) as c:
        once([os.fsdecode(e.name) for e in c.listdir(b"wide")])


@pytest.mark.parametrize("first", ["smb", "nfs"])
def test_each_name_once(m, samba, old, first):
    before = old.counts.copy()
    old.most = 0
    if first == "smb":
        by_smb(samba)
        by_nfs(m)
    else:
        by_nfs(m)
        by_smb(samba)
    asked = old.counts - before
    assert asked[QUERY_DIRECTORY] <= ENTRIES / PAGE + 10
    assert ENTRIES <= asked[CREATE] <= ENTRIES + 20        # each once, the root and so on
    assert sum(asked.values()) < 6 * ENTRIES
    assert old.most > 2                     # several at a time, though the client asks for one
    for pid in (m.retriever.pid, *children(m.retriever.pid)):
        assert highest(pid) < MEMORY_KB, pathlib.Path("/proc/%d/cmdline" % pid).read_bytes()


def test_who_looks_here_and_there_gets_no_more(m, samba, old):
    """Only entries that are asked for in order make their neighbours come."""
    for path in ("", "wide"):
        subprocess.run([str(STUBTOOL), "ask", str(m.volume), path, "list"], check=True, timeout=120)
    names = os.listdir(m.volume / "wide")[::-80][:25]      # backwards
    before = old.counts[CREATE]
    with m.client("v3") as c:
        for name in names:
            assert c.getattr(b"wide/" + os.fsencode(name)).size == 0
    m.drain()
    assert len(names) <= old.counts[CREATE] - before <= len(names) + 3
