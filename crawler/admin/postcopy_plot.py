# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots as SVG elements, for the page that `postcopy report` writes (decision 0067).

Pure functions: numbers in, xml.etree elements out, which escape what they are given. Colours and
type are the page's (classes); units here are those of the view box, which the page scales to the
width that there is.
"""
from __future__ import annotations

import itertools
import math
import time
import xml.etree.ElementTree as ET
from typing import Callable, Iterable, NamedTuple, Sequence

from postcopy_status import count, harmless, short, size

Point = tuple[float, float]

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 88, 14, 14, 34
TICKS = 5               # at most, of an axis
MINUTE, HOUR, DAY = 60, 3600, 86400
TIME_STEPS = (1, 5, 10, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR,
              2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY,
              180 * DAY, 360 * DAY)


# ---- axes -------------------------------------------------------------------------------

def nice(top: float, base: int = 1000) -> list[float]:
    """Round values from 0 to the first one that is not below top; of base 1024 for bytes."""
    if top <= 0:
        return [0.0, 1.0]
    if base == 1024:
        step = 2.0 ** max(0, math.ceil(math.log2(top / (TICKS - 1))))
    else:
        unit = 10.0 ** math.floor(math.log10(top / (TICKS - 1)))
        step = next(s * unit for s in (1, 2, 5, 10) if s * unit * (TICKS - 1) >= top * 0.999999)
    return [i * step for i in range(max(1, math.ceil(top / step - 1e-6)) + 1)]


def midnight(at: float) -> float:
    t = time.localtime(at)
    return time.mktime((t.tm_year, t.tm_mon, t.tm_mday, 0, 0, 0, 0, 0, -1))


def clock(begin: float, end: float, at_most: int = TICKS) -> list[tuple[float, str]]:
    """Round moments by the machine's clock, and what they are called."""
    span = max(end - begin, 1.0)
    step = next((s for s in TIME_STEPS if span / s <= at_most), None) or span / at_most
    fmt = "%H:%M:%S" if step < MINUTE else "%H:%M" if span <= DAY else \
        "%a %H:%M" if step < DAY else "%d %b" if span < 360 * DAY else "%b %Y"
    # from a midnight, so that steps are round; one that has 23 or 25 hours moves some by an hour
    first = midnight(begin)
    n = int((begin - first) // step)
    out = []
    while first + n * step <= end:
        at = first + n * step
        if step >= DAY:                     # noon is of that day, whatever the clock did
            at = midnight(at + HOUR * 12)
        if at >= begin:
            out.append((at, time.strftime(fmt, time.localtime(at))))
        n += 1
    return out


def volume(n: float) -> str:
    """Bytes, without a fraction that is none."""
    return size(n).replace(".0 ", " ")


def number(n: float) -> str:
    return short(n) if n >= 10 or n == int(n) else "%.2g" % n


# ---- what is drawn ----------------------------------------------------------------------

def f(x: float) -> str:
    return ("%.1f" % x).rstrip("0").rstrip(".")


def svg(title: str, height: int = HEIGHT) -> ET.Element:
    """title: what it shows, for who does not see it."""
    e = ET.Element("svg", {"viewBox": "0 0 %d %d" % (WIDTH, height), "role": "img",
                           "aria-label": harmless(title)})
    return e


def text(parent: ET.Element, x: float, y: float, says: str, kind: str = "tick",
         anchor: str = "start") -> ET.Element:
    e = ET.SubElement(parent, "text", {"x": f(x), "y": f(y), "class": kind, "text-anchor": anchor})
    e.text = harmless(says)
    return e


class Plot:
    """A plane over time, with 0 at the bottom unless `low` says otherwise."""

    def __init__(self, title: str, begin: float, end: float, top: float,
                 ticks: Sequence[tuple[float, str]], low: float = 0.0):
        self.begin, self.end = begin, max(end, begin + 1)
        self.low, self.top = low, top if top > low else low + 1
        self.svg = svg(title)
        self.back = ET.SubElement(self.svg, "g")         # what lies under the grid
        for value, says in ticks:
            y = self.y(value)
            ET.SubElement(self.svg, "line", {"class": "grid", "x1": f(LEFT), "x2": f(WIDTH - RIGHT),
                                             "y1": f(y), "y2": f(y)})
            text(self.svg, LEFT - 8, y + 4, says, anchor="end")
        last = -1e9
        for at, says in clock(self.begin, self.end):
            x = self.x(at)
            if x - last < 9.0 * len(says):              # they would run into each other
                continue
            last = x
            ET.SubElement(self.svg, "line", {
                "class": "grid", "x1": f(x), "x2": f(x), "y1": f(HEIGHT - BOTTOM),
                "y2": f(HEIGHT - BOTTOM + 5)})
            # not beyond the edges
            half = 4.2 * len(says)
            text(self.svg, min(max(x, half), WIDTH - half), HEIGHT - BOTTOM + 21, says,
                 anchor="middle")

    def x(self, at: float) -> float:
        part = (at - self.begin) / (self.end - self.begin)
        return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.top - self.low)
        return HEIGHT - BOTTOM - min(max(part, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)

    def bands(self, spans: Iterable[tuple[float, float]]) -> None:
        for a, b in spans:
            if b > self.begin and a < self.end:
                x = self.x(a)
                ET.SubElement(self.back, "rect", {
                    "class": "idle", "x": f(x), "y": f(TOP), "height": f(HEIGHT - TOP - BOTTOM),
                    "width": f(max(self.x(b) - x, 1.0))})

    def path(self, points: Iterable[Point]) -> str:
        """Those that fall on one tenth of a unit are drawn once."""
        xy = [(f(self.x(a)), f(self.y(v))) for a, v in points]
        return "M" + "L".join("%s %s" % p for p, _ in itertools.groupby(xy))

    def line(self, points: Sequence[Point], kind: str) -> None:
        if len(points) > 1:
            ET.SubElement(self.svg, "path", {"class": "line " + kind, "d": self.path(points)})

    def area(self, points: Sequence[Point], kind: str, low: Sequence[Point] | None = None) -> None:
        """Down to the bottom, or to `low`."""
        if len(points) > 1:
            rest = list(low) if low else [(points[0][0], self.low), (points[-1][0], self.low)]
            ET.SubElement(self.svg, "path", {
                "class": "area " + kind,
                "d": self.path([*points, *reversed(rest)]) + "Z"})

    def steps(self, edges: Sequence[float], values: Sequence[float], kind: str) -> None:
        points = [p for i, v in enumerate(values) for p in ((edges[i], v), (edges[i + 1], v))]
        self.area(points, kind)
        self.line(points, kind)

    def mark(self, at: float, says: str) -> None:
        """A moment."""
        x = self.x(at)
        ET.SubElement(self.svg, "line", {"class": "mark", "x1": f(x), "x2": f(x), "y1": f(TOP),
                                         "y2": f(HEIGHT - BOTTOM)})
        far = x > WIDTH / 2
        text(self.svg, x - 5 if far else x + 5, TOP + 11, says, "note", "end" if far else "start")

    def whisker(self, ends: tuple[float, float, float], value: float, kind: str) -> None:
        """A moment that is not certain: from, about, to."""
        y = self.y(value)
        a, m, b = (self.x(t) for t in ends)
        low, up = f(y + 5), f(y - 5)
        d = "M%s %sH%sM%s %sV%sM%s %sV%s" % (f(a), f(y), f(b), f(a), up, low, f(b), up, low)
        ET.SubElement(self.svg, "path", {"class": "line " + kind, "d": d})
        self.dot(m, y, 4, kind)

    def dot(self, x: float, y: float, r: float, kind: str) -> None:
        ET.SubElement(self.svg, "circle", {"class": "dot " + kind, "cx": f(x), "cy": f(y),
                                           "r": f(r)})


# ---- the plots of the page --------------------------------------------------------------------

class End(NamedTuple):
    """A prediction: made when, and the end at the earliest, about, at the latest."""
    at: float
    low: float
    middle: float
    high: float


def progress(title: str, found: Sequence[Point], done: Sequence[Point], bytes_: bool,
             idle: Sequence[tuple[float, float]], end: End | None = None,
             whole: Sequence[float] | None = None) -> ET.Element:
    """Found and done over time; end and whole: what is predicted of the rest."""
    begin, now = done[0][0], done[-1][0]
    last = now
    if end:                             # but what happened keeps a third of the width
        last = min(end.high, now + 2 * max(now - begin, 60.0))
    top = max([v for _, v in found] + [whole[2] if whole and end else 0.0])
    ticks = nice(top, 1024 if bytes_ else 1000)
    says: Callable[[float], str] = volume if bytes_ else number
    p = Plot(title, begin, last, ticks[-1], [(t, says(t)) for t in ticks])
    p.bands(idle)
    if end and whole:
        here = done[-1]
        p.area([here, (end.low, whole[0]), (end.low, whole[2])], "maybe",
               [here, (end.high, whole[2])])
    p.area(done, "done")
    p.line(found, "found")
    p.line(done, "done")
    if end and whole:
        p.line([done[-1], (end.middle, whole[1])], "predicted")
        p.whisker(end[1:], whole[1], "predicted")
        p.mark(now, "now")
    return p.svg


def rates(title: str, edges: Sequence[float], values: Sequence[float], bytes_: bool,
          idle: Sequence[tuple[float, float]]) -> ET.Element:
    ticks = nice(max(values), 1024 if bytes_ else 1000)
    p = Plot(title, edges[0], edges[-1], ticks[-1],
             [(t, (volume(t) if bytes_ else number(t)) + "/s") for t in ticks])
    p.bands(idle)
    p.steps(edges, values, "done")
    return p.svg


def ends(title: str, made: Sequence[End], truth: float | None) -> ET.Element:
    """The end as it was predicted, by when that was; truth: when it was."""
    begin, last = made[0].at, max(made[-1].at, truth or 0)
    values = sorted(e.middle for e in made) + ([truth] if truth else [])
    # one guess that was far off may not flatten all others
    low = min(begin, *values)
    high = max(max(values), min(max(e.high for e in made), begin + 1.5 * (max(values) - begin)))
    p = Plot(title, begin, last, high, clock(low, high, 4), low)
    p.area([(e.at, e.high) for e in made], "maybe", [(e.at, e.low) for e in made])
    p.line([(begin, begin), (last, last)], "today")
    p.line([(e.at, e.middle) for e in made], "predicted")
    for e in made:
        p.dot(p.x(e.at), p.y(e.middle), 2.5, "predicted")
    if truth:
        p.line([(begin, truth), (last, truth)], "truth")
        text(p.svg, LEFT + 6, p.y(truth) - 6, "when it did end", "note")
    return p.svg


def waited(ms: float) -> str:
    return "%d ms" % ms if ms < 1000 else ("%.1f" % (ms / 1000)).removesuffix(".0") + " s"


def bars(title: str, rows: Sequence[tuple[str, int]]) -> ET.Element:
    """Lengthwise, so that there is room for words; each with its number."""
    row, left, room = 21, 150, 80
    e = svg(title, row * len(rows) + 8)
    most = max([n for _, n in rows] + [1])
    for i, (says, n) in enumerate(rows):
        y = 4 + i * row
        text(e, left - 8, y + 15, says, anchor="end")
        width = max(n / most * (WIDTH - left - room), 2.0 if n else 0.0)
        ET.SubElement(e, "rect", {"class": "bar", "x": f(left), "y": f(y + 3), "width": f(width),
                                  "height": f(row - 6)})
        text(e, left + width + 6, y + 15, count(n), "note" if n else "tick")
    return e


def histogram(title: str, at_most_ms: Sequence[float], counts: Sequence[int]) -> ET.Element:
    """From the first step that has any to the last."""
    says = ["at most " + waited(ms) for ms in at_most_ms]
    says.append("longer than " + waited(at_most_ms[-1]))
    having = [i for i, n in enumerate(counts) if n] or [0]
    rows = list(zip(says, counts))[having[0]:having[-1] + 1]
    return bars(title, rows)
