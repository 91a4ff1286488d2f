# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of tests/bench/run: a migration by NFSv4.x, beside one by NFSv3 from the same old server.

Both twice in each round; who comes first changes from round to round.
"""
import statistics

from bed import (ask_status, check_whole, chains, cpu_of, crawl_seconds, line, migration,
                 timed)
from lib.wait import wait_until

VERSIONS = ("4.0", "4.1", "4.2")


def in_turn(old, version, measure):
    """The least of two measure(version) of both: NFSv3's, and that version's.  What runs beside
    them only adds; and who comes first finds the machine's memory full of other things."""
    old.turn += 1
    one, other = ("3", version) if old.turn % 2 else (version, "3")
    found = {"3": [], version: []}
    for v in (one, other, other, one):
        found[v].append(measure(v))
    return [tuple(map(min, zip(*found[v]))) for v in ("3", version)]


def crawl(old, home, name, delay_ms, version):
    """Seconds until all is on disk; of processor time of the retriever, and of the old server."""
    server = old.nfs(name)
    with line(delay_ms, server.host, server.port) as port, \
            migration(home, old, name, port, version=version) as m:
        pids = m.retriever.pid, server.pid
        before = [cpu_of(pid) for pid in pids]
        seconds = crawl_seconds(m)
        cpu = [cpu_of(pid) - b for pid, b in zip(pids, before)]
        check_whole(m)
    return seconds, *cpu


def rate(old, home, name, version, delay_ms=0):
    """What the version brings in a second, to what NFSv3 brings: more is faster."""
    (there, cpu3, server3), (here, cpu, server) = in_turn(
        old, version, lambda v: crawl(old, home, name, delay_ms, v))
    return dict(ratio=there / here, seconds=here, v3=there, cpu_ratio=cpu / cpu3, cpu=cpu,
                server_cpu_ratio=server / server3)


def first_bytes(old, home, delay_ms, version):
    """Seconds until a client has the first byte of a file deep down, of which nobody has asked for
    any part; the median of several."""
    server = old.nfs("chains")
    with line(delay_ms, server.host, server.port) as port, \
            migration(home, old, "chains", port, version=version) as m, m.client() as client:
        client = client.patient(60)
        client.getattr("")              # all is connected
        seen = []
        for path in chains(old):
            seen.append(timed(client.read, path, 0, 1))
            wait_until(lambda: ask_status(m.control)["inflight"] == 0, 60, "nothing is under way")
    return (statistics.median(seen),)


def first_access(old, home, version, delay_ms=0):
    (there,), (here,) = in_turn(old, version, lambda v: first_bytes(old, home, delay_ms, v))
    return dict(ratio=here / there, seconds=here, v3=there)
