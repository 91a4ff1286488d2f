# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are mostly hole: they cost what their data needs, and hold nobody up."""
import os

import pytest

from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

MIB = 1 << 20
HUGE = 100 << 40


class Sparse:
    """A file's contents: zeros, but for some pieces {offset: bytes}."""

    def __init__(self, size, pieces):
        self.size, self.pieces = size, pieces

    def read(self, offset, count):
        data = bytearray(max(0, min(count, self.size - offset)))
        for at, piece in self.pieces.items():
            start, end = max(at, offset), min(at + len(piece), offset + len(data))
            if start < end:
                data[start - offset:end - offset] = piece[start - at:end - at]
        return bytes(data)


PIECES = {0: b"begin", 3 * MIB - 7: b"across a block" * 1000, 399 * MIB + 5: b"e" * 5000}


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_holes_take_no_room(new_volume, new_migration, fstype):
    """More hole than the volume is large."""
    volume = new_volume(fstype, "320M").path / "volume"
    volume.mkdir()
    tree = Tree()
    content = Sparse(401 * MIB + 3, PIECES)
    tree.file(tree.root, b"f", content)
    with FakeServer(tree) as server:
        m = new_migration(server.url(), volume).init().start()
        m.crawl()
        m.audit(complete=True)
        with m.client() as c:
            fh = c.lookup_path(b"f")
            for at in (0, 3 * MIB - 100, 200 * MIB, 399 * MIB, content.size - 4096):
                assert c.read(fh, at, 4096)[0] == content.read(at, 4096), at
        st = os.stat(volume / "f")
        assert st.st_size == content.size
        assert st.st_blocks * 512 < MIB


SHAPES = {
    "empty": (0, {}),
    "byte": (1, {0: b"x"}),
    "a-hole": (8 * MIB, {}),
    "an-odd-hole": (8 * MIB + 4321, {}),
    "less-than-a-block": (4095, {}),
    "at-the-start": (9 * MIB + 1, {8 * MIB + 5: b"s" * (MIB - 4)}),
    "at-the-end": (9 * MIB + 777, {0: b"e" * (MIB + 11)}),
    "in-the-middle": (12 * MIB + 3, {0: b"begin", 12 * MIB: b"end"}),
    "unaligned": (12 * MIB, {5 * MIB + 1234: b"a" * 70001, 7 * MIB - 1: b"bc",
                             11 * MIB + 4095: b"d"}),
    "dense": (4 * MIB, {at: b"d" * 4096 for at in range(0, 4 * MIB, 8192)}),
    "zero-data": (5 * MIB, {MIB: bytes(3 * MIB)}),
}


def blocks_of(pieces):
    """The blocks in which something is no zero."""
    return {at // 4096 for start, data in pieces.items() if any(data)
            for at in range(start - start % 4096, start + len(data), 4096)}


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_shapes(new_volume, new_migration, fstype):
    """Each costs what its data needs, and is the same to everybody."""
    volume = new_volume(fstype, "320M").path / "volume"
    volume.mkdir()
    tree = Tree()
    for name, (size, pieces) in SHAPES.items():
        tree.file(tree.root, name.encode(), Sparse(size, pieces))
    with FakeServer(tree) as server:
        m = new_migration(server.url(), volume).init().start()
        with m.client("v4.2") as c:
            assert c.patient(60).read_file("unaligned") == Sparse(*SHAPES["unaligned"]).read(
                0, 12 * MIB)
        m.crawl()
        m.audit(complete=True)
        for name, (size, pieces) in SHAPES.items():
            content = Sparse(size, pieces).read(0, size)
            assert (volume / name).read_bytes() == content, name
            room = 4096 * len(blocks_of(pieces)) + 32 * 1024
            assert os.stat(volume / name).st_blocks * 512 <= room, name
            with m.client("v3") as c:
                assert c.read_file(name) == content, name


def test_a_huge_file_holds_nobody_up(new_migration, fresh_dir):
    """Not even with one ask at a time; and it need not end for the rest to be done."""
    tree = Tree()
    huge = [tree.file(tree.root, b"huge%d" % i, Sparse(HUGE, {HUGE - 5: b"hello"}))
            for i in range(2)]
    tree.file(tree.root, b"small", b"small")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init().start()
        m.start_crawler("--workers", "1")

        def read(node):
            return any(c.proc == "READ" and c.node is node for c in list(server.calls))
        wait_until(lambda: all(map(read, huge)), 120, "both huge files have their turn")
        wait_until(lambda: m.status()["pending"] == 2, 60, "the rest is done")
        with m.client() as c:
            fh = c.lookup_path(b"huge0")
            assert c.read(fh, HUGE - 5, 5)[0] == b"hello"       # a client need not wait either
            for i in range(2):
                c.setattr(c.lookup_path(b"huge%d" % i), size=5)
        assert m.crawler.wait(120) == 0
        m.audit(complete=True)
        assert (fresh_dir / "huge0").read_bytes() == bytes(5)
