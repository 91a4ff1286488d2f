# SPDX-License-Identifier: GPL-3.0-or-later
"""What the clients of all protocol versions hand to the tests."""
from dataclasses import dataclass
from typing import Optional, Tuple

# File types, by the numbers NFSv3 and NFSv4 share.
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = 1, 2, 3, 4, 5, 6, 7
TYPE_NAMES = {REG: "reg", DIR: "dir", BLK: "blk", CHR: "chr", LNK: "lnk",
              SOCK: "sock", FIFO: "fifo"}

# ACCESS bits, likewise shared.
ACCESS_READ, ACCESS_LOOKUP, ACCESS_MODIFY = 0x01, 0x02, 0x04
ACCESS_EXTEND, ACCESS_DELETE, ACCESS_EXECUTE = 0x08, 0x10, 0x20

# stable_how, likewise.
UNSTABLE, DATA_SYNC, FILE_SYNC = 0, 1, 2

NOW = "now"           # "set to the server's time", for SetAttrs


class FH(bytes):
    """A file handle; a class of its own so that no one takes it for a path."""

    def __repr__(self):
        return "FH(%s)" % self.hex()

    __str__ = __repr__


@dataclass
class Attrs:
    """Attributes; times in ns since 1970.  None: the protocol didn't say."""
    type: int
    mode: int
    nlink: int
    uid: int
    gid: int
    size: int
    used: int
    rdev: Tuple[int, int]
    fsid: Tuple[int, int]
    fileid: int
    atime: int
    mtime: int
    ctime: int
    change: Optional[int] = None

    @property
    def type_name(self):
        return TYPE_NAMES.get(self.type, str(self.type))


@dataclass
class SetAttrs:
    """What to change; None leaves alone.  Times: ns since 1970, or NOW."""
    mode: Optional[int] = None
    uid: Optional[int] = None
    gid: Optional[int] = None
    size: Optional[int] = None
    atime: object = None
    mtime: object = None


@dataclass
class Wcc:
    """NFSv3's attributes around a change; before is (size, mtime, ctime)."""
    before: Optional[Tuple[int, int, int]]
    after: Optional[Attrs]


@dataclass
class DirEntry:
    name: bytes
    fileid: int
    cookie: int
    attrs: Optional[Attrs] = None
    fh: Optional[FH] = None


@dataclass
class WriteResult:
    count: int
    committed: int
    verifier: bytes
    wcc: Optional[Wcc] = None


def as_bytes(name):
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
