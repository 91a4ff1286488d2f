# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of tests/bench/run: how fast a migration is, beside bare copiers and plain files."""
import json
import os
import subprocess
import time

from bed import (LIMIT_S, PARCOPY, SMALL, STUBMAKE, check_whole, cpu_of, crawl_seconds, disk, line,
                 migration, smb_migration, sync, timed, tool)
from lib.smbd import PASSWORD

CONNECTIONS = (4, 16, 64, 128)
PROCESSES = 4


def parcopy(old, name, port, n, target):
    s = old.nfs(name)
    return json.loads(tool(PARCOPY, n, s.host, port, s.mount_port, s.pseudo, target))


def nfs_small(old, home, delay_ms):
    """Crawl against copier; more of that is faster."""
    copies, server = {}, old.nfs("small")
    with line(delay_ms, server.host, server.port) as port:
        for n in CONNECTIONS:
            with disk(home) as target:
                done = parcopy(old, "small", port, n, target)
                if done["files"] != old.files:
                    raise RuntimeError("the copier has %s" % done)
                copies[n] = done["seconds"]
        with migration(home, old, "small", port) as m:
            seconds = crawl_seconds(m)
            check_whole(m)
    best = min(copies, key=copies.get)
    return dict(ratio=copies[best] / seconds, seconds=seconds, copier=copies[best],
                connections=best, files=old.files)


def smbcopy(server, port, names, target):
    """A smbclient that copies these directories."""
    for name in names:
        (target / name).mkdir()
    commands = ["prompt OFF"] + ['cd \\%s; lcd "%s"; mget *' % (n, target / n) for n in names]
    return subprocess.Popen(
        ["smbclient", "-s", str(server.config), "-p", str(port), "-U", "root%" + PASSWORD,
         server.unc(), "-c", "; ".join(commands)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def smb_copy_seconds(old, home, port, processes):
    """The directories are shared out among the processes."""
    server, names = old.smb("few"), sorted(p.name for p in (old.top / "few").iterdir())

    def all_of(target):
        copiers = [smbcopy(server, port, names[i::processes], target)
                   for i in range(min(processes, len(names)))]
        ends = [c.wait(LIMIT_S) for c in copiers]
        if any(ends):
            raise RuntimeError("smbclient ended with %s" % ends)
        sync(target)

    with disk(home) as target:
        seconds = timed(all_of, target)
        sizes = [p.stat().st_size for p in target.glob("*/*")]
        if sizes != [SMALL] * old.few:
            raise RuntimeError("the copy has %d files, %d bytes" % (len(sizes), sum(sizes)))
    return seconds


def smb_small(old, home, delay_ms, processes):
    server = old.smb("few")
    with line(delay_ms, server.host, server.port) as port:
        copy = smb_copy_seconds(old, home, port, processes)
        with smb_migration(home, old, "few", port) as m:
            seconds = crawl_seconds(m)
            check_whole(m)
    return dict(ratio=copy / seconds, seconds=seconds, copier=copy, processes=processes,
                files=old.few)


def stub_creation(old, home):
    """One listing at a time, and sixteen, as many directories as there are."""
    row = {}
    for threads in (1, old.dirs):
        done = {}
        for what in ("files", "stubs"):
            with disk(home) as target:
                done[what] = json.loads(tool(STUBMAKE, what, target, old.dirs, 1000, threads))
        row.update({"seconds_%d" % threads: done["stubs"]["seconds"],
                    "files_%d" % threads: done["files"]["seconds"],
                    "ratio_%d" % threads: done["files"]["seconds"] / done["stubs"]["seconds"],
                    "cpu_%d" % threads: done["stubs"]["cpu"] / done["files"]["cpu"]})
    return dict(row, ratio=row["ratio_1"])


def digests(old, home, name, rate=0):
    """In turn, and the least of each: what runs beside it only adds."""
    cpu, seconds, server = ([], []), ([], []), old.nfs(name)
    for on in (0, 1) * 4:
        with line(0, server.host, server.port, rate) as port, \
                migration(home, old, name, port, conf="digests = %d\n" % on) as m:
            begin = cpu_of(m.retriever.pid)
            seconds[on].append(crawl_seconds(m))
            cpu[on].append(cpu_of(m.retriever.pid) - begin)
            check_whole(m)
            if on and (found := m.tool("verify", "--digests", m.volume))["unproven"]:
                raise RuntimeError("not all have digests: %s" % found)
    return dict(ratio=min(seconds[1]) / min(seconds[0]), cpu_ratio=min(cpu[1]) / min(cpu[0]),
                cpu=min(cpu[1]), cpu_without=min(cpu[0]), seconds=min(seconds[1]),
                seconds_without=min(seconds[0]))


def files_of(volume):
    return [p for d in volume.iterdir() if d.name != ".postcopy"
            for p in (d.iterdir() if d.is_dir() else (d,))]


def forget(files):
    """Not in the page cache."""
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_all(files):
    subprocess.run(["xargs", "-0", "-P", str(PROCESSES), "-n", "500", "cat"], check=True,
                   input="\0".join(map(str, files)), text=True, stdout=subprocess.DEVNULL,
                   timeout=LIMIT_S)


def verify(old, home, name):
    """A comparison of all, to reading the old server's files, and then the disk's."""
    server = old.nfs(name)
    there = min(parcopy(old, name, server.port, n, "-")["seconds"] for n in CONNECTIONS)
    with migration(home, old, name) as m:
        crawl_seconds(m)
        check_whole(m)
        files = files_of(m.volume)
        sync(m.volume)
        forget(files)
        here = timed(read_all, files)
        forget(files)
        begin = time.monotonic()
        found = m.tool("verify", "--all", m.volume)
        seconds = time.monotonic() - begin
        if found["right"] < len(files) or found["found"]:
            raise RuntimeError("it was not compared: %s" % found)
    return dict(ratio=seconds / (there + here), seconds=seconds, old=there, disk=here,
                files=len(files))
