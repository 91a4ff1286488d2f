# SPDX-License-Identifier: GPL-3.0-or-later
"""A name goes, or comes, while an operation on it waits for a lock.

A CREATE has opened the file that was there and waits for the file's lock, to truncate
it.  What it says in the end must not be about a file that nobody has a name of: Ganesha
would put the name into its list again and show a file that is not there.  NFSv3 only: an
OPEN of NFSv4 opens by handle what it has found, and no list changes.

A RENAME has found nothing at its new name.  What comes there until it has its locks is
replaced, and loses a link.

MDCACHE lists a new name when the request that made it returns.  What was done to the name
before that must not be undone in that list (fsal_stub/meet.c).
"""
import contextlib
import fcntl
import os
import struct
import subprocess
import threading

import pytest

from lib.programs import BUILD
from lib.wait import wait_until
from nfsclient import NfsError

ATTR_CACHE = 0
F_OFD_SETLK = 37


@contextlib.contextmanager
def locked(volume, ino):
    """The lock of libstubcore/lock.c that whoever changes an object takes."""
    with open(volume / ".postcopy" / "lock", "r+b") as f:
        fcntl.fcntl(f, F_OFD_SETLK, struct.pack("hhqqiI", fcntl.F_WRLCK, os.SEEK_SET, ino, 1,
                                                0, 0))
        yield


def somebody_waits(volume, ino):
    st = os.stat(volume / ".postcopy" / "lock")
    place = ["%02x:%02x:%d" % (os.major(st.st_dev), os.minor(st.st_dev), st.st_ino), str(ino)]
    with open("/proc/locks") as f:
        return any(fields[1] == "->" and fields[-3:-1] == place for fields in map(str.split, f))


@pytest.mark.parametrize("how", ["removed", "renamed"])
def test_truncating_create(case, client3, world, how):
    case.file("f")
    case.enter("partial", "f")
    local = world.volume / case.path("f")
    ino = os.lstat(local).st_ino
    made = []
    with locked(world.volume, ino):
        creating = threading.Thread(target=lambda: made.append(
            client3.create(case.path("f"), mode=0o600, size=0)), daemon=True)
        creating.start()
        wait_until(lambda: somebody_waits(world.volume, ino), 60, "CREATE waits for the lock")
        if how == "removed":
            os.unlink(local)
        else:
            os.rename(local, local.with_name("g"))
    creating.join(60)
    fh, attrs = made[0]
    assert attrs.size == 0 and attrs.nlink == 1
    st = os.lstat(local)
    assert st.st_ino == attrs.fileid     # the number of what was removed may be used again
    assert how == "removed" or st.st_ino != ino
    with world.client("v3") as other:
        assert other.lookup(case.path("f"))[1].fileid == st.st_ino
    case.free = True                     # what went behind the server's back went there only


def shard(ino):
    """Threads of one process first take one of these locks (libstubcore/lock.c)."""
    return (ino * 0x9e3779b97f4a7c15 >> 56) % 256


def test_rename_over_a_new_name(case, client, world):
    """Another server of the volume has put a file with two names there."""
    names = ["f", "g0", "g1", "g2"]
    for name in names:
        case.file(name)
    case.hardlink("h", "f")
    case.enter("partial", *names, "h")
    case.finished("")                    # no lock is taken for it
    client.listdir(case.path())
    inos = {name: os.lstat(world.volume / case.path(name)).st_ino for name in names}
    name = next(n for n in names[1:] if shard(inos[n]) != shard(inos["f"]))
    rename = (client.fh(case.path()), name), (client.fh(case.path()), "new")
    with locked(world.volume, inos[name]):
        renaming = threading.Thread(target=client.rename, args=rename, daemon=True)
        renaming.start()
        wait_until(lambda: somebody_waits(world.volume, inos[name]), 60, "RENAME waits")
        subprocess.run([BUILD / "tests" / "tools" / "neighbour", world.volume, "rename",
                        case.path("h"), case.path("new")], check=True, timeout=300,
                       stdout=subprocess.DEVNULL)
    renaming.join(60)
    case.gone("h")
    case.moved(name, "new")
    assert client.names(case.path()) == sorted(n.encode() for n in {*names, "new"} - {name})
    assert client.getattr(case.path("new")).fileid == inos[name]
    for name in ("f", "new"):
        assert client.getattr(case.path(name)).nlink == 1


# -- MDCACHE enters a name after it was made ------------------------------------------------------

LATE = 60                                # seconds that the call takes longer, at most
WAITS = 5       # seconds without an answer: it waits for a lock of MDCACHE's, as REMOVE for LINK's


@contextlib.contextmanager
def late(server, call):
    """A system call of the server does its work, and returns at the end of this."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-e", "trace=" + call, "-e",
         "inject=%s:delay_exit=%d" % (call, LATE * 1000000), "-o",
         str(server.workdir / "late.strace"), "-p", str(server.pid)],
        stderr=subprocess.PIPE, text=True)
    try:
        assert "attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=300)


TURNS = 30
AT_ONCE = {
    "link": lambda c, a: c.link(a + "/g", a + "/d/n"),
    "symlink": lambda c, a: c.symlink(a + "/d/n", "target"),
    "create": lambda c, a: c.create(a + "/d/n", how="guarded"),
}


@pytest.mark.parametrize("what", AT_ONCE)
def test_a_name_that_is_made_and_renamed_over_at_once(case, client3, world, what):
    """By two requests that both find nothing there, and have to ask for what they need.  RENAME has MDCACHE's locks
    while it asks, so the other one enters its name behind it, whichever was first on the disk."""
    for i in range(TURNS):
        for name in ("a%d", "a%d/d"):
            case.dir(name % i)
        for name in ("a%d/f", "a%d/g"):
            case.file(name % i)
    case.free = True
    with world.client("v3") as other:
        for i in range(TURNS):
            a, begin = case.path("a%d" % i), threading.Barrier(2)

            def make():
                begin.wait()
                with contextlib.suppress(NfsError):     # it came second
                    AT_ONCE[what](client3, a)

            making = threading.Thread(target=make, daemon=True)
            making.start()
            begin.wait()
            other.rename(a + "/f", a + "/d/n")
            making.join(60)
            there = os.lstat(world.volume / a / "d/n").st_ino
            for c in client3, other:
                assert c.lookup(a + "/d/n")[1].fileid == there, i


COMING = {
    "link": ("linkat", lambda c, d: c.link((d, "f"), (d, "n"))),
    "mkdir": ("mkdirat", lambda c, d: c.mkdir((d, "n"))),
    "symlink": ("symlinkat", lambda c, d: c.symlink((d, "n"), "target")),
}


@pytest.mark.parametrize("then", ["remove", "rename", "rename away"])
@pytest.mark.parametrize("what", COMING)
def test_what_is_done_to_a_name_that_comes(case, client3, world, what, then):
    """While the request that makes it is not answered yet: DELAY.  What MDCACHE lists afterwards
    is what is there."""
    case.file("f")
    case.file("g")
    case.dir("d")
    case.free = True
    case.enter("normal", "f", "g")
    d = client3.fh(case.path())
    made, came, met = "d" if what == "mkdir" else "g", [], []
    local = world.volume / case.path("n")
    call, comes = COMING[what]
    going = {"remove": lambda c: (c.rmdir if what == "mkdir" else c.remove)((d, "n")),
             "rename": lambda c: c.rename((d, made), (d, "n")),
             "rename away": lambda c: c.rename((d, "n"), (d, "m"))}[then]
    with world.client("v3") as other:
        with late(world.m.server, call):
            client3.listdir(case.path())
            coming = threading.Thread(
                target=lambda: came.append(answer(lambda c: comes(c, d), other)), daemon=True)
            coming.start()
            wait_until(lambda: os.path.lexists(local), 60, "it is there")
            meeting = threading.Thread(target=lambda: met.append(answer(going, client3.patient(0))),
                                       daemon=True)
            meeting.start()
            meeting.join(WAITS)
        coming.join(60)
        meeting.join(60)
    assert came == [None]
    # again only when the other one is answered: a moment before that MDCACHE enters the name
    if met != [None]:
        assert met == ["JUKEBOX"]
        going(client3)
    for proto in ("v3", "v4.1"):
        with world.client(proto) as c:
            here = c.fh(case.path())
            for name in ("d", "f", "g", "m", "n"):
                there = os.path.lexists(world.volume / case.path(name))
                assert shown(c, here, name) == (
                    os.lstat(world.volume / case.path(name)).st_ino if there else None), name
            assert c.names(case.path()) == sorted(
                os.fsencode(n) for n in os.listdir(world.volume / case.path()))


def answer(call, client):
    """None, or the name of the error."""
    try:
        call(client)
    except NfsError as err:
        return err.name
    return None


def shown(c, d, name):
    """The number of what a name stands for, or None."""
    try:
        return c.lookup((d, name))[1].fileid
    except NfsError as err:
        assert err.name == "NOENT"
        return None
