# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients do to a range while the old server's answer for it is on its way.

The fake source holds the READs that a fill of the whole file has sent.  The client's
operation is done while they are held (it waits for nobody), and when the answers come
nothing old comes over new; what nobody touched is the source's in the end.
"""
import contextlib
import subprocess
import time

import pytest

from lib.case import BLOCK, SIZE, pattern
from lib.expect import same, status_of
from lib.programs import STUBTOOL
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.hooks import Gate, only
from nfsclient.nfs4 import UNCHECKED4
from nfsclient.nfstypes import UNSTABLE, SetAttrs

ATTR_CACHE = 0
AT_ONCE = 20.0           # seconds; a request that waits is answered with DELAY long before
PROTOCOLS = ("v3", "v4.0", "v4.1", "v4.2")


@contextlib.contextmanager
def held_fill(case, name="f"):
    """A fill of all that is missing is in flight; the old server's answers come when
    the block ends."""
    world, node, gate = case.world, case.node(name), Gate()
    world.fake.hook("READ", only(lambda call: call.node is node, gate))
    fill = subprocess.Popen([str(STUBTOOL), "ask", str(world.volume), case.path(name), "fill"])
    try:
        missing = len(case.show(name)["now"])
        wait_until(lambda: gate.waiting >= missing, 60, "READs held")
        yield
        assert gate.waiting >= missing and gate.passed == 0   # nothing waited for it
    finally:
        gate.open()
        assert fill.wait(60) == 0
        world.fake.clear_hooks()
    case.finished(name)


@contextlib.contextmanager
def at_once():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < AT_ONCE


# -- the operations: each does the same to the model ------------------------------------

def write(offset, length, stable=2):
    def run(case, c):
        data = pattern(length, 7)
        assert c.write(case.path("f"), offset, data, stable).count == length
        case.write("f", offset, data)
    return run


def overlapping(case, c):
    """Two clients; who comes later wins."""
    with case.world.client("v3") as other:
        for client, offset, byte in ((c, BLOCK, b"a"), (other, BLOCK + 5000, b"b"),
                                     (c, BLOCK + 9000, b"c"), (other, BLOCK - 100, b"d")):
            client.patient(0).write(case.path("f"), offset, byte * 10000)
            case.write("f", offset, byte * 10000)


def sizes(*values):
    def run(case, c):
        for size in values:
            c.setattr(case.path("f"), size=size)
            case.resize("f", size)
    return run


def open_truncating(case, c):
    """O_TRUNC: of OPEN in version 4, of CREATE in version 3."""
    if c.proto == "v3":
        c.create(case.path("f"), mode=0o640, size=0)
    else:
        f = c.open(case.path("f"), write=True, how=(UNCHECKED4, SetAttrs(size=0), bytes(8)))
        c.write(f, 10, b"fresh")
        c.close_file(f)
    case.resize("f", 0)
    if c.proto != "v3":
        case.write("f", 10, b"fresh")


def create_unchecked(case, c):
    assert c.create(case.path("f"), mode=0o640)[1].size == SIZE
    case.items["f"].mode = c.getattr(case.path("f")).mode


def append_three_times(case, c):
    for text in (b"one", b"two" * 1000, b"three"):
        end = c.getattr(case.path("f")).size
        assert end == len(case.data("f"))
        c.write(case.path("f"), end, text)
        case.write("f", end, text)


def cut_then_write_behind(case, c):
    sizes(BLOCK + 10)(case, c)
    write(3 * BLOCK + 5, 100)(case, c)


def write_then_cut_through_it(case, c):
    write(2 * BLOCK, BLOCK)(case, c)
    sizes(2 * BLOCK + 100, SIZE)(case, c)


def set_the_time(case, c):
    c.setattr(case.path("f"), mtime=1234567890123456789)
    case.items["f"].mtime = 1234567890123456789


def punch(offset, length):
    def run(case, c):
        with c.opened(case.path("f"), write=True) as f:
            c.deallocate(f, offset, length)
        case.punch("f", offset, length)
    return run


def reserve(case, c):
    with c.opened(case.path("f"), write=True) as f:
        c.allocate(f, 100, SIZE + 1000)
    case.resize("f", SIZE + 1100)


OPERATIONS = {
    "write_aligned": write(2 * BLOCK, BLOCK),
    "write_unaligned": write(2 * BLOCK + 77, 5001),
    "write_one_byte": write(SIZE // 2, 1),
    "write_across": write(BLOCK // 2, 3 * BLOCK),
    "write_whole": write(0, SIZE),
    "write_over_the_end": write(SIZE - 10, 5000),
    "write_beyond": write(SIZE + BLOCK, 100),
    "write_unstable": write(BLOCK - 50, 100, UNSTABLE),
    "overlapping": overlapping,
    "append": append_three_times,
    "cut": sizes(BLOCK + 777),
    "cut_to_nothing": sizes(0),
    "cut_and_extend": sizes(BLOCK + 777, SIZE),
    "cut_to_nothing_and_extend": sizes(0, 3 * BLOCK),
    "extend": sizes(SIZE + 3 * BLOCK),
    "extend_and_cut": sizes(SIZE + BLOCK, 4 * BLOCK - 1),
    "cut_then_write_behind": cut_then_write_behind,
    "write_then_cut_through_it": write_then_cut_through_it,
    "open_truncating": open_truncating,
    "create_unchecked": create_unchecked,
    "set_the_time": set_the_time,
}
OPERATIONS_42 = {
    "punch_aligned": punch(2 * BLOCK, BLOCK),
    "punch_unaligned": punch(2 * BLOCK - 100, 5000),
    "punch_one_byte": punch(SIZE // 2, 1),
    "punch_whole": punch(0, SIZE),
    "punch_over_the_end": punch(SIZE - 5000, BLOCK),
    "punch_beyond": punch(SIZE + BLOCK, BLOCK),
    "reserve": reserve,
}


@pytest.fixture(params=PROTOCOLS)
def any_client(world, request):
    with contextlib.closing(world.client(request.param)) as c:
        yield c


@pytest.fixture(params=["partial", "some"])
def stub(request):
    return request.param


def during_a_fill(case, client, stub, run):
    case.file()
    case.enter(stub, "f")
    client.lookup(case.path("f"))
    with held_fill(case), at_once():
        run(case, client.patient(0))
    attrs = client.getattr(case.path("f"))
    assert attrs.size == len(case.data("f"))
    same(client.read_file(case.path("f")), case.data("f"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_during_a_fill(case, any_client, stub, name):
    during_a_fill(case, any_client, stub, OPERATIONS[name])


@pytest.mark.parametrize("name", OPERATIONS_42)
def test_during_a_fill_4_2(case, client42, stub, name):
    during_a_fill(case, client42, stub, OPERATIONS_42[name])


def test_commit_during_a_fill(case, any_client, stub):
    """COMMIT waits for the disk, not for the old server; the write stays."""
    case.file()
    case.enter(stub, "f")
    c = any_client.patient(0)
    any_client.lookup(case.path("f"))
    with held_fill(case), at_once():
        result = c.write(case.path("f"), 2 * BLOCK + 5, b"w" * 3000, UNSTABLE)
        assert c.commit(case.path("f")) == result.verifier
        record = case.show("f")
        assert record["now"] == record["durable"]
    case.write("f", 2 * BLOCK + 5, b"w" * 3000)
    same(any_client.read_file(case.path("f")), case.data("f"))


def test_reading_own_writes_during_a_fill(case, any_client, stub):
    """What the client wrote is read at once; beside it, it has to wait."""
    case.file()
    case.enter(stub, "f")
    c = any_client.patient(0)
    any_client.lookup(case.path("f"))
    with held_fill(case):
        with at_once():
            c.write(case.path("f"), 2 * BLOCK + 5, b"w" * 3000)
            assert c.read(case.path("f"), 2 * BLOCK + 5, 3000)[0] == b"w" * 3000
        assert status_of(c.read, case.path("f"), 2 * BLOCK + 4, 10) == errors.DELAY
    case.write("f", 2 * BLOCK + 5, b"w" * 3000)


def test_removed_and_made_again_during_a_fill(case, any_client, stub):
    """The answer belongs to the inode that is gone, not to the new one of its name."""
    case.file("f"), case.file("g", size=0)
    case.enter(stub, "f")
    c = any_client.patient(0)
    gate = Gate()
    node = case.node("f")
    any_client.lookup(case.path("f"))
    case.world.fake.hook("READ", only(lambda call: call.node is node, gate))
    fill = subprocess.Popen([str(STUBTOOL), "ask", str(case.world.volume), case.path("f"), "fill"])
    wait_until(lambda: gate.waiting, 60, "READs held")
    with at_once():
        c.remove(case.path("f"))
        c.create(case.path("f"), mode=0o644)
        c.write(case.path("f"), 0, b"new")
    gate.open()
    fill.wait(60)
    case.world.settle()
    case.gone("f")
    case.made("f", mode=0o644, uid=0, gid=0, data=b"new")
    assert any_client.read_file(case.path("f")) == b"new"


def test_seek_during_a_fill(case, client42):
    case.file()
    case.enter("partial", "f")
    with client42.opened(case.path("f"), write=True) as f, held_fill(case), at_once():
        c = client42.patient(0)
        c.deallocate(f, 2 * BLOCK, BLOCK)
        assert c.seek(f, 100) == (False, 100)
        assert c.seek(f, 100, hole=True) == (False, 2 * BLOCK)
        assert c.seek(f, 2 * BLOCK) == (False, 3 * BLOCK)
        assert c.seek(f, 3 * BLOCK, hole=True) == (True, SIZE)
    case.punch("f", 2 * BLOCK, BLOCK)
