# SPDX-License-Identifier: GPL-3.0-or-later
"""An old server that lies: nothing but what it lies about suffers.

One old server is hostile in many directories at once, each a case below, and one
crawl meets them all.  Then each case is looked at by itself: it is parked with a
reason that names it, clients get an I/O error and never zeros, and the honest
rest (and nothing outside the volume) is as it should be.
"""
import os
import pathlib
import re
import struct
import tempfile
from dataclasses import dataclass

import pytest

from lib.expect import status_of
from lib.migration import SOURCE_VERSION, Migration
from lib.sourceversion import unsaid
from lib.wait import wait_until
from nfsclient import NfsError, errors, hooks
from nfsclient.fakeserver import FakeServer, put_post
from nfsclient.faketree import Pattern, Tree
from nfsclient.xdr import Packer

RECORD = "trusted.postcopy"
MEMORY_KB = 128 << 10
CONF = "max_tries = 1\ncall_timeout = 2000\n"


class BadTime(int):
    """A time with 4 000 000 000 nanoseconds."""

    def __divmod__(self, _other):
        return 1, 4000000000


def for_node(server, procs, node, hook):
    server.hook(procs, hooks.only(lambda call: call.node is node, hook))


def read_answer(data, eof, count=None, node=None):
    """Answer READ with these bytes, and with another node's attributes."""
    def run(_server, call, _answer):
        return (put_post(Packer().u32(0), node or call.node)
                .u32(len(data) if count is None else count).boolean(eof).opaque(data).done())
    return run


# -- listings: the directory is parked -----------------------------------------------------

def named(name, **claims):
    return lambda tree, d, server: tree.file(d, name, b"evil").claim(**claims)


def linked(target):
    return lambda tree, d, server: tree.symlink(d, "link", target)


def listing(hook):
    return lambda tree, d, server: for_node(server, "READDIRPLUS READDIR", d, hook)


def long_handle(tree, d, server):
    node = tree.file(d, "f", b"evil")
    node.fh = b"H" * 200


def stuck(tree, d, server):
    for_node(server, "READDIRPLUS", d, hooks.stuck_cookie(d.child(b"ok")))


def circle(tree, d, server):
    for_node(server, "READDIRPLUS", d, lambda s, call, _answer: hooks._listing(
        s, call, [(b"r%d" % call.cookie, d.child(b"ok"), (call.cookie + 1) % 5 + 10)], False))


# name: (how, what the reason says)
DIRECTORIES = {
    "dotdot-file": (named(b".."), "listing"),
    "dot-file": (named(b"."), "listing"),
    "slash": (named(b"a/b"), r'entry "a/b"'),
    "escape": (named(b"../../beside/new"), r'entry "\.\./\.\./beside/new"'),
    "absolute": (named(b"/var/tmp/w/evil"), r'entry "/var/tmp/w/evil"'),
    "empty-name": (named(b""), "entry|listing"),
    "nul-name": (named(b"nul\0nul"), "listing"),
    "long-name": (named(b"n" * 300), r'entry "nnnn'),
    "stuck-cookie": (stuck, "listing"),
    "cookie-circle": (circle, "listing"),
    "empty-pages": (listing(hooks.empty_pages), "listing"),
    "garbage-list": (listing(hooks.garbage()), "listing"),
    "cut-list": (listing(hooks.truncate(-10)), "listing"),
    "list-error": (listing(hooks.status(errors.IO)), "listing"),
}

# -- entries: the directory is listed without them, and parked ------------------------------

ENTRIES = {
    "size-2^63+1": (named(b"huge", size=(1 << 63) + 1), "huge"),
    "size-2^64-1": (named(b"huge", size=(1 << 64) - 1), "huge"),
    "type-9": (named(b"odd", type=9), "odd"),
    "nsec": (named(b"when", mtime=BadTime(1)), "when"),
    "owner": (named(b"whose", uid=0xffffffff), "whose"),
    "long-handle": (long_handle, "f"),
    "no-target": (linked(b""), "link"),
    "nul-target": (linked(b"a\0b"), "link"),
    "long-target": (linked(b"t" * 5000), "link"),
}


# -- files: the file is parked --------------------------------------------------------------

def reading(hook, size=20000, **claims):
    def make(tree, d, server):
        node = tree.file(d, "bad", Pattern(size, seed=9)).claim(**claims)
        for_node(server, "READ", node, hook)
    return make


def other_fileid(tree, d, server):
    node = tree.file(d, "bad", Pattern(20000, seed=9))
    for_node(server, "READ", node, read_answer(Pattern(20000, seed=8).read(0, 20000), True,
                                               node=d.child(b"ok")))


def no_size(tree, d, server):
    tree.file(d, "bad", Pattern(100, seed=9)).claim(size=1 << 62)


def early_end(tree, d, server):
    tree.file(d, "bad", Pattern(20000, seed=9)).claim(size=50000)


# name: (how, why it is parked, what the reason says)
FILES = {
    "garbage-read": (reading(hooks.garbage()), "error", "read"),
    "cut-read": (reading(hooks.truncate(-10)), "error", "read"),
    "cut-attributes": (reading(hooks.truncate(20)), "error", "read"),
    "nothing-read": (reading(read_answer(b"", False)), "error", "read"),
    "more-than-asked": (reading(read_answer(b"x" * 20008, True)), "error", "read"),
    "count-lies": (reading(read_answer(b"x" * 20000, True, count=7)), "error", "read"),
    "read-error": (reading(hooks.status(errors.IO)), "error", "read"),
    "denied": (reading(hooks.status(errors.ACCES)), "error", "read"),
    "stale": (reading(hooks.status(errors.STALE)), "error", "read"),
    "rpc-error": (reading(hooks.system_err), "error", "read"),
    "other-fileid": (other_fileid, "conflict", "replaced"),
    "size-2^62": (no_size, "error", "read|write"),
    "early-end": (early_end, "error", "shorter"),
}


def said(kind, cases):
    """Those that the version can say."""
    return {name: case for name, case in cases.items() if SOURCE_VERSION == "3" or not unsaid(
        "tests/conformance/test_hostile_source.py::test_hostile_%s[%s]" % (kind, name))}


SAID = {kind: said(kind, cases) for kind, cases in
        (("directory", DIRECTORIES), ("entry", ENTRIES), ("file", FILES))}


# -- odd, but nothing is wrong: all of it migrates ---------------------------------------------

def twins(tree, d, server):
    """A symlink that leads outside, then a directory of the same name."""
    tree.symlink(d, "twin", "/var/tmp")
    node = tree.file(d, "one", Pattern(500, seed=9))
    tree.link(d, "one", node)
    tree.file(tree.mkdir(d, "twin"), "evil", b"evil")


def short_reads(tree, d, server):
    node = tree.file(d, "bad", Pattern(300000, seed=9))
    for_node(server, "READ", node, lambda s, call, _answer: read_answer(
        node.content.read(call.offset, min(call.count, 777)),
        call.offset + min(call.count, 777) >= 300000)(s, call, None))


def bare(tree, d, server):
    """READDIRPLUS without attributes and handles."""
    def run(s, call, answer):
        p = put_post(Packer().u32(0), d).fixed(bytes(8))
        for i, (name, node) in enumerate(d.entries):
            p.boolean(True).u64(node.fileid).opaque(name).u64(i + 1).boolean(False).boolean(False)
        return p.boolean(False).boolean(True).done()
    tree.file(d, "bad", Pattern(500, seed=9))
    for_node(server, "READDIRPLUS", d, run)


FINE = {"twins": twins, "short-reads": short_reads, "bare-entries": bare}


@dataclass
class Crawled:
    m: Migration
    server: FakeServer
    parked: dict                 # path -> entry
    before: dict
    client: object = None


def surroundings(volume):
    """Everything on the file system around the volume, and in /var/tmp/w."""
    found = {}
    for top in (volume.parent, pathlib.Path("/var/tmp/w")):
        for where, dirs, files in os.walk(top):
            if pathlib.Path(where) == volume.parent:
                dirs.remove(volume.name)
            for name in ([*dirs, *files] if top == volume.parent else
                         [n for n in files if "evil" in n]):
                path = os.path.join(where, name)
                st = os.lstat(path)
                found[path] = (st.st_mode, st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


@pytest.fixture(scope="module")
def crawled(loop_xfs, workdir, rpcshim):
    tree = Tree()
    server = FakeServer(tree)
    good = tree.mkdir(tree.root, "good")
    for i in range(20):
        tree.file(good, "f%d" % i, Pattern(1000 + i, seed=i + 1))
    for name, (make, *_says) in [item for cases in SAID.values() for item in cases.items()]:
        d = tree.mkdir(tree.root, name)
        tree.file(d, "ok", Pattern(5000, seed=3))
        make(tree, d, server)
    for name, make in FINE.items():
        d = tree.mkdir(tree.root, name)
        tree.file(d, "ok", Pattern(5000, seed=3))
        make(tree, d, server)
    home = pathlib.Path(tempfile.mkdtemp(prefix="hostile-", dir=loop_xfs.path))
    (home / "beside").mkdir()
    (home / "beside" / "canary").write_bytes(b"canary")
    volume = home / "volume"
    volume.mkdir()
    with server:
        m = Migration(tempfile.mkdtemp(prefix="m-", dir=workdir), server.url(), volume,
                      shim=rpcshim, conf=CONF, allow=["source 127.0.0.1: "])
        m.server.allow = ["converted to NFS3ERR_IO"]
        before = surroundings(volume)
        m.init().start()
        try:
            m.crawl(timeout=300)
            parked = {p.get("path"): p for p in m.tool("parked", volume)["parked"]}
            with m.client(patience=120) as client:
                yield Crawled(m, server, parked, before, client)
        finally:
            m.stop()


def test_everything_else_migrated(crawled):
    wait_until(lambda: crawled.m.status()["state"] == "only-parked", what="a connection again")
    assert crawled.m.status()["pending"] == 0
    assert set(crawled.parked) == {*SAID["directory"], *SAID["entry"],
                                   *(name + "/bad" for name in SAID["file"])}
    for i in range(20):
        assert crawled.client.read_file("good/f%d" % i) == Pattern(1000 + i, seed=i + 1).read(0, 2000)
        assert RECORD not in os.listxattr(crawled.m.volume / "good" / ("f%d" % i))
    scan = crawled.m.scan()
    assert scan["uncovered"] == scan["corrupt"] == scan["leftovers"] == 0, scan


@pytest.mark.parametrize("name", DIRECTORIES)
def test_hostile_directory(crawled, name):
    entry = crawled.parked[name]
    assert (entry["why"], entry["kind"]) == ("error", "directory")
    assert re.search(DIRECTORIES[name][1], entry["reason"]), entry
    assert status_of(crawled.client.names, name) == errors.IO
    local = os.listdir(crawled.m.volume / name)
    assert set(local) <= {"ok", "again", "r0", "r1"} | {"r%d" % i for i in range(20)}, local


@pytest.mark.parametrize("name", ENTRIES)
def test_hostile_entry(crawled, name):
    entry, bad = crawled.parked[name], ENTRIES[name][1]
    assert (entry["why"], entry["kind"]) == ("error", "directory")
    assert 'entry "%s"' % bad in entry["reason"], entry
    assert crawled.client.names(name) == [b"ok"]
    assert crawled.client.read_file(name + "/ok") == Pattern(5000, seed=3).read(0, 5000)
    assert status_of(crawled.client.lookup, name + "/" + bad) == errors.IO


@pytest.mark.parametrize("name", FILES)
def test_hostile_file(crawled, name):
    entry = crawled.parked[name + "/bad"]
    assert (entry["why"], entry["kind"]) == (FILES[name][1], "file")
    assert re.search(FILES[name][2], entry["reason"]), entry
    assert crawled.client.read_file(name + "/ok") == Pattern(5000, seed=3).read(0, 5000)
    size = crawled.client.getattr(name + "/bad").size
    slow = name in ("cut-read", "cut-attributes", "garbage-read", "rpc-error")   # reconnects
    for offset in (size // 2,) if slow else (0, size // 2, size - 8):
        try:
            data, _eof = crawled.client.patient(120).read(name + "/bad", offset, 8)
        except NfsError as err:
            assert err.status == errors.IO
        else:        # what it gave honestly before the lie
            assert data and data == Pattern(20000, seed=9).read(offset, 8)


@pytest.mark.parametrize("name", FINE)
def test_odd_but_fine(crawled, name):
    names = crawled.client.names(name)
    assert len(names) == len(set(names)) == 3 if name == "twins" else 2
    assert crawled.client.read_file(name + "/ok") == Pattern(5000, seed=3).read(0, 5000)
    if name == "twins":
        assert crawled.client.readlink(name + "/twin") == b"/var/tmp"
    else:
        node = crawled.server.tree.find(name + "/bad")
        assert crawled.client.read_file(name + "/bad") == node.content.read(0, node.size)


@pytest.mark.parametrize("name", [b"..x", b"a\\b", b"n" * 255])
def test_names_that_only_look_odd(crawled, name):
    """... are names like any other: looked up, and not there."""
    assert not crawled.client.exists((crawled.client.fh("good"), name))


def test_nothing_outside_was_touched(crawled):
    assert surroundings(crawled.m.volume) == crawled.before


def test_retriever_is_well(crawled):
    assert crawled.m.retriever.poll() is None
    text = pathlib.Path("/proc/%d/status" % crawled.m.retriever.pid).read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", text)[1]) < MEMORY_KB


def test_old_server_was_only_read(crawled):
    assert crawled.server.writes == 0


# -- for ever ------------------------------------------------------------------------------

def checksum(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return struct.pack("<I", (h ^ h >> 32) & 0xffffffff)


def set_depth(path, depth):
    """Let a directory's record say that it lies this deep (see record.c)."""
    record = os.getxattr(path, RECORD)
    assert record[4] < 0x80 and record[-4:] == checksum(record[:-4])
    body = record[:4] + bytes([depth & 0x7f | 0x80, depth >> 7]) + record[5:-4]
    os.setxattr(path, RECORD, body + checksum(body))


def test_directory_cycle_ends_at_the_depth_limit(fresh_dir, new_migration):
    tree = Tree()
    loop = tree.mkdir(tree.root, "loop")
    tree.link(loop, "loop", loop)
    tree.file(tree.root, "f", Pattern(1000))
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        with m.client() as c:
            assert c.names() == [b"f", b"loop"]
            set_depth(fresh_dir / "loop", 8189)
            m.crawl()
            parked = m.tool("parked", fresh_dir)["parked"]
            assert [p["path"] for p in parked] == ["loop/loop/loop/loop"]
            assert 'entry "loop"' in parked[0]["reason"]
            assert c.read_file("f") == Pattern(1000).read(0, 1000)


def test_directory_cycle_holds_up_nobody(fresh_dir, new_migration):
    tree = Tree()
    loop = tree.mkdir(tree.root, "a-loop")
    tree.link(loop, "loop", loop)
    for i in range(200):
        tree.file(tree.root, "f%d" % i, Pattern(1000))
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        m.start_crawler()
        wait_until(lambda: m.status()["entries"] > 300, 60, "some rounds")
        wait_until(lambda: not any(RECORD in os.listxattr(fresh_dir / ("f%d" % i))
                                   for i in range(200)), 60, "all files normal")
        m.kill_crawler()


def test_endless_directory_holds_up_nobody(fresh_dir, new_migration):
    """It cannot be told from a large one; memory stays, and the rest arrives."""
    tree = Tree()
    d = tree.mkdir(tree.root, "endless")
    node = tree.file(d, "e0", Pattern(10))
    tree.file(tree.root, "f", Pattern(1000))
    with FakeServer(tree) as server:
        for_node(server, "READDIRPLUS", d, hooks.endless_listing(node, 500))
        m = new_migration(server.url(), fresh_dir, conf=CONF).init().start()
        m.start_crawler()
        wait_until(lambda: m.status()["entries"] > 5000, 60, "many entries")
        wait_until(lambda: RECORD not in os.listxattr(fresh_dir / "f"), what="the file normal")
        text = pathlib.Path("/proc/%d/status" % m.retriever.pid).read_text()
        assert int(re.search(r"VmHWM:\s+(\d+)", text)[1]) < MEMORY_KB
        with m.client(patience=0) as c:
            assert status_of(c.names, "endless") == errors.JUKEBOX
            assert c.read_file("f") == Pattern(1000).read(0, 1000)
        m.kill_crawler()
