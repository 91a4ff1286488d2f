# SPDX-License-Identifier: GPL-3.0-or-later
"""All the doors to a truncate: SETATTR of the size, CREATE, OPEN."""
import pytest

from lib.case import BLOCK, SIZE, pattern
from lib.expect import same, status_of
from nfsclient import errors
from nfsclient.nfs4 import UNCHECKED4
from nfsclient.nfstypes import DIR, SetAttrs
from nfsclient.rpc import AuthSys

ATTR_CACHE = 0
SIZES = {
    "zero": [0],
    "one": [1],
    "inside_a_block": [2 * BLOCK + 777],
    "at_a_block": [3 * BLOCK],
    "nearly_all": [SIZE - 1],
    "same": [SIZE],
    "up": [SIZE + 3000],
    "far_up": [SIZE + 3 * BLOCK + 1],
    "down_up": [BLOCK + 100, SIZE],
    "zero_up": [0, SIZE],
    "up_down": [SIZE + 5000, SIZE],
    "up_down_up": [SIZE + 5000, BLOCK // 2, 2 * SIZE],
    "down_down_up": [4 * BLOCK, BLOCK - 1, 3 * BLOCK],
}
STUBS = ("partial", "some", "dummy", "cold")


@pytest.mark.parametrize("sizes", SIZES)
def test_size(case, client, state, sizes):
    """One file is read at once, the other left to the crawl."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    for name in ("now", "later"):
        for size in SIZES[sizes]:
            before = client.getattr(case.path(name))
            client.setattr(case.path(name), size=size)
            case.resize(name, size)
            after = client.getattr(case.path(name))
            assert after.size == size and after.ctime > before.ctime
            assert after.mtime > before.mtime or size == before.size
            assert (after.mode, after.uid, after.gid, after.nlink) == (
                before.mode, before.uid, before.gid, before.nlink)
    same(client.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("stub", STUBS)
def test_cut_then_write_behind(case, client, stub):
    """What lies between the cut and the write is zeros, not the source's bytes."""
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    for name in ("now", "later"):
        client.setattr(case.path(name), size=BLOCK + 10)
        client.write(case.path(name), 4 * BLOCK, b"behind")
        case.resize(name, BLOCK + 10)
        case.write(name, 4 * BLOCK, b"behind")
    same(client.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("stub", STUBS)
def test_write_then_cut_through_it(case, client, stub):
    for name in ("now", "later"):
        case.file(name)
    case.enter(stub, "now", "later")
    for name in ("now", "later"):
        client.write(case.path(name), 2 * BLOCK, b"w" * BLOCK)
        client.setattr(case.path(name), size=2 * BLOCK + 100)
        client.setattr(case.path(name), size=SIZE)
        case.write(name, 2 * BLOCK, b"w" * BLOCK)
        case.resize(name, 2 * BLOCK + 100)
        case.resize(name, SIZE)
    same(client.read_file(case.path("now")), case.data("now"))


@pytest.mark.parametrize("stub", ("partial", "dummy"))
def test_truncating_fetches_nothing(case, client, world, stub):
    case.file()
    case.enter(stub, "f")
    client.setattr(case.path("f"), size=SIZE // 2)
    client.setattr(case.path("f"), size=0)
    case.resize("f", 0)
    assert client.read(case.path("f"), 0, 100) == (b"", True)
    assert world.calls("READ", case.node("f")) == []
    assert case.show("f").get("now", []) == []


def test_truncate_while_the_old_server_is_gone(case, client, world):
    case.file()
    case.enter("partial", "f")
    client.lookup(case.path("f"))
    world.fake.pause()
    client.patient(0).setattr(case.path("f"), size=10)
    client.patient(0).setattr(case.path("f"), size=0)
    client.patient(0).setattr(case.path("f"), size=100)
    assert client.patient(0).read(case.path("f"), 0, 100)[0] == bytes(100)
    world.fake.resume()
    case.resize("f", 0), case.resize("f", 100)


def test_truncate_cut_while_filling(case, client, world):
    """A fill under way brings nothing back that was cut away meanwhile."""
    case.file()
    case.enter("partial", "f")
    cut = []

    def hook(_server, call, answer):
        results = answer()
        if call.node is case.node("f") and not cut:
            cut.append(1)
            client.setattr(case.path("f"), size=1000)
            client.setattr(case.path("f"), size=3 * BLOCK)
        return results
    world.fake.hook("READ", hook)
    with world.client("v3") as other:
        other.read(case.path("f"), 0, BLOCK)
    assert cut
    case.resize("f", 1000), case.resize("f", 3 * BLOCK)
    world.fake.clear_hooks()
    same(client.read_file(case.path("f")), case.data("f"))


def test_write_while_filling(case, client, world):
    """Never old over new: a fetch that was under way keeps off what was written."""
    case.file()
    case.enter("partial", "f")
    done = []

    def hook(_server, call, answer):
        results = answer()
        if call.node is case.node("f") and not done:
            done.append(1)
            client.write(case.path("f"), 500, b"new" * 1000)
        return results
    world.fake.hook("READ", hook)
    with world.client("v3") as other:
        other.read(case.path("f"), 0, BLOCK)
    assert done
    case.write("f", 500, b"new" * 1000)
    world.fake.clear_hooks()
    same(client.read_file(case.path("f")), case.data("f"))


# -- CREATE and OPEN of a file that is there -------------------------------------------

def test_create_unchecked_keeps_the_content(case, client, state):
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    for name in ("now", "later"):
        fh, attrs = client.create(case.path(name))
        assert attrs.size == SIZE
        assert fh == client.lookup(case.path(name))[0]
        case.items[name].mode = client.getattr(fh).mode     # as without stubs, see below
    same(client.read_file(case.path("now")), case.data("now"))


def test_create_unchecked_treats_all_states_alike(case, client):
    """Mode and owner after CREATE over a file: those of a normal file's case."""
    states = ("normal", "partial", "some", "dummy")
    for name in states:
        case.file(name)
    seen = []
    for name in states:
        case.enter(name, name)
        client.create(case.path(name), mode=0o600)
        attrs = client.getattr(case.path(name))
        seen.append((attrs.mode, attrs.uid, attrs.gid, attrs.size,
                     attrs.mtime == case.node(name).mtime))
        case.items[name].mode = attrs.mode
    assert seen == seen[:1] * len(seen)


@pytest.mark.parametrize("size", [0, 100])
def test_create_unchecked_with_a_size(case, client, state, size):
    """size 0 is O_TRUNC; other sizes are ignored or set, in all states alike."""
    for name in ("now", "later", "normal"):
        case.file(name)
    case.enter("normal" if state == "cold" else state, "now", "later")
    if state != "cold":
        case.enter("normal", "normal")
    for name in ("normal", "now", "later"):
        before = client.getattr(case.path(name))
        client.create(case.path(name), mode=0o640, size=size)
        attrs = client.getattr(case.path(name))
        if size == 0:
            assert attrs.size == 0 and attrs.mtime > before.mtime
        case.resize(name, attrs.size)
        case.items[name].mode = attrs.mode
    assert client.getattr(case.path("now")).size == client.getattr(case.path("normal")).size
    same(client.read_file(case.path("now")), case.data("now"))


def test_create_truncating_then_write(case, client, state):
    for name in ("now", "later"):
        case.file(name)
    case.enter(state, "now", "later")
    data = pattern(2 * BLOCK, 9)
    for name in ("now", "later"):
        client.create(case.path(name), mode=0o640, size=0)
        client.write(case.path(name), 100, data)
        case.resize(name, 0)
        case.write(name, 100, data)
    same(client.read_file(case.path("now")), case.data("now"))


def test_open_truncating_through_one_open(case, client4, state):
    """OPEN(create, size 0) and WRITE with its stateid, as kernel clients do."""
    case.file()
    case.enter(state, "f")
    f = client4.open(case.path("f"), write=True, how=(UNCHECKED4, SetAttrs(size=0), bytes(8)))
    client4.write(f, 10, b"fresh")
    assert client4.getattr(f.fh).size == 15
    client4.close_file(f)
    case.resize("f", 0)
    case.write("f", 10, b"fresh")


def test_setattr_through_the_open_file(case, client4, state):
    from nfsclient.nfs4 import Compound
    case.file()
    case.enter(state, "f")
    f = client4.open(case.path("f"), write=True)
    client4.run(Compound().putfh(f.fh).setattr(SetAttrs(size=BLOCK + 5), f.stateid))
    client4.close_file(f)
    case.resize("f", BLOCK + 5)
    same(client4.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("how", ["guarded", "exclusive"])
def test_create_guarded_or_exclusive_over_a_file(case, client, state, how):
    case.file()
    case.enter(state, "f")
    assert status_of(client.create, case.path("f"), how=how) == errors.EXIST
    assert client.getattr(case.path("f")).size == SIZE


def test_truncate_without_permission(case, client, world, state):
    """The check comes before the cut."""
    if (client.proto, state) == ("v3", "normal"):
        return    # straight through: stock FSAL_VFS 4.3 cuts first, with and without us
    case.file(mode=0o444)
    case.enter(state, "f")
    with world.client(client.proto, cred=AuthSys(4711, 4711)) as stranger:
        assert status_of(stranger.setattr, case.path("f"), size=0) in (errors.ACCES, errors.PERM)
        assert status_of(stranger.create, case.path("f"), size=0) in (errors.ACCES, errors.PERM)
    assert client.getattr(case.path("f")).size == SIZE


def test_size_of_a_directory(case, client):
    case.dir()
    assert status_of(client.setattr, case.path("d"), size=0) in (
        errors.INVAL, errors.ISDIR, errors.BADTYPE)    # the last: stock Ganesha, v3
    assert client.getattr(case.path("d")).type == DIR


def test_absurd_size(case, client):
    case.file()
    case.enter("partial", "f")
    assert status_of(client.setattr, case.path("f"), size=(1 << 64) - 1) in (
        errors.FBIG, errors.INVAL)
    assert client.getattr(case.path("f")).size == SIZE
