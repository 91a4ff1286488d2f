# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of test_addresses.py, which runs them in a network of their own: lo has ::1,
fd00:7057::1 and ::2; /etc/hosts may be written."""
import contextlib
import ctypes.util
import json
import pathlib
import re
import socket
import subprocess

import pytest

from lib.ganesha import Ganesha
from lib.programs import POSTCOPY
from lib.smbsource import with_worker
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.rpcserver import PROG_MISMATCH, Reject, RpcServer
from nfsclient.xdr import Packer

FIRST, SECOND = "fd00:7057::1", "fd00:7057::2"
BODY = Pattern(70000)


def hosts(*lines):
    pathlib.Path("/etc/hosts").write_text("127.0.0.1 localhost\n" + "".join(
        line + "\n" for line in lines))


@pytest.fixture(autouse=True)
def no_names_of_others():
    hosts()


def fake_tree(files=1):
    tree = Tree()
    for i in range(files):
        tree.file(tree.root, "f%d" % i, BODY, mode=0o644)
    return tree


def trouble(m):
    return m.status().get("source_trouble", "")


def begin(m):
    """A retriever, and something fetched by it."""
    m.init().start_retriever()
    m.crawl()
    m.audit(complete=True)
    assert (m.volume / "f0").read_bytes() == BODY.read(0, 70000)


# ---- NFS -------------------------------------------------------------------------

def test_a_real_nfs_server_by_address(old_server, new_migration, fresh_dir, loop_xfs):
    old = loop_xfs.path / "old"
    old.mkdir()
    (old / "f0").write_bytes(BODY.read(0, 70000))
    server = old_server(old, host="::1")
    assert server.url().startswith("nfs://[::1]/")
    m = new_migration(server.url(), fresh_dir)
    told = m.postcopy("init", "--check", "--names", "--source", m.url, m.volume, check=False)
    assert told.returncode == 3 and "from nfs://[::1]/export" in told.stdout, told
    assert "local" in told.stdout + m.postcopy(
        "init", "--source", m.url, "--socket", m.socket, "--control", m.control, m.volume).stdout
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    assert (m.volume / "f0").read_bytes() == BODY.read(0, 70000)
    assert "nfs://[::1]/export?" in m.postcopy("status", m.volume).stdout
    assert 'Pseudo = "/export";' in m.postcopy("export", "ganesha", m.volume).stdout


@contextlib.contextmanager
def portmapper(log):
    with open(log, "wb") as out:
        process = subprocess.Popen(["rpcbind", "-f"], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out)
    try:
        wait_until(lambda: subprocess.run(["rpcinfo", "-s", "::1"], capture_output=True).returncode
                   == 0, 60, "portmapper")
        yield
    finally:
        process.terminate()
        process.wait()


def test_ports_that_the_portmapper_knows(new_migration, fresh_dir, loop_xfs, moddir):
    """No port in the URI."""
    old = loop_xfs.path / "old2"
    old.mkdir()
    (old / "f0").write_bytes(BODY.read(0, 70000))
    server = Ganesha(moddir / "portmapped", old, host="::1", shim=ctypes.util.find_library("m"))
    with portmapper(moddir / "rpcbind.log"):
        server.start()
        try:
            told = subprocess.run(["rpcinfo", "::1"], capture_output=True, text=True).stdout
            assert re.search(r"100003 +3 +tcp6 ", told), told
            begin(new_migration("nfs://[::1]/export", fresh_dir))
        finally:
            server.stop()


def test_what_the_portmapper_does_not_know(new_migration, fresh_dir, moddir):
    with portmapper(moddir / "rpcbind2.log"):
        done = subprocess.run([str(POSTCOPY), "init", "--source", "nfs://[::1]/export",
                               str(fresh_dir)], capture_output=True, text=True, timeout=300)
    assert done.returncode and "the portmapper of [::1] knows no" in done.stderr, done


class Portmapper:
    """As that of the BSDs: over IPv6 version 2 is not spoken, and what is asked for has a netid."""

    def __init__(self, answer):
        self.answer = answer
        self.rpc = RpcServer(self._handle, "::1", 111)

    def _handle(self, prog, vers, proc, u, cred):
        if (prog, vers) != (100000, 3):
            raise Reject(PROG_MISMATCH)
        assert proc == 3                # GETADDR
        wanted, version, netid = u.u32(), u.u32(), u.opaque()
        known = version == 3 and wanted in (100003, 100005) and netid == b"tcp6"
        return Packer().opaque(self.answer if known else b"").done()

    def __enter__(self):
        self.rpc.start()
        return self

    def __exit__(self, *exc):
        self.rpc.stop()


def test_a_portmapper_without_version_2(new_migration, fresh_dir):
    with FakeServer(fake_tree(), host="::1") as server:
        port = b"::1.%d.%d" % divmod(server.port, 256)
        with Portmapper(port) as portmapper:
            begin(new_migration("nfs://[::1]/export", fresh_dir))
            for lie in (b"", b"::1", b"::1.8", b".8", b"..", b"::1.256.1", b"::1.8.-1", b"::1.0.0",
                        b"::1.8.1.", b"::1.8.1x", b"::1. 8.1", b"9" * 4000):
                portmapper.answer = lie
                done = subprocess.run([str(POSTCOPY), "init", "--check", "--source",
                                       "nfs://[::1]/export"], capture_output=True, text=True,
                                      timeout=300)
                assert done.returncode == 1, (lie, done)
                assert "the portmapper of [::1] knows no" in done.stderr, (lie, done)


def test_lines_show_brackets(new_migration, fresh_dir):
    with FakeServer(fake_tree(), host=FIRST) as server:
        m = new_migration(server.url(), fresh_dir, allow=[".*"]).init().start_retriever()
        wait_until(lambda: m.status()["source_connected"], 60, "connected")
        server.stop()
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "lost")
        wait_until(lambda: "refused by [%s] (%s) port %d" % (FIRST, FIRST, server.port)
                   in trouble(m), 60, "why")
    assert "source [%s]: connection" % FIRST in m.log.read_text()
    # what mount(8) takes
    done = subprocess.run([str(POSTCOPY), "init", "--source", "[%s]:/export" % FIRST,
                           str(fresh_dir)], capture_output=True, text=True, timeout=300)
    assert "did you mean 'nfs://[%s]/export'" % FIRST in done.stderr, done
    conf = m.workdir / "kerberos.conf"
    conf.write_text("smb_kerberos_keytab = /etc/krb5.keytab\n")
    done = subprocess.run([str(POSTCOPY), "init", "--check", "--source", "smb://[::1]/share",
                           "--config", str(conf)], capture_output=True, text=True, timeout=300)
    assert "Kerberos wants the server's name in the URI, not [::1]" in done.stderr, done
    for bad, why in (("[fe80::1%25lo]", "zone"), ("[fe80::1]", "link-local"),
                     (FIRST, "between [ and ]")):
        for url in ("nfs://%s/export", "smb://%s/share"):
            done = subprocess.run([str(POSTCOPY), "init", "--source", url % bad, str(fresh_dir)],
                                  capture_output=True, text=True, timeout=300)
            assert done.returncode and why in done.stderr and len(
                done.stderr.splitlines()) == 1, done


@pytest.mark.parametrize("first", ["refuses", "silent"])
def test_the_next_address_of_a_name(new_migration, fresh_dir, first):
    """::1 is tried first, and does not serve."""
    hosts("::1 filer", "127.0.0.1 filer")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(FakeServer(fake_tree()))
        if first == "silent":
            stack.enter_context(socket.create_server(("::1", server.port),
                                                     family=socket.AF_INET6))
        m = new_migration(server.url("filer"), fresh_dir, allow=[".*"],
                          conf="call_timeout = 1000\n")
        begin(m)
        assert m.status()["state"] == "complete"


def test_a_name_that_is_not_known_at_the_start(new_migration, fresh_dir):
    hosts("%s filer" % FIRST)
    with FakeServer(fake_tree(), host=FIRST) as server:
        m = new_migration(server.url("filer"), fresh_dir, allow=[".*"]).init()
        hosts()
        m.start_retriever()
        wait_until(lambda: "unknown host filer" in trouble(m), 60, "trouble")
        assert m.status()["state"] == "source-lost"
        hosts("%s filer" % FIRST)
        m.crawl()
        assert not trouble(m)
        assert (m.volume / "f0").read_bytes() == BODY.read(0, 70000)


def test_a_name_that_gets_another_address(new_migration, fresh_dir):
    tree = fake_tree(20)
    hosts("%s filer" % FIRST)
    with FakeServer(tree, host=FIRST) as server:
        m = new_migration(server.url("filer"), fresh_dir, allow=[".*"]).init().start_retriever()
        wait_until(lambda: m.status()["source_connected"], 60, "connected")
        port = server.port
    with FakeServer(tree, host=SECOND, port=port) as moved:
        wait_until(lambda: "(%s)" % FIRST in trouble(m), 60, "the old address is tried")
        hosts("%s filer" % SECOND)
        m.crawl()
        assert moved.counts["READ"] >= 20 or moved.bytes_read
        m.audit(complete=True)


# ---- SMB -------------------------------------------------------------------------

@pytest.fixture
def smb_tree(tree):
    (tree / "f0").write_bytes(BODY.read(0, 70000))
    return tree


@with_worker
def test_a_real_smb_server_by_address(smb_tree, new_samba, make, homes):
    url = "smb://[::1]:%d/share" % new_samba("v6", smb_tree).port
    m = make(url)
    begin(m)
    assert url in m.postcopy("status", m.volume).stdout
    told = json.loads(m.postcopy("export", "samba", "--json", m.volume).stdout)
    assert "path = %s\n" % m.volume in told["block"]
    m.stop()


@with_worker
def test_an_smb_name(smb_tree, new_samba, make, homes):
    """Of two addresses the second one serves; later it is not known, and known again."""
    server = new_samba("names", smb_tree, conf="interfaces = 127.0.0.1\n")
    hosts("::1 filer", "127.0.0.1 filer")
    m = make("smb://filer:%d/share" % server.port, allow=[".*"]).init()
    hosts()
    m.start_retriever()
    wait_until(lambda: "unknown host filer" in trouble(m), 60, "trouble")
    assert m.status()["state"] == "source-lost"
    hosts("::1 filer", "127.0.0.1 filer")
    m.crawl()
    assert (m.volume / "f0").read_bytes() == BODY.read(0, 70000)
    m.stop()
