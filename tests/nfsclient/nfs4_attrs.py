# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4 attributes (RFC 7530 section 5): bitmaps and fattr4.

A fattr4 is a bitmap and the values of its attributes in order of their
numbers, without any length between them: whoever decodes has to know all.
So only attributes listed in READERS are ever asked for.
"""
import pwd

from .nfstypes import FH, NOW, Attrs
from .xdr import Packer, Unpacker, XdrError

(SUPPORTED, TYPE, FH_EXPIRE, CHANGE, SIZE, FSID, LEASE_TIME, RDATTR_ERROR,
 FILEHANDLE, FILEID, MODE, NUMLINKS, OWNER, OWNER_GROUP, RAWDEV, SPACE_USED,
 TIME_ACCESS, TIME_ACCESS_SET, TIME_METADATA, TIME_MODIFY, TIME_MODIFY_SET,
 MOUNTED_ON_FILEID) = (0, 1, 2, 3, 4, 8, 10, 11, 19, 20, 33, 35, 36, 37, 41,
                       45, 47, 48, 52, 53, 54, 55)
MAXREAD, MAXWRITE, MAXFILESIZE = 30, 31, 27

# What stands for Attrs, and for an entry of a directory.
ATTRS = (TYPE, CHANGE, SIZE, FSID, FILEID, MODE, NUMLINKS, OWNER, OWNER_GROUP,
         RAWDEV, SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY)
ENTRY_ATTRS = ATTRS + (RDATTR_ERROR, FILEHANDLE)


def put_bitmap(p, numbers):
    words = []
    for number in numbers:
        while len(words) <= number // 32:
            words.append(0)
        words[number // 32] |= 1 << number % 32
    p.array(words, Packer.u32)
    return p


def get_bitmap(u):
    words = u.array(lambda v: v.u32(), 16)
    return [32 * i + bit for i, word in enumerate(words)
            for bit in range(32) if word >> bit & 1]


def get_time(u):
    seconds = u.i64()
    return seconds * 1000000000 + u.u32()


def put_time(p, when):
    seconds, nanoseconds = divmod(when, 1000000000)
    p.i64(seconds).u32(nanoseconds)


def owner_number(name):
    """The id behind "1000", "1000@domain", "root@domain"; -1 if unknown."""
    name = name.decode("utf-8", "replace").partition("@")[0]
    if name.isdigit():
        return int(name)
    if name == "nobody":
        return 65534
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return -1


READERS = {
    SUPPORTED: get_bitmap,
    TYPE: Unpacker.u32,
    FH_EXPIRE: Unpacker.u32,
    CHANGE: Unpacker.u64,
    SIZE: Unpacker.u64,
    FSID: lambda u: (u.u64(), u.u64()),
    LEASE_TIME: Unpacker.u32,
    RDATTR_ERROR: Unpacker.u32,
    FILEHANDLE: lambda u: FH(u.opaque(128)),
    FILEID: Unpacker.u64,
    MAXFILESIZE: Unpacker.u64,
    MAXREAD: Unpacker.u64,
    MAXWRITE: Unpacker.u64,
    MODE: Unpacker.u32,
    NUMLINKS: Unpacker.u32,
    OWNER: lambda u: owner_number(u.opaque(1024)),
    OWNER_GROUP: lambda u: owner_number(u.opaque(1024)),
    RAWDEV: lambda u: (u.u32(), u.u32()),
    SPACE_USED: Unpacker.u64,
    TIME_ACCESS: get_time,
    TIME_METADATA: get_time,
    TIME_MODIFY: get_time,
    MOUNTED_ON_FILEID: Unpacker.u64,
}


def get_fattr(u):
    """Decode a fattr4 into {number: value}."""
    numbers = get_bitmap(u)
    inner = Unpacker(u.opaque())
    values = {}
    for number in numbers:
        if number not in READERS:
            raise XdrError("attribute %d was not asked for" % number)
        values[number] = READERS[number](inner)
    inner.finish()
    return values


def to_attrs(v):
    """Attrs out of {number: value}; None if the essential ones are missing."""
    if TYPE not in v or v.get(RDATTR_ERROR, 0):
        return None
    return Attrs(v[TYPE], v.get(MODE), v.get(NUMLINKS), v.get(OWNER),
                 v.get(OWNER_GROUP), v.get(SIZE), v.get(SPACE_USED),
                 v.get(RAWDEV), v.get(FSID), v.get(FILEID), v.get(TIME_ACCESS),
                 v.get(TIME_MODIFY), v.get(TIME_METADATA), v.get(CHANGE))


def _put_set_time(p, when):
    p.u32(0 if when == NOW else 1)
    if when != NOW:
        put_time(p, when)


def put_sattr(p, sattr):
    """Encode a SetAttrs as fattr4."""
    writers = ((SIZE, sattr.size, Packer.u64),
               (MODE, sattr.mode, Packer.u32),
               (OWNER, sattr.uid, lambda q, v: q.opaque(b"%d" % v)),
               (OWNER_GROUP, sattr.gid, lambda q, v: q.opaque(b"%d" % v)),
               (TIME_ACCESS_SET, sattr.atime, _put_set_time),
               (TIME_MODIFY_SET, sattr.mtime, _put_set_time))
    values = Packer()
    numbers = []
    for number, value, write in writers:
        if value is not None:
            numbers.append(number)
            write(values, value)
    put_bitmap(p, numbers)
    return p.opaque(values.done())
