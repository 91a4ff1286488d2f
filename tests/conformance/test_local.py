# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written in the volume around the servers is told of, and not overwritten."""
import json
import os

import pytest

from lib.wait import wait_until
from nfsclient import NfsError, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

SIZE = 300000
OLD = 1500000000 * 10 ** 9


def write_inside(path):
    with open(path, "r+b") as f:
        f.seek(1000)
        f.write(b"local")


def write_anew(path):
    path.write_bytes(b"local" * 1000)


def copy_over(path):
    """As cp -p does, with the times of what was copied."""
    write_anew(path)
    os.utime(path, (1000000000, 1000000000))


WAYS = {"inside": write_inside, "anew": write_anew, "copied": copy_over}


def test_a_local_write_becomes_a_conflict(new_migration, fresh_dir):
    tree = Tree()
    for name in (*WAYS, "other", "clients"):
        tree.file(tree.root, name.encode(), Pattern(SIZE), mode=0o666, mtime=OLD, ctime=OLD)
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        m.server.allow.append("but was set non-retryable")
        with m.client() as c:
            assert len(c.names()) == len(WAYS) + 2
            c.write(c.lookup_path(b"clients"), 5, b"client")
        written = {}
        for name, way in WAYS.items():
            way(fresh_dir / name)
            written[name] = (fresh_dir / name).read_bytes()
        crawler = m.start_crawler()
        wait_until(lambda: m.status()["conflicts"] == len(WAYS), 60, "they are noticed")
        assert crawler.wait(60) == 0
        m.audit(parked=len(WAYS))
        parked = json.loads(m.postcopy("parked", "--json", m.volume).stdout)["parked"]
        assert {p["path"] for p in parked} == set(WAYS)
        assert all("on the new server itself" in p["reason"] for p in parked)
        m.postcopy("retry", m.volume, "--conflicts")
        wait_until(lambda: m.start_crawler().wait(60) == 0 and
                   m.status()["conflicts"] == len(WAYS), 60, "again")
        with m.client() as c:
            with pytest.raises(NfsError) as info:
                c.read_file(b"inside")
            assert info.value.status == errors.IO
            assert c.read_file(b"other") == Pattern(SIZE).read(0, SIZE)
            data = bytearray(Pattern(SIZE).read(0, SIZE))
            data[5:11] = b"client"
            assert c.read_file(b"clients") == data
        for name, data in written.items():
            assert (fresh_dir / name).read_bytes() == data
        m.postcopy("resolve", "--theirs", m.volume, "inside")
        for name in ("anew", "copied"):
            m.postcopy("resolve", "--ours", m.volume, name)
        m.crawl()
        m.audit(complete=True)
        written["inside"] = Pattern(SIZE).read(0, SIZE)
        with m.client() as c:
            for name, data in written.items():
                assert c.read_file(name.encode()) == data, name


def test_everybody_is_told(new_migration, fresh_dir):
    with FakeServer(Tree()) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        assert "no local program" in m.postcopy("status", m.volume).stdout.replace("\n", " ")
        m.crawl()
        assert "no local program" not in m.postcopy("status", m.volume).stdout


@pytest.mark.parametrize("way", WAYS)
def test_ways_out(new_migration, fresh_dir, way):
    """The old server's file after all, or what is here."""
    tree = Tree()
    for name in ("theirs", "ours"):
        tree.file(tree.root, name.encode(), Pattern(SIZE), mode=0o666, mtime=OLD, ctime=OLD)
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        with m.client() as c:
            assert c.names() == [b"ours", b"theirs"]
        for name in ("theirs", "ours"):
            (WAYS[way] if name == "theirs" else write_anew)(fresh_dir / name)
        m.crawl()
        assert m.status()["conflicts"] == 2
        for name in ("theirs", "ours"):
            m.postcopy("resolve", "--" + name, m.volume, name)
        m.crawl()
        m.audit(complete=True)
        with m.client() as c:
            assert c.read_file(b"theirs") == Pattern(SIZE).read(0, SIZE)
            assert c.read_file(b"ours") == b"local" * 1000
