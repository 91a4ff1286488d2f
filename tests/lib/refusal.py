# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that refuses to show something: it runs, says why, and nobody gets in.

    with export_refused(m.server, "is its file system mounted?"): ...
    with share_refused(smbd, "is its file system mounted?"): ...

Inside of the block the server runs.
"""
import contextlib

import pytest

from nfsclient import PROTOCOLS, NfsError, errors
from nfsclient.nfs3 import Mount3
from smb2client import SmbError


def nobody_gets_in(server, export, shown=()):
    """There is no such export, by no version of the protocol; shown: names in the root of
    NFSv4 that others have."""
    for proto in PROTOCOLS:
        with pytest.raises(NfsError) as info:
            server.client(proto, export=export).close()
        assert info.value.status in (errors.NOENT, errors.ACCES), (proto, info.value)
    with server.client("v4.1", export="/") as c:
        assert sorted(c.names()) == sorted(shown)


@contextlib.contextmanager
def refusing(server, ready):
    """It runs; ready(): it has refused."""
    server._ready = ready
    try:
        server.start()
    finally:
        del server._ready
    try:
        yield
    finally:
        server.stop(scan=False)


@contextlib.contextmanager
def export_refused(server, *why, export=None, shown=()):
    """Each text of why is in the log."""
    seen = len(server.log_text())

    def ready():
        server._is_up()
        mount = Mount3(server.host, server.mount_port, timeout=5)
        try:
            mount.null()
        finally:
            mount.close()
        with server.client("v4.1", export="/", timeout=5):
            return all(text in server.log_text()[seen:] for text in why)

    with refusing(server, ready):
        nobody_gets_in(server, export or server.pseudo, shown)
        yield


@contextlib.contextmanager
def share_refused(server, *why):
    """The first share."""
    seen = len(server.log_text())

    def ready():
        server._is_up()
        done = server.smbclient("exit")
        return "tree connect failed" in done.stdout + done.stderr and all(
            text in server.log_text()[seen:] for text in why)

    with refusing(server, ready):
        for user in ("root", "alice"):
            with pytest.raises(SmbError):
                server.client(user).close()
        yield
