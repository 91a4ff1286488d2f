# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy verify` asks the source for small files before it is their turn: some are under way for
each worker, and whatever happens to them meanwhile is judged as ever."""
import json
import os
import signal
import subprocess

import pytest

from lib.programs import VOLUME_TOOL
from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

FILES, SIZE = 40, 5000
UNDER_WAY = 8           # AHEAD of verify_dir.c


@pytest.fixture
def fake():
    tree = Tree()
    for i in range(FILES):
        tree.file(tree.root, "f%d" % i, Pattern(SIZE, seed=i + 1))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="call_timeout = 600000\n").init()
    m.start_retriever()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    return m


@pytest.fixture
def held(m, fake):
    """A comparison by one worker, whose READs are not answered until gate.open()."""
    gate = hooks.Gate()
    fake.hook("READ", gate)
    process = subprocess.Popen([str(VOLUME_TOOL), "verify", "--all", "--workers", "1",
                                str(m.volume)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: gate.waiting == UNDER_WAY, 60, "small files under way")
        yield process, gate
    finally:
        gate.open()
        process.kill()
        process.wait()


def told(process):
    out = process.communicate(timeout=60)[0]
    return json.loads(out)


def test_they_are_all_compared(held):
    process, gate = held
    gate.open()
    answer = told(process)
    assert process.returncode == 0 and answer["ok"] and not answer["found"], answer
    assert answer["files_read"] == gate.passed == FILES, answer


def test_what_clients_change_meanwhile_is_theirs(m, held):
    process, gate = held
    # those under way are among them; of the first one the disk has been read already
    for i in range(FILES):
        with open(m.volume / ("f%d" % i), "r+b") as f:
            f.write(b"changed")
    gate.open()
    answer = told(process)
    assert answer["ok"] and {f["class"] for f in answer["found"]} == {"changed"}, answer
    assert len(answer["found"]) >= FILES - 1


def test_what_clients_remove_meanwhile_is_theirs(m, held):
    process, gate = held
    for i in range(FILES):
        os.unlink(m.volume / ("f%d" % i))
    gate.open()
    answer = told(process)
    assert answer["ok"] and {f["class"] for f in answer["found"]} <= {"changed"}, answer


def test_it_ends_with_them_under_way(m, held, fake):
    """And goes on the next time."""
    process, gate = held
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    gate.open()
    answer = m.tool("verify", "--all", m.volume)
    assert answer["ok"] and not answer["found"] and answer["files_read"] == FILES, answer
