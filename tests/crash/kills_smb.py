# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB clients in the kills: their operations, and the case that has them.

    ("swrite", path, offset, data, flush)     write, then FLUSH or not
    ("ssize", path, size)                     set the end of file
    ("szero", path, offset, size, flush)      FSCTL_SET_ZERO_DATA
    ("scopy", path, offset, size, source, source_offset, flush)     copy-chunk
    ("srename", old, new)                     over what is there
    ("sremove", path)
    ("slist", path)

Each is answered only when it is closed.  Without a FLUSH they are as stable as an
unstable NFS write: there as long as one process lives.
"""
from lib.smbd import STACK, Samba, Share
from smb2client import Gone, SmbError, wire

SMBD = "smbd"
ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES | \
    wire.SYNCHRONIZE
PATIENCE = 60
# What an operation says that was done already when its answer got lost.
DONE_ALREADY = {"sremove": "OBJECT_NAME_NOT_FOUND", "srename": "OBJECT_NAME_NOT_FOUND"}
CONF = "oplocks = no\nkernel oplocks = no\nsmb2 leases = no\n"
BLOCK = 65536


class Operations:
    """What they do to the tree of an Expected."""

    def _swrite(self, number, path, offset, data, flush):
        self._write(number, path, offset, data, flush)

    def _ssize(self, number, path, size):
        self._truncate(number, path, size)

    def _szero(self, number, path, offset, size, _flush):
        self._punch(number, path, offset, size)

    def _scopy(self, number, path, offset, size, source, source_offset, flush):
        data = self.names[source].states[-1][1][source_offset:source_offset + size]
        self._write(number, path, offset, data, flush)

    def _srename(self, number, old, new):
        self._rename(number, old, new)

    def _sremove(self, number, path):
        self._remove(number, path)

    def _slist(self, number, path):
        pass


def server(home, volume, shim, modules):
    """An smbd with our module on the volume; its state stays in `home`."""
    return Samba(home, shares=[Share(str(volume), vfs=STACK)], module_dir=modules,
                 shim=shim, conf=CONF)


def perform(samba, op):
    with samba.client(timeout=PATIENCE) as c:
        DO[op[0]](c, *(a.decode() if isinstance(a, bytes) and i != 2 else a
                       for i, a in enumerate(op[1:])))


def _on(c, path, flush, do):
    with c.open(path, ALL) as f:
        do(f)
        if flush:
            f.flush()


def _copy(c, path, offset, size, source, source_offset, flush):
    with c.open(source, ALL) as s:
        _on(c, path, flush, lambda f: f.copy_chunks(s, [(source_offset, offset, size)]))


DO = {
    "swrite": lambda c, path, at, data, flush: _on(c, path, flush, lambda f: f.write(at, data)),
    "ssize": lambda c, path, size: _on(c, path, False, lambda f: f.truncate(size)),
    "szero": lambda c, path, at, size, flush: _on(c, path, flush,
                                                  lambda f: f.zero(at, at + size)),
    "scopy": _copy,
    "srename": lambda c, old, new: c.rename(old, new, replace=True),
    "sremove": lambda c, path: c.remove(path),
    "slist": lambda c, path: c.names(path),
}


def wants_smb(ops):
    return any(op[0] in DO for op in ops)


def is_done(op, err, tries):
    """After an error: is it done, or to be asked for again?  Statuses that tell of a
    refusal fail the run."""
    if isinstance(err, Gone):
        return False
    if isinstance(err, SmbError):
        if tries > 1 and err.status == DONE_ALREADY.get(op[0]):
            return True
        if err.status in ("OBJECT_NAME_NOT_FOUND", "OBJECT_PATH_NOT_FOUND",
                          "OBJECT_NAME_COLLISION", "LOGON_FAILURE", "INVALID_PARAMETER"):
            raise AssertionError("%r: %s" % (op[:3], err)) from None
    return False


def both(s, rng, write):
    """The case: SMB and NFS clients on the same files, something missing of each.
    write: makes ("write", path, offset, data, stable)."""
    s.dir("d"), s.dir("e"), s.dir("u")
    for name in "mno":
        s.file("d/" + name, 2 * BLOCK + 4321)
    for name in "pqr":
        s.file("d/" + name, 30000 + rng.randrange(9000))
    for name in "kl":
        s.file("e/" + name, 5000 + rng.randrange(3000))
    s.file("u/x", 6000), s.file("u/y", 7000)
    some = rng.randrange

    def swrite(path, offset, size, flush=False):
        return ("swrite", *write(path, offset, size)[1:4], flush)

    return [swrite(b"d/m", some(4000), 5000), swrite(b"d/m", BLOCK + some(999), 4096, True),
            write(b"d/m", BLOCK + 100, 3000, True), swrite(b"d/m", 2 * BLOCK, 2000),
            ("ssize", b"d/n", BLOCK + 10000), ("ssize", b"d/n", 2 * BLOCK),
            swrite(b"d/n", 2 * BLOCK - 100, 300, True),
            ("szero", b"d/o", 4096 - some(99), 9000, True),
            ("szero", b"d/o", BLOCK - some(5000), 20000, False),
            ("part", b"d/o", BLOCK + 30000, 10),
            ("scopy", b"d/p", 2000 + some(99), 8000, b"d/q", 1000, True),
            ("srename", b"e/k", b"d/r"), swrite(b"d/r", 100, 700, True),
            ("sremove", b"e/l"), ("slist", b"u"), ("srename", b"u/x", b"u/y"),
            ("read", b"d/m"), ("crawl",)]

