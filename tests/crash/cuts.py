#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts: a migration on a disk that remembers, cut everywhere, judged.

    cuts.run(plan, seed, say)        a stage of tests/crash/run
    cuts.py --seed 7 [--long]        the same by itself
    cuts.py --again DIR CUT STATE    one state of a run that was kept, once more

A run is one file system and one adversary (cuts_record.py); then the states that the
disk may have had at each flush (disklog.py) are built and judged (cuts_judge.py,
cuts_model.py).  Everything lives in mount and PID namespaces that end with the stage.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from apart import answer, run_stage  # noqa: E402
from cuts_judge import judge_run, judge_state, judging  # noqa: E402
from cuts_record import BASE, LOGDISK, SOCKETS, STUBDUMP, Run  # noqa: E402
import cuts_work  # noqa: E402
import images  # noqa: E402
from lib.programs import CRAWLER, RETRIEVER, VOLUME_TOOL  # noqa: E402
from lib.sourceversion import turn  # noqa: E402
from nfsclient.fakeserver import FakeServer  # noqa: E402

PROGRAMS = (LOGDISK, STUBDUMP, CRAWLER, RETRIEVER, VOLUME_TOOL)
# seconds: instead of rounds, as many runs as there is time for.  states: at most so many
# of a run are judged; recover: one of so many goes on to the end; again: while one of so
# many recovers the power goes once more
PLANS = {
    "brief": dict(rounds=1, subsets=3, states=80, recover=8, again=8, runs=(("xfs", "meta"),)),
    "quick": dict(rounds=1, subsets=3, states=700, recover=70, again=90,
                  runs=(("xfs", "meta"), ("xfs", "data"), ("ext4", "meta"), ("ext4", "plain"),
                        ("xfs", "eio"), ("ext4", "eio"))),
    "long": dict(rounds=4, subsets=4, states=2000, recover=50, again=50,
                 runs=tuple((fs, how) for fs in ("xfs", "ext4")
                            for how in ("plain", "meta", "data", "eio", "crawl-eio"))),
}

# what is left behind ends with the last process: mounts, loop devices, daemons
NAMESPACES = ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork",
              "--kill-child", "--mount-proc", sys.executable, str(HERE / "cuts.py")]


@contextlib.contextmanager
def workplace():
    """A scratch file system of our own, and sockets where each run has them."""
    images.check_machine()
    for program in PROGRAMS:
        if not program.exists():
            raise images.Missing("%s is not built (POSTCOPY_BUILD)" % program)
    SOCKETS.mkdir(parents=True, exist_ok=True)
    top = pathlib.Path(tempfile.mkdtemp(prefix="cuts-", dir=BASE))
    try:
        scratch = images.scratch(top)
        (scratch / "sockets").mkdir()
        images.bind(scratch / "sockets", SOCKETS)
        yield scratch
    finally:
        for path in (SOCKETS, top / "scratch", top / "memory"):
            with contextlib.suppress(OSError):
                images.umount(path)
        with contextlib.suppress(OSError):
            for path in (top / "scratch", top / "memory", top):
                path.rmdir()


def one_run(top, fstype, how, version, settings, seed, sums, say):
    begin = time.monotonic()
    with FakeServer(cuts_work.source_tree(random.Random(seed)), version=version) as source:
        run_ = Run(top / ("%s-%s-%d" % (fstype, how, seed)), fstype, how, seed, source)
        run_.record()
        assert not source.misused, source.misused
        assert bool(run_.log.errors) == bool(run_.faults), "the disk should have failed"
        recorded = time.monotonic() - begin
        judged, recoveries, failed = judge_run(run_, settings, seed)
    sums["power_images"] += judged
    sums["recoveries"] += recoveries
    sums["losses"] += len(failed)
    failures = ", %d failures of the disk, %d errors for the client" % (
        len(run_.log.errors), run_.log.marks.count("e") + run_.log.marks.count("n")
    ) if run_.faults else ""
    say("%s %s (NFSv%s): %d operations%s, %d flushes, %d writes, recorded in %.1f s; %d states "
        "judged, %d recovered in %.1f s; %d lost" % (
            fstype, how, version, run_.log.marks.count("s"), failures, len(run_.log.cuts) - 1,
            run_.log.writes, recorded, judged, recoveries,
            time.monotonic() - begin - recorded, len(failed)))
    if failed:
        where = run_.keep(failed, settings["subsets"])
        for cut, state, wrong in failed[:5]:
            say("LOSS: seed %d, %s %s, cut %d, state %s: %s" % (
                seed, fstype, how, cut, state, "; ".join(wrong[:4])))
            say("      again: tests/crash/cuts.py --again %s %d %s" % (where, cut, state))
    shutil.rmtree(run_.home)


def stage(settings, seed, say):
    """Inside namespaces of our own."""
    sums = dict(power_images=0, recoveries=0, losses=0)
    with workplace() as top:
        end = time.monotonic() + settings["seconds"] if "seconds" in settings else None
        for number in itertools.count() if end else range(settings["rounds"]):
            for place, (fstype, how) in enumerate(settings["runs"]):
                if end and time.monotonic() > end:
                    return sums
                one_run(top, fstype, how, turn(place + seed + number), settings, seed + number,
                        sums, say)
    return sums


def run(plan, seed, say):
    """A stage of tests/crash/run.  plan: "quick", "long" or a dict as in PLANS."""
    settings = PLANS[plan] if isinstance(plan, str) else plan
    argv = [*NAMESPACES, "--inside", json.dumps(settings), "--seed", str(seed)]
    return run_stage("cuts", seed, argv, say)


def inside(settings, seed):
    return answer(stage, settings, seed)


def again(where, number, name):
    """Judge one kept state once more, and go on from it."""
    where = pathlib.Path(where)
    with open(where / "run.pickle", "rb") as f:
        kept = pickle.load(f)
    tree = cuts_work.source_tree(random.Random(kept["seed"]))
    with workplace() as top, FakeServer(tree, port=kept["port"]) as source:
        run_ = Run(top / "run", kept["fstype"], kept["how"], kept["seed"], source)
        shutil.copy(where / "disk.log", run_.logfile)
        shutil.copy(where / "base.img", run_.base)
        run_.ops, run_.log = kept["ops"], run_.read_log()
        with judging(run_, 0) as home:
            builder = images.Builder(run_.log, run_.base, home)
            for cut, states in run_.log.plan(run_.fstype, random.Random(run_.seed),
                                             kept["subsets"]):
                builder.advance(cut)
                for state in states if cut.number == number else ():
                    if state.name == name:
                        wrong = judge_state(run_, builder, home / "mnt", cut, state, True)[0]
                        wrong = wrong or judge_state(run_, builder, home / "mnt", cut, state,
                                                     False, (random.Random(1), None))[0]
                        print("\n".join(wrong) or "nothing is wrong")
                        return 1 if wrong else 0
    print("no such state")
    return 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_const", dest="plan", const="long",
                        default="quick")
    parser.add_argument("--plan", type=json.loads, help="one like those in PLANS, as JSON")
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--again", nargs=3, metavar=("DIR", "CUT", "STATE"))
    parser.add_argument("--again-inside", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.inside:
        return inside(args.inside, args.seed)
    if args.again:
        return subprocess.run([*NAMESPACES, "--again-inside", *args.again]).returncode
    if args.again_inside:
        where, cut, state = args.again_inside
        return again(where, int(cut), state)
    sums = run(args.plan, args.seed, print)
    print(json.dumps(sums))
    return 1 if sums["losses"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except images.Missing as err:
        print("cuts: %s" % err, file=sys.stderr)
        sys.exit(2)
    except Exception:
        traceback.print_exc()
        sys.exit(2)
