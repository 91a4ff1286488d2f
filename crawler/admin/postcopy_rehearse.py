# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rehearsal says of the migration (decision 0070): how much there is, how long it takes, and
what limits it. Pure functions of what `postcopy-volume rehearse` has told.

How much and how long is postcopy_estimate's, as for a migration under way. What limits is told by
comparing: a call alone with a call among many, what is read for the first time with the same once
more, the bytes with the speed of the line. Where that does not tell it, "unknown" is the answer.
"""
from __future__ import annotations

from typing import Any

import postcopy_estimate as estimate
from postcopy_status import count, duration, rough, size

Answer = dict[str, Any]

ACTIVE_MIN = 20.0       # seconds of listing and reading, before an end is predicted
QUEUED = 1.6            # a call takes so many times as long among others: they wait somewhere
FASTER = 1.5            # once more is so many times as fast: it was the disk
LINE_FULL = 0.8         # of what the line can carry, in bytes of files
CPU_FULL = 0.9          # of this machine's processors, together
CPU_CALL_MS = 5.0       # a call alone that takes longer is not for want of a processor here
HERE = 0.5              # of the time in which something is under way, with the new disk
LOOKS_MIN = 5           # at what was in flight
CALLS_MIN = 5

# What postcopy itself takes of a processor, in seconds: for an object, and for a byte. A
# rehearsal writes nothing, keeps no journal and hands nothing on, so it cannot measure that.
# Measured on one machine (decision 0070): another one takes up to OTHER times more, or less.
OWN = {"nfs": 180e-6, "file": 180e-6, "smb": 1000e-6}
OWN_BYTE = 1e-9
OTHER = 3.0
# Between its calls a migration waits for more than a rehearsal does: likely, and at most
LIKELY, SLOWER = 1.4, 2.0

WORK = ("list", "small", "large")
TITLE = {"list": "listing", "small": "small files", "large": "large files"}
ALONE = {"list": "list_alone", "small": "small_alone", "large": "small_alone"}
AGAIN = {"small": "small_again", "large": "large_again"}


# ---- how long calls take, how much comes --------------------------------------------

def call_ms(phase: Answer | None) -> float | None:
    """How long a call was at the old server or on the way, by Little's law: without the time
    in our own queues."""
    if not phase or phase["calls"] < CALLS_MIN or phase["inflight_looks"] < LOOKS_MIN:
        return None
    inflight = phase["inflight_sum"] / phase["inflight_looks"]
    return inflight * phase["us"] / phase["calls"] / 1000


def alone_ms(phase: Answer | None) -> float | None:
    """Where there is one call at a time its time is that in which anything was under way."""
    if not phase or phase["calls"] < CALLS_MIN:
        return None
    return phase["busy_us"] / phase["calls"] / 1000


def inflight(phase: Answer) -> float:
    return phase["inflight_sum"] / max(1, phase["inflight_looks"])


def amount(work: str, phase: Answer | None) -> float:
    return phase[{"list": "objects", "small": "operations", "large": "bytes"}[work]] if phase else 0


def rate(work: str, phase: Answer | None) -> float | None:
    """Objects, files or bytes in a second."""
    n = amount(work, phase)
    return n * 1e6 / phase["us"] if n and phase else None


# ---- what limits ----------------------------------------------------------------------

def limit(work: str, a: Answer, line: float | None) -> tuple[str, str]:
    """A word for programs, and why. line: bytes in a second that the line to the old server can
    carry, if known."""
    phase = a["phases"].get(work)
    among, alone = call_ms(phase), alone_ms(a["phases"].get(ALONE[work]))
    here = phase["here_us"] / max(1, phase["busy_us"]) if phase and "target" in a else 0.0
    if here >= HERE:
        return "target-disk", "%.0f %% of the time is writing to %s" % (100 * here, a["target"])
    if phase is None or among is None or alone is None:
        return "unknown", "too few calls were seen"
    local = a["protocol"] == "file"
    calls = "a call takes %s alone and %s with %.0f in flight" % (
        milliseconds(alone), milliseconds(among), inflight(phase))
    busy = phase["cpu_all"] > 0 and phase["cpu_busy"] >= CPU_FULL * phase["cpu_all"]
    if busy and alone < CPU_CALL_MS:
        return "machine", "this machine's processors are busy, with this or with other things"
    if among <= QUEUED * alone:
        if local:
            return "source-disk", calls + ": the disk"
        return "latency", calls + ": they wait for the way, not for each other"
    bytes_rate = phase["bytes"] * 1e6 / phase["us"]
    if line and bytes_rate >= LINE_FULL * line:
        return "network", "%s/s are what the line carries (%s/s)" % (size(bytes_rate), size(line))
    return queued(work, a, calls, local)


def queued(work: str, a: Answer, calls: str, local: bool) -> tuple[str, str]:
    """Calls wait for each other: for what?"""
    again = a["phases"].get(AGAIN.get(work, ""))
    first, second = rate(work, a["phases"][work]), rate(work, again)
    if first and second:
        if second >= FASTER * first:
            return "source-disk", "%s; once more, from memory, it comes %.1f times as fast" % (
                calls, second / first)
        if not local:
            return "source-or-network", calls + ": the old server itself, or the network (once " \
                "more it comes no faster, so it is not the disk)"
    if local:
        return "source-disk", calls + ": the disk"
    return "source", calls + ": the old server, its disk or processors, or the network"


def milliseconds(ms: float) -> str:
    return "%.*f ms" % (2 if ms < 1 else 1 if ms < 10 else 0, ms)


# ---- how much, and how long -------------------------------------------------------------

def totals(a: Answer) -> Answer:
    seen = a["seen"]
    left = seen["directories"] - seen["directories_listed"] - seen["directories_failed"]
    return {"found": seen["objects"], "found_bytes": seen["bytes"], "directories_left": left,
            "directories_parked": seen["directories_failed"]}


def seconds(a: Answer, whole: estimate.Total) -> estimate.Interval | None:
    """All of it, from the beginning."""
    seen = a["seen"]
    with_data = (seen["small_files"] + seen["large_files"]) / max(1.0, seen["objects"])
    nothing = {"found": 0.0, "done": whole.objects[1] * (1 - with_data), "done_bytes": 0.0,
               "parked": 0, "parked_bytes": 0}
    samples = [[0] * 6, *([0, *s] for s in a["samples"])]
    return estimate.duration(nothing, whole, samples, ACTIVE_MIN)


def own_seconds(a: Answer, whole: estimate.Total, processors: int) -> float:
    """What postcopy itself takes of this machine, however fast the source is."""
    protocol = "smb" if a.get("join") else a["protocol"]
    return (whole.objects[1] * OWN[protocol] + whole.bytes[1] * OWN_BYTE) / processors


def with_own(source: estimate.Interval, own: float) -> estimate.Interval:
    """Both work at the same time, more or less."""
    return (max(source[0], own / OTHER), max(LIKELY * source[1], own),
            max(SLOWER * source[2] + own, own * OTHER))


def shares(a: Answer, whole: estimate.Total) -> dict[str, float]:
    """What part of the time each kind of work takes, about."""
    seen = a["seen"]
    files = seen["small_files"] / max(1.0, seen["objects"])
    large = seen["large_bytes"] / max(1.0, seen["bytes"])
    todo = {"list": whole.objects[1], "small": whole.objects[1] * files,
            "large": whole.bytes[1] * large}
    took = {}
    for work in WORK:
        r = rate(work, a["phases"].get(work))
        if r and todo[work]:
            took[work] = todo[work] / r
    total = sum(took.values())
    return {work: t / total for work, t in took.items()} if total else {}


def active(a: Answer) -> float:
    return a["samples"][-1][0] if a["samples"] else 0.0


def predict(a: Answer, line: float | None = None, processors: int = 1) -> Answer:
    """The member "prediction" of the JSON. line: as in limit(); processors: of this machine."""
    out: Answer = {"objects": None, "bytes": None, "exact": False, "seconds": None, "why": "",
                   "source_seconds": None, "own_seconds": None,
                   "work": {}, "limit": "unknown"}
    for work in WORK:
        phase = a["phases"].get(work)
        if rate(work, phase):
            word, why = limit(work, a, line)
            out["work"][work] = {"per_second": rate(work, phase), "share": None, "limit": word,
                                 "why": why, "call_ms": call_ms(phase),
                                 "call_alone_ms": alone_ms(a["phases"].get(ALONE[work])),
                                 "inflight": inflight(phase)}
    tree = a["tree"]
    whole = estimate.total(totals(a), tree)
    if whole is None:
        out["why"] = "too few directories were listed: rehearse for longer"
        return out
    out.update(objects=list(whole.objects), bytes=list(whole.bytes), exact=whole.exact)
    for work, share in shares(a, whole).items():
        out["work"][work]["share"] = share
    known = [w for w in out["work"].values() if w["share"]]
    if known:
        out["limit"] = max(known, key=lambda w: w["share"])["limit"]
    own = own_seconds(a, whole, processors)
    out["own_seconds"] = round(own, 1)
    left = seconds(a, whole)
    if left is not None:
        out["source_seconds"] = [round(x, 1) for x in left]
        out["seconds"] = [round(x, 1) for x in with_own(left, own)]
        if own > left[1]:
            out["limit"] = "machine"
    elif a["complete"]:
        out["why"] = "all of it was read within %s" % duration(max(1.0, active(a)))
    elif active(a) < ACTIVE_MIN:
        out["why"] = "too short: rehearse for longer"
    else:
        out["why"] = "too little of each kind was read: rehearse for longer"
    return out


# ---- for people -------------------------------------------------------------------------

LIMITS = {
    "latency": "latency, the way to the old server and back",
    "source-disk": "the source's disk",
    "source-or-network": "the old server itself or the network",
    "source": "the old server or the network",
    "network": "the network",
    "machine": "this machine's processors",
    "target-disk": "the new file system's disk",
    "unknown": "not known",
}


def between(values: list[float], show: Any, unit: str = "") -> str:
    low, middle, high = map(show, values)
    return middle + unit if low == high else "%s%s (%s to %s)" % (middle, unit, low, high)


def speed(work: str, per_second: float) -> str:
    if work == "large":
        return "%s/s" % size(per_second)
    return "%s %s/s" % (rough(per_second), "objects" if work == "list" else "files")


def rows(a: Answer, p: Answer) -> list[tuple[str, str]]:
    """Name and text of each line."""
    seen = a["seen"]
    out = [("seen", "%s objects in %s directories, %s; %s read in %s" % (
        count(seen["objects"]), count(seen["directories_listed"]), size(seen["bytes"]),
        size(seen["bytes_read"]), duration(a["took_ms"] / 1000)))]
    if p["objects"]:
        out.append(("in all", "%s, %s" % (
            between(p["objects"], count if p["exact"] else rough, " objects"),
            between(p["bytes"], size))))
    else:
        out.append(("in all", "not known: " + p["why"]))
    if p["seconds"]:
        out.append(("takes", "%s, if nothing pauses it; the source alone %s, postcopy itself about "
                    "%s of this machine" % (
                        between(p["seconds"], duration), duration(p["source_seconds"][1]),
                        duration(p["own_seconds"]))))
    elif p["objects"]:
        out.append(("takes", "not known: " + p["why"]))
    out.append(("limit", LIMITS[p["limit"]]))
    for work in WORK:
        if work in p["work"]:
            w = p["work"][work]
            share = ", %.0f %% of the time" % (100 * w["share"]) if w["share"] else ""
            out.append((TITLE[work], "%s%s; limit: %s: %s" % (
                speed(work, w["per_second"]), share, LIMITS[w["limit"]], w["why"])))
    return out


def troubles(a: Answer) -> list[str]:
    seen, out = a["seen"], []
    if seen["directories_failed"]:
        out.append("%s directories could not be listed" % count(seen["directories_failed"]))
    if seen["files_failed"]:
        out.append("%s files could not be read, %s of them for want of permission" % (
            count(seen["files_failed"]), count(seen["files_denied"])))
    if seen["bad_names"]:
        out.append("%s names cannot be migrated as they are" % count(seen["bad_names"]))
    if out:
        out.append("'postcopy init --check --names --read' names them")
    if a["lost_ms"] >= 1000:
        out.append("the old server was away for %s" % duration(a["lost_ms"] / 1000))
    return out
