# SPDX-License-Identifier: GPL-3.0-or-later
"""One row of tests/sources: a whole migration from a real old server, and what is kept of it by
comparison of both sides, and by the server's word (NFSv3).  The command has the others."""
import json
import subprocess
import sys

import pytest

from lib.programs import TESTS

PROMISED = {"names", "types", "sizes", "data", "modes", "owners", "mtime", "atime", "links",
            "symlinks", "devices"}


@pytest.mark.parametrize("key", ["ganesha-nfs3", "ganesha-nfs4.2"])
def test_one_row(workdir, key):
    found = workdir / "sources.json"
    done = subprocess.run([sys.executable, "-B", str(TESTS / "sources"), "--only",
                           key, "--json", str(found)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=1200)
    assert done.returncode == 0, done.stdout
    line, = json.loads(found.read_text())
    assert line["ok"] and line["differences"] == line["parked"] == 0, line
    assert line["verified"] == "right" and line["objects"] > 2000
    lost = {"modes"} if key == "ganesha-nfs3" else set()     # it is not promised: ACLs may be lost
    assert set(line["promised"]) >= PROMISED - lost, line["promised"]
    assert line["untrue"] == []
    kept = {name for name, count in line["kept"].items() if count["of"] == count["kept"] > 0}
    assert kept >= PROMISED | {"holes"} and "acls" in line["kept"]
