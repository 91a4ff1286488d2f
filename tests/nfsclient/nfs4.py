# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4 compounds: 4.0 (RFC 7530), 4.1 (RFC 8881), a little of 4.2 (RFC 7862).

    c = Compound().putfh(fh).lookup(b"name").getfh().getattr()
    fh, attrs = session.run(c)[-2:]

Each method adds one operation; running gives one result per operation, or an
NfsError that names the operation that failed (and has the results of those
before it).  How to run one: nfs4_session.py.
"""
from dataclasses import dataclass

from .errors import DENIED, NfsError
from .nfs4_attrs import (ATTRS, get_bitmap, get_fattr, put_bitmap, put_sattr,
                         to_attrs)
from .nfstypes import BLK, CHR, FH, LNK, SetAttrs, WriteResult, as_bytes
from .xdr import Packer

NFS_PROGRAM, NFS_V4 = 100003, 4
PROC_NULL, PROC_COMPOUND = 0, 1

OPS = {"ACCESS": 3, "CLOSE": 4, "COMMIT": 5, "CREATE": 6, "DELEGRETURN": 8,
       "GETATTR": 9, "GETFH": 10, "LINK": 11, "LOCK": 12, "LOCKT": 13,
       "LOCKU": 14, "LOOKUP": 15, "LOOKUPP": 16, "OPEN": 18, "OPEN_CONFIRM": 20,
       "PUTFH": 22, "PUTROOTFH": 24, "READ": 25, "READDIR": 26, "READLINK": 27,
       "REMOVE": 28, "RENAME": 29, "RENEW": 30, "RESTOREFH": 31, "SAVEFH": 32,
       "SETATTR": 34, "SETCLIENTID": 35, "SETCLIENTID_CONFIRM": 36, "WRITE": 38,
       "EXCHANGE_ID": 42, "CREATE_SESSION": 43, "DESTROY_SESSION": 44,
       "SEQUENCE": 53, "DESTROY_CLIENTID": 57, "RECLAIM_COMPLETE": 58,
       "ALLOCATE": 59, "COPY": 60, "COPY_NOTIFY": 61, "DEALLOCATE": 62, "IO_ADVISE": 63,
       "OFFLOAD_CANCEL": 66, "OFFLOAD_STATUS": 67, "READ_PLUS": 68, "SEEK": 69,
       "CLONE": 71, "GETXATTR": 72, "SETXATTR": 73, "LISTXATTRS": 74, "REMOVEXATTR": 75}

ANONYMOUS = bytes(16)                  # the stateid of no state
ACCESS_READ, ACCESS_WRITE, ACCESS_BOTH = 1, 2, 3     # of OPEN
WANT_NO_DELEG = 0x400
NOCREATE, CREATE = 0, 1
UNCHECKED4, GUARDED4, EXCLUSIVE4, EXCLUSIVE4_1 = 0, 1, 2, 3
CLAIM_NULL, CLAIM_FH = 0, 4
RESULT_CONFIRM = 2
READ_LT, WRITE_LT = 1, 2
SEEK_DATA, SEEK_HOLE = 0, 1


@dataclass
class OpenResult:
    stateid: bytes
    change: tuple
    flags: int
    attrset: list
    delegation: int


@dataclass
class Denied:
    """Who holds the lock that is in the way."""
    offset: int
    length: int
    locktype: int
    owner: bytes


@dataclass
class DirPage4:
    verifier: bytes
    entries: list          # (cookie, name, {attribute number: value})
    eof: bool


def _nothing(_u):
    return None


def _change_info(u):
    """(atomic, change before, change after)."""
    return u.boolean(), u.u64(), u.u64()


def _stateid(u):
    return u.fixed(16)


def _ace(u):
    return u.u32(), u.u32(), u.u32(), u.opaque()


def _delegation(u):
    kind = u.u32()
    if kind == 1:
        _stateid(u), u.boolean(), _ace(u)
    elif kind == 2:
        _stateid(u), u.boolean(), u.u32(), u.u64(), _ace(u)
    elif kind == 3 and u.u32() in (1, 2):
        u.boolean()
    return kind


def _open_result(u):
    return OpenResult(_stateid(u), _change_info(u), u.u32(), get_bitmap(u),
                      _delegation(u))


def _denied(u):
    offset, length, locktype = u.u64(), u.u64(), u.u32()
    u.u64()
    return Denied(offset, length, locktype, u.opaque(1024))


def _content(u):
    """A part of a READ_PLUS: (SEEK_DATA, offset, bytes) or (SEEK_HOLE, offset, length)."""
    what, offset = u.u32(), u.u64()
    return what, offset, u.opaque() if what == SEEK_DATA else u.u64()


def _read_plus(u):
    eof = u.boolean()
    return eof, u.array(_content, 1024)


def _dir_page(u):
    verifier, entries = u.fixed(8), []
    while u.boolean():
        entries.append((u.u64(), u.opaque(), get_fattr(u)))
    return DirPage4(verifier, entries, u.boolean())


class Compound:
    def __init__(self, tag=b""):
        self.tag = tag
        self.ops = []           # (name, encoded arguments, decoder)

    def add(self, name, args=None, decode=_nothing):
        self.ops.append((name, args.done() if args else b"", decode))
        return self

    # -- on the wire ---------------------------------------------------------

    def encode(self, minor):
        p = Packer().opaque(self.tag).u32(minor).u32(len(self.ops))
        for name, args, _decode in self.ops:
            p.u32(OPS[name]).raw(args)
        return p.done()

    def decode(self, u):
        """Results in order, or NfsError with .op, .results and .denied."""
        status = u.u32()
        u.opaque()
        count, results = u.u32(), []
        for name, _args, decode in self.ops[:count]:
            u.u32()
            op_status = u.u32()
            if op_status != 0:
                err = NfsError(op_status, name)
                err.op, err.results = name, results
                err.denied = _denied(u) if op_status == DENIED else None
                raise err
            results.append(decode(u))
        if status != 0:
            err = NfsError(status, "COMPOUND")
            err.op, err.results, err.denied = "COMPOUND", results, None
            raise err
        return results

    # -- the current file handle ----------------------------------------------

    def putrootfh(self):
        return self.add("PUTROOTFH")

    def putfh(self, fh):
        return self.add("PUTFH", Packer().opaque(fh))

    def savefh(self):
        return self.add("SAVEFH")

    def restorefh(self):
        return self.add("RESTOREFH")

    def getfh(self):
        return self.add("GETFH", None, lambda u: FH(u.opaque(128)))

    def lookup(self, name):
        return self.add("LOOKUP", Packer().opaque(as_bytes(name)))

    # -- attributes ------------------------------------------------------------

    def getattr(self, numbers=ATTRS):
        """Result: Attrs (or, for a choice of your own, {number: value})."""
        if numbers is ATTRS:
            return self.add("GETATTR", put_bitmap(Packer(), numbers),
                            lambda u: to_attrs(get_fattr(u)))
        return self.add("GETATTR", put_bitmap(Packer(), numbers), get_fattr)

    def setattr(self, sattr, stateid=ANONYMOUS):
        p = Packer().fixed(stateid)
        return self.add("SETATTR", put_sattr(p, sattr), get_bitmap)

    def access(self, mask):
        """Result: (bits the server knows, bits granted)."""
        return self.add("ACCESS", Packer().u32(mask), lambda u: (u.u32(), u.u32()))

    # -- data ------------------------------------------------------------------

    def read(self, stateid, offset, count):
        """Result: (eof, data)."""
        return self.add("READ", Packer().fixed(stateid).u64(offset).u32(count),
                        lambda u: (u.boolean(), u.opaque()))

    def write(self, stateid, offset, data, stable):
        p = Packer().fixed(stateid).u64(offset).u32(stable).opaque(data)
        return self.add("WRITE", p,
                        lambda u: WriteResult(u.u32(), u.u32(), u.fixed(8)))

    def commit(self, offset, count):
        return self.add("COMMIT", Packer().u64(offset).u32(count),
                        lambda u: u.fixed(8))

    def seek(self, stateid, offset, what):
        """Result: (eof, offset).  4.2 only, as are the next ones."""
        return self.add("SEEK", Packer().fixed(stateid).u64(offset).u32(what),
                        lambda u: (u.boolean(), u.u64()))

    def allocate(self, stateid, offset, length):
        return self.add("ALLOCATE", Packer().fixed(stateid).u64(offset).u64(length))

    def deallocate(self, stateid, offset, length):
        return self.add("DEALLOCATE", Packer().fixed(stateid).u64(offset).u64(length))

    def read_plus(self, stateid, offset, count):
        """Result: (eof, [content])."""
        return self.add("READ_PLUS", Packer().fixed(stateid).u64(offset).u32(count), _read_plus)

    def copy(self, from_stateid, to_stateid, from_offset, to_offset, length):
        """Within this server, from the saved handle to the current one, at once."""
        p = (Packer().fixed(from_stateid).fixed(to_stateid).u64(from_offset).u64(to_offset)
             .u64(length).boolean(True).boolean(True).u32(0))
        return self.add("COPY", p)

    def clone(self, from_stateid, to_stateid, from_offset, to_offset, length):
        p = (Packer().fixed(from_stateid).fixed(to_stateid).u64(from_offset).u64(to_offset)
             .u64(length))
        return self.add("CLONE", p)

    def copy_notify(self, stateid):
        """Says that the server "elsewhere" may read the file."""
        return self.add("COPY_NOTIFY", Packer().fixed(stateid).u32(1).opaque(b"elsewhere"))

    def offload_status(self, stateid):
        return self.add("OFFLOAD_STATUS", Packer().fixed(stateid))

    def offload_cancel(self, stateid):
        return self.add("OFFLOAD_CANCEL", Packer().fixed(stateid))

    # -- names -------------------------------------------------------------------

    def readdir(self, cookie, verifier, dircount, maxcount, numbers):
        p = Packer().u64(cookie).fixed(verifier).u32(dircount).u32(maxcount)
        return self.add("READDIR", put_bitmap(p, numbers), _dir_page)

    def readlink(self):
        return self.add("READLINK", None, lambda u: u.opaque())

    def create(self, ftype, name, sattr=None, target=b"", rdev=(0, 0)):
        """Anything but a regular file."""
        p = Packer().u32(ftype)
        if ftype == LNK:
            p.opaque(as_bytes(target))
        elif ftype in (BLK, CHR):
            p.u32(rdev[0]).u32(rdev[1])
        put_sattr(p.opaque(as_bytes(name)), sattr or SetAttrs())
        return self.add("CREATE", p, lambda u: (_change_info(u), get_bitmap(u)))

    def remove(self, name):
        return self.add("REMOVE", Packer().opaque(as_bytes(name)), _change_info)

    def rename(self, old, new):
        return self.add("RENAME", Packer().opaque(as_bytes(old)).opaque(as_bytes(new)),
                        lambda u: (_change_info(u), _change_info(u)))

    def link(self, name):
        return self.add("LINK", Packer().opaque(as_bytes(name)), _change_info)

    # -- open files -----------------------------------------------------------

    def open(self, seqid, access, deny, clientid, owner, how=None, name=None):
        """how: None, or (UNCHECKED4..EXCLUSIVE4_1, SetAttrs, verifier).

        name: in the current directory; None: the current file itself (4.1).
        """
        p = (Packer().u32(seqid).u32(access).u32(deny).u64(clientid).opaque(owner))
        if how is None:
            p.u32(NOCREATE)
        else:
            mode, sattr, verifier = how
            p.u32(CREATE).u32(mode)
            if mode in (EXCLUSIVE4, EXCLUSIVE4_1):
                p.fixed(verifier)
            if mode != EXCLUSIVE4:
                put_sattr(p, sattr)
        if name is None:
            p.u32(CLAIM_FH)
        else:
            p.u32(CLAIM_NULL).opaque(as_bytes(name))
        return self.add("OPEN", p, _open_result)

    def open_confirm(self, stateid, seqid):
        return self.add("OPEN_CONFIRM", Packer().fixed(stateid).u32(seqid), _stateid)

    def close(self, seqid, stateid):
        return self.add("CLOSE", Packer().u32(seqid).fixed(stateid), _stateid)

    def lock_new(self, locktype, offset, length, open_seqid, open_stateid,
                 lock_seqid, clientid, owner, reclaim=False):
        """The first lock of a lock owner on an open file."""
        p = (Packer().u32(locktype).boolean(reclaim).u64(offset).u64(length)
             .boolean(True).u32(open_seqid).fixed(open_stateid).u32(lock_seqid)
             .u64(clientid).opaque(owner))
        return self.add("LOCK", p, _stateid)

    def lock_more(self, locktype, offset, length, lock_stateid, lock_seqid):
        p = (Packer().u32(locktype).boolean(False).u64(offset).u64(length)
             .boolean(False).fixed(lock_stateid).u32(lock_seqid))
        return self.add("LOCK", p, _stateid)

    def lockt(self, locktype, offset, length, clientid, owner):
        p = (Packer().u32(locktype).u64(offset).u64(length).u64(clientid)
             .opaque(owner))
        return self.add("LOCKT", p)

    def locku(self, locktype, seqid, lock_stateid, offset, length):
        p = (Packer().u32(locktype).u32(seqid).fixed(lock_stateid).u64(offset)
             .u64(length))
        return self.add("LOCKU", p, _stateid)
