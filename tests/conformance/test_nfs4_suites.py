# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/nfs4.txt names for ./check holds by NFSv4, too: the same tests, with a source of that
version.  The whole, by each version: tests/source-versions."""
import os
import subprocess
import sys
import tempfile

import pytest

from lib.programs import TESTS
from lib.sourceversion import VARIABLE, VERSIONS, listed

SEED = int(os.environ.get("POSTCOPY_SEED") or 1)
BOTH = [(version, what) for version in ("4.0", "4.2") for what in listed("check")]
TURN = [(VERSIONS[1 + (SEED + place) % 3], what) for place, what in enumerate(listed("turn"))]


@pytest.mark.parametrize("version, what", BOTH + TURN, ids=lambda text: text.rpartition("/")[2])
def test_by_nfsv4(version, what, workdir):
    home = tempfile.mkdtemp(prefix="4-", dir=workdir.parent)     # paths of sockets are short
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", what],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=1200, cwd=TESTS.parent,
        env={**os.environ, "POSTCOPY_TEST_DIR": home, VARIABLE: version})
    assert done.returncode == 0, done.stdout[-20000:]
    assert " passed" in done.stdout, done.stdout
