# SPDX-License-Identifier: GPL-3.0-or-later
"""The first bytes of a cold file, for which a client waits."""
import concurrent.futures
import contextlib

import pytest

from lib.wait import wait_until
from nfsclient import NfsError, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

MIB = 1 << 20
SIZE = 16 * MIB
FIRST_READ = 128 << 10


@pytest.fixture
def old():
    tree = Tree()
    tree.big = tree.file(tree.root, "big", Pattern(SIZE, seed=1))
    tree.other = tree.file(tree.root, "other", Pattern(5000, seed=2))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(new_migration, fresh_dir, old):
    return new_migration(old.url(), fresh_dir).init().start()


def reads(old):
    return [call for call in list(old.calls)
            if call.proc == "READ" and call.node is old.tree.big]


@pytest.mark.parametrize("at", [0, 3 * MIB + 5])
def test_what_a_client_waits_for_is_asked_for_alone(m, old, at):
    """The rest of what is fetched with it would share the line, and the processors."""
    gate = hooks.Gate()
    old.hook("READ", hooks.only(lambda call: call.node is old.tree.big, gate))
    with concurrent.futures.ThreadPoolExecutor(1) as beside, \
            m.client("v3", timeout=120) as waits, m.client("v3") as another:
        got = beside.submit(waits.read, b"big", at, 1)
        try:
            wait_until(lambda: gate.waiting, 60, "its READ")
            # time enough for others of the file: a whole one comes meanwhile
            assert another.read_file(b"other") == old.tree.other.content.read(0, 5000)
            asked = reads(old)
            assert len(asked) == 1 and asked[0].count <= FIRST_READ, asked
            assert asked[0].offset <= at < asked[0].offset + asked[0].count
        finally:
            gate.open()
        data = got.result(120)
    assert data[0] == old.tree.big.content.read(at, 1)
    wait_until(lambda: len(reads(old)) > 1, 60, "the rest of it")


BLOCK = 64 << 10        # block_size of these


@pytest.fixture
def small_blocks(new_migration, fresh_dir, old):
    return new_migration(old.url(), fresh_dir, conf="block_size = %d\n" % BLOCK).init().start()


def blocks(old):
    return {call.offset // BLOCK for call in reads(old)}


def test_who_reads_in_order_finds_more(small_blocks, old):
    """The next blocks, the more the longer it does so; and not all of the file."""
    with small_blocks.client("v3").patient(120) as c:
        for here, asked in ((3, {3}), (4, {3, 4, 5, 6}), (7, set(range(3, 12)))):
            assert c.read(b"big", here * BLOCK, 1000)[0] == old.tree.big.content.read(here * BLOCK, 1000)
            wait_until(lambda want=asked: blocks(old) >= want, 60, "read ahead of %d" % here)
            small_blocks.drain()
            assert blocks(old) == asked
        # what is here is not asked for; behind it there are four blocks again
        for here in range(8, 13):
            c.read(b"big", here * BLOCK, 1000)
        wait_until(lambda: blocks(old) >= set(range(3, 17)), 60, "read ahead again")
        small_blocks.drain()
        assert blocks(old) == set(range(3, 17))


def test_who_reads_here_and_there_finds_no_more(small_blocks, old):
    with small_blocks.client("v3").patient(120) as c:
        for here in (0, 9, 5, 20):
            c.read(b"big", here * BLOCK, 1000)
    small_blocks.drain()
    assert blocks(old) == {0, 9, 5, 20}


def test_who_waits_for_what_is_read_ahead_finds_more(small_blocks, old):
    """Before it has come, so that a long line stays full."""
    gate = hooks.Gate()
    ahead = range(4 * BLOCK, 7 * BLOCK)
    old.hook("READ", hooks.only(lambda call: call.node is old.tree.big and call.offset in ahead, gate))
    with concurrent.futures.ThreadPoolExecutor(1) as beside, small_blocks.client("v3", timeout=120).patient(120) as c, \
            small_blocks.client("v3", timeout=120).patient(120) as waits:
        c.read(b"big", 2 * BLOCK, 1000)
        c.read(b"big", 3 * BLOCK, 1000)
        try:
            wait_until(lambda: gate.waiting == 2, 60, "two blocks are read ahead")
            assert blocks(old) == {2, 3, 4, 5}
            before = small_blocks.status()["joined"]
            got = beside.submit(waits.read, b"big", 4 * BLOCK, 1000)
            wait_until(lambda: small_blocks.status()["joined"] > before, 60, "it waits for one of them")
        finally:
            gate.open()
        assert got.result(120)[0] == old.tree.big.content.read(4 * BLOCK, 1000)
        wait_until(lambda: blocks(old) >= set(range(2, 9)), 60, "read ahead of that")


def try_once(client, path, at, count):
    with contextlib.suppress(NfsError):     # DELAY
        client.read(path, at, count)


def test_who_goes_on_in_the_first_block_finds_more(small_blocks, old):
    gate = hooks.Gate()
    old.hook("READ", hooks.only(lambda call: call.node is old.tree.big, gate))
    with concurrent.futures.ThreadPoolExecutor(2) as beside, small_blocks.client("v3", timeout=120) as one, \
            small_blocks.client("v3", timeout=120).patient(120) as other:
        looks = beside.submit(try_once, one, b"big", 0, 1000)
        try:
            wait_until(lambda: gate.waiting, 60, "its READ")
            goes_on = beside.submit(other.read, b"big", BLOCK // 2, 1000)
            wait_until(lambda: small_blocks.status()["joined"] > 0, 60, "it waits for the same block")
        finally:
            gate.open()
        looks.result(120)
        assert goes_on.result(120)[0] == old.tree.big.content.read(BLOCK // 2, 1000)
        wait_until(lambda: blocks(old) >= {0, 1}, 60, "the next block")
        small_blocks.drain()
        assert blocks(old) == {0, 1}


def test_who_looks_at_the_beginning_finds_no_more(small_blocks, old):
    """Although it asks again, since the answer takes long."""
    gate = hooks.Gate()
    old.hook("READ", hooks.only(lambda call: call.node is old.tree.big, gate))
    with concurrent.futures.ThreadPoolExecutor(1) as beside, \
            small_blocks.client("v3", timeout=120).patient(120) as c:
        looks = beside.submit(c.read, b"big", 0, 1000)
        try:
            wait_until(lambda: small_blocks.status()["joined"] > 0, 60, "it asks again")
        finally:
            gate.open()
        assert looks.result(120)[0] == old.tree.big.content.read(0, 1000)
    small_blocks.drain()
    assert blocks(old) == {0}
