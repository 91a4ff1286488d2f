# SPDX-License-Identifier: GPL-3.0-or-later
"""An SMB 2.1 client for tests: every request by itself, several at once.

    with Client("127.0.0.1", port, "share", "alice", PASSWORD) as c:
        c.write_file("d/f", b"data")
        with c.open("d/f:stream", wire.READ_DATA) as f: ...

Names are relative to the share, "/" between parts; a part is sent as it is, so
reserved names and trailing dots can be asked for.  SmbError tells a status,
err.status its name.  Logon is done by python3-samba.
"""
from . import wire
from .client import Client, File
from .session import Session
from .wire import Entry, Gone, Info, SmbError

__all__ = ["Client", "Entry", "File", "Gone", "Info", "Session", "SmbError", "wire"]
