# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy init --check` with a stock smbd as the old server."""
import json
import os
import socket
import subprocess

import pytest

from lib import smbd
from lib.migration import Migration
from lib.programs import POSTCOPY, WORKER

pytestmark = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")


@pytest.fixture(scope="module")
def tree(new_volume):
    """What its disk holds; clients of SMB see some of it under other names."""
    top = new_volume("xfs", "512M", options="noatime").path / "tree"
    (top / "many").mkdir(parents=True)
    for name in ("plain", "grüße", "readme", "README", "ReadMe", ".hidden"):
        (top / name).write_bytes(b"x")
    for i in range(3000):
        (top / "many" / ("f%d" % i)).write_bytes(b"")
    deep = top
    for _ in range(10):
        deep = deep / ("d" * 100)
        deep.mkdir()
    (deep / ("e" * 12)).write_bytes(b"")
    return top


@pytest.fixture(scope="module")
def old(new_samba, tree):
    return new_samba("old", tree)


@pytest.fixture(scope="module")
def config(moddir):
    login, path = moddir / "login", moddir / "postcopy.conf"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    path.write_text('smb_credentials = "%s"\nsmb_worker = "%s"\n' % (login, WORKER))
    return path


def check(*argv):
    return subprocess.run(["/usr/bin/python3", str(POSTCOPY), "init", "--check", *map(str, argv)],
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


def answer(*argv, exit=3):
    done = check("--json", *argv)
    assert done.returncode == exit, done
    return json.loads(done.stdout)


def stats(top):
    return {os.path.join(d, n): os.lstat(os.path.join(d, n))
            for d, dirs, files in os.walk(top) for n in dirs + files}


def test_table(old, config, fresh_dir):
    a = answer("--source", old.url(), "--config", config, fresh_dir)
    assert (a["protocol"], a["protocols"]) == ("smb", ["smb"])
    rows = {p["property"]: p for p in a["properties"]}
    for code in ("names", "data", "sizes", "mtime", "btime", "security-descriptor",
                 "dos-attributes", "user-xattrs"):
        assert (rows[code]["source"], rows[code]["volume"]) == ("seen", "kept"), rows[code]
    assert (rows["streams"]["source"], rows["streams"]["volume"]) == ("seen", "approximated")
    for code in ("special-files", "symlinks", "hard-links", "snapshots"):
        assert rows[code]["volume"] == "lost"
    a = answer("--source", old.url(), "--config", config, "--protocols", "nfs", fresh_dir)
    rows = {p["property"]: p for p in a["properties"]}
    assert rows["names"]["volume"] == "approximated" and "A and a" in rows["names"]["why"]


def test_names(old, config, tree, fresh_dir):
    before = stats(tree)
    a = answer("--source", old.url(), "--config", config, "--names", fresh_dir)
    assert a["walked"] == {"names": len(before), "directories": 12, "stopped": False}
    assert {k["kind"]: k["count"] for k in a["kinds"] if k["count"]} == {"case-twin": 2}
    assert {n[key].lower() for n in a["names"] for key in ("path", "twin")} == {"readme"}
    assert len({n["path"] for n in a["names"]} | {n["twin"] for n in a["names"]}) == 3
    assert stats(tree) == before and os.listdir(fresh_dir) == []


def test_names_that_samba_makes_up(new_samba, loop_xfs, config, moddir, new_volume):
    """Told before and meanwhile; with `mangled names = no` there are none."""
    top = loop_xfs.path / "made-up"
    (top / "below").mkdir(parents=True)
    strange = ["CON.txt", "dot.", "below/a:b", "below/aux", "space ", "tab\there.html"]
    for name in ["fine", "LONG NAME.TXT", "x~1", *strange]:
        (top / name).write_bytes(name.encode())
    old = new_samba("made-up", top)
    argv = "--source", old.url(), "--config", config, "--names"
    a = answer(*argv)
    found = [n["path"] for n in a["names"] if n["kind"] == "mangled"]
    assert len(found) == len(strange) and sum(p.startswith("below/") for p in found) == 2, found
    assert not {os.path.basename(p) for p in found} & {os.path.basename(p) for p in strange}
    (kind,) = (k for k in a["kinds"] if k["count"])
    assert kind["count"] == len(strange) and "mangled names = no" in kind["what"]
    told = check(*argv).stdout.decode()
    assert "6 mangled: may be" in told and "mangled names = no" in told

    m = Migration(moddir / "m", old.url(), new_volume("xfs", "512M").path / "v",
                  conf=config.read_text())
    m.volume.mkdir()
    m.init().start_retriever()
    try:
        m.crawl()
        status = m.status()
        assert status["mangled"] == len(strange) and status["entries"] == 4 + len(strange)
        assert "mangled names = no" in m.postcopy("status", m.volume).stdout
        assert m.log.read_text().count("may be a name that Samba made up") == 1
    finally:
        m.stop()

    old.shares[0].more = "mangled names = no"
    old.restart()
    a = answer(*argv)
    assert [n for n in a["names"] if n["kind"] == "mangled"] == []


def test_errors(old, config, fresh_dir):
    for argv, code, text in (((old.url("nothing"), "--config", config), 1, "no such share"),
                             ((old.url(), "--config", fresh_dir / "none"), 2, "cannot read"),
                             ((old.url(),), 1, "smb_credentials"), (("smb://",), 1, "smb://")):
        done = check("--source", *argv)
        assert done.returncode == code and text in done.stderr.decode(), done
        assert b"Traceback" not in done.stderr and not done.stdout


def test_files_that_cannot_be_read(new_samba, loop_xfs, moddir):
    """By a user who may see them all: one without the rights of those who make backups."""
    top = loop_xfs.path / "some-readable"
    (top / "dir").mkdir(parents=True)
    for i in range(700):
        (top / "dir" / ("f%03d" % i)).write_bytes(b"x" * (i % 3))
    for name in ("bobs", "dir/roots"):
        (top / name).write_bytes(b"private")
        (top / name).chmod(0o600)
    old = new_samba("some-readable", top)
    login, path = moddir / "login-alice", moddir / "conf-alice"
    login.write_text("username = alice\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    path.write_text('smb_credentials = "%s"\nsmb_worker = "%s"\n' % (login, WORKER))
    argv = "--source", old.url(), "--config", path
    assert [n for n in answer(*argv, "--names")["names"]] == []
    a = answer(*argv, "--read", "--workers", "16")
    assert {n["path"] for n in a["names"]} == {"bobs", "dir/roots"}
    assert {n["kind"] for n in a["names"]} == {"unreadable"} and a["walked"]["files_read"] == 702


# -- what an administrator is told ----------------------------------------------------------


class Old(smbd.Samba):
    """One that neither the suite's client nor today's smbclient can talk to."""

    def _ready(self):
        assert self.process.poll() is None, self.tail()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0


def refusal(url, config):
    """The one line that it ends with."""
    done = check("--source", url, "--config", config)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 1 and len(lines) == 1, done
    return lines[0]


@pytest.mark.parametrize("newest, told", [("NT1", "speaks no more than SMB1;"),
                                          ("SMB2_02", "speaks no more than SMB 2.0.2;")])
def test_a_server_that_is_too_old(moddir, tree, config, newest, told):
    with Old(moddir / newest, tree, conf="server min protocol = NT1\nserver max protocol = " +
             newest) as server:
        line = refusal(server.url(), config)
    assert told in line and "must speak SMB 2.1 or later" in line, line
    assert "running" not in line


@pytest.mark.parametrize("mapping", ["bad user", "bad password"])
def test_a_server_that_makes_guests(new_samba, tree, moddir, mapping):
    lax = new_samba("lax-" + mapping.split()[-1], tree, more="guest ok = yes",
                    conf="map to guest = %s\nguest account = root" % mapping)
    login, path = moddir / ("login-" + mapping), moddir / ("conf-" + mapping)
    login.write_text("username = %s\npassword = s3cret\n" % (
        "whoever" if mapping == "bad user" else "alice"))
    login.chmod(0o600)
    path.write_text('smb_credentials = "%s"\nsmb_worker = "%s"\n' % (login, WORKER))
    line = refusal(lax.url(), path)
    for part in ("guest", "whoever" if mapping == "bad user" else "alice", "smb_credentials"):
        assert part in line, line
