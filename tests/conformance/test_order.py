# SPDX-License-Identifier: GPL-3.0-or-later
"""What the crawler asks for first: `postcopy order`."""
import json
import re
import subprocess
import threading
import time

import pytest

from lib.programs import CRAWLER, VOLUME_TOOL, as_unit
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

HOUR = 3600
ONE_BY_ONE = "small_file = 0\n"     # else small files come with their directory
AGES = {"old": 3000, "ancient": 30000, "new": 1, "fresh": 3, "middle": 200}     # hours
SIZES = {"old": 100, "ancient": 300000, "new": 600000, "fresh": 5000, "middle": 20000}
RECENT = ["new", "fresh", "middle", "old", "ancient"]
SMALL = ["old", "fresh", "middle", "ancient", "new"]


@pytest.fixture
def fake():
    tree = Tree()
    now = time.time()
    for i, (name, hours) in enumerate(AGES.items()):
        then = int((now - hours * HOUR - HOUR / 2) * 1e9)
        tree.file(tree.root, name, Pattern(SIZES[name], seed=i + 1), atime=then, mtime=then)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(new_migration, fresh_dir, fake):
    return new_migration(fake.url(), fresh_dir, conf=ONE_BY_ONE).init().start()


def order(m, *words, check=True):
    return m.postcopy("order", m.volume, *words, check=check)


def start_crawler(m, *options):
    """One ask at a time, so that the order is seen at the old server."""
    with open(m.workdir / "crawler.log", "w") as log:
        return subprocess.Popen([*as_unit("crawler"), str(CRAWLER), "--workers", "1", *options,
                                 str(m.volume)],
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def crawl(m, *options):
    crawler = start_crawler(m, *options)
    try:
        assert crawler.wait(120) == 0
    finally:
        crawler.kill()
        crawler.wait()


def read_in_order(fake):
    """Names of files, by their first READ."""
    name = {id(node): raw.decode() for raw, node in fake.tree.root.entries}
    return list(dict.fromkeys(name[id(call.node)] for call in list(fake.calls)
                              if call.proc == "READ"))


@pytest.mark.parametrize("words, expected", [
    (["recent"], RECENT),
    (["large"], SMALL[::-1]),
    (["small", "recent"], SMALL),
], ids=" ".join)
def test_what_is_wanted_first_is_asked_for_first(m, fake, words, expected):
    order(m, *words)
    crawl(m)
    m.drain()
    assert read_in_order(fake) == expected
    assert m.status()["counter"] == 0
    m.postcopy("finish", m.volume)


def test_it_counts_at_once_for_a_crawler_that_runs(m, fake):
    """It waits for the first file, and then goes on in the new order."""
    order(m, "small")
    go = threading.Event()
    fake.hook("READ", lambda server, call, answer: (go.wait(60), answer())[1])
    crawler = start_crawler(m)
    try:
        wait_until(lambda: fake.counts["READ"], 60, "the first file")
        order(m, "recent", "small", "ahead=20000")
        wait_until(lambda: "what comes first: recent small ahead=20000"
                   in (m.workdir / "crawler.log").read_text(), 60, "the crawler knows")
        go.set()
        assert crawler.wait(120) == 0
    finally:
        go.set()
        crawler.kill()
        crawler.wait()
    m.drain()
    assert read_in_order(fake) == ["old", "new", "fresh", "middle", "ancient"]


def test_it_is_shown_kept_and_removed(m):
    usual = "as the journal has them: small files first; directories are listed until 500 000"
    assert order(m).stdout.startswith(usual)
    assert not (m.volume / ".postcopy/order").exists()
    assert order(m, "recent", "small").stdout == \
        "recent, then small first; directories are listed until 500 000 objects wait\n"
    assert order(m, "show").stdout.startswith("recent, then small first;")
    assert (m.volume / ".postcopy/order").read_text() == "order=1\nrecent small\nend\n"
    tool = json.loads(subprocess.run([str(VOLUME_TOOL), "order", str(m.volume)], check=True,
                                     capture_output=True, timeout=300).stdout)
    assert (tool["order"], tool["order_ahead"]) == ("recent small", 500000)
    answer = json.loads(m.postcopy("order", "--json", m.volume, "ahead=1000").stdout)
    assert (answer["order"], answer["order_ahead"]) == ("ahead=1000", 1000)
    assert order(m, "default").stdout.startswith(usual)
    assert not (m.volume / ".postcopy/order").exists()


def test_options_may_stand_between_the_words(m):
    for words in (["--json", m.volume, "recent", "small"], [m.volume, "--json", "recent", "small"],
                  [m.volume, "recent", "--json", "small"], [m.volume, "recent", "small", "--json"]):
        order(m, "default")
        assert json.loads(m.postcopy("order", *words).stdout)["order"] == "recent small"
    refused = m.postcopy("order", m.volume, "recent", "--jsonn", "small", check=False)
    assert refused.returncode == 2 and "unrecognized arguments: --jsonn" in refused.stderr
    assert m.postcopy("pause", m.volume, "recent", check=False).returncode == 2
    assert order(m, "show").stdout.startswith("recent, then small first;")


def test_status_tells_what_is_in_force(m):
    def told():
        return json.loads(m.postcopy("status", "--json", m.volume).stdout)

    def shown():
        return re.findall(r"^order +(.*\S)", m.postcopy("status", m.volume).stdout, re.MULTILINE)

    assert (told()["order"], told()["order_ahead"], shown()) == ("", 500000, [])
    order(m, "recent", "ahead=1000")
    for down in (False, True):
        if down:
            m.kill_retriever()
        s = told()
        assert (s["order"], s["order_ahead"]) == ("recent ahead=1000", 1000)
        assert "order_damaged" not in s
        assert shown() == ["recent first; directories are listed until 1 000 objects wait"]
    (m.volume / ".postcopy/order").write_text("order=1\nlarge\nen")
    s = told()
    assert (s["order"], s["order_ahead"], s["order_damaged"]) == ("", 500000, True)
    assert shown() == ["damaged, so it is the usual one: say 'postcopy order' again"]
    order(m, "default")
    assert "order_damaged" not in told() and shown() == []


@pytest.mark.parametrize("words", [["newest"], ["recent", "recent"], ["small", "large"],
                                   ["ahead=7"], ["default", "recent"], ["recent", "show"], [""]],
                         ids=repr)
def test_what_is_wrong_changes_nothing(m, words):
    order(m, "large")
    refused = order(m, *words, check=False)
    assert refused.returncode != 0
    assert re.search(r"want |each word once", refused.stderr)
    assert len(refused.stderr.strip().splitlines()) == 1
    assert (m.volume / ".postcopy/order").read_text() == "order=1\nlarge\nend\n"


def test_a_damaged_file_stops_nothing(m, fake):
    (m.volume / ".postcopy/order").write_text("order=1\nrecent\nen")
    refused = order(m, check=False)
    assert refused.returncode != 0 and "say 'postcopy order' again" in refused.stderr
    crawl(m)
    m.drain()
    log = (m.workdir / "crawler.log").read_text()
    assert log.count("order cannot be read") == 1
    assert m.status()["counter"] == 0


def test_once_asks_for_each_object_whatever_the_order(m, fake):
    order(m, "recent", "ahead=1000")
    crawl(m, "--once")      # the root
    crawl(m, "--once")      # all that is in it
    m.drain()
    assert set(read_in_order(fake)) == set(AGES)


# ---- how far listing goes ahead ----

def ahead_at_most(server):
    """The most names that were listed and not read, of files; and how many were read by then."""
    listed, read, most, at = set(), set(), 0, 0
    for call in list(server.calls):
        if call.proc == "READDIRPLUS":
            listed.update(node for _, node in call.node.entries if node.content is not None)
        elif call.proc == "READ":
            read.add(call.node)
        if len(listed - read) > most:
            most, at = len(listed - read), len(read)
    return most, at


@pytest.mark.parametrize("words", [["ahead=1000"], ["recent", "ahead=1000"], ["default"]],
                         ids=" ".join)
def test_directories_are_listed_until_enough_objects_wait(new_migration, fresh_dir, words):
    tree = Tree()
    for d in range(60):
        folder = tree.mkdir(tree.root, "d%d" % d)
        for i in range(40):
            tree.file(folder, "f%d" % i, b"x")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir, conf=ONE_BY_ONE).init().start()
        order(m, *words)
        crawl(m)
        m.drain()
        assert m.status()["counter"] == 0
        most, at = ahead_at_most(server)
        if words == ["default"]:
            assert (most, at) == (60 * 40, 0)       # all are listed first
        else:
            # directories wait, too; it looks at each eighth directory, and one is on its way
            assert 1000 - 60 <= most <= 1000 + 9 * 40, (most, at)


def test_the_deepest_come_first_when_so_many_directories_are_known(new_migration, fresh_dir):
    """Half of what may be listed ahead, in one directory; some of these have others in them."""
    tree, inside = Tree(), {}
    for d in range(1040):
        folder = tree.mkdir(tree.root, "d%d" % d, uid=1000)
        if d % 26 == 0:
            inside[folder] = [tree.mkdir(folder, name) for name in "abc"]
            tree.file(folder, "f", b"x")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start_retriever()
        order(m, "ahead=1000")
        crawl(m)
        m.drain()
        assert m.status()["counter"] == 0
        listed = list(dict.fromkeys(call.node for call in list(server.calls)
                                    if call.proc == "READDIRPLUS"))
    assert len(listed) == 1 + 1040 + 3 * len(inside)
    at = {node: i for i, node in enumerate(listed)}
    # until they are half of it; how many there are is looked at now and then, and some are given
    # out by then
    early = [folder for folder in inside if at[folder] < 500]
    late = [folder for folder in early if sorted(at[b] - at[folder] for b in inside[folder])
            != [1, 2, 3]]
    assert len(early) > 5 and len(late) <= 2, [(at[f], [at[b] for b in inside[f]]) for f in late]


# ---- where clients are at work ----

FOLDERS, EACH = 6, 8


@pytest.fixture
def folders():
    tree = Tree()
    for d in range(FOLDERS):
        folder = tree.mkdir(tree.root, "d%d" % d, uid=1000 + d)
        for i in range(EACH):
            tree.file(folder, "f%d" % i, Pattern(1000 + i, seed=d * 100 + i + 1))
    with FakeServer(tree) as server:
        yield server


def folders_read(server):
    """Which folder each file is in that was read, one after another."""
    folder = {id(node): name.decode() for name, top in server.tree.root.entries
              for _, node in top.entries}
    return [folder[id(node)] for node in
            dict.fromkeys(call.node for call in list(server.calls) if call.proc == "READ")]


@pytest.mark.parametrize("words", [["default"], ["large"]], ids=" ".join)
def test_the_rest_of_a_folder_comes_when_a_client_reads_a_file_of_it(
        new_migration, fresh_dir, folders, words):
    m = new_migration(folders.url(), fresh_dir, conf=ONE_BY_ONE).init().start()
    order(m, *words)
    wanted = dict(folders.tree.root.entries)[b"d4"]
    mine = dict(wanted.entries)[b"f5"]
    go, held = threading.Event(), []

    def gate(server, call, answer):
        if call.node is not mine and not go.is_set():
            held.append(time.monotonic())
            go.wait(60)
        return answer()

    folders.hook("READ", gate)
    crawler = start_crawler(m)
    try:
        wait_until(lambda: held, 60, "the crawler's first file")
        if any(call.node is mine for call in folders.calls if call.proc == "READ"):
            pytest.fail("the crawler has begun with the client's file")
        with m.client() as c:
            assert c.read("d4/f5", 0, 2000)[0] == Pattern(1005, seed=406).read(0, 1005)
        wait_until(lambda: told(m), 60, "the retriever tells of it")
        # by the clock, not by speed: it looks again when some time is over
        wait_until(lambda: time.monotonic() - held[0] > 1, 60, "a second")
        go.set()
        assert crawler.wait(120) == 0
    finally:
        go.set()
        crawler.kill()
        crawler.wait()
    m.drain()
    read = folders_read(folders)
    assert len(read) == FOLDERS * EACH
    first = 0 if read[0] == "d4" else 1     # of what the crawler had begun
    assert set(read[first:first + EACH]) == {"d4"}
    assert m.status()["counter"] == 0
    m.postcopy("finish", m.volume)
    assert not (m.volume / ".postcopy").exists()


def told(m):
    """How many folders the retriever tells of."""
    data = (m.volume / ".postcopy/heat").read_bytes()
    return sum(any(data[at:at + 152]) for at in range(0, len(data), 152))


def test_the_folder_that_was_looked_into_last_is_listed_first(new_migration, fresh_dir, folders):
    """None of them is listed: a name was looked up. Nothing follows until somebody crawls."""
    # its listings are begun one after the other
    m = new_migration(folders.url(), fresh_dir, conf=ONE_BY_ONE + "demand_workers = 1\n").init().start()
    with m.client() as c:
        for n, name in enumerate(("d2", "d4")):
            assert c.read(name + "/f1", 0, 2000)[0] == Pattern(
                1001, seed=int(name[1]) * 100 + 2).read(0, 1001)
            # of the root, too: it was looked into for the folder
            wait_until(lambda: told(m) == n + 2, 60, "the retriever tells of it")
    assert folders.counts["READ"] == 2
    crawl(m)
    m.drain()
    read = folders_read(folders)
    assert len(read) == FOLDERS * EACH
    listed = [call.node for call in list(folders.calls) if call.proc == "READDIRPLUS"]
    assert listed[0] is dict(folders.tree.root.entries)[b"d4"]
    # the crawler looks every 20 ms whether that has ended; d2, listed meanwhile, may be gone through first
    assert sorted(read[:2 * EACH]) == ["d2"] * EACH + ["d4"] * EACH, read
