# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv3 behind the common face (see face.py)."""
from dataclasses import dataclass

from .errors import NOTSUPP, NfsError
from .face import Client
from .nfs3 import EXCLUSIVE, NFS_PROGRAM, NFS_V3, UNCHECKED, Mount3, Nfs3
from .rpc import AuthSys, RpcConnection
from .nfstypes import FH, SetAttrs


@dataclass
class File3:
    """NFSv3 has no open files; this only looks like one."""
    fh: FH


class Client3(Client):
    proto = "v3"

    def __init__(self, host, port, mount_port, export="/export", cred=AuthSys(),
                 timeout=30.0, root=None, patience=60.0):
        super().__init__(patience)
        self.conn = RpcConnection(host, port, NFS_PROGRAM, NFS_V3, cred, timeout)
        self.raw = Nfs3(self.conn)
        if root is None:
            mount = Mount3(host, mount_port, cred, timeout)
            try:
                root = mount.mnt(export)[0]
            finally:
                mount.close()
        self.root = root

    def close(self):
        self.conn.close()

    # -- what the face asks for ---------------------------------------------

    def _lookup(self, dir_fh, name):
        return self.raw.lookup(dir_fh, name)

    def _getattr(self, fh):
        return self.raw.getattr(fh)

    def _setattr(self, fh, sattr, guard_ctime=None):
        return self.raw.setattr(fh, sattr, guard_ctime).after

    def _access(self, fh, mask):
        return self.raw.access(fh, mask)

    def _readlink(self, fh):
        return self.raw.readlink(fh)

    def _read(self, f, offset, count):
        return self.raw.read(getattr(f, "fh", f), offset, count)[:2]

    def _write(self, f, offset, data, stable):
        return self.raw.write(getattr(f, "fh", f), offset, data, stable)

    def _found(self, result, dir_fh, name):
        """CREATE and its like need not return a handle; then LOOKUP."""
        fh, attrs = result[:2]
        return (fh, attrs) if fh else self._help(self._lookup, dir_fh, name)

    def create(self, target, mode=0o644, how=UNCHECKED, verifier=None, **what):
        """Return (FH, Attrs).  how: "unchecked", "guarded", "exclusive"."""
        dir_fh, name = self.place(target)
        result = self._do(self.raw.create, dir_fh, name, SetAttrs(mode, **what),
                          how, verifier)
        fh, attrs = self._found(result, dir_fh, name)
        if how == EXCLUSIVE:                 # carries no attributes itself
            attrs = self._help(self._setattr, fh, SetAttrs(mode, **what)) or attrs
        return fh, attrs

    def _mkdir(self, dir_fh, name, sattr):
        return self._found(self.raw.mkdir(dir_fh, name, sattr), dir_fh, name)[0]

    def _symlink(self, dir_fh, name, text, sattr):
        return self._found(self.raw.symlink(dir_fh, name, text, sattr), dir_fh, name)[0]

    def _mknod(self, dir_fh, name, ftype, sattr, rdev):
        return self._found(self.raw.mknod(dir_fh, name, ftype, sattr, rdev),
                           dir_fh, name)[0]

    def _remove(self, dir_fh, name):
        self.raw.remove(dir_fh, name)

    def _rmdir(self, dir_fh, name):
        self.raw.rmdir(dir_fh, name)

    def _rename(self, *args):
        self.raw.rename(*args)

    def _link(self, fh, dir_fh, name):
        self.raw.link(fh, dir_fh, name)

    def _commit(self, fh, offset, count):
        return self.raw.commit(fh, offset, count)[0]

    # -- directories --------------------------------------------------------

    def readdir_page(self, target, cookie=0, verifier=bytes(8), attrs=True,
                     maxcount=65536):
        """One READDIRPLUS (or READDIR) call: a DirPage."""
        fh = self.fh(target)
        if attrs:
            return self._do(self.raw.readdirplus, fh, cookie, verifier,
                            maxcount, maxcount)
        return self._do(self.raw.readdir, fh, cookie, verifier, maxcount)

    def listdir(self, target=b"", attrs=True, maxcount=65536, dots=False, whole=True):
        """All DirEntries in server order; with attrs also fh and attributes.  What comes
        without them is looked up (whole=False: stays so)."""
        fh, found, cookie, verifier = self.fh(target), [], 0, bytes(8)
        patient = self.patient(self.patience)
        while True:
            page = patient.readdir_page(fh, cookie, verifier, attrs, maxcount)
            found += page.entries
            if page.eof:
                break
            if not page.entries:
                raise AssertionError("READDIR: no entry, no eof")
            cookie, verifier = page.entries[-1].cookie, page.verifier
        if not dots:
            found = [e for e in found if e.name not in (b".", b"..")]
        if attrs and whole:
            for entry in found:
                if entry.attrs is None or entry.fh is None:
                    entry.fh, entry.attrs = self._help(self._lookup, fh, entry.name)
        return found

    def fsstat(self, target=b""):
        return self._do(self.raw.fsstat, self.fh(target))

    def fsinfo(self, target=b""):
        return self._do(self.raw.fsinfo, self.fh(target))

    def pathconf(self, target=b""):
        return self._do(self.raw.pathconf, self.fh(target))

    # -- state, which NFSv3 does not have ------------------------------------

    def open(self, target, write=False, **_kw):
        return File3(self.fh(target))

    def close_file(self, f):
        pass

    def lock(self, *_args, **_kw):
        raise NfsError(NOTSUPP, "locks in NFSv3 (NLM)")

    locktest = unlock = lock
