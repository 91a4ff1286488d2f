# SPDX-License-Identifier: GPL-3.0-or-later
"""The bugs that tests/crash/selftest puts in fit the product as it is: whoever changes the place changes the patch."""
import pathlib
import subprocess

import pytest

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
PATCHES = sorted((TREE / "tests/crash/seeded").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda p: p.stem)
def test_it_applies(patch):
    done = subprocess.run(["patch", "-p1", "--dry-run", "--force", "--fuzz=0", "-i", str(patch)], cwd=TREE,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\ndiff --git " in patch.read_text(), "it does not say what the bug is"
