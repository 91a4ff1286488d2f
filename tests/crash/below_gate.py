# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage whose processes run below sysgate, in namespaces of their own.

    run(stage, script, settings, seed, say)     starts script --inside SETTINGS --seed SEED there
    scratch(stage)                              with that as a place for images
    inside(stage, settings, seed)               the script's part: stage(gate, settings, seed, say)
"""
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from apart import answer, run_stage
import images
from kills_bed import BASE, SYSGATE


def die_with_parent():
    """All that is below goes then, with its namespaces."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG


@contextlib.contextmanager
def scratch(stage):
    """A scratch file system of the stage's own, in its namespace."""
    top = pathlib.Path(tempfile.mkdtemp(prefix=stage + "-", dir=BASE))
    try:
        yield images.scratch(top)
    finally:
        for path in (top / "scratch", top / "memory"):
            with contextlib.suppress(OSError):
                images.umount(path)
        shutil.rmtree(top, ignore_errors=True)


def run(stage, script, settings, seed, say):
    images.check_machine()
    BASE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gate-", dir=BASE) as home:
        control = os.path.join(home, "control")
        open(control, "w").close()
        argv = ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork",
                "--kill-child", "--mount-proc", str(SYSGATE), "-l", home + "/log",
                "-c", control, "--", sys.executable, str(script), "--inside",
                json.dumps(dict(settings, control=control, log=home + "/log")), "--seed", str(seed)]
        return run_stage(stage, seed, argv, say, preexec_fn=die_with_parent)


def inside(stage, settings, seed):
    control = settings.pop("control")
    os.environ["SYSGATE_LOG"] = settings.pop("log")
    return answer(lambda say: stage(os.open(control, os.O_WRONLY), settings, seed, say))
