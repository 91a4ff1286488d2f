# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/bench/run without its servers: arguments, comparing, and what it measures clients with."""
import importlib
import json
import os
import subprocess
import sys
import time

import pytest

from lib.programs import BUILD, TESTS

RUN = TESTS / "bench" / "run"
STUBMAKE = BUILD / "tests" / "tools" / "stubmake"
# what results have had from the first: they stay
KEYS = {"nfs_small", "nfs_small_1ms", "nfs_small_10ms", "smb_small", "smb_small_serial",
        "smb_listing", "nfs_listing", "stub_creation", "cold_open_nfs", "cold_open_smb",
        "first_byte", "stream_nfs", "stream_smb", "client_p99", "recovery_cold"}


def run(*argv, code=0):
    done = subprocess.run([sys.executable, "-B", str(RUN), *map(str, argv)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == code, (argv, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture
def rows_wait(monkeypatch):
    monkeypatch.syspath_prepend(str(TESTS / "bench"))
    return importlib.import_module("rows_wait")


def test_every_key_is_told():
    listed = [text.split()[0] for text in run("--list").splitlines() if text[0] != " "]
    assert KEYS <= set(listed) and len(set(listed)) == len(listed)
    assert run("--list", "client_p99").startswith("client_p99 ")
    assert "no such key: nfs_smal;" in run("nfs_smal", code=2)


def results(path, quick=False, **ratios):
    path.write_text(json.dumps(dict(commit="x", quick=quick, ratios={
        key: dict(ratio=r, rounds=[]) for key, r in ratios.items()})))
    return path


def test_compare(tmp_path):
    old = results(tmp_path / "old", nfs_small=0.5, first_byte=4.0)
    new = results(tmp_path / "new", nfs_small=0.75)
    told = run("compare", old, new).splitlines()
    assert told[0].split() == ["nfs_small", "0.50", "->", "0.75", "+50", "%"]
    assert told[1].split() == ["first_byte", "4.00", "->", "not", "measured"]
    assert "--quick" in run("compare", old, results(tmp_path / "q", quick=True, nfs_small=1), code=1)


def test_a_client_that_works_keeps_its_pace(rows_wait):
    class Client:
        calls = []

        def read(self, fh, offset, count):
            self.calls.append(("read", fh))

        def getattr(self, fh):
            self.calls.append(("getattr", fh))

        def lookup(self, place):
            self.calls.append(("lookup", place))

    begin = time.monotonic()
    seen = rows_wait.working(Client(), [(1, "a"), (2, "b")], lambda: True)
    assert len(seen) == rows_wait.PACE and min(seen) >= 0
    assert time.monotonic() - begin >= (rows_wait.PACE - 1) / rows_wait.PACE
    assert Client.calls[:4] == [("read", 1), ("getattr", 2), ("lookup", "a"), ("read", 2)]
    assert rows_wait.p99([1] * 980 + [100] * 20) == 100


@pytest.mark.parametrize("threads", [1, 3])
def test_stubs_and_files_are_as_many_as_told(fresh_dir, threads):
    """stubmake's stubs are those of a volume, all of which the journal names."""
    for what in ("files", "stubs"):
        top = fresh_dir / what
        top.mkdir()
        done = subprocess.run([str(STUBMAKE), what, str(top), "3", "40", str(threads)], check=True,
                              capture_output=True, text=True, timeout=120)
        told = json.loads(done.stdout)
        assert told["files"] == 120 and told["seconds"] > 0 and told["cpu"] > 0
        files = list(top.glob("d*/f*"))
        assert len(files) == 120
        assert all("trusted.postcopy" in os.listxattr(f) for f in files)
    scan = json.loads(subprocess.run(
        [str(BUILD / "crawler" / "postcopy-volume"), "scan", str(top)], check=True,
        capture_output=True, text=True, timeout=120).stdout)
    assert (scan["stubs"], scan["covered"], scan["uncovered"]) == (120, 120, 0)
