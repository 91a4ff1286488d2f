# SPDX-License-Identifier: GPL-3.0-or-later
"""A fill for the crawler ends after five seconds, done or not; what has come until then, and what
is on its way, is not asked for again."""
import subprocess
import time

import pytest

from lib.programs import STUBTOOL
from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

SLICE = 5           # seconds; SLICE_MS of job_data.c
MIB = 1 << 20
SIZES = {"small": 40000, "eight": 8 * MIB, "nine": 9 * MIB}     # READs of a MiB, eight at a time


@pytest.fixture
def fake():
    tree = Tree()
    for seed, (name, size) in enumerate(SIZES.items()):
        tree.file(tree.root, name, Pattern(size, seed=seed + 1))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="call_timeout = 600000\nsmall_file = 0\n").init()
    m.start_retriever()
    subprocess.run([str(STUBTOOL), "ask", str(m.volume), ".", "list"], check=True, timeout=60)
    return m


def test_what_is_on_its_way_is_not_asked_for_again(m, fake):
    """The old server answers READs when the slice is over. Of which nothing more is missing then is
    done; on a slow line these were most files, and the crawler met them again after all others."""
    gate = hooks.Gate()
    fake.hook("READ", gate)
    crawler = m.start_crawler("--once")         # it asks for each of them once
    wait_until(lambda: gate.waiting == 1 + 8 + 8, 60, "READs in flight")
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + SLICE + 1, 60, "the end of the slice")
    gate.open()
    assert crawler.wait(60) == 0
    m.drain()
    totals = m.status()["totals"]
    assert totals["done_bytes"] == SIZES["small"] + SIZES["eight"], totals
    assert totals["partly_bytes"] == 8 * MIB and totals["left"] == 1, totals
    assert gate.passed == 17
    m.crawl()
    assert m.status()["totals"]["done_bytes"] == sum(SIZES.values())
    assert gate.passed == 18
