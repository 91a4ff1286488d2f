# SPDX-License-Identifier: GPL-3.0-or-later
"""The first bytes of a cold file, for which a client waits."""
import concurrent.futures

import pytest

from lib.wait import wait_until
from nfsclient import hooks
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
