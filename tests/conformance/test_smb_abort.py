# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy abort` of a migration from an SMB server to an smbd, on ext4: what is whole stays
whole, what misses something is aside, root's, and in the list with its path over there."""
import json
import os

import pytest

from lib.migration import SmbMigration
from lib.smbd import STOCK, Share
from lib.smbsource import with_module
from smb2client import SmbError, wire

MIB = 1 << 20
AWAY = ".postcopy-incomplete"
FILES = {"whole": 70000, "half": 3 * MIB, "none": 70000, "dir/read": 70000, "dir/never": 70000}

pytestmark = with_module


def data(name):
    return ((name.encode() + b"\n") * FILES[name])[:FILES[name]]


@pytest.fixture
def running(make, new_samba, tree):
    """whole: read.  half: its first bytes read, and a client's at its end.  none: looked up.
    dir: one of two names looked up, and read."""
    (tree / "dir").mkdir(exist_ok=True)
    for name in FILES:
        (tree / name).write_bytes(data(name))
        (tree / name).chmod(0o666)
    m = make(new_samba("old", tree).url(), "ext4", kind=SmbMigration,
             conf="block_size = 65536\nread_size = 65536\n").init().start()
    with m.client("alice") as c:
        assert {"whole", "half", "none", "dir"} <= set(c.names(""))
        assert c.read_file("whole") == data("whole")
        assert c.read_file("dir\\read") == data("dir/read")
        with c.open("half") as f:
            assert f.read(0, 1000) == data("half")[:1000]
        with c.open("half", wire.READ_DATA | wire.WRITE_DATA) as f:
            f.write(2 * MIB, b"mine")
    m.server.stop()
    m.kill_retriever()
    return m


def test_abort(running, new_samba, tmp_path):
    m, to = running, tmp_path / "list"
    m.postcopy("abort", "--dry-run", "--list", to, m.volume)
    before = to.read_text()
    assert m.scan()["clean"]
    answer = json.loads(m.postcopy("abort", "--json", "--yes", "--list", to, m.volume).stdout)
    assert answer["aborted"] and to.read_text() == before
    listed = {entry["path"]: entry for entry in map(json.loads, before.splitlines())}
    assert set(listed) == {"half", "none", "dir"}
    assert {p: e["source_path"] for p, e in listed.items()} == {p: p for p in listed}
    half = listed["half"]
    assert "data" in half["missing"] and half["changed_by_clients"]
    assert half["ranges"][-1] == [2 * MIB + 4, 3 * MIB] and half["ranges"][0][0] >= 1000
    assert "data" in listed["none"]["missing"] and "entries" in listed["dir"]["missing"]
    assert not (m.volume / ".postcopy").exists()
    for path in m.volume.rglob("*"):
        assert "trusted.postcopy" not in os.listxattr(path, follow_symlinks=False), path
    for name in ("half", "none"):
        st = (m.volume / (name + AWAY)).stat()
        assert (st.st_mode & 0o7777, st.st_uid) == (0, 0) and not (m.volume / name).exists()
    with open(m.volume / ("half" + AWAY), "rb") as f:
        assert f.read(1000) == data("half")[:1000]
        f.seek(2 * MIB)
        assert f.read(4) == b"mine"
    done = m.postcopy("abort", "--yes", "--list", to, m.volume, check=False)
    assert done.returncode == 50 and to.read_text() == before

    stock = new_samba("stock", shares=[Share(str(m.volume), vfs=STOCK)])
    with stock.client("alice") as c:
        assert c.read_file("whole") == data("whole")
        assert c.read_file("dir\\read") == data("dir/read")
        for name in ("half", "none"):
            with pytest.raises(SmbError, match="OBJECT_NAME_NOT_FOUND"):
                c.read_file(name)
            with pytest.raises(SmbError, match="ACCESS_DENIED"):
                c.read_file(name + AWAY)
