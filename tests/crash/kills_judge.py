# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging copies of a volume that sysgate made: offline, and by going on to the end."""
import os
import pathlib
import pickle
import random
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

from cuts_judge import recover
from cuts_model import Image, judge
import images
from kills_bed import BASE, dump_lines
from kills_work import CASES, Killed, Source, links_wrong, sizes_wrong
from lib.sourceversion import turn

KEPT = BASE / "kills-kept"
WORKERS = 2


@dataclass
class State:
    """A copy of the image, and how far the client was."""
    number: int
    call: str                        # the one that was not made any more
    after: str                       # kind of the last one that was made
    issued: int
    acked: int


@dataclass
class Case:
    name: str
    seed: int
    tree: object
    ops: list
    version: str                     # by which the source is read

    @classmethod
    def make(cls, name, seed):
        source = Source()
        return cls(name, seed, source.tree, CASES[name](source, random.Random(seed)),
                   turn(list(CASES).index(name) + seed))

    def expected(self, issued, acked, all_died):
        return Killed(self.tree, self.ops, issued, acked, all_died)


# -- states ---------------------------------------------------------------------

def kind_of(call):
    """What a call did, and where."""
    for place in ("journal", "staging", "provisional"):
        if "/.postcopy/%s/" % place in call:
            return "%s %s" % (place, "" if place == "journal" else call.split()[4])
    return call.split()[4]


def states_of(log):
    """(copies in order, {process: calls}) of a log of sysgate."""
    issued = acked = 0
    found, calls, last, after, this = [], {}, "the end", "", ""
    for line in log.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if line == "mark s":
            issued += 1
        elif line == "mark a":
            acked += 1
        elif kind == "call":
            _number, name, k = rest.split()[:3]
            calls[name], last = int(k), rest
            after, this = this, kind_of(rest)
        elif line == "> unwatch":
            last, after = "the end", this
        elif kind == "snap":
            found.append(State(int(rest), last, after, issued, acked))
    return found, calls


def too_many(volume, expected):
    """More objects counted than the old server has?  Entries of what was not linked any more are
    stale, and counted until they are met."""
    there = len(set(map(id, expected.trees[0][1].values())))
    return ["%d objects of %d were counted" % (volume["found"] - volume["stale"], there)] \
        if volume["found"] - volume["stale"] > there else []


def judge_volume(volume, expected, keep_era):
    """(what is wrong, the image, the tree that it is)."""
    lines = dump_lines(volume, *(("-k",) if keep_era else ()))
    image = Image(volume, lines)
    wrong, tree = judge(image, expected)
    wrong += ["parked: %r" % line for line in lines if line.get("park")]
    wrong += too_many(image.volume, expected)
    if tree:
        wrong += links_wrong(image, tree) + sizes_wrong(image, tree, expected)
    return wrong, image, tree


def judge_both(case, volume, state):
    """The same if one process lived on (the page cache counts), and if all died."""
    wrong, image, tree = judge_volume(volume, case.expected(state.issued, state.acked, False), True)
    if wrong:
        return ["one lived: " + text for text in wrong], image, tree
    return judge_volume(volume, case.expected(state.issued, state.acked, True), False)


def judge_state(case, bed, image, where, state, go_on):
    """(what is wrong, recoveries) of one copy."""
    with images.Mounted(image, where, "xfs"):
        try:
            wrong, found, tree = judge_both(case, pathlib.Path(where), state)
            if wrong or not go_on:
                return wrong, 0
            return recover(bed, where, tree, found), 1
        except (AssertionError, TimeoutError, OSError) as err:
            return ["%s: %s" % (type(err).__name__, err)], 0


def to_recover(todo, each, rng):
    """Numbers of the states that go on to the end: `each` of every kind."""
    kinds = {}
    for state in todo:
        kinds.setdefault(state.after, []).append(state.number)
    return {n for found in kinds.values() for n in rng.sample(found, min(each, len(found)))}


@contextmanager
def at_work(bed, part):
    """A namespace of its own, as sockets are at one path; gives a directory."""
    images.own_namespace()
    home = bed.home / ("worker%d" % part)
    (home / "sockets").mkdir(parents=True, exist_ok=True)
    images.bind(home / "sockets", bed.sockets)
    (bed.sockets / "postcopy.conf").write_text(bed.conf)
    yield home


def worker(case, bed, todo, part, going_on):
    """Judge every WORKERSth state."""
    recoveries, failed = 0, []
    with at_work(bed, part) as home:
        for state in todo[part::WORKERS]:
            image = bed.copies / ("%06d.img" % state.number)
            wrong, more = judge_state(case, bed, images.clone(image, home / "state.img"),
                                      home / "mnt", state, state.number in going_on)
            recoveries += more
            if wrong:
                failed.append((state, wrong))
    return recoveries, failed


def keep(case, state, image, log, wrong, point=0, **more):
    """A state that is wrong, where it stays."""
    where = KEPT / ("%s-%d-%d-%d-%d" % (case.name, case.seed, state.number, point, os.getpid()))
    where.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--sparse=always", str(image), str(where / "image")], check=True)
    shutil.copy(log, where / "log")
    with open(where / "state.pickle", "wb") as f:
        pickle.dump(dict(case=case.name, seed=case.seed, state=vars(state), wrong=wrong,
                         **more), f)
    return where
