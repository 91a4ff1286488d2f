# SPDX-License-Identifier: GPL-3.0-or-later
"""REMOVE and RMDIR: what is removed never comes back, what the old server still has
in a directory keeps it from being removed, an open file stays whole."""
import threading

import pytest

from lib.case import BLOCK, DIRS, SIZE, pattern
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import BLK, CHR, DIR, FIFO, SOCK
from nfsclient.rpc import AuthSys

ATTR_CACHE = 0


def wipe(client, path):
    """rm -r."""
    for entry in client.listdir(path):
        below = path + "/" + entry.name.decode()
        if entry.attrs.type == DIR:
            wipe(client, below)
        else:
            client.remove(below)
    client.rmdir(path)


# -- REMOVE ---------------------------------------------------------------------

def test_remove(case, client, place):
    for name in ("f", "stays"):
        case.file(name)
    case.enter(place, "f", "stays")
    before = client.getattr(case.path())
    client.remove(case.path("f"))
    case.gone("f")
    after = client.getattr(case.path())
    assert after.mtime > before.mtime and after.ctime > before.ctime
    assert after.nlink == before.nlink and after.mode == before.mode
    assert status_of(client.lookup, case.path("f")) == errors.NOENT
    assert client.names(case.path()) == [b"stays"]
    assert status_of(client.remove, case.path("f")) == errors.NOENT
    same(client.read_file(case.path("stays")), case.data("stays"))


def test_remove_by_handle_of_the_directory_only(case, client, place):
    """Nobody has looked the name up: REMOVE finds it by itself."""
    case.file()
    case.enter(place, "f")
    client.remove((client.fh(case.path()), b"f"))
    case.gone("f")
    assert client.names(case.path()) == []


def stale(call):
    try:
        call()
    except NfsError as err:
        assert err.status in (errors.STALE, errors.FHEXPIRED)
        return True
    return False


def test_handles_of_removed_files_are_stale(case, client, place):
    """As soon as nobody has the file open: the retriever may be reading ahead in it."""
    case.file()
    case.enter(place, "f")
    fh = client.fh(case.path("f"))
    client.remove(case.path("f"))
    case.gone("f")
    for call in (lambda: client.getattr(fh), lambda: client.read(fh, 0, 100),
                 lambda: client.write(fh, 0, b"x"), lambda: client.setattr(fh, size=0)):
        wait_until(lambda: stale(call), 60, "stale handle")


@pytest.mark.parametrize("size", [100, SIZE])
def test_remove_then_create(case, client, place, size):
    """The new file has nothing of the old one: no byte, no size, no owner."""
    for name in ("now", "later"):
        case.file(name, size=size, mode=0o4711)
    case.enter(place, "now", "later")
    for name in ("now", "later"):
        client.remove(case.path(name))
        case.gone(name)
        fh, attrs = client.create(case.path(name), mode=0o600, how="guarded")
        assert (attrs.size, attrs.mode, attrs.uid, attrs.gid, attrs.nlink) == (0, 0o600, 0, 0, 1)
        client.write(fh, 10, b"new")
        case.made(name, data=bytes(10) + b"new", mode=0o600, uid=0, gid=0)
    same(client.read_file(case.path("now")), case.data("now"))
    assert not case.show("now")["stub"]


def test_remove_then_mkdir(case, client, place):
    case.file()
    case.enter(place, "f")
    client.remove(case.path("f"))
    case.gone("f")
    client.mkdir(case.path("f"), mode=0o711)
    case.made("f", DIR, mode=0o711)
    assert client.names(case.path("f")) == []


@pytest.mark.parametrize("kind", ["symlink", "fifo", "socket", "char", "block", "empty"])
@pytest.mark.parametrize("where", ["listed", "looked", "cold"])
def test_remove_of_other_types(case, client, kind, where):
    if kind == "symlink":
        case.symlink("x", "some/where")
    elif kind == "empty":
        case.file("x", size=0)
    else:
        ftype = {"fifo": FIFO, "socket": SOCK, "char": CHR, "block": BLK}[kind]
        case.special("x", ftype, (1, 3) if ftype in (CHR, BLK) else (0, 0))
    if where == "listed":
        case.list()
    elif where == "looked":
        case.reach("x")
    client.remove(case.path("x"))
    case.gone("x")
    assert client.names(case.path()) == []


@pytest.mark.parametrize("listed", [True, False])
def test_remove_of_what_is_nowhere(case, client, listed):
    case.dir("d")
    case.file("d/f", size=10)
    if listed:
        case.list("d")
    assert status_of(client.remove, case.path("d/nothing")) == errors.NOENT
    assert status_of(client.rmdir, case.path("d/nothing")) == errors.NOENT
    assert client.names(case.path("d")) == [b"f"]


def test_remove_of_what_a_client_made(case, client):
    """In a directory that stays unlisted until then."""
    case.dir("d")
    case.file("d/f", size=10)
    client.create(case.path("d/new"))
    case.made("d/new")
    client.remove(case.path("d/new"))
    case.gone("d/new")
    assert not client.exists(case.path("d/new"))
    assert client.names(case.path("d")) == [b"f"]


def test_remove_from_a_wide_directory(case, client, world):
    """One listing, and exactly one name less."""
    case.dir("d")
    for i in range(300):
        case.file("d/f%03d" % i, size=10)
    for i in (7, 150, 299):
        client.remove(case.path("d/f%03d" % i))
        case.gone("d/f%03d" % i)
    assert client.names(case.path("d")) == [b"f%03d" % i for i in range(300)
                                            if i not in (7, 150, 299)]
    first = [c for c in world.calls("READDIRPLUS", case.node("d")) if c.cookie == 0]
    assert len(first) == 1


def test_remove_without_permission(case, client, world, place):
    case.dir("d", mode=0o755)
    case.file("d/f", size=10, mode=0o666)
    case.enter(place, "d/f")
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        assert status_of(stranger.remove, case.path("d/f")) in (errors.ACCES, errors.PERM)
    assert client.names(case.path("d")) == [b"f"]
    same(client.read_file(case.path("d/f")), case.data("d/f"))


def test_sticky_directory(case, client, world, place):
    """The owner that counts is the old server's."""
    case.dir("d", mode=0o1777)
    for name, uid in (("mine", 4711), ("yours", 4712)):
        case.file("d/" + name, size=10, uid=uid)
    case.enter(place, "d/mine", "d/yours")
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as me:
        assert status_of(me.remove, case.path("d/yours")) in (errors.ACCES, errors.PERM)
        me.remove(case.path("d/mine"))
    case.gone("d/mine")
    assert client.names(case.path("d")) == [b"yours"]


# -- the old server is not there, or slow -------------------------------------------

def test_remove_while_the_old_server_is_gone(case, client, world):
    """In a listed directory nobody asks it; in an unlisted one the removal waits,
    and either happens or does not."""
    for d in ("listed", "unlisted"):
        case.dir(d)
        for name in ("f", "stays"):
            case.file("%s/%s" % (d, name), size=10)
        case.reach(d + "/f")
    case.list("listed")
    fhs = {d: client.fh(case.path(d)) for d in ("listed", "unlisted")}
    world.fake.pause()
    hasty = client.patient(0)
    hasty.remove((fhs["listed"], b"f"))
    case.gone("listed/f")
    assert status_of(hasty.remove, (fhs["unlisted"], b"f")) == errors.DELAY
    assert hasty.lookup((fhs["unlisted"], b"f"))
    world.fake.resume()
    client.remove((fhs["unlisted"], b"f"))
    case.gone("unlisted/f")
    assert client.names(fhs["unlisted"]) == [b"stays"]


def test_remove_while_the_directory_is_being_listed(case, client, world):
    """The listing's answer already has the name; it does not come back."""
    case.dir("d")
    for name in ("f", "stays"):
        case.file("d/" + name, size=10)
    fh, ffh = client.fh(case.path("d")), client.fh(case.path("d/f"))
    gate = Gate()
    world.fake.hook("READDIRPLUS", only(lambda c: c.node is case.node("d"), gate))
    try:
        hasty = client.patient(0)
        assert status_of(hasty.remove, (fh, b"f")) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a listing at the old server")
        assert hasty.getattr(ffh).size == 10
    finally:
        gate.open()
    client.remove((fh, b"f"))
    case.gone("d/f")
    assert client.names(fh) == [b"stays"]


def test_remove_while_it_is_filled(case, client, world):
    case.file()
    case.enter("partial", "f")
    fh = client.fh(case.path("f"))
    gate, node = Gate(), case.node("f")
    world.fake.hook("READ", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client.patient(0).read, fh, 0, 100) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a READ at the old server")
        client.patient(0).remove(case.path("f"))
        client.patient(0).create(case.path("f"), how="guarded")
    finally:
        gate.open()
    case.gone("f")
    case.made("f", data=b"")
    case.world.settle()
    assert client.getattr(case.path("f")).size == 0


# -- RMDIR ----------------------------------------------------------------------

@pytest.mark.parametrize("where", DIRS)
def test_rmdir_of_an_empty_directory(case, client, where):
    case.dir("d")
    case.dir("stays")
    path = case.enter_dir(where)
    before = client.getattr(case.path())
    client.rmdir(path)
    case.gone("d")
    after = client.getattr(case.path())
    assert after.nlink == before.nlink - 1 and after.mtime > before.mtime
    assert client.names(case.path()) == [b"stays"]
    assert status_of(client.lookup, path) == errors.NOENT


@pytest.mark.parametrize("inside", ["file", "dir", "symlink", "fifo"])
@pytest.mark.parametrize("where", DIRS)
def test_rmdir_of_what_the_source_has_entries_in(case, client, where, inside):
    """Decided by the old server's entries; once they are removed it goes."""
    case.dir("d")
    {"file": lambda: case.file("d/x"), "dir": lambda: case.dir("d/x"),
     "symlink": lambda: case.symlink("d/x", "y"),
     "fifo": lambda: case.special("d/x", FIFO)}[inside]()
    path = case.enter_dir(where)
    fh = client.fh(path)
    assert status_of(client.rmdir, path) in (errors.NOTEMPTY, errors.EXIST)
    assert client.names(fh) == [b"x"]
    (client.rmdir if inside == "dir" else client.remove)((fh, b"x"))
    client.rmdir(path)
    case.gone("d")
    assert status_of(client.getattr, fh) in (errors.STALE, errors.FHEXPIRED)
    assert client.names(case.path()) == []


@pytest.mark.parametrize("where", DIRS)
def test_rmdir_with_what_a_client_made(case, client, where):
    case.dir("d")
    path = case.enter_dir(where)
    client.create(path + "/new")
    assert status_of(client.rmdir, path) in (errors.NOTEMPTY, errors.EXIST)
    case.made("d/new", data=b"")
    assert client.names(path) == [b"new"]


@pytest.mark.parametrize("where", DIRS)
def test_rmdir_then_mkdir(case, client, where):
    """The new directory lists nothing of the old one's."""
    case.dir("d")
    case.file("d/x", size=10)
    path = case.enter_dir(where)
    client.remove(path + "/x")
    client.rmdir(path)
    case.gone("d")
    client.mkdir(path, mode=0o700)
    case.made("d", DIR, mode=0o700)
    assert client.names(path) == []
    assert status_of(client.lookup, path + "/x") == errors.NOENT
    assert not case.show("d")["stub"]


def test_rmdir_while_the_old_server_is_gone(case, client, world):
    """Nobody knows whether an unlisted directory is empty: neither removed nor lost."""
    case.dir("empty")
    case.dir("full")
    case.file("full/f", size=10)
    case.list()
    fhs = {d: client.fh(case.path(d)) for d in ("", "empty", "full")}
    world.fake.pause()
    for d in (b"empty", b"full"):
        assert status_of(client.patient(0).rmdir, (fhs[""], d)) == errors.DELAY
    world.fake.resume()
    assert client.names(case.path()) == [b"empty", b"full"]
    client.rmdir(case.path("empty"))
    case.gone("empty")
    assert status_of(client.rmdir, case.path("full")) in (errors.NOTEMPTY, errors.EXIST)


def test_rmdir_while_a_file_takes_the_name(case, client3, world):
    """RMDIR waits for the listing; when it comes the name is a file's.  The file stays."""
    case.dir("d")
    case.file("f")
    case.list()
    fh, node, gate, seen = client3.fh(case.path()), case.node("d"), Gate(), []
    world.fake.hook("READDIRPLUS", only(lambda c: c.node is node, gate))
    with world.client("v3") as other:
        remover = threading.Thread(
            target=lambda: seen.append(status_of(other.rmdir, (fh, b"d"))))
        remover.start()
        try:
            wait_until(lambda: gate.waiting, 60, "a listing at the old server")
            client3.rename((fh, b"d"), (fh, b"e"))
            client3.rename((fh, b"f"), (fh, b"d"))
        finally:
            gate.open()
            remover.join(60)
    case.moved("d", "e")
    case.moved("f", "d")
    assert seen == [errors.NOTDIR]
    same(client3.read_file(case.path("d")), case.data("d"))
    assert client3.names(fh) == [b"d", b"e"]


@pytest.mark.parametrize("where", ["listed", "unlisted", "cold"])
def test_remove_a_whole_tree(case, client, where):
    """rm -r by a client; nothing of it is found by the crawl."""
    case.dir("keep")
    case.file("keep/f", size=10)
    case.dir("t")
    for a in "ab":
        case.dir("t/" + a)
        for b in "xyz":
            case.dir("t/%s/%s" % (a, b))
            case.file("t/%s/%s/f" % (a, b), size=1000)
            case.symlink("t/%s/%s/l" % (a, b), "f")
        case.file("t/%s/f" % a)
    if where == "listed":
        for d in ("", "t", "t/a", "t/a/x"):
            case.list(d)
    elif where == "unlisted":
        case.list()
    wipe(client, case.path("t"))
    case.gone("t")
    assert client.names(case.path()) == [b"keep"]


@pytest.mark.parametrize("where", ["listed", "looked", "cold"])
def test_the_wrong_call(case, client3, where):
    """REMOVE of a directory, RMDIR of a file (v4 has one call for both)."""
    case.dir("d")
    case.dir("d/sub")
    case.file("d/f", size=10)
    if where == "listed":
        case.list("d")
    elif where == "looked":
        case.reach("d/sub"), case.reach("d/f")
    assert status_of(client3.rmdir, case.path("d/f")) == errors.NOTDIR
    assert status_of(client3.remove, case.path("d/sub")) in (errors.ISDIR, errors.PERM)
    assert client3.names(case.path("d")) == [b"f", b"sub"]


def test_remove_from_a_file(case, client):
    case.file()
    case.enter("partial", "f")
    fh = client.fh(case.path("f"))
    assert status_of(client.remove, (fh, b"x")) == errors.NOTDIR


# -- open files -------------------------------------------------------------------

def test_read_after_removal(case, client4, place):
    """What is open is whole, though it has no name and its bytes are not here yet."""
    case.file()
    case.enter(place, "f")
    data, f = case.data("f"), client4.open(case.path("f"))
    client4.remove(case.path("f"))
    case.gone("f")
    assert not client4.exists(case.path("f"))
    assert client4.getattr(f.fh).size == SIZE
    same(client4.read(f, BLOCK + 100, 3 * BLOCK)[0], data[BLOCK + 100:4 * BLOCK + 100])
    same(client4.read(f, 0, SIZE)[0], data)
    client4.close_file(f)

    def gone():
        try:
            client4.getattr(f.fh)
        except NfsError as err:
            return err.status in (errors.STALE, errors.FHEXPIRED)
    wait_until(gone, 60, "nobody has it open")      # the retriever may, for a moment


def test_write_after_removal(case, client4, place):
    case.file()
    case.enter(place, "f")
    data, f = case.data("f"), client4.open(case.path("f"), write=True)
    client4.remove(case.path("f"))
    case.gone("f")
    client4.write(f, BLOCK + 10, b"written")
    client4.write(f, SIZE, b"behind")
    same(client4.read(f, 0, 2 * SIZE)[0],
         data[:BLOCK + 10] + b"written" + data[BLOCK + 17:] + b"behind")
    client4.setattr(f.fh, size=100)
    same(client4.read(f, 0, SIZE)[0], data[:100])
    client4.close_file(f)


def test_two_files_of_one_name(case, client4, place):
    """The removed one that is open, and a new one: each has its own bytes."""
    case.file()
    case.enter(place, "f")
    data, f = case.data("f"), client4.open(case.path("f"), write=True)
    client4.remove(case.path("f"))
    case.gone("f")
    fresh = pattern(2 * BLOCK, 77)
    client4.write_file(case.path("f"), fresh)
    case.made("f", data=fresh)
    client4.write(f, 0, b"old")
    same(client4.read(f, 0, SIZE)[0], b"old" + data[3:])
    same(client4.read_file(case.path("f")), fresh)
    client4.close_file(f)
    same(client4.read_file(case.path("f")), fresh)


def test_removed_and_open_while_the_old_server_is_gone(case, client4, world):
    """DELAY, never zeros; the rest comes when it is back."""
    case.file()
    case.enter("partial", "f")
    data, f = case.data("f"), client4.open(case.path("f"))
    client4.remove(case.path("f"))
    case.gone("f")
    world.fake.pause()
    assert status_of(client4.patient(0).read, f, 0, 100) == errors.DELAY
    world.fake.resume()
    same(client4.read(f, 0, SIZE)[0], data)
    client4.close_file(f)


@pytest.mark.parametrize("where", ["unlisted", "listed"])
def test_a_removed_directory_makes_nothing(case, client, where):
    """With a handle of before: no new names, no listing, whatever the state was."""
    case.dir("d")
    path = case.enter_dir(where)
    fh = client.fh(path)
    client.rmdir(path)
    case.gone("d")
    for call in (lambda: client.create((fh, b"x")), lambda: client.mkdir((fh, b"x")),
                 lambda: client.names(fh), lambda: client.lookup((fh, b"x"))):
        assert status_of(call) in (errors.STALE, errors.NOENT, errors.FHEXPIRED)
