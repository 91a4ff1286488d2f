# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the predicted end hold?  At migrations that are played through in memory
(lib/playthrough.py): no volume, no server. tests/tools/predict-table has the same at length."""
import importlib
import random
import statistics
import sys
from pathlib import Path

import pytest

from lib import playthrough

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "crawler" / "admin"))
estimate = importlib.import_module("postcopy_estimate")
status = importlib.import_module("postcopy_status")

MINUTES = 12
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
MIB = 1 << 20


def judge(m, part):
    """Is an end said at this part of the time, does it hold, and how wide is it?"""
    look = m.look_at_part(part)
    e = status.guess({"state": "migrating", "pending": 1, "counter": 1, "parked": 0, "conflicts": 0,
                      "totals": look["totals"], "crawler": True}, look, 0.0)
    assert e["share"] is None or e["share"][2] < 1, e
    left = e["remaining_s"]
    if left is None:
        return {"known": False}
    assert 0 <= left[0] <= left[1] <= left[2]
    return {"known": True, "held": left[0] - 1 <= look["truth"] <= left[2] + 1,
            "wide": (left[2] + 5) / (left[0] + 5), "wrong": abs(left[1] - look["truth"]) / m.end}


@pytest.fixture(scope="module")
def judged():
    """By tree and way, for each part of the time."""
    out = {}
    for tree, make in playthrough.TREES.items():
        top = make(random.Random(4), 1)
        for way in playthrough.ways(top, MINUTES * 60):
            m = playthrough.Migration(top, way, 4).run()
            for part in PARTS:
                out[tree, way.name, part] = judge(m, part)
    return out


def held(some):
    known = [j for j in some if j["known"]]
    return sum(j["held"] for j in known) / len(known)


def test_it_holds(judged):
    assert held(judged.values()) >= 0.85


@pytest.mark.parametrize("tree", playthrough.TREES)
def test_it_holds_for_each_tree(judged, tree):
    assert held(j for key, j in judged.items() if key[0] == tree) >= 0.8


def test_it_holds_whatever_the_way(judged):
    """But for a server that becomes two and a half times as slow, which nobody can know before."""
    for way in {key[1] for key in judged} - {"slower later"}:
        assert held(j for key, j in judged.items() if key[1] == way) >= 0.8, way


def test_not_known_is_the_exception(judged):
    early = [j["known"] for key, j in judged.items() if key[2] == PARTS[0]]
    later = [j["known"] for key, j in judged.items() if key[2] > PARTS[0]]
    assert sum(early) >= 0.6 * len(early) and sum(later) >= 0.95 * len(later)


def test_it_says_something(judged):
    """Zero to infinity would hold."""
    wide = [j["wide"] for j in judged.values() if j["known"]]
    assert statistics.median(wide) < 4
    for part, most in (0.5, 0.15), (0.75, 0.1), (0.9, 0.05):
        wrong = [j["wrong"] for key, j in judged.items() if key[2] == part and j["known"]]
        assert statistics.median(wrong) < most, part


def test_the_same_goes_the_same_way():
    top = playthrough.mixed(random.Random(1), 1)
    way = playthrough.ways(top, 300)[0]
    a, b = (playthrough.Migration(top, way, 7).run() for _ in range(2))
    assert a.end == b.end and a.look_at_part(0.5) == b.look_at_part(0.5)
    assert judge(a, 0.5) == judge(b, 0.5)


# -- why it holds --------------------------------------------------------------------------------

TOTALS = {"found": 1000, "found_bytes": 10 ** 9, "done": 500, "done_bytes": 5 * 10 ** 8,
          "parked": 0, "parked_bytes": 0, "directories_left": 0, "partly_bytes": 0, "whole": True}


def went(seconds, every=10, parts=lambda x: (1000 * x, 10 ** 9 * x)):
    """So many seconds, and what was done by each part of them."""
    n = seconds // every
    return [[i * every, i * every, 1000, 10 ** 9, *parts(i / n / 2), 0, 0] for i in range(n + 1)]


@pytest.mark.parametrize("size", [10 ** 6, 10 ** 7, 10 ** 8])
def test_small_ones_first_is_not_large_ones_as_fast(size):
    """All that came was 10 KB each, and a hundred of this size are left. By their number that is
    two seconds, by their bytes up to hours. Both are possible, so both are said, or nothing."""
    found = 10 ** 9 + 100 * size
    t = dict(TOTALS, found=100100, found_bytes=found, done=100000, done_bytes=10 ** 9)
    samples = [[i * 10, i * 10, 100100, found, 500 * i, 5 * 10 ** 6 * i, 0, 0] for i in range(201)]
    said, by_bytes = estimate.duration(t, estimate.total(t, []), samples), 2000 * size / 10 ** 7
    assert said or size == 10 ** 8
    if said:
        low, middle, high = said
        assert low < 0.03 * by_bytes and high > 0.6 * by_bytes, said
        assert 3 * low < middle < high / 2


def test_what_large_ones_take_is_learnt():
    """The same, after some of the large ones: 1 MB/s."""
    t = dict(TOTALS, found=100100, found_bytes=11 * 10 ** 9, done=100010, done_bytes=2 * 10 ** 9)
    samples = [[i * 10, i * 10, 100100, 11 * 10 ** 9, 500 * i, 5 * 10 ** 6 * i, 0, 0]
               for i in range(201)]
    samples += [[2000 + i * 10, 2000 + i * 10, 100100, 11 * 10 ** 9, 100000 + i // 10,
                 10 ** 9 + 10 ** 7 * i, 0, 0] for i in range(1, 101)]
    low, middle, high = estimate.duration(t, estimate.total(t, []), samples)
    assert 0.5 * 9000 < low < 9000 < high < 2 * 9000, (low, middle, high)


def test_lumps_are_not_speed():
    """What is counted each minute only: the last minute was not without work."""
    lumps = [[s[0], s[1], s[2], s[3], s[4] // 60 * 60, s[5], 0, 0] for s in went(1000)]
    low, middle, high = estimate.duration(TOTALS, estimate.total(TOTALS, []), lumps)
    assert 500 < low < 1000 < high < 3000, (low, middle, high)


def test_a_standstill_is_seen():
    """Samples are kept where something changes; that nothing did lately, the present says."""
    history = {"samples": went(1000), "tree": []}
    s = {"state": "migrating", "pending": 500, "counter": 500, "parked": 0, "conflicts": 0,
         "totals": TOTALS, "crawler": True}
    before = status.guess(s, history, 0.0)["remaining_s"]
    now = [1600, 1600, *history["samples"][-1][2:]]
    after = status.guess(s, dict(history, now=now), 0.0)["remaining_s"]
    assert after[1] > 1.3 * before[1] and after[2] > 1.5 * before[2]


def test_slower_lately_is_slower_later():
    """Half as fast in the last third."""
    def parts(x):
        x *= 2
        done = x if x < 0.8 else 0.8 + (x - 0.8) / 3
        return 500 * done / 0.867, 5 * 10 ** 8 * done / 0.867

    def said(p):
        return estimate.duration(TOTALS, estimate.total(TOTALS, []), went(1000, parts=p))
    steady, slower = said(lambda x: (1000 * x, 10 ** 9 * x)), said(parts)
    assert slower[1] > 1.2 * steady[1] and slower[2] > 1.4 * steady[2], (steady, slower)


# -- totals --------------------------------------------------------------------------------------

def chains(n, depth):
    """So many directories, each with one below it, and so on; five files in each."""
    rows = [[1, n, n * n, 0, 0, 0, 0]]
    rows += [[n, n, n, 5 * n, 25 * n, 5000 * n, 25 * 10 ** 6 * n] for _ in range(depth)]
    t = dict(TOTALS, found=1 + n + 6 * n * depth, found_bytes=5000 * n * depth, directories_left=n)
    return t, rows


@pytest.mark.parametrize("listed", [6, 12, 24])
def test_chains_go_on(listed):
    """Of 30 levels some are listed, and none had an end: there may be as many again."""
    whole = estimate.total(*chains(8, listed))
    assert whole.objects[0] < 1 + 8 + 8 * 6 * 30 < whole.objects[2], whole
    assert whole.objects[1] > 1.2 * (1 + 8 + 8 * 6 * listed)


def test_trees_that_end_do_not_go_on():
    """Nothing was below any of 99 of a hundred."""
    t = dict(TOTALS, found=101 + 990, found_bytes=990 * 1000, directories_left=1)
    whole = estimate.total(t, [[1, 100, 10000, 0, 0, 0, 0],
                               [99, 0, 0, 990, 9900, 990000, 9900 * 10 ** 6]])
    assert whole.objects[1] < 1.1 * 1101 and whole.objects[2] < 1.5 * 1101, whole


def test_what_is_being_listed_is_as_large_as_it_is_already():
    """The last directory has brought 3000 names up to now; all others had ten."""
    rows = [[1, 41, 41 ** 2, 0, 0, 0, 0],
            [40, 0, 0, 400, 4000, 400 * 1000, 4000 * 10 ** 6]]
    t = dict(TOTALS, found=1 + 41 + 400 + 3000, found_bytes=3400 * 1000, directories_left=1)
    whole = estimate.total(t, rows)
    assert whole.objects[0] >= t["found"] and whole.bytes[0] >= t["found_bytes"]
    assert whole.objects[1] > 442 + 5000 and whole.objects[2] > 442 + 12000, whole


# -- what nobody should send ---------------------------------------------------------------------

@pytest.mark.parametrize("samples", [
    [[i, 50 - i, 10, 10, i, i, 0, 0] for i in range(50)],           # time goes back
    [[i, i * 10, 1e300, 1e300, 1e300 * i, 1e300 * i, 0, 0] for i in range(100)],
    [[i, i * 10, 10, 10, 100 - i, 10 ** 9 - i, 0, 0] for i in range(100)],
    [[i, 10 * i, 1000, 10 ** 9, 1e-300 * i, 1e-300 * i, 0, 0] for i in range(100)]])
def test_nothing_odd_is_an_end(samples):
    said = estimate.duration(TOTALS, estimate.total(TOTALS, []), samples)
    assert said is None or 0 <= said[0] <= said[1] <= said[2] < 1e12
