# SPDX-License-Identifier: GPL-3.0-or-later
"""RENAME of directories: their entries go with them, known here or not; what the old
server has in a directory keeps it from being replaced."""
import pytest

from lib.case import DIRS
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfstypes import DIR

ATTR_CACHE = 0
FULL = (errors.NOTEMPTY, errors.EXIST)


# -- over another directory ---------------------------------------------------------

@pytest.mark.parametrize("target", DIRS)
@pytest.mark.parametrize("moved", ["listed", "unlisted", "cold"])
def test_directory_over_an_empty_one(case, client, moved, target):
    for d in ("a", "b"):
        case.dir(d)
    case.file("a/f", size=3000)
    case.dir("a/sub")
    case.file("a/sub/g", size=30)
    source, over = case.enter_dir(moved, "a"), case.enter_dir(target, "b")
    above = client.getattr(case.path()).nlink
    client.rename(source, over)
    case.moved("a", "b")
    assert client.getattr(case.path()).nlink == above - 1
    assert client.names(over) == [b"f", b"sub"]
    same(client.read_file(over + "/f"), case.data("b/f"))
    same(client.read_file(over + "/sub/g"), case.data("b/sub/g"))


@pytest.mark.parametrize("target", DIRS)
def test_directory_over_one_that_is_not_empty(case, client, target):
    """Decided by the old server's entries; nothing has moved then."""
    for d in ("a", "b"):
        case.dir(d)
        case.file("%s/%s" % (d, d), size=10)
    over = case.enter_dir(target, "b")
    before = client.fh(case.path("a"))
    assert status_of(client.rename, case.path("a"), over) in FULL
    assert client.fh(case.path("a")) == before
    assert (client.names(case.path("a")), client.names(over)) == ([b"a"], [b"b"])
    client.remove(over + "/b")
    client.rename(case.path("a"), over)
    case.gone("b")
    case.moved("a", "b")
    assert client.names(over) == [b"a"]


# -- and what is in them ---------------------------------------------------------------

@pytest.mark.parametrize("where", DIRS)
def test_unlisted_directories_bring_their_entries(case, client, where):
    """Whatever was not here yet arrives at the new place: at once, or by the crawl."""
    case.dir("to")
    for d in ("now", "later"):
        case.dir(d)
        case.dir(d + "/sub")
        case.file(d + "/sub/g", size=3000)
        for i in range(5):
            case.file("%s/f%d" % (d, i), size=100 + i)
    for d in ("now", "later"):
        client.rename(case.enter_dir(where, d), case.path("to/" + d))
        case.moved(d, "to/" + d)
    same(client.read_file(case.path("to/now/sub/g")), case.data("to/now/sub/g"))
    same(client.read_file(case.path("to/now/f3")), case.data("to/now/f3"))
    assert client.names(case.path("to/now")) == [b"f%d" % i for i in range(5)] + [b"sub"]
    assert client.names(case.path()) == [b"to"]
    assert client.names(case.path("to")) == [b"later", b"now"]


@pytest.mark.parametrize("where", DIRS)
def test_directory_then_mkdir_of_the_old_name(case, client, where):
    case.dir("d")
    case.file("d/f", size=10)
    path = case.enter_dir(where, "d")
    client.rename(path, case.path("e"))
    case.moved("d", "e")
    client.mkdir(path, mode=0o700)
    case.made("d", DIR, mode=0o700)
    assert client.names(path) == []
    assert status_of(client.lookup, path + "/f") == errors.NOENT
    assert client.names(case.path("e")) == [b"f"]


def test_a_directory_that_is_being_listed(case, client, world):
    case.dir("d")
    for i in range(5):
        case.file("d/f%d" % i, size=10)
    case.list()
    fh, node, gate = client.fh(case.path("d")), case.node("d"), Gate()
    world.fake.hook("READDIRPLUS", only(lambda c: c.node is node, gate))
    try:
        assert status_of(client.patient(0).readdir_page, fh) == errors.DELAY
        wait_until(lambda: gate.waiting, 60, "a listing at the old server")
        client.patient(0).rename(case.path("d"), case.path("e"))
    finally:
        gate.open()
    case.moved("d", "e")
    assert client.names(case.path("e")) == [b"f%d" % i for i in range(5)]
    assert client.names(case.path()) == [b"e"]


@pytest.mark.parametrize("where", DIRS)
def test_into_itself(case, client, where):
    case.dir("d")
    case.dir("d/sub")
    path = case.enter_dir(where, "d")
    for target in (path + "/x", path + "/sub/x", path + "/sub"):
        assert status_of(client.rename, path, target) in (errors.INVAL,) + FULL
    assert client.names(path) == [b"sub"]
    assert client.names(path + "/sub") == []


@pytest.mark.parametrize("where", ["listed", "unlisted", "looked"])
def test_over_what_it_is_in(case, client, where):
    """d/sub -> d is never possible: d is not empty."""
    case.dir("d")
    case.dir("d/sub")
    path = case.enter_dir(where, "d")
    assert status_of(client.rename, path + "/sub", path) in (errors.INVAL,) + FULL
    assert client.names(path) == [b"sub"]


def test_dot_dot_of_a_moved_directory(case, client3):
    case.dir("a")
    case.dir("a/d")
    case.dir("b")
    client3.rename(case.path("a/d"), case.path("b/d"))
    case.moved("a/d", "b/d")
    assert client3.lookup((client3.fh(case.path("b/d")), b".."))[0] == client3.fh(case.path("b"))
