# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that come first, or last: `postcopy order first=PATTERN last=PATTERN`."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

from lib.programs import CRAWLER, as_unit
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

BIG = 100000            # does not come with its listing
DIRS = ("a", "b", "home", "home/anna", "home/anna/mail", "home/bert", "home/bert/mail", "old",
        "old/keep", "old/keep/x", "old/y", "z", "z/urgent", "z/urgent/1")


def make_tree(sizes=(BIG,), dirs=DIRS):
    """Two files of each size in each directory."""
    tree, at = Tree(), {}
    for path in dirs:
        above, _, name = path.rpartition("/")
        at[path] = tree.mkdir(at.get(above, tree.root), name, uid=1000)
    for n, (path, folder) in enumerate(at.items()):
        for i in range(2 * len(sizes)):
            tree.file(folder, "f%d" % i, Pattern(sizes[i // 2] + i, seed=100 * n + i + 1))
    return tree


@pytest.fixture
def fake():
    with FakeServer(make_tree()) as server:
        yield server


@pytest.fixture
def m(new_migration, fresh_dir, fake):
    return new_migration(fake.url(), fresh_dir).init().start_retriever()


def order(m, *words, check=True):
    return m.postcopy("order", m.volume, *words, check=check)


@contextlib.contextmanager
def crawling(m, go=None, workers=1):
    """One ask at a time, so that the order is seen at the old server."""
    with open(m.workdir / "crawler.log", "a") as log:
        crawler = subprocess.Popen([*as_unit("crawler"), str(CRAWLER), "--workers", str(workers),
                                    str(m.volume)],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield crawler
    finally:
        if go:
            go.set()
        crawler.kill()
        crawler.wait()


def crawl(m):
    with crawling(m) as crawler:
        assert crawler.wait(120) == 0
    m.drain()
    assert m.status()["counter"] == 0


def said(m, text):
    wait_until(lambda: text in (m.workdir / "crawler.log").read_text(), 60, text)


def paths(tree):
    """{node: its directory, as it was at the old server}"""
    found, todo = {}, [("", tree.root)]
    while todo:
        at, folder = todo.pop()
        for name, node in folder.entries:
            found[id(node)] = at
            if node.content is None:
                todo.append(((at + "/" if at else "") + name.decode(), node))
    return found


def read_in_order(server):
    """The directories of the files that were read, one after another."""
    where = paths(server.tree)
    nodes = dict.fromkeys(call.node for call in list(server.calls) if call.proc == "READ")
    return [where[id(node)] for node in nodes]


def below(path, *tops):
    return any(path == top or path.startswith(top + "/") for top in tops)


def split(read, *tops):
    """Those below come one after another, from where to where?"""
    at = [i for i, path in enumerate(read) if below(path, *tops)]
    assert at, (tops, read)
    assert at == list(range(at[0], at[-1] + 1)), (tops, read)
    return at[0], at[-1] + 1


def ends_with(read, *dirs):
    """The files in these directories come last."""
    n = sum(path in dirs for path in read)
    assert n and all(path in dirs for path in read[-n:]), (dirs, read)


class Gate:
    """READs wait at it but for the first ones."""

    def __init__(self, fake, free=0):
        self.go, self.free, self.waits = threading.Event(), free, 0
        fake.hook("READ", self)

    def __call__(self, server, call, answer):
        if call.index > self.free and not self.go.is_set():
            self.waits += 1
            self.go.wait(60)
        return answer()


# ---- what comes when ----

CASES = [
    (["first=home/anna"], ["home/anna"], []),
    (["first=home/**", "recent"], ["home"], []),
    (["first=home/*/mail/", "small"], ["home/anna/mail", "home/bert/mail"], []),
    (["first=**/urgent"], ["z/urgent"], []),
    (["last=old"], [], ["old"]),
    (["large", "last=old", "first=[ab]"], ["a", "b"], ["old"]),
]


@pytest.mark.parametrize("words, first, last, sizes", [
    (*case, (size,)) for case in CASES for size in ((BIG, 1000) if case in CASES[1::3] else (BIG,))
], ids=lambda w: " ".join(map(str, w)) or None)
def test_directories_come_first_or_last(new_migration, fresh_dir, words, first, last, sizes):
    """What is said before the crawl: the rest is not even listed before, or until then."""
    with FakeServer(make_tree(sizes)) as server:
        m = new_migration(server.url(), fresh_dir).init().start_retriever()
        order(m, *words)
        crawl(m)
        read = read_in_order(server)
        assert len(read) == 2 * len(DIRS)
        if last:
            assert split(read, *last)[1] == len(read)
            listed = [call.proc for call in list(server.calls) if call.proc == "READ" or
                      call.proc == "READDIRPLUS" and call.node is server.tree.find(last[0])]
            assert listed.index("READDIRPLUS") >= split(read, *last)[0]
        if len(first) == 1:     # small files of a directory on the way come with its listing
            assert split(read, *first)[0] <= (0 if sizes == (BIG,) else 2), read
        for top in first:
            assert max(i for i, path in enumerate(read) if below(path, top)) < len(read) / 2, read
        m.postcopy("finish", m.volume)
        assert not (m.volume / ".postcopy").exists()


def test_what_comes_first_may_be_in_what_comes_last(m, fake):
    order(m, "last=old", "first=old/keep")
    crawl(m)
    read = read_in_order(fake)
    assert split(read, "old/keep")[0] == 0, read
    ends_with(read, "old", "old/y")


def test_what_is_listed_already_has_its_turn_too(new_migration, fresh_dir):
    """All is listed, as directories side by side come before their files; the first one waits."""
    dirs = ["a", "b", "bert", "old", "y", "z"]
    with FakeServer(make_tree((BIG, 2 * BIG), dirs)) as server:
        m = new_migration(server.url(), fresh_dir).init().start_retriever()
        gate = Gate(server)
        with crawling(m, gate.go) as crawler:
            wait_until(lambda: gate.waits, 60, "the first file")
            assert m.status()["pending"] >= 4 * len(dirs)
            order(m, "first=bert", "last=old", "last=a")
            said(m, "what comes first: first=bert last=old last=a")
            gate.go.set()
            assert crawler.wait(120) == 0
        read = read_in_order(server)
        assert len(read) == 4 * len(dirs)
        assert split(read[1:], "bert")[0] == 0, read
        ends_with(read[1:], "old", "a")


def test_what_a_client_moves_is_where_it_is_now(m, fake):
    m.server.start()
    gate = Gate(fake)
    with crawling(m, gate.go) as crawler:
        wait_until(lambda: gate.waits, 60, "the first file")
        order(m, "first=home/bert", "last=old")
        said(m, "what comes first: first=home/bert last=old")
        with m.client() as c:
            moved = "z/urgent" if not below(read_in_order(fake)[0], "z/urgent") else "a"
            c.rename(moved, "home/bert/moved")
            c.rename("old/keep", "kept")
        gate.go.set()
        assert crawler.wait(120) == 0
    read = read_in_order(fake)[1:]
    assert split(read, "home/bert", moved)[0] == 0, read
    ends_with(read, "old", "old/y")


def test_it_is_looked_again_where_things_are(m, fake):
    """After a walk through everything, when its time has come again."""
    m.server.start()
    gate = Gate(fake, free=1)
    order(m, "first=home")
    with crawling(m, gate.go) as crawler:
        wait_until(lambda: gate.waits, 60, "the second file")
        assert below(read_in_order(fake)[0], "home")
        with m.client() as c:
            for folder in ("a", "b", "old", "z"):   # all of their files may come now
                assert len(c.names(folder)) >= 2
            c.rename("z", "home/moved")
        since = time.monotonic()
        # by the clock, not by speed: it looks again after ten seconds
        wait_until(lambda: time.monotonic() - since > 11, 60, "ten seconds")
        gate.go.set()
        assert crawler.wait(120) == 0
    read = read_in_order(fake)
    assert split(read, "home", "z")[0] == 0, read


def test_it_is_kept_and_counts_for_the_next_crawler(m, fake):
    gate = Gate(fake)
    order(m, "recent", "first=z", "last=home")
    with crawling(m, gate.go) as crawler:
        wait_until(lambda: gate.waits, 60, "the first file")
        crawler.kill()
        crawler.wait()
        gate.go.set()
    crawl(m)
    assert (m.workdir / "crawler.log").read_text().count(
        "what comes first: recent first=z last=home") == 2
    read = read_in_order(fake)
    assert split(read, "z")[0] == 0 and split(read, "home")[1] == len(read), read


def test_it_can_be_said_while_the_crawl_is_paused(m, fake):
    m.postcopy("pause", m.volume)
    with crawling(m) as crawler:
        order(m, "first=old")
        said(m, "what comes first: first=old")
        assert fake.counts["READ"] == 0
        m.postcopy("resume", m.volume)
        assert crawler.wait(120) == 0
    assert split(read_in_order(fake), "old")[0] == 0


def test_what_cannot_come_holds_nothing_up(m, fake):
    """The old server says 'later' of a file, for ever: what comes last does come."""
    tape = dict(fake.tree.find("a").entries)[b"f0"]
    free = threading.Event()

    def later(server, call, answer):
        if call.node is tape and not free.is_set():
            from nfsclient import errors
            from nfsclient.fakeserver import Refuse
            raise Refuse(errors.JUKEBOX)
        return answer()

    fake.hook("READ", later)
    order(m, "last=old")
    with crawling(m, free, workers=2):
        wait_until(lambda: sum(below(p, "old") for p in read_in_order(fake)) == 8, 120, "the last")
        assert m.status()["pending"] > 0


# ---- what is said ----

def test_it_is_shown_kept_and_removed(m):
    shown = "what is in two words, a*/b first; what is in old last; recent first; directories " \
        "are listed until 1 000 objects wait"
    words = ["recent", "first=two words/", "last=old/**", "first=a*/b", "ahead=1000"]
    assert order(m, *words).stdout == shown + "\n"
    assert order(m, "show").stdout == shown + "\n"
    assert (m.volume / ".postcopy/order").read_text() == \
        "order=2\nrecent ahead=1000\nfirst=two words\nlast=old\nfirst=a*/b\nend\n"
    for answer in (m.tool("order", m.volume), m.tool("counts", m.volume),
                   json.loads(m.postcopy("status", "--json", m.volume).stdout)):
        assert (answer["order"], answer["order_ahead"]) == ("recent ahead=1000", 1000)
        assert answer["order_first"] == ["two words", "a*/b"] and answer["order_last"] == ["old"]
    told = m.postcopy("status", m.volume).stdout
    assert shown in " ".join(told.split())
    assert order(m, "first=\udcff[x]").stdout.startswith("what is in \\xff[x] first; as the jour")
    order(m, "default")
    assert not (m.volume / ".postcopy/order").exists()


def test_a_pattern_is_not_taken_for_the_directory(m):
    volumes = pathlib.Path(os.environ["POSTCOPY_VOLUMES"])
    before = volumes.read_text() if volumes.exists() else None
    volumes.write_text("%s\n" % m.volume)
    try:
        m.postcopy("order", "first=home/anna", "--json", "last=old/keep")
    finally:
        volumes.unlink() if before is None else volumes.write_text(before)
    assert m.tool("order", m.volume)["order_first"] == ["home/anna"]


@pytest.mark.parametrize("word", [
    "first=", "first=/home", "first=**", "last=..", "last=a/../b", "first=a//b", "first=a\nlast=b",
    "first=" + "*a" * 9, "first=" + "a" * 300, "last=a\\", "last=home/", "first=home", "first",
], ids=repr)
def test_what_is_wrong_changes_nothing(m, word):
    order(m, "last=home")
    refused = order(m, "first=z", "last=home", word, check=False)
    assert refused.returncode != 0
    assert re.search(r"want ", refused.stderr)
    assert len(refused.stderr.strip().splitlines()) == 1
    assert (m.volume / ".postcopy/order").read_text() == "order=2\n\nlast=home\nend\n"


def test_a_file_of_a_newer_release_stops_nothing(m, fake):
    (m.volume / ".postcopy/order").write_text("order=3\nwhatever\nend\n")
    refused = order(m, check=False)
    assert refused.returncode != 0 and "is of a newer release" in refused.stderr
    crawl(m)
    assert (m.workdir / "crawler.log").read_text().count("it is of a newer release") == 1
