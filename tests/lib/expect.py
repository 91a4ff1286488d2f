# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests say of what they expect."""
import pytest

from nfsclient import NfsError
from smb2client import SmbError


def status_of(call, *args, **kw):
    """The status with which an NFS call fails."""
    with pytest.raises(NfsError) as info:
        call(*args, **kw)
    return info.value.status


def smb_status(call, *args, **options):
    """The status with which an SMB call fails."""
    with pytest.raises(SmbError) as caught:
        call(*args, **options)
    return caught.value.status


def difference(got, want):
    """Where two byte strings differ first, and by what."""
    if len(got) != len(want):
        return "%d bytes, not %d" % (len(got), len(want))
    at = next(i for i in range(len(got)) if got[i] != want[i])
    return "bytes differ from %d on: %s, not %s" % (at, got[at:at + 8].hex(),
                                                    want[at:at + 8].hex())


def same(got, want):
    assert got == want, difference(got, want)


def view(attrs):
    """What a fill must not move (docs/design.md, invariant 8)."""
    return {k: getattr(attrs, k) for k in ("type", "mode", "nlink", "uid", "gid", "size",
                                           "mtime", "ctime", "change", "fileid")}
