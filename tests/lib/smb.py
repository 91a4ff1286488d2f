# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of the tests of SMB clients.

    explore(client, path)   looks at a directory as Windows Explorer does
"""
from smb2client import wire

ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES | \
    wire.READ_EA | wire.WRITE_EA | wire.SYNCHRONIZE
EPOCH = 116444736000000000      # 1970 in 100 ns since 1601
UNIX = 10 ** 7                  # 100 ns in a second


def smb_time(ns):
    return EPOCH + ns // 100


def explore(client, path):
    """What Explorer asks about a directory, and about each of its files: everything but
    data.  Returns {name: (entry of the listing, Info of the open file, streams)}."""
    seen = {}
    with client.open(path, wire.READ_DATA | wire.READ_ATTRIBUTES | wire.SYNCHRONIZE,
                     options=wire.OPT_DIRECTORY) as d:
        d.query(wire.INFO_FS, wire.FS_ATTRIBUTE)
        entries = [e for e in d.list() if e.name not in (".", "..")]
    for entry in entries:
        name = path + "/" + entry.name
        with client.open(name, wire.READ_ATTRIBUTES | wire.READ_CONTROL | wire.READ_EA |
                         wire.SYNCHRONIZE) as f:                  # properties, the Security tab
            info, streams = f.info(), f.streams()
            f.eas()
            f.query(wire.INFO_FILE, wire.NETWORK_OPEN)
            f.security()
        client.open(name, wire.READ_DATA | wire.READ_ATTRIBUTES | wire.EXECUTE).close()  # icons
        with client.open(path, wire.READ_DATA, options=wire.OPT_DIRECTORY) as d:
            assert [e.name for e in d.list(entry.name)] == [entry.name]
        seen[entry.name] = (entry, info, streams)
    return seen
