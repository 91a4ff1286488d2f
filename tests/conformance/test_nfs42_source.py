# SPDX-License-Identifier: GPL-3.0-or-later
"""What old servers tell by NFSv4.2 and not before."""
import os
import random
import struct

import pytest

from lib.wait import wait_until
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Sparse, Tree

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
SIZE = 7 * TIB                          # XFS takes it; nobody reads it


@pytest.fixture
def fake():
    with FakeServer(Tree()) as server:
        yield server
        assert not server.sessions.broken


def used(path):
    return os.stat(path).st_blocks * 512


def complete(m):
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)


def right(m):
    answer = m.tool("verify", "--sample", "1000", "--config", m.workdir / "postcopy.conf", m.volume,
                    check=False)
    assert answer["exit"] == 0 and answer["result"] == "right", answer


# -- holes ------------------------------------------------------------------------------------

def sparse(seed):
    rng = random.Random(seed)
    return {at: rng.randbytes(128 * KIB) for at in (MIB, MIB + 192 * KIB, TIB, 5 * TIB + 4096)}


def test_terabytes_without_data(fake, new_migration, fresh_dir):
    data = sparse(42)
    fake.tree.file(fake.tree.root, "huge", Sparse(SIZE, data))
    fake.tree.file(fake.tree.root, "nothing", Sparse(TIB, {}))
    fake.tree.file(fake.tree.root, "all", Pattern(8 * MIB))
    m = new_migration(fake.url(version="4.2"), fresh_dir).init().start()
    complete(m)
    assert os.stat(fresh_dir / "huge").st_size == SIZE
    assert used(fresh_dir / "huge") <= 2 * MIB and used(fresh_dir / "nothing") <= 64 * KIB
    with open(fresh_dir / "huge", "rb") as f:
        for at, expected in data.items():
            assert os.pread(f.fileno(), len(expected), at) == expected
        assert not any(os.pread(f.fileno(), MIB, 3 * TIB))
    assert m.status()["bytes_holes"] > 7 * TIB
    assert fake.bytes_read < 64 * MIB and fake.counts["SEEK"] < 100
    assert used(fresh_dir / "all") >= 8 * MIB


@pytest.mark.parametrize("status", [errors.NOTSUPP, errors.OP_ILLEGAL, errors.BAD_STATEID,
                                    errors.IO])
def test_servers_that_do_not_tell(status, fake, new_migration, fresh_dir):
    fake.seek_status = status
    fake.tree.file(fake.tree.root, "f", Sparse(16 * MIB, {MIB: b"x" * MIB}))
    m = new_migration(fake.url(version="4.2"), fresh_dir).init().start()
    complete(m)
    assert (fresh_dir / "f").read_bytes()[:2 * MIB] == bytes(MIB) + b"x" * MIB
    assert fake.bytes_read >= 16 * MIB and m.status()["parked"] == 0


class Liar(Sparse):
    """Says that there is nothing, and has something everywhere."""

    def seek(self, offset, what):
        return offset if what else None

    def read(self, offset, count):
        return b"y" * max(0, min(count, self.size - offset))


def test_holes_that_are_none(fake, new_migration, fresh_dir):
    fake.tree.file(fake.tree.root, "f", Liar(16 * MIB, {}))
    m = new_migration(fake.url(version="4.2"), fresh_dir,
                      allow=["there is data where it says that there is none"]).init().start()
    complete(m)
    assert (fresh_dir / "f").read_bytes() == b"y" * 16 * MIB


def test_a_real_server(old_server, new_volume, new_migration, fresh_dir):
    """nfs-ganesha's FSAL_VFS: whatever it knows of holes, the bytes are right."""
    top = new_volume("xfs", "512M").path / "tree"
    top.mkdir()
    with open(top / "f", "wb") as f:
        f.truncate(300 * MIB)
        for at in (0, 100 * MIB, 299 * MIB):
            os.pwrite(f.fileno(), b"data" * KIB * 16, at)
    m = new_migration(old_server(top).url(version="4.2"), fresh_dir).init().start()
    complete(m)
    assert (fresh_dir / "f").read_bytes() == (top / "f").read_bytes()
    assert used(fresh_dir / "f") <= MIB
    right(m)


# -- extended attributes ------------------------------------------------------------------------

def test_extended_attributes(fake, new_migration, fresh_dir):
    at = fake.tree.mkdir(fake.tree.root, "d")
    big = bytes(range(256)) * 16
    wanted = {
        "d": {b"of": b"a directory"},
        "d/some": {b"one": b"1", b"two": big, b"empty": b"", b"a/b c": b"\0\1"},
        "d/none": {},
        "d/no-such-thing": None,
    }
    at.xattrs = wanted["d"]
    for path in list(wanted)[1:]:
        fake.tree.file(at, path[2:], b"content").xattrs = wanted[path]
    m = new_migration(fake.url(version="4.2"), fresh_dir).init().start()
    with m.client("v4.1") as c:         # one way in, the crawler the other
        assert c.read_file("d/some") == b"content"
    complete(m)
    for path, xattrs in wanted.items():
        here = {n: os.getxattr(fresh_dir / path, n) for n in os.listxattr(fresh_dir / path)
                if n.startswith("user.")}
        assert here == {"user." + n.decode(): v for n, v in (xattrs or {}).items()}, path
    right(m)
    fake.tree.by_fh[at.fh].entries[0][1].xattrs[b"one"] = b"another"
    answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                    check=False)
    assert answer["result"] != "right", answer


def test_objects_without_cost_no_calls_of_their_own(fake, new_migration, fresh_dir):
    for i in range(50):
        fake.tree.file(fake.tree.root, "f%d" % i, b"x" * 100).xattrs = None
    m = new_migration(fake.url(version="4.2"), fresh_dir).init().start()
    fake.reset_counts()
    complete(m)
    assert not fake.counts["LISTXATTRS"] and not fake.counts["GETXATTR"]


def test_what_is_too_large_is_told(fake, new_migration, new_volume):
    volume = new_volume("ext4", "512M").path / "volume"
    volume.mkdir()
    node = fake.tree.file(fake.tree.root, "f", b"content")
    node.xattrs = {b"small": b"x", b"large": bytes(60000), b"n" * 251: b"x"}
    m = new_migration(fake.url(version="4.2"), volume).init().start()
    complete(m)
    assert os.listxattr(volume / "f").count("user.small") == 1
    told = m.log.read_text()
    assert '"f": not kept: attribute user.large: more than the new file system takes' in told
    assert '"f": not kept: attribute user.' + "n" * 60 in told


# -- creation times ---------------------------------------------------------------------------

BORN = 1_000_000_000 * 10 ** 9 + 1234500


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_creation_times_as_samba_stores_them(version, fake, new_migration, fresh_dir):
    fake.tree.mkdir(fake.tree.root, "d").born = BORN
    fake.tree.file(fake.tree.root, "f", b"f").born = BORN
    fake.tree.symlink(fake.tree.root, "l", "f").born = BORN
    fake.tree.file(fake.tree.root, "unknown", b"f")
    m = new_migration(fake.url(version=version), fresh_dir,
                      conf="creation_times = 1\n").init().start()
    complete(m)
    ticks = BORN // 100 + 11644473600 * 10 ** 7
    for name, kind in (("d", 0x10), ("f", 0)):
        value = os.getxattr(fresh_dir / name, "user.DOSATTRIB")
        assert value == struct.pack("<HHIIIQ", 0, 5, 5, 0x11, kind, ticks)
    assert "user.DOSATTRIB" not in os.listxattr(fresh_dir / "unknown")
    assert os.readlink(fresh_dir / "l") == "f"
    right(m)


def test_creation_times_are_kept_by_choice(fake, new_migration, fresh_dir):
    fake.tree.root.born = BORN
    fake.tree.file(fake.tree.root, "f", b"f").born = BORN
    m = new_migration(fake.url(version="4.2"), fresh_dir)
    rows = {p["property"]: p for p in
            m.tool("check", "--source", m.url, fresh_dir, check=False)["properties"]}
    assert rows["btime"]["volume"] == "lost" and "creation_times = 1" in rows["btime"]["why"]
    assert rows["user-xattrs"]["volume"] == "kept"
    m.init().start()
    complete(m)
    assert "user.DOSATTRIB" not in os.listxattr(fresh_dir / "f")
