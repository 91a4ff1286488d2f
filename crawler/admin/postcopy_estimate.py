# SPDX-License-Identifier: GPL-3.0-or-later
"""How much there is in all, and when it ends: guesses, each with an interval (decisions 0060,
0085).

Pure functions of what the retriever has counted (`totals`), what listed directories had in them
(`tree`) and how it went (`samples`), as its commands status and history tell. Nothing here looks at
a clock or a file. An interval is (low, middle, high) and meant to hold the truth nine times in ten;
None says that it is not known yet, and is always an answer.

tests/tools/predict-table says how good they are.
"""
from __future__ import annotations

import math
import random
from typing import Any, NamedTuple, Sequence

Interval = tuple[float, float, float]
Costs = tuple[float, float, float]

DRAWS = 300             # of each simulation
LISTED_MIN = 10         # directories, before anything is said of those that are not listed
TOO_WIDE = 30           # high / low of a total that is no knowledge
ALIKE = 0.6             # n directories tell as much as n^ALIKE that are nothing to each other
FEW = 3.0               # directories say as much of the spread as what is above them
GOES_ON = 0.8           # so often levels that nobody has seen go on as the last one did
DEEPER = (1.5, 2.0)     # relative error of what a directory of a level that nobody has seen has
                        # in it: files, bytes
MANY = 8                # times as deep, or as large, as what was seen of it, at most
ACTIVE_MIN = 20.0       # seconds of work before an end is predicted
WINDOWS = 40            # parts of the history that are compared
WINDOWS_MIN = 2
TOO_LONG = 1000         # high / low of a duration that is no knowledge
NEVER = 1e12            # seconds
DEPENDENT = 0.5         # a window is worth so much: it is like the one before
STEADIEST = 0.1         # no history is believed to be steadier
OBJECT_BYTES = (512.0, 2.0 ** 24)   # an object takes as long as so many bytes, at least, at most
FOUND_DONE = (0.001, 10.0)          # to find one takes so many times as long as to bring it
WALK = 400              # steps between divisions of the time
UNSEEN = 0.15           # relative error of an end, however steady it was
FAR = 0.25              # and that much for what is many times as long as what was seen
SETTLE = 10.0           # seconds: the last ones are counted when they are on the disk


class Total(NamedTuple):
    objects: Interval
    bytes: Interval
    exact: bool         # nothing is left to be found


class Depth(NamedTuple):
    listed: float
    dirs: float
    dirs2: float
    files: float
    files2: float
    bytes: float
    bytes2: float


def quantiles(values: list[float], low: float = 0.05, high: float = 0.95) -> Interval:
    v = sorted(values)
    def at(q: float) -> float:
        return v[min(len(v) - 1, int(q * len(v)))]
    return at(low), at(0.5), at(high)


# ---- how much there is --------------------------------------------------------------

def unlisted(tree: Sequence[Depth], left: int) -> list[float]:
    """How many directories of each depth are not listed; the journal knows the sum."""
    found = [1.0] + [t.dirs for t in tree]
    listed = [t.listed for t in tree] + [0.0]
    by_depth = [max(0.0, f - n) for f, n in zip(found, listed)]
    total = sum(by_depth)
    if total <= 0:
        by_depth[-1], total = 1.0, 1.0
    return [u * left / total for u in by_depth]


class Mean(NamedTuple):
    """What is believed of one thing in the directories of one depth."""
    mean: float
    error: float        # of the mean, relative
    spread: float       # of one directory: its variance, by the square of the mean
    worst: float        # no directory had more


def believed(n: float, total: float, squares: float, above: Mean | None) -> Mean:
    """From n directories, and a little from those one level above."""
    if n <= 0:
        return above or Mean(0.0, 1.0, 1.0, 0.0)
    weight = 1.0 / (1 + n) if above else 0.0
    mean = (total + weight * (above.mean if above else 0.0)) / (n + weight)
    mean = max(mean, 0.3 / (n + 1))     # none in n may still be one in the next
    spread = max(0.0, squares / n - (total / n) ** 2) / mean ** 2
    # one, or two, do not say how different they are
    spread = (n * spread + FEW * max(above.spread if above else 0.0, 1.0)) / (n + FEW)
    return Mean(mean, math.sqrt((spread + 1.0) / (n ** ALIKE + 1)), spread, math.sqrt(squares))


def about(mean: float, error: float, rng: random.Random) -> float:
    """One guess of a mean that cannot be negative."""
    s = math.sqrt(math.log1p(error * error))
    return mean * math.exp(rng.gauss(0.0, s) - s * s / 2)


class Row(NamedTuple):
    """One guess of the directories of one depth: what one has in it, and the spread of that."""
    dirs: tuple[float, float]
    files: tuple[float, float]
    bytes: tuple[float, float]


class Guess:
    """What is believed of each depth, and one guess after the other of all that is to be found."""

    def __init__(self, tree: Sequence[Depth], left: int, seed: int = 1):
        self.waiting = unlisted(tree, left)
        self.rng = random.Random(seed)
        self.depths: list[tuple[Mean, Mean, Mean]] = []
        above: tuple[Mean | None, ...] = (None, None, None)
        for t in tree:
            row = (believed(t.listed, t.dirs, t.dirs2, above[0]),
                   believed(t.listed, t.files, t.files2, above[1]),
                   believed(t.listed, t.bytes, t.bytes2, above[2]))
            self.depths.append(row)
            above = row
        listed = sum(t.listed for t in tree)
        self.surprise = left / (left + listed) if left else 0.0

    def rows(self) -> list[Row]:
        rng = self.rng
        rows = [Row(*((about(m.mean, m.error, rng), m.spread) for m in row))
                for row in self.depths]
        # deeper than anybody has looked: as often as not twice as deep, seldom many times
        depth, last = len(rows), rows[-1]
        beyond = min(depth / (1.0 - rng.random()), MANY * depth) - depth
        d = min(rng.choice((last.dirs[0], self.depths[-1][0].mean)), 1.0)
        less = 1.0 if rng.random() < GOES_ON else rng.random() ** 3
        d *= less
        for _ in range(int(beyond) + 1):
            f, b = (less * about(x[0], e, rng) for x, e in zip(last[1:], DEEPER))
            rows.append(Row((d, last.dirs[1]), (f, last.files[1]), (b, last.bytes[1])))
        return [*rows, rows[-1]._replace(dirs=(0.0, 0.0))]

    def one(self) -> tuple[float, float]:
        """Objects and bytes in directories that are not listed."""
        rng, rows = self.rng, self.rows()
        n = self.below([(row.dirs, row.files) for row in rows], 1.0)
        s = self.below([(row.dirs, row.bytes) for row in rows], 0.0)
        if rng.random() < self.surprise:        # the largest of all may still come
            often = (1.0 - rng.random()) ** -0.5
            n += often * max(row[1].worst for row in self.depths)
            s += often * max(row[2].worst for row in self.depths)
        return n, s

    def below(self, rows: Sequence[tuple[tuple[float, float], tuple[float, float]]],
              itself: float) -> float:
        """One guess of what is in all directories that are not listed, and below them, where each
        directory counts @itself. Such trees that grow by chance have a mean and a variance; most
        have less than the mean, and few have much more."""
        at = [(0.0, 0.0)] * (len(rows) + 1)
        for i in range(len(rows) - 1, -1, -1):
            (d, d_spread), (x, x_spread) = rows[i]
            sub = d * (itself + at[i + 1][0])
            at[i] = x + sub, x_spread * x * x + d_spread * sub * sub + d * at[i + 1][1]
        mean = sum(u * at[depth][0] for depth, u in enumerate(self.waiting))
        variance = sum(u * at[depth][1] for depth, u in enumerate(self.waiting))
        if not (0 < mean < NEVER ** 2 and 0 < variance < NEVER ** 4):
            return mean                 # what was told is odd
        return self.rng.gammavariate(max(mean * mean / variance, 1e-3), variance / mean)


def total(totals: dict[str, Any], tree: Sequence[Sequence[float]]) -> Total | None:
    """What all will be in the end, what is found included; None: too little is known. What is in
    directories that are parked nobody knows either."""
    found, size = float(totals["found"]), float(totals["found_bytes"])
    unknown = totals["directories_left"] + totals.get("directories_parked", 0)
    if not unknown:
        return Total((found,) * 3, (size,) * 3, True)
    depths = [Depth(*row) for row in tree]
    if sum(t.listed for t in depths) < LISTED_MIN:
        return None
    guess = Guess(depths, unknown)
    draws = [guess.one() for _ in range(DRAWS)]
    # of what is found some is in directories whose listing is not over
    n = at_least(found - 1 - sum(t.dirs + t.files for t in depths), [d[0] for d in draws])
    s = at_least(size - sum(t.bytes for t in depths), [d[1] for d in draws])
    if found + n[2] > TOO_WIDE * (found + n[0]) or size + s[2] > TOO_WIDE * (size + s[0]) + 1:
        return None
    return Total(tuple(found + x for x in n), tuple(size + x for x in s), False)


def at_least(part: float, draws: list[float]) -> Interval:
    """What is still to come of `draws`, of which this part is here. What turns out to be larger
    than was guessed is as often as not twice as large as what is here of it, seldom many times."""
    if part < 1:
        return quantiles(draws)
    rng = random.Random(3)
    return quantiles([(x if x > part else part * min(1 / (1.0 - rng.random()), MANY)) - part
                      for x in draws])


# ---- when it ends -------------------------------------------------------------------

class Window(NamedTuple):
    """A part of the history: so long it took to find and to do so much."""
    seconds: float
    work: Costs                 # objects found, objects done, bytes done


def windows(samples: Sequence[Sequence[float]]) -> list[Window]:
    """samples: [at, active_s, found, found_bytes, done, done_bytes, ...], by time."""
    if len(samples) < 2:
        return []
    step = max((samples[-1][1] - samples[0][1]) / WINDOWS, 1.0)
    ends, last = [samples[0]], samples[0]
    for s in samples[1:]:
        if s[1] - last[1] >= step:
            ends.append(s)
            last = s
    if len(ends) > 1 and samples[-1][1] >= last[1]:
        ends[-1] = samples[-1]          # what is less than a window belongs to the last one
    return [Window(b[1] - a[1], (max(0.0, b[2] - a[2]), max(0.0, b[4] - a[4]),
                                 max(0.0, b[5] - a[5]))) for a, b in zip(ends, ends[1:])]


class Fit:
    """What the history says of the costs: seconds for an object found, an object done, a byte.

    All of them together took as long as it took; what is unknown is whose share was how large. A
    division is the more likely, the better it tells how long each single window took. Where all
    windows have done the same mixture, all divisions are as likely, and that is the truth."""

    def __init__(self, history: list[Window]):
        n = len(history)
        self.history = history
        self.weight = [0.5 ** (2.0 * (n - 1 - i) / n) for i in range(n)]    # the last ones more
        self.sums = tuple(sum(g * w.work[i] for g, w in zip(self.weight, history))
                          for i in range(3))
        took = sum(g * w.seconds for g, w in zip(self.weight, history))
        self.parts = [i for i in range(3) if self.sums[i] > 0]
        self.scale = [took / self.sums[i] for i in self.parts]
        self.rows = [[w.work[i] * k / w.seconds for i, k in zip(self.parts, self.scale)]
                     for w in history]
        total = sum(self.weight)
        self.known = DEPENDENT * total * total / sum(g * g for g in self.weight)

    def wrong(self, shares: list[float]) -> float:
        """The mean square of how much windows differ from what they should have taken, relative."""
        return sum(g * (sum(p * x for p, x in zip(shares, row)) - 1) ** 2
                   for g, row in zip(self.weight, self.rows)) / sum(self.weight)

    def likely(self, shares: list[float]) -> float:
        """Logarithm. Before anything is known, an object may take as long as OBJECT_BYTES;
        each of these is as good as twice of it."""
        found, done, byte = self.costs(shares)
        odd = (outside(done, byte, *OBJECT_BYTES) ** 2 + outside(found, done, *FOUND_DONE) ** 2)
        return -0.5 * self.known * math.log(self.wrong(shares) + STEADIEST ** 2) - 2 * odd

    def costs(self, shares: list[float]) -> Costs:
        by = dict(zip(self.parts, (p * k for p, k in zip(shares, self.scale))))
        return by.get(0, 0.0), by.get(1, 0.0), by.get(2, 0.0)

    def divisions(self, rng: random.Random) -> list[list[float]]:
        """Some that are likely (Metropolis and Hastings), in the order in which they were met."""
        here = [0.0] * len(self.parts)
        worth, out = self.likely(softmax(here)), []
        for i in range(WALK):
            there = [x + rng.gauss(0, rng.choice((0.2, 1.5))) for x in here]
            shares = softmax(there)
            new = self.likely(shares)
            if new >= worth or rng.random() < math.exp(new - worth):
                here, worth = there, new
            if i >= WALK // 4:
                out.append(softmax(here))
        return out


def outside(a: float, b: float, low: float, high: float) -> float:
    """How far a / b is from being between them, as a logarithm; 0: it is, or there is no such."""
    if a <= 0 or b <= 0:
        return 0.0
    return max(0.0, math.log(low * b / a), math.log(a / (high * b)))


def softmax(x: list[float]) -> list[float]:
    """Shares of 1, none of them nothing."""
    most = max(x)
    e = [math.exp(max(v - most, -12.0)) for v in x]
    return [v / sum(e) for v in e]


def slowness(history: Sequence[Window], cost: Costs) -> float:
    """How many times as long it took as it should have."""
    should = sum(sum(c * x for c, x in zip(cost, w.work)) for w in history)
    took = sum(w.seconds for w in history)
    return took / max(should, took / 20)


def drifted(history: list[Window], cost: Costs) -> float:
    """What would have been said of the rest of the history, after one, two, three quarters of it:
    how wrong was that, relative?"""
    n = len(history)
    wrong = [math.log(slowness(history[k:], cost) / slowness(history[:k], cost))
             for k in sorted({n // 4, n // 2, 3 * n // 4} - {0})]
    return math.sqrt(sum(x * x for x in wrong) / len(wrong)) if wrong else 0.0


def uneven(history: list[Window], cost: Costs) -> float:
    """How much single windows differ from what they should have taken, relative."""
    off = [sum(c * x for c, x in zip(cost, w.work)) / w.seconds - 1 for w in history]
    return math.sqrt(sum(x * x for x in off) / len(off))


def remaining(totals: dict[str, Any], whole: Total, done_bytes: float,
              at: int) -> Costs:
    """What is to be found and done until the end, for the low, middle or high total."""
    parked, parked_bytes = totals["parked"], totals["parked_bytes"]
    return (max(0.0, whole.objects[at] - totals["found"]),
            max(0.0, whole.objects[at] - totals["done"] - parked),
            max(0.0, whole.bytes[at] - done_bytes - parked_bytes))


def between(work: list[Costs], rng: random.Random) -> Costs:
    """So much may be left: between the low and the high total, mostly near the middle."""
    size = rng.triangular(0.0, 2.0, 1.0)
    i = min(int(size), 1)
    return tuple(a + (b - a) * (size - i) for a, b in zip(work[i], work[i + 1]))


def duration(totals: dict[str, Any], whole: Total | None, samples: Sequence[Sequence[float]],
             active_min: float = ACTIVE_MIN) -> Interval | None:
    """Seconds of work that are left; None: not known. Pauses come on top of it."""
    history = windows(samples)
    took = sum(w.seconds for w in history)
    if whole is None or len(history) < WINDOWS_MIN or took < active_min:
        return None
    done_bytes = totals["done_bytes"] + totals.get("partly_bytes", 0)
    work = [remaining(totals, whole, done_bytes, i) for i in range(3)]
    fit = Fit(history)
    if not fit.parts or any(w > 0 and s <= 0 for w, s in zip(work[1][1:], fit.sums[1:])):
        return None                     # of what is to come nothing was ever done
    rng = random.Random(2)
    divisions = fit.divisions(rng)
    cost = fit.costs([sum(d[i] for d in divisions) / len(divisions)
                      for i in range(len(fit.parts))])
    drift, rough = drifted(history, cost), uneven(history, cost)
    last = history[-(len(history) // 4 or len(history)):]
    lately = slowness(last, cost) / slowness(history, cost)
    draws = []
    for shares in divisions:
        left = sum(c * x for c, x in zip(fit.costs(shares), between(work, rng)))
        far = left / (left + took) if left else 0.0
        some = min(1.0, took / len(history) / max(left, 1.0))      # is the rest a window or many?
        off = math.sqrt(UNSEEN ** 2 + (FAR * far) ** 2 + min(drift, 1.5) ** 2 +
                        min(rough, 1.5) ** 2 * some)
        # it goes on as it went lately, or as it went altogether
        draws.append(left * lately ** rng.random() * math.exp(rng.gauss(0.0, off)))
    low, middle, high = quantiles(draws)
    high += SETTLE if high else 0.0
    if not high < NEVER or (high > TOO_LONG * max(low, 1.0) and high > 600):
        return None
    return low, middle, high


# ---- what is shown of it ------------------------------------------------------------

def share(done: float, whole: Interval) -> Interval:
    """Of 1: at least, about, at most. 1 is never said of what is not all."""
    def part(x: float) -> float:
        return min(done / x, 0.999) if x > 0 else 0.0
    return part(whole[2]), part(whole[1]), part(whole[0])
