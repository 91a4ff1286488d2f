# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of the crawler: outside of them clients are served and nothing is crawled; what
`postcopy window` says counts at once.

It is about noon for all that is tested here: TZ says so, whatever the time of day is."""
import json
import os
import re
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib.programs import CRAWLER, POSTCOPY, TOOLS, VOLUME_TOOL, build_c, copy_program
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

NOW, NOT_NOW = "11:00-14:00", "23:00-01:00"
FILES = 30


@pytest.fixture(autouse=True, scope="module")
def noon():
    """A zone in which it is between 12:00 and 13:00."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "TST%+d" % (time.gmtime().tm_hour - 12)
    time.tzset()
    assert time.localtime().tm_hour in (12, 13)
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture
def fake():
    tree = Tree()
    for i in range(FILES):
        tree.file(tree.root, "f%d" % i, Pattern(1000 + i, seed=i + 1))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(new_migration, fresh_dir, fake):
    """Whose files come one by one."""
    return new_migration(fake.url(), fresh_dir, conf="small_file = 0\n").init().start()


class Crawler:
    """One that tells each second how it is."""

    def __init__(self, m, **env):
        self.out = open(m.workdir / "crawler.json", "w+")
        self.err = open(m.workdir / "crawler.err", "w+")
        self.process = subprocess.Popen([str(CRAWLER), "--json", str(m.volume)], stdout=self.out,
                                        stderr=self.err, stdin=subprocess.DEVNULL,
                                        env={**os.environ, **env}, start_new_session=True)

    def lines(self):
        with open(self.out.name) as f:
            return [json.loads(line) for line in f.read().splitlines(True) if line.endswith("\n")]

    def said(self):
        with open(self.err.name) as f:
            return f.read()

    def wait(self, what, closed, more=2):
        """Until it tells, more times after now, that it is closed, or not."""
        n = len(self.lines())

        def told():
            new = self.lines()[n:]
            return len([one for one in new if one["closed"] is closed]) >= more and new[-1]

        return wait_until(told, 60, what)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.err.close()


def window(m, *words, check=True):
    return m.postcopy("window", m.volume, *words, check=check)


def test_outside_of_it_clients_are_served_and_nothing_is_crawled(m, fake):
    window(m, NOT_NOW)
    with Crawler(m) as crawler, m.client() as c:
        crawler.wait("closed windows", True)
        assert c.read("f3", 0, 5000)[0] == Pattern(1003, seed=4).read(0, 1003)
        crawler.wait("closed windows", True)
        assert all(one["asked"] == 0 for one in crawler.lines())
        assert fake.counts["READ"] == 1
        assert "outside of the windows: nothing is crawled until" in crawler.said()
        status = m.postcopy("status", m.volume).stdout
        assert "23:00-01:00; closed, only what clients touch comes over; opens " in status
        assert " 23:00 TST" in status
        window(m, NOW)                                  # and it goes on, as it is
        assert crawler.process.wait(120) == 0
    m.drain()
    assert m.status()["counter"] == 0
    m.postcopy("finish", m.volume)
    assert not (m.volume / ".postcopy").exists()


def test_one_that_closes_ends_what_is_begun_and_begins_nothing(m, fake):
    window(m, NOW)
    fake.page_limit = 5
    fake.pause()
    with Crawler(m) as crawler:
        wait_until(lambda: crawler.lines() and crawler.lines()[-1]["asked"], 60, "a crawl")
        window(m, NOT_NOW)
        crawler.wait("closed windows", True)
        fake.resume()
        wait_until(lambda: crawler.lines()[-1]["inflight"] == 0, 60, "the end of what was begun")
        asked = crawler.lines()[-1]["asked"]
        assert crawler.wait("closed windows", True, more=3)["asked"] == asked
        assert m.status()["counter"] > 0
        window(m, "none")
        assert crawler.process.wait(120) == 0


def test_a_clock_that_is_set_counts_at_once(m, workdir, tmp_path):
    shim = build_c([TOOLS / "clockshim.c"], workdir / "build" / "clockshim.so", "-D_GNU_SOURCE",
                   "-shared", "-fPIC")
    off = tmp_path / "off"
    off.write_text("0\n")
    window(m, NOT_NOW)
    with Crawler(m, LD_PRELOAD=str(shim), CLOCK_OFF=str(off)) as crawler:
        crawler.wait("closed windows", True)
        off.write_text("%d\n" % (11 * 3600))            # it is 23:00 and some
        assert crawler.process.wait(120) == 0


def test_what_it_shows(m):
    assert window(m).stdout == "none: the crawler may crawl at any time\n"
    assert not re.search("^window ", m.postcopy("status", m.volume).stdout, re.MULTILINE)
    shown = json.loads(m.postcopy("window", "--json", m.volume, "sat,sun 0:00-24:00",
                                  "Mon..Sun " + NOW).stdout)
    assert shown["windows"] == ["Sat,Sun 00:00-24:00", "11:00-14:00"]
    status = json.loads(m.postcopy("status", "--json", m.volume).stdout)
    for answer in shown, status:
        assert answer["window_open"] is True
        assert 3600 <= answer["window_change"] - time.time() < 3 * 86400
        assert time.strftime("%H:%M", time.localtime(answer["window_change"])) in (
            answer["window_change_at"])
    assert window(m, "show").stdout.startswith("Sat,Sun 00:00-24:00, 11:00-14:00; open, closes ")
    window(m, "none")
    assert not (m.volume / ".postcopy" / "window").exists()
    m.kill_retriever()
    window(m, NOT_NOW)                                  # it is the crawler's: needs no retriever
    assert json.loads(m.postcopy("status", "--json", m.volume).stdout)["window_open"] is False


def beside(tmp_path, m, script):
    """`postcopy status` with this in the place of postcopy-volume."""
    copy_program(POSTCOPY, tmp_path)
    tool = tmp_path / VOLUME_TOOL.name
    tool.write_text("#!/bin/sh\n" + script)
    tool.chmod(0o755)
    return lambda: subprocess.run(["/usr/bin/python3", str(tmp_path / "postcopy"), "status",
                                   "--json", str(m.volume)], capture_output=True, text=True,
                                  timeout=300)


def test_one_look_runs_the_helper_once(m, tmp_path):
    """What is pending and the windows come in one answer, with a retriever and without."""
    runs = tmp_path / "runs"
    look = beside(tmp_path, m, 'echo "$1" >> %s\nexec %s "$@"\n' % (
        shlex.quote(str(runs)), shlex.quote(str(VOLUME_TOOL))))
    window(m, NOW)
    for running in True, False:
        status = json.loads(look().stdout)
        assert (status["windows"], status["state"] != "retriever-down") == ([NOW], running)
        assert runs.read_text().split() == ["counts"], running
        runs.unlink()
        m.kill_retriever()


def test_where_the_helper_fails_a_retriever_tells(m, tmp_path):
    """As of a disk that is broken; what only the disk knows is left out."""
    answer = {"ok": False, "error": "x", "message": "broken"}
    look = beside(tmp_path, m, "echo %s; exit 9\n" % shlex.quote(json.dumps(answer)))
    status = json.loads(look().stdout)
    assert status["state"] == "migrating" and "windows" not in status
    m.kill_retriever()
    done = look()
    assert done.returncode == 9 and "broken" in done.stderr


def test_many_commands_at_once(m):
    """Each is done as a whole, and nobody finds half of one."""
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda i: m.tool("window", m.volume, *[NOW] * (1 + i % 16),
                                              check=False), range(64)))
        seen = list(pool.map(lambda i: m.tool("window", m.volume, *[NOT_NOW] * (i % 3)), range(64)))
    assert [len(one["windows"]) for one in done] == [1 + i % 16 for i in range(64)]
    assert len(seen) == 64
    assert len(m.tool("window", m.volume)["windows"]) in (1, 2)


@pytest.mark.parametrize("wrong", ["Mon-Fri 20:00-06:00", "20-06", "25:00-26:00", "20:00-20:00",
                                   "daily", "", "Mon 20:00-06:00; Tue 20:00-06:00"])
def test_wrong_text_changes_nothing_and_says_what_is_right(m, wrong):
    window(m, NOW)
    before = (m.volume / ".postcopy" / "window").read_bytes()
    for words in [wrong], [NOT_NOW, wrong], ["none", NOT_NOW]:
        done = window(m, *words, check=False)
        assert done.returncode == 2, done
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1
        assert "00:00-24:00" in done.stderr
    assert (m.volume / ".postcopy" / "window").read_bytes() == before
    assert window(m, *[NOW] * 17, check=False).returncode == 2


def test_a_damaged_file_is_said_and_nothing_is_crawled(m, fake):
    window(m, NOW)
    (m.volume / ".postcopy" / "window").write_text("windows=1\n11:00")
    with Crawler(m) as crawler:
        crawler.wait("closed windows", True)
        assert crawler.lines()[-1]["asked"] == 0
        assert crawler.said().count("window cannot be read") == 1
        done = window(m, check=False)
        assert done.returncode != 0 and "say 'postcopy window' again" in done.stderr
        assert m.postcopy("status", m.volume).returncode == 0
        window(m, "none")
        assert crawler.process.wait(120) == 0
