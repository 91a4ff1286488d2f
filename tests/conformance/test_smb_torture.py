# SPDX-License-Identifier: GPL-3.0-or-later
"""Samba's own tests, the quick ones, on a volume of which nothing was ever looked at.
The whole list, on every kind of volume: tests/smb/torture (docs/conformance-smb.md)."""
import subprocess

import pytest

from lib import debian
from lib.programs import BUILD, TESTS


@pytest.mark.skipif(debian.other("trixie") is None, reason="expected.txt is of smbtorture 4.17; "
                    "with POSTCOPY_DEBIAN=trixie that one asks Samba 4.22")
def test_quick_suites_on_dummies(workdir):
    done = subprocess.run([TESTS / "smb" / "torture", "--quick", "--on", "dummy", "--build",
                           BUILD, "--workdir", workdir], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
