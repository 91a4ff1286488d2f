# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system of the volume gives up while it is served, and comes back: XFS shuts
itself down, ext4 turns read-only.  What was acknowledged as durable is there, the rest
is the old server's or the client's, never zeros, and the migration ends."""
import pathlib
import subprocess

import pytest

from lib.case import pattern
from lib.expect import same, status_of
from lib.wait import wait_until
from nfsclient import PROTOCOLS, NfsError, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.nfstypes import UNSTABLE

BLOCK = 65536
SIZE = 6 * BLOCK + 77
FILES = ("read", "written", "cold")
GANESHA_ALLOW = (r"but was set non-retryable", r"Input/output error", r"Read-only file system")
RETRIEVER_ALLOW = (r"input/output error", r"read-only", r"sync of the volume",
                   r"pending journal", r"structure needs cleaning", r"write to the new volume",
                   r"finishing an object", r"stub record", r"look-up of", r"listing", r"error: ")


@pytest.fixture
def source():
    tree = Tree()
    for n, name in enumerate(FILES):
        tree.file(tree.root, name.encode(), pattern(SIZE, n + 1))
    tree.file(tree.mkdir(tree.root, b"later"), b"new", b"never seen before")
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def serve(source, new_migration):
    """Starts a migration on a volume whose file system will fail."""
    def start(volume):
        (volume.path / "volume").mkdir()
        m = new_migration(source.url(), volume.path / "volume",
                          conf="block_size = %d\nmax_tries = 1000\n" % BLOCK,
                          allow=RETRIEVER_ALLOW)
        m.server.allow += GANESHA_ALLOW
        return m.init().start()
    return start


def old(name):
    return pattern(SIZE, FILES.index(name) + 1)


def come_back(m, volume, repair=()):
    """Everything ends, the file system is mounted again in the same boot."""
    m.server.kill9()
    m.kill_retriever()
    volume.umount()
    # a mount namespace of somebody else may keep the broken file system for a while
    live = pathlib.Path("/sys/fs") / volume.fstype / pathlib.Path(volume.device).name
    wait_until(lambda: not live.exists(), 60, "end of the file system")
    if repair:
        assert subprocess.run([*repair, volume.device], capture_output=True).returncode in (0, 1)
    volume.mount()
    m.start()


def ends_well(m, expected):
    """Every byte is one of those that it may be; then the crawler finishes it."""
    with m.client("v3") as c:
        seen = {name: c.patient(30).read_file(name) for name in expected}
        for name, may in expected.items():
            assert seen[name] in may, "%s: neither the old server's bytes nor the client's" % name
    m.crawl()
    m.audit(complete=True)
    m.server.restart()
    with m.client("v3") as c:
        for name in expected:
            same(c.read_file(name), seen[name])
        same(c.read_file("later/new"), b"never seen before")


def over(data, offset, new):
    return data[:offset] + new + data[offset + len(new):]


@pytest.mark.allow_log(*GANESHA_ALLOW)
@pytest.mark.parametrize("version, flush", [("v3", ""), *((v, "-f") for v in PROTOCOLS)])
def test_xfs_shuts_down(new_volume, serve, version, flush):
    """With its log kept, all records are there and the data that they tell of is not."""
    volume = new_volume("xfs", "320M")
    m = serve(volume)
    stable, unstable = b"stable" * 100, b"unstable" * 100
    with m.client(version) as hasty:
        c = hasty.patient(60)
        same(c.read("read", 0, 3 * BLOCK)[0], old("read")[:3 * BLOCK])
        c.write("written", BLOCK + 10, stable, UNSTABLE)
        c.commit("written")
        c.write("written", 3 * BLOCK + 10, unstable, UNSTABLE)
        subprocess.run(["xfs_io", "-x", "-c", "shutdown %s" % flush, str(volume.path)],
                       check=True)
        assert status_of(c.commit, "written") == errors.IO
        for name in FILES:
            with pytest.raises(NfsError):
                hasty.patient(3).read(name, 4 * BLOCK, 10)
    come_back(m, volume)
    written = over(old("written"), BLOCK + 10, stable)
    ends_well(m, {"read": [old("read")], "cold": [old("cold")],
                  "written": [written, over(written, 3 * BLOCK + 10, unstable)]})
    m.stop()
    volume.destroy()


@pytest.mark.allow_log(*GANESHA_ALLOW)
def test_ext4_turns_read_only(new_volume, serve):
    """Reads go on; what would change something is refused.  (Not of a file that was
    written last: FSAL_VFS has it open for that, and would open it for both.)"""
    volume = new_volume("ext4", "128M", options="errors=remount-ro")
    m = serve(volume)
    clients = [m.client(version).patient(30) for version in PROTOCOLS]
    for c in clients:
        same(c.read("read", 0, BLOCK)[0], old("read")[:BLOCK])
        c.getattr("cold")
    clients[0].write("written", 100, b"stable" * 10)
    written = over(old("written"), 100, b"stable" * 10)
    trigger = pathlib.Path("/sys/fs/ext4") / pathlib.Path(volume.device).name
    (trigger / "trigger_fs_error").write_text("test")
    for c in clients:
        same(c.read_file("read", chunk=BLOCK + 1000), old("read"))
        same(c.read_file("cold", chunk=SIZE), old("cold"))
        assert status_of(c.write, "cold", 0, b"no") == errors.ROFS
        assert status_of(c.setattr, "cold", size=5) == errors.ROFS
        assert status_of(c.remove, "cold") == errors.ROFS
        assert status_of(c.lookup, "later/new") == errors.ROFS
        same(c.read("cold", 0, 100)[0], old("cold")[:100])
    status = m.status()
    assert status["volume_error"] == "Read-only file system", status
    assert status["parked"] == 0 and status["bytes_passed"] > 0, status
    for c in clients:
        c.close()
    come_back(m, volume, repair=("e2fsck", "-fy"))
    wait_until(lambda: m.status()["volume_error"] == "", 60, "a volume without errors")
    ends_well(m, {"read": [old("read")], "cold": [old("cold")], "written": [written]})
    m.stop()
    volume.destroy()
