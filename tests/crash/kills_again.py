# SPDX-License-Identifier: GPL-3.0-or-later
"""Killed again while it recovers.

On some of the states that a first kill left, the retriever starts and the crawler
goes to the end, below sysgate.  Two things are done:

    points  the image is copied before each call of that, and each copy is judged as
            those of the first kill are.  A crash in recovery must not lead anywhere
            else: every name, byte, type and target is what the first kill left, with
            the source behind it.  From some copies the migration goes on to its end.
    kills   the retriever is really killed at its N-th call, and comes back

All processes had died when recovery began, so the first kill's era is over.
"""
import pathlib
import shutil
import struct
import time

from apart import in_parallel
from cuts_judge import recover
from cuts_model import logical
import images
from kills_bed import Reviver
from kills_judge import WORKERS, at_work, judge_volume, keep, states_of

RETRIEVER = "postcopy-retrie"
ERA = struct.Struct("@12xI")             # of struct stub_state_page
PATIENCE = 60


def era_of(volume):
    """Read before stubdump begins one of its own."""
    return ERA.unpack_from((pathlib.Path(volume) / ".postcopy" / "state").read_bytes())[0]


def differs(wanted, found):
    """Two answers of logical()."""
    def told(what):
        kind, value = what or (None, None)
        return "no name" if kind is None else "%s %r..." % (kind, value[:16] if value else value)
    return ["%r: %s after the first kill, now %s" % (
        path, told(wanted.get(path)), told(found.get(path)))
        for path in sorted(set(wanted) | set(found)) if wanted.get(path) != found.get(path)]


def judge_again(case, volume, state, wanted, era):
    """(what is wrong, image, tree).  `state` tells how far the client was; `wanted` is
    what the first kill left, in that era.  Nobody reads the volume before the
    retriever began another era: until then there is none that could have lived on."""
    expected = case.expected(state.issued, state.acked, True)
    for keep_era in (True, False) if era_of(volume) != era else (False,):
        wrong, image, tree = judge_volume(volume, expected, keep_era)
        if tree:
            wrong += differs(wanted, logical(image, tree))
        if wrong:
            return ["%s: %s" % ("one lived" if keep_era else "all died", text)
                    for text in wrong], image, tree
    return wrong, image, tree


def worker(case, bed, copies, points, part, first, wanted, era, going_on):
    """Judge every WORKERSth point of what followed on `first`: (recoveries, failed)."""
    recoveries, failed = 0, []
    with at_work(bed, part) as home:
        for point in points[part::WORKERS]:
            image = images.clone(copies / ("%06d.img" % point.number), home / "state.img")
            with images.Mounted(image, home / "mnt", "xfs") as where:
                try:
                    wrong, found, tree = judge_again(case, pathlib.Path(where), first, wanted,
                                                     era)
                    if not wrong and point.number in going_on:
                        wrong = recover(bed, where, tree, found)
                        recoveries += 1
                except (AssertionError, TimeoutError, OSError) as err:
                    wrong = ["%s: %s" % (type(err).__name__, err)]
            if wrong:
                failed.append((point, wrong))
    return recoveries, failed


class Again:
    def __init__(self, stage, case, bed):
        self.stage, self.case, self.bed, self.rng = stage, case, bed, stage.rng
        self.copies, self.log = bed.home / "again", bed.home / "log-again"

    def run(self, todo, states, points, recoveries, kills):
        """todo: what the first kill left."""
        begin = time.monotonic()
        seen, losses = [0, 0, 0, 0], self.stage.sums["losses"]
        kills = self.spread(kills, states)
        recoveries = self.spread(recoveries, states)
        for i, first in enumerate(self.firsts(todo, states)):
            if self.stage.over():
                break
            try:
                found = self.one(first, points, recoveries[i], kills[i])
            except (AssertionError, TimeoutError) as err:
                self.lost("recovery from %s, with nobody killed" % first.call,
                          ["%s: %s" % (type(err).__name__, err)])
                shutil.rmtree(self.copies, ignore_errors=True)
                found = ()
            for n, more in enumerate(found):
                seen[n] += more
        self.stage.sums["kill_points"] += seen[0] + seen[3]
        self.stage.sums["recoveries"] += seen[2] + seen[3]
        self.stage.say("%s: killed again in recovery: %d states judged (%d of the start), "
                       "%d recovered, %d killed, in %.1f s; %d lost" % (
                           self.case.name, *seen, time.monotonic() - begin,
                           self.stage.sums["losses"] - losses))

    def spread(self, count, over):
        """So many, over that many states."""
        return [count * (i + 1) // over - count * i // over for i in range(over)]

    def firsts(self, todo, count):
        """Of the states with something left behind in each place, then any."""
        rest = self.rng.sample(todo, len(todo))
        rest.sort(key=lambda s: s.number == todo[-1].number)     # the end: last of all
        found = []
        for place in ("staging", "provisional", "journal"):
            found += [s for s in rest if s.after.startswith(place)][:-(-count // 4)]
        found += [s for s in rest if s not in found]
        return found[:count]

    def base(self, first):
        return self.bed.copies / ("%06d.img" % first.number)

    def one(self, first, points, recoveries, kills):
        """(points judged, of these in the start, recoveries, kills) after one state."""
        wanted, era = self.left_by(first)
        todo, calls = self.record(first)
        starting = [p for p in todo if not p.issued]
        later = [p for p in todo[:-1] if p.issued]
        # all of the start, some of the crawl, and where it ends with nobody killed
        chosen = starting + sorted(self.rng.sample(later, min(
            len(later), max(0, points - len(starting) - 1))), key=lambda p: p.number) + todo[-1:]
        going_on = {p.number for p in self.rng.sample(chosen[:-1],
                                                      min(recoveries, len(chosen) - 1))}
        answers = in_parallel(WORKERS, worker, self.case, self.bed, self.copies, chosen, None, first,
                              wanted, era, going_on)
        for point, wrong in sorted((f for a in answers for f in a[1]),
                                   key=lambda f: f[0].number):
            self.lost("before call %s of recovery from %s" % (point.call, first.call), wrong)
            self.stage.say("      again: tests/crash/kills.py --again %s" % keep(
                self.case, first, self.copies / ("%06d.img" % point.number), self.log, wrong,
                point.number, wanted=wanted, era=era, then=point.call))
        shutil.rmtree(self.copies)
        killed = 0
        for n in sorted(self.rng.sample(range(1, calls + 1), min(kills, calls))):
            killed += self.kill(first, n, wanted)
        return len(chosen), len(starting), sum(a[0] for a in answers), killed

    def lost(self, what, wrong):
        self.stage.sums["losses"] += 1
        self.stage.say("LOSS: seed %d, case %s, %s: %s" % (
            self.case.seed, self.case.name, what, "; ".join(wrong[:4])))

    def expected(self, first):
        return self.case.expected(first.issued, first.acked, True)

    def left_by(self, first):
        """(logical contents, era) of one state, which was judged before."""
        with self.bed.found(self.base(first)):
            era = era_of(self.bed.mnt)
            _wrong, image, tree = judge_volume(self.bed.mnt, self.expected(first), False)
            return logical(image, tree), era

    def record(self, first):
        """(copies in order, calls of the retriever); issued: the crawler was there."""
        self.copies.mkdir()
        with self.bed.logging(self.log), self.bed.found(self.base(first)) as m:
            self.bed.tell("watch %s" % self.bed.mnt)
            self.bed.tell("snap %s %s" % (self.bed.image, self.copies))
            try:
                m.start_retriever()
                self.bed.tell("mark s")
                m.crawl_on()
                m.drain()
            finally:
                self.bed.tell("unwatch")
        found, calls = states_of(self.log)
        if not calls.get(RETRIEVER):
            raise RuntimeError("case %s: the gate saw %r in recovery" % (self.case.name, calls))
        return found, calls[RETRIEVER]

    def kill(self, first, n, wanted):
        """Was it killed?  (Threads do not make the same calls each time.)"""
        try:
            with self.bed.logging(self.log), self.bed.found(self.base(first)) as m:
                wrong = self.killed(m, n, wanted, self.expected(first))
        except (AssertionError, TimeoutError, OSError) as err:
            wrong = ["%s: %s" % (type(err).__name__, err)]
        if wrong:
            self.lost("killed at call %d of recovery from %s" % (n, first.call), wrong)
        return "\nkilled " in self.log.read_text()

    def killed(self, m, n, wanted, expected):
        reviver = Reviver(m, server=False)
        self.bed.tell("watch %s" % self.bed.mnt)
        self.bed.tell("kill %d %s" % (n, RETRIEVER))
        try:
            m.start_retriever(wait=False)
            reviver.start()
            try:
                m.crawl_on()
            finally:
                reviver.finish()
        finally:
            self.bed.tell("unwatch")
        m.audit(complete=True)
        m.retriever.terminate()
        code = m.retriever.wait(PATIENCE)
        wrong = ["retriever ended with %d" % code] if code else []
        more, image, tree = judge_volume(self.bed.mnt, expected, False)
        return wrong + more + (differs(wanted, logical(image, tree)) if tree else [])
