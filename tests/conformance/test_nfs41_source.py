# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of old servers that are read by NFSv4.1: kept, lost, small, given back.  (What is the
same by all versions: test_nfs4_source.py.)"""
import random
import threading

import pytest

from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.gateway4_session import Sessions

FILES = 120
BIG = (1 << 20) * 3 + 17


@pytest.fixture
def fake():
    tree = Tree()
    rng = random.Random(41)
    at = tree.mkdir(tree.root, "d")
    contents = {"d/f%d" % i: rng.randbytes(200 + i) for i in range(FILES)}
    contents["big"] = rng.randbytes(BIG)
    for name, data in contents.items():
        tree.file(at if name != "big" else tree.root, name.rpartition("/")[2], data)
    with FakeServer(tree) as server:
        server.contents = contents
        yield server
        assert not server.sessions.broken


def same(fake, here):
    for name, data in fake.contents.items():
        assert (here / name).read_bytes() == data


def test_sessions_that_the_server_drops(fake, new_migration, fresh_dir):
    """Again and again, in the middle of everything: no object is to blame."""
    m = new_migration(fake.url(version="4.1"), fresh_dir, conf="max_tries = 1\n",
                      allow=["dropped the session"]).init().start()
    before = fake.sessions.made
    m.start_crawler()
    for _ in range(5):
        fake.sessions.drop += 1
        wait_until(lambda: not fake.sessions.drop or m.crawler.poll() is not None, 60)
    fake.sessions.forget()              # all at once, as a restart does
    assert m.crawler.wait(300) == 0
    wait_until(lambda: m.status()["state"] == "complete", 60)
    assert m.status()["parked"] == 0 and fake.sessions.made > before
    m.audit(complete=True)
    same(fake, fresh_dir)


def test_few_slots_and_small_answers(fake, new_migration, fresh_dir):
    fake.sessions = Sessions(slots=1, reply_max=65536)
    m = new_migration(fake.url(version="4.1"), fresh_dir).init().start()
    m.crawl()
    m.audit(complete=True)
    same(fake, fresh_dir)
    assert max(c.count for c in fake.calls if c.proc == "READ") <= 65536


def test_an_idle_session_outlives_its_lease(fake, new_migration, fresh_dir):
    fake.sessions = Sessions(lease=3)
    m = new_migration(fake.url(version="4.1"), fresh_dir, conf="connections = 1\n").init().start()
    wait_until(lambda: fake.sessions.made - fake.sessions.ended == 1, 60, "only its session")
    made, alone = fake.sessions.made, fake.sessions.alone
    wait_until(lambda: fake.sessions.alone >= alone + 8, 60, "SEQUENCE while nothing is asked")
    assert fake.sessions.made == made
    m.crawl()
    m.audit(complete=True)


def test_sessions_are_given_back(fake, new_migration, fresh_dir):
    m = new_migration(fake.url(version="4.1"), fresh_dir).init().start()
    m.crawl()
    m.stop()
    assert fake.sessions.made == fake.sessions.ended > 0
    assert not fake.sessions.clients


class Held(Sessions):
    """The first session that is given back waits for its answer."""

    def __init__(self):
        super().__init__()
        self.came, self.gate = threading.Event(), threading.Event()

    def destroy_session(self, args):
        if not self.came.is_set():
            self.came.set()
            self.gate.wait(120)
        return super().destroy_session(args)


def test_told_to_end_while_it_connects(fake, new_migration, fresh_dir):
    """It hears of it while a session is given back, whose answer does not matter; and ends.  It is told
    twice, and is slow enough to take that for once."""
    slow = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=poll",
            "-e", "inject=poll:delay_exit=200000"]
    m = new_migration(fake.url(version="4.1"), fresh_dir, wrap=slow).init()
    fake.sessions = Held()
    m.start_retriever(wait=False)
    try:
        assert fake.sessions.came.wait(60)
        m.retriever.terminate()
        wait_until(lambda: ": stopping" in m.log.read_text(), 60, "the signal")
        assert m.retriever.wait(60) == 0
    finally:
        fake.sessions.gate.set()


@pytest.mark.parametrize("sessions, text", [
    (Sessions(reply_max=8192), "ca_maxresponsesize"), (Sessions(slots=0), "no slots")])
def test_sessions_of_no_use(sessions, text, fake, new_migration, fresh_dir):
    fake.sessions = sessions
    answer = new_migration(fake.url(version="4.1"), fresh_dir).init(check=False)
    assert answer["exit"] != 0 and text in answer["message"], answer
    assert "version=4.0" in answer["message"]
