# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/nfs4.txt: each line names what there is, and what NFSv4 cannot say is skipped by it alone,
with its reason."""
import os
import re
import subprocess
import sys

import pytest

from lib.programs import TESTS
from lib.sourceversion import VARIABLE, listed

WORDS = ("whole", "check", "turn", "not")


def pytest_says(*options, **env):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, cwd=TESTS.parent, env={**os.environ, **env}).stdout


@pytest.fixture(scope="module")
def tests():
    """All of the files that are named."""
    files = sorted({name.partition("::")[0] for word in WORDS for name in listed(word)})
    return pytest_says("--collect-only", *files).splitlines()


@pytest.mark.parametrize("word", WORDS)
def test_each_line_names_a_test(tests, word):
    names = listed(word)
    assert names
    known = {"tests/" + name for test in tests for name in
             (test, test.partition("[")[0], test.partition("::")[0])}
    assert set(names) <= known, set(names) - known


def test_each_line_has_a_word_and_only_what_is_not_said_a_reason():
    for line in (TESTS / "nfs4.txt").read_text().splitlines():
        assert not line or line.startswith("#") or line.split()[0] in WORDS, line
    assert all(listed("not").values())
    assert not any(reason for word in WORDS[:3] for reason in listed(word).values())


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_it_is_skipped_by_nfsv4(version):
    name = "tests/conformance/test_borders.py::test_many_exports_are_cut"
    told = pytest_says("-rs", "--setup-plan", name, **{VARIABLE: version})
    assert bool(re.search(r"NFSv4: only MOUNT lists exports", told)) == (version != "3"), told


def test_a_version_that_there_is_not_is_refused():
    done = subprocess.run([sys.executable, "-m", "pytest", "tests/selftests"], cwd=TESTS.parent,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          env={**os.environ, VARIABLE: "4"})
    assert done.returncode and "must be one of 3, 4.0, 4.1, 4.2" in done.stdout + done.stderr
