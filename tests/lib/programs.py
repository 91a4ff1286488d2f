# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the programs under test are, and those that the tests build themselves."""
import os
import pathlib
import re
import shutil
import subprocess

from lib import debian

BASE = pathlib.Path(os.environ.get("POSTCOPY_TEST_DIR", "/var/tmp/postcopy-tests"))
TESTS = pathlib.Path(__file__).resolve().parent.parent
TOOLS = TESTS / "tools"

BUILD = debian.BUILD
POSTCOPY = BUILD / "crawler" / "postcopy"
VOLUME_TOOL = BUILD / "crawler" / "postcopy-volume"
CRAWLER = BUILD / "crawler" / "postcopy-crawler"
RETRIEVER = BUILD / "retriever" / "postcopy-retriever"
MIRROR = BUILD / "mirror" / "postcopy-mirror"
PLUGINS = BUILD / "fsal_stub"
MODULES = debian.modules(debian.RELEASE)
WORKER = BUILD / "retriever" / "postcopy-smb-worker"
STUBTOOL = BUILD / "tests" / "tools" / "stubtool"


def as_unit(name):
    """What stands in front of a daemon that has no more capabilities than its unit leaves it."""
    unit = TESTS.parent / "packaging/systemd" / ("postcopy-%s@.service.in" % name)
    caps = re.search(r"^CapabilityBoundingSet=(.*)", unit.read_text(), re.MULTILINE)[1].split()
    return ["setpriv", "--bounding-set", ",".join(["-all", *("+" + c.removeprefix("CAP_").lower()
                                                            for c in caps)])]


def copy_program(program, where):
    """A copy in the directory @where, with what a script has beside it: its own path."""
    if program == POSTCOPY:
        for module in POSTCOPY.parent.glob("postcopy_*.py"):
            shutil.copy(module, where)
    return pathlib.Path(shutil.copy(program, where))


def build_c(sources, target, *flags):
    """Compile C files of tests/tools unless target is newer than all."""
    sources, target = [pathlib.Path(s) for s in sources], pathlib.Path(target)
    newest = max(s.stat().st_mtime for s in [*sources, *TOOLS.glob("*.h")])
    if not target.exists() or target.stat().st_mtime < newest:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(target.suffix + ".part")
        subprocess.run(["cc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-o",
                        str(part), *map(str, sources), *flags], check=True)
        part.rename(target)
    return target


def build_rpcshim(where):
    return build_c([TOOLS / "rpcshim.c"], pathlib.Path(where) / "rpcshim.so",
                   "-shared", "-fPIC")


def build_smbshim(where):
    return build_c([TOOLS / "smbshim.c"], pathlib.Path(where) / "smbshim.so",
                   "-D_GNU_SOURCE", "-shared", "-fPIC")


def build_nfstree(where):
    return build_c(sorted(TOOLS.glob("nfstree*.c")), pathlib.Path(where) / "nfstree",
                   "-lnfs", "-lcrypto")
