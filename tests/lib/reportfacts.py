# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a made-up migration, as `postcopy report` collects them of a volume."""
import importlib
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "crawler" / "admin"))
status = importlib.import_module("postcopy_status")

HOUR, DAY = 3600, 86400
NOW = 1763884800                # a Sunday morning in November 2025
OBJECTS, BYTES, DIRECTORIES = 400000, 70 * 10 ** 9, 5000
AT_MOST = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000]


def history(part=0.55, steady=False):
    """Samples of two days that end now: names first, then files; nothing by day."""
    rng, n = random.Random(4), 288
    out, active, work, whole = [], 0.0, 0.0, 150.0
    for i in range(n):
        by_day = not steady and 0.33 < i / n * 2 % 1 < 0.62
        if not by_day:
            active += 600
            work += 1.0 if steady else rng.uniform(0.6, 1.3)
        x = min(part, work / whole)
        names, files = min(1.0, x / 0.12), max(0.0, (x - 0.12) / 0.88)
        found, size = int(OBJECTS * names), int(BYTES * names)
        out.append([int(i * 600), int(active), found, size,
                    min(found, int(OBJECTS * (0.02 * names + 0.98 * files))),
                    min(size, int(BYTES * files)), int(DIRECTORIES * (1 - names)), 0])
        if x >= part:
            break
    shift = NOW - 60 - out[-1][0]
    return [[s[0] + shift, *s[1:]] for s in out]


def parked():
    first = [{"path": "home/anna/%d" % i, "reason": "read: Permission denied",
              "source_fileid": 4711 + i} for i in range(2)]
    return {"groups": [
        {"code": "denied", "why": "error", "count": 17, "says": "the old server refuses it",
         "advice": "let root read there, then 'postcopy retry denied'", "first": first},
        {"code": "changed-there", "why": "conflict", "count": 3, "says": "it was changed there",
         "advice": "'postcopy accept'", "first": [{"kind": "file", "inode": 77, "reason": "?"}]}],
        "errors": 17, "conflicts": 3, "damaged": 0}


def verified(over):
    return {"result": "right" if over else "never", "mode": "all", "sample": 0, "began": NOW - 9000,
            "ended": NOW - 100 if over else 0, "names": OBJECTS, "right": OBJECTS - 900,
            "listed_only": 0, "different": 0, "unclear": 0, "pending": 0, "changed": 888,
            "made_by_clients": 5, "removed_by_clients": 7, "moved_by_clients": 0,
            "files_read": 350000, "files_read_earlier": 0}


def the_status(samples, over):
    last = samples[-1]
    t = {"found": last[2], "found_bytes": last[3], "done": last[4], "done_bytes": last[5],
         "partly_bytes": 0, "parked": 0 if over else 20, "parked_bytes": 0 if over else 4096,
         "directories_left": 0, "directories_parked": 0, "whole": True}
    t["left"] = t["found"] - t["done"] - t["parked"]
    t["left_bytes"] = t["found_bytes"] - t["done_bytes"] - t["parked_bytes"]
    data = [0, 0, 0, 120, 800, 2100, 1400, 900, 300, 110, 60, 22, 9, 2, 0, 0]
    return {"volume": "/srv/data", "state": "complete" if over else "migrating", "totals": t,
            "pending": t["left"], "parked": 0 if over else 17, "conflicts": 0 if over else 3,
            "counter": t["left"] + t["parked"], "crawler": not over, "windows": [],
            "uptime_s": 187000.0, "acls_lost": 1204, "acls_near": 77, "throttle_bytes_per_s": 50 << 20,
            "first_access": {
                "names": {"at_most_ms": AT_MOST, "count": [9, *data[:-1]], "sum_ms": 99000},
                "attributes": {"at_most_ms": AT_MOST, "count": [0] * 16, "sum_ms": 0},
                "data": {"at_most_ms": AT_MOST, "count": data, "sum_ms": 999000}}}


def facts(over=False):
    samples = history(1.0 if over else 0.55)
    s = the_status(samples, over)
    s["estimate"] = status.guess(s, {"samples": samples, "tree": []}, NOW)
    return {"now": NOW, "version": "postcopy 0.1.0", "volume": "/srv/data",
            "uuid": "5b0c4b2e-7a7a-4a7e-a0a3-6b1f5f7f0000",
            "source": "nfs://old.example.org/export", "join": None, "depot": None,
            "created": samples[0][0] - 500, "status": s,
            "history": {"samples": samples, "tree": []}, "unknown": [],
            "errors": {"groups": [], "errors": 0, "conflicts": 0, "damaged": 0} if over
                      else parked(),
            "decided": {"lost": 1, "theirs": 1, "ours": 0, "unreadable": 0, "decisions": [
                {"path": "home/anna/x", "how": "lost", "reason": "read: Input/output error",
                 "time": "2025-11-20T10:00:00Z"},
                {"path": "home/y", "how": "theirs", "reason": "changed over there",
                 "time": "2025-11-20T11:00:00Z"}]},
            "properties": [
                {"title": "names", "volume": "kept", "why": "byte for byte"},
                {"title": "POSIX ACLs", "volume": "lost", "why": "NFSv3 does not carry it"},
                {"title": "holes in sparse files", "volume": "approximated",
                 "why": "blocks of zeros become holes"}],
            "verified": verified(over)}
