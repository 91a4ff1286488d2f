#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts with a mirror: of the new server's disk, and of the mirror's; both are equal in the end.

    mirrorcut.run(plan, seed, say)       a stage of tests/crash/run
    mirrorcut.py [--seed N] [--long]     the same by itself

A migration with a way back, with clients at work.  The power of one side goes, several times: the disk
loses what it had not been told to keep, or a part of it (disklog.py), and is there again; all that ran
on that side is started anew, and clients go on.  What the other side has is what it had by then, as it
is with two machines.  In the end everything comes, is carried over, and compared.

In sync mode some of the clients know what they were told, each in a new directory of its own.  That is looked
for at the moment of the cut: at the other side, which nobody changes any more, and on the disk that was cut,
before anything is started there.

Who wrote last to a disk dies just before its power goes, so that nobody is told by a dead disk that
something is kept.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "demo"))       # lib.richtree uses oldtree

from apart import answer, run_stage  # noqa: E402
from cuts_record import BASE, LOGDISK, Disk  # noqa: E402
from disklog import Log  # noqa: E402
import images  # noqa: E402
from kills_bed import SHIM  # noqa: E402
from lib.clientwork import Knowing, Workers, fill  # noqa: E402
from lib.ganesha import Ganesha  # noqa: E402
from lib.migration import Migration  # noqa: E402
from lib.mirror import Mirror  # noqa: E402
from lib.programs import MIRROR, RETRIEVER  # noqa: E402
from lib.wait import wait_until  # noqa: E402

PLANS = {"brief": dict(rounds=1, cuts=3), "quick": dict(rounds=2, cuts=6), "long": dict(rounds=10 ** 9, cuts=12)}
PATIENCE = 300
CLIENTS = 3
KNOWING = 2
SMALL_WRITES = "MaxWrite = 2048; PrefWrite = 2048;"
FOLLOWS = 20     # seconds, else nobody waits for the mirror: nothing is promised
VOLUME, OLD = "volume", "old"
FSTYPE = "xfs"
# A server says that names are kept when they are: Ganesha leaves that to the file system.
OPTIONS = {VOLUME: "", OLD: "wsync"}
NAMESPACES = ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child",
              "--mount-proc", sys.executable, str(HERE / "mirrorcut.py")]


class Side:
    """A file system that can lose its power; always at the same place."""

    def __init__(self, home, name):
        self.home, self.name = home / name, name
        self.mnt = self.home / "mnt"
        self.mnt.mkdir(parents=True)
        self.image, self.disk, self.lives = self.home / "image", None, 0
        images.make(self.image, FSTYPE)

    def power_on(self):
        self.lives += 1
        where = self.home / ("life-%d" % self.lives)
        images.clone(self.image, self.home / "run")
        self.disk = Disk(self.home / "run", self.home / "log", where, FSTYPE, OPTIONS[self.name])
        images.bind(self.disk.mnt, self.mnt)

    def off(self):
        """Whoever was there is dead."""
        images.umount(self.mnt)
        self.disk.close()
        self.disk = None

    def cut(self, rng):
        """What is left of it: a text."""
        self.disk.power_off()
        self.off()
        log = Log(self.home / "log", images.ordered_place(self.image, FSTYPE))
        builder = images.Builder(log, self.image, self.home)
        for cut in log.cuts:
            builder.advance(cut)
        state = rng.choice(log.last_states(FSTYPE, rng, 3))
        shutil.move(builder.state(state), self.image)
        builder.close()
        os.unlink(self.home / "log")
        return "%s, %d writes of %d" % (state.name, len(state.writes), len(log.cuts[-1].volatile))


class Bed:
    def __init__(self, home, seed):
        self.home, self.rng = home, random.Random(seed)
        self.side = {name: Side(home, name) for name in (VOLUME, OLD)}
        self.volume, self.old = (self.side[name].mnt / "tree" for name in (VOLUME, OLD))
        # most of them take little by one call, so that it needs several, and a COMMIT
        self.server = Ganesha(home / "server", str(self.old), shim=SHIM, more=SMALL_WRITES if seed % 4 else "")
        self.m = self.mirror = None
        self.seed, self.boots, self.promises = seed, 0, 0

    def prepare(self):
        for side in self.side.values():
            side.power_on()
            (side.mnt / "tree").mkdir()
        fill(self.old, random.Random(3))
        os.sync()
        self.server.start()
        self.m = Migration(self.home / "m", self.server.url(), self.volume, shim=SHIM,
                           conf="block_size = 65536\nmax_tries = 1000\n")
        self.m.way_back = True
        self.m.init()
        self.mirror = Mirror(self.home / "replicator", self.volume, "log_level = debug\n")

    def start(self):
        self.m.start()
        self.mirror.start(wait=False)

    def kill_here(self):
        self.mirror.kill()                  # before the disk: see above
        self.side[VOLUME].disk.power_off()
        self.m.server.kill9()
        self.m.kill_crawler()
        self.m.kill_retriever()

    def client(self):
        return self.m.client(self.rng.choice(("v3", "v4.1"))).patient(20)

    def awaited(self):
        with contextlib.suppress(OSError, ValueError):
            return self.mirror.status()["awaited"]
        return False

    def knowing(self, number):
        """Clients that are promised something; none, if nothing is."""
        with contextlib.suppress(TimeoutError):
            wait_until(self.awaited, FOLLOWS, "clients wait for the mirror")
            clients = [(self.client(), "known-%d-%d" % (number, i)) for i in range(KNOWING)]
            for c, top in clients:
                c.mkdir(top)
            return [Knowing(c, top, self.rng.random()) for c, top in clients]
        return []

    def one_cut(self, number, crawl):
        """Clients work; then the power of one side goes."""
        rng, victim = self.rng, self.rng.choice((VOLUME, VOLUME, OLD))
        mode = rng.choice(("sync", "sync", "partly-async", "async"))
        self.m.postcopy("mirror", "mode", self.volume, mode)
        if crawl:
            self.m.start_crawler(stay=True)
        workers = Workers([self.client() for _ in range(CLIENTS)], self.seed * 1000 + number)
        workers.start()
        knowing = []
        try:
            knowing = self.knowing(number) if mode == "sync" else []
            for k in knowing:
                k.start()
            for part in range(3):
                if part and mode != "sync" and rng.random() < 0.5:
                    self.mirror.kill()      # amid what it writes
                    self.mirror.start(wait=False)
                time.sleep(rng.random() * 0.5)      # when it goes is chance
            promised = self.awaited() and [k for k in knowing if not k.error]
            for k in knowing:
                k.over.set()
            if victim == VOLUME:
                self.kill_here()
            else:
                self.server.kill9()
            told = self.side[victim].cut(rng)
            if victim == VOLUME:
                images.new_boot(self.home)
                self.boots += 1
                self.kept(promised, self.old)
        finally:
            workers.over.set()
            if victim == VOLUME:
                workers.join()
        self.side[victim].power_on()
        self.kept(promised, self.volume if victim == VOLUME else self.old)
        if victim == VOLUME:
            self.start()
        else:
            self.server.start()
            workers.join()
        for k in knowing:
            k.join()
        return "%s, %s: %s" % (victim, mode, told)

    def kept(self, knowing, tree):
        """What was acknowledged is there."""
        wrong = [k.wrong(tree) for k in knowing or [] if k.wrong(tree)]
        assert not wrong, "%s: %s" % (tree, wrong)
        self.promises += sum(k.done for k in knowing or [])

    def end(self):
        """What is wrong."""
        self.m.kill_crawler()
        self.m.crawl(PATIENCE)
        wait_until(lambda: self.m.status()["state"] == "complete", PATIENCE, "the end")
        self.mirror.drained(PATIENCE)
        wrong = self.mirror.differences(self.old)
        return wrong and (wrong, [self.look(os.fsdecode(path)) for paths in wrong.values() for path in paths[:3]])

    def look(self, path):
        """Both sides of it."""
        def side(top):
            with contextlib.suppress(OSError):
                st = os.lstat(top / path)
                return "inode %x, %o %d:%d %d bytes, %d names, mtime %d" % (st.st_ino,
                    st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_nlink, st.st_mtime_ns)
            return "nothing"
        return path, side(self.volume), side(self.old)

    def stop(self):
        for process in (self.mirror.kill, self.m.server.kill9, self.m.kill_crawler, self.m.kill_retriever,
                        self.server.kill9):
            with contextlib.suppress(Exception):
                process()
        for side in self.side.values():
            if side.disk:
                side.disk.power_off()
                side.off()
        for _ in range(self.boots):
            images.umount(images.BOOT_ID)


def one_round(bed, cuts, sums, say):
    told = []
    try:
        bed.prepare()
        bed.start()
        for number in range(cuts):
            told.append(bed.one_cut(number, crawl=number == cuts // 2))
            sums["power_images"] += 1
        wrong = bed.end()
        sums["recoveries"] += 1
    except (AssertionError, OSError, TimeoutError) as err:
        wrong = "%s: %s" % (type(err).__name__, err)
    finally:
        if bed.m:
            bed.stop()
    if wrong:
        sums["losses"] += 1
        say("LOSS: seed %d: %s" % (bed.seed, wrong))
        for line in told:
            say("      " + line)
    return not wrong


def stage(settings, seed, say):
    """Inside namespaces of our own."""
    sums = dict(power_images=0, recoveries=0, losses=0)
    end = time.monotonic() + settings["seconds"] if "seconds" in settings else None
    top = pathlib.Path(tempfile.mkdtemp(prefix="mirrorcut-", dir=BASE))
    try:
        scratch = images.scratch(top)
        for number in range(settings["rounds"]):
            begin = time.monotonic()
            bed = Bed(scratch / str(number), seed + number)
            good = one_round(bed, settings["cuts"], sums, say)
            say("seed %d: %d cuts in %.0f s; %d answers looked for" % (seed + number, settings["cuts"],
                                                                       time.monotonic() - begin, bed.promises))
            if not good and os.environ.get("POSTCOPY_KEEP"):
                kept = pathlib.Path(tempfile.mkdtemp(prefix="mirrorcut-kept-", dir=BASE))
                shutil.copytree(bed.home, kept / "bed", ignore=shutil.ignore_patterns("run", "mnt", "life-*", "*.sock*", "*.mirror", "*.control"))
            shutil.rmtree(bed.home, ignore_errors=True)
            if end and time.monotonic() > end:
                break
    finally:
        for path in (top / "scratch", top / "memory"):
            with contextlib.suppress(OSError):
                images.umount(path)
        shutil.rmtree(top, ignore_errors=True)
    return sums


def run(plan, seed, say):
    images.check_machine()
    for program in (LOGDISK, MIRROR, RETRIEVER):
        if not program.exists():
            raise images.Missing("%s is not built (POSTCOPY_BUILD)" % program)
    BASE.mkdir(parents=True, exist_ok=True)
    settings = PLANS[plan] if isinstance(plan, str) else plan
    return run_stage("mirrorcut", seed, [*NAMESPACES, "--inside", json.dumps(settings), "--seed", str(seed)],
                     say)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_const", dest="plan", const="long", default="quick")
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return answer(lambda say: stage(args.inside, args.seed, say))
    sums = run(args.plan, args.seed, print)
    print(json.dumps(sums))
    return 1 if sums["losses"] else 0


if __name__ == "__main__":
    sys.exit(main())
