# SPDX-License-Identifier: GPL-3.0-or-later
"""MOUNT version 3 and NFS version 3 (RFC 1813): one method per procedure.

Thin: encodes, calls, decodes, raises NfsError on any status but OK.  Nothing
is retried here.  Tests usually use client3.Client3; those that count or
pipeline calls use this class.  Every method takes file handles, and names as
bytes exactly as they go over the wire (nothing is checked).
"""
import os
from dataclasses import dataclass
from typing import Optional

from . import errors
from .errors import NfsError
from .rpc import AuthSys, RpcConnection
from .nfstypes import (BLK, CHR, FH, FILE_SYNC, NOW, Attrs, DirEntry, SetAttrs,
                    Wcc, WriteResult, as_bytes)
from .xdr import Packer

MOUNT_PROGRAM, MOUNT_V3 = 100005, 3
NFS_PROGRAM, NFS_V3 = 100003, 3

MOUNT_PROCS = ("NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT")
PROCS = ("NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ",
         "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR",
         "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO",
         "PATHCONF", "COMMIT")
NUMBER = {name: number for number, name in enumerate(PROCS)}
UNCHECKED, GUARDED, EXCLUSIVE = "unchecked", "guarded", "exclusive"


# -- decoding --------------------------------------------------------------

def get_time(u):
    # Unsigned by RFC 1813: a time before 1970 comes back as one after 2038.
    return u.u32() * 1000000000 + u.u32()


def get_attrs(u):
    ftype, mode, nlink, uid, gid = (u.u32() for _ in range(5))
    size, used = u.u64(), u.u64()
    rdev = (u.u32(), u.u32())
    fsid, fileid = u.u64(), u.u64()
    atime, mtime, ctime = get_time(u), get_time(u), get_time(u)
    return Attrs(ftype, mode, nlink, uid, gid, size, used, rdev, (fsid, 0),
                 fileid, atime, mtime, ctime)


def get_post_attrs(u) -> Optional[Attrs]:
    return u.optional(get_attrs)


def get_wcc(u):
    before = u.optional(lambda v: (v.u64(), get_time(v), get_time(v)))
    return Wcc(before, get_post_attrs(u))


def get_fh(u):
    return FH(u.opaque(64))


# -- encoding --------------------------------------------------------------

def put_time(p, when):
    seconds, nanoseconds = divmod(when, 1000000000)
    p.u32(seconds & 0xffffffff).u32(nanoseconds)


def put_set_time(p, when):
    if when is None:
        p.u32(0)
    elif when == NOW:
        p.u32(1)
    else:
        p.u32(2)
        put_time(p, when)


def put_sattr(p, sattr):
    p.optional(sattr.mode, Packer.u32)
    p.optional(sattr.uid, Packer.u32)
    p.optional(sattr.gid, Packer.u32)
    p.optional(sattr.size, Packer.u64)
    put_set_time(p, sattr.atime)
    put_set_time(p, sattr.mtime)


def put_diropargs(p, dir_fh, name):
    return p.opaque(dir_fh).opaque(as_bytes(name))


# -- results ---------------------------------------------------------------

@dataclass
class FsStat:
    tbytes: int
    fbytes: int
    abytes: int
    tfiles: int
    ffiles: int
    afiles: int
    invarsec: int


@dataclass
class FsInfo:
    rtmax: int
    rtpref: int
    rtmult: int
    wtmax: int
    wtpref: int
    wtmult: int
    dtpref: int
    maxfilesize: int
    time_delta: int
    properties: int


@dataclass
class PathConf:
    linkmax: int
    name_max: int
    no_trunc: bool
    chown_restricted: bool
    case_insensitive: bool
    case_preserving: bool


@dataclass
class DirPage:
    """One reply of READDIR or READDIRPLUS."""
    entries: list
    eof: bool
    verifier: bytes
    dir_attrs: Optional[Attrs]


class Mount3:
    """The MOUNT protocol; only what a client needs."""

    def __init__(self, host, port, cred=AuthSys(), timeout=30.0):
        self.conn = RpcConnection(host, port, MOUNT_PROGRAM, MOUNT_V3, cred, timeout)

    def null(self):
        self.conn.call(0)

    def mnt(self, path):
        """Return (root file handle, list of auth flavours)."""
        u = self.conn.call(1, Packer().opaque(as_bytes(path)).done())
        status = u.u32()
        if status != 0:
            raise NfsError(status, "MNT %s" % path)
        return get_fh(u), u.array(lambda v: v.u32(), 64)

    def umnt(self, path):
        self.conn.call(3, Packer().opaque(as_bytes(path)).done())

    def export(self):
        """Return [(path, [groups])]."""
        u = self.conn.call(5)
        found = []
        while u.boolean():
            path, groups = u.opaque(1024), []
            while u.boolean():
                groups.append(u.opaque(255))
            found.append((path, groups))
        return found

    def close(self):
        self.conn.close()


class Nfs3:
    def __init__(self, conn):
        self.conn = conn

    def submit(self, proc, args, cred=None):
        """Send procedure proc (by name); decode later with finish()."""
        return self.conn.submit(NUMBER[proc], args, cred)

    @staticmethod
    def finish(proc, pending, timeout=None):
        """Wait for a submitted call; the Unpacker stands behind the status."""
        u = pending.result(timeout)
        status = u.u32()
        if status != errors.OK:
            raise NfsError(status, proc)
        return u

    def _call(self, proc, packer):
        return self.finish(proc, self.submit(proc, packer.done()))

    def null(self):
        self.conn.call(0)

    def getattr(self, fh):
        return get_attrs(self._call("GETATTR", Packer().opaque(fh)))

    def setattr(self, fh, sattr, guard_ctime=None):
        p = Packer().opaque(fh)
        put_sattr(p, sattr)
        p.optional(guard_ctime, put_time)
        return get_wcc(self._call("SETATTR", p))

    def lookup(self, dir_fh, name):
        """Return (file handle, attributes or None)."""
        u = self._call("LOOKUP", put_diropargs(Packer(), dir_fh, name))
        return get_fh(u), get_post_attrs(u)

    def access(self, fh, mask):
        u = self._call("ACCESS", Packer().opaque(fh).u32(mask))
        get_post_attrs(u)
        return u.u32()

    def readlink(self, fh):
        u = self._call("READLINK", Packer().opaque(fh))
        get_post_attrs(u)
        return u.opaque()

    @staticmethod
    def read_args(fh, offset, count):
        return Packer().opaque(fh).u64(offset).u32(count).done()

    @staticmethod
    def read_result(u):
        """Return (data, eof, attributes or None)."""
        attrs = get_post_attrs(u)
        count, eof = u.u32(), u.boolean()
        data = u.opaque()
        if len(data) != count:
            raise errors.NfsError(errors.SERVERFAULT, "READ: count differs")
        return data, eof, attrs

    def read(self, fh, offset, count):
        pending = self.submit("READ", self.read_args(fh, offset, count))
        return self.read_result(self.finish("READ", pending))

    @staticmethod
    def write_args(fh, offset, data, stable=FILE_SYNC):
        return (Packer().opaque(fh).u64(offset).u32(len(data)).u32(stable)
                .opaque(data).done())

    @staticmethod
    def write_result(u):
        wcc = get_wcc(u)
        return WriteResult(u.u32(), u.u32(), u.fixed(8), wcc)

    def write(self, fh, offset, data, stable=FILE_SYNC):
        pending = self.submit("WRITE", self.write_args(fh, offset, data, stable))
        return self.write_result(self.finish("WRITE", pending))

    @staticmethod
    def _new_object(u):
        """Return (file handle or None, attributes or None, wcc of the directory)."""
        return u.optional(get_fh), get_post_attrs(u), get_wcc(u)

    def create(self, dir_fh, name, sattr=None, how=UNCHECKED, verifier=None):
        p = put_diropargs(Packer(), dir_fh, name)
        if how == EXCLUSIVE:
            p.u32(2).fixed(verifier or os.urandom(8))
        else:
            p.u32(1 if how == GUARDED else 0)
            put_sattr(p, sattr or SetAttrs())
        return self._new_object(self._call("CREATE", p))

    def mkdir(self, dir_fh, name, sattr=None):
        p = put_diropargs(Packer(), dir_fh, name)
        put_sattr(p, sattr or SetAttrs())
        return self._new_object(self._call("MKDIR", p))

    def symlink(self, dir_fh, name, target, sattr=None):
        p = put_diropargs(Packer(), dir_fh, name)
        put_sattr(p, sattr or SetAttrs())
        p.opaque(as_bytes(target))
        return self._new_object(self._call("SYMLINK", p))

    def mknod(self, dir_fh, name, ftype, sattr=None, rdev=(0, 0)):
        p = put_diropargs(Packer(), dir_fh, name).u32(ftype)
        put_sattr(p, sattr or SetAttrs())
        if ftype in (BLK, CHR):
            p.u32(rdev[0]).u32(rdev[1])
        return self._new_object(self._call("MKNOD", p))

    def remove(self, dir_fh, name):
        return get_wcc(self._call("REMOVE", put_diropargs(Packer(), dir_fh, name)))

    def rmdir(self, dir_fh, name):
        return get_wcc(self._call("RMDIR", put_diropargs(Packer(), dir_fh, name)))

    def rename(self, from_dir, from_name, to_dir, to_name):
        p = put_diropargs(Packer(), from_dir, from_name)
        u = self._call("RENAME", put_diropargs(p, to_dir, to_name))
        return get_wcc(u), get_wcc(u)

    def link(self, fh, dir_fh, name):
        u = self._call("LINK", put_diropargs(Packer().opaque(fh), dir_fh, name))
        return get_post_attrs(u), get_wcc(u)

    def readdir(self, fh, cookie=0, verifier=bytes(8), count=65536):
        u = self._call("READDIR", Packer().opaque(fh).u64(cookie)
                       .fixed(verifier).u32(count))
        dir_attrs, verifier, entries = get_post_attrs(u), u.fixed(8), []
        while u.boolean():
            fileid, name = u.u64(), u.opaque()
            entries.append(DirEntry(name, fileid, u.u64()))
        return DirPage(entries, u.boolean(), verifier, dir_attrs)

    def readdirplus(self, fh, cookie=0, verifier=bytes(8), dircount=65536,
                    maxcount=262144):
        u = self._call("READDIRPLUS", Packer().opaque(fh).u64(cookie)
                       .fixed(verifier).u32(dircount).u32(maxcount))
        dir_attrs, verifier, entries = get_post_attrs(u), u.fixed(8), []
        while u.boolean():
            fileid, name, cookie = u.u64(), u.opaque(), u.u64()
            attrs = get_post_attrs(u)
            entries.append(DirEntry(name, fileid, cookie, attrs, u.optional(get_fh)))
        return DirPage(entries, u.boolean(), verifier, dir_attrs)

    def fsstat(self, fh):
        u = self._call("FSSTAT", Packer().opaque(fh))
        get_post_attrs(u)
        return FsStat(*[u.u64() for _ in range(6)], u.u32())

    def fsinfo(self, fh):
        u = self._call("FSINFO", Packer().opaque(fh))
        get_post_attrs(u)
        return FsInfo(*[u.u32() for _ in range(7)], u.u64(), get_time(u), u.u32())

    def pathconf(self, fh):
        u = self._call("PATHCONF", Packer().opaque(fh))
        get_post_attrs(u)
        return PathConf(u.u32(), u.u32(), *[u.boolean() for _ in range(4)])

    def commit(self, fh, offset=0, count=0):
        """Return (write verifier, wcc)."""
        u = self._call("COMMIT", Packer().opaque(fh).u64(offset).u32(count))
        wcc = get_wcc(u)
        return u.fixed(8), wcc
