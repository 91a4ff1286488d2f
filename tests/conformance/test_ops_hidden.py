# SPDX-License-Identifier: GPL-3.0-or-later
""".postcopy and the records: no client sees, reaches or changes them."""
import os

import pytest

from lib.expect import same, status_of
from lib.volume import kernel_handle
from nfsclient import errors
from nfsclient.nfs4 import OPS, Compound
from nfsclient.nfstypes import DIR, FH, FIFO
from nfsclient.xdr import Packer

ATTR_CACHE = 0
HIDDEN = b".postcopy"
INSIDE = [".postcopy", ".postcopy/volume.conf", ".postcopy/journal",
          ".postcopy/journal/data.mdb", ".postcopy/staging", ".postcopy/provisional",
          ".postcopy/lock", ".postcopy/state"]
# Other ways to write it; NFSv3 servers get names as bytes.
DETOURS = [b".postcopy/volume.conf", b".postcopy/staging", b"./.postcopy", b".postcopy/",
           b".postcopy/.", b"../volume/.postcopy", b"/.postcopy"]
GONE = (errors.NOENT, errors.ACCES, errors.INVAL, errors.BADNAME, errors.BADCHAR, errors.PERM,
        errors.ISDIR, errors.NOTDIR)


def inside(world):
    """Everything in .postcopy but what changes by itself."""
    found = []
    for top, dirs, files in os.walk(world.volume / ".postcopy"):
        # the first file that is whole brings the one of digests, the first that is made the directories for that
        found += [os.path.join(top, n) for n in dirs + files if n != "digests" and not n.startswith(".a")]
    return sorted(found)


@pytest.fixture(autouse=True)
def nothing_new_inside(world):
    before = inside(world)
    conf = (world.volume / ".postcopy/volume.conf").read_bytes()
    yield
    assert inside(world) == before
    assert (world.volume / ".postcopy/volume.conf").read_bytes() == conf


def test_lookup(client):
    assert status_of(client.lookup, (client.root, HIDDEN)) == errors.NOENT


@pytest.mark.parametrize("name", DETOURS)
def test_lookup_by_a_detour(client, name):
    assert status_of(client.lookup, (client.root, name)) in GONE


@pytest.mark.parametrize("name", [HIDDEN] + DETOURS)
@pytest.mark.parametrize("kind", ["unchecked", "guarded", "exclusive", "mkdir", "symlink", "fifo"])
def test_make(client, kind, name):
    make = {"mkdir": lambda t: client.mkdir(t), "symlink": lambda t: client.symlink(t, "x"),
            "fifo": lambda t: client.mknod(t, FIFO)}.get(
                kind, lambda t: client.create(t, how=kind))
    assert status_of(make, (client.root, name)) in GONE + (errors.EXIST,)


@pytest.mark.parametrize("name", [b".postcopy/staging/evil", b".postcopy/evil"])
@pytest.mark.parametrize("kind", ["create", "mkdir", "symlink", "rename", "link"])
def test_make_inside(case, client, kind, name):
    case.file(size=10)
    place = (client.root, name)
    call = {"create": lambda: client.create(place), "mkdir": lambda: client.mkdir(place),
            "symlink": lambda: client.symlink(place, "x"),
            "rename": lambda: client.rename(case.path("f"), place),
            "link": lambda: client.link(case.path("f"), place)}[kind]
    assert status_of(call) in GONE


@pytest.mark.parametrize("name", [HIDDEN, b"./.postcopy", b".postcopy/volume.conf"])
def test_rename_to_it(case, client, name):
    case.file(size=10)
    case.dir("d")
    for what in ("f", "d"):
        assert status_of(client.rename, case.path(what), (client.root, name)) in GONE
    client.lookup(case.path("f"))


@pytest.mark.parametrize("name", [HIDDEN, b"./.postcopy", b".postcopy/volume.conf"])
def test_rename_it_away(case, client, name):
    case.dir("d")
    assert status_of(client.rename, (client.root, name), case.path("d/mine")) in GONE


def test_link_to_it(case, client):
    case.file(size=10)
    assert status_of(client.link, case.path("f"), (client.root, HIDDEN)) in GONE


@pytest.mark.parametrize("name", [HIDDEN, b"./.postcopy", b".postcopy/volume.conf",
                                  b".postcopy/staging"])
def test_remove(client, name):
    assert status_of(client.remove, (client.root, name)) in GONE
    assert status_of(client.rmdir, (client.root, name)) in GONE


def forged(world, client, path):
    """A file handle as the server would make it of a path, had it let us look."""
    known = world.volume / "probe"
    if not known.exists():
        client.create((client.root, b"probe"))
    fh = client.fh((client.root, b"probe"))
    kind, mine = kernel_handle(known)
    wanted, theirs = kernel_handle(world.volume / path)
    assert fh.count(mine) == 1 and kind == wanted and len(mine) == len(theirs)
    return FH(fh.replace(mine, theirs)), fh


@pytest.mark.parametrize("path", INSIDE)
def test_forged_file_handle(world, client, path):
    """Guessing a handle leads nowhere either."""
    target, _ = forged(world, client, path)
    for call in (lambda: client.getattr(target), lambda: client.access(target, 0x3f),
                 lambda: client.read(target, 0, 100), lambda: client.lookup((target, b"journal")),
                 lambda: client.names(target), lambda: client.mkdir((target, b"evil")),
                 lambda: client.write(target, 0, b"evil"), lambda: client.setattr(target, mode=0)):
        assert status_of(call) in (errors.STALE, errors.BADHANDLE, errors.FHEXPIRED)


def test_forging_works_elsewhere(case, world, client):
    """The trick of the test above does lead to ordinary objects."""
    case.file(size=10)
    case.list()
    target, _ = forged(world, client, case.path("f"))
    assert client.getattr(target).size == 10
    same(client.read(target, 0, 100)[0], case.data("f"))


def test_the_name_is_free_elsewhere(case, client):
    """Only the root's is ours."""
    case.dir("d")
    case.file("d/.postcopy", size=100)
    assert client.read_file(case.path("d/.postcopy")) == case.data("d/.postcopy")
    client.mkdir(case.path(".postcopy"))
    case.made(".postcopy", DIR, mode=0o755)
    assert client.names(case.path()) == [b".postcopy", b"d"]
    client.rmdir(case.path(".postcopy"))
    case.gone(".postcopy")


def test_dot_dot_does_not_lead_in(case, client3):
    """v3 has LOOKUP of "." and ".."."""
    case.dir("d")
    assert client3.lookup((client3.fh(case.path("d")), b".."))[0] == client3.fh(case.path())
    assert client3.lookup((client3.root, b"."))[0] == client3.root


def test_names_with_a_slash(case, client):
    case.dir("d")
    case.file("d/f", size=10)
    fh = client.fh(case.path())
    client.lookup(case.path("d/f"))
    for call in (client.lookup, client.remove, client.mkdir, client.create):
        assert status_of(call, (fh, b"d/f")) in (errors.INVAL, errors.BADNAME, errors.BADCHAR,
                                                 errors.ACCES)
    assert status_of(client.rename, (fh, b"d/f"), (fh, b"g")) in (
        errors.INVAL, errors.BADNAME, errors.BADCHAR, errors.ACCES)
    assert client.exists(case.path("d/f"))


def test_no_named_attributes(case, client4):
    """No way to the record: named attributes cannot be opened, nor xattrs asked for."""
    case.file(size=10)
    case.enter("partial", "f")
    OPS.setdefault("OPENATTR", 19)
    compound = Compound().putfh(client4.fh(case.path("f")))
    compound.add("OPENATTR", Packer().boolean(False))
    assert status_of(client4.run, compound) in (errors.NOTSUPP, errors.NOENT)


def test_zz_readdir_of_the_root(world, client):
    """Lists the old server's root, so it comes last; every test's directory is there."""
    names = client.names()
    assert HIDDEN not in names
    assert {c.name.encode() for c in world.cases} <= set(names)
    if client.proto == "v3":
        assert HIDDEN not in [e.name for e in client.listdir(attrs=True, dots=True)]
    assert [n for n in names if not n.startswith(b"t")] in ([], [b"probe"])
