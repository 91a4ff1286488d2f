# SPDX-License-Identifier: GPL-3.0-or-later
"""Ganesha's own cache of attributes (here as it is by default: a minute) and what other
processes do to the volume while nobody can tell it: clients see it within two seconds
(docs/decisions/0008).  test_upcalls.py is about a server that is told."""
import os
import time

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, view
from lib.wait import wait_until

BOUND = 2.0            # what the manual says
PATIENCE = 30.0        # on a busy machine; untold it would be a minute


@pytest.fixture(scope="module", autouse=True)
def untold(moddir):
    """Before anything starts: no place for the ring that news go through."""
    (moddir / "world" / "ask.sock.news1").mkdir(parents=True)


def local(case, name=""):
    return os.lstat(case.world.volume / case.path(name))


def shown(client, case, name=""):
    return client.getattr(case.path(name))


def seen_within(client, case, name, condition, what):
    """Poll a cached object until a client sees it; returns the seconds it took."""
    fh = client.fh(case.path(name))
    start = time.monotonic()
    wait_until(lambda: condition(client.getattr(fh)), PATIENCE, what)
    return time.monotonic() - start


@pytest.mark.parametrize("stub", ["partial", "some", "dummy"])
def test_completion_is_noticed(case, client, stub):
    """Change time and space are the file system's own once another process is done."""
    case.file()
    case.enter(stub, "f")
    before = shown(client, case, "f")
    assert before.ctime == case.node("f").ctime and before.used >= SIZE
    case.enter("normal", "f")
    st = local(case, "f")
    assert st.st_ctime_ns != before.ctime
    seen_within(client, case, "f", lambda a: a.ctime == st.st_ctime_ns, "local change time")
    after = view(shown(client, case, "f"))
    for key in ("type", "mode", "nlink", "uid", "gid", "size", "mtime", "fileid"):
        assert after[key] == getattr(before, key), key


def test_completion_is_noticed_through_a_listing(case, client):
    """Attributes that were cached by READDIR expire as soon."""
    for name in ("a", "b", "c"):
        case.file(name)
    case.list()
    before = {e.name: e.attrs for e in client.listdir(case.path())}
    case.enter("normal", "a", "b", "c")
    for name in ("a", "b", "c"):
        st = local(case, name)
        assert before[name.encode()].ctime != st.st_ctime_ns
        seen_within(client, case, name, lambda a, st=st: a.ctime == st.st_ctime_ns, name)


def test_a_directory_listed_by_others(case, client):
    """Its size is the local one, and its names are there at once."""
    case.dir("d")
    for i in range(300):
        case.file("d/a-rather-long-name-%03d" % i, size=10)
    case.list()
    before = shown(client, case, "d")
    case.list("d")
    assert len(client.names(case.path("d"))) == 300
    st = local(case, "d")
    seen_within(client, case, "d", lambda a: a.size == st.st_size, "size of the directory")
    after = shown(client, case, "d")
    assert (after.mtime, after.nlink, after.mode) == (before.mtime, before.nlink, before.mode)


def test_attributes_that_come_are_never_waited_for(case, client):
    """A dummy is not shown, so nobody has the wrong attributes in his cache."""
    case.file(mode=0o4751)
    case.enter("dummy", "f")
    for attrs in (client.lookup(case.path("f"))[1], shown(client, case, "f"),
                  client.listdir(case.path())[0].attrs):
        assert (attrs.mode, attrs.size, attrs.mtime) == (
            0o4751, SIZE, case.node("f").mtime)


def test_names_made_by_others(case, client, world):
    """A name that was looked up by another process, and one that nobody knew."""
    case.dir("d")
    case.file("d/known"), case.file("d/late")
    case.list()
    assert not client.exists(case.path("d/nothing"))
    world.stubtool("ask", case.path("d"), "lookup", "known")
    assert client.lookup(case.path("d/known"))[1].size == SIZE
    case.list("d")
    assert client.lookup(case.path("d/late"))[1].size == SIZE
    assert client.names(case.path("d")) == [b"known", b"late"]


def test_data_is_never_cached(case, client):
    """Bytes are looked for at each READ, whoever brings them."""
    case.file()
    case.enter("partial", "f")
    with client.opened(case.path("f"), write=True) as f:
        same(client.read(f, BLOCK, 100)[0], case.data("f")[BLOCK:BLOCK + 100])
        case.enter("normal", "f")
        same(client.read(f, 0, 1000)[0], case.data("f")[:1000])
        client.write(f, 10, b"mine")
        case.write("f", 10, b"mine")
        same(client.read(f, 0, 1000)[0], case.data("f")[:1000])


def test_one_clients_change_is_seen_by_another_at_once(case, client, world):
    """Through one server there is one cache: no bound, whatever the object is."""
    case.file()
    case.enter("partial", "f")
    with world.client("v3") as other:
        for size in (100, SIZE, 5000):
            assert other.getattr(case.path("f")).size == len(case.data("f"))
            client.setattr(case.path("f"), size=size)
            case.resize("f", size)
            assert other.getattr(case.path("f")).size == size
        client.setattr(case.path("f"), mode=0o611)
        case.items["f"].mode = 0o611
        assert other.getattr(case.path("f")).mode == 0o611


def test_a_normal_file_is_cached_as_long_as_ever(case, client3, world):
    """The short life is that of stubs: a chmod behind the server's back is not seen."""
    case.file()
    case.enter("normal", "f")
    assert shown(client3, case, "f").mode == 0o640
    os.chmod(world.volume / case.path("f"), 0o600)
    start = time.monotonic()
    while time.monotonic() - start < BOUND + 1.5:    # polls: each must come from the cache
        assert shown(client3, case, "f").mode == 0o640
        time.sleep(0.2)
    os.chmod(world.volume / case.path("f"), 0o640)


def test_a_finished_file_is_cached_as_long_as_ever(case, client3, world):
    """Also one that was a stub when it was cached first."""
    case.file()
    case.enter("partial", "f")
    shown(client3, case, "f")
    case.enter("normal", "f")
    st = local(case, "f")
    seen_within(client3, case, "f", lambda a: a.ctime == st.st_ctime_ns, "local change time")
    os.chmod(world.volume / case.path("f"), 0o600)
    start = time.monotonic()
    while time.monotonic() - start < BOUND + 1.5:
        assert shown(client3, case, "f").mode == 0o640
        time.sleep(0.2)
    os.chmod(world.volume / case.path("f"), 0o640)
