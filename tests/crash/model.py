#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model-based random test.

NFS clients (3, 4.1 and, for holes, 4.2), a crawler, a slow and shaky source, and kill -9 of every
daemon work on a volume; a plain file system in memory does the same.  The volume must
always behave like that, with the source's tree in it, whatever has been migrated.

    model_plan.py    writes histories           model_world.py   the model
    model_run.py     runs one, and compares     model_client.py  the operations
    model_rig.py     servers and their troubles
    model_joined.py  two sources of the tree
    model_mirrored.py  the volume has a mirror
    model_mixed.py   all this with SMB clients too, whose operations are in model_smb.py
"""
import argparse
import json
import pathlib
import random
import signal
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "demo")]     # lib.richtree uses oldtree

from model_joined import JoinedRun  # noqa: E402
from model_mirrored import mode_of  # noqa: E402
from model_mixed import MixedRun, MixedWriter  # noqa: E402
from model_plan import Writer  # noqa: E402
from model_rig import Disk  # noqa: E402
from model_run import Failed, Run  # noqa: E402
from lib.sourceversion import turn  # noqa: E402

HISTORY = 450                 # operations of one
SHRINK = 120                  # seconds


class Sum:
    def __init__(self):
        self.numbers = {"model_operations": 0, "recoveries": 0, "losses": 0}
        self.smb, self.slowest = 0, 0.0         # s until NFS showed what SMB did

    def add(self, run):
        self.numbers["model_operations"] += run.operations
        self.numbers["recoveries"] += run.rig.recoveries
        if hasattr(run, "slowest"):
            self.smb += run.smb_operations
            self.slowest = max(self.slowest, run.slowest)


def written(writer, seed, join, mirror=False):
    writer = writer(seed, HISTORY)
    writer.mirror = mode_of(seed) if mirror else None
    history = writer.write()
    history["options"].update(join=join, version="3" if join else turn(seed))
    return history


def play(disk, history, total=None, stock=False):
    """Run a history.  None, or the Failed that says what is wrong."""
    options = history["options"]
    run = (MixedRun if options.get("smb") else JoinedRun if options.get("join") else Run)(
        disk, history, stock)
    try:
        run.go()
    except Failed as err:
        return err
    finally:
        if total:
            total.add(run)
    return None


def shrink(disk, history, kind, seconds, say, stock=False):
    """A shorter history that fails in the same way (delta debugging over its steps,
    then over operations of one step)."""
    end, tries, attempts = time.monotonic() + seconds, 0, 1

    def fails(steps):
        nonlocal tries
        for _attempt in range(attempts):
            tries += 1
            err = play(disk, dict(history, steps=steps), stock=stock)
            if err is not None and err.kind == kind:
                return True
            if time.monotonic() > end:
                break
        return False

    steps, parts = history["steps"], 2
    if not fails(steps):                  # it takes some luck: give each a few chances
        attempts = 4
    while len(steps) > 1 and time.monotonic() < end:
        size = max(1, len(steps) // parts)
        for start in range(0, len(steps), size):
            fewer = steps[:start] + steps[start + size:]
            if time.monotonic() < end and fewer and fails(fewer):
                steps, parts = fewer, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(steps), parts * 2)
    for number in range(len(steps)):
        for op in list(steps[number]):
            fewer = [s if i != number else [o for o in s if o is not op]
                     for i, s in enumerate(steps)]
            if len(steps[number]) > 1 and time.monotonic() < end and fails(fewer):
                steps = fewer
    say("%d steps of %d left after %d tries" % (len(steps), len(history["steps"]), tries))
    return dict(history, steps=steps)


def fitting(history):
    """Without the parts of the tree that no step names."""
    used = {op[key].split("/")[0] for step in history["steps"] for op in step
            for key in ("path", "path2") if key in op}
    tree = [item for item in history["tree"] if item["path"].split("/")[0] in used]
    return dict(history, tree=tree or history["tree"])


def failed(disk, history, err, say, where, seconds, stock=False):
    say("seed %s (NFSv%s) FAILED: %s" % (history["seed"], history["options"]["version"], err))
    small = shrink(disk, history, err.kind, seconds, say, stock)
    if play(disk, fitting(small), stock=stock):
        small = fitting(small)
    path = pathlib.Path(where) / ("model-%s.json" % history["seed"])
    path.write_text(dump(dict(small, why=str(err).splitlines()[0][:500])))
    say("shrunk history: %s (model.py --replay %s)" % (path, path))


def dump(history):
    """JSON with one step, and one object, a line."""
    def lines(items):
        return "[\n%s\n]" % ",\n".join("  " + json.dumps(item) for item in items)
    parts = ["%s: %s" % (json.dumps(key), lines(value) if key in ("steps", "tree")
                         else json.dumps(value)) for key, value in history.items()]
    return "{%s}\n" % ",\n".join(parts)


def run(plan, seed, say):
    """A stage of tests/crash/run.  plan: a dict, or an object with attributes:
    operations (at least so many, default 10000) or seconds or hours; smb (both protocols); join (two sources);
    mirror (the volume has one); shrink (seconds, default 120); where (directory for shrunk histories, default /var/tmp)."""
    def planned(key, default):
        value = plan.get(key) if isinstance(plan, dict) else getattr(plan, key, None)
        return default if value is None else value

    operations = planned("operations", 10000)
    writer = MixedWriter if planned("smb", False) else Writer
    limit = planned("seconds", planned("hours", 0) * 3600)
    end = time.monotonic() + limit
    rng, total, began = random.Random("model %s" % seed), Sum(), time.monotonic()
    with Disk() as disk:
        while (time.monotonic() < end if limit
               else total.numbers["model_operations"] < operations):
            history = written(writer, rng.randrange(1 << 32), planned("join", False),
                              planned("mirror", False))
            err = play(disk, history, total, planned("stock", False))
            if err:
                total.numbers["losses"] += 1
                failed(disk, history, err, say, planned("where", "/var/tmp"),
                       planned("shrink", SHRINK), planned("stock", False))
                if not planned("go_on", False):
                    break
    took = time.monotonic() - began
    say("seed %s: %d operations, %d recoveries, %d losses in %.0f s (%.0f/s)" % (
        seed, *total.numbers.values(), took, total.numbers["model_operations"] / took))
    if total.smb:
        say("%d of them over SMB; NFS showed all within %.3f s" % (total.smb, total.slowest))
    return total.numbers


def replay(path, stock=False):
    """The Failed that says what is wrong with a kept history now, or None."""
    with Disk() as disk:
        return play(disk, json.loads(pathlib.Path(path).read_text()), stock=stock)


def main():
    parser = argparse.ArgumentParser(description="model-based random test of a migration")
    parser.add_argument("--operations", type=int, default=10000, metavar="N")
    parser.add_argument("--hours", type=float, default=0, metavar="H",
                        help="run for so long instead")
    parser.add_argument("--seed", type=int, metavar="N", help="default: a new one")
    parser.add_argument("--history", type=int, metavar="SEED",
                        help="run this one history, whose seed was printed")
    parser.add_argument("--replay", metavar="FILE", help="run a shrunk history")
    parser.add_argument("--stock", action="store_true",
                        help="against plain FSAL_VFS: what fails is the model's fault")
    parser.add_argument("--mirror", action="store_true", help="the volume has a backup, in each mode in turn")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--smb", action="store_true", help="clients of both protocols")
    what.add_argument("--join", action="store_true", help="two sources: NFS and SMB")
    parser.add_argument("--shrink", type=float, default=SHRINK, metavar="SECONDS")
    parser.add_argument("--where", default="/var/tmp", metavar="DIR",
                        help="directory for shrunk histories")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # leave nothing behind
    if args.replay:
        err = replay(args.replay, args.stock)
        print(err or "good")
        return 1 if err else 0
    if args.history is not None:
        with Disk() as disk:
            history = written(MixedWriter if args.smb else Writer, args.history, args.join, args.mirror)
            err = play(disk, history, stock=args.stock)
            if err:
                failed(disk, history, err, print, args.where, args.shrink, args.stock)
        print("failed" if err else "good")
        return 1 if err else 0
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    print("model: seed %d" % seed, flush=True)
    plan = {"operations": args.operations, "hours": args.hours, "stock": args.stock, "smb": args.smb,
            "join": args.join, "mirror": args.mirror, "where": args.where, "shrink": args.shrink}
    return 1 if run(plan, seed, lambda text: print("model:", text, flush=True))["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
