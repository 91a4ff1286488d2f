# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects whose attributes cannot be had (parked before they came, a damaged record) are shown
by both servers, to everybody, and give nothing: a name that vanishes is taken for a removed
file by whoever mirrors or backs up, and one object must not hide its directory."""
import os
import stat
import subprocess

import pytest

from lib.expect import smb_status, status_of
from lib.programs import MODULES, STUBTOOL
from lib.smbd import STACK, Samba, Share
from lib.smbsource import with_module
from lib.wait import wait_until
from nfsclient import errors
from nfsclient.rpc import AuthSys
from smb2client import wire

pytestmark = with_module

NAMES = ["bad-dir", "bad-file", "good", "spoiled"]
REFUSED = ("ACCESS_DENIED", "IO_DEVICE_ERROR", "UNEXPECTED_IO_ERROR")
PATIENCE = 60
RECORD = "trusted.postcopy"


def too_many_streams(path):
    for i in range(300):
        os.setxattr(path, "user.DosStream.s%03d:$DATA" % i, b"%03d" % i * 20000 + b"\0")


@pytest.fixture(scope="module")
def m(moddir, new_samba, make, tree):
    for name in NAMES:
        if name == "bad-dir":
            (tree / name).mkdir(mode=0o777)
            (tree / name / "below").write_bytes(b"below")
        else:
            (tree / name).write_bytes(name.encode())
            (tree / name).chmod(0o666)
        if name.startswith("bad"):
            too_many_streams(tree / name)
    m = make(new_samba("streams", tree).url(), conf="max_tries = 1\n",
             allow=[" error: "]).init().start()
    m.server.allow = ["converted to NFS[34]ERR_IO"]
    m.start_crawler()
    wait_until(lambda: m.status()["parked"] == 2 and not m.status()["pending"], 120, "the end")
    os.setxattr(m.volume / "spoiled", RECORD, b"no record")
    return m


@pytest.fixture(scope="module")
def new(moddir, m):
    server = Samba(moddir / "new", module_dir=MODULES,
                   shares=[Share(str(m.volume), vfs=STACK, more="stub:wait = 5000")]).start()
    yield server
    server.stop()


def test_what_cannot_be_had_now_is_listed(moddir, new_samba, make, loop_xfs):
    """Over SMB a listing cannot say "later": no retriever, and attributes that have not come."""
    top = loop_xfs.path / "later"
    top.mkdir(mode=0o755)
    for i in range(20):
        (top / ("f%02d" % i)).write_bytes(b"%d" % i)
    m = make(new_samba("later", top).url()).init().start_retriever()
    subprocess.run([STUBTOOL, "ask", m.volume, ".", "list"], check=True, timeout=300)
    m.kill_retriever()
    server = Samba(moddir / "new-later", module_dir=MODULES,
                   shares=[Share(str(m.volume), vfs=STACK, more="stub:wait = 2000")]).start()
    with server.client() as c:
        assert c.names() == ["f%02d" % i for i in range(20)]
        assert smb_status(c.read_file, "f01") == "NETWORK_BUSY"
        m.start_retriever()
        assert wait_until(lambda: c.read_file("f01"), 60) == b"1"
    server.stop()


@pytest.mark.parametrize("user", ["root", "alice"])
def test_over_smb(m, new, user):
    with new.client(user) as c:
        assert sorted(c.names()) == NAMES
        with c.open("", wire.READ_DATA, options=wire.OPT_DIRECTORY) as d:
            sizes = {e.name: e.size for e in d.list()}
        assert sizes["bad-file"] == len("bad-file")
        if user == "root":
            assert c.stat("bad-file").size == len("bad-file")
            assert c.stat("bad-dir").attributes & wire.ATTR_DIRECTORY
        else:                       # as of any file of mode 0
            assert smb_status(c.stat, "bad-file") == "ACCESS_DENIED"
        for name in ("bad-file", "spoiled"):
            assert smb_status(c.read_file, name) in REFUSED
            assert smb_status(c.open, name, wire.WRITE_DATA) in REFUSED
        assert smb_status(c.names, "bad-dir") in REFUSED
        assert smb_status(c.write_file, "bad-dir/new", b"x") in REFUSED
        assert c.read_file("good") == b"good"


@pytest.mark.parametrize("proto", ["v3", "v4.1"])
@pytest.mark.parametrize("uid", [0, 70001])
def test_over_nfs(m, proto, uid):
    with m.client(proto, cred=AuthSys(uid=uid, gid=uid), patience=PATIENCE) as c:
        assert sorted(os.fsdecode(n) for n in c.names()) == NAMES
        for name in ("bad-file", "bad-dir", "spoiled"):
            attrs = c.getattr(name)
            assert (stat.S_IMODE(attrs.mode), attrs.uid, attrs.gid) == (0, 0, 0), name
        assert c.getattr("bad-file").size == len("bad-file")
        for name in ("bad-file", "spoiled"):
            assert status_of(c.read_file, name) in (errors.ACCES, errors.IO)
        assert status_of(c.names, "bad-dir") in (errors.ACCES, errors.IO)
        assert status_of(c.mkdir, "bad-dir/new") in (errors.ACCES, errors.IO)
        assert c.read_file("good") == b"good"


def test_may_be_renamed_and_removed_and_comes_back_whole(m, new, tree):
    """Names are the directory's business; what was renamed is what comes in the end."""
    with m.client("v3", patience=PATIENCE) as c:
        c.rename("bad-file", "renamed")
        assert status_of(c.rmdir, "bad-dir") in (errors.NOTEMPTY, errors.IO)
        os.removexattr(m.volume / "spoiled", RECORD)
        for name in ("bad-file", "bad-dir"):
            for i in range(1, 300):
                os.removexattr(tree / name, "user.DosStream.s%03d:$DATA" % i)
        m.postcopy("retry", m.volume)
        m.crawl()
        assert c.read_file("renamed") == b"bad-file"
        assert c.read_file("bad-dir/below") == b"below"
        assert stat.S_IMODE(c.getattr("renamed").mode)
        assert c.read_file("spoiled") == b"spoiled"
    m.audit(complete=True)
    with new.client() as c:
        assert c.names() == ["bad-dir", "good", "renamed", "spoiled"]
