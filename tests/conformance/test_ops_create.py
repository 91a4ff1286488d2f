# SPDX-License-Identifier: GPL-3.0-or-later
"""CREATE, MKDIR, SYMLINK, MKNOD: in listed and unlisted directories, and the
names that only the old server knows."""
import pytest

from lib.case import pattern
from lib.expect import same, status_of
from nfsclient import errors
from nfsclient.nfstypes import BLK, CHR, DIR, FIFO, LNK, REG, SOCK
from nfsclient.rpc import AuthSys

ATTR_CACHE = 0
HOW = ("unchecked", "guarded", "exclusive")


def make(client, kind, path):
    """Make an object of a kind; returns what the model needs."""
    if kind in HOW:
        client.create(path, mode=0o644, how=kind)
        return REG, dict(mode=0o644, uid=0, gid=0)
    if kind == "mkdir":
        client.mkdir(path, mode=0o751)
        return DIR, dict(mode=0o751, uid=0, gid=0)
    if kind == "symlink":
        client.symlink(path, "where/ever")
        return LNK, dict(target=b"where/ever", uid=0, gid=0)
    ftype, rdev = {"fifo": (FIFO, (0, 0)), "socket": (SOCK, (0, 0)), "char": (CHR, (1, 3)),
                   "block": (BLK, (7, 300))}[kind]
    client.mknod(path, ftype, mode=0o620, rdev=rdev)
    return ftype, dict(mode=0o620, uid=0, gid=0, rdev=rdev)


KINDS = HOW + ("mkdir", "symlink", "fifo", "socket", "char", "block")


@pytest.fixture(params=["listed", "unlisted", "dummy_dir"])
def parent(case, request):
    """The directory in which things are made, with a file of the source in it."""
    case.dir("d")
    case.file("d/old", size=1000)
    case.list()
    if request.param == "listed":
        case.list("d")
    elif request.param == "dummy_dir":
        case.world.stubtool("dummy", case.path("d"))
    return "d"


@pytest.mark.parametrize("kind", KINDS)
def test_make(case, client, parent, kind):
    ftype, what = make(client, kind, case.path("d/new"))
    case.made("d/new", ftype, **what)
    attrs = client.getattr(case.path("d/new"))
    assert attrs.type == ftype
    assert sorted(client.names(case.path("d"))) == [b"new", b"old"]


@pytest.mark.parametrize("kind", KINDS)
def test_make_where_the_source_has_the_name(case, client, parent, kind):
    """EEXIST is decided by the source's entries, listed or not."""
    if kind == "unchecked":
        fh, attrs = client.create(case.path("d/old"), mode=0o640)
        assert attrs.size == 1000
    else:
        assert status_of(make, client, kind, case.path("d/old")) == errors.EXIST
    assert client.getattr(case.path("d/old")).mtime == case.node("d/old").mtime


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("kind", ["guarded", "mkdir", "symlink", "fifo"])
def test_make_where_the_source_has_a_directory(case, client, kind, listed):
    case.dir("d")
    case.dir("d/sub")
    case.file("d/sub/f", size=10)
    if listed:
        case.list("d")
    assert status_of(make, client, kind, case.path("d/sub")) == errors.EXIST


@pytest.mark.parametrize("kind", ["unchecked", "exclusive", "mkdir", "symlink", "fifo"])
def test_make_in_an_unlisted_directory_lists_nothing(case, client, world, kind):
    """LOOKUPs of that name; the directory's width does not matter."""
    case.dir("d")
    for i in range(50):
        case.file("d/f%d" % i, size=10)
    case.reach("d")
    before = len(world.calls("LOOKUP", case.node("d")))
    ftype, what = make(client, kind, case.path("d/new"))
    case.made("d/new", ftype, **what)
    assert world.listings(case.node("d")) == 0
    assert len(world.calls("LOOKUP", case.node("d"))) - before <= 3
    assert case.show("d")["needs"] == ["entries"]


@pytest.mark.parametrize("kind", ["unchecked", "mkdir"])
def test_made_before_the_listing_wins_over_nothing(case, client, kind):
    """What a client made in an unlisted directory is there once, beside the rest."""
    case.dir("d")
    for i in range(20):
        case.file("d/f%d" % i, size=10)
    ftype, what = make(client, kind, case.path("d/f-new"))
    case.made("d/f-new", ftype, **what)
    names = client.names(case.path("d"))
    assert names == sorted([b"f%d" % i for i in range(20)] + [b"f-new"])


def test_make_and_fill_a_new_file(case, client, parent):
    data = pattern(200000, 3)
    client.write_file(case.path("d/new"), data)
    case.made("d/new", mode=0o644, data=data)
    same(client.read_file(case.path("d/new")), data)
    assert not case.show("d/new")["stub"]


def test_make_in_a_directory_made_here(case, client):
    case.reach()
    client.mkdir(case.path("new"))
    case.made("new", DIR, mode=0o755)
    client.mkdir(case.path("new/er"))
    case.made("new/er", DIR, mode=0o755)
    client.write_file(case.path("new/er/f"), b"abc")
    case.made("new/er/f", data=b"abc", mode=0o644)
    assert client.names(case.path("new/er")) == [b"f"]


def test_directory_times_move_by_making_only(case, client, parent):
    before = client.getattr(case.path("d"))
    assert before.mtime == case.node("d").mtime
    client.names(case.path("d"))
    assert client.getattr(case.path("d")).mtime == before.mtime
    client.create(case.path("d/new"))
    case.made("d/new")
    after = client.getattr(case.path("d"))
    assert after.mtime > before.mtime and after.ctime > before.ctime
    client.names(case.path("d"))
    assert client.getattr(case.path("d")).mtime == after.mtime


def test_mkdir_counts_as_link_of_its_parent(case, client, parent):
    before = client.getattr(case.path("d")).nlink
    client.mkdir(case.path("d/sub"))
    case.made("d/sub", DIR, mode=0o755)
    assert client.getattr(case.path("d")).nlink == before + 1
    client.create(case.path("d/file"))
    case.made("d/file")
    assert client.getattr(case.path("d")).nlink == before + 1


def test_exclusive_create_is_repeatable(case, client, parent):
    """A retransmitted CREATE with the same verifier finds its own file."""
    path = case.path("d/new")
    first = client.create(path, how="exclusive", verifier=b"verifier")[0]
    case.made("d/new")
    if client.proto == "v3":       # SETATTR after it has overwritten the verifier
        return
    assert first == client.lookup(path)[0]


def test_exclusive_create_twice(case, client3, parent):
    fh, name = client3.place(case.path("d/new"))
    first = client3.raw.create(fh, name, how="exclusive", verifier=b"verifier")[0]
    again = client3.raw.create(fh, name, how="exclusive", verifier=b"verifier")[0]
    assert first == again
    assert status_of(client3.raw.create, fh, name, how="exclusive",
                     verifier=b"another!") == errors.EXIST
    case.made("d/new")


def test_create_in_a_file(case, client):
    case.file()
    case.enter("partial", "f")
    fh = client.fh(case.path("f"))
    assert status_of(client.create, (fh, b"x")) == errors.NOTDIR
    assert status_of(client.mkdir, (fh, b"x")) == errors.NOTDIR


def test_create_without_permission(case, client, world, parent):
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        assert status_of(stranger.create, case.path("d/new")) == errors.ACCES
        assert status_of(stranger.mkdir, case.path("d/new")) == errors.ACCES
    assert not client.exists(case.path("d/new"))


@pytest.mark.parametrize("name", [b"caf\xe9", b"new\nline", b" ", b"...", b"x" * 255])
def test_odd_names(case, client, parent, name):
    fh = client.fh(case.path("d"))
    client.create((fh, name))
    case.made("d/" + name.decode("utf-8", "surrogateescape"))
    assert name in client.names(fh)


@pytest.mark.parametrize("name", [b".", b"..", b"", b"a/b"])
def test_names_that_cannot_be(case, client, parent, name):
    fh = client.fh(case.path("d"))
    assert status_of(client.mkdir, (fh, name)) in (
        errors.EXIST, errors.INVAL, errors.BADNAME, errors.ACCES, errors.BADCHAR)
    assert client.names(fh) == [b"old"]


def test_name_too_long(case, client, parent):
    assert status_of(client.create, case.path("d/" + "x" * 256)) == errors.NAMETOOLONG
    assert status_of(client.mkdir, case.path("d/" + "x" * 256)) == errors.NAMETOOLONG


def test_create_while_the_old_server_is_gone(case, client, world):
    """In a listed directory nobody asks it; in an unlisted one the name waits."""
    for d in ("listed", "unlisted"):
        case.dir(d)
        case.file(d + "/old", size=10)
    case.list()
    case.list("listed")
    fhs = {d: client.fh(case.path(d)) for d in ("listed", "unlisted")}
    world.fake.pause()
    hasty = client.patient(0)
    hasty.create((fhs["listed"], b"new"))
    case.made("listed/new")
    assert status_of(hasty.create, (fhs["unlisted"], b"new")) == errors.DELAY
    world.fake.resume()
    client.create((fhs["unlisted"], b"new"))
    case.made("unlisted/new")
