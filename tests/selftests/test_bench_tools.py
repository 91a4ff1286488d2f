# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/bench measures with: the bare copier, and the long line."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

import pytest

from lib.line import line
from lib.programs import BUILD
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

TOOLS = BUILD / "tests" / "tools"
ONE_WAY = 0.05          # s


@pytest.fixture
def fake():
    tree, files = Tree(), {}
    for d in range(5):
        top = tree.mkdir(tree.root, "d%d" % d)
        for f in range(40):
            files["d%d/f%d" % (d, f)] = data = os.urandom(f * 1000)
            tree.file(top, "f%d" % f, data)
    with FakeServer(tree) as server:
        server.page_limit, server.files = 7, files
        yield server


def copy(fake, port, target):
    done = subprocess.run([str(TOOLS / "nfsparcopy"), "6", "127.0.0.1", str(port),
                           str(fake.rpc.port), fake.export, str(target)], check=True,
                          capture_output=True, text=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize("far", [False, True])
def test_the_copy_is_whole(fake, tmp_path, far):
    with line("127.0.0.1", fake.rpc.port, 2000) if far else \
            contextlib.nullcontext(fake.rpc) as end:
        told = copy(fake, end.port, tmp_path)
    assert (told["files"], told["directories"], told["bytes"]) == (200, 5, 5 * 780 * 1000)
    assert {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.glob("*/*")} == fake.files


def test_reading_alone(fake):
    told = copy(fake, fake.rpc.port, "-")
    assert (told["files"], told["directories"], told["bytes"]) == (200, 5, 5 * 780 * 1000)


def echo(listener):
    conn = listener.accept()[0]
    with conn:
        while data := conn.recv(1 << 16):
            conn.sendall(data)


def test_a_line_is_long_and_not_narrow():
    """Each byte comes, none too early; and what is sent at once comes at once."""
    sent = os.urandom(8 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with line("127.0.0.1", listener.getsockname()[1], ONE_WAY * 1e6) as end, \
                socket.create_connection(("127.0.0.1", end.port), timeout=300) as s:
            for _ in range(3):
                begin = time.monotonic()
                s.sendall(b"x")
                assert s.recv(1) == b"x" and time.monotonic() - begin >= 2 * ONE_WAY
            threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)),
                             daemon=True).start()
            got = bytearray()
            while data := s.recv(1 << 20):
                got += data
    assert got == sent


def test_a_line_may_be_narrow():
    """In the direction of the client alone; and wider from when it is said."""
    sent, rate = os.urandom(1 << 20), 2 << 20
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with line("127.0.0.1", listener.getsockname()[1], 0, rate) as end, \
                socket.create_connection(("127.0.0.1", end.port), timeout=300) as s:
            def there_and_back():
                begin, got = time.monotonic(), bytearray()
                threading.Thread(target=s.sendall, args=(sent,), daemon=True).start()
                while len(got) < len(sent):
                    got += s.recv(1 << 20)
                assert got == sent
                return time.monotonic() - begin

            assert there_and_back() >= len(sent) / rate
            end.widen(rate // 2)
            wait_until(lambda: there_and_back() >= 2 * len(sent) / rate, 60, "half as wide")
