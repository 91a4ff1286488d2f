# SPDX-License-Identifier: GPL-3.0-or-later
"""A name is replaced of which Ganesha has not heard yet.

Before MDCACHE calls the FSAL for a RENAME it looks the new name up.  If the old server takes its time
it is told to come again (DELAY), takes that for "there is none", and calls.  By then the name may be known: it
is replaced, and what MDCACHE has of that file under another name has to be forgotten."""
import os
import threading

import pytest

from lib.wait import wait_until
from nfsclient import PROTOCOLS, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

WAITS_MS = 300      # that a look-up is waited for; less than until it is asked for again


@pytest.fixture
def old():
    tree = Tree()
    server = FakeServer(tree)
    tree.mkdir(tree.root, b"d")
    server.node = tree.file(tree.find("d"), b"name", b"bytes of three names")
    for name in (b"second", b"third"):
        tree.hardlink(tree.root, name, server.node)
    tree.file(tree.root, b"new", b"new bytes")
    with server:
        yield server


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_link_count_of_the_others(old, new_migration, fresh_dir, proto):
    m = new_migration(old.url(), fresh_dir, conf="call_timeout = 600000\n",
                      fsal_more="Delay_V3 = %d; Delay_V4 = %d;" % (WAITS_MS, WAITS_MS)).init().start()
    gate = hooks.Gate()
    with m.client(proto, timeout=120) as c:
        c = c.patient(60)
        assert c.getattr(b"second").nlink == 3
        here, there = c.fh(b"d"), c.root
        joined = m.status()["joined"]
        old.hook("LOOKUP", hooks.only(lambda call: call.name == b"name", gate))
        renaming = threading.Thread(target=lambda: c.rename((there, b"new"), (here, b"name")), daemon=True)
        renaming.start()
        try:        # MDCACHE's look-up is over without an answer, and the FSAL's own waits for the same
            wait_until(lambda: m.status()["joined"] > joined, 60, "the second one")
        finally:
            gate.open()
        renaming.join(120)
        assert not renaming.is_alive()
        assert c.read_file(b"d/name") == b"new bytes"
        assert c.getattr(b"second").nlink == 2
    m.crawl()
    m.audit(complete=True)
    assert os.lstat(m.volume / "third").st_nlink == 2
