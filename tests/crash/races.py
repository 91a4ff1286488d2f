#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often two clients that meet at a name see something wrong, with and without us.

    races.py listing [--stock]    READDIR while names of the directory come and go
    races.py create [--stock]     CREATE of a file while another client removes it
    races.py symlink [--stock]    SYMLINK of a name while another client renames it

Prints how often each thing was seen.  --stock: plain FSAL_VFS, nothing to migrate.  What it
does as well is left to it in the model (model_run.py); the rest is ours to prevent
(tests/conformance/test_listing_races.py, test_name_races.py).
"""
import argparse
import collections
import os
import pathlib
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from model_rig import Disk, Rig  # noqa: E402
from nfsclient import NfsError  # noqa: E402

FILES = 3000
OLD = 10 ** 18
OWNED = {"uid": 0, "gid": 0, "mtime": OLD}


def tree(count):
    """A directory d with files f0, f1, ..."""
    return [dict(OWNED, path="d", type="dir", mode=0o755)] + [
        dict(OWNED, path="d/f%d" % i, type="file", mode=0o600, size=100) for i in range(count)]


def tried(call, *args, **kw):
    try:
        call(*args, **kw)
        return "OK"
    except NfsError as err:
        return err.name


def listing(rig, seconds):
    """Two clients create and remove, two list with attributes."""
    seen, end = collections.Counter(), time.monotonic() + seconds

    def lists(proto):
        c = rig.m.client(proto, timeout=60).patient(60)
        d = c.lookup_path("d")
        while time.monotonic() < end:
            seen["READDIR %s %s" % (proto, tried(c.listdir, d, whole=False))] += 1

    def comes_and_goes(name):
        c = rig.m.client("v3", timeout=60).patient(60)
        d = c.lookup_path("d")
        while time.monotonic() < end:
            c.create((d, name))
            c.remove((d, name))

    threads = [threading.Thread(target=lists, args=(p,)) for p in ("v3", "v4.1")]
    threads += [threading.Thread(target=comes_and_goes, args=(n,)) for n in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def soon(call, *args, **kw):
    time.sleep(random.random() * 0.0006)
    return tried(call, *args, **kw)


def two_clients(rig):
    """Each with its handle of d."""
    clients = [rig.m.client(p, timeout=60).patient(60) for p in ("v3", "v4.1")]
    return [part for c in clients for part in (c, c.lookup_path("d"))]


def symlink(rig, _seconds):
    """SYMLINK and RENAME of new names at about the same time: is it where they say?"""
    seen, pool = collections.Counter(), ThreadPoolExecutor(2)
    c3, d3, c4, d4 = two_clients(rig)
    for i in range(FILES):
        name, moved = "new%d" % i, "moved%d" % i
        making = pool.submit(soon, c4.symlink, (d4, name), "target")
        moving = pool.submit(soon, c3.rename, (d3, name), (d3, moved))
        replies = "SYMLINK %s, RENAME %s" % (making.result(), moving.result())
        where = [n for n in ("new", "moved") if os.path.lexists(rig.volume / "d" / (n + str(i)))]
        seen["%s: there as %s" % (replies, " and ".join(where) or "nothing")] += 1
    return seen


def create(rig, _seconds):
    """Each file once: CREATE and REMOVE at about the same time, then LOOKUP."""
    seen, pool = collections.Counter(), ThreadPoolExecutor(2)
    c3, d3, c4, d4 = two_clients(rig)
    for i in range(FILES):
        name = "f%d" % i
        size = {"size": 0} if i % 2 else {}
        creating = pool.submit(soon, c3.create, (d3, name), 0o444, "unchecked", **size)
        removing = pool.submit(soon, c4.remove, (d4, name))
        replies = "CREATE %s, REMOVE %s" % (creating.result(), removing.result())
        found = tried(c3.lookup, (d3, name)) == "OK"
        real = os.path.lexists(rig.volume / "d" / name)
        seen["%s: %s" % (replies, "shown, and not there" if found and not real else
                         "there, and not shown" if real and not found else "good")] += 1
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("listing", "create", "symlink"))
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--seconds", type=float, default=15, help="of listing")
    args = parser.parse_args()
    sys.setswitchinterval(0.0002)
    with Disk() as disk:
        rig = Rig(disk, tree(FILES if args.what == "create" else 3),
                  {"export": "Attr_Expiration_Time = 0;"}, args.stock)
        try:
            rig.start()
            seen = globals()[args.what](rig, args.seconds)
        finally:
            rig.stop(False)
    for what, count in sorted(seen.items()):
        print("%7d  %s" % (count, what))
    return 0


if __name__ == "__main__":
    sys.exit(main())
