# SPDX-License-Identifier: GPL-3.0-or-later
"""Judging: the states a recorded disk may have, each mounted as of another boot.

Every state is looked at offline (stubdump, cuts_model).  From some the migration
goes on: two starts of the retriever, the second of which must find nothing to do,
then the crawl to the end, after which all bytes are what they were before.
"""
import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess

from apart import in_parallel
from cuts_again import cut_again
from cuts_model import judge, logical
from cuts_record import PATIENCE, SOCKETS, dump
import images
from lib.migration import AT_ONCE
from lib.programs import CRAWLER, RETRIEVER, VOLUME_TOOL
from lib.wait import wait_until

AGAIN = 12                               # states of a second cut
WORKERS = 10                             # mounting is waiting, more than work


class Recovery:
    """The migration goes on after the cut."""

    def __init__(self, run, volume):
        self.run, self.volume = run, volume
        self.log = run.sockets / "recovery.log"

    def _spawn(self, *argv):
        with open(self.log, "ab") as out:
            return subprocess.Popen([*map(str, argv), str(self.volume)], stdout=out, stderr=out,
                                    stdin=subprocess.DEVNULL)

    def _ask(self, cmd):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(str(self.run.sockets / "control.sock"))
            s.sendall(b'{"cmd":"%s"}\n' % cmd.encode())
            return json.loads(s.makefile().readline())

    @contextlib.contextmanager
    def retriever(self):
        process = self._spawn(RETRIEVER, "--config", self.run.sockets / "postcopy.conf")
        try:
            def up():
                assert process.poll() is None, "retriever: " + self.log.read_text()[-1000:]
                return self._ask("status")["ok"]
            wait_until(up, PATIENCE, "retriever")
            yield
            self._ask("drain")
            process.terminate()
            code = process.wait(PATIENCE)
            assert code == 0, "retriever ended with %d" % code
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def start_and_stop(self):
        with self.retriever():
            pass
        return dump(self.volume)

    def to_the_end(self):
        with self.retriever():
            crawler = self._spawn(CRAWLER, "--leave-parked")
            try:
                code = crawler.wait(PATIENCE)
            finally:
                crawler.kill()
                crawler.wait()
            assert code == 0, "crawler: %s" % self.log.read_text()[-1000:]
            wait_until(lambda: self._ask("status")["state"] == "complete", PATIENCE,
                       "complete")
        return dump(self.volume)


def same_objects(one, other):
    """Do two dumps tell the same of every object?"""
    ours = {p: {k: v for k, v in line.items() if k != "ino"} for p, line in one.objects.items()}
    theirs = {p: {k: v for k, v in line.items() if k != "ino"}
              for p, line in other.objects.items()}
    return ["%r: %r, then %r" % (p, ours.get(p), theirs.get(p))
            for p in sorted(set(ours) | set(theirs)) if ours.get(p) != theirs.get(p)]


def digests(volume, tree):
    """Which files that no client has touched are not what their digests say?  Those that came
    before the cut may have lost theirs, those that were under way have none, and it may be that
    clients have touched all of them."""
    done = subprocess.run([str(VOLUME_TOOL), "verify", "--digests", "--limit", "0", str(volume)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE)
    answer = json.loads(done.stdout)
    assert answer["ok"] and answer["names"], answer
    return ["%s at the end: its content is %s by its digest" % (f["path"], f["class"])
            for f in answer["found"]
            if f["class"] != "changed" and not tree[os.fsencode(f["path"])].touched]


def recover(run, volume, tree, before):
    """Start twice: nothing but what the first start does.  Then to the end."""
    again = Recovery(run, volume)
    wanted = logical(before, tree)
    first = again.start_and_stop()
    second = again.start_and_stop()
    wrong = ["second start: " + text for text in same_objects(first, second)]
    last = again.to_the_end()
    counts = last.volume
    left = {k: counts[k] for k in ("stubs", "unlisted", "journal", "leftovers") if counts[k]}
    if left or not counts["complete"]:
        wrong.append("at the end: %r" % counts)
    if set(last.objects) != set(tree):
        wrong.append("names at the end: %r" % sorted(set(last.objects) ^ set(tree)))
    else:
        now = logical(last, tree)
        wrong += ["%r is other bytes at the end" % p for p in wanted if now[p] != wanted[p]]
        wrong += digests(volume, tree)
    return wrong


def judge_state(run, builder, where, cut, state, go_on, again=None):
    """(what is wrong, states judged, recoveries) of one state.  again: (random numbers,
    how many states or None for all): while it recovers the power goes once more."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(images.Mounted(builder.state(state), where, run.fstype))
        except OSError as err:
            return ["does not mount: %s" % err], 1, 0
        volume = pathlib.Path(where) / "vol"
        try:
            found = dump(volume)
            wrong, tree = judge(found, run.expected(cut))
            if wrong or not (go_on or again):
                return wrong, 1, 0
            wanted = logical(found, tree)
            if go_on:
                return recover(run, volume, tree, found), 1, 1
        except (AssertionError, TimeoutError, OSError) as err:
            return ["%s: %s" % (type(err).__name__, err)], 1, 0
    try:
        wrong, judged, recoveries = cut_again(run, builder.state(state), where.parent, tree,
                                              wanted, *again, Recovery, recover)
    except (AssertionError, TimeoutError, OSError) as err:
        return ["cut again: %s: %s" % (type(err).__name__, err)], 1, 0
    return wrong, 1 + judged, recoveries


@contextlib.contextmanager
def judging(run, part):
    """A namespace with sockets of its own, and another boot; gives a directory."""
    images.own_namespace()
    home = run.home / ("worker%d" % part)
    (home / "sockets").mkdir(parents=True)
    images.bind(home / "sockets", SOCKETS)
    images.new_boot(home)
    (run.sockets / "postcopy.conf").write_text(AT_ONCE + "digests = 1\n")
    yield home
    images.umount(images.BOOT_ID)
    images.umount(SOCKETS)


def worker(run, plan, part, settings):
    """Judge every WORKERSth state."""
    with judging(run, part) as home:
        return _judge_part(run, plan, part, settings, home)


def _judge_part(run, plan, part, settings, home):
    builder = images.Builder(run.log, run.base, home)
    number, recoveries, judged, failed = 0, 0, 0, []
    go_on, again = settings["recover"], settings.get("again")
    rng = random.Random(run.seed * WORKERS + part)
    for cut, states in plan:
        builder.advance(cut)
        for state in states:
            number += 1
            if number % WORKERS != part:
                continue
            mine = number // WORKERS
            twice = again and mine % again == again // 2
            wrong, count, more = judge_state(run, builder, home / "mnt", cut, state,
                                             mine % go_on == 0 and not twice,
                                             (rng, AGAIN) if twice else None)
            judged += count
            recoveries += more
            if wrong:
                failed.append((cut.number, state.name, wrong))
    builder.close()
    return judged, recoveries, failed


def judge_run(run, settings, seed):
    plan = run.log.plan(run.fstype, random.Random(seed), settings["subsets"], settings["states"])
    answers = in_parallel(WORKERS, worker, run, plan, None, settings)
    return (sum(a[0] for a in answers), sum(a[1] for a in answers),
            sorted(f for a in answers for f in a[2]))
