#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL at every system call that changes the volume.

    kills.run(plan, seed, say)          a stage of tests/crash/run
    kills.py [--seed N] [--long] [--case NAME]   the same by itself
    kills.py --again DIR                a state that was kept, judged once more

Everything runs below sysgate, which numbers the calls of Ganesha, retriever and
crawler on the volume.  Per case of kills_work this is done:

    states  the case runs once; before each call the image is copied.  Since SIGKILL
            leaves the page cache alone, that is what the volume is when one or all
            are killed at this point.  Each copy is judged offline (stubdump, and the
            oracle of cuts_model); from some the migration goes on to its end.
    again   the same once more for what follows on some of these states: the retriever's
            start and the crawl (kills_again)
    kills   the case runs again and again; at its N-th call one process is killed (or
            all are) and comes back, while the client keeps at what it was doing.  At
            the end all must be there, read through the server and on the disk.
    errors  the same with calls that fail: no space, no quota, broken disk
    full    the same with no room for what is fetched while a client reads
What the client reads in these runs is compared, too.
"""
import argparse
import itertools
import json
import pathlib
import pickle
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from apart import in_parallel  # noqa: E402
import below_gate  # noqa: E402
import images  # noqa: E402
from kills_again import Again, judge_again  # noqa: E402
from kills_bed import BASE, Bed  # noqa: E402
from kills_judge import (  # noqa: E402
    WORKERS, Case, State, judge_both, keep, states_of, to_recover, worker)
from kills_work import CASES  # noqa: E402
from lib.sourceversion import AGAIN  # noqa: E402
from nfsclient import NfsError  # noqa: E402
from nfsclient.fakeserver import FakeServer  # noqa: E402
from smb2client import Gone, SmbError  # noqa: E402

# seconds: instead of rounds, as many as there is time for, with a part of it for each case.
# recover: of the states after each kind of call so many go on to the end; kills: at so
# many calls of each process; errors: so many calls fail; again: that many states, points
# of what follows on each, points that go on to the end, and real kills, per case; full: is
# the volume full once?
PLANS = {
    "brief": dict(rounds=1, recover=1, kills=0, errors=1, cases=["bytes"], judged=60),
    "quick": dict(rounds=1, recover=1, kills=2, errors=1, again=(3, 11, 3, 5),
                  cases_own={"shared": dict(recover=0, again=None, kills=1, judged=120),
                             "bytes": dict(full=True)}),
    "long": dict(rounds=3, recover=8, kills=1000, errors=40, again=(40, 1000, 40, 40), full=True),
}
PROCESSES = ("postcopy-retrie", "ganesha.nfsd", "postcopy-crawle", "smbd")
ERRORS = ("ENOSPC", "EDQUOT", "EIO")


# -- the stage --------------------------------------------------------------------

class Stage:
    def __init__(self, gate, settings, seed, say):
        self.gate, self.settings, self.say = gate, settings, say
        self.rng, self.end = random.Random(seed), None
        self.sums = dict(kill_points=0, recoveries=0, losses=0)

    def over(self):
        return self.end is not None and time.monotonic() > self.end

    def case(self, case, scratch, end=None):
        """end: monotonic time, after which nothing new begins."""
        self.end = end
        self.plan = dict(self.settings, **self.settings.get("cases_own", {}).get(case.name, {}))
        with FakeServer(case.tree, version=case.version) as source:
            bed = Bed(scratch / ("%s-%d" % (case.name, case.seed)), source, self.gate,
                      case.seed % 2 == 0)
            try:
                bed.prepare()
                for command in self.commands(self.states(case, bed)):
                    if self.over():
                        break
                    self.one(case, bed, command)
            finally:
                bed.close()
        if source.misused:
            self.sums["losses"] += 1
            self.say("LOSS: seed %d, case %s (NFSv%s): the old server was misused: %s" % (
                case.seed, case.name, case.version, source.misused[:5]))

    def states(self, case, bed):
        begin = time.monotonic()
        try:
            bed.record(case.ops)
        except (AssertionError, NfsError, SmbError, Gone, TimeoutError) as err:
            self.sums["losses"] += 1
            self.say("LOSS: seed %d, case %s, with nobody killed: %s: %s" % (
                case.seed, case.name, type(err).__name__, err))
            return {}
        recorded = time.monotonic() - begin
        todo, calls = states_of(bed.log)
        if not todo or not calls.get("postcopy-retrie") or todo[-1].acked != len(case.ops):
            raise RuntimeError("case %s: the gate saw %r" % (case.name, calls))
        if len(todo) > self.plan.get("judged", len(todo)):
            todo = sorted(self.rng.sample(todo[:-1], self.plan["judged"] - 1),
                          key=lambda state: state.number) + todo[-1:]
        answers = in_parallel(WORKERS, worker, case, bed, todo, None,
                              to_recover(todo, self.plan["recover"], self.rng))
        failed = sorted((f for a in answers for f in a[1]), key=lambda f: f[0].number)
        recoveries = sum(a[0] for a in answers)
        self.sums["kill_points"] += len(todo)
        self.sums["recoveries"] += recoveries
        self.sums["losses"] += len(failed)
        self.say("%s (NFSv%s): %d operations, calls %s in %.1f s; %d states judged, %d recovered "
                 "in %.1f s; %d lost" % (
                     case.name, case.version, len(case.ops),
                     ", ".join("%s %d" % item for item in sorted(calls.items())), recorded,
                     len(todo), recoveries, time.monotonic() - begin - recorded, len(failed)))
        for state, wrong in failed[:3]:
            self.say("LOSS: seed %d, case %s, before call %s (operation %d): %s" % (
                case.seed, case.name, state.call, state.issued, "; ".join(wrong[:4])))
            self.say("      again: tests/crash/kills.py --again %s" % keep(
                case, state, bed.copies / ("%06d.img" % state.number), bed.log, wrong))
        if self.plan.get("again") and not failed and not self.over():
            all_of_it = self.end
            if self.end is not None:     # the rest is for the kills
                self.end = (time.monotonic() + self.end) / 2
            Again(self, case, bed).run(todo, *self.plan["again"])
            self.end = all_of_it
        return calls

    def some(self, count, most):
        return sorted(self.rng.sample(range(1, count + 1), min(most, count)))

    def commands(self, calls):
        """What sysgate is to do, a run each: kill one process at some of its calls, or all;
        let some calls fail, have no room.  Where time is limited in any order."""
        found, kills = [], self.plan["kills"]
        for process, count in sorted(calls.items()):
            if process not in PROCESSES:
                raise RuntimeError("the volume was changed by %s" % process)
            found += ["kill %d %s" % (n, process) for n in self.some(count, kills)]
            if process != "postcopy-crawle":     # which changes nothing
                found += ["fail %d %s %s" % (n, process, self.rng.choice(ERRORS))
                          for n in self.some(count, self.plan["errors"])]
        found += ["killall %d %s" % (n, " ".join(PROCESSES))
                  for n in self.some(sum(calls.values()), kills)]
        if self.plan.get("full"):
            found.append("full")
        if self.end is not None:
            self.rng.shuffle(found)
        return found

    def one(self, case, bed, command):
        begin = time.monotonic()
        try:
            wrong = bed.disturbed(case, command)
        except (AssertionError, NfsError, TimeoutError, OSError) as err:
            wrong = ["%s: %s" % (type(err).__name__, err)]
        self.sums["kill_points"] += 1
        self.sums["recoveries"] += 1
        if wrong:
            self.sums["losses"] += 1
            self.say("LOSS: seed %d, case %s, %s: %s" % (case.seed, case.name, command,
                                                         "; ".join(wrong[:4])))
            self.say("      again: %stests/crash/kills.py --seed %d --case %s --command '%s'" % (
                AGAIN, case.seed, case.name, command))
        else:
            self.say("%s: %s: %.1f s" % (case.name, command, time.monotonic() - begin))


def stage(gate, settings, seed, say):
    """Below sysgate, inside namespaces of our own."""
    it = Stage(gate, settings, seed, say)
    with below_gate.scratch("kills") as scratch:
        end = time.monotonic() + settings["seconds"] if "seconds" in settings else None
        names = settings.get("cases") or list(CASES)
        for number in itertools.count() if end else range(settings["rounds"]):
            for i, name in enumerate(names):
                now = time.monotonic()
                case = Case.make(name, seed + number)
                if "command" in settings:
                    with FakeServer(case.tree, version=case.version) as source:
                        bed = Bed(scratch / name, source, gate, case.seed % 2 == 0)
                        bed.prepare()
                        it.one(case, bed, settings["command"])
                        bed.close()
                elif end is None or now < end:
                    it.case(case, scratch, end and now + (end - now) / (len(names) - i))
            if end and time.monotonic() > end:
                break
    return it.sums


def run(plan, seed, say):
    """A stage of tests/crash/run.  plan: "quick", "long" or a dict as in PLANS."""
    return below_gate.run("kills", HERE / "kills.py",
                          PLANS[plan] if isinstance(plan, str) else plan, seed, say)


def again(where):
    """Judge one kept state once more."""
    where = pathlib.Path(where)
    images.own_namespace()
    with open(where / "state.pickle", "rb") as f:
        kept = pickle.load(f)
    state = State(**kept["state"])
    with tempfile.TemporaryDirectory(dir=BASE) as home, \
            images.Mounted(where / "image", home + "/mnt", "xfs") as mnt:
        case, volume = Case.make(kept["case"], kept["seed"]), pathlib.Path(mnt)
        if "wanted" in kept:
            wrong = judge_again(case, volume, state, kept["wanted"], kept["era"])[0]
        else:
            wrong = judge_both(case, volume, state)[0]
    print("before call %s (operation %d)" % (state.call, state.issued))
    if "then" in kept:
        print("then before call %s" % kept["then"])
    print("\n".join(wrong) or "nothing is wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_const", dest="plan", const="long",
                        default="quick")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--command", help="of sysgate; with --case: only that run")
    parser.add_argument("--again", metavar="DIR")
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return below_gate.inside(stage, args.inside, args.seed)
    if args.again:
        return again(args.again)
    settings = dict(PLANS[args.plan])
    if args.case:
        settings["cases"] = [args.case]
    if args.command:
        settings["command"] = args.command
    sums = run(settings, args.seed, print)
    print(json.dumps(sums))
    return 1 if sums["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
