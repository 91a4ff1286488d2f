# SPDX-License-Identifier: GPL-3.0-or-later
"""How much there is in all, and when it ends: guesses, each with an interval (decision 0060).

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

DRAWS = 300             # of each simulation
LISTED_MIN = 10         # directories, before anything is said of those that are not listed
TOO_WIDE = 12           # high / low of a total that is no knowledge
BEYOND = 12             # depths below the deepest one that was seen
ACTIVE_MIN = 60.0       # seconds of work before an end is predicted
WINDOWS = 40            # parts of the history that are compared
WINDOWS_MIN = 4
TOO_LONG = 40           # high / low of a duration that is no knowledge


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
    """What is believed of the mean of one thing in the directories of one depth."""
    mean: float
    error: float        # relative
    variance: float     # of one directory
    worst: float        # no directory had more


def believed(n: float, total: float, squares: float, above: Mean | None) -> Mean:
    """From n directories, and a little from those one level above."""
    if n <= 0:
        return above or Mean(0.0, 1.0, 0.0, 0.0)
    weight = 1.0 / (1 + n) / (1 + n) if above else 0.0
    mean = (total + weight * (above.mean if above else 0.0)) / (n + weight)
    mean = max(mean, 0.3 / (n + 1))     # none in n may still be one in the next
    variance = max(0.0, squares / n - (total / n) ** 2)
    error = math.sqrt(variance / n / mean ** 2 + 1.0 / (n + 1))
    return Mean(mean, error, variance, math.sqrt(squares))


def about(mean: float, error: float, rng: random.Random) -> float:
    """One guess of a mean that cannot be negative."""
    s = math.sqrt(math.log1p(error * error))
    return mean * math.exp(rng.gauss(0.0, s) - s * s / 2)


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

    def one(self) -> tuple[float, float]:
        """Objects and bytes in directories that are not listed."""
        rng = self.rng
        rows = [tuple(about(m.mean, m.error, rng) for m in row) for row in self.depths]
        for _ in range(BEYOND):         # deeper than anybody has looked: fewer and fewer
            d, f, b = rows[-1]
            rows.append((d * rng.random(), about(f, 0.7, rng), about(b, 1.0, rng)))
        objects, size = [0.0] * (len(rows) + 1), [0.0] * (len(rows) + 1)
        for i in range(len(rows) - 1, -1, -1):
            d, f, b = rows[i]
            objects[i] = d * (1 + objects[i + 1]) + f
            size[i] = b + d * size[i + 1]
        n = s = spread_n = spread_s = 0.0
        for depth, u in enumerate(self.waiting):
            n += u * objects[depth]
            s += u * size[depth]
            row = self.depths[min(depth, len(self.depths) - 1)]
            spread_n += u * (row[1].variance + row[0].variance)
            spread_s += u * row[2].variance
        n = max(0.0, n + rng.gauss(0.0, math.sqrt(spread_n)))
        s = max(0.0, s + rng.gauss(0.0, math.sqrt(spread_s)))
        if rng.random() < self.surprise:        # the largest of all may still come
            often = (1.0 - rng.random()) ** -0.5
            n += often * max(row[1].worst for row in self.depths)
            s += often * max(row[2].worst for row in self.depths)
        return n, s


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
    n = quantiles([d[0] for d in draws])
    s = quantiles([d[1] for d in draws])
    if found + n[2] > TOO_WIDE * (found + n[0]) or size + s[2] > TOO_WIDE * (size + s[0]) + 1:
        return None
    return Total(tuple(found + x for x in n), tuple(size + x for x in s), False)


# ---- when it ends -------------------------------------------------------------------

class Window(NamedTuple):
    """A part of the history: so long it took to find and to do so much."""
    seconds: float
    work: tuple[float, float, float]        # objects found, objects done, bytes done


def windows(samples: Sequence[Sequence[float]]) -> list[Window]:
    """samples: [at, active_s, found, found_bytes, done, done_bytes, ...], by time."""
    if len(samples) < 2:
        return []
    step = max((samples[-1][1] - samples[0][1]) / WINDOWS, 1.0)
    out, last = [], samples[0]
    for s in samples[1:]:
        took = s[1] - last[1]
        if took < step:
            continue
        out.append(Window(took, (max(0.0, s[2] - last[2]), max(0.0, s[4] - last[4]),
                                 max(0.0, s[5] - last[5]))))
        last = s
    return out


def solve(rows: list[list[float]]) -> list[float] | None:
    """Gauss, with the right side as last column; None: no one solution."""
    n = len(rows)
    m = [r[:] for r in rows]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(m[k][i]))
        if abs(m[p][i]) < 1e-12:
            return None
        m[i], m[p] = m[p], m[i]
        for k in range(n):
            if k != i:
                f = m[k][i] / m[i][i]
                m[k] = [a - f * b for a, b in zip(m[k], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


SETS = [[i for i in range(3) if mask & 1 << i] for mask in range(1, 8)]


def costs(history: list[Window], weight: list[float]) -> tuple[float, float, float] | None:
    """Seconds for an object found, an object done, a byte: none negative, least squares."""
    scale = [max((w.work[i] / w.seconds for w in history), default=0.0) or 1.0 for i in range(3)]
    rows = [[w.work[i] / w.seconds / scale[i] for i in range(3)] for w in history]
    weight = [g * w.seconds for g, w in zip(weight, history)]
    best, found = math.inf, None
    for chosen in SETS:
        system = [[sum(g * r[i] * r[k] for g, r in zip(weight, rows)) + (1e-6 if i == k else 0)
                   for k in chosen] + [sum(g * r[i] for g, r in zip(weight, rows))]
                  for i in chosen]
        x = solve(system)
        if x is None or min(x) < 0:
            continue
        wrong = sum(g * (1 - sum(v * r[i] for v, i in zip(x, chosen))) ** 2
                    for g, r in zip(weight, rows))
        if wrong < best - 1e-12:
            best, found = wrong, {i: v / scale[i] for v, i in zip(x, chosen)}
    return None if found is None else tuple(found.get(i, 0.0) for i in range(3))


def unsteady(history: list[Window], cost: tuple[float, float, float]) -> float:
    """How much windows differ from what their work should have taken: a relative error."""
    logs = []
    for w in history:
        should = sum(c * x for c, x in zip(cost, w.work))
        logs.append(math.log(max(w.seconds, 1e-3) / max(should, w.seconds / 20)))
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((x - mean) ** 2 for x in logs) / max(1, len(logs) - 1))


def as_well(history: list[Window], cost: tuple[float, float, float],
            work: tuple[float, float, float]) -> list[float]:
    """How long `work` takes if all time went into one part of it, for each part with which the
    history agrees about as well: where small files were fetched all the time, it cannot say
    whether their number or their bytes took so long. Infinite: nothing of a part was done yet."""
    took = sum(w.seconds for w in history)
    limit = max(0.05, 1.25 * unsteady(history, cost))
    out = []
    for i in range(1, 3):
        done = sum(w.work[i] for w in history)
        if work[i] <= 0:
            continue
        if done <= 0:
            out.append(math.inf)
            continue
        only = tuple(took / done if k == i else 0.0 for k in range(3))
        if unsteady(history, only) <= limit:
            out.append(took * work[i] / done)
    return out


def remaining(totals: dict[str, Any], whole: Total, done_bytes: float,
              at: int) -> tuple[float, float, float]:
    """What is to be found and done until the end, for the low, middle or high total."""
    parked, parked_bytes = totals["parked"], totals["parked_bytes"]
    return (max(0.0, whole.objects[at] - totals["found"]),
            max(0.0, whole.objects[at] - totals["done"] - parked),
            max(0.0, whole.bytes[at] - done_bytes - parked_bytes))


def duration(totals: dict[str, Any], whole: Total | None, samples: Sequence[Sequence[float]],
             active_min: float = ACTIVE_MIN) -> Interval | None:
    """Seconds of work that are left; None: not known. Pauses come on top of it."""
    history = windows(samples)
    if whole is None or len(history) < WINDOWS_MIN:
        return None
    took = sum(w.seconds for w in history)
    if took < active_min:
        return None
    done_bytes = totals["done_bytes"] + totals.get("partly_bytes", 0)
    work = [remaining(totals, whole, done_bytes, i) for i in range(3)]
    rng = random.Random(2)
    age = [0.5 ** (2.0 * (len(history) - 1 - i) / len(history)) for i in range(len(history))]
    draws = []
    for _ in range(60):
        picked = [rng.randrange(len(history)) for _ in history]
        cost = costs([history[i] for i in picked], [age[i] for i in picked])
        if cost:
            size = rng.triangular(0.0, 2.0, 1.0)
            i = int(size)
            part = size - i
            draws.append(sum(c * (a * (1 - part) + b * part)
                             for c, a, b in zip(cost, work[i], work[min(i + 1, 2)])))
    cost = costs(history, age)
    if cost is None or not draws:
        return None
    low, _, high = quantiles(draws)
    middle = sum(c * x for c, x in zip(cost, work[1]))
    others = as_well(history, cost, work[1])
    if any(math.isinf(x) for x in others):
        return None                     # files are still to come, and none has been fetched yet
    all_of_it = [x for x in (middle, *others) if x > 0]
    if all_of_it:
        middle = math.exp(sum(map(math.log, all_of_it)) / len(all_of_it))
    far = middle / (middle + took) if middle else 0.0
    # the next minutes may be as odd as any part of the history was; what is far, odder
    wide = math.exp(0.15 + 0.25 * far + (1.3 + 0.5 * far) * min(1.0, unsteady(history, cost)))
    low = min([low, middle, *others]) / wide
    high = max([high, middle, *others]) * wide
    if high > TOO_LONG * max(low, 1.0) and high > 600:
        return None
    return low, middle, high


# ---- what is shown of it ------------------------------------------------------------

def share(done: float, whole: Interval) -> Interval:
    """Of 1: at least, about, at most. 1 is never said of what is not all."""
    def part(x: float) -> float:
        return min(done / x, 0.999) if x > 0 else 0.0
    return part(whole[2]), part(whole[1]), part(whole[0])
