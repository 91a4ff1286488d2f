# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy init` and `postcopy finish` killed at their system calls: repeated, they do what
they were to do, or say what to do.  Every STEP-th call that changes something is a point;
POSTCOPY_KILLS=all takes them all."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from lib.programs import BUILD, POSTCOPY
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

SYSGATE = BUILD / "tests" / "crash" / "sysgate"
STEP = 1 if os.environ.get("POSTCOPY_KILLS") == "all" else 9

# The command with a list of volumes of its own, all below the gate; a command to which is one
# write(2).
COMMAND = """
import importlib.machinery, importlib.util, pathlib, sys
volumes, control, *commands, argv = sys.argv[1:5] + [sys.argv[5:]]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("postcopy", %r)
postcopy = importlib.util.module_from_spec(importlib.util.spec_from_loader("postcopy", loader))
sys.modules["postcopy"] = postcopy
loader.exec_module(postcopy)
postcopy.VOLUMES, postcopy.LISTS = pathlib.Path(volumes), pathlib.Path(volumes).parent
sys.argv = ["postcopy", *argv]
for command in commands:
    if command:
        with open(control, "wb", 0) as gate:
            gate.write(command.encode())
sys.exit(postcopy.main())
""" % str(POSTCOPY)


class Gated:
    """postcopy below the gate, and its list of volumes, on the watched file system."""

    def __init__(self, where, workdir):
        self.volumes = pathlib.Path(where) / "etc" / "volumes"
        self.where, self.control, self.log = where, workdir / "control", workdir / "gate.log"
        self.control.touch()

    def run(self, *argv, kill=""):
        return subprocess.run(
            [str(SYSGATE), "-l", str(self.log), "-c", str(self.control), "--", sys.executable,
             "-c", COMMAND, str(self.volumes), str(self.control), "watch %s" % self.where, kill,
             *map(str, argv)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120)

    def calls(self):
        return [line.split() for line in self.log.read_text().splitlines()
                if line.startswith("call ")]

    def points(self, name):
        """The last run's calls of this process by number, or of all."""
        return range(1, sum(name in ("", call[2]) for call in self.calls()) + 1, STEP)

    def listed(self):
        return self.volumes.read_text().splitlines() if self.volumes.exists() else []


@pytest.fixture
def gated(fresh_dir, tmp_path):
    return Gated(fresh_dir, tmp_path)


@pytest.fixture
def old_server():
    tree = Tree()
    tree.file(tree.root, "f", Pattern(3000))
    tree.mkdir(tree.root, "d", mode=0o750)
    with FakeServer(tree) as server:
        yield server


def seen(path):
    """What clients see of it, that a killed command may not have changed."""
    st = path.stat()
    return st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns


VICTIMS = {"": "killall %d python3 postcopy-volume", "postcopy-volume": "kill %d postcopy-volume",
           "python3": "kill %d python3"}


@pytest.mark.parametrize("who", VICTIMS)
def test_init(gated, old_server, new_migration, fresh_dir, who):
    """The volume is there afterwards as if nothing had been, and in the list once."""
    def init(m, kill=""):
        return gated.run("init", "--json", "--source", m.url, "--socket", m.socket,
                         "--control", m.control, m.volume, kill=kill)

    (fresh_dir / "whole").mkdir()
    done = init(new_migration(old_server.url(), fresh_dir / "whole"))
    assert done.returncode == 0, done
    names = sorted(os.listdir(fresh_dir / "whole" / ".postcopy"))
    whole = seen(fresh_dir / "whole")
    for n in gated.points(who):
        volume = fresh_dir / ("v%d" % n)
        volume.mkdir()
        m = new_migration(old_server.url(), volume)
        init(m, VICTIMS[who] % n)
        point = "%s killed at %d: %s" % (who, n, gated.calls()[-1])
        done = init(m)
        assert done.returncode == 0, (point, done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        assert gated.listed().count(str(volume)) == 1, point
        assert sorted(os.listdir(volume / ".postcopy")) == names, point
        scan = m.scan()
        assert scan["clean"] and (scan["objects"], scan["journal"]) == (1, 1), (point, scan)
        assert "uuid=%s\n" % answer["uuid"] in (volume / ".postcopy/volume.conf").read_text()
        assert answer["uuid"] in answer["export_block"], point
        assert seen(volume) == whole and os.listdir(volume) == [".postcopy"], point
    m.start()
    with m.client() as c:
        assert c.patient(60).read_file("f") == Pattern(3000).read(0, 3000)


def test_finish(new_volume, old_server, new_migration, tmp_path):
    """Repeated, it ends what it began: no .postcopy, no line in the list, and status 0, also
    when all was done already.  There are more points where it is no volume any more."""
    disk = new_volume("xfs", "320M")
    top = disk.path / "v"
    top.mkdir()
    m = new_migration(old_server.url(), top).init().start_retriever()
    m.crawl()
    m.kill_retriever()
    m.retriever = None
    before = seen(top)
    disk.umount()

    def finish(kill=""):
        with disk.twin() as twin:
            gated = Gated(twin.path, tmp_path)
            gated.volumes.parent.mkdir()
            volume = twin.path / "v"
            gated.volumes.write_text("%s\n" % volume)
            first = gated.run("finish", volume, kill=kill)
            calls = gated.calls()
            again = gated.run("finish", volume)
            assert again.returncode == 0 and "finished" in again.stdout, (kill, calls[-1], again)
            assert not (volume / ".postcopy").exists() and gated.listed() == [], (kill, calls[-1])
            if calls[-1][5] != "utimensat":         # the time is put back by a call of its own
                assert seen(volume) == before, (kill, calls[-1])
            assert (volume / "f").read_bytes() == Pattern(3000).read(0, 3000)
            return first, calls

    first, calls = finish()
    assert first.returncode == 0
    conf = [n for n, call in enumerate(calls, 1)
            if call[5] == "unlinkat" and call[6].endswith("/volume.conf")]
    ends = {conf[0], conf[0] + 1, *range(len(calls) - 5, len(calls) + 1)}
    for n in sorted({*ends, *range(1, len(calls), STEP)}):
        finish(VICTIMS[""] % n)
