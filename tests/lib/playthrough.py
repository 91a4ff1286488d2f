# SPDX-License-Identifier: GPL-3.0-or-later
"""Migrations played through in memory: what retriever and crawler would have counted, second by
second, of a made-up tree beyond a made-up way to an old server. Deterministic; nothing is run.

It has what makes real histories hard to read: calls in flight that wait for each other in the line,
small files that come with their listing (decision 0066), directories before small files before
large ones, large files in slices, counts that come in lumps, rates that drift, steps, pauses, a
throttle, a restart. One queue each for the old server and for the line, first in first out.
"""
from __future__ import annotations

import heapq
import random
from typing import Any, Callable, NamedTuple, Sequence

KIB, MIB = 1 << 10, 1 << 20
ENTRY = 300             # bytes of a listing's answer, for each name
NAMES = 200             # of one answer
LARGE = 1 << 20         # such files come last (journal_value.c)
READ = 1 << 20          # bytes of a call
WINDOW = 8              # calls in flight for a file (job_data.c)
SLICE_S = 5.0
SMALL = 64 * KIB        # comes with its listing (job_whole.c)
PATIENCE_S, REST_S = 1.5, 10.0
PARTLY = 4 * MIB        # counted while it comes (partly.h)
TICK_S = 10.0           # of the history
SAMPLES = 512


class Dir:
    """A directory: what is in it. number: its inode's, by which it has its turn."""

    def __init__(self, rng: random.Random, depth: int):
        self.depth = depth
        self.number = rng.random()
        self.dirs: list[Dir] = []
        self.files: list[int] = []      # sizes

    def below(self, rng: random.Random) -> "Dir":
        d = Dir(rng, self.depth + 1)
        self.dirs.append(d)
        return d


class Way(NamedTuple):
    """To the old server, and what it can do."""
    name: str
    line: float = 1e9           # bytes/s
    trip: float = 0.0005        # seconds there and back
    call: float = 0.001         # seconds of one of the server's threads
    threads: int = 8
    drift: float = 0.2          # of the line and the server, each drift_s
    drift_s: float = 60.0
    small: int = SMALL          # 0: small files do not come with their listing
    workers: int = 16
    sync: float = 0.5           # what has come counts as done so often
    throttle: float = 0.0       # bytes/s
    pauses: tuple[tuple[float, float], ...] = ()
    restarts: tuple[float, ...] = ()
    step: tuple[float, float] = (1e18, 1.0)     # from then on so many times as slow


class File:
    def __init__(self, size: int):
        self.size, self.asked, self.here, self.flying = size, 0, 0, 0
        self.until = 0.0
        self.noted = 0


class Migration:
    """run() until the end; `looks` then has what was known, and `end` when it was over."""

    def __init__(self, top: Dir, way: Way, seed: int):
        self.way, self.rng = way, random.Random(seed)
        self.now, self.serial = 0.0, 0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.dirs: list[tuple[float, int, Dir]] = [(0.0, 0, top)]
        self.files: list[tuple[bool, float, int, File]] = []
        self.flying = 0                         # jobs
        self.server = [0.0] * way.threads
        self.line_free = self.rest_until = self.turn = 0.0
        self.slow, self.slow_until = 1.0, 0.0
        self.tree: list[list[float]] = []
        self.totals: dict[str, Any] = {
            "found": 1, "found_bytes": 0, "done": 0, "done_bytes": 0, "left": 1, "left_bytes": 0,
            "parked": 0, "parked_bytes": 0, "directories_left": 1, "partly_bytes": 0,
            "whole": True}
        self.samples: list[list[float]] = []
        self.active, self.tick_at = 0.0, TICK_S
        self.looks: list[dict[str, Any]] = []
        self.look_every, self.look_at = 5.0, 5.0
        self.restarts = sorted(way.restarts)
        self.under_way: dict[int, File] = {}
        self.end = 0.0

    # ---- the old server and the line ----

    def slowness(self, at: float) -> float:
        while at > self.slow_until:
            self.slow = max(0.4, min(2.5, self.slow ** 0.8 *
                                     self.rng.lognormvariate(0, self.way.drift)))
            self.slow_until += self.way.drift_s
        return self.slow * (self.way.step[1] if at >= self.way.step[0] else 1.0)

    def answer(self, at: float, size: int) -> float:
        """When the answer of so many bytes to a call of now is here."""
        w = self.way
        begun = max(at + w.trip / 2, self.server[0])
        slow = self.slowness(begun)
        over = begun + w.call * slow * self.rng.uniform(0.7, 1.3)
        heapq.heapreplace(self.server, over)
        self.line_free = max(over, self.line_free) + (size + 100) * slow / w.line
        return self.line_free + w.trip / 2

    def may_send(self, size: int) -> float:
        """From when on, by pauses and throttle."""
        at = self.now
        for a, b in self.way.pauses:
            if a <= at < b:
                at = b
        if self.way.throttle and size:
            self.turn = max(self.turn, at) + size / self.way.throttle
            at = max(at, self.turn - size / self.way.throttle)
        return at

    def paused(self) -> bool:
        return any(a <= self.now < b for a, b in self.way.pauses)

    def synced(self) -> float:
        """When what is here now is on the disk."""
        return (self.now // self.way.sync + 1) * self.way.sync

    def later(self, at: float, what: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (at, self.serial, what))

    # ---- what is counted ----

    def count_done(self, n: int, size: int) -> None:
        t = self.totals
        t["done"] += n
        t["done_bytes"] += size
        t["left"] -= n
        t["left_bytes"] -= size

    def tick(self) -> None:
        """As history.c has it."""
        if self.flying > 0 and not self.paused():
            self.active += TICK_S
        t = self.totals
        row = [self.tick_at, self.active, t["found"], t["found_bytes"], t["done"],
               t["done_bytes"] + t["partly_bytes"], t["directories_left"], 0]
        last = self.samples[-1] if self.samples else None
        if last and row[4] >= last[4]:
            row[5] = max(row[5], min(last[5], row[3]))
        if not last or last[2:] != row[2:]:
            self.samples.append(row)
            if len(self.samples) > SAMPLES:         # the oldest ones become fewer
                del self.samples[1:SAMPLES // 2:2]
        self.tick_at += TICK_S

    def look(self) -> None:
        t = self.totals
        present = [self.look_at, self.active, t["found"], t["found_bytes"], t["done"],
                   t["done_bytes"] + t["partly_bytes"], t["directories_left"], 0]
        self.looks.append({"at": self.look_at, "totals": dict(t), "now": present,
                           "tree": [row[:] for row in self.tree], "samples": self.samples[:]})
        if len(self.looks) >= 200:
            del self.looks[::2]
            self.look_every *= 2
        self.look_at += self.look_every

    def go_to(self, at: float) -> None:
        """What the clock does until then."""
        while min(self.tick_at, self.look_at) <= at:
            self.now = min(self.tick_at, self.look_at)
            if self.restarts and self.now >= self.restarts[0]:
                self.restarts.pop(0)
                self.totals["partly_bytes"] = 0
                for f in self.under_way.values():
                    f.noted = 0
            if self.tick_at <= self.look_at:
                self.tick()
            else:
                self.look()
        self.now = at

    # ---- a directory ----

    def list(self, d: Dir) -> None:
        things: list[Dir | int] = [*d.dirs, *d.files]
        self.rng.shuffle(things)

        def part(first: int) -> None:
            some = things[first:first + NAMES]
            at = self.answer(self.may_send(0), ENTRY * len(some))
            self.later(at, lambda: self.listed(some, lambda: after(first + NAMES)))

        def after(first: int) -> None:
            if first < len(things):
                part(first)
            else:
                self.all_listed(d)
        part(0)

    def listed(self, some: Sequence[Dir | int], then: Callable[[], None]) -> None:
        """The small files of it are fetched first."""
        small = [x for x in some if isinstance(x, int) and 0 < x <= self.way.small]
        if not small or self.now < self.rest_until or self.paused() or self.way.throttle:
            self.found(some, [])
            then()
            return
        before, come = self.now, []
        for size in small:                      # 64 are in flight; the line is a queue anyway
            at = self.answer(self.now, size)
            if at > before + PATIENCE_S:
                self.rest_until = before + PATIENCE_S + REST_S
                before += PATIENCE_S
                break
            before = max(before, at)
            come.append(size)

        def over() -> None:
            self.found(some, come)
            then()
        self.later(before, over)

    def found(self, some: Sequence[Dir | int], come: list[int]) -> None:
        t = self.totals
        t["found"] += len(some)
        t["left"] += len(some)
        whole = list(come)
        for x in some:
            if isinstance(x, Dir):
                t["directories_left"] += 1
                self.serial += 1
                heapq.heappush(self.dirs, (x.number, self.serial, x))
                continue
            t["found_bytes"] += x
            t["left_bytes"] += x
            if not x:
                self.count_done(1, 0)
            elif whole and x == whole[0]:
                whole.pop(0)
                self.count_done(1, x)
            else:
                self.serial += 1
                heapq.heappush(self.files, (x >= LARGE, self.rng.random(), self.serial, File(x)))

    def all_listed(self, d: Dir) -> None:
        row_of(self.tree, d)
        self.totals["directories_left"] -= 1
        self.later(self.synced(), lambda: self.count_done(1, 0))
        self.over()

    # ---- a file ----

    def fetch(self, f: File) -> None:
        f.until = self.now + SLICE_S
        self.under_way[id(f)] = f
        self.more_of(f)

    def more_of(self, f: File) -> None:
        while f.flying < WINDOW and f.asked < f.size and (self.now < f.until or f.asked == 0):
            part = min(READ, f.size - f.asked)
            f.asked += part
            f.flying += 1
            at = self.may_send(part)
            if at > self.now:
                self.later(at, lambda part=part: self.send(f, part))
            else:
                self.send(f, part)
        if f.flying:
            return
        self.over()
        if f.here < f.size:                     # another slice of it, in its turn
            self.serial += 1
            heapq.heappush(self.files, (True, 0.0, self.serial, f))
            return
        self.later(self.synced(), lambda: self.all_here(f))

    def send(self, f: File, part: int) -> None:
        self.later(self.answer(self.now, part), lambda: self.come(f, part))

    def come(self, f: File, part: int) -> None:
        f.flying -= 1
        f.here += part
        if f.size >= PARTLY:
            self.totals["partly_bytes"] += f.here - f.noted
            f.noted = f.here
        self.more_of(f)

    def all_here(self, f: File) -> None:
        self.totals["partly_bytes"] -= f.noted
        self.under_way.pop(id(f), None)
        self.count_done(1, f.size)

    # ---- the crawler ----

    def over(self) -> None:
        self.flying -= 1

    def refill(self) -> None:
        while self.flying < self.way.workers and (self.dirs or self.files):
            self.flying += 1
            if self.dirs:
                self.list(heapq.heappop(self.dirs)[2])
            else:
                self.fetch(heapq.heappop(self.files)[3])

    def run(self) -> "Migration":
        self.refill()
        while self.events:
            at, _, what = heapq.heappop(self.events)
            self.go_to(at)
            what()
            self.refill()
        self.end = self.now
        assert self.totals["left"] == 0 and not self.totals["partly_bytes"], self.totals
        return self

    def look_at_part(self, part: float) -> dict[str, Any]:
        """What was known then; 0.5: when half of the time was over. With "truth": seconds of work
        that were left."""
        told = min(self.looks, key=lambda look: abs(look["at"] - part * self.end))
        stood = sum(max(0.0, min(b, self.end) - max(a, told["at"])) for a, b in self.way.pauses)
        return dict(told, truth=self.end - told["at"] - stood)


# ---- trees -------------------------------------------------------------------------------

def sizes(rng: random.Random, n: int, middle: float, spread: float,
          most: int = 64 * MIB) -> list[int]:
    return [min(int(rng.lognormvariate(0, spread) * middle), most) for _ in range(n)]


def uniform(rng: random.Random, k: int) -> Dir:
    """k: how many times as large as those of predict-real, about."""
    top = Dir(rng, 0)
    for _ in range(10):
        at = top.below(rng)
        for _ in range(10 * k):
            at.below(rng).files = sizes(rng, 12, 40 * KIB, 0.5)
    return top


def one_huge_directory(rng: random.Random, k: int) -> Dir:
    top = Dir(rng, 0)
    for _ in range(40 * k):
        top.below(rng).files = sizes(rng, 10, 20 * KIB, 1)
    top.dirs[7].below(rng).files = sizes(rng, 4000 * k, 10 * KIB, 1)
    return top


def few_huge_files(rng: random.Random, k: int) -> Dir:
    top = Dir(rng, 0)
    for _ in range(80 * k):
        top.below(rng).files = sizes(rng, 8, 15 * KIB, 1)
    for n in range(6 * k):
        top.dirs[n * 13 % 80].files.append(rng.randrange(10, 60) * MIB * min(k, 4))
    return top


def deep(rng: random.Random, k: int) -> Dir:
    top = Dir(rng, 0)
    for _ in range(8 * k):
        at = top.below(rng)
        for _ in range(30):
            at.files = sizes(rng, rng.randrange(8), 40 * KIB, 1)
            if rng.random() < 0.2:
                at.below(rng).files = sizes(rng, rng.randrange(8), 40 * KIB, 1)
            at = at.below(rng)
    return top


def mixed(rng: random.Random, k: int) -> Dir:
    top = Dir(rng, 0)
    some = [top]
    for _ in range(300 * k):
        at = rng.choice(some).below(rng)
        at.files = sizes(rng, min(600, int(rng.paretovariate(0.9) * 2) - 2), 12 * KIB, 2)
        some.append(at)
    return top


def media(rng: random.Random, k: int) -> Dir:
    """Small ones in most directories, large ones in some: an office with its films."""
    top = Dir(rng, 0)
    for _ in range(12 * k):
        at = top.below(rng)
        for _ in range(rng.randrange(1, 12)):
            below = at.below(rng)
            below.files = sizes(rng, rng.randrange(1, 30), 30 * KIB, 1.5)
            if rng.random() < 0.15:
                below.files += sizes(rng, rng.randrange(1, 8), 6 * MIB, 0.8)
    return top


TREES: dict[str, Callable[[random.Random, int], Dir]] = {
    f.__name__.replace("_", " "): f
    for f in (uniform, one_huge_directory, few_huge_files, deep, mixed, media)}


def on_the_line(top: Dir) -> tuple[int, int]:
    """Objects, and bytes that the old server has to say of them."""
    n, size, todo = 1, 0, [top]
    while todo:
        d = todo.pop()
        todo += d.dirs
        n += len(d.dirs) + len(d.files)
        size += ENTRY * (len(d.dirs) + len(d.files)) + sum(d.files)
    return n, size


def ways(top: Dir, seconds: float) -> list[Way]:
    """Each so slow that the tree takes about so long."""
    n, size = on_the_line(top)
    line, call = size / seconds, seconds / (n + size / READ)
    return [
        Way("narrow line", line=line, trip=0.02, drift=0.25, drift_s=20),
        Way("slow server", call=call * 8, threads=8, line=1e9, drift=0.15),
        Way("both", line=2 * line, call=call * 4, threads=8, trip=0.01),
        Way("long way", trip=16 * call, call=1e-4, line=1e9, threads=64),
        Way("SMB", line=1.5 * line, call=call * 3, threads=8, small=0, drift=0.1),
        Way("throttled", line=1e8, call=call, throttle=1.5 * line, small=0),
        Way("interrupted", line=line, drift=0.2, small=0, restarts=(0.3 * seconds, 0.6 * seconds),
            pauses=((0.2 * seconds, 0.5 * seconds), (seconds, 1.3 * seconds))),
        Way("slow disk", line=line, trip=0.02, workers=64, sync=30.0),
        Way("slower later", line=1.4 * line, call=call * 2, step=(0.4 * seconds, 2.5)),
    ]


# ---- listings alone ----------------------------------------------------------------------

def listings(top: Dir, parts: Sequence[float], rng: random.Random | None = None,
             over: bool = False) -> list[tuple[dict[str, Any], list[list[float]]]]:
    """What is counted when these parts of the directories are listed: `totals` and `tree`. They
    have their turn as they were found, or, by @rng, anyhow. over: nothing needs to be left."""
    todo, serial, listed, out = [(0.0, 0, top)], 0, 0, []
    tree: list[list[float]] = []
    totals = {"found": 1, "found_bytes": 0, "directories_left": 1}
    n, below = 0, [top]
    while below:
        below += below.pop().dirs
        n += 1
    while todo:
        d = heapq.heappop(todo)[2]
        row_of(tree, d)
        totals["found"] += len(d.dirs) + len(d.files)
        totals["found_bytes"] += sum(d.files)
        for sub in d.dirs:
            serial += 1
            heapq.heappush(todo, (rng.random() if rng else serial, serial, sub))
        listed += 1
        totals["directories_left"] = len(todo)
        if (todo or over) and listed in {int(part * n) for part in parts}:
            out.append((dict(totals), [row[:] for row in tree]))
    return out


def row_of(tree: list[list[float]], d: Dir) -> None:
    """It was listed, with all that is in it."""
    while len(tree) <= d.depth:
        tree.append([0.0] * 7)
    row = tree[d.depth]
    row[0] += 1
    for i, x in enumerate((len(d.dirs), len(d.files), sum(d.files))):
        row[1 + 2 * i] += x
        row[2 + 2 * i] += x * x
