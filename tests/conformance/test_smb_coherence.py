# SPDX-License-Identifier: GPL-3.0-or-later
"""What SMB clients change, NFS clients see soon, though Ganesha caches attributes and
names for a minute: the module posts news of it.  The other way round SMB clients see it at
once.  On stubs and on what is normal already."""
import time

import pytest

from lib.case import SIZE
from lib.expect import same, smb_status
from lib.smb import ALL, EPOCH, UNIX
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient import NfsError, errors
from smb2client import wire

WORLD = BothWorld
ATTR_CACHE = 60
LATE = 20               # s; without the news it would be a minute,
SOON = 0.5              # or 1 s for a stub: told by the best of several


def soon(condition, what):
    """Poll; the time it takes."""
    began = time.monotonic()
    wait_until(condition, LATE, what, interval=0.001)
    delay = time.monotonic() - began
    print("seen after %.1f ms: %s" % (delay * 1000, what))
    return delay


def names(client, case, name=""):
    return sorted(n.decode() for n in client.names(case.path(name)))


def is_stale(client, fh):
    try:
        client.getattr(fh)
    except NfsError as err:
        return err.status == errors.STALE
    return False


@pytest.fixture(params=["normal", "some"])
def known(case, client, request):
    """A directory whose objects the NFS server has all read."""
    case.dir("d"), case.dir("e")
    for name in ("d/a", "d/b", "e/x"):
        case.file(name)
    case.enter("normal", "e/x")
    case.enter(request.param, "d/a", "d/b")
    for name in ("", "d", "e"):
        client.listdir(case.path(name))
    for name in ("d/a", "d/b"):
        assert client.getattr(case.path(name)).size == SIZE
    return case


def test_a_write(known, client, smb):
    fh, took = client.fh(known.path("d/a")), []
    with smb.open(known.path("d/a"), ALL) as f:
        for i in range(5):
            end = SIZE + i * 10
            f.write(end, b"0123456789")
            known.write("d/a", end, b"0123456789")
            took.append(soon(lambda: client.getattr(fh).size == end + 10, "write"))
        same(client.read_file(known.path("d/a")), known.data("d/a"))
    assert min(took) < SOON


def test_a_truncate(known, client, smb):
    fh, took = client.fh(known.path("d/a")), []
    for size in (100, SIZE, 0, 7):
        with smb.open(known.path("d/a"), ALL) as f:
            f.truncate(size)
        known.resize("d/a", size)
        took.append(soon(lambda: client.getattr(fh).size == size, "truncate"))
    assert min(took) < SOON


def test_times(known, client, smb):
    fh, took = client.fh(known.path("d/a")), []
    for second in range(1000, 1003):
        with smb.open(known.path("d/a"), ALL) as f:
            f.set_basic(written=EPOCH + second * UNIX)
        known.items["d/a"].mtime = second * 10 ** 9
        took.append(soon(lambda: client.getattr(fh).mtime == second * 10 ** 9, "times"))
    assert min(took) < SOON


def test_names_come(known, client, smb):
    smb.write_file(known.path("d/new"), b"new")
    known.made("d/new").data = b"new"
    soon(lambda: names(client, known, "d") == ["a", "b", "new"], "create")
    smb.mkdir(known.path("d/newdir"))
    known.made("d/newdir", 2)
    soon(lambda: names(client, known, "d") == ["a", "b", "new", "newdir"], "mkdir")


def test_names_go(known, client, smb):
    fh = client.fh(known.path("d/a"))
    smb.remove(known.path("d/a"))
    known.gone("d/a")
    soon(lambda: names(client, known, "d") == ["b"], "remove")
    wait_until(lambda: is_stale(client, fh), LATE, "stale")


def test_names_move(known, client, smb):
    smb.rename(known.path("d/a"), known.path("e/a"))
    known.moved("d/a", "e/a")
    soon(lambda: names(client, known, "d") == ["b"], "rename, from")
    soon(lambda: names(client, known, "e") == ["a", "x"], "rename, to")
    fh = client.fh(known.path("d/b"))
    smb.rename(known.path("d/b"), known.path("e/x"), replace=True)
    known.moved("d/b", "e/x")
    soon(lambda: names(client, known, "d") == [], "rename over, from")
    soon(lambda: client.fh(known.path("e/x")) == fh, "rename over, to")
    same(client.read_file(known.path("e/x")), known.data("e/x"))


def test_the_other_way_round(known, client, smb):
    """smbd caches nothing."""
    client.write(known.path("d/a"), SIZE, b"more")
    known.write("d/a", SIZE, b"more")
    assert smb.stat(known.path("d/a")).size == SIZE + 4
    client.rename(known.path("d/b"), known.path("d/c"))
    known.moved("d/b", "d/c")
    assert smb.names(known.path("d")) == ["a", "c"]
    client.remove(known.path("d/c"))
    known.gone("d/c")
    assert smb_status(smb.stat, known.path("d/c")) == "OBJECT_NAME_NOT_FOUND"
    assert not smb.stat(known.path("d/a")).attributes & wire.ATTR_SPARSE


# -- news after their place was made anew --------------------------------------------------

def wiped(world):
    """As /run may be, under a running server."""
    ring = world.m.socket.with_name(world.m.socket.name + ".news1")
    ring.unlink()
    wait_until(ring.exists, 60, "another ring")
    assert ring.stat().st_uid == 0 and ring.stat().st_mode & 0o777 == 0o600


def restarted(world):
    world.m.kill_retriever()
    wiped(world)
    world.m.start_retriever()


@pytest.mark.parametrize("event", [wiped, restarted])
@pytest.mark.parametrize("user", ["alice", "root"])
def test_the_place_of_the_news_is_made_anew(case, world, event, user):
    """smbd works with the rights of its user, who may not open the new one."""
    case.source.mode = case.items[""].mode = 0o777
    case.file("f", mode=0o666)
    case.enter("normal", "f")
    with world.client() as client, world.smbd.client(user) as c, \
            c.open(case.path("f"), ALL) as f:
        fh = client.fh(case.path("f"))
        for i in range(8):
            if i == 2:
                event(world)
            end = SIZE + i * 10
            assert client.getattr(fh).size == end
            f.write(end, b"0123456789")
            case.write("f", end, b"0123456789")
            soon(lambda: client.getattr(fh).size == end + 10, "write %d" % i)
