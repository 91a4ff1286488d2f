# SPDX-License-Identifier: GPL-3.0-or-later
"""SETATTR of mode, owner and times on objects in every state: what a client sets stays,
through the fill of attributes, entries and data, to the end."""
import pytest

from lib.case import BLOCK, DIRS, GROUP, SIZE, USER
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import BLK, CHR, FIFO, NOW, SOCK
from nfsclient.rpc import AuthSys

ATTR_CACHE = 0
WHEN = 1234567890 * 10 ** 9 + 123456789
CHANGES = {
    "mode": dict(mode=0),
    "setid": dict(mode=0o6755),
    "owner": dict(uid=4711, gid=4712),
    "mtime": dict(mtime=WHEN),
    "times": dict(atime=WHEN, mtime=WHEN + 1),
    "future": dict(atime=WHEN * 2, mtime=WHEN * 2 + 1),
    "all": dict(mode=0o751, uid=4711, gid=4712, atime=WHEN, mtime=WHEN + 1),
}


def expect(case, name, changes):
    """The model: what a client has set."""
    for key, value in changes.items():
        if key != "atime":
            setattr(case.items[name], key, value)


def shown(attrs, keys=("mode", "uid", "gid", "atime", "mtime", "size")):
    return {k: getattr(attrs, k) for k in keys}


@pytest.mark.parametrize("changes", CHANGES)
def test_a_file(case, client, place, changes):
    """Nothing but what was asked for moves; then nothing moves any more."""
    what = CHANGES[changes]
    for name in ("now", "later"):
        case.file(name, mode=0o640)
    case.enter(place, "now", "later")
    for name in ("later", "now"):
        before = client.getattr(case.path(name))
        client.setattr(case.path(name), **what)
        expect(case, name, what)
        after = client.getattr(case.path(name))
        assert shown(after) == dict(shown(before), **what)
        assert after.ctime > before.ctime
    case.world.stubtool("ask", case.path("now"), "fill")
    case.finished("now")
    assert shown(client.getattr(case.path("now"))) == shown(after)
    same(client.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("changes", CHANGES)
def test_as_the_first_call(case, client, changes):
    """By a handle from before: nobody has asked for the dummy's attributes yet."""
    what, names = CHANGES[changes], ("now", "later")
    for name in names:
        case.file(name, mode=0o640)
    case.enter("partial", *names)
    fhs = {name: client.fh(case.path(name)) for name in names}
    case.enter("dummy", *names)
    for name in names:
        node = case.node(name)
        want = dict(mode=node.mode, uid=node.uid, gid=node.gid, atime=node.atime,
                    mtime=node.mtime, size=SIZE)
        client.setattr(fhs[name], **what)
        expect(case, name, what)
        assert shown(client.getattr(fhs[name])) == dict(want, **what)
    case.world.stubtool("ask", case.path("now"), "fill")
    case.finished("now")
    want.update(what, mtime=what.get("mtime", case.node("now").mtime))
    assert shown(client.getattr(fhs["now"]), ("mode", "uid", "gid", "mtime", "size")) == {
        k: want[k] for k in ("mode", "uid", "gid", "mtime", "size")}


@pytest.mark.parametrize("changes", ["setid", "owner", "times"])
def test_before_and_after_a_read(case, client, place, changes):
    """Bytes that come by a client's READ move nothing either."""
    what = CHANGES[changes]
    case.file()
    case.enter(place, "f")
    client.setattr(case.path("f"), **what)
    expect(case, "f", what)
    client.read(case.path("f"), 2 * BLOCK, 100)
    keys = ("mode", "uid", "gid", "mtime", "ctime")
    seen = shown(client.getattr(case.path("f")), keys)
    same(client.read_file(case.path("f")), case.data("f"))
    assert shown(client.getattr(case.path("f")), keys[:-1]) == {k: seen[k] for k in keys[:-1]}
    assert client.getattr(case.path("f")).ctime >= seen["ctime"]


@pytest.mark.parametrize("changes", ["setid", "owner", "times", "all"])
@pytest.mark.parametrize("where", DIRS)
def test_a_directory(case, client, where, changes):
    """Then its entries come: they move nothing."""
    what = CHANGES[changes]
    case.dir("d", mode=0o750)
    for i in range(3):
        case.file("d/f%d" % i, size=10)
    case.enter_dir(where)
    before = client.getattr(case.path("d"))
    client.setattr(case.path("d"), **what)
    expect(case, "d", what)
    keys = ("mode", "uid", "gid", "mtime", "nlink")
    want = dict(shown(before, keys), **{k: v for k, v in what.items() if k != "atime"})
    assert shown(client.getattr(case.path("d")), keys) == want
    assert client.names(case.path("d")) == [b"f0", b"f1", b"f2"]
    assert shown(client.getattr(case.path("d")), keys) == want


@pytest.mark.parametrize("kind", ["symlink", "fifo", "socket", "char", "block", "linked"])
@pytest.mark.parametrize("where", ["listed", "looked", "cold"])
def test_other_types(case, client, kind, where):
    what = dict(uid=4711, gid=4712)
    if kind == "symlink":
        case.symlink("x", "some/where")
    elif kind == "linked":
        case.special("x", FIFO)
        case.dir("d")
        case.hardlink("d/y", "x")
    else:
        ftype = {"fifo": FIFO, "socket": SOCK, "char": CHR, "block": BLK}[kind]
        case.special("x", ftype, (1, 3) if ftype in (CHR, BLK) else (0, 0))
    if kind != "symlink":
        what.update(mode=0o717, mtime=WHEN)
    if where == "listed":
        case.list()
    elif where == "looked":
        case.reach("x")
    client.setattr(case.path("x"), **what)
    expect(case, "x", what)
    for name in ["x"] + (["d/y"] if kind == "linked" else []):
        assert shown(client.getattr(case.path(name)), what) == what


def test_server_time(case, client, place):
    case.file()
    case.enter(place, "f")
    before = client.getattr(case.path("f"))
    client.setattr(case.path("f"), mtime=NOW, atime=NOW)
    after = client.getattr(case.path("f"))
    assert after.mtime == after.atime > before.mtime
    assert after.ctime >= after.mtime
    case.items["f"].mtime = after.mtime
    assert client.getattr(case.path("f")).mtime == after.mtime


def test_back_to_what_it_was(case, client, place):
    """Set to the old server's own values: that is a change too."""
    case.file(mode=0o640)
    case.enter(place, "f")
    before = client.getattr(case.path("f"))
    client.setattr(case.path("f"), mode=0o640, uid=USER, gid=GROUP, mtime=before.mtime)
    after = client.getattr(case.path("f"))
    assert (after.mode, after.mtime) == (before.mode, before.mtime)
    assert after.ctime > before.ctime


def test_guarded_setattr(case, client3, place):
    """v3: only if the change time is still what the client has seen."""
    case.file()
    case.enter(place, "f")
    before = client3.getattr(case.path("f"))
    client3.setattr(case.path("f"), mode=0o600, guard_ctime=before.ctime)
    assert status_of(client3.setattr, case.path("f"), mode=0o777,
                     guard_ctime=before.ctime) == errors.NOT_SYNC
    case.items["f"].mode = 0o600
    assert client3.getattr(case.path("f")).mode == 0o600


def test_who_may(case, client, world, place):
    """Decided by the old server's owner, whatever the local inode has."""
    case.file(mode=0o646)
    case.enter(place, "f")
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        for what in (dict(mode=0o777), dict(uid=4711), dict(mtime=WHEN)):
            assert status_of(stranger.setattr, case.path("f"), **what) in (
                errors.PERM, errors.ACCES)
        stranger.setattr(case.path("f"), mtime=NOW)       # who may write may do that
    case.items["f"].mtime = client.getattr(case.path("f")).mtime
    with world.client(client.proto, cred=AuthSys(USER, GROUP)) as owner:
        assert status_of(owner.setattr, case.path("f"), uid=4711) in (errors.PERM, errors.ACCES)
        owner.setattr(case.path("f"), mode=0o600, mtime=WHEN)
    expect(case, "f", dict(mode=0o600, mtime=WHEN))
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        assert status_of(stranger.read_file, case.path("f")) == errors.ACCES


@pytest.mark.parametrize("stub", ["partial", "some", "dummy"])
def test_while_the_old_server_is_gone(case, client, world, stub):
    """Only a dummy's attributes have to be waited for."""
    case.file(mode=0o640)
    case.enter("partial" if stub == "dummy" else stub, "f")
    fh, hasty = client.fh(case.path("f")), client.patient(0)
    if stub == "dummy":
        world.stubtool("dummy", case.path("f"))
    world.fake.pause()
    if stub == "dummy":
        assert status_of(hasty.setattr, fh, mode=0o600) == errors.DELAY
    else:
        hasty.setattr(fh, mode=0o600)
        assert hasty.getattr(fh).mode == 0o600
    world.fake.resume()
    client.setattr(fh, mode=0o604, mtime=WHEN)
    expect(case, "f", dict(mode=0o604, mtime=WHEN))
    assert client.getattr(fh).size == SIZE


def test_while_a_dummy_gets_its_attributes(case, client, world):
    """The old server's answer is late: what the client sets comes after it, and stays."""
    case.file(mode=0o640)
    case.enter("partial", "f")
    fh, node, gate = client.fh(case.path("f")), case.node("f"), Gate()
    world.stubtool("dummy", case.path("f"))
    world.fake.hook("GETATTR", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client.patient(0).setattr, fh, mode=0o600) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a GETATTR at the old server")
    finally:
        gate.open()
    client.setattr(fh, mode=0o600, mtime=WHEN)
    expect(case, "f", dict(mode=0o600, mtime=WHEN))
    world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")
    assert shown(client.getattr(fh), ("mode", "mtime", "size")) == dict(
        mode=0o600, mtime=WHEN, size=SIZE)
