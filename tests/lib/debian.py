# SPDX-License-Identifier: GPL-3.0-or-later
"""Another release of Debian: its root, and this tree built in it (tools/debian-build).

POSTCOPY_DEBIAN=trixie: the smbd that tests start with our module is that release's, and the
module is built for it; all else is this machine's, as while servers are replaced one by one.
Within tools/debian-run, which sets it too, everything is that release's already.
POSTCOPY_DEBIAN_BUILD: such a build that is ready.

A server that is newer than its plugin: that of NEWER, which may be this machine, and what was
built for OLDER (built_for()).
"""
import functools
import os
import pathlib
import subprocess

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
BUILD = pathlib.Path(os.environ.get("POSTCOPY_BUILD", TOOLS.parent.parent / "build" / "check"))


OLDER, NEWER = "bookworm", "trixie"


def other(release):
    """@release; None if it is this machine's, or none."""
    with open("/etc/os-release") as f:
        return None if "VERSION_CODENAME=%s\n" % release in f else release or None


RELEASE = other(os.environ.get("POSTCOPY_DEBIAN"))


def _said(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=3600)
    assert done.returncode == 0, "%s: see above" % " ".join(map(str, argv))
    return done.stdout.strip()


@functools.cache
def root(release):
    return _said(TOOLS / "debian-build", "--root", release)


@functools.cache
def build(release):
    ready = release == RELEASE and os.environ.get("POSTCOPY_DEBIAN_BUILD")
    return pathlib.Path(ready or _said(TOOLS / "debian-build", release))


def built_for(release):
    """This tree's build for it: the one that is tested, if that is this machine's release."""
    return build(release) if other(release) else BUILD


def modules(release):
    """The directory of our module for that release's Samba; None: this machine's."""
    return (build(release) if release else BUILD) / "vfs_stub"


def wrap(release, *dirs):
    """The command in front of one that runs there, with these directories of ours."""
    return (str(TOOLS / "debian-chroot"), root(release), ":".join(map(str, dirs)))
