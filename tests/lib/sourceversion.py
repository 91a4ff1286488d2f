# SPDX-License-Identifier: GPL-3.0-or-later
"""By which version of NFS an old server is read, in whatever test has one.

POSTCOPY_SOURCE_VERSION is for all of them.  Without it suites read by NFSv3, and stages of the
crash tests take the versions in turn: what is number n of theirs has turn(n).
"""
import os

VERSIONS = ("3", "4.0", "4.1", "4.2")
VARIABLE = "POSTCOPY_SOURCE_VERSION"

FORCED = os.environ.get(VARIABLE) or None
if FORCED not in (None, *VERSIONS):
    raise SystemExit("%s is %r: it must be one of %s" % (VARIABLE, FORCED, ", ".join(VERSIONS)))
# in front of a command that does the same again
AGAIN = "%s=%s " % (VARIABLE, FORCED) if FORCED else ""


def turn(number):
    return FORCED or VERSIONS[number % len(VERSIONS)]
