# SPDX-License-Identifier: GPL-3.0-or-later
"""The page and the plots of `postcopy report`: pure functions of facts, without a volume."""
import importlib
import os
import re
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lib.reportfacts import DAY, HOUR, NOW, facts, history
from lib.strict_html import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "crawler" / "admin"))
plot = importlib.import_module("postcopy_plot")
pages = importlib.import_module("postcopy_page")
report = importlib.import_module("postcopy_report")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def made(**changes):
    return Page(report.page({**facts(), **changes})).is_self_contained()


# -- axes ------------------------------------------------------------------------------------

@pytest.mark.parametrize("base", [1000, 1024])
@pytest.mark.parametrize("top", [0, 0.004, 0.3, 1, 7, 999, 1000, 1023, 1025, 65432, 3.2e9, 5e15])
def test_ticks_reach_the_top_and_are_few(top, base):
    ticks = plot.nice(top, base)
    assert ticks[0] == 0 and ticks[-1] >= top and 2 <= len(ticks) <= plot.TICKS + 1
    assert ticks == sorted(set(ticks)) and ticks[-2] <= max(top, 0.9)
    says = [plot.volume(t) if base == 1024 else plot.number(t) for t in ticks]
    assert len(set(says)) == len(says), says


@pytest.mark.parametrize("span", [3, 100, 4000, 3 * HOUR, 13 * HOUR, 2 * DAY, 9 * DAY, 80 * DAY,
                                  900 * DAY])
@pytest.mark.parametrize("begin", [NOW, 1774738800])        # the clock is put forward on the 29th
def test_moments_are_round_and_few(begin, span):
    ticks = plot.clock(begin, begin + span)
    assert len(ticks) <= plot.TICKS + 1
    at = [t for t, _ in ticks]
    assert at == sorted(set(at)) and all(begin <= t <= begin + span for t in at)
    assert len({says for _, says in ticks}) == len(ticks)
    if span >= HOUR:
        assert ticks and all(time.localtime(t).tm_sec == 0 for t in at)
    if span >= 9 * DAY:
        assert all(time.localtime(t).tm_hour == 0 for t in at), ticks


# -- plots -----------------------------------------------------------------------------------

def numbers(svg):
    """All coordinates of its paths; of bars and bands the right lower corner, too."""
    x, y = [], []
    for e in svg.iter("path"):
        for a, b in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", e.get("d")):
            x.append(float(a))
            y.append(float(b))
    for e in svg.iter("rect"):
        x += [float(e.get("x")), float(e.get("x")) + float(e.get("width"))]
        y += [float(e.get("y")), float(e.get("y")) + float(e.get("height"))]
    return x, y


def inside(svg):
    _, _, width, height = map(float, svg.get("viewBox").split())
    x, y = numbers(svg)
    assert x and 0 <= min(x) and max(x) <= width and 0 <= min(y) and max(y) <= height
    return svg


def points(samples, which):
    return [(s[0], s[which]) for s in samples]


def test_what_is_done_is_where_it_belongs():
    samples = history()
    svg = inside(plot.progress("t", points(samples, 2), points(samples, 4), False, []))
    [done] = [e for e in svg.iter("path") if e.get("class") == "line done"]
    at = [tuple(map(float, p.split())) for p in re.split("[ML]", done.get("d"))[1:]]
    assert at[0][0] == plot.LEFT and at[-1][0] == plot.WIDTH - plot.RIGHT
    assert all(a[0] <= b[0] and a[1] >= b[1] for a, b in zip(at, at[1:]))      # time, and upwards
    assert plot.HEIGHT - plot.BOTTOM - 1 < at[0][1] <= plot.HEIGHT - plot.BOTTOM
    assert plot.Plot("t", 0, 10, 100, []).y(50) == (plot.HEIGHT - plot.BOTTOM + plot.TOP) / 2


def test_an_end_far_away_does_not_flatten_the_past():
    samples = history()
    now, took = samples[-1][0], samples[-1][0] - samples[0][0]
    end = plot.End(now, now + took, now + 50 * took, now + 5000 * took)
    svg = inside(plot.progress("t", points(samples, 2), points(samples, 4), False, [], end,
                               [4e5, 5e5, 6e5]))
    [mark] = [e for e in svg.iter("line") if e.get("class") == "mark"]
    assert float(mark.get("x1")) > plot.LEFT + 0.3 * (plot.WIDTH - plot.LEFT - plot.RIGHT)


def test_time_without_crawl():
    samples = [[i * 600, i * 600 if i < 10 else 6000 + max(0, i - 40) * 600, 10, 10, i, i, 0, 0]
               for i in range(60)]
    [(begin, end)] = report.idle(samples, None)
    assert (begin, end) == (10 * 600, 40 * 600)
    assert report.idle(samples, 59 * 600 + 90000)[-1] == (59 * 600, 59 * 600 + 90000)
    assert report.idle(samples[:9], None) == [] and report.idle([], NOW) == []
    svg = inside(plot.rates("t", *report.rate(points(samples, 4)), False, [(begin, end)]))
    assert len([e for e in svg.iter("rect") if e.get("class") == "idle"]) == 1


def test_rates_add_up():
    samples = history()
    edges, values = report.rate(points(samples, 5))
    assert len(edges) == len(values) + 1 and len(values) <= report.BINS
    step = edges[1] - edges[0]
    assert sum(values) * step == pytest.approx(samples[-1][5] - samples[0][5])


@pytest.mark.parametrize("counts", [[0] * 16, [1] + [0] * 15, [0] * 15 + [3], list(range(16)),
                                    [0, 10 ** 12] + [1] * 14])
def test_bars(counts):
    at_most = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000]
    svg = inside(plot.histogram("t", at_most, counts))
    having = [n for n in counts if n]
    widths = [float(e.get("width")) for e in svg.iter("rect")]
    assert len([w for w in widths if w > 0]) == len(having)         # however few, they are seen
    assert all(e.text for e in svg.iter("text"))
    if counts[-1]:
        assert "longer than 60 s" in [e.text for e in svg.iter("text")]


def test_predictions_of_then():
    """Made again only where the history has all that they were made of."""
    samples = history(1.0, steady=True)
    listing = [s for s in samples if s[6]]
    looks = report.looks_back(samples, [])
    assert 2 < len(looks) <= report.LOOKS and listing
    assert all(p.at > listing[-1][0] and p.low <= p.middle <= p.high for p in looks)
    assert report.looks_back(listing, []) == []
    late = looks[-1]
    assert abs(late.middle - samples[-1][0]) < 0.2 * (samples[-1][0] - samples[0][0])
    inside(plot.ends("t", looks, samples[-1][0]))


# -- what is said ----------------------------------------------------------------------------

def test_in_the_middle():
    page = made()
    for text in ("Migration of /srv/data", "nfs://old.example.org/export", "migrating", "Objects",
                 "Predicted end", "Data done per second", "no crawl", "First accesses",
                 "20 objects are parked", "17 for errors, 3 for conflicts", "denied \u00b7 17",
                 "and 15 more", "Decided by hand", "POSIX ACLs", "not compared with the source",
                 "UTC+0100", "home/anna/1 read: Permission denied; old server: inode 4712"):
        assert text in page.text, text
    assert "What this page does not know" not in page.text
    assert len([1 for name, *_ in page.elements if name == "svg"]) == 8


def test_at_the_end():
    page = made(**facts(over=True))
    for text in ("complete", "100 %", "Ended", "after it began", "when it did end",
                 "Nothing is wrong", "Nothing is parked", "all names, attributes and contents"):
        assert text in page.text, text
    assert "Predicted end" not in page.text and "What holds it up" not in page.text


@pytest.mark.parametrize("missing", ["history", "errors", "decided", "properties", "verified",
                                     "source", "uuid", "created"])
def test_what_cannot_be_told_is_left_out(missing):
    made(**{missing: None})
    made(**{**facts(over=True), missing: None})


@pytest.mark.parametrize("state", [*report.STATES, "of a later release"])
def test_in_any_state(state):
    f = facts()
    f["status"].update(state=state, copies=1, damaged=2, unknown_stubs=3, paused=True, crawler=False,
                       window_open=False, windows=["Mon..Fri 20:00-06:00"])
    f["status"]["estimate"].update(end_at=None, why="it does not go on now")
    page = made(**f)
    assert report.STATES.get(state, (state,))[0] in page.text
    del f["status"]["totals"], f["status"]["first_access"]
    f["status"]["estimate"] = {"objects": None, "bytes": None, "exact": False, "share": None,
                               "remaining_s": None, "end_at": None, "why": "not counted"}
    made(**f)


def test_what_is_not_known_yet():
    f = facts()
    f["history"]["samples"] = f["history"]["samples"][:12]
    s, last = f["status"], f["history"]["samples"][-1]
    s["totals"].update(found=last[2], found_bytes=last[3], done=last[4], done_bytes=last[5],
                       directories_left=last[6])
    s["estimate"] = report.status.guess(s, {"samples": [], "tree": []}, NOW)
    page = made(**f)
    assert "found so far" in page.text and "not yet known" in page.text
    assert "Predicted end" not in page.text and "as it was predicted" not in page.text


def test_what_is_left_after_the_end():
    f = facts()
    page = Page(report.page({
        "now": NOW, "version": "postcopy 9", "volume": "/srv/data", "state": "finished",
        "kept": ["/var/lib/x.resolved"], "decided": f["decided"], "unknown": ["How it went."]}))
    page.is_self_contained()
    assert "finished" in page.text and "How it went." in page.text and "home/anna" in page.text


def test_never_a_hundred_percent_before_the_end():
    f = facts()
    f["status"]["estimate"]["share"] = [0.9999, 0.99999, 1.0]
    page = made(**f)
    assert "100" not in [e.split("%")[0].strip() for e in re.findall(r"[\d.]+ %", page.text)]


# -- what comes from outside -----------------------------------------------------------------

EVIL = "<script>alert(1)</script><img src=x onerror=y>\"'&amp;\x00\x1b[2J\u202e\x9b\udcff]]>-->" \
    "<!--\n\ud800"


def poisoned(x):
    """Every text in it, whatever it is for, is one that somebody has chosen with care."""
    if isinstance(x, dict):
        return {k: v if k in ("state", "volume") and v in report.STATES or k in (
            "how", "why", "mode", "result", "windows") else poisoned(v) for k, v in x.items()}
    if isinstance(x, list):
        return [poisoned(v) for v in x]
    return x + EVIL if isinstance(x, str) else x


@pytest.mark.parametrize("over", [False, True])
def test_whatever_is_in_a_text(over):
    page = Page(report.page(poisoned(facts(over=over)))).is_self_contained()
    assert page.text.count("<script>alert(1)</script>") >= 19
    assert page.comments == [" postcopy report 1 "]


def test_nothing_may_run_or_be_loaded():
    page = made()
    [policy] = [a["content"] for name, a, _ in page.elements
                if name == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "@import" not in pages.STYLE and "url(" not in pages.STYLE


def test_no_password():
    page = made(source="smb://anna:s3cret@old/share", join="smb://x:s3cret@y/z@home")
    assert "s3cret" not in page.text and "smb://***@old/share" in page.text
    assert "smb://***@y/z@home" in page.text


def test_it_stays_small():
    f = facts(over=False)
    one = {"path": "d/" * 2000 + "\udcff" * 255, "reason": "r" * 5000, "kind": "file"}
    f["errors"] = {"errors": 15 * 10 ** 9, "conflicts": 0, "damaged": 3, "groups": [
        {"code": "code%d" % i, "why": "error", "says": "x" * 50, "advice": "y", "count": 10 ** 9,
         "first": [one] * 10} for i in range(15)]}
    f["decided"]["decisions"] = [dict(one, how="lost", time="t")] * 100000
    text = report.page(f)
    assert len(text) < 400000, len(text)
    page = Page(text)
    assert "and 999 999 990 more" in page.text and "and 99 900 more" in page.text
    assert "d/d/ \u2026 " in page.text or "\u2026" in page.text


# -- the file --------------------------------------------------------------------------------

def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "r"
    pages.write(str(file), pages.MARK + "old", False)
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError):
        pages.write(str(file), pages.MARK + "new", False)
    assert file.read_text() == pages.MARK + "old" and os.listdir(tmp_path) == ["r"]
    assert ET.tostring(pages.h("p", "a\x00b")) == b"<p>a\\x00b</p>"
