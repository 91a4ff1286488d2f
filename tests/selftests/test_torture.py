# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/smb/torture: what it reads from smbtorture, and what it holds against a server."""
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys

import pytest

from lib import debian
from lib.programs import TESTS

PROGRAM = TESTS / "smb" / "torture"

OUTPUT = """\
smbtorture 4.17.12-Debian
time: 2026-11-21 18:19:02.0
test: one
success: one
test: two words
failure: two words [
file.c:212: status was NT_STATUS_OK,
expected other
]
test: three
skip: three [
not here
]
test: four
error: four [
died
]
"""


@pytest.fixture(scope="module")
def torture():
    loader = importlib.machinery.SourceFileLoader("torture", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("torture", loader))
    sys.modules["torture"] = module        # dataclasses look it up
    loader.exec_module(module)
    return module


@pytest.fixture
def suites(torture, tmp_path):
    def read(text, release=None):
        path = tmp_path / "expected.txt"
        path.write_text(text)
        return torture.read_expected(path, release)
    return read


def test_results_are_read(torture):
    results, reasons = torture.parse(OUTPUT)
    assert results == {"one": "pass", "two_words": "fail", "three": "skip", "four": "fail"}
    assert reasons == {"two_words": "file.c:212: status was NT_STATUS_OK, expected other",
                       "three": "not here", "four": "died"}


def test_as_expected(torture, suites):
    suite = suites("suite s 4 quick share=x  # why\nfail two_words known\nskip three there is "
                   "none\nfail four known\n")["s"]
    assert suite.quick and suite.options == {"share": "x"}
    assert torture.judge(suite, "stock", torture.parse(OUTPUT)[0], True) == []


@pytest.mark.parametrize("line,test", [
    ("fail one fails", "one"),                  # passes, but should not: the list is stale
    ("skip four skipped", "four"),
    ("fail three fails", "three")])
def test_not_as_expected(torture, suites, line, test):
    text = "suite s 4\nfail two_words x\nskip three x\nfail four x\n" + line
    wrong = torture.judge(suites(text)["s"], "stock", torture.parse(OUTPUT)[0], True)
    assert [w[0] for w in wrong] == [test]


def test_a_result_of_one_target(torture, suites):
    text = "suite s 4\nfail two_words x\nskip three x\nfail four x\nfail@dummy one y\n"
    results = torture.parse(OUTPUT)[0]
    assert torture.judge(suites(text)["s"], "stock", results, True) == []
    assert torture.judge(suites(text)["s"], "dummy", results, True) == [("one", "fail", "pass")]


def test_a_release_has_other_tests(torture, suites):
    text = "suite s 1\ncount@trixie 2 one is new\nsuite@trixie new 3\nsuite old 4\n" \
           "omit@trixie old it is new there\n"
    assert {s.name: s.count for s in suites(text).values()} == {"s": 1, "old": 4}
    assert {s.name: s.count for s in suites(text, "trixie").values()} == {"s": 2, "new": 3}


def test_what_a_release_does_otherwise(torture, suites, monkeypatch):
    suite = suites("suite s 1\nfail one known\npass@trixie one done right\n")["s"]
    monkeypatch.setattr(torture, "RELEASE", None)           # whatever this machine's is
    assert torture.judge(suite, "stock", {"one": "fail"}, True) == []
    monkeypatch.setattr(torture, "RELEASE", "trixie")
    assert torture.judge(suite, "stock", {"one": "pass"}, True) == []
    assert torture.judge(suite, "stock", {"one": "fail"}, True) == [("one", "pass", "fail")]


def test_flaky_is_either(torture, suites):
    suite = suites("suite s 1\nflaky one x\n")["s"]
    for seen in ("pass", "fail"):
        assert torture.judge(suite, "stock", {"one": seen}, True) == []
    assert torture.judge(suite, "stock", {"one": "skip"}, True)


def test_tests_that_did_not_run_are_missed(torture, suites):
    suite = suites("suite s 2\n")["s"]
    assert torture.judge(suite, "stock", {"one": "pass"}, True) == [("", "2 tests", "1 tests")]
    assert torture.judge(suite, "stock", {"one": "pass", "two": "pass"}, False)


@pytest.mark.parametrize("text", ["fail one x\n", "suite s\n", "suite s many\n",
                                  "suite s 1\nfail one\n", "suite s 1\nbroken one x\n",
                                  "suite s 1\nfail@moon one x\n", "omit s\n", "suite s 1\nsuite s 2\n",
                                  "suite s 1\ncount 2 x\n", "suite s 1\ncount@trixie 2\n",
                                  "suite@dummy s 1\n", "omit@dummy s x\n"])
def test_a_bad_list_is_refused(torture, suites, text):
    with pytest.raises(torture.ExpectedError, match="line"):
        suites(text)


@pytest.mark.parametrize("release", [None, "trixie"])
def test_the_list_is_good(torture, release):
    suites = torture.read_expected(release=release)
    assert suites and all(s.count > 0 for s in suites.values())
    assert any(s.quick for s in suites.values())


def run(workdir, *args):
    return subprocess.run([str(PROGRAM), "--workdir", str(workdir), *args], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=300)


def test_a_real_suite(workdir, tmp_path):
    answer = tmp_path / "answer.json"
    done = run(workdir, "--suite", "smb2.rw", "--suite", "smb2.mkdir", "--json", str(answer))
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(answer.read_text())["suites"]
    assert [s["suite"] for s in seen] == ["smb2.rw", "smb2.mkdir"]
    assert not any(s["wrong"] for s in seen) and all(s["results"] for s in seen)
    assert re.match(r"stock: [45] tests as expected, 0 not", done.stdout.splitlines()[-1])


def test_servers_and_tests_are_of_one_release(workdir, monkeypatch):
    monkeypatch.setenv("POSTCOPY_DEBIAN", "bookworm" if debian.other("bookworm") else "trixie")
    done = run(workdir, "--suite", "smb2.rw")
    assert done.returncode == 2 and "run it as tests/tools/debian-run" in done.stderr


def test_what_no_list_knows_is_not_as_expected(workdir):
    done = run(workdir, "--suite", "smb2.nosuch")
    assert done.returncode == 1 and "NOT as expected" in done.stdout
