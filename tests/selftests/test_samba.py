# SPDX-License-Identifier: GPL-3.0-or-later
"""The smbd that the suite starts, and the SMB client it talks to it with."""
import os
import struct
import subprocess

import pytest

from lib import smbd
from lib.server import RUNNING, BadLog
from lib.wait import wait_until
from smb2client import SmbError, wire
from samba.dcerpc import security
from samba.ndr import ndr_pack, ndr_unpack

WHOLE = wire.OWNER | wire.GROUP | wire.DACL | wire.SACL
DATA = os.urandom(200001)


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
                          text=True, timeout=300)
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


# -- the client ----------------------------------------------------------------------

@pytest.fixture
def client(server):
    with server.client("root") as c:
        yield c


def refused(call, *args, **options):
    """The status of a call that fails."""
    with pytest.raises(SmbError) as caught:
        call(*args, **options)
    return caught.value.status


def test_files(client, tree):
    client.mkdir("c")
    client.write_file("c/f", DATA)
    assert (tree / "c/f").read_bytes() == DATA == client.read_file("c/f")
    with client.open("c/f", wire.MAXIMUM_ALLOWED) as f:
        f.write(70000, b"new")
        f.flush()
        assert f.read(69999, 5) == DATA[69999:70000] + b"new" + DATA[70003:70004]
        assert f.read(len(DATA) - 2) == DATA[-2:] and f.read(len(DATA) + 5) == b""
        f.truncate(10)
        assert (f.info().size, f.info().nlink) == (10, 1)
    client.rename("c/f", "c/g")
    assert client.names("c") == ["g"]
    assert refused(client.read_file, "c/f") == "OBJECT_NAME_NOT_FOUND"
    assert refused(client.remove, "c") == "DIRECTORY_NOT_EMPTY"
    client.remove("c/g")
    client.remove("c")
    assert not (tree / "c").exists()


def test_a_long_listing(client, tree):
    (tree / "many").mkdir()
    want = ["%04d-%s" % (i, "x" * (i % 200)) for i in range(3000)]
    for name in want:
        (tree / "many" / name).touch()
    assert client.names("many") == want
    assert client.names("many", "120?-*") == [n for n in want if n.startswith("120")]


def test_streams(client, tree):
    client.write_file("s", b"main")
    client.write_file("s:one", DATA[:1000])
    client.write_file("s:two", b"")
    assert client.streams("s") == {"::$DATA": 4, ":one:$DATA": 1000, ":two:$DATA": 0}
    assert client.read_file("s:one") == DATA[:1000]
    client.remove("s:one")
    assert ":one:$DATA" not in client.streams("s")


def test_eas(client, tree):
    client.write_file("ea", b"")
    with client.open("ea", wire.READ_EA | wire.WRITE_EA) as f:
        f.set_ea(b"first", b"\0value\xff")
        f.set_ea(b"second", b"x")
        assert {k.lower(): v for k, v in f.eas().items()} == {
            b"first": b"\0value\xff", b"second": b"x"}
    assert os.getxattr(tree / "ea", "user.second") == b"x"


def test_attributes_and_times(client):
    client.write_file("a", b"")
    with client.open("a", wire.WRITE_ATTRIBUTES | wire.READ_ATTRIBUTES) as f:
        f.set_basic(wire.ATTR_HIDDEN | wire.ATTR_SYSTEM, created=130000000000000000,
                    written=130000001234567800)
        info = f.info()
    assert info.attributes == wire.ATTR_HIDDEN | wire.ATTR_SYSTEM
    assert (info.created, info.written) == (130000000000000000, 130000001234567800)
    assert client.fs_attributes() & 0x40000        # named streams


def test_descriptors(client, server):
    """Owner, group, both lists and their flags; SIDs that nobody knows."""
    client.write_file("sd", b"")
    sddl = ("O:%sG:S-1-22-2-70010D:PAI(D;;FX;;;S-1-5-21-9-9-9-1234)(A;;FA;;;%s)"
            "S:AI(AU;SAFA;FA;;;WD)" % (server.sid("alice"), server.sid("alice")))
    new = security.descriptor.from_sddl(sddl, security.dom_sid(smbd.SID))
    client.set_security("sd", ndr_pack(new), WHOLE)
    got = ndr_unpack(security.descriptor, client.security("sd", WHOLE))
    assert (str(got.owner_sid), str(got.group_sid)) == (server.sid("alice"), "S-1-22-2-70010")
    assert got.type & security.SEC_DESC_DACL_PROTECTED
    assert [(a.type, a.access_mask, str(a.trustee)) for a in got.dacl.aces] == \
        [(a.type, a.access_mask, str(a.trustee)) for a in new.dacl.aces]
    assert len(got.sacl.aces) == 1
    with server.client("alice") as hers:
        assert refused(hers.security, "sd", WHOLE) == "PRIVILEGE_NOT_HELD"
        assert ndr_unpack(security.descriptor, hers.security("sd")).sacl is None
    with server.client("bob") as his:
        assert refused(his.read_file, "sd") == "ACCESS_DENIED"


def test_requests_overlap(client):
    """One that waits at the server holds up no other of the session; it can be given up."""
    client.write_file("l", DATA)
    with client.open("l", wire.READ_DATA | wire.WRITE_DATA) as one, client.open("l") as two:
        one.lock(0, 100)
        assert refused(two.lock, 50, 10) == "LOCK_NOT_GRANTED"
        assert refused(two.read, 0, 10) == "FILE_LOCK_CONFLICT"
        waiting = two.send_lock(50, 10, wait=True)
        reads = [two.send_read(at, 1000) for at in (1000, 2000, 3000)]
        for at, read in zip((3000, 2000, 1000), reversed(reads)):
            assert two.finish_read(read) == DATA[at:at + 1000]
        client.echo()
        assert not client.arrived(waiting) and waiting in client.pending
        one.unlock(0, 100)
        client.wait(waiting)
        other = one.send_lock(55, 1, wait=True)
        assert client.wait(client.send(wire.ECHO, struct.pack("<HH", 4, 0)))
        client.cancel(other)
        assert refused(client.wait, other) == "CANCELLED"


def test_notifications(client, tree):
    client.mkdir("n")
    with client.open("n", wire.READ_DATA) as d:
        waiting = d.send_notify()
        made = set()

        def told():                 # smbd's notify daemon may not know of the watch yet
            made.add("new%d" % len(made))
            client.write_file("n/new%d" % (len(made) - 1), b"")
            return client.arrived(waiting, 1)
        wait_until(told, 60, "a notification")
        assert {(1, name) for name in made} & set(d.finish_notify(waiting))


def test_ioctls(client, tree):
    client.write_file("io", DATA)
    with client.open("io", wire.READ_DATA | wire.WRITE_DATA) as f:
        assert f.allocated_ranges(0, len(DATA)) == [(0, len(DATA))]
        f.ioctl(wire.FSCTL_SET_SPARSE)
        f.zero(65536, 131072)
        assert f.read() == DATA[:65536] + bytes(65536) + DATA[131072:]
        with client.open("copy", wire.READ_DATA | wire.WRITE_DATA, wire.OPEN_IF) as target:
            assert target.copy_chunks(f, [(0, 5, 1000), (150000, 1005, 7)]) == 1007
            assert target.read() == bytes(5) + DATA[:1000] + DATA[150000:150007]


def test_odd_names(client, tree):
    """Names that no Windows program can use, but the wire can."""
    for name in ("trail.", "trail ", "CON", "aux.txt", "\U0001f600", "e\u0301", "\u00e9"):
        client.write_file(name, name.encode())
        assert client.read_file(name) == name.encode()
        assert (tree / name).exists(), name
    assert refused(client.write_file, "a?b", b"") == "OBJECT_NAME_INVALID"
