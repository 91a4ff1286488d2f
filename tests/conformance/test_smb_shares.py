# SPDX-License-Identifier: GPL-3.0-or-later
"""Several shares in one session, which is one process: each has a volume of its own, or
none, and no way from one to another reads a stub's holes."""
import contextlib

import pytest

from lib.case import SIZE
from lib.expect import same
from lib.smb import ALL
from lib.smbd import STACK, STOCK, Share
from lib.world import BothWorld
from smb2client import SmbError, wire

WORLD = BothWorld
STACKS = {"with our module": STACK, "without": STOCK}


@pytest.fixture(scope="module", params=STACKS)
def plain(world, request, loop_xfs):
    """A share beside the volume, on its file system: nothing is migrated there."""
    name = request.param.replace(" ", "-")
    top = loop_xfs.path / name
    top.mkdir(mode=0o777)
    top.chmod(0o777)
    world.smbd.shares.append(Share(str(top), name=name, vfs=STACKS[request.param]))
    world.smbd.write_config()
    return name, top


@contextlib.contextmanager
def two(world, name):
    """A client in both shares."""
    with world.smbd.client() as c:
        yield c, c.also(name)


@pytest.mark.parametrize("state", ["partial", "some", "normal"])
def test_a_copy_to_another_share(case, world, plain, state):
    case.file()
    case.enter(state, "f")
    name, top = plain
    with two(world, name) as (here, there):
        with here.open(case.path("f")) as f, there.open(case.name, ALL, wire.OPEN_IF) as to:
            try:
                assert to.copy_chunks(f, [(0, 0, SIZE)]) == SIZE
            except SmbError as e:           # then the client reads and writes
                assert e.status == "OBJECT_NAME_NOT_FOUND" and state != "normal"
                assert name == "without"
                assert to.info().size == 0
            else:
                same((top / case.name).read_bytes(), case.data("f"))


@pytest.mark.parametrize("state", ["partial", "some", "normal"])
def test_a_copy_from_another_share(case, smb, world, plain, state):
    """What is copied into a stub is the client's: no fill overwrites it."""
    case.file()
    case.enter(state, "f")
    name, top = plain
    new = bytes(range(1, 251)) * 800
    (top / case.name).write_bytes(new)
    with two(world, name) as (here, there):
        with there.open(case.name) as f, here.open(case.path("f"), ALL) as to:
            try:
                assert to.copy_chunks(f, [(0, 1000, len(new))]) == len(new)
            except SmbError as e:
                assert e.status == "OBJECT_NAME_NOT_FOUND" and state != "normal"
                assert name == "without"
            else:
                case.write("f", 1000, new)
    world.stubtool("ask", case.path("f"), "fill")
    same(smb.read_file(case.path("f")), case.data("f"))


def test_a_token_outlives_the_stub(case, world, plain):
    case.file()
    case.enter("partial", "f")
    name, top = plain
    with two(world, name) as (here, there):
        with here.open(case.path("f")) as f, here.open(case.path("g"), ALL, wire.OPEN_IF) as to:
            case.made("g").data = case.data("f")
            assert to.copy_chunks(f, [(0, 0, 10)]) == 10
            world.stubtool("ask", case.path("f"), "fill")
            case.finished("f")
            assert to.copy_chunks(f, [(0, 0, SIZE)]) == SIZE
    same((world.volume / case.path("g")).read_bytes(), case.data("f"))


@pytest.mark.parametrize("stack, fine", [
    ("io_uring stub", False), ("aio_fork acl_xattr stub", False), ("btrfs:x stub", False),
    ("stub crossrename", False), ("stub io_uring", True), ("stub aio_fork", True)])
def test_modules_that_go_around_us(case, world, stack, fine):
    """Above ours they would read holes by themselves."""
    case.file()
    case.enter("partial", "f")
    name = case.name + "-around"
    world.smbd.shares.append(Share(str(world.volume), name=name, vfs=tuple(stack.split())))
    world.smbd.write_config()
    try:
        c = world.smbd.client(share=name)
    except SmbError:
        assert not fine
        return
    with c:
        same(c.read_file(case.path("f")), case.data("f"))
    assert fine
