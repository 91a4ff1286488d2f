# SPDX-License-Identifier: GPL-3.0-or-later
"""What is predicted, and what is said of it: pure functions, without a volume."""
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "crawler" / "admin"))
estimate = importlib.import_module("postcopy_estimate")
status = importlib.import_module("postcopy_status")
rehearsal = importlib.import_module("postcopy_rehearse")

TOTALS = {"found": 1000, "found_bytes": 10 ** 9, "done": 500, "done_bytes": 5 * 10 ** 8,
          "left": 500, "left_bytes": 5 * 10 ** 8, "parked": 0, "parked_bytes": 0, "directories_left": 0,
          "partly_bytes": 0, "whole": True}
STATUS = {"volume": "/srv/data", "state": "migrating", "pending": 500, "parked": 0, "conflicts": 0,
          "counter": 500, "crawler": True, "rate_bytes": 0.0, "windows": [], "totals": TOTALS}
MINUTE, HOUR, DAY = 60, 3600, 86400


def steady(seconds, every=10):
    """500 objects and 500 MB in so many seconds."""
    n = seconds // every
    return [[i * every, i * every, 1000, 10 ** 9, 500 * i / n, 5 * 10 ** 8 * i / n, 0, 0]
            for i in range(n + 1)]


def test_what_is_listed_is_known_exactly():
    whole = estimate.total(TOTALS, [])
    assert whole.exact and whole.objects == (1000,) * 3 and whole.bytes == (10 ** 9,) * 3


def test_a_steady_rate():
    low, middle, high = estimate.duration(TOTALS, estimate.total(TOTALS, []), steady(1000))
    assert 950 < middle < 1050
    assert 500 < low < middle < high < 2000


def test_wider_when_less_is_known():
    def width(seconds):
        t = dict(TOTALS, done=TOTALS["done"] * seconds // 10000,
                 done_bytes=TOTALS["done_bytes"] * seconds // 10000)
        samples = [s for s in steady(10000) if s[0] <= seconds]
        low, middle, high = estimate.duration(t, estimate.total(t, []), samples)
        assert low <= middle <= high
        return (high - low) / middle
    assert width(300) > width(3000) > width(9500)


@pytest.mark.parametrize("samples", [[], steady(1000)[:1], steady(10), steady(18, 6),
                                     [[1, 0, 1, 0, 0, 0, 0, 0]] * 50])
def test_no_rate_is_invented(samples):
    assert estimate.duration(TOTALS, estimate.total(TOTALS, []), samples) is None


def test_small_files_do_not_tell_how_long_large_ones_take():
    """All that was done were small objects; what is left are bytes."""
    t = dict(TOTALS, done=990, done_bytes=10 ** 6, left=10, left_bytes=10 ** 9 - 10 ** 6)
    samples = [[i, i, 1000, 10 ** 9, i, i * 1000, 0, 0] for i in range(0, 1000, 10)]
    said = estimate.duration(t, estimate.total(t, []), samples)
    assert said is None or said[2] > 10 * said[0]


def tree_of(dirs, files):
    """A root of so many directories, of which some are listed."""
    return [[1, dirs, dirs * dirs, 0, 0, 0, 0],
            [dirs // 2, 0, 0, dirs // 2 * files, dirs // 2 * files ** 2, dirs // 2 * files * 1000,
             dirs // 2 * (files * 1000) ** 2]]


def test_half_of_equal_directories():
    t = dict(TOTALS, found=1 + 1000 + 500 * 20, found_bytes=500 * 20000, directories_left=500)
    whole = estimate.total(t, tree_of(1000, 20))
    assert not whole.exact
    assert whole.objects[0] < 21001 < whole.objects[2] < 30000, whole
    assert abs(whole.objects[1] / 21001 - 1) < 0.1


def test_too_few_directories():
    t = dict(TOTALS, directories_left=30)
    assert estimate.total(t, [[1, 30, 900, 0, 0, 0, 0]]) is None


def test_nothing_odd_breaks_it():
    """A retriever of another release, or a damaged history: no answer, but no exception."""
    for tree in ([], [[0] * 7], [[1e300] * 7] * 64, [[10, 0, 0, 0, 0, 0, 0]] * 3):
        for left in (0, 1, 10 ** 9):
            t = dict(TOTALS, directories_left=left)
            whole = estimate.total(t, tree)
            for samples in (steady(1000), [[0] * 8, [0] * 8], [[i, i, 0, 0, 0, 0, 0, 0]
                                                              for i in range(100)]):
                said = estimate.duration(t, whole, samples)
                assert said is None or 0 <= said[0] <= said[1] <= said[2]


def test_the_present_is_part_of_how_it_went():
    """Samples are kept where something changes; that nothing did is told beside them."""
    samples = steady(1000)
    now = [1600, 1600, *samples[-1][2:]]
    assert status.went({"samples": samples}) == samples                 # of an earlier retriever
    assert status.went({"samples": samples, "now": now}) == [*samples, now]
    assert status.went({"samples": samples, "now": samples[-1]}) == samples
    assert status.went({"samples": samples, "now": [1600] + [0] * 7}) == samples    # counts anew
    assert status.went({"samples": [], "now": now}) == status.went(None) == []
    assert len(samples) == 101


# -- what is said --------------------------------------------------------------------------------

def test_never_100_of_what_is_not_all():
    e = status.guess(dict(STATUS, totals=dict(TOTALS, done=999999, found=1000000, left=1,
                                              done_bytes=10 ** 9 - 1, left_bytes=1)), None, 0.0)
    assert e["share"][2] < 1 and status.percent(e["share"][1]) == "99.9 %"
    assert status.bar(0.99999).count("-") == 1 and status.bar(1.0).count("-") == 0


@pytest.mark.parametrize("n, text", [(0, "0"), (99, "99"), (996, "1 000"), (141297, "140 000"),
                                     (1412976, "1.4 million"), (25 * 10 ** 6, "25 million"),
                                     (10 ** 12, "1 000 billion")])
def test_guesses_are_rounded(n, text):
    assert status.rough(n) == text


def test_counted_in_the_middle():
    e = status.guess(dict(STATUS, totals=dict(TOTALS, whole=False)), None, 0.0)
    assert e["share"] is None and "beginning" in e["why"]
    assert status.guess(dict(STATUS, totals=None), None, 0.0)["share"] is None


def test_complete_is_complete():
    """Also if an earlier release did not count, and of a source that was empty."""
    for t in (dict(TOTALS, whole=False), None, dict(TOTALS, found=1, found_bytes=0, done=1,
                                                    done_bytes=0, left=0, left_bytes=0)):
        s = dict(STATUS, state="complete", pending=0, counter=0, totals=t)
        e = status.guess(s, None, 0.0)
        assert e["share"] == [1, 1, 1] and e["remaining_s"] == [0, 0, 0]
        assert status.overview(s, e, 0.0)[2] == "100 %"


def test_nothing_is_found_yet():
    t = dict(TOTALS, found=1, found_bytes=0, done=0, done_bytes=0, left=1, left_bytes=0,
             directories_left=1)
    e = status.guess(dict(STATUS, totals=t), {"samples": [], "tree": []}, 0.0)
    assert e["share"] is None and "too few" in e["why"]
    e = status.guess(dict(STATUS, state="retriever-down", totals=t), None, 0.0)
    assert e["share"] is None and "retriever" in e["why"]


def test_all_is_parked():
    t = dict(TOTALS, done=997, done_bytes=10 ** 9, left=0, left_bytes=0, parked=3, parked_bytes=0)
    e = status.guess(dict(STATUS, pending=0, counter=3, parked=3, totals=t),
                     {"samples": steady(1000), "tree": []}, 0.0)
    assert e["exact"] and e["share"][2] < 1 and e["end_at"] is None


def test_no_end_is_said_where_nothing_goes_on():
    t = dict(TOTALS, done=997, left=0, left_bytes=0, parked=3)
    s = dict(STATUS, state="only-parked", pending=0, counter=3, parked=3, totals=t)
    e = status.guess(s, {"samples": steady(1000), "tree": []}, 0.0)
    end = [text for name, text in status.progress_rows(s, e, 0.0) if name == "end"]
    assert len(end) == 1 and "parked" in end[0] and "0 s" not in end[0], end


def test_what_is_in_parked_directories_nobody_knows():
    t = dict(TOTALS, found=1 + 1000 + 500 * 20, found_bytes=500 * 20000, parked=500,
             directories_parked=500)
    whole = estimate.total(t, tree_of(1000, 20))
    assert not whole.exact and whole.objects[0] < 21001 < whole.objects[2]
    assert estimate.total(dict(TOTALS, parked=1, directories_parked=1), []) is None


def test_a_throttle_is_a_limit():
    """It may be younger than the history: 500 MB at 100 kB/s are 5000 s, whatever was before."""
    history = {"samples": steady(1000), "tree": []}
    fast = status.guess(STATUS, history, 0.0)["remaining_s"]
    e = status.guess(dict(STATUS, throttle_bytes_per_s=10 ** 5), history, 0.0)
    assert fast[1] < 1100 and e["remaining_s"][1] == e["remaining_s"][2] == 5000
    assert e["remaining_s"][0] == fast[0] and e["end_at"][1] == 5000


@pytest.mark.parametrize("size", [1, 10 ** 4, 10 ** 7, 10 ** 10])
def test_what_is_shown_fits_the_line(size):
    t = dict(TOTALS, found=3 * size, done=size, left=size, parked=size, found_bytes=3 * size << 20,
             done_bytes=size << 20, left_bytes=size << 20, parked_bytes=size << 20)
    for e in (status.guess(dict(STATUS, totals=t), None, 0.0),
              {"objects": [size, 5 * size, 9 * size], "bytes": [size << 20, size << 21, size << 23],
               "exact": False, "share": [0.1, 0.2, 0.9], "remaining_s": [10, size, 3 * size],
               "end_at": None}):
        rows = status.progress_rows(dict(STATUS, totals=t), e, 0.0)
        assert max(len(text) for _, text in rows) <= status.WIDTH, rows


@pytest.mark.parametrize("change, word", [
    ({"state": "paused", "paused": True}, "paused"),
    ({"crawler": False}, "no crawler"),
    ({"state": "source-lost", "source_trouble": "gone"}, "source lost"),
    ({"windows": ["20:00-06:00"], "window_open": False, "window_change_at": "x"}, "window closed"),
    ({"pending": 0, "counter": 3}, "all parked"),
    ({"throttle_bytes_per_s": 1 << 20}, "throttled"),
    ({"volume_error": "No space left on device"}, "volume full"),
    ({"state": "retriever-down"}, "no retriever")])
def test_why_it_does_not_go_on(change, word):
    assert status.holds(STATUS) == []
    assert word in [w for w, _ in status.holds(dict(STATUS, **change))]


def test_no_end_of_what_stands_still():
    history = {"samples": steady(1000), "tree": []}
    assert status.guess(STATUS, history, 0.0)["end_at"]
    e = status.guess(dict(STATUS, state="paused", paused=True), history, 0.0)
    assert e["remaining_s"] and e["end_at"] is None
    assert "once it goes on" in status.end_text(e, 0.0)


@pytest.fixture
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


THURSDAY = 0        # 1970-01-01 00:00 UTC


@pytest.mark.parametrize("windows, work, end", [
    ([], 5 * HOUR, 5 * HOUR),
    (["20:00-06:00"], 5 * HOUR, 5 * HOUR),
    (["20:00-06:00"], 7 * HOUR, 21 * HOUR),
    (["Sat,Sun 00:00-24:00"], HOUR, 2 * DAY + HOUR),
    (["Mon..Fri 20:00-06:00"], 10 * HOUR, 24 * HOUR),       # Wednesday's, then Thursday's
    (["Fri..Mon 00:00-01:00", "Thu 00:00-00:30"], HOUR, DAY + HOUR // 2),
    (["Thu 00:00-00:01"], HOUR, None),                      # an hour in 60 weeks
    (["something new"], HOUR, HOUR)])
def test_ends_in_windows(utc, windows, work, end):
    assert status.ends(THURSDAY, [work], windows) == [end]


def test_labels_are_escaped():
    m = status.Metrics()
    m.add("postcopy_x", "gauge", "a\nb", 1, volume='a"b\\c\nd\udc80')
    assert m.text() == ('# HELP postcopy_x a\\nb\n# TYPE postcopy_x gauge\n'
                        'postcopy_x{volume="a\\"b\\\\c\\nd\\\\udc80"} 1\n')


def test_lines_fit_80_columns():
    big = dict(STATUS, volume="/srv/a-volume-of-22-chr", totals=dict(TOTALS, left=10 ** 12),
               parked=10 ** 9, rate_bytes=1e9, crawler=False)
    e = status.guess(big, {"samples": steady(1000), "tree": []}, time.time())
    cells = status.overview(big, e, time.time())
    assert sum(map(len, cells)) + len(cells) - 1 <= 90 and len(cells) == len(status.HEAD)
    rows = status.progress_rows(dict(STATUS), status.guess(STATUS, {"samples": steady(1000),
                                                                   "tree": []}, 0.0), 0.0)
    assert all(len(text) <= 66 for _, text in rows), rows


# -- a rehearsal ------------------------------------------------------------------------

def phase(seconds, n, calls, waiting, cpu=10, size=0, here=0.1):
    """So many calls, `waiting` of them in flight all the time."""
    return {"us": int(seconds * 1e6), "operations": n, "objects": n, "bytes": size, "calls": calls,
            "inflight_sum": waiting * 100, "inflight_looks": 100, "cpu_busy": cpu, "cpu_all": 100,
            "busy_us": int(seconds * waiting * 1e6), "here_us": int(seconds * waiting * here * 1e6)}


def rehearsed(seconds=300, small=None, **phases):
    """A flat tree: 1000 of 10 000 directories were listed, each with 10 files of 10 000 bytes, of which
    5000 were read."""
    at = [[i * seconds / 300, 1 + 11000 * i / 300, 10 ** 8 * i / 300, 5000 * i / 300,
           5 * 10 ** 7 * i / 300] for i in range(301)]
    for i in range(1, 301):             # what took how long must be told apart: now this, now that
        k = 2 if i % 2 else 0
        at[i] = [at[i][0], *at[i - k or 1][1:3], *at[i][3:]]
    return {"protocol": "nfs", "complete": False, "samples": at, "took_ms": seconds * 1000,
            "lost_ms": 0, "source": "nfs://h/e", "target": "/srv", "warnings": [],
            "seen": {"objects": 20001.0, "bytes": 10 ** 8, "directories": 10001,
                     "directories_listed": 1001, "directories_failed": 0, "small_files": 10000,
                     "small_bytes": 10 ** 8, "large_files": 0, "large_bytes": 0,
                     "bytes_read": 5 * 10 ** 7, "files_failed": 0, "files_denied": 0, "bad_names": 0},
            "tree": [[1, 10000, 10 ** 8, 0, 0, 0, 0], [1000, 0, 0, 10000, 10 ** 5, 10 ** 8, 10 ** 13]],
            "phases": {"list": phase(seconds / 2, 11000, 1000, 10),
                       "small": small or phase(seconds / 2, 5000, 5000, 10), **phases}}


def test_a_rehearsal_is_extrapolated():
    p = rehearsal.predict(rehearsed())
    low, middle, high = p["objects"]
    assert low <= 110001 <= high and 0.8 * 110001 < middle < 1.2 * 110001
    low, middle, high = p["seconds"]
    assert low < middle < high and low < 10 * 150 + 20 * 150 < high, p      # lists ten times, files 20
    source = p["source_seconds"]
    assert low == source[0] and source[1] < middle and source[2] < high and p["own_seconds"] < 30
    assert source[0] < 10 * 150 + 20 * 150 < source[2]
    text = dict(rehearsal.rows(rehearsed(), p))
    assert text["in all"].startswith("110 000 objects") and "source alone" in text["takes"]


def test_the_machine_bounds_what_a_rehearsal_promises():
    """Into nothing it is faster than any migration."""
    fast = rehearsed(31)
    p = rehearsal.predict(fast, None, 2)
    slow = rehearsal.predict(dict(fast, protocol="smb"), None, 1)
    assert slow["seconds"][2] > 3 * slow["own_seconds"] * 0.99 > p["seconds"][2] / 10
    assert slow["own_seconds"] == pytest.approx(110, rel=0.3)
    none = rehearsed(31)
    none["samples"] = [[x[0], *(10 * n for n in x[1:])] for x in none["samples"]]
    assert rehearsal.predict(dict(none, protocol="smb"))["limit"] == "machine"


@pytest.mark.parametrize("word, small, others, line", [
    # alone 10 ms a call, and with ten in flight ...
    ("latency", phase(10, 10000, 10000, 10), {}, None),
    ("source-or-network", phase(10, 1500, 1500, 10), {"small_again": phase(1, 160, 160, 10)}, None),
    ("source-disk", phase(10, 1500, 1500, 10), {"small_again": phase(1, 400, 400, 10)}, None),
    ("source", phase(10, 1500, 1500, 10), {}, None),
    ("machine", phase(10, 1500, 1500, 10, cpu=95), {"small_alone": phase(1, 1000, 1000, 1)}, None),
    ("source", phase(10, 1500, 1500, 10, cpu=95), {}, None),
    ("network", phase(10, 1500, 1500, 10, size=10 ** 9), {}, 117e6),
    ("source", phase(10, 1500, 1500, 10, size=10 ** 9), {}, 1170e6),
    ("unknown", phase(10, 3, 3, 10), {}, None),
    ("target-disk", phase(10, 1500, 1500, 10, cpu=95, here=0.7), {}, None),
])
def test_what_limits(word, small, others, line):
    a = rehearsed(small=small, **{"small_alone": phase(1, 100, 100, 1), **others})
    assert rehearsal.predict(a, line)["work"]["small"]["limit"] == word
    without = rehearsed(small=small)
    assert rehearsal.predict(without, line)["work"]["small"]["limit"] in ("unknown", "target-disk")


def test_a_rehearsal_of_nothing():
    """Nothing listed, nothing read, all failed: no number is made of it."""
    a = rehearsed()
    seen = dict.fromkeys(a["seen"], 0)
    for odd in (dict(a, seen=dict(seen, objects=1, directories=1), phases={}, tree=[], samples=[]),
                dict(a, seen=dict(seen, objects=1, directories=1, directories_failed=1), phases={},
                     tree=[], samples=[[0.0] * 5]),
                dict(a, samples=a["samples"][:1])):
        p = rehearsal.predict(odd)
        assert p["seconds"] is None and p["why"]
        assert rehearsal.rows(odd, p) and "not known" in dict(rehearsal.rows(odd, p)).get(
            "takes", "") + dict(rehearsal.rows(odd, p))["in all"]


def test_the_table(tmp_path):
    """Short form: the interval holds the truth in 80 % of the looks at least."""
    done = subprocess.run([sys.executable, str(ROOT / "tests/tools/predict-table"), "--runs", "2",
                           "--json", str(tmp_path / "j")], capture_output=True, text=True,
                          timeout=600, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    assert done.returncode == 0, done
    said = json.loads((tmp_path / "j").read_text())
    assert said["interval_hits"] >= 0.8 * said["looks"] > 20, said
    assert said["rehearsal_hits"] >= 0.8 * said["rehearsals"] > 5, said
