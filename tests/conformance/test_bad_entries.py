# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry that the old server lists and will not tell more about hides nothing but itself,
and a listing that the server never lets come to an end is parked: all with what it is."""
import os

from lib.expect import status_of
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer, put_post
from nfsclient.faketree import Pattern, Tree
from nfsclient.xdr import Packer
from test_hostile_source import BadTime, for_node

DATA = Pattern(5000, seed=3).read(0, 5000)


def bare(node):
    """READDIRPLUS that leaves attributes and handles to LOOKUP."""
    def run(_server, _call, _answer):
        p = put_post(Packer().u32(0), node).fixed(bytes(8))
        for i, (name, child) in enumerate(node.entries):
            p.boolean(True).u64(child.fileid).opaque(name).u64(i + 1).boolean(False).boolean(False)
        return p.boolean(False).boolean(True).done()
    return run


def lookup(status):
    def make(server, d):
        for_node(server, "READDIRPLUS", d, bare(d))
        server.hook("LOOKUP", hooks.only(lambda c: c.node is d and c.name == b"bad",
                                         hooks.status(status)))
    return make


def claims(**lies):
    return lambda _server, d: d.child(b"bad").claim(**lies)


def broken_off(status):
    """Not at the first page."""
    def make(server, d):
        def run(server, call, answer):
            if call.cookie:
                return hooks.status(status)(server, call, answer)
            return hooks._listing(server, call, [(b"ok", d.child(b"ok"), 1)], False)
        for_node(server, "READDIRPLUS READDIR", d, run)
    return make


ENTRIES = {"noent": (lookup(errors.NOENT), "No such file"), "io": (lookup(errors.IO), "error"),
           "acces": (lookup(errors.ACCES), "denied"), "stale": (lookup(errors.STALE), "tale"),
           "nsec": (claims(mtime=BadTime(1)), "Bad message"),
           "owner": (claims(uid=0xffffffff), "Bad message")}
LISTINGS = {"bad-cookie": broken_off(errors.BAD_COOKIE), "not-sync": broken_off(errors.NOT_SYNC)}


def parked(m):
    return {e.get("path"): e["reason"] for e in m.tool("parked", m.volume)["parked"]}


def test_bad_entries(new_migration, fresh_dir):
    tree = Tree()
    with FakeServer(tree) as server:
        for name in (*ENTRIES, *LISTINGS):
            d = tree.mkdir(tree.root, name)
            for child in ("ok", "bad"):
                tree.file(d, child, Pattern(5000, seed=3))
            (ENTRIES[name][0] if name in ENTRIES else LISTINGS[name])(server, d)
        m = new_migration(server.url(), fresh_dir, allow=["impossible", "no number"]).init()
        m.server.allow = ["converted to NFS3ERR_IO"]
        m.start()
        m.crawl()
        assert set(parked(m)) == {*ENTRIES, *LISTINGS}
        with m.client() as c:
            for name, (_how, why) in ENTRIES.items():
                assert c.names(name) == [b"ok"], name
                assert c.read_file(name + "/ok") == DATA
                assert status_of(c.lookup, name + "/bad") == errors.IO, name
                assert 'entry "bad"' in parked(m)[name] and why in parked(m)[name], parked(m)
            for name in LISTINGS:
                assert status_of(c.names, name) == errors.IO
                assert "broken off" in parked(m)[name], parked(m)
        assert m.scan()["refused"] == len(ENTRIES)

        # still so: nothing is forgotten by trying again
        m.postcopy("retry", m.volume)
        m.crawl()
        assert set(parked(m)) == {*ENTRIES, *LISTINGS}

        server.clear_hooks()
        for name in ENTRIES:
            tree.find(name + "/bad").claims.clear()
        tree.unlink(tree.find("noent"), "bad")          # and this one has gone
        m.postcopy("retry", m.volume)
        m.crawl()
        wait_until(lambda: m.status()["state"] == "complete", 60)
        m.audit(complete=True)
        with m.client() as c:
            for name in (*ENTRIES, *LISTINGS):
                both = [b"ok"] if name == "noent" else [b"bad", b"ok"]
                assert c.names(name) == both
                assert name == "noent" or c.read_file(name + "/bad") == DATA


def test_look_up_of_a_bad_entry_parks_nothing(new_migration, fresh_dir):
    """A client that asks for it again and again: the directory has done nothing."""
    tree = Tree()
    with FakeServer(tree) as server:
        d = tree.mkdir(tree.root, "d")
        tree.file(d, "bad", b"bad")
        tree.file(d, "ok", b"ok")
        take_away = server.hook("LOOKUP", hooks.only(lambda c: c.name == b"bad",
                                                     hooks.status(errors.IO)))
        m = new_migration(server.url(), fresh_dir, conf="max_tries = 2\n").init()
        m.server.allow = ["converted to NFS3ERR_IO"]
        m.start()
        with m.client() as c:
            for _try in range(5):
                assert status_of(c.lookup, "d/bad") == errors.IO
            assert parked(m) == {}
            assert c.read_file("d/ok") == b"ok"
            take_away()
            assert c.read_file("d/bad") == b"bad"
        m.crawl()
        m.audit(complete=True)


def test_an_entry_that_vanishes_while_listed(new_migration, fresh_dir):
    """It was listed, and is removed before it is looked up: listed again, and done."""
    tree = Tree()
    with FakeServer(tree) as server:
        d = tree.mkdir(tree.root, "d")
        for child in ("ok", "gone"):
            tree.file(d, child, b"data")
        for_node(server, "READDIRPLUS", d, lambda s, c, a: bare(d)(s, c, a))
        server.hook("LOOKUP", hooks.only(
            lambda c: c.name == b"gone" and d.child(b"gone"),
            hooks.before(lambda c: tree.unlink(d, "gone"))))
        m = new_migration(server.url(), fresh_dir).init().start()
        m.crawl()
        m.audit(complete=True)
        assert os.listdir(m.volume / "d") == ["ok"]
