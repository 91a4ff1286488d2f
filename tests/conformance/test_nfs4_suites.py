# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/nfs4.txt names holds by NFSv4.0 and 4.2, too: the same tests, with a source of that
version."""
import os
import subprocess
import sys
import tempfile

import pytest

from lib.programs import TESTS

LIST = [line.strip() for line in (TESTS / "nfs4.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("what", LIST, ids=lambda what: what.rpartition("/")[2])
@pytest.mark.parametrize("version", ["4.0", "4.2"])
def test_by_nfsv4(version, what, workdir):
    home = tempfile.mkdtemp(prefix="4-", dir=workdir.parent)     # paths of sockets are short
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", what],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=1200, cwd=TESTS.parent,
        env=dict(os.environ, POSTCOPY_TEST_DIR=home, POSTCOPY_SOURCE_VERSION=version))
    assert done.returncode == 0, done.stdout[-20000:]
    assert " passed" in done.stdout, done.stdout
