# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the predicted total hold?  When so many directories of made-up trees are listed, one after
the other as they were found, or anyhow (lib/playthrough.py): no volume, no server."""
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

PARTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Until its listing begins, nobody can know of the one huge directory.
TREES = [tree for tree in playthrough.TREES if tree != "one huge directory"]


def office(rng, k):
    """What belongs to one person is alike, and unlike that of the next: some have ten files, some
    have thousands; below are directories with next to nothing in them."""
    top = playthrough.Dir(rng, 0)
    for _ in range(12 * k):
        person = top.below(rng)
        many = int(rng.paretovariate(0.8) * 4)
        for _ in range(min(many, 60)):
            topic = person.below(rng)
            topic.files = playthrough.sizes(rng, min(int(rng.paretovariate(1.0) * many), 400),
                                            30000, 2)
            for _ in range(rng.choice((0, 0, 1, 3))):
                topic.below(rng).files = playthrough.sizes(rng, rng.choice((0, 0, 1, 2)), 3000, 1)
    return top


def judge(tree, seed):
    """For objects and bytes, at all parts: did it hold, and how wide was it?"""
    top = dict(playthrough.TREES, office=office)[tree](random.Random(seed), 1)
    (everything, _), = playthrough.listings(top, [1.0], over=True)
    out = []
    for rng in None, random.Random(seed):
        for totals, rows in playthrough.listings(top, PARTS, rng):
            whole = estimate.total(totals, rows)
            if whole:
                out += [(low - 0.5 <= truth <= high + 0.5, high / low)
                        for (low, _, high), truth in ((whole.objects, everything["found"]),
                                                      (whole.bytes, everything["found_bytes"]))]
    return out


@pytest.fixture(scope="module")
def judged():
    return {tree: [j for seed in range(5) for j in judge(tree, seed)]
            for tree in (*TREES, "office")}


@pytest.mark.parametrize("tree", TREES)
def test_it_holds(judged, tree):
    some = [held for held, _ in judged[tree]]
    assert sum(some) >= 0.85 * len(some) > 0


def test_where_neighbours_are_alike(judged):
    """What was listed first says little of the others: seven in ten, and none is promised."""
    some = [held for held, _ in judged["office"]]
    assert sum(some) >= 0.65 * len(some) > 0


def test_it_says_something(judged):
    """Everything between nothing and anything would hold."""
    assert statistics.median(wide for all_of in judged.values() for _, wide in all_of) < 3
    assert statistics.median(wide for _, wide in judged["uniform"]) < 2


# Of two real migrations, the sums over what was listed of each depth: directories, and then in them
# directories, files and bytes, each with the sum of its squares.  Both stood like this for minutes.
LEAVES = [[1, 33, 1089, 173, 29929, 4713424, 2.22e13],
          [33, 45, 93, 404, 20802, 33764597, 6.53e14],
          [44, 16, 18, 158, 3982, 1112903, 1.39e11]]
LAST = [[1, 5, 25, 0, 0, 0, 0], [5, 11, 37, 18, 132, 344240, 5.21e10],
        [11, 17, 59, 34, 208, 2347613, 2.05e12], [17, 24, 68, 65, 1139, 5618393, 9.99e12],
        [24, 46, 186, 81, 1053, 7280684, 1.67e13], [46, 57, 137, 552, 46082, 45805866, 3.71e14],
        [57, 53, 105, 550, 23830, 43509409, 2.11e14], [53, 39, 87, 793, 173153, 57919423, 9.31e14],
        [39, 29, 57, 477, 47719, 47424270, 7.48e14],
        [29, 11, 15, 1302, 720908, 146024444, 8.29e15], [1, 1, 1, 5, 25, 12867, 165559689]]


@pytest.mark.parametrize("rows, left, found, objects, size", [
    (LEAVES, 17, (830, 39590924), 834, 39605106),       # most of them have nothing in them
    (LAST, 11, (4171, 356287209), 4227, 361763390)])    # one of these was listed, and it had five
def test_it_held_where_it_was_real(rows, left, found, objects, size):
    whole = estimate.total({"found": found[0], "found_bytes": found[1], "directories_left": left},
                           rows)
    assert whole.objects[0] <= objects <= whole.objects[2] < 5 * objects, whole
    assert whole.bytes[0] <= size <= whole.bytes[2] < 5 * size, whole
