# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4.0, 4.1 and 4.2 behind the common face (see face.py).

open() makes real open state: by name everywhere, by file handle from 4.1 on.
In 4.0 opening a file handle gives the anonymous stateid instead (4.0 has no
such OPEN).  READ and WRITE on a path or a handle use the anonymous stateid too.
"""
import itertools
import os
from dataclasses import dataclass, field

from . import errors
from .errors import NfsError
from .face import Client
from .nfs4 import (ACCESS_BOTH, ACCESS_READ, ANONYMOUS, EXCLUSIVE4, EXCLUSIVE4_1,
                   GUARDED4, READ_LT, RESULT_CONFIRM, SEEK_DATA, SEEK_HOLE,
                   UNCHECKED4, WANT_NO_DELEG, WRITE_LT, Compound)
from .nfs4_attrs import (ENTRY_ATTRS, FILEHANDLE, FILEID, to_attrs)
from .nfs4_session import Session40, Session41
from .nfstypes import (BLK, CHR, DIR, FH, FIFO, LNK, SOCK, DirEntry, SetAttrs,
                       as_bytes)
from .rpc import AuthSys

# Errors of an operation that do not move the seqid of its owner (RFC 7530, 9.1.7).
SAME_SEQID = (errors.STALE_CLIENTID, errors.STALE_STATEID, errors.BAD_STATEID,
              errors.BAD_SEQID, errors.BADXDR, errors.RESOURCE, errors.NOFILEHANDLE)
# What a 4.0 server says at OPEN once it was restarted; Ganesha: EXPIRED.
LOST_CLIENT = (errors.STALE_CLIENTID, errors.EXPIRED)
HOW = {"unchecked": UNCHECKED4, "guarded": GUARDED4, "exclusive": EXCLUSIVE4}
TO_THE_END = (1 << 64) - 1
_owner = itertools.count(1)


@dataclass
class LockState:
    stateid: bytes
    seqid: int


@dataclass
class File4:
    """An open file."""
    fh: FH
    stateid: bytes = ANONYMOUS
    owner: bytes = b""
    seqid: int = 0                      # of the open owner; 4.0 only
    locks: dict = field(default_factory=dict)


def _stateid(f):
    return getattr(f, "stateid", ANONYMOUS)


def _fh(f):
    return getattr(f, "fh", f)


class Client4(Client):
    def __init__(self, host, port, export="/export", cred=AuthSys(), minor=1,
                 timeout=30.0, patience=60.0):
        super().__init__(patience)
        self.minor, self.proto = minor, "v4.%d" % minor
        self.session = (Session40(host, port, cred, timeout) if minor == 0
                        else Session41(host, port, cred, timeout, minor))
        c = Compound().putrootfh()
        for name in as_bytes(export).split(b"/"):
            if name:
                c.lookup(name)
        self.root = self._help(self.run, c.getfh())[-1]

    def run(self, compound):
        return self.session.run(compound)

    def close(self):
        self.session.close()

    def renew(self):
        self.session.renew()

    # -- what the face asks for ---------------------------------------------

    def _lookup(self, dir_fh, name):
        return tuple(self.run(Compound().putfh(dir_fh).lookup(name).getfh()
                              .getattr())[-2:])

    def _getattr(self, fh):
        return self.run(Compound().putfh(fh).getattr())[-1]

    def attributes(self, target, numbers):
        """A choice of attributes: {number: value}."""
        return self._do(self.run, Compound().putfh(self.fh(target))
                        .getattr(list(numbers)))[-1]

    def _setattr(self, fh, sattr):
        return self.run(Compound().putfh(fh).setattr(sattr).getattr())[-1]

    def _access(self, fh, mask):
        return self.run(Compound().putfh(fh).access(mask))[-1][1]

    def _readlink(self, fh):
        return self.run(Compound().putfh(fh).readlink())[-1]

    def _read(self, f, offset, count):
        eof, data = self.run(Compound().putfh(_fh(f))
                             .read(_stateid(f), offset, count))[-1]
        return data, eof

    def _write(self, f, offset, data, stable):
        return self.run(Compound().putfh(_fh(f))
                        .write(_stateid(f), offset, data, stable))[-1]

    def _create(self, dir_fh, name, ftype, sattr, **kw):
        return self.run(Compound().putfh(dir_fh)
                        .create(ftype, name, sattr, **kw).getfh())[-1]

    def _mkdir(self, dir_fh, name, sattr):
        return self._create(dir_fh, name, DIR, sattr)

    def _symlink(self, dir_fh, name, text, sattr):
        return self._create(dir_fh, name, LNK, sattr, target=text)

    def _mknod(self, dir_fh, name, ftype, sattr, rdev):
        assert ftype in (BLK, CHR, FIFO, SOCK)
        return self._create(dir_fh, name, ftype, sattr, rdev=rdev)

    def _remove(self, dir_fh, name):
        self.run(Compound().putfh(dir_fh).remove(name))

    _rmdir = _remove

    def _rename(self, from_dir, from_name, to_dir, to_name):
        self.run(Compound().putfh(from_dir).savefh().putfh(to_dir)
                 .rename(from_name, to_name))

    def _link(self, fh, dir_fh, name):
        self.run(Compound().putfh(fh).savefh().putfh(dir_fh).link(name))

    def _commit(self, fh, offset, count):
        return self.run(Compound().putfh(fh).commit(offset, count))[-1]

    # -- directories --------------------------------------------------------

    def readdir_page(self, target, cookie=0, verifier=bytes(8), attrs=True,
                     maxcount=65536):
        """One READDIR: a DirPage4."""
        numbers = ENTRY_ATTRS if attrs else (FILEID,)
        c = Compound().putfh(self.fh(target)).readdir(cookie, verifier, maxcount,
                                                      maxcount, numbers)
        return self._do(self.run, c)[-1]

    def listdir(self, target=b"", attrs=True, maxcount=65536, dots=False, whole=True):
        """All DirEntries in server order; NFSv4 never lists . and .. .  What comes without
        attributes is looked up (whole=False: stays so)."""
        fh, found, cookie, verifier = self.fh(target), [], 0, bytes(8)
        patient = self.patient(self.patience)
        while True:
            page = patient.readdir_page(fh, cookie, verifier, attrs, maxcount)
            for cookie, name, values in page.entries:
                found.append(DirEntry(name, values.get(FILEID), cookie,
                                      to_attrs(values) if attrs else None,
                                      values.get(FILEHANDLE)))
            verifier = page.verifier
            if page.eof:
                break
            if not page.entries:
                raise AssertionError("READDIR: no entry, no eof")
        if attrs and whole:
            for entry in found:
                if entry.attrs is None or entry.fh is None:
                    entry.fh, entry.attrs = self._help(self._lookup, fh, entry.name)
        return found

    # -- open files ---------------------------------------------------------

    def _open(self, fh, name, access, deny, how):
        """One OPEN, with a new owner each time (so no seqid to keep)."""
        owner = b"open-%d-%d" % (os.getpid(), next(_owner))
        if self.minor:
            access |= WANT_NO_DELEG
        c = Compound().putfh(fh).open(0, access, deny, self.session.clientid,
                                      owner, how, name).getfh().getattr()
        try:
            opened, file_fh, attrs = self.run(c)[-3:]
        except NfsError as err:
            if self.minor or err.status not in LOST_CLIENT:
                raise
            self.session.establish()             # the server was restarted
            return self._open(fh, name, access, deny, how)
        f = File4(file_fh, opened.stateid, owner, 1)
        if opened.flags & RESULT_CONFIRM and self.minor == 0:
            f.stateid = self._owner_op(
                f, Compound().putfh(file_fh).open_confirm(f.stateid, f.seqid))
        return f, attrs

    def _owner_op(self, f, compound):
        """Run an operation that carries the open owner's seqid; count it."""
        try:
            result = self.run(compound)[-1]
        except NfsError as err:
            if err.op in ("OPEN_CONFIRM", "CLOSE", "LOCK") \
                    and err.status not in SAME_SEQID:
                f.seqid += 1
            raise
        f.seqid += 1
        return result

    def open(self, target, write=False, deny=0, how=None):
        """Open for reading, or for both; returns a File4 to give to close_file."""
        access = ACCESS_BOTH if write else ACCESS_READ
        if isinstance(target, FH):
            if self.minor == 0:
                return File4(target)
            return self._do(self._open, target, None, access, deny, how)[0]
        return self._do(self._open, *self.place(target), access, deny, how)[0]

    def close_file(self, f):
        """CLOSE; first gives back all locks, as kernel clients do."""
        if f.stateid != ANONYMOUS:
            for owner in f.locks:
                self.unlock(f, 0, TO_THE_END, owner)
            self._do(lambda: self._owner_op(
                f, Compound().putfh(f.fh).close(f.seqid, f.stateid)))
            f.stateid = ANONYMOUS

    def create(self, target, mode=0o644, how="unchecked", verifier=None, **what):
        """OPEN with create, then CLOSE.  Return (FH, Attrs)."""
        sattr = SetAttrs(mode, **what)
        number = HOW[how]
        if number == EXCLUSIVE4 and self.minor:
            number = EXCLUSIVE4_1
        f, attrs = self._do(self._open, *self.place(target), ACCESS_BOTH, 0,
                            (number, sattr, verifier or os.urandom(8)))
        try:
            if number == EXCLUSIVE4:
                attrs = self._help(self._setattr, f.fh, sattr)
        finally:
            self.patient(self.patience).close_file(f)
        return f.fh, attrs

    def resize(self, f, size):
        """SETATTR of the size, by who has the file open."""
        self._do(self.run, Compound().putfh(_fh(f)).setattr(SetAttrs(size=size), _stateid(f)))

    # -- locks ----------------------------------------------------------------

    @staticmethod
    def _lock_owner(f, owner):
        return b"lock-" + as_bytes(owner)

    def lock(self, f, offset, length, exclusive=True, owner="a"):
        """LOCK on an open file; NfsError(DENIED) has .denied."""
        kind = WRITE_LT if exclusive else READ_LT
        return self._do(self._lock, f, offset, length, kind, owner)

    def _lock(self, f, offset, length, kind, owner):
        state = f.locks.get(owner)
        c = Compound().putfh(f.fh)
        if state is None:
            c.lock_new(kind, offset, length, f.seqid, f.stateid, 0,
                       self.session.clientid, self._lock_owner(f, owner))
            f.locks[owner] = LockState(self._owner_op(f, c), 1)
            return
        c.lock_more(kind, offset, length, state.stateid, state.seqid)
        state.stateid = self._lock_op(state, c)

    def _lock_op(self, state, compound):
        try:
            result = self.run(compound)[-1]
        except NfsError as err:
            if err.op in ("LOCK", "LOCKU") and err.status not in SAME_SEQID:
                state.seqid += 1
            raise
        state.seqid += 1
        return result

    def unlock(self, f, offset, length, owner="a"):
        state = f.locks[owner]
        state.stateid = self._do(lambda: self._lock_op(
            state, Compound().putfh(f.fh).locku(WRITE_LT, state.seqid, state.stateid,
                                                offset, length)))

    def locktest(self, target, offset, length, exclusive=True, owner="a"):
        """None if the lock could be had, else who is in the way."""
        kind = WRITE_LT if exclusive else READ_LT
        c = Compound().putfh(self.fh(target)).lockt(
            kind, offset, length, self.session.clientid, b"lock-" + as_bytes(owner))
        try:
            self._do(self.run, c)
        except NfsError as err:
            if err.status != errors.DENIED:
                raise
            return err.denied
        return None

    # -- 4.2 --------------------------------------------------------------------

    def seek(self, f, offset, hole=False):
        """(eof, offset) of the next data, or hole."""
        return self._do(self.run, Compound().putfh(_fh(f)).seek(
            _stateid(f), offset, SEEK_HOLE if hole else SEEK_DATA))[-1]

    def allocate(self, f, offset, length):
        self._do(self.run, Compound().putfh(_fh(f)).allocate(_stateid(f), offset, length))

    def deallocate(self, f, offset, length):
        self._do(self.run, Compound().putfh(_fh(f)).deallocate(_stateid(f), offset, length))

    def read_plus(self, f, offset, count):
        """(eof, [(kind, offset, bytes or length)])."""
        return self._do(self.run, Compound().putfh(_fh(f)).read_plus(
            _stateid(f), offset, count))[-1]

    def copy(self, source, target, length, from_offset=0, to_offset=0, clone=False):
        """COPY (or CLONE) between two files of this server; length 0: to the end."""
        c = Compound().putfh(_fh(source)).savefh().putfh(_fh(target))
        add = c.clone if clone else c.copy
        return self._do(self.run, add(_stateid(source), _stateid(target), from_offset,
                                      to_offset, length))[-1]
