# SPDX-License-Identifier: GPL-3.0-or-later
"""RENAME: an object keeps what it is and what it still misses, wherever it goes; the
old name stays away, the new one stays."""
import pytest

from lib.case import BLOCK, DIRS, PLACES, SIZE, pattern
from lib.expect import same, status_of, view
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import CHR, DIR, FIFO
from nfsclient.rpc import AuthSys

ATTR_CACHE = 0
FULL = (errors.NOTEMPTY, errors.EXIST)


def make(case, kind, name):
    if kind == "file":
        case.file(name)
    elif kind == "empty":
        case.file(name, size=0)
    elif kind == "dir":
        case.dir(name)
        case.file(name + "/inside", size=1000)
    elif kind == "symlink":
        case.symlink(name, "../where/ever")
    else:
        case.special(name, {"fifo": FIFO, "char": CHR}[kind],
                     (1, 3) if kind == "char" else (0, 0))


def kept(before, after):
    """Everything but the change time."""
    moved = {"ctime", "change", "nlink"}
    return all(before[k] == after[k] for k in before if k not in moved)


# -- a file in every state --------------------------------------------------------

def test_inside_a_directory(case, client, place):
    for name in ("now", "later", "beside"):
        case.file(name)
    case.enter(place, "now", "later", "beside")
    for name in ("now", "later"):
        fh = client.fh(case.path(name))
        before, above = view(client.getattr(fh)), client.getattr(case.path())
        client.rename(case.path(name), case.path("new-" + name))
        case.moved(name, "new-" + name)
        after = view(client.getattr(fh))
        assert kept(before, after) and after["ctime"] >= before["ctime"] and after["nlink"] == 1
        assert client.fh(case.path("new-" + name)) == fh
        assert client.getattr(case.path()).mtime > above.mtime
        assert status_of(client.lookup, case.path(name)) == errors.NOENT
    assert client.names(case.path()) == [b"beside", b"new-later", b"new-now"]
    same(client.read_file(case.path("new-now")), case.data("new-now"))


def test_by_names_nobody_has_looked_up(case, client, place):
    case.file("old")
    case.dir("to")
    case.file("to/there", size=10)
    case.enter(place, "old")
    client.rename((client.fh(case.path()), b"old"), (client.fh(case.path("to")), b"new"))
    case.moved("old", "to/new")
    assert client.names(case.path("to")) == [b"new", b"there"]
    assert client.names(case.path()) == [b"to"]
    same(client.read_file(case.path("to/new")), case.data("to/new"))


def test_then_create_the_old_name(case, client, place):
    """The new file has nothing of the old one; the old one is whole at its new name."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(place, "now", "later")
    for name in ("now", "later"):
        client.rename(case.path(name), case.path("moved-" + name))
        case.moved(name, "moved-" + name)
        fh, attrs = client.create(case.path(name), mode=0o600, how="guarded")
        assert (attrs.size, attrs.nlink, attrs.uid) == (0, 1, 0)
        client.write(fh, 5, b"fresh")
        case.made(name, data=bytes(5) + b"fresh", mode=0o600, uid=0, gid=0)
    same(client.read_file(case.path("now")), case.data("now"))
    same(client.read_file(case.path("moved-now")), case.data("moved-now"))


def test_write_after_rename(case, client, place):
    """What was written before and after, and the old server's rest, by the new name."""
    case.file()
    case.enter(place, "f")
    client.write(case.path("f"), BLOCK - 3, b"before")
    case.write("f", BLOCK - 3, b"before")
    client.rename(case.path("f"), case.path("g"))
    case.moved("f", "g")
    client.write(case.path("g"), 3 * BLOCK - 3, b"after")
    case.write("g", 3 * BLOCK - 3, b"after")
    same(client.read_file(case.path("g")), case.data("g"))


def test_swap(case, client, place):
    for name in "ab":
        case.file(name)
    case.enter(place, "a", "b")
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        client.rename(case.path(old), case.path(new))
        case.moved(old, new)
    same(client.read_file(case.path("a")), case.data("a"))
    assert client.names(case.path()) == [b"a", b"b"]


def test_back_and_forth(case, client, place):
    case.file()
    case.enter(place, "f")
    for old, new in (("f", "g"), ("g", "f"), ("f", "g"), ("g", "f")):
        client.rename(case.path(old), case.path(new))
        case.moved(old, new)
    assert client.names(case.path()) == [b"f"]


def test_to_itself(case, client, place):
    case.file()
    case.enter(place, "f")
    before = client.getattr(case.path("f"))
    client.rename(case.path("f"), case.path("f"))
    assert client.names(case.path()) == [b"f"]
    assert client.getattr(case.path("f")).mtime == before.mtime
    same(client.read_file(case.path("f")), case.data("f"))


# -- from one directory to another, of all types ------------------------------------

WAYS = [(kind, frm, to) for kind in ("file", "dir") for frm in ("listed", "looked")
        for to in DIRS + ("made",)]
WAYS += [(kind, frm, "looked") for kind in ("empty", "symlink", "fifo", "char")
         for frm in ("listed", "unlisted")]


@pytest.mark.parametrize("kind,frm,to", WAYS)
def test_across_directories(case, client, kind, frm, to):
    for d in ("from", "to"):
        if d == "to" and to == "made":
            continue
        case.dir(d)
        for i in range(3):
            case.file("%s/%s-%d" % (d, d, i), size=10 + i)
    make(case, kind, "from/x")
    source = case.enter_dir(frm, "from")
    if to == "made":
        client.mkdir(case.path("to"))
        case.made("to", DIR, mode=0o755)
        target = case.path("to")
    else:
        target = case.enter_dir(to, "to")
    before = client.getattr(source + "/x")
    links = [client.getattr(d).nlink for d in (source, target)]
    client.rename(source + "/x", target + "/y")
    case.moved("from/x", "to/y")
    assert client.fh(target + "/y") and client.getattr(target + "/y").fileid == before.fileid
    moved = 1 if kind == "dir" else 0
    assert [client.getattr(d).nlink for d in (source, target)] == [
        links[0] - moved, links[1] + moved]
    if kind == "file":
        same(client.read_file(target + "/y"), case.data("to/y"))
    elif kind == "dir":
        same(client.read_file(target + "/y/inside"), case.data("to/y/inside"))
    assert client.names(source) == [b"from-%d" % i for i in range(3)]
    assert client.names(target) == ([] if to == "made" else
                                    [b"to-%d" % i for i in range(3)]) + [b"y"]


# -- over something ----------------------------------------------------------------

@pytest.mark.parametrize("target", PLACES + ("made",))
@pytest.mark.parametrize("moved", ["normal", "partial", "looked"])
def test_over_a_file(case, client, moved, target):
    """The replaced one is gone for good, and nothing of it is left in the other."""
    case.dir("to")
    for name in ("now", "later"):
        case.file(name)
        if target != "made":
            case.file("to/" + name, size=2 * SIZE, mode=0o777)
    case.enter(moved, "now", "later")
    if target != "made":
        case.enter(target, "to/now", "to/later")
    for name in ("now", "later"):
        if target == "made":
            client.write_file(case.path("to/" + name), pattern(1000))
            case.made("to/" + name, data=pattern(1000))
        client.rename(case.path(name), case.path("to/" + name))
        case.moved(name, "to/" + name)
        assert client.getattr(case.path("to/" + name)).size == SIZE
        assert status_of(client.lookup, case.path(name)) == errors.NOENT
    same(client.read_file(case.path("to/now")), case.data("to/now"))
    assert client.names(case.path("to")) == [b"later", b"now"]


@pytest.mark.parametrize("target", DIRS)
def test_file_over_a_directory(case, client, target):
    case.file()
    case.dir("d")
    over = case.enter_dir(target, "d")
    assert status_of(client.rename, case.path("f"), over) in FULL + (errors.ISDIR,)
    assert client.names(case.path()) == [b"d", b"f"]


def test_directory_over_a_file(case, client, place):
    case.file()
    case.dir("d")
    case.file("d/g", size=10)
    case.enter(place, "f")
    assert status_of(client.rename, case.path("d"), case.path("f")) in (
        errors.NOTDIR, errors.EXIST)
    assert client.names(case.path()) == [b"d", b"f"]
    same(client.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("kind", ["symlink", "fifo", "empty"])
@pytest.mark.parametrize("where", ["listed", "looked", "cold"])
def test_over_other_types(case, client, kind, where):
    case.dir("d")
    case.file("d/f")
    make(case, kind, "d/x")
    if where == "listed":
        case.list("d")
    elif where == "looked":
        case.reach("d/x")
    client.rename(case.path("d/f"), case.path("d/x"))
    case.moved("d/f", "d/x")
    same(client.read_file(case.path("d/x")), case.data("d/x"))
    assert client.names(case.path("d")) == [b"x"]


def test_over_a_name_that_is_taken_again(case, client, place):
    """b goes over a, then a new b is made: three files in one breath."""
    for name in "ab":
        case.file(name)
    case.enter(place, "a", "b")
    client.rename(case.path("b"), case.path("a"))
    case.moved("b", "a")
    client.write_file(case.path("b"), b"new b")
    case.made("b", data=b"new b")
    same(client.read_file(case.path("a")), case.data("a"))
    same(client.read_file(case.path("b")), b"new b")


# -- what cannot be ------------------------------------------------------------------

@pytest.mark.parametrize("listed", [True, False])
def test_of_what_is_nowhere(case, client, listed):
    case.dir("d")
    case.file("d/f", size=10)
    if listed:
        case.list("d")
    assert status_of(client.rename, case.path("d/nothing"), case.path("d/x")) == errors.NOENT
    assert status_of(client.rename, case.path("d/nothing"), case.path("d/f")) == errors.NOENT
    assert client.names(case.path("d")) == [b"f"]


def test_to_a_name_too_long(case, client, place):
    case.file()
    case.enter(place, "f")
    assert status_of(client.rename, case.path("f"), case.path("x" * 256)) == errors.NAMETOOLONG
    assert client.names(case.path()) == [b"f"]


def test_without_permission(case, client, world, place):
    case.dir("d", mode=0o755)
    case.dir("open", mode=0o777)
    case.file("d/f", size=10, mode=0o666)
    case.enter(place, "d/f")
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        for target in ("open/f", "d/g"):
            assert status_of(stranger.rename, case.path("d/f"), case.path(target)) in (
                errors.ACCES, errors.PERM)
    assert client.names(case.path("d")) == [b"f"]
    assert client.names(case.path("open")) == []


# -- the old server is not there, or slow ----------------------------------------------

def test_while_the_old_server_is_gone(case, client, world):
    """Between listed directories nobody asks it; from and into unlisted ones it waits."""
    for d in ("listed", "other", "unlisted"):
        case.dir(d)
        for name in ("f", "g", "stays"):
            case.file("%s/%s" % (d, name), size=10)
    for name in ("f", "g"):
        case.reach("unlisted/" + name)
    case.list("listed")
    case.list("other")
    fhs = {d: client.fh(case.path(d)) for d in ("listed", "other", "unlisted")}
    world.fake.pause()
    hasty = client.patient(0)
    hasty.rename((fhs["listed"], b"f"), (fhs["other"], b"new"))
    case.moved("listed/f", "other/new")
    hasty.rename((fhs["listed"], b"g"), (fhs["other"], b"g"))
    case.moved("listed/g", "other/g")
    for old, new in (("unlisted", "other"), ("other", "unlisted")):
        assert status_of(hasty.rename, (fhs[old], b"f"), (fhs[new], b"x")) == errors.DELAY
    # over a name that is here already nobody needs to ask for it
    hasty.rename((fhs["other"], b"f"), (fhs["unlisted"], b"f"))
    case.moved("other/f", "unlisted/f")
    world.fake.resume()
    client.rename((fhs["unlisted"], b"f"), (fhs["other"], b"x"))
    case.moved("unlisted/f", "other/x")
    assert client.names(fhs["unlisted"]) == [b"g", b"stays"]
    assert client.names(fhs["other"]) == [b"g", b"new", b"stays", b"x"]


@pytest.mark.parametrize("over", ["nothing", "partial"])
def test_while_it_is_filled(case, client, world, over):
    """The bytes go to the inode, not to the name."""
    case.file("a")
    case.file("b") if over == "partial" else None
    case.enter("partial", "a")
    fh, node, gate = client.fh(case.path("a")), case.node("a"), Gate()
    world.fake.hook("READ", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client.patient(0).read, fh, 0, 100) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a READ at the old server")
        client.patient(0).rename(case.path("a"), case.path("b"))
        client.patient(0).create(case.path("a"), how="guarded")
    finally:
        gate.open()
    case.moved("a", "b")
    case.made("a", data=b"")
    same(client.read_file(case.path("b")), case.data("b"))
    assert client.getattr(case.path("a")).size == 0


# -- open files --------------------------------------------------------------------------

def test_an_open_file(case, client4, place):
    case.file()
    case.enter(place, "f")
    f = client4.open(case.path("f"), write=True)
    client4.rename(case.path("f"), case.path("g"))
    case.moved("f", "g")
    client4.write(f, 2 * BLOCK, b"through the old open")
    case.write("g", 2 * BLOCK, b"through the old open")
    same(client4.read(f, 0, SIZE)[0], case.data("g"))
    client4.close_file(f)
    same(client4.read_file(case.path("g")), case.data("g"))


def test_over_an_open_file(case, client4, place):
    """What was replaced stays whole for who has it open."""
    for name in "ab":
        case.file(name)
    case.enter(place, "a", "b")
    data, f = case.data("b"), client4.open(case.path("b"))
    client4.rename(case.path("a"), case.path("b"))
    case.moved("a", "b")
    same(client4.read(f, 0, SIZE)[0], data)
    same(client4.read_file(case.path("b")), case.data("b"))
    client4.close_file(f)


def test_over_a_name_whose_file_has_another(case, client):
    """Replacing takes a name away: an unlisted directory is listed first.  The file was only
    looked up there, and nothing leads the crawler to it once that name is gone."""
    case.dir("d")
    case.file("d/f"), case.file("d/other"), case.file("g")
    case.list()
    client.link(case.path("d/f"), case.path("kept"))
    case.linked("kept", "d/f")
    client.rename(case.path("g"), case.path("d/f"))
    case.moved("g", "d/f")
