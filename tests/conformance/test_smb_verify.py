# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy verify` against an SMB server: what Windows knows of a file is compared, too."""
import pytest

from lib import proof, smbd, smbtree
from lib.damage import Disk
from lib.migration import SmbMigration
from lib.smbsource import IDMAP, settings, with_module
from lib.smbtree import descriptor, pattern
from lib.wait import wait_until
from smb2client import wire

pytestmark = with_module

MORE = "D:P(A;;FA;;;{alice})(A;;FR;;;{bob})"
LESS = "D:P(A;;FA;;;{alice})"


@pytest.fixture(scope="module")
def old(new_samba, tree):
    server = new_samba("old", tree, more=smbtree.RAW_NAMES)
    with server.client() as c:
        c.mkdir("dir")
        for name in ("acl", "acl-of-less", "clients-acl", "streams", "clients-streams", "plain",
                     "dir/file", "attributes"):
            c.write_file(name, pattern(len(name), 5000))
        for name in ("acl", "clients-acl"):
            c.set_security(name, descriptor(MORE))
        c.set_security("acl-of-less", descriptor(LESS))
        for name in ("streams", "clients-streams", "dir"):
            for stream in ("one", "two"):
                c.write_file("%s:%s" % (name, stream), pattern(7, 900))
    server.shares[0].readonly = True
    return server.restart()


@pytest.fixture
def disk(new_volume):
    return new_volume("ext4", "1G")


@pytest.fixture
def m(moddir, rpcshim, disk, old, tmp_path):
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    (moddir / "idmap").write_text(IDMAP)
    m = SmbMigration(tmp_path / "m", old.url(), disk.path / "volume", shim=rpcshim,
                     more=smbtree.RAW_NAMES,
                     conf=settings(smb_credentials=login, smb_idmap=moddir / "idmap"))
    m.volume.mkdir()
    m.init().start()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    yield m
    m.stop()


def verify(m):
    answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                    check=False)
    assert answer["ok"], answer
    return {f["path"]: (f["class"], set(f["what"])) for f in answer["found"]}, answer


def test_what_windows_knows(m, disk):
    found, answer = verify(m)
    assert not found and answer["exit"] == 0 and answer["right"] == 10, answer
    with m.client() as c:
        c.set_security("clients-acl", descriptor(LESS))
        c.write_file("clients-streams:one", b"other")
        with c.open("attributes", access=wire.SYNCHRONIZE | 0x180) as f:
            f.set_basic(attributes=wire.ATTR_HIDDEN)
    m.server.stop()
    found, _ = verify(m)
    changes = {"clients-acl": ("changed", {"acl"}), "clients-streams": ("changed", {"stream"})}
    assert found.pop("attributes")[0] == "changed"
    # smbd may move the write time with a stream, and the mode with a descriptor
    assert {path: (was, what - {"mtime", "mode"}) for path, (was, what) in found.items()} == \
        changes
    m.stop()
    with Disk(disk) as on:
        less = on.get_attribute("volume/acl-of-less", "security.NTACL")
        on.set_attribute("volume/acl", "security.NTACL", less)
        on.lose_attribute("volume/streams", "user.DosStream.two:$DATA")
        on.lose_attribute("volume/dir", "user.DosStream.one:$DATA")
        on.flip("volume/dir/file", 4999)
    found, answer = verify(m)
    want = {"acl": {"acl"}, "streams": {"stream"}, "dir": {"stream"}, "dir/file": {"content"}}
    got = {path: what for path, (was, what) in found.items() if was == "different"}
    proof.count(seeded=len(want), found=sum(got.get(path) == want[path] for path in want),
                false_alarms=sum(was != "changed" for path, (was, _) in found.items()
                                 if path not in want))
    assert got == want
    assert answer["unclear"] == 0 and answer["exit"] == 3
