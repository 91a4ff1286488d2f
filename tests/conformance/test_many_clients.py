# SPDX-License-Identifier: GPL-3.0-or-later
"""Thousands of sessions: each file server's process keeps connections to the retriever, of
which few ask at any time.  Nobody is turned away, nobody waits for those that are idle, and
the log says little."""
import contextlib
import os
import pathlib
import resource
import select
import socket
import struct

import pytest

from lib.migration import SmbMigration
from lib.programs import MODULES
from lib.volume import kernel_handle
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

LOOKUP = 1
DESCRIPTORS = 128       # of a retriever that may have few
SESSIONS = 80           # of smbd, each with two connections to the retriever


class Link:
    """A connection that asks by hand, as a plugin does."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)
        wait_until(lambda: self._connect(str(path)), 60, "a place in the backlog")

    def _connect(self, path):
        try:
            self.sock.connect(path)
            return True
        except BlockingIOError:
            return False

    def ask(self, handle, name):
        kind, data = handle
        body = struct.pack("<QQiBBBB", 0, 0, kind, LOOKUP, len(data), len(name), 0)
        self.sock.send(struct.pack("<IHHII", 0x4b414350, 1, 1, 7,
                                   16 + len(body) + len(data) + len(name)) + body + data + name)

    def done(self, handle, name):
        """DONE; not AGAIN, as while the source is being connected to."""
        self.ask(handle, name)
        packet = self.sock.recv(512)
        assert len(packet) == 20, packet            # not closed, no ERROR
        return packet[16:] == b"\0\0\0\0"

    def closed(self):
        poll = select.poll()                        # select() knows 1024 descriptors only
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0)) and self.sock.recv(512) == b""

    def close(self):
        self.sock.close()


def descriptors(process):
    return len(os.listdir("/proc/%d/fd" % process.pid))


def resident_kib(process):
    text = pathlib.Path("/proc/%d/status" % process.pid).read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


@pytest.fixture
def enough_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(8192, before[1])), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def fake():
    tree = Tree()
    tree.root.mode = 0o777
    for i in range(SESSIONS + 1):
        tree.file(tree.root, b"f%d" % i, Pattern(3000, seed=i + 1), mode=0o666)
    with FakeServer(tree) as server:
        yield server


@pytest.mark.parametrize("links,limit", [(3000, None), (600, DESCRIPTORS)])
def test_idle_links_hold_up_nobody(fake, fresh_dir, new_migration, enough_descriptors, links,
                                   limit):
    m = new_migration(fake.url(), fresh_dir, fsal_more="Delay_V3 = 20000;",
                      wrap=["prlimit", "--nofile=%d:%d" % (limit, limit)] if limit else ())
    m.init().start()
    root = kernel_handle(fresh_dir)
    before = resident_kib(m.retriever)
    with contextlib.ExitStack() as stack:
        opened = []
        for i in range(links):
            opened.append(stack.enter_context(contextlib.closing(Link(m.socket))))
            wait_until(lambda: opened[-1].done(root, b"f%d" % (i % SESSIONS)), 60, "an answer")
        grown = resident_kib(m.retriever) - before
        assert grown < 64 << 10, grown
        with m.client("v3") as c:                   # while all of them are there
            fh = c.lookup_path(b"f%d" % SESSIONS)
            data = Pattern(3000, seed=SESSIONS + 1).read(0, 3000)
            assert c.read(fh, 0, 4096) == (data, True)
            assert c.delays == 0
        wait_until(lambda: all(link.closed() for link in opened), 60, "the end of idle links")
        assert descriptors(m.retriever) < DESCRIPTORS
    assert len(m.log.read_text().splitlines()) < 20


@pytest.mark.skipif(not (MODULES / "stub.so").exists(), reason="built without Samba's headers")
def test_sessions_of_smbd(fake, fresh_dir, workdir, request):
    """Each session asks twice: it never sees that its connections were closed meanwhile."""
    m = SmbMigration(workdir / "many", fake.url(), fresh_dir,
                     wrap=["prlimit", "--nofile=%d:%d" % (DESCRIPTORS, DESCRIPTORS)])
    m.init().start()
    try:
        with contextlib.ExitStack() as stack:
            sessions = []
            for i in range(SESSIONS):
                sessions.append(stack.enter_context(m.client()))
                assert sessions[-1].read_file("f%d" % i) == \
                    Pattern(3000, seed=i + 1).read(0, 3000)
            fake.tree.file(fake.tree.root, b"late", Pattern(3000, seed=99), mode=0o666)
            for i, smb in enumerate(sessions):
                assert smb.read_file("f%d" % ((i + 1) % SESSIONS)) == \
                    Pattern(3000, seed=(i + 1) % SESSIONS + 1).read(0, 3000)
            assert sessions[0].read_file("late") == Pattern(3000, seed=99).read(0, 3000)
        assert len(m.log.read_text().splitlines()) < 20
    finally:
        m.stop()
