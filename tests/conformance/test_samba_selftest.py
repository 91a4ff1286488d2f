# SPDX-License-Identifier: GPL-3.0-or-later
"""The smbd that the suite starts."""
import os
import subprocess

import pytest

import smbd
from servers import RUNNING, BadLog


@pytest.fixture(scope="module")
def tree(loop_xfs):
    top = loop_xfs.path / "data"
    top.mkdir()
    top.chmod(0o777)
    return top


@pytest.fixture(scope="module")
def server(new_samba, tree):
    return new_samba("stock", tree)


def ok(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_reads_and_writes(server, tree, moddir):
    (moddir / "in").write_bytes(os.urandom(100000))
    ok(server.smbclient("mkdir d; put %s/in d/f; get d/f %s/out" % (moddir, moddir)))
    assert (moddir / "in").read_bytes() == (moddir / "out").read_bytes()
    assert (tree / "d/f").stat().st_size == 100000
    assert " f " in ok(server.smbclient("ls d/*"))


def test_users_are_mapped(server, tree):
    """A user of SMB is the user of the same name on the disk, and no other."""
    ok(server.smbclient("mkdir hers", user="alice"))
    assert (tree / "hers").stat().st_uid == smbd.USERS["alice"][0]
    os.chmod(tree / "hers", 0o700)
    assert "ACCESS_DENIED" in server.smbclient("cd hers; ls", user="bob").stdout


def test_wrong_password(server):
    done = subprocess.run(["smbclient", "-s", str(server.config), "-p", str(server.port), "-U",
                           "alice%wrong", server.unc(), "-c", "ls"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0 and "LOGON_FAILURE" in done.stdout


def test_sids_are_the_same_on_every_server(server, new_samba, tree):
    other = new_samba("twin", tree)
    sids = [[line for line in s.tool("pdbedit", "-L", "-v").stdout.splitlines()
             if line.startswith("User SID:")] for s in (server, other)]
    assert sids[0] == sids[1] and len(sids[0]) == len(smbd.USERS)
    assert any(line.endswith(server.sid("alice")) for line in sids[0])


@pytest.mark.parametrize("crash", [False, True])
def test_restart(new_samba, tree, crash):
    server = new_samba("restart%d" % crash, tree)
    port, pid = server.port, server.pid
    (tree / "kept").write_bytes(b"x" * 77)
    server.restart(crash=crash)
    assert server.port == port and server.pid != pid
    assert " 77 " in ok(server.smbclient("ls kept"))


def test_nothing_stays(new_samba, tree):
    server = new_samba("ends", tree)
    ok(server.smbclient("ls"))
    assert server in RUNNING and server.processes()
    server.stop()
    assert not server.processes() and server not in RUNNING


def test_bad_words_are_found(new_samba, tree):
    server = new_samba("bad", tree, vfs=("acl_xattr",))
    assert server.scan() == []
    with open(server.workdir / "log" / "log.smbd", "a") as log:
        log.write("  PANIC (pid 1): seen\n  fine\n")
    assert server.scan(allow=["seen"]) == []
    with open(server.workdir / "log" / "log.smbd", "a") as log:
        log.write("  PANIC (pid 1): seen\n  fine\n")
    with pytest.raises(BadLog, match="PANIC.*seen"):
        server.stop()


def test_module_that_is_not_installed(new_samba, tree, moddir):
    """Taken from module_dir, before the distribution's of the same name."""
    mods = moddir / "modules"
    mods.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", mods / "offline.so"],
                   input=b"unsigned samba_init_module(void) { return 0xC0000001; }", check=True)
    stack = ("offline", *smbd.STOCK)
    server = new_samba("installed", tree, vfs=stack)
    ok(server.smbclient("ls"))
    server.module_dir = mods
    with pytest.raises(AssertionError, match="BAD_NETWORK_NAME"):
        server.restart()
    bad = "\n".join(server.scan())
    assert "error probing vfs module 'offline'" in bad
    (mods / "offline.so").unlink()
    server.start()
    ok(server.smbclient("ls"))
