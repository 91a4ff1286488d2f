# SPDX-License-Identifier: GPL-3.0-or-later
"""By which version of NFS an old server is read, in whatever test has one.

POSTCOPY_SOURCE_VERSION is for all of them.  Without it suites read by NFSv3, and stages of the
crash tests take the versions in turn: what is number n of theirs has turn(n).  What NFSv4
cannot say is in tests/nfs4.txt, with the reason, and skipped by it (conftest.py).
"""
import os
import pathlib

VERSIONS = ("3", "4.0", "4.1", "4.2")
VARIABLE = "POSTCOPY_SOURCE_VERSION"

FORCED = os.environ.get(VARIABLE) or None
if FORCED not in (None, *VERSIONS):
    raise SystemExit("%s is %r: it must be one of %s" % (VARIABLE, FORCED, ", ".join(VERSIONS)))
# in front of a command that does the same again
AGAIN = "%s=%s " % (VARIABLE, FORCED) if FORCED else ""


def turn(number):
    return FORCED or VERSIONS[number % len(VERSIONS)]


def listed(word):
    """Lines of tests/nfs4.txt with that word: {test or file: what is behind it}."""
    lines = (pathlib.Path(__file__).parents[1] / "nfs4.txt").read_text().splitlines()
    fields = [line.split(None, 2) for line in lines if line.startswith(word + " ")]
    return {rest[0]: "".join(rest[1:]) for _word, *rest in fields}


def unsaid(test):
    """Why a test cannot be had by NFSv4; None: it can.  test: tests/conformance/..."""
    reasons = listed("not")
    return next((reasons[name] for name in (test, test.partition("[")[0], test.partition("::")[0])
                 if name in reasons), None)
