# SPDX-License-Identifier: GPL-3.0-or-later
"""Samba's own tests, the quick ones, on a volume of which nothing was ever looked at.
The whole list, on every kind of volume: tests/smb/torture (docs/conformance-smb.md)."""
import subprocess

import pytest

from lib import debian
from lib.programs import BUILD, TESTS


@pytest.mark.skipif(debian.RELEASE is not None, reason="smbtorture asks an smbd of its own release:"
                    " tests/tools/debian-run")
def test_quick_suites_on_dummies(workdir):
    done = subprocess.run([TESTS / "smb" / "torture", "--quick", "--on", "dummy", "--build",
                           BUILD, "--workdir", workdir], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
