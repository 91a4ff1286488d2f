#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume with a mirror: whoever dies at whichever system call, both sides are equal in the end.

    mirrored.run(plan, seed, say)       a stage of tests/crash/run
    mirrored.py [--seed N] [--long]     the same by itself
    mirrored.py --seed N --kill BED WHERE COMMAND     one of its runs again

BED is backup or wayback.  A volume and its backup are alike; then the volume is changed in all ways, which its
mirror is owed.  Or: a migration with a way back has begun, and clients have worked at random where hardly anything has
come.  That is kept in two images, from which each run begins: the replicator carries it over, and

    kill N postcopy-mirror      it is killed at its N-th call that changes the volume
    kill N postcopy-retrie      of a way back: who brings what the replicator waits for, likewise
    killall N postcopy-mirror   it is killed when the mirror's disk is about to change the N-th time
    kill N ganesha.nfsd         the mirror's server is, in that moment (it has its page cache still)

Who was killed comes back; when all has been carried over (and all of a migration has come), both sides are compared.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "demo")]     # lib.richtree uses oldtree

import below_gate  # noqa: E402
import images  # noqa: E402
from kills_bed import SHIM  # noqa: E402
from lib.clientwork import Work, fill  # noqa: E402
from lib.ganesha import Ganesha  # noqa: E402
from lib.migration import Migration  # noqa: E402
from lib.mirror import Changes, Mirror, finished, make  # noqa: E402

# kills: so many of each kind, of all that there are; rounds: with so many sets of changes
PLANS = {"brief": dict(rounds=1, kills=1), "quick": dict(rounds=1, kills=4),
         "long": dict(rounds=10 ** 9, kills=12)}
PATIENCE = 120
HERE_, THERE = "volume", "mirror"
KINDS = ((HERE_, "kill", "postcopy-mirror"), (THERE, "killall", "postcopy-mirror"),
         (THERE, "kill", "ganesha.nfsd"))
STEPS = 60              # of random work with a way back


def tree(c, rng):
    """What both sides have."""
    for name in ("a", "b", "a/deep", "a/deep/er", "moves", "moves/below"):
        c.mkdir(name)
    for i in range(6):
        c.write("a/%d" % i, rng.randbytes(rng.choice([0, 10, 5000, 200000])))
        c.write("a/deep/er/%d" % i, rng.randbytes(1000))
        c.write("moves/below/%d" % i, rng.randbytes(1000))
    c.link("a/0", "b/link")
    c.write("b/replaced", b"old")
    c.symlink("b/symlink", "../a/1")


def change(c, rng):
    """All of it is owed; in an order of its own each time, where that makes a difference."""
    def new():
        for i in range(3):
            c.write("b/new-%d" % i, rng.randbytes(rng.choice([0, 100, 100000])))
        c.mkdir("new")
        c.write("new/below", b"below")
        c.mknod("new/fifo", 0o010644)

    def moved():
        c.rename("moves", "b/moved")
        if os.path.lexists(c.at("a/deep/er")):
            c.rename("a/deep/er", "b/moved/er")
        c.rename("a/1", "a/deep/one")

    def gone():
        c.unlink("a/2")
        c.remove_tree("a/deep/er" if os.path.lexists(c.at("a/deep/er")) else "b/moved/er")

    def written():
        c.write("a/3", rng.randbytes(5000), rng.randrange(4096))
        c.truncate("a/4", 17)
        c.chmod("a/5", 0o640)
        c.chown("a/5", 1000, 100)

    def others():
        c.link("a/5", "b/second")
        c.unlink("b/link")
        c.write("replacing", b"new")
        c.rename("replacing", "b/replaced")
        c.swap("a", "b")
        c.swap("a", "b")

    steps = [new, moved, gone, written, others]
    rng.shuffle(steps)
    for step in steps:
        step()


class Bed:
    """Volume and mirror, started anew from the same images as often as wanted."""
    NAME, KINDS = "backup", KINDS

    def __init__(self, home, gate, seed):
        self.home, self._gate, self.rng = pathlib.Path(home), gate, random.Random(seed)
        self.mnt = {name: self.home / name for name in (HERE_, THERE)}
        for path in self.mnt.values():
            path.mkdir(parents=True)
        self.volume, self.tree = self.mnt[HERE_] / "volume", self.mnt[THERE] / "tree"
        self.server = Ganesha(self.home / "server", str(self.tree), shim=SHIM)
        self.mirror = None

    @contextlib.contextmanager
    def mounted(self, suffix):
        with contextlib.ExitStack() as stack:
            for name, fstype in ((HERE_, "xfs"), (THERE, "ext4")):
                stack.enter_context(images.Mounted(self.home / (name + suffix), self.mnt[name],
                                                   fstype))
            yield

    def prepare(self):
        for name, fstype in ((HERE_, "xfs"), (THERE, "ext4")):
            images.make(self.home / (name + ".base"), fstype)
        with self.mounted(".base"):
            for path in (self.volume, self.tree, self.mnt[HERE_] / "old"):
                path.mkdir()
            self.fill()

    def fill(self):
        (self.mnt[HERE_] / "old/file").write_bytes(b"from the old server")
        finished(self.home, self.volume, self.mnt[HERE_] / "old")
        self.server.start()
        make(self.volume, self.server.url())
        self.mirror = Mirror(self.home / "replicator", self.volume)
        with Changes(self.volume) as c:
            tree(c, self.rng)
        self.mirror.start()
        self.mirror.equal(self.tree)
        self.mirror.stop()
        self.server.stop()
        with Changes(self.volume) as c:
            change(c, self.rng)

    def begin(self):
        """What the replicator needs, at the beginning of a run."""
        self.server.start()

    def revive(self):
        if not self.server.alive:
            self.server.start()
        if self.mirror.process.poll() is not None:
            self.mirror.start(wait=False)

    def end(self):
        """Nothing is watched any more: what differs."""
        wrong = self.mirror.differences(self.tree)
        self.mirror.stop()
        self.server.stop()
        return wrong

    def kill(self):
        self.mirror.kill()
        self.server.kill9()

    def tell(self, command):
        os.write(self._gate, command.encode())

    def _drained(self):
        """Who has died comes back meanwhile."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.revive()
            with contextlib.suppress(OSError, ValueError):
                if self.mirror.ask("drained")["drained"]:
                    return
            time.sleep(0.05)
        raise AssertionError("not drained: %s" % self.mirror.status())

    def carried(self, where, command=None):
        """Carry all over, with the gate at one side's disk; what is wrong then, and the calls of each
        process there."""
        for name in self.mnt:
            images.clone(self.home / (name + ".base"), self.home / (name + ".run"))
        since = os.path.getsize(os.environ["SYSGATE_LOG"])
        with self.mounted(".run"):
            try:
                self.begin()
                self.tell("watch %s" % self.mnt[where])
                if command:
                    self.tell(command)
                self.mirror.start(wait=False)
                self._drained()
                self.tell("unwatch")
                wrong = self.end()
            finally:
                with contextlib.suppress(OSError):
                    self.tell("unwatch")
                self.kill()
        with open(os.environ["SYSGATE_LOG"], errors="replace") as f:
            f.seek(since)
            log = f.read()
        calls = {}
        for name in re.findall(r"^call \d+ (\S+) ", log, re.MULTILINE):
            calls[name] = calls.get(name, 0) + 1
        if command and "\nkilled " not in "\n" + log:
            wrong["killed"] = ["nobody"]
        return wrong, calls


class WayBack(Bed):
    """The mirror is the old server; hardly anything has come when the replicator begins."""
    NAME = "wayback"
    KINDS = (KINDS[0], (HERE_, "kill", "postcopy-retrie"), *KINDS[1:])     # as the kernel has its name

    def fill(self):
        fill(self.tree, self.rng)
        self.server.start()
        self.m = Migration(self.home / "m", self.server.url(), self.volume, shim=SHIM)
        self.m.way_back = True
        self.m.init().start()
        self.mirror = Mirror(self.home / "replicator", self.volume)
        with self.m.client("v3").patient(60) as c, self.m.client("v4.1").patient(60) as other:
            work = Work(c, self.rng, other)
            for _ in range(STEPS):
                work.step()
        self.m.stop()
        self.server.stop()

    def begin(self):
        super().begin()
        self.m.start_retriever()
        self.m.start_crawler()

    def revive(self):
        super().revive()
        if self.m.retriever.poll() is not None:
            self.m.start_retriever(wait=False)
        if self.m.crawler.poll():
            self.m.start_crawler()

    def end(self):
        self.m.kill_crawler()
        self.m.crawl()
        self.mirror.drained()
        wrong = super().end()
        self.m.stop(scan=False)
        return wrong

    def kill(self):
        super().kill()
        self.m.kill_crawler()
        self.m.kill_retriever()


BEDS = {bed.NAME: bed for bed in (Bed, WayBack)}


def one(bed, where, command, seed, say):
    begin = time.monotonic()
    try:
        wrong = bed.carried(where, command)[0]
    except (AssertionError, OSError, TimeoutError) as err:
        wrong = "%s: %s" % (type(err).__name__, err)
    if wrong:
        say("LOSS: seed %d, %s, %s, %s: %s" % (seed, bed.NAME, where, command, wrong))
        say("      again: tests/crash/mirrored.py --seed %d --kill %s %s '%s'" % (seed, bed.NAME, where, command))
    else:
        say("%s, %s, %s: %.1f s" % (bed.NAME, where, command, time.monotonic() - begin))
    return bool(wrong)


def a_round(bed, settings, seed, say, sums):
    rng = random.Random(seed)
    counts = {}
    for where in (HERE_, THERE):
        wrong, counts[where] = bed.carried(where)
        if wrong:
            sums["losses"] += 1
            say("LOSS: seed %d, %s, with nobody killed: %s" % (seed, bed.NAME, wrong))
    say("%s, calls: %s" % (bed.NAME, counts))
    for where, how, name in bed.KINDS:
        calls = sum(counts[where].values()) if how == "killall" else counts[where].get(name, 0)
        if not calls:
            raise RuntimeError("the gate saw nothing of %s at the %s: %s" % (name, where, counts))
        # the last ones may not come again: how often the ledger is read is not the same each time
        points = range(1, max(2, calls * 9 // 10))
        for n in sorted(rng.sample(points, min(settings["kills"], len(points)))):
            sums["kill_points"] += 1
            sums["recoveries"] += 1
            sums["losses"] += one(bed, where, "%s %d %s" % (how, n, name), seed, say)


def a_bed(bed, settings, seed, say, sums):
    bed.prepare()
    if "kill" in settings:
        sums["losses"] += one(bed, *settings["kill"][1:], seed, say)
    else:
        a_round(bed, settings, seed, say, sums)
    shutil.rmtree(bed.home)


def stage(gate, settings, seed, say):
    sums = dict(kill_points=0, recoveries=0, losses=0)
    beds = [BEDS[settings["kill"][0]]] if "kill" in settings else BEDS.values()
    end = time.monotonic() + settings["seconds"] if "seconds" in settings else None
    with below_gate.scratch("mirrored") as scratch:
        for number in range(settings["rounds"]):
            for bed in beds:
                a_bed(bed(scratch / (bed.NAME + str(number)), gate, seed + number), settings, seed + number, say, sums)
            if end and time.monotonic() > end:
                break
    return sums


def run(plan, seed, say):
    return below_gate.run("mirror", HERE / "mirrored.py",
                          PLANS[plan] if isinstance(plan, str) else plan, seed, say)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_const", dest="plan", const="long", default="quick")
    parser.add_argument("--kill", nargs=3, metavar=("BED", "WHERE", "COMMAND"))
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.kill and args.kill[0] not in BEDS:
        parser.error("--kill: no bed %r: want %s" % (args.kill[0], " or ".join(BEDS)))
    if args.inside:
        return below_gate.inside(stage, args.inside, args.seed)
    plan = dict(PLANS[args.plan], rounds=1, kill=args.kill) if args.kill else args.plan
    sums = run(plan, args.seed, print)
    print(json.dumps(sums))
    return 1 if sums["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
