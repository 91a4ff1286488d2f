# SPDX-License-Identifier: GPL-3.0-or-later
"""Extended attributes: those of RFC 8276, which FSAL_VFS 4.3 does not have, so that
clients get no way to a record; and those that local programs put on a stub."""
import os

import pytest

from lib.case import SIZE
from lib.expect import same, status_of
from nfsclient import errors
from nfsclient.nfs4 import Compound
from nfsclient.xdr import Packer

ATTR_CACHE = 0
RECORD = "trusted.postcopy"
EITHER = 0                              # SETXATTR4_EITHER


def record(case):
    """Without what the retriever's own flush moves."""
    seen = case.show("f")
    seen.pop("durable", None)
    for key in ("ctime", "blocks"):
        del seen["local"][key]
    return seen


@pytest.mark.parametrize("name", [b"postcopy", b"trusted.postcopy", b"user.x", b"x"])
def test_over_nfs(case, client42, state, name):
    """Refused, and nothing has changed."""
    case.file("f")
    case.enter(state, "f")
    fh, before = client42.fh(case.path("f")), record(case)
    calls = {
        "GETXATTR": Packer().opaque(name),
        "SETXATTR": Packer().u32(EITHER).opaque(name).opaque(b"forged"),
        "LISTXATTRS": Packer().u64(0).u32(4096),
        "REMOVEXATTR": Packer().opaque(name),
    }
    for op, args in calls.items():
        compound = Compound().putfh(fh)
        compound.add(op, args)
        assert status_of(client42.run, compound) == errors.NOTSUPP, op
    assert record(case) == before
    same(client42.read_file(case.path("f")), case.data("f"))


def test_local_ones_stay(case, client, place):
    """What a local program has put on a file is there after the fill, byte for byte."""
    case.file("f", mode=0o640)
    case.enter(place, "f")
    client.getattr(client.fh(case.path("f")))
    path = case.world.volume / case.path("f")
    os.setxattr(path, "user.origin", b"\0local\xff")
    same(client.read_file(case.path("f")), case.data("f"))
    case.finished("f")
    assert RECORD not in os.listxattr(path)
    assert os.getxattr(path, "user.origin") == b"\0local\xff"
    attrs = client.getattr(client.fh(case.path("f")))
    assert (attrs.size, attrs.mode & 0o7777) == (SIZE, 0o640)
