# SPDX-License-Identifier: GPL-3.0-or-later
"""Over SMB, in directories and on objects in every state: create, remove, rename, link,
attributes, EAs.  What is removed never comes back, what the old server has is there."""
import os

import pytest

from lib.case import ANY, DIRS, OLD, PLACES, SIZE
from lib.expect import same, smb_status
from lib.smb import ALL, EPOCH, UNIX
from lib.world import BothWorld
from nfsclient.nfstypes import DIR
from smb2client import wire

WORLD = BothWorld
DELETE = wire.DELETE | wire.READ_ATTRIBUTES


# -- looking ------------------------------------------------------------------------

def test_stat(case, smb, place):
    case.file(mode=0o644)
    case.enter(place, "f")
    info = smb.stat(case.path("f"))
    assert info.size == SIZE and info.nlink == 1
    assert info.written == EPOCH + case.node("f").mtime // 100
    assert bool(info.attributes & wire.ATTR_OFFLINE) == (place != "normal")
    assert not case.world.calls("READ", case.node("f")) or place in ("normal", "some")


def test_one_name_lists_nothing(case, smb):
    case.file()
    case.dir("d")
    case.file("d/g")
    smb.stat(case.path("d/g"))
    assert not case.world.listings(case.node("d")) and not case.world.listings(case.node())


def test_another_case_lists(case, smb, place):
    case.file("MiXed")
    case.enter(place, "MiXed")
    assert smb.stat(case.path("mIxED")).size == SIZE
    same(smb.read_file(case.path("MIXED")), case.data("MiXed"))


def test_a_missing_name(case, smb, place):
    case.file()
    case.enter(place, "f")
    assert smb_status(smb.stat, case.path("none")) == "OBJECT_NAME_NOT_FOUND"
    assert smb_status(smb.stat, case.path("none/below")) == "OBJECT_PATH_NOT_FOUND"


def test_list(case, smb, place):
    for name in ("a", "b"):
        case.file(name)
    case.dir("c")
    case.enter(place, "a")
    assert smb.names(case.path()) == ["a", "b", "c"]
    for entry in smb.listdir(case.path()):
        if entry.name != "c":
            assert entry.size == SIZE
            assert entry.written == EPOCH + case.node(entry.name).mtime // 100
    assert not case.world.calls("READ", case.node("b"))


# -- create --------------------------------------------------------------------------

def test_create(case, smb, place):
    case.file()
    case.enter(place, "f")
    smb.open(case.path("new"), ALL, wire.CREATE_NEW).close()
    case.made("new")
    smb.mkdir(case.path("newdir"))
    case.made("newdir", DIR)
    assert smb.names(case.path()) == ["f", "new", "newdir"]


def test_what_the_old_server_has_is_there(case, smb, place):
    """Creating it anew collides, whether anybody has looked or not."""
    case.file()
    case.dir("d")
    case.enter(place, "f")
    assert smb_status(smb.open, case.path("f"), ALL, wire.CREATE_NEW) == "OBJECT_NAME_COLLISION"
    assert smb_status(smb.mkdir, case.path("d")) == "OBJECT_NAME_COLLISION"
    with smb.open(case.path("f"), ALL, wire.OPEN_IF) as f:
        same(f.read(), case.data("f"))


@pytest.mark.parametrize("state", DIRS)
def test_create_below(case, smb, state):
    case.dir("d")
    case.file("d/old")
    case.enter_dir(state)
    smb.write_file(case.path("d/new"), b"new")
    case.made("d/new").data = b"new"
    assert smb.names(case.path("d")) == ["new", "old"]


@pytest.fixture(scope="module")
def exact(world, new_samba):
    """A session of another smbd on the volume: looking for a name in another case would list."""
    was = world.smbd
    server = new_samba("exact", world.volume, vfs=was.shares[0].vfs, more="case sensitive = yes",
                       module_dir=was.module_dir, release=was.release)
    with server.client() as c:
        yield c


def test_a_directory_made_lists_nothing(case, exact):
    """Of the directory that it is made in only the name is asked for: Samba 4.22 makes it under
    another one first.  Where the old server has the name, nothing is left of that."""
    case.dir("d")
    case.file("d/f")
    case.dir("d/old")
    case.enter_dir("unlisted")
    exact.mkdir(case.path("d/new"))
    case.made("d/new", DIR)
    assert smb_status(exact.mkdir, case.path("d/old")) == "OBJECT_NAME_COLLISION"
    assert not case.world.listings(case.node("d"))
    asked = {bytes(call.name) for call in case.world.calls("LOOKUP", case.node("d"))}
    assert asked <= {b"new", b"old"}, asked
    assert sorted(os.listdir(case.world.volume / case.path("d"))) == ["new", "old"]
    assert exact.names(case.path("d")) == ["f", "new", "old"]


# -- remove --------------------------------------------------------------------------

def test_remove(case, smb, place):
    for name in ("f", "stays"):
        case.file(name)
    case.enter(place, "f", "stays")
    smb.remove(case.path("f"))
    case.gone("f")
    assert smb.names(case.path()) == ["stays"]
    assert smb_status(smb.stat, case.path("f")) == "OBJECT_NAME_NOT_FOUND"


def test_removed_and_made_again(case, smb, place):
    case.file()
    case.enter(place, "f")
    smb.remove(case.path("f"))
    case.gone("f")
    smb.write_file(case.path("f"), b"another")
    case.made("f").data = b"another"
    assert smb.read_file(case.path("f")) == b"another"


@pytest.mark.parametrize("state", DIRS)
def test_a_directory_with_entries_stays(case, smb, state):
    case.dir("d")
    case.file("d/old")
    case.enter_dir(state)
    assert smb_status(smb.remove, case.path("d")) == "DIRECTORY_NOT_EMPTY"
    same(smb.read_file(case.path("d/old")), case.data("d/old"))


@pytest.mark.parametrize("state", DIRS)
def test_an_empty_directory_goes(case, smb, state):
    case.dir("d")
    case.enter_dir(state)
    smb.remove(case.path("d"))
    case.gone("d")
    assert smb.names(case.path()) == []


def test_an_open_file_outlives_its_name(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f")) as f:
        with smb.open(case.path("f"), DELETE) as g:
            g.remove()
        same(f.read(), case.data("f"))
    case.gone("f")
    assert smb.names(case.path()) == []


# -- rename and link -----------------------------------------------------------------

def test_rename(case, smb, place):
    case.file()
    case.enter(place, "f")
    smb.rename(case.path("f"), case.path("g"))
    case.moved("f", "g")
    assert smb.names(case.path()) == ["g"]
    same(smb.read_file(case.path("g")), case.data("g"))


def test_rename_over(case, smb, place):
    for name in ("f", "g"):
        case.file(name)
    case.enter(place, "f", "g")
    assert smb_status(smb.rename, case.path("f"), case.path("g")) == "OBJECT_NAME_COLLISION"
    smb.rename(case.path("f"), case.path("g"), replace=True)
    case.moved("f", "g")
    same(smb.read_file(case.path("g")), case.data("g"))


@pytest.mark.parametrize("state", DIRS)
def test_rename_into(case, smb, state):
    """Also onto a name that only the old server knows of."""
    case.file()
    case.dir("d")
    case.file("d/old")
    case.enter_dir(state)
    assert smb_status(smb.rename, case.path("f"), case.path("d/old")) == "OBJECT_NAME_COLLISION"
    smb.rename(case.path("f"), case.path("d/f"))
    case.moved("f", "d/f")
    assert smb.names(case.path("d")) == ["f", "old"]


@pytest.mark.parametrize("state", DIRS)
def test_rename_a_directory(case, smb, state):
    case.dir("d")
    case.file("d/old")
    case.enter_dir(state)
    smb.rename(case.path("d"), case.path("e"))
    case.moved("d", "e")
    assert smb.names(case.path()) == ["e"]
    same(smb.read_file(case.path("e/old")), case.data("e/old"))


def test_link(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.link(case.path("l"))
    case.linked("l", "f")
    assert smb.stat(case.path("l")).nlink == 2
    same(smb.read_file(case.path("l")), case.data("f"))


def test_rename_over_a_name_whose_file_has_another(case, smb):
    """Replacing takes a name away: an unlisted directory is listed first, or nothing leads
    the crawler to the file, which was only looked up."""
    case.dir("d")
    case.file("d/f"), case.file("d/other"), case.file("g")
    case.list()
    with smb.open(case.path("d/f"), ALL) as f:
        f.link(case.path("kept"))
    case.linked("kept", "d/f")
    smb.rename(case.path("g"), case.path("d/f"), replace=True)
    case.moved("g", "d/f")


@pytest.mark.parametrize("place", [p for p in PLACES if p != "dummy"])
def test_hard_links_of_the_source(case, smb, place):
    case.file()
    case.hardlink("l", "f")
    case.enter(place, "f")
    assert smb.stat(case.path("f")).nlink == 2
    smb.remove(case.path("f"))
    case.gone("f")
    same(smb.read_file(case.path("l")), case.data("l"))


# -- attributes ----------------------------------------------------------------------

def test_times(case, smb, place):
    case.file()
    case.enter(place, "f")
    written = EPOCH + 1234567890 * UNIX + 7654321
    with smb.open(case.path("f"), ALL) as f:
        f.set_basic(written=written, created=written - UNIX)
    case.items["f"].mtime = (written - EPOCH) * 100
    info = smb.stat(case.path("f"))
    assert (info.written, info.created) == (written, written - UNIX)
    same(smb.read_file(case.path("f")), case.data("f"))
    assert smb.stat(case.path("f")).written == written


def test_dos_attributes(case, smb, place):
    """They are kept; OFFLINE is not among what is stored."""
    case.file()
    case.enter(place, "f")
    kept = wire.ATTR_HIDDEN | wire.ATTR_ARCHIVE
    with smb.open(case.path("f"), ALL) as f:
        f.set_basic(attributes=kept | wire.ATTR_OFFLINE)
    assert smb.stat(case.path("f")).attributes & ~wire.ATTR_OFFLINE == kept
    same(smb.read_file(case.path("f")), case.data("f"))
    case.world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")
    assert smb.stat(case.path("f")).attributes == kept


def test_eas(case, smb, place):
    case.file()
    case.enter(place, "f")
    with smb.open(case.path("f"), ALL) as f:
        f.set_ea(b"mine", b"value")
        assert f.eas() == {b"MINE": b"value"} or f.eas() == {b"mine": b"value"}
        f.set_ea(b"mine", b"")
        assert f.eas() == {}
    same(smb.read_file(case.path("f")), case.data("f"))


def test_descriptor(case, smb, place):
    """Looking at a descriptor and writing it back fetches no data."""
    case.file()
    case.enter(place, "f")
    before = len(case.world.calls("READ", case.node("f")))
    raw = smb.security(case.path("f"))
    smb.set_security(case.path("f"), raw)
    for key in ("mode", "uid", "gid"):
        setattr(case.items["f"], key, ANY)
    assert len(case.world.calls("READ", case.node("f"))) == before
    same(smb.read_file(case.path("f")), case.data("f"))


def test_fill_is_invisible(case, smb, place):
    """Nothing of what SMB shows moves when a file is filled and finished, but OFFLINE.
    (smbd takes the oldest of a file's times for that of its creation: not atime here,
    which the client moves by reading.)"""
    case.file(atime=OLD + 10 ** 10)
    case.enter(place, "f")

    def shown():
        info = smb.stat(case.path("f"))
        return (info.size, info.written, info.created, info.changed, info.nlink, info.fileid)

    def unmoved(now):
        return now[:3] == before[:3] and now[4:] == before[4:] and now[3] >= before[3]
    before = shown()
    same(smb.read_file(case.path("f")), case.data("f"))
    now = shown()
    assert now == before or not case.show("f")["stub"] and unmoved(now)     # it may be finished
    case.world.stubtool("ask", case.path("f"), "fill")
    case.finished("f")
    assert unmoved(shown())


# -- a long session --------------------------------------------------------------------

def test_no_descriptor_stays(case, world):
    """Whatever a client does, and whatever fails: its smbd has as many open as before."""
    before = set(world.smbd.processes())
    with world.smbd.client() as c:
        c.echo()
        (pid,) = set(world.smbd.processes()) - before
        counts = []
        for i in range(6):
            d = "d%d" % i
            case.dir(d)
            for name in ("f", "g", "h"):
                case.file("%s/%s" % (d, name))
            path = case.path(d)
            same(c.read_file(path + "/f"), case.data(d + "/f"))
            with c.open(path + "/g", ALL) as f:
                f.write(5, b"x")
                f.zero(100, 200)
                f.flush()
                with c.open(path + "/new", ALL, wire.CREATE_NEW) as to:
                    to.copy_chunks(f, [(0, 0, 1000)])
            case.write(d + "/g", 5, b"x")
            case.punch(d + "/g", 100, 100)
            case.made(d + "/new").data = case.data(d + "/g")[:1000]
            assert smb_status(c.stat, path + "/none") == "OBJECT_NAME_NOT_FOUND"
            assert smb_status(c.stat, path + "/f/none") == "OBJECT_PATH_NOT_FOUND"
            assert smb_status(c.mkdir, path + "/h") == "OBJECT_NAME_COLLISION"
            assert smb_status(c.remove, path) == "DIRECTORY_NOT_EMPTY"
            assert smb_status(c.rename, path + "/f", path + "/h") == "OBJECT_NAME_COLLISION"
            c.rename(path + "/f", path + "/h", replace=True)
            case.moved(d + "/f", d + "/h")
            c.remove(path + "/new")
            case.gone(d + "/new")
            assert c.names(path) == ["g", "h"]
            counts.append(len(os.listdir("/proc/%d/fd" % pid)))
        assert len(set(counts[1:])) == 1, counts
