# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that `postcopy report` writes: how a migration went, is going, and will (decision 0067).

A pure function of facts that the command has collected, each of which may be missing: then the page
says so. It claims nothing that `postcopy status` would not.
"""
from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from typing import Any, Sequence

import postcopy_estimate as estimate
import postcopy_plot as plot
import postcopy_status as status
from postcopy_page import Child, clipped, document, figure, h, key, pairs, path, table
from postcopy_status import count, duration, rough, size, throttles

Facts = dict[str, Any]
Samples = Sequence[Sequence[float]]
AT, ACTIVE, FOUND, FOUND_BYTES, DONE, DONE_BYTES, DIRS, PARKED = range(8)

LOOKS = 20              # predictions of then that are made again
BINS = 96               # steps of a rate
IDLE_MIN = 60.0         # seconds
DECIDED_MAX = 100       # decisions that are shown

STATES = {"migrating": ("migrating", "good"), "paused": ("paused", "warn"),
          "source-lost": ("the old server is lost", "bad"), "checking": ("last check", "good"),
          "only-parked": ("only parked objects are left", "bad"), "blocked": ("blocked", "bad"),
          "complete": ("complete", "good"), "retriever-down": ("no retriever is running", "bad"),
          "finished": ("finished", "good"), "given-up": ("given up", "bad")}
KINDS = (("names", "Names: looking up, listing"), ("attributes", "Attributes"),
         ("data", "Data of files"))
COUNTS = (("names of the source", "names", True), ("the same", "right", True),
          ("of these, by their listing only", "listed_only", False),
          ("different", "different", True), ("unclear whose change it is", "unclear", True),
          ("not here yet", "pending", True), ("changed by clients", "changed", False),
          ("made by clients", "made_by_clients", False),
          ("removed by clients", "removed_by_clients", False),
          ("moved by clients", "moved_by_clients", False))
DECIDED = {"lost": "given up", "theirs": "fetched anew", "ours": "kept as here"}
FATES = {"kept": "good", "approximated": "warn", "lost": "bad"}


def moment(at: float) -> str:
    return time.strftime("%a %d %b %Y, %H:%M", time.localtime(at))


def no_password(uri: str) -> str:
    """None is ever stored; a volume of another release, or a hand, may have."""
    return re.sub(r"(?<=://)[^/]*@", "***@", uri)


# ---- what the history tells ------------------------------------------------------------------

def idle(samples: Samples, until: float | None) -> list[tuple[float, float]]:
    """When the crawler did not work for most of the time. until: it is not over yet."""
    if not samples:
        return []
    steps = [(a[AT], b[AT], b[ACTIVE] - a[ACTIVE]) for a, b in zip(samples, samples[1:])]
    if until:
        steps.append((samples[-1][AT], until, 0.0))
    out: list[tuple[float, float]] = []
    for begin, end, active in steps:
        if active < (end - begin) / 2:
            if out and out[-1][1] == begin:
                begin = out.pop()[0]
            out.append((begin, end))
    least = max(IDLE_MIN, ((until or samples[-1][AT]) - samples[0][AT]) / 100)
    return [span for span in out if span[1] - span[0] >= least]


def at_edges(points: Sequence[plot.Point], edges: Sequence[float]) -> list[float]:
    """Of what only grows: evenly between what is known."""
    out, i = [], 0
    for e in edges:
        while i + 2 < len(points) and points[i + 1][0] <= e:
            i += 1
        (a, x), (b, y) = points[i], points[i + 1]
        out.append(x + (y - x) * min(max((e - a) / (b - a), 0.0), 1.0))
    return out


def rate(points: Sequence[plot.Point]) -> tuple[list[float], list[float]]:
    """Edges of steps of equal length, and what was done per second in each."""
    begin, end = points[0][0], points[-1][0]
    n = int(max(4, min(BINS, len(points), (end - begin) / 10)))
    edges = [begin + (end - begin) * i / n for i in range(n + 1)]
    sums = at_edges(points, edges)
    return edges, [max(0.0, b - a) / max((end - begin) / n, 1e-9) for a, b in zip(sums, sums[1:])]


def looks_back(samples: Samples, windows: list[str]) -> list[plot.End]:
    """The end as it was predicted then: from the history up to each moment, once all directories
    were listed. Before, the total was a guess from what is not kept."""
    known = [i for i, s in enumerate(samples) if not s[DIRS] and s[DONE] + s[PARKED] < s[FOUND]]
    if len(known) > LOOKS:
        known = [known[round(k * (len(known) - 1) / (LOOKS - 1))] for k in range(LOOKS)]
    out = []
    for i in known:
        s = samples[i]
        whole = estimate.Total((s[FOUND],) * 3, (s[FOUND_BYTES],) * 3, True)
        left = estimate.duration({"found": s[FOUND], "found_bytes": s[FOUND_BYTES], "done": s[DONE],
                                  "done_bytes": s[DONE_BYTES], "parked": s[PARKED],
                                  "parked_bytes": 0}, whole, samples[:i + 1])
        at = status.ends(s[AT], left, windows) if left else [None]
        if None not in at:
            out.append(plot.End(s[AT], *at))
    return out


# ---- the parts of the page --------------------------------------------------------------------

class Report:
    def __init__(self, facts: Facts):
        self.facts = facts
        self.s: Facts = facts.get("status") or {}
        self.state = facts.get("state") or self.s.get("state", "")
        self.e: Facts = self.s.get("estimate") or {}
        self.t: Facts = self.s.get("totals") or {}
        self.now: float = facts["now"]
        self.unknown: list[str] = list(facts.get("unknown") or [])
        self.over = self.state in ("complete", "finished")
        self.samples: list[list[float]] = list((facts.get("history") or {}).get("samples") or [])
        self.idle = idle(self.samples, None if self.over or not self.t else self.now)
        if self.t and not self.over and self.samples and self.now > self.samples[-1][AT]:
            last, t = self.samples[-1], self.t
            if t["done"] >= last[DONE]:
                self.samples.append([
                    self.now, last[ACTIVE], t["found"], t["found_bytes"], t["done"],
                    max(last[DONE_BYTES], t["done_bytes"] + t.get("partly_bytes", 0)),
                    t["directories_left"], t["parked"]])

    @property
    def ended(self) -> float | None:
        """When the last object came."""
        return self.samples[-1][AT] if self.over and self.samples else None

    def page(self) -> str:
        parts = [*self.progress(), *self.rates(), *self.prediction(), *self.waits(),
                 *self.errors(), *self.decided(), *self.fidelity(), *self.verified(),
                 *self.manifest(), *self.about()]
        main = h("main", *self.head(), self.tiles(), self.meter(), self.held_up(), self.not_known(),
                 *parts)
        return document("Migration of %s" % clipped(self.facts["volume"]), main)

    def not_known(self) -> Child:
        """After all parts, which add to it."""
        return h("div", h("h3", "What this page does not know"),
                 h("ul", *(h("li", text) for text in self.unknown)), kind="note") \
            if self.unknown else None

    def head(self) -> list[Child]:
        says, kind = STATES.get(self.state, (self.state, ""))
        source = self.facts.get("source")
        return [h("h1", "Migration of ", clipped(self.facts["volume"])),
                h("p", *(["from ", clipped(no_password(source)), " \u00b7 "] if source else []),
                  h("span", says, kind="state " + kind), " \u00b7 as of ", moment(self.now),
                  kind="soft")]

    def tiles(self) -> Child:
        if not self.t:
            return None
        e, t, tiles = self.e, self.t, []

        def tile(name: str, value: str, more: str) -> None:
            tiles.append(h("div", h("small", name), h("b", value), h("small", more or "\u2014"),
                           kind="tile"))

        if self.over:
            tile("Done", "100 %", "nothing is left")
        elif e.get("share") is None:
            tile("Done", "not yet known", e.get("why", ""))
        else:
            low, middle, high = map(status.percent, e["share"])
            of = "of the data" if e["bytes"][1] else "of the objects"
            tile("Done", middle, of if e["exact"] else "%s to %s %s" % (low, high, of))
        tile("Objects done", count(t["done"]),
             self.in_all(t["found"], e.get("objects"), count, rough))
        tile("Data done", size(t["done_bytes"] + t.get("partly_bytes", 0)),
             self.in_all(t["found_bytes"], e.get("bytes"), size, size))
        tile(*self.end())
        return h("div", *tiles, kind="tiles")

    def in_all(self, found: float, whole: list[float] | None, exact: Any, about: Any) -> str:
        if self.over or self.e.get("exact"):
            return "of %s" % exact(found)
        if not whole:
            return "of %s found so far" % exact(found)
        return "of about %s (%s to %s)" % tuple(about(whole[i]) for i in (1, 0, 2))

    def end(self) -> tuple[str, str, str]:
        if self.over:
            if not self.ended:
                return "Ended", "not known", "no history was kept"
            took = self.ended - self.samples[0][AT]
            return "Ended", time.strftime("%d %b, %H:%M", time.localtime(self.ended)), \
                "%s after it began" % duration(took)
        left = self.e.get("remaining_s")
        if left is None:
            return "End", "not yet known", self.e.get("why", "")
        if not self.e.get("end_at"):
            return "Work left", duration(left[1]), "%s to %s, once it goes on" % (
                duration(left[0]), duration(left[2]))
        low, middle, high = (status.when(at, self.now) for at in self.e["end_at"])
        return "Predicted end", middle, "%s to %s" % (low, high)

    def meter(self) -> Child:
        share = [1.0] * 3 if self.over else self.e.get("share")
        if not share:
            return None
        return h("div", h("div", style="width:%.1f%%" % (min(share[1], 1.0) * 100)), kind="meter",
                 role="img", aria_label="%.1f %% done" % (share[1] * 100))

    def held_up(self) -> Child:
        held = status.holds(self.s) if self.t and not self.over else []
        return h("div", h("h3", "What holds it up"),
                 h("ul", *(h("li", "%s: %s" % one) for one in held)), kind="note") if held else None

    # -- plots --

    def points(self, which: int) -> list[plot.Point]:
        return [(s[AT], s[which]) for s in self.samples]

    def predicted_end(self) -> plot.End | None:
        at = self.e.get("end_at")
        return plot.End(self.now, *at) if at and None not in at and not self.over else None

    def progress(self) -> list[Child]:
        if len(self.samples) < 3:
            self.unknown.append("How it went over time: the history of this volume has too few "
                                "entries to draw.")
            return []
        end = self.predicted_end()
        keys = [key("found", "found"), key("done", "done")]
        keys += [key("predicted", "predicted"), key("maybe", "90 % interval")] if end else []
        keys += [key("idle", "no crawl")] if self.idle else []
        out = [figure(name, plot.progress(name + " found and done over time", self.points(found),
                                          self.points(done), in_bytes, self.idle, end,
                                          self.e.get(member)))
               for name, found, done, in_bytes, member in (
                   ("Objects", FOUND, DONE, False, "objects"),
                   ("Data", FOUND_BYTES, DONE_BYTES, True, "bytes"))]
        return [h("h2", "Progress"), h("div", *out, kind="plots"), h("p", *keys, kind="soft keys"),
                h("p", "Found: what listings of directories have brought to light. Done: here, on "
                  "the disk, and needing the old server no more."
                  + (" No crawl: for most of that time the crawler did not work (it was paused, "
                     "outside its window, not running, or the old server was away)."
                     if self.idle else ""), kind="soft")]

    def rates(self) -> list[Child]:
        if len(self.samples) < 3:
            return []
        figures, step = [], 0.0
        for name, which, in_bytes in (("Objects done per second", DONE, False),
                                      ("Data done per second", DONE_BYTES, True)):
            edges, values = rate(self.points(which))
            step = edges[1] - edges[0]
            mean = (self.samples[-1][which] - self.samples[0][which]) / max(
                1.0, self.samples[-1][AT] - self.samples[0][AT])
            figures.append(figure(name, plot.rates(name + " over time", edges, values, in_bytes,
                                                   self.idle), "on average %s/s" % (
                size(mean) if in_bytes else plot.number(float("%.2g" % mean)))))
        active = self.samples[-1][ACTIVE]
        return [h("h2", "Speed"), h("div", *figures, kind="plots"),
                h("p", "Each step is the average of %s. The crawler worked for %s in all." % (
                    duration(step), duration(active)), kind="soft")]

    def prediction(self) -> list[Child]:
        made = looks_back(self.samples, self.s.get("windows") or [])
        if len(made) < 2:
            return []
        caption = [key("predicted", "predicted"), key("maybe", "90 % interval")]
        text = ("Made again, as 'postcopy status' would have made it, from what the history knew "
                "at each moment since all directories were listed; for earlier ones it does not "
                "keep enough. Today's windows are assumed. The dotted line is the present.")
        if self.ended:
            caption.append(key("truth", "when it did end"))
            held = sum(p.low <= self.ended <= p.high for p in made)
            off = sorted(abs(p.middle - self.ended) for p in made)[len(made) // 2]
            text = "The interval held the true end in %d of %d predictions; half of them were " \
                "at most %s off. " % (held, len(made), duration(max(off, 1))) + text
        name = "The end as it was predicted, by when that was"
        return [h("h2", "Predictions"), h("div", figure(name, plot.ends(name, made, self.ended)),
                                          h("div", h("p", *caption, kind="soft keys"),
                                            h("p", text, kind="soft")), kind="plots")]

    def waits(self) -> list[Child]:
        kept = self.s.get("first_access") or {}
        figures = []
        for kind, name in KINDS:
            one = kept.get(kind)
            n = sum(one["count"]) if one else 0
            if n:
                figures.append(figure(
                    name, plot.histogram("How long clients waited: " + name, one["at_most_ms"],
                                         one["count"]),
                    "%s first accesses, on average %s" % (count(n), plot.waited(
                        max(1, round(one["sum_ms"] / n))))))
        if not kept:
            self.unknown.append("How long clients waited for what was not here yet: the retriever "
                                "keeps that in memory, and none is running.")
            return []
        since = self.s.get("uptime_s")
        return [h("h2", "First accesses"),
                h("div", *figures, kind="plots") if figures else
                h("p", "No client has asked for anything that was not here yet."),
                h("p", "How long file servers waited for what clients were the first to touch, "
                  "since the retriever started%s. Whatever was here already went straight through, "
                  "and is not counted." % (" %s ago" % duration(since) if since else ""),
                  kind="soft")]

    # -- lists --

    def errors(self) -> list[Child]:
        errors = self.facts.get("errors")
        if errors is None:
            return []
        groups = errors["groups"]
        out: list[Child] = [h("h2", "Errors and conflicts")]
        if not groups:
            return out + [h("p", "Nothing is parked: no object has failed for good, and none is in "
                            "conflict.")]
        out.append(h("p", "%s objects are parked: %s for errors, %s for conflicts (changed on the "
                     "old server after the switch, so that neither version is thrown away). They "
                     "are tried no more until somebody decides." % (
                         count(errors["errors"] + errors["conflicts"]), count(errors["errors"]),
                         count(errors["conflicts"]))))
        out.append(h("div", figure("Objects by reason", plot.bars(
            "Parked objects by reason", [(g["code"], g["count"]) for g in groups])), kind="plots"))
        for g in groups:
            more = g["count"] - len(g["first"])
            out.append(h("article", h("h3", g["code"], " \u00b7 ", "%s %s%s" % (
                count(g["count"]), g["why"], "" if g["count"] == 1 else "s")), h("p", g["says"]),
                h("p", g["advice"], kind="soft"),
                h("ul", *(h("li", self.what(p), h("span", " " + self.why(p), kind="soft"))
                          for p in g["first"]),
                  h("li", "and %s more" % count(more)) if more > 0 else None)))
        if errors.get("damaged"):
            out.append(h("p", "Entries of the journal that cannot be read: %s." %
                         count(errors["damaged"]), kind="bad"))
        return out

    @staticmethod
    def why(p: Facts) -> str:
        """And what finds it over there."""
        over = [status.quoted(p["source_path"])] if p.get("source_path") else \
            ["inode %d" % p["source_fileid"]] if "source_fileid" in p else []
        return "; ".join([clipped(p.get("reason", "")),
                          *("old server: " + clipped(o) for o in over)])

    @staticmethod
    def what(p: Facts) -> Child:
        if "path" in p:
            return path(p["path"])
        return h("span", "%s with inode %d" % (p["kind"], p["inode"]) if "inode" in p else
                 "%s that is gone here" % p["kind"])

    def decided(self) -> list[Child]:
        d = self.facts.get("decided")
        if not d or not (d["decisions"] or d["unreadable"]):
            return []
        told = ["%s %s" % (count(d[how]), text) for how, text in DECIDED.items() if d[how]]
        shown = d["decisions"][:DECIDED_MAX]
        rows: list[list[Child]] = [[path(one["path"]), DECIDED[one["how"]], clipped(one["reason"]),
                                    clipped(one["time"])] for one in shown]
        more = len(d["decisions"]) - len(shown)
        return [h("h2", "Decided by hand"),
                h("p", "%s. Given up: what never came reads as zeros, or is missing. Fetched anew: "
                  "as the old server had it then. Kept as here: what clients made of it counts." %
                  (", ".join(told) or "Nothing that can be read")),
                table(["object", "decision", "why it was parked", "when"], rows) if rows else None,
                h("p", "and %s more" % count(more)) if more else None,
                h("p", "Lines of the list that cannot be read: %s." % count(d["unreadable"]),
                  kind="bad") if d["unreadable"] else None]

    def fidelity(self) -> list[Child]:
        """What a migration from this source cannot keep, and what it has met."""
        met = self.met()
        properties = self.facts.get("properties")
        lost = [p for p in properties or [] if p["volume"] != "kept"]
        lost.sort(key=lambda p: p["volume"] != "lost")
        out: list[Child] = [h("h2", "What is approximated or lost")]
        if met:
            out.append(h("ul", *(h("li", text) for text in met), kind="list"))
        if properties is None:
            if not met:
                out.append(h("p", "Not known now: 'postcopy init --check' asks the old server."))
            return out if met or not self.over else []
        if lost:
            out.append(table(["property", "in the volume", "why"], [
                [p["title"], h("span", p["volume"], kind=FATES.get(p["volume"], "")),
                 clipped(p["why"])] for p in lost]))
            out.append(h("p", "Kept: %s. As 'postcopy init --check' says of this source now; it is "
                         "true of the whole tree, whether or not any object has such a "
                         "property." % ", ".join(p["title"] for p in properties
                                                 if p["volume"] == "kept"), kind="soft"))
        else:
            out.append(h("p", "Nothing: all properties that the source has are kept."))
        return out

    def met(self) -> list[str]:
        s = self.s
        return [text % count(s[member]) for member, text in (
            ("acls_lost", "%s objects came without their ACL, with a mode that gives nobody more"),
            ("acls_near", "%s objects have the POSIX ACL that is nearest to their NFSv4 ACL, and "
             "gives nobody more"),
            ("metadata_lost", "%s streams, attributes and security descriptors could not be kept "
             "(the retriever's log names them)"),
            ("times_unsure", "%s objects have a time after 2038 that may be one before 1970"),
            ("links_split", "%s hard-linked files have fewer names here than on the old server"),
            ("mangled", "%s names may be made up by the old Samba"),
            ("mismatches", "%s objects came without what the joined share knows of them"))
            if s.get(member)]

    def verified(self) -> list[Child]:
        v, scan = self.facts.get("verified"), self.facts.get("scan")
        if not v:
            return []
        out: list[Child] = [h("h2", "Verification")]
        if scan:
            out.append(h("p", "A last walk through the whole volume found %s objects, and nothing "
                         "that still needs the old server." % count(scan["objects"])))
        if v["result"] == "never":
            return [*out, h("p", "It was not compared with the source ('postcopy verify').")]
        says, kind = {
            "right": ("Nothing is wrong.", "good"),
            "wrong": ("Something is wrong, or not here yet: 'postcopy verify' names it.", "bad"),
            "running": ("It is running, or was killed.", "warn")}.get(
                v["result"], ("It was broken off: the same command goes on with it.", "warn"))
        how = "all names, attributes and contents" if v["mode"] == "all" else \
            "all names and attributes, and the content of %s files" % count(v["sample"])
        out.append(h("p", h("span", says, kind="state " + kind), " Compared with the source: ", how,
                     "; begun %s%s." % (moment(v["began"]), ", ended %s" % moment(v["ended"])
                                        if v["ended"] else "")))
        body: list[list[Child]] = [[name, count(v[member])] for name, member, always in COUNTS
                                   if v[member] or always]
        body.append(["files read on both sides", count(v["files_read"] + v["files_read_earlier"])])
        return out + [self.numbers(body)]

    @staticmethod
    def numbers(rows: list[list[Child]]) -> ET.Element:
        t = table(["what", "number"], rows, "counts")
        for row in t[1]:
            row[1].set("class", "n")
        t[0][0][1].set("style", "text-align:right")
        return t

    def manifest(self) -> list[Child]:
        m = self.facts.get("manifest")
        if not m:
            return []
        rows: list[tuple[str, Child]] = [("file", path(m["file"])),
                                         ("lines", "%s objects" % count(m["objects"])),
                                         ("SHA-256", h("code", m["sha256"])),
                                         ("signature", path(m["signature"]) if m["signature"] else
                                          "none beside it")]
        return [h("h2", "Manifest"), pairs(rows),
                h("ul", *(h("li", h("code", clipped(line))) for line in m["head"]), kind="list")]

    def about(self) -> list[Child]:
        f, s = self.facts, self.s
        rows: list[tuple[str, Child]] = [("volume", path(f["volume"]))]
        for name, value in (("UUID", f.get("uuid")), ("source", f.get("source")),
                            ("joined with", f.get("join")), ("streams in", f.get("depot"))):
            if value:
                rows.append((name, clipped(no_password(value))))
        if f.get("created"):
            rows.append(("made a volume", moment(f["created"])))
        if s.get("windows"):
            rows.append(("windows", ", ".join(s["windows"])))
        if limits := throttles(s):
            rows.append(("throttle", "%s in the background" % limits))
        for one in f.get("kept") or []:
            rows.append(("kept list", path(one)))
        rows.append(("this page", "made %s (%s) by %s" % (
            moment(self.now), time.strftime("%Z, UTC%z", time.localtime(self.now)), f["version"])))
        return [h("h2", "About"), pairs(rows),
                h("footer", "1 KiB is 1024 bytes. Times are those of the machine's clock. "
                  "Predictions come with the interval that is meant to hold the truth nine times "
                  "in ten. Names are those of the new server; what cannot be shown is written as "
                  "\\xNN.")]


def page(facts: Facts) -> str:
    return Report(facts).page()
