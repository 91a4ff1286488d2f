# SPDX-License-Identifier: GPL-3.0-or-later
"""What `postcopy status` tells beside the plain numbers (decision 0060): how far it is, when it
ends, what holds it up; one line for each volume; and text for Prometheus.

Pure functions of what the retriever and postcopy-volume have said; text is plain, and made harmless
by who prints it.
"""
from __future__ import annotations

import re
import time
from typing import Any, Iterable

import postcopy_estimate as estimate

Answer = dict[str, Any]

BAR = 30
WIDTH = 66              # of a text beside its name, on 80 columns
STATES = ("migrating", "paused", "source-lost", "checking", "blocked", "complete", "retriever-down")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WINDOW_DAYS = 60        # so far is looked for open windows


# ---- numbers for people ---------------------------------------------------------------

def count(n: float) -> str:
    return "{:,}".format(round(n)).replace(",", " ")


def rough(n: float) -> str:
    """Of a guess: two figures are enough, and fit the line."""
    if n < 100:
        return count(n)
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if n >= unit:
            return "%s %s" % (count(n / unit) if n >= 10 * unit else "%.1f" % (n / unit), name)
    step = 10 ** (len(str(round(n))) - 2)
    return count(round(n / step) * step)


def size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            return "%.*f %s" % (0 if unit == "B" else 1, n, unit)
        n /= 1024
    return "%.1f TiB" % n


def short(n: float) -> str:
    """In five places."""
    for unit in ("", "K", "M", "G", "T"):
        if abs(n) < 9999.5:
            return "%d%s" % (round(n), unit)
        n /= 1000
    return "%dP" % round(n)


def duration(seconds: float) -> str:
    s = int(seconds)
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if s >= 2 * unit:
            return "%.*f %s" % (s < 10 * unit and unit > 60, s / unit, name)
    return "%d s" % s


def percent(x: float) -> str:
    """Never 100 of what is not all, and never more than is known."""
    return "%.1f %%" % (int(min(x, 0.999) * 1000) / 10)


# ---- text from outside -----------------------------------------------------------------

def harmless(text: str) -> str:
    """Text from outside, on one line and with nothing in it that a terminal obeys."""
    def show(c: str) -> str:
        if "\udc80" <= c <= "\udcff":             # a byte that is no UTF-8
            return "\\x%02x" % (ord(c) - 0xdc00)
        if c.isprintable():
            return c
        return c.encode("unicode_escape").decode() if c < "\x80" else "\\u%04x" % ord(c)
    return "".join(map(show, text))


def quoted(name: str) -> str:
    """A name from outside, likewise, and no two look the same."""
    return harmless(name.replace("\\", "\\\\"))


# ---- windows --------------------------------------------------------------------------

def open_minutes(windows: list[str]) -> set[int]:
    """Minutes of the week, from Monday, in which one of them is open."""
    out: set[int] = set()
    for text in windows:
        m = re.fullmatch(r"(?:(\S+) )?(\d\d):(\d\d)-(\d\d):(\d\d)", text)
        if not m:
            return set(range(7 * 1440))         # of a later release: nothing is claimed
        days: list[int] = []
        for part in (m[1] or "Mon..Sun").split(","):
            ends = [DAYS.index(d) for d in part.split("..") if d in DAYS]
            if not ends:
                return set(range(7 * 1440))
            days += [(ends[0] + i) % 7 for i in range((ends[-1] - ends[0]) % 7 + 1)]
        start, end = int(m[2]) * 60 + int(m[3]), int(m[4]) * 60 + int(m[5])
        length = end - start if end > start else end + 1440 - start
        for d in days:
            out |= {(d * 1440 + start + i) % (7 * 1440) for i in range(length)}
    return out


def ends(now: float, work: Iterable[float], windows: list[str]) -> list[float | None]:
    """When so many seconds of work, each more than the one before, are over. None: not in sight."""
    if not windows:
        return [now + w for w in work]
    minutes = open_minutes(windows)
    out: list[float | None] = []
    t, done, limit = now, 0.0, now + WINDOW_DAYS * 86400
    for w in work:
        while done < w and t < limit:
            step = min(60.0 - t % 60, w - done)
            lt = time.localtime(t)
            if (lt.tm_wday * 1440 + lt.tm_hour * 60 + lt.tm_min) in minutes:
                done += step
                t += step
            else:
                t += 60.0 - t % 60
        out.append(t if done >= w else None)
    return out


def when(at: float | None, now: float) -> str:
    if at is None:
        return "later than in %d days" % WINDOW_DAYS
    fmt = "%H:%M" if at - now < 12 * 3600 else "%a %H:%M" if at - now < 5 * 86400 else "%a %d %b"
    return time.strftime(fmt, time.localtime(at))


# ---- what holds it up ------------------------------------------------------------------

def holds(s: Answer) -> list[tuple[str, str]]:
    """Why it does not go on, or not as fast as it could: a word, and what to do."""
    out = []
    if s["state"] == "complete":
        return out
    if s["state"] == "retriever-down":
        return [("no retriever", "only what is here already can be used")]
    if s["state"] == "blocked":
        out.append(("blocked", "see below"))
    if s["state"] == "source-lost":
        out.append(("source lost", s.get("source_trouble") or "the old server does not answer"))
    if s.get("volume_error"):
        out.append(("volume full", "the new volume takes nothing: " + s["volume_error"]))
    if s.get("paused") or s["state"] == "paused":
        out.append(("paused", "'postcopy resume' goes on"))
    if not s["crawler"]:
        out.append(("no crawler", "only what clients touch comes over"))
    if s.get("windows") and not s.get("window_open", True):
        out.append(("window closed", "opens %s" % (s.get("window_change_at") or "not soon")))
    if s["pending"] == 0 and s["counter"] > 0:
        out.append(("all parked", "'postcopy parked' says why; 'postcopy retry', or 'resolve'"))
    if limits := throttles(s):
        out.append(("throttled", "%s in the background" % limits))
    if s.get("source_backs_off"):
        out.append(("backs off", "the old server is slow: fewer requests in the background"))
    return out


def throttles(s: Answer) -> str:
    rate, requests = s.get("throttle_bytes_per_s"), s.get("throttle_requests_per_s")
    return " and ".join((["%s/s" % size(rate)] if rate else []) + (
        ["%s requests/s" % count(requests)] if requests else []))


def stands(s: Answer) -> bool:
    """Until somebody does something."""
    return any(word not in ("throttled", "backs off", "window closed") for word, _ in holds(s))


# ---- the guess -------------------------------------------------------------------------

def went(history: Answer | None) -> list[list[float]]:
    """How it went, until now: a sample is kept only where something has changed, so the present
    (of a retriever that tells it) says that for so long nothing has."""
    samples = list((history or {}).get("samples") or [])
    now = (history or {}).get("now")
    if now and samples and now[1] > samples[-1][1]:
        samples.append(now)
    return samples


def guess(s: Answer, history: Answer | None, now: float) -> Answer:
    """The member "estimate" of the JSON. history: None, if there is no retriever to tell it."""
    out: Answer = {"objects": None, "bytes": None, "exact": False, "share": None,
                   "remaining_s": None, "end_at": None}
    t = s.get("totals")
    if s["state"] == "complete":
        out.update(share=[1.0] * 3, remaining_s=[0.0] * 3)
    if not t or not t["whole"]:
        out["why"] = "it was not counted from the beginning"
        return out
    tree = (history or {}).get("tree") or []
    whole = estimate.total(t, tree)
    if whole is None:
        out["why"] = "too few directories are listed" if history else "no retriever tells"
        return out
    out.update(objects=list(whole.objects), bytes=list(whole.bytes), exact=whole.exact)
    if s["state"] == "complete":
        return out
    done = t["done_bytes"] + t.get("partly_bytes", 0)
    by_bytes = estimate.share(done, whole.bytes)
    by_objects = estimate.share(t["done"], whole.objects)
    out["share"] = list(by_bytes if whole.bytes[1] > 0 else by_objects)
    to_do = whole
    if t.get("directories_parked"):         # what is in them is not worked on
        to_do = estimate.total(dict(t, directories_parked=0), tree)
    left = estimate.duration(t, to_do, went(history))
    if left is None:
        out["why"] = "too little has been done to tell a rate" if history else "no retriever tells"
        return out
    left = throttled(left, s.get("throttle_bytes_per_s") or 0, t, to_do, done)
    out["remaining_s"] = [round(x) for x in left]
    if stands(s):
        out["why"] = "it does not go on now"
    else:
        out["end_at"] = [None if e is None else round(e)
                         for e in ends(now, left, s.get("windows") or [])]
    return out


def throttled(left: estimate.Interval, rate: float, t: Answer, whole: estimate.Total,
              done: float) -> estimate.Interval:
    """Not before all bytes came at the limit, which may be younger than the history. What clients
    ask for is not limited: it may be less."""
    if not rate:
        return left
    work = [estimate.remaining(t, whole, done, i)[2] / rate for i in range(3)]
    return left[0], max(left[1], work[1]), max(left[2], work[2])


def bar(share: float, width: int = BAR) -> str:
    full = int(min(share, 0.999) * width) if share < 1 else width
    return "#" * full + "-" * (width - full)


def progress_rows(s: Answer, e: Answer, now: float) -> list[tuple[str, str]]:
    """Name and text of the first lines; short enough for 80 columns."""
    t = s.get("totals")
    if not t:
        return []
    rows = []
    if e["share"] is None:
        rows.append(("progress", "[%s] share not yet known: %s" % ("." * BAR, e.get("why", ""))))
    elif s["state"] == "complete":
        rows.append(("progress", "[%s] 100 %%" % bar(1.0)))
    else:
        low, middle, high = e["share"]
        rows.append(("progress", "[%s] %s%s" % (bar(middle), percent(middle), "" if e["exact"] else
                                                " (%s to %s)" % (percent(low), percent(high)))))
    parked = ", %s parked" % count(t["parked"]) if t["parked"] else ""
    rows += fitting("objects", "%s done, %s left%s" % (count(t["done"]), count(t["left"]), parked),
                    in_all(t["found"], e["objects"], e, count, rough))
    rows += fitting("data", "%s done, %s left" % (
        size(t["done_bytes"] + t.get("partly_bytes", 0)),
        size(t["left_bytes"] - t.get("partly_bytes", 0))),
                    in_all(t["found_bytes"], e["bytes"], e, size, size))
    if s["state"] != "complete":
        rows.append(("end", PARKED_END if s["state"] == "only-parked" else end_text(e, now)))
    for i, (word, text) in enumerate(holds(s)):
        rows.append(("held up" if i == 0 else "", "%s: %s" % (word, text)))
    return rows


def fitting(name: str, first: str, second: str) -> list[tuple[str, str]]:
    """In one line if it fits there."""
    if len(first) + 2 + len(second) <= WIDTH:
        return [(name, "%s; %s" % (first, second))]
    return [(name, first + ";"), ("", second)]


def in_all(found: float, whole: list[float] | None, e: Answer, text: Any, about: Any) -> str:
    if e["exact"]:
        return "%s in all" % text(found)
    if whole is None:
        return "%s found so far" % text(found)
    return "about %s in all (%s to %s)" % tuple(about(whole[i]) for i in (1, 0, 2))


PARKED_END = "not as long as something is parked: nothing else is left"


def end_text(e: Answer, now: float) -> str:
    if e["remaining_s"] is None:
        return "not yet known: %s" % e.get("why", "")
    low, middle, high = e["remaining_s"]
    text = "%s of work (%s to %s)" % (duration(middle), duration(low), duration(high))
    if e["end_at"] is None:
        return text + ", once it goes on"
    at = e["end_at"]
    return text + ", until %s (%s to %s)" % (when(at[1], now), when(at[0], now), when(at[2], now))


# ---- one line each ---------------------------------------------------------------------

HEAD = ("VOLUME", "STATE", "DONE", "LEFT", "PARKED", "RATE", "END", "")


def overview(s: Answer, e: Answer, now: float) -> tuple[str, ...]:
    """One volume, in columns as HEAD has them; 80 of them with a path of 22."""
    t = s.get("totals") or {}
    done = ("100 %" if s["state"] == "complete" else
            percent(e["share"][1]) if e["share"] is not None else "?")
    left = t.get("left", s["pending"])
    end = "-"
    if s["state"] != "complete" and e["end_at"]:
        end = when(e["end_at"][1], now) if e["end_at"][1] is not None else "?"
    elif s["state"] != "complete":
        end = "?"
    why = [word for word, _ in holds(s) if word not in ("paused", "source lost", "no retriever",
                                                        "blocked")]
    return (s["volume"], s["state"], done, short(left), short(s["parked"] + s["conflicts"]),
            size(s["rate_bytes"]).replace(" ", "") + "/s" if s["rate_bytes"] else "-", end,
            why[0] if why else "")


# ---- Prometheus ------------------------------------------------------------------------

def label(text: str) -> str:
    """A label's value. It must be UTF-8: other bytes are shown."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics:
    """Text in the exposition format: all samples of a name together, below its HELP and TYPE."""

    def __init__(self) -> None:
        self.families: dict[str, tuple[str, str, list[str]]] = {}

    def add(self, name: str, kind: str, text: str, value: Any, suffix: str = "", /,
            **labels: str) -> None:
        if value is None:
            return
        lines = self.families.setdefault(name, (kind, text, []))[2]
        inside = ",".join('%s="%s"' % (k, label(v)) for k, v in labels.items())
        lines.append("%s%s{%s} %s" % (name, suffix, inside, self.number(value)))

    @staticmethod
    def number(value: Any) -> str:
        return str(int(value)) if isinstance(value, (bool, int)) else repr(float(value))

    def text(self) -> str:
        return "".join("# HELP %s %s\n# TYPE %s %s\n%s\n" % (
            name, text.replace("\\", "\\\\").replace("\n", "\\n"), name, kind, "\n".join(lines))
            for name, (kind, text, lines) in self.families.items())


GAUGES = (      # member of the status, name, help
    ("pending", "pending_objects", "Objects that are not migrated yet and not parked."),
    ("inflight", "finishing_objects", "Objects that are complete and not yet durably so."),
    ("active", "jobs_active", "Pieces of work being done."),
    ("queued", "jobs_queued", "Pieces of work that wait."),
    ("held", "jobs_held", "Fetches held back because a client is over its recall budget."),
    ("later", "later_objects", "Objects of which the old server says: later."),
    ("crawler", "crawler_running", "Whether a crawler runs."),
    ("paused", "paused", "Whether fetching in the background is paused."),
    ("window_open", "window_open", "Whether the crawler may crawl now."),
    ("throttle_bytes_per_s", "throttle_bytes_per_second", "Limit of background fetching; 0: none."),
    ("throttle_requests_per_s", "throttle_requests_per_second",
     "Limit of requests in the background; 0: none."),
    ("throttle_latency_ms", "throttle_latency_milliseconds",
     "Set point of the old server's latency; 0: none."),
    ("source_latency_ms", "source_latency_milliseconds",
     "What its answers took on average, where there is a set point; 0: not known."),
    ("source_backs_off", "source_backs_off", "Whether fewer requests go because of that."),
    ("source_connections", "source_connections", "Connections to the old server, of each protocol."),
    ("background_calls_most", "background_calls_most",
     "Requests of the background that may be under way at the old server now."),
    ("source_connected", "source_connected", "Whether the old server answers."),
    ("source_lost_s", "source_lost_seconds", "For how long the old server has been lost."),
    ("volume_error_s", "volume_full_seconds", "For how long the new volume has taken no data."),
    ("uptime_s", "retriever_uptime_seconds", "Since the retriever started."),
)
COUNTERS = (
    ("done", "finished_objects_total", "Objects finished since the retriever started."),
    ("bytes_done", "stored_bytes_total", "File data stored since the retriever started."),
    ("bytes_passed", "passed_bytes_total", "File data passed on without being stored."),
    ("entries", "made_names_total", "Names made since the retriever started."),
    ("errors", "errors_total", "Failures met, whether or not they led to parking."),
    ("source_calls", "source_calls_total", "Calls to the old server."),
    ("source_reads", "source_reads_total", "Of these, reads."),
    ("source_lookups", "source_lookups_total", "Of these, look-ups."),
    ("source_readdirs", "source_listings_total", "Of these, parts of listings."),
    ("source_reconnects", "source_reconnects_total", "Connections to the old server made anew."),
)

HISTOGRAMS = (
    ("first_access", "first_access_seconds",
     "How long servers waited for what was not here yet, since the retriever started."),
    ("source_times", "source_call_seconds",
     "How long the old server took to answer, since the retriever started."),
)


def metrics_of(m: Metrics, s: Answer, e: Answer) -> None:
    v = s["volume"]
    m.add("postcopy_up", "gauge", "Whether the retriever of the volume answers.",
          s["state"] not in ("retriever-down", "error"), volume=v)
    for state in STATES:
        m.add("postcopy_state", "gauge", "1 for the state in which the volume is.",
              s["state"] == state, volume=v, state=state)
    if "pending" not in s:
        return
    for member, name, text in GAUGES:
        m.add("postcopy_" + name, "gauge", text, s.get(member), volume=v)
    for reason in ("parked", "conflicts"):
        m.add("postcopy_parked_objects", "gauge", "Objects given up for now.", s[reason], volume=v,
              reason="error" if reason == "parked" else "conflict")
    if s["state"] != "retriever-down":
        for member, name, text in COUNTERS:
            m.add("postcopy_" + name, "counter", text, s.get(member), volume=v)
    t = s.get("totals")
    if t:
        for what, unit in (("", "objects"), ("_bytes", "bytes")):
            for state in ("done", "left", "parked"):
                m.add("postcopy_" + unit, "gauge",
                      "What has been found since the volume was made, by what became of it.",
                      t[state + what], volume=v, state=state)
        m.add("postcopy_directories_left", "gauge", "Directories whose names are not known yet.",
              t["directories_left"], volume=v)
        m.add("postcopy_directories_parked", "gauge", "Likewise, and given up for now.",
              t.get("directories_parked"), volume=v)
    for i, bound in enumerate(("low", "middle", "high")):
        for member, name, text in (
                ("objects", "predicted_objects", "Objects in all, a guess with an interval."),
                ("bytes", "predicted_bytes", "Bytes in all, a guess with an interval."),
                ("remaining_s", "predicted_work_seconds", "Work that is left, a guess.")):
            if e[member] is not None:
                m.add("postcopy_" + name, "gauge", text, e[member][i], volume=v, bound=bound)
    for member, name, text in HISTOGRAMS:
        for kind, h in (s.get(member) or {}).items():
            histogram(m, "postcopy_" + name, text, h, volume=v, kind=kind)


def histogram(m: Metrics, name: str, text: str, h: Answer, **labels: str) -> None:
    total = 0
    for ms, n in zip([*h["at_most_ms"], None], h["count"]):
        total += n
        m.add(name, "histogram", text, total, "_bucket", **labels,
              le="+Inf" if ms is None else repr(ms / 1000))
    m.add(name, "histogram", text, h["sum_ms"] / 1000, "_sum", **labels)
    m.add(name, "histogram", text, total, "_count", **labels)


def prometheus(volumes: Iterable[tuple[Answer, Answer]]) -> str:
    m = Metrics()
    for s, e in volumes:
        metrics_of(m, s, e)
    return m.text()
