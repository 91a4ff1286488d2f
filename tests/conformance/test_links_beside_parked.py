# SPDX-License-Identifier: GPL-3.0-or-later
"""A file with more links than names were found waits for the rest while a directory may have them,
also a parked one; a parked file has none, and holds up nobody."""
import os

import pytest

from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

DATA = b"linked" * 10000


@pytest.fixture
def fake():
    with FakeServer(Tree()) as server:
        t = server.tree
        a, b, c, _ = (t.mkdir(t.root, name) for name in "abcd")
        node = t.file(a, "x", DATA)
        t.link(b, "x", node)
        t.file(c, "bad", b"bad" * 10000)
        t.file(c, "good", b"good")
        node.nlink = 3
        yield server


def breaks(fake, procs, path):
    node = fake.tree.find(path)
    return fake.hook(procs, hooks.only(lambda call: call.node is node, hooks.status(errors.IO)))


def crawled(fake, new_migration, volume):
    """To the end, which nobody waits for in vain."""
    m = new_migration(fake.url(), volume, conf="max_tries = 1\n", allow=["parked"]).init().start()
    m.start_crawler()
    assert m.crawler.wait(120) == 0
    return m


def names_of(m, *paths):
    """All of them are one file with the data."""
    one = {os.stat(os.path.join(m.volume, path)).st_ino for path in paths}
    with open(os.path.join(m.volume, paths[0]), "rb") as f:
        return len(one) == 1 and f.read() == DATA


def test_a_parked_file_holds_up_no_links(fake, new_migration, fresh_dir):
    mend = breaks(fake, "READ", "c/bad")
    m = crawled(fake, new_migration, fresh_dir)
    status = m.status()
    assert (status["state"], status["pending"], status["parked"]) == ("only-parked", 0, 1)
    assert status["links_split"] == 1 and names_of(m, "a/x", "b/x")
    mend()
    m.postcopy("retry", m.volume)
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)


def test_a_parked_directory_may_have_the_other_name(fake, new_migration, fresh_dir):
    fake.tree.link(fake.tree.find("d"), "x", fake.tree.find("a/x"))
    fake.tree.find("a/x").nlink = 3
    mend = breaks(fake, "READDIRPLUS READDIR", "d")
    m = crawled(fake, new_migration, fresh_dir)
    wait_until(lambda: m.status()["state"] == "only-parked", 60)
    status = m.status()
    assert (status["pending"], status["parked"], status["links"]) == (1, 1, 1)
    assert status["only_parked"] is True and status["links_split"] == 0
    mend()
    m.postcopy("retry", m.volume)
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    assert m.status()["links_split"] == 0 and names_of(m, "a/x", "b/x", "d/x")
    m.audit(complete=True)
