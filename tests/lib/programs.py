# SPDX-License-Identifier: GPL-3.0-or-later
"""Small things every suite needs: waiting, building the shim."""
import pathlib
import subprocess
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
TOOLS = TESTS / "tools"


def wait_until(condition, timeout=60.0, what="condition", interval=0.01):
    """Poll until condition() is true; return its value.

    An exception of condition() is remembered and shown if time runs out.
    """
    end = time.monotonic() + timeout
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except AssertionError:
            raise
        except Exception as err:  # "not yet" in most cases
            last = err
        if time.monotonic() >= end:
            raise TimeoutError("%s not reached in %g s (last: %r)"
                               % (what, timeout, last))
        time.sleep(interval)
        interval = min(interval * 1.5, 0.25)


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
