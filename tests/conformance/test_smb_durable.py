# SPDX-License-Identifier: GPL-3.0-or-later
"""What an SMB client wrote without a flush outlives the processes: SMB has no verifier, and
nobody writes it again."""
import signal

import pytest

from lib.case import BLOCK, SIZE
from lib.world import SmbWorld
from smb2client import wire

WORLD = SmbWorld
WRITES = ((100, 1000), (2 * BLOCK - 50, 5000), (SIZE - 10, 500))


def write(client, path, data):
    """Pieces all over the file; what it holds then."""
    data = bytearray(data) + b"\0" * 490
    with client.open(path, wire.READ_DATA | wire.WRITE_DATA) as f:
        for i, (offset, length) in enumerate(WRITES):
            piece = bytes([0x61 + i]) * length
            f.write(offset, piece)
            data[offset:offset + length] = piece
    return bytes(data)


def restart_all(m, crash=False):
    """Nobody has the volume open in between."""
    if crash:
        m.server.kill9()
        m.kill_retriever()
    else:
        m.server.stop()
        m._end(m.retriever, signal.SIGTERM)
        assert m.retriever.returncode == 0
    m.start_retriever()
    m.server.start()


def check(world, expected):
    with world.m.client() as c:
        for path, data in expected.items():
            assert c.read_file(path) == data, path
            world.models[path] = (None, data)


@pytest.mark.parametrize("victim", ["its smbd", "everything"])
def test_a_write_outlives_its_process(world, victim):
    """Killed before anybody has made it durable.  It stays what all clients saw."""
    d = world.dir()
    old = world.file(d + "/f")
    client = world.m.client()
    new = write(client, d + "/f", old)
    if victim == "its smbd":
        world.m.server.kill_client(client)
    restart_all(world.m, crash=victim == "everything")
    check(world, {d + "/f": new})
