# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad inputs: every kept input of the fuzz targets is given to its target once more.

    inputs.run(plan, seed, say)         a stage of tests/crash/run; there is one plan
"""
import pathlib
import subprocess

from lib.programs import BUILD

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus"
REPLAYS = BUILD / "tests" / "fuzz"
LIMIT = 120                          # seconds a target may take for all of its inputs


def replay(program, directory):
    """None, or why the target did not take its inputs."""
    try:
        done = subprocess.run([str(program), str(directory)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=LIMIT)
    except subprocess.TimeoutExpired as err:
        last = (err.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
        return "takes more than %d s: %s" % (LIMIT, last)
    if done.returncode == 0:
        return None
    return "ended with %d: %s" % (done.returncode, done.stderr.strip().splitlines()[-1:])


def run(_plan, _seed, say):
    targets = sorted(p for p in CORPUS.iterdir() if p.is_dir()) if CORPUS.is_dir() else []
    if not targets:
        raise RuntimeError("no inputs in %s" % CORPUS)
    sums = dict(bad_inputs=0, losses=0)
    for directory in targets:
        program = REPLAYS / ("replay_" + directory.name)
        if not program.exists():
            raise RuntimeError("%s is not built" % program)
        count = sum(p.is_file() for p in directory.rglob("*"))
        wrong = replay(program, directory)
        sums["bad_inputs"] += count
        sums["losses"] += wrong is not None
        say("%s: %d inputs" % (directory.name, count))
        if wrong:
            say("LOSS: %s %s %s" % (program, directory, wrong))
    return sums
