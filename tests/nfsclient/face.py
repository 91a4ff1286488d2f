# SPDX-License-Identifier: GPL-3.0-or-later
"""The face that the clients of all protocol versions share.

Objects are named in three ways, everywhere a "target" is asked for:

    b"a/b" or "a/b"     a path below the export (no symlink is followed)
    FH                  a file handle
    (FH, name)          a name in a directory, sent as it is

"Try again later" (NFS3ERR_JUKEBOX, NFS4ERR_DELAY): the call that was asked
for raises NfsError, so that tests can see it; path resolution and helpers
made of many calls (read_file, listdir, walk, ...) retry for `patience`
seconds.  `delays` counts each such answer.  client.patient(30) is the same
client, but retrying in every call; client.patient(0) retries nowhere.
"""
import contextlib
import copy

from .errors import NOENT, NfsError, retry_jukebox
from .nfstypes import DIR, FH, FILE_SYNC, SetAttrs, as_bytes


class Counter:
    """A number that copies of a client share."""
    value = 0


class Client:
    proto = None          # "v3", "v4.0", "v4.1"
    root = None           # FH of the export's root
    chunk = 1 << 20       # bytes per READ or WRITE of the helpers

    def __init__(self, patience=60.0):
        self.patience = patience     # of helpers
        self.stubborn = 0            # of single calls
        self._delays = Counter()

    # -- retrying -----------------------------------------------------------

    @property
    def delays(self):
        return self._delays.value

    def _count(self, _err):
        self._delays.value += 1

    def counting(self):
        """The same client, which counts its own DELAYs only."""
        other = copy.copy(self)
        other._delays = Counter()
        return other

    def patient(self, seconds):
        """The same client (same connection), retrying DELAYs this long."""
        other = copy.copy(self)
        other.patience = other.stubborn = seconds
        return other

    def _do(self, fn, *args, **kw):
        """A call that a test asked for."""
        return retry_jukebox(lambda: fn(*args, **kw), self.stubborn,
                             on_delay=self._count)

    def _help(self, fn, *args, **kw):
        """A call that a helper makes on its way."""
        return retry_jukebox(lambda: fn(*args, **kw), self.patience,
                             on_delay=self._count)

    # -- naming -------------------------------------------------------------

    def lookup_path(self, path):
        """Walk a path from the root, one LOOKUP per component."""
        fh = self.root
        for name in as_bytes(path).split(b"/"):
            if name:
                fh = self._help(self._lookup, fh, name)[0]
        return fh

    def fh(self, target):
        """The file handle of any target."""
        if isinstance(target, FH):
            return target
        if isinstance(target, tuple):
            return self._help(self._lookup, target[0], as_bytes(target[1]))[0]
        if hasattr(target, "fh"):      # an open file
            return target.fh
        return self.lookup_path(target)

    def place(self, target):
        """Split a target into (directory handle, name)."""
        if isinstance(target, tuple):
            return target[0], as_bytes(target[1])
        path = as_bytes(target).strip(b"/")
        head, _, name = path.rpartition(b"/")
        return self.lookup_path(head), name

    def lookup(self, target):
        """LOOKUP of the last component: (FH, Attrs)."""
        return self._do(self._lookup, *self.place(target))

    def exists(self, target):
        try:
            self._help(self._lookup, *self.place(target))
            return True
        except NfsError as err:
            if err.status == NOENT:
                return False
            raise

    # -- helpers made of the calls below ------------------------------------

    def read_file(self, target, size=None, chunk=None):
        """The whole file, by READs until eof (or until size bytes)."""
        chunk = chunk or self.chunk
        parts, offset = [], 0
        with self.opened(target) as f:
            while size is None or offset < size:
                want = chunk if size is None else min(chunk, size - offset)
                data, eof = self._help(self._read, f, offset, want)
                parts.append(data)
                offset += len(data)
                if eof:
                    break
                if not data:
                    raise AssertionError("READ at %d: no data, no eof" % offset)
        return b"".join(parts)

    def write_file(self, target, data, mode=0o644, stable=FILE_SYNC):
        """Create (or open) a file and write data from offset 0; no truncate."""
        chunk = self.chunk
        fh = self.patient(self.patience).create(target, mode=mode)[0]
        with self.opened(target, write=True) as f:
            for offset in range(0, len(data), chunk):
                self._write_all(f, offset, data[offset:offset + chunk], stable)
        return fh

    def _write_all(self, f, offset, data, stable):
        while data:
            done = self._help(self._write, f, offset, data, stable).count
            if done == 0:
                raise AssertionError("WRITE wrote nothing")
            offset, data = offset + done, data[done:]

    def setattr(self, target, guard_ctime=None, **what):
        """Change mode=, uid=, gid=, size=, atime=, mtime=."""
        kw = {} if guard_ctime is None else {"guard_ctime": guard_ctime}
        return self._do(self._setattr, self.fh(target), SetAttrs(**what), **kw)

    def names(self, target=b""):
        """Sorted names of a directory, without . and .. ."""
        return sorted(e.name for e in self.listdir(target, attrs=False))

    def walk(self, target=b"", prefix=b""):
        """Yield (path, DirEntry) for everything below a directory."""
        for entry in sorted(self.listdir(target), key=lambda e: e.name):
            path = prefix + entry.name
            yield path, entry
            if entry.attrs and entry.attrs.type == DIR:
                fh = entry.fh or self.fh((self.fh(target), entry.name))
                yield from self.walk(fh, path + b"/")

    @contextlib.contextmanager
    def opened(self, target, write=False):
        f = self.patient(self.patience).open(target, write=write)
        try:
            yield f
        finally:
            self.patient(self.patience).close_file(f)

    # -- one call each ------------------------------------------------------

    def getattr(self, target):
        return self._do(self._getattr, self.fh(target))

    def access(self, target, mask):
        return self._do(self._access, self.fh(target), mask)

    def readlink(self, target):
        return self._do(self._readlink, self.fh(target))

    def read(self, target, offset, count):
        """One READ: (data, eof).  target may be an open file."""
        return self._do(self._read, self._file(target), offset, count)

    def write(self, target, offset, data, stable=FILE_SYNC):
        """One WRITE: a WriteResult (count may be short)."""
        return self._do(self._write, self._file(target), offset, data, stable)

    def mkdir(self, target, mode=0o755, **what):
        return self._do(self._mkdir, *self.place(target), SetAttrs(mode, **what))

    def symlink(self, target, text, **what):
        return self._do(self._symlink, *self.place(target), as_bytes(text),
                        SetAttrs(**what))

    def mknod(self, target, ftype, mode=0o644, rdev=(0, 0), **what):
        return self._do(self._mknod, *self.place(target), ftype,
                        SetAttrs(mode, **what), rdev)

    def remove(self, target):
        return self._do(self._remove, *self.place(target))

    def rmdir(self, target):
        return self._do(self._rmdir, *self.place(target))

    def rename(self, old, new):
        return self._do(self._rename, *self.place(old), *self.place(new))

    def link(self, target, new):
        return self._do(self._link, self.fh(target), *self.place(new))

    def commit(self, target, offset=0, count=0):
        """COMMIT: the write verifier."""
        return self._do(self._commit, self.fh(target), offset, count)

    def _file(self, target):
        return target if hasattr(target, "fh") else self.fh(target)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
