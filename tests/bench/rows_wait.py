# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of tests/bench/run: what clients wait for, beside the old server, or nothing to wait for."""
import contextlib
import pathlib
import shutil
import statistics
import subprocess
import time

from bed import (ENTRIES, NFSTREE, PARCOPY, PER_DIR, SMALL, SOURCECAT, WORKER, ask_status,
                 check_whole, crawl_seconds, disk, line, migration, smb_migration, timed, tool, touch_memory)
from lib.ganesha import Ganesha
from nfsclient import connect

TRIES = 9           # at the old server, of what is short
PACE = 600          # operations per second of a client that works


def beside(old, here):
    """Seconds here to those at the old server: 1 is as fast, 2 takes twice as long."""
    return dict(ratio=here / old, seconds=here, old=old)


# -- listings ------------------------------------------------------------------------------


def nfs_listing(old, home, delay_ms):
    server = old.nfs("wide")

    def all_of(url):
        found = tool(NFSTREE, "--no-hash", "--quiet", url).splitlines()
        if len(found) < old.dirs * ENTRIES:
            raise RuntimeError("%d lines are not the whole tree" % len(found))

    with line(delay_ms, server.host, server.port) as port:
        all_of(old.url("wide", port))       # warm
        there = timed(all_of, old.url("wide", port))
        with migration(home, old, "wide", port) as m:
            return beside(there, timed(all_of, m.server.url()))


def smb_listing(old, home):
    def all_of(client):
        found = [len(client.listdir("d%04d" % d)) for d in range(old.dirs)]
        if found != [ENTRIES] * old.dirs:
            raise RuntimeError("%s are not the whole tree" % found)

    with old.smb("wide").client() as client:
        all_of(client)                      # warm
        there = timed(all_of, client)
    with smb_migration(home, old, "wide") as m, m.client() as client:
        return beside(there, timed(all_of, client))


# -- one object ----------------------------------------------------------------------------


def nfs_look(client, path):
    client.patient(60).getattr(path)


def smb_look(client, path):
    client.open(path, timeout=60).close()


def nfs_first(client, path):
    client.patient(60).read(path, 0, 1)


def smb_first(client, path):
    with client.open(path, timeout=60) as f:
        f.read(0, 1, timeout=60)


def seconds_of(begin_client, function, path):
    """Of a client that has just come."""
    with begin_client() as client:
        return timed(function, client, path)


def cold_nfs(old, home, name, function, path, delay_ms=0):
    """The old server is far for its own clients, and for the retriever; the new one is near."""
    s = old.nfs(name)
    with line(delay_ms, s.host, s.port) as port:
        there = statistics.median(
            seconds_of(lambda: connect("v3", s.host, port, s.mount_port, s.pseudo), function, path)
            for _ in range(TRIES))
        with migration(home, old, name, port) as m:
            return beside(there, seconds_of(m.client, function, path))


def cold_smb(old, home, name, function, path):
    there = statistics.median(seconds_of(old.smb(name).client, function, path)
                              for _ in range(TRIES))
    with smb_migration(home, old, name) as m:
        return beside(there, seconds_of(m.client, function, path))


def cold_width(old, home):
    """Does an open take longer where directories are wider?"""
    wide, thin = (cold_nfs(old, home, name, nfs_look, old.cold) for name in ("deep", "thin"))
    return dict(ratio=wide["seconds"] / thin["seconds"], seconds=wide["seconds"],
                thin=thin["seconds"])


# -- a big file ----------------------------------------------------------------------------


def stream(old, there, begun, read):
    """Bytes/s of a reader who does nothing else, to those at the old server: more is faster."""
    with begun as m:
        touch_memory(m.volume.parent, old.size)
        here = timed(read, m.server.url())
        if ask_status(m.control)["bytes_done"] < old.size:
            raise RuntimeError("not all of the file has come")
    return dict(ratio=there / here, seconds=here, old=there, bytes=old.size)


def stream_nfs(old, home, delay_ms):
    def read(url):
        tool(SOURCECAT, "-c", 1, url, "bench", "file")

    s = old.nfs("big")
    with line(delay_ms, s.host, s.port) as port:
        there = timed(read, old.url("big", port))
        return stream(old, there, migration(home, old, "big", port), read)


def stream_smb(old, home):
    def read(url):
        tool(SOURCECAT, "-c", 1, "-s", "-t", 60000, "-a", old.login, "-p", WORKER, url, "bench",
             "file")

    there = timed(read, old.smb_url("big"))
    return stream(old, there, smb_migration(home, old, "big"), read)


# -- clients that work ---------------------------------------------------------------------


def p99(seconds):
    return statistics.quantiles(seconds, n=100)[98]


def working(client, files, until):
    """Seconds of each operation on what is here, PACE of them in a second as long as the server
    keeps up, until that says so, but 600 at least."""
    calls = (lambda fh, place: client.read(fh, 0, SMALL), lambda fh, place: client.getattr(fh),
             lambda fh, place: client.lookup(place))
    begin, seen = time.monotonic(), []
    while not until() or len(seen) < PACE:
        fh, place = files[len(seen) % len(files)]
        time.sleep(max(0, begin + len(seen) / PACE - time.monotonic()))
        seen.append(timed(calls[len(seen) % len(calls)], fh, place))
    return seen


def warm(m, client):
    """Some files of small, all of which are here: (handle, (directory's, name))."""
    files, top = [], client.patient(60).fh("d0000")
    for f in range(PER_DIR):
        place = top, "f%04d" % f
        client.patient(60).read_file(place)
        files.append((client.fh(place), place))
    m.drain()
    return files


def as_unit(m):
    """Its unit gives the retriever less of the processors than the servers have: CPUWeight=20, of 100, which is
    this niceness of a session."""
    path = pathlib.Path("/proc/%d/autogroup" % m.retriever.pid)
    if path.exists():
        path.write_text("7")


def waiting(client, dirs):
    """Seconds of the first read of files in directories where nobody was."""
    return [timed(client.read, "d%04d/f%04d" % (d, f), 0, SMALL) for d in dirs
            for f in range(3, PER_DIR, PER_DIR // 3)]


def cold_beside(old, home):
    """From the last directory on, where the crawl comes last."""
    last = old.files // PER_DIR - 1
    with migration(home, old, "small") as m, m.client() as client:
        as_unit(m)
        client.patient(60).fh("d0000")
        alone = waiting(client, range(last, last - last // 8, -1))
        crawler, beside_it, d = m.start_crawler(), [], last - last // 8
        while crawler.poll() is None and d > last // 2:
            beside_it += waiting(client, (d,))
            d -= 1
        crawler.wait()
        check_whole(m)
    return dict(beside(statistics.median(alone), statistics.median(beside_it)), operations=len(beside_it),
                p90=statistics.quantiles(beside_it, n=10)[8])


def client_p99(old, home):
    """The crawl on and off; and a bare copier instead of it, which takes its part, too."""
    s = old.nfs("small")
    with disk(home) as target, migration(home, old, "small") as m, m.client() as client:
        files = warm(m, client)
        end = time.monotonic() + (2 if old.quick else 10)
        off = working(client, files, lambda: time.monotonic() > end)
        with subprocess.Popen([str(PARCOPY), "16", s.host, str(s.port), str(s.mount_port),
                               s.pseudo, str(target)], stdout=subprocess.DEVNULL) as copier:
            copy = working(client, files, lambda: copier.poll() is not None)
        if copier.returncode:
            raise RuntimeError("the copier ended with %d" % copier.returncode)
        as_unit(m)
        crawler = m.start_crawler()
        on = working(client, files, lambda: crawler.poll() is not None)
        check_whole(m)
    return dict(ratio=p99(on) / p99(off), beside_copier=p99(copy) / p99(off), on=p99(on),
                off=p99(off), copier=p99(copy), operations=len(on))


def create_after_finish(old, home):
    """CREATE of a client, in turn, where a migration was finished and where none ever was."""
    rounds, each = (4, 100) if old.quick else (20, 200)
    with migration(home, old, "few") as m, contextlib.ExitStack() as ends:
        crawl_seconds(m)
        check_whole(m)
        m.postcopy("finish", m.volume)
        plain = m.volume.parent / "plain"
        plain.mkdir()
        stock = Ganesha(home / "plain", str(plain), shim=old.shim).start()
        ends.callback(shutil.rmtree, home / "plain", ignore_errors=True)
        ends.callback(stock.stop, scan=False)
        clients = [ends.enter_context(server.client()) for server in (m.server, stock)]
        seen = [[], []]
        for number in range(rounds):
            for i in (0, 1) if number % 2 else (1, 0):
                seen[i] += [timed(clients[i].create, "n%d-%d" % (number, k)) for k in range(each)]
    return dict(ratio=p99(seen[0]) / p99(seen[1]), p99=p99(seen[0]), plain=p99(seen[1]),
                median=statistics.median(seen[0]) / statistics.median(seen[1]))
