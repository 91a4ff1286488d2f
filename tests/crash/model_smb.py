# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB clients for the model: what their operations do, and doing them.

They name objects by path, and open what they work on, so an operation is OPEN, what
it is about, and CLOSE.  Those that are to happen together with others work on files
that are open before (`prepare`): what smbd does with a path while others rename is
not one step, on a stock server either.

Not shown over SMB: mode, owner, symlinks (which are followed, or hidden if they
lead nowhere).  What they make has the mode that smbd gives it: learned over NFS.
"""
import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Optional

from model_client import PATIENCE, Reply
from model_world import (OK, REFUSED, Inode, Token, Want, _fails, _make, _must, content, do_rename,
                         do_setattr)
import model_world
from nfsclient import errors
from nfsclient.nfstypes import DIR, LNK, REG
from smb2client import Gone, SmbError, wire

EPOCH = 116444736000000000       # 1970 in 100 ns since 1601
ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES | \
    wire.SYNCHRONIZE
LOOK = wire.READ_ATTRIBUTES | wire.SYNCHRONIZE
SLACK = model_world.SLACK
STATUS = {"OK": errors.OK, "OBJECT_NAME_NOT_FOUND": errors.NOENT, "NO_SUCH_FILE": errors.NOENT,
          "OBJECT_PATH_NOT_FOUND": errors.NOENT, "OBJECT_NAME_COLLISION": errors.EXIST,
          "ACCESS_DENIED": errors.ACCES, "FILE_IS_A_DIRECTORY": errors.ISDIR,
          "NOT_A_DIRECTORY": errors.NOTDIR, "DIRECTORY_NOT_EMPTY": errors.NOTEMPTY,
          "INVALID_PARAMETER": errors.INVAL, "OBJECT_NAME_INVALID": errors.INVAL}
LATER = ("NETWORK_BUSY", "IO_TIMEOUT")     # the module: what is needed is not here yet
MACHINES = 4                               # connections: so many operations at once


# -- what their operations do -----------------------------------------------------------

def _create(w, op):
    made = _make(w, op, Inode(REG, None, 0, 0, Token(op["id"])))
    if made:
        return made
    number = w[op["dir"]].entries[op["name"]]
    if op["how"] == "guarded":             # smbd: what is a directory, or is there at all
        return _fails(w, frozenset((errors.EXIST,) if w[number].type != DIR else
                                   (errors.EXIST, errors.ISDIR)))
    if w[number].type != REG:
        return _fails(w, REFUSED)
    if "size" not in op:
        return [(w, Want(shown=number))]
    if w[number].hidden:                   # an overwrite has to ask for the same attribute
        return _fails(w, frozenset((errors.ACCES,)))
    cut = w[number].but(data=b"")
    touched = [(w.having((number, cut.but(mtime=Token(op["id"])))), Want(shown=number))]
    return touched + ([] if w[number].data else [(w.having((number, cut)), Want(shown=number))])


def _mkdir(w, op):
    return _make(w, op, Inode(DIR, None, 0, 0, Token(op["id"]), nlink=2, entries={})) or \
        _fails(w, frozenset((errors.EXIST,)))


def _remove(w, op):
    found = model_world.do_remove(w, dict(op, c="v3"))     # two requests, as there
    number = w[op["dir"]].entries.get(op["name"]) if w[op["dir"]].entries else None
    if op["on_close"] and op["op"] == "rmdir" and number and w[number].entries:
        return _fails(w, REFUSED | OK)     # found out at the close, which nobody is told of
    return found


def _rename(w, op):
    found = do_rename(w, op)
    there = w[op["dir2"]].entries.get(op["name2"]) if w[op["dir2"]].entries else None
    if there is None or errors.OK not in found[0][1].status:
        return found
    if w[op["dir"]].entries.get(op["name"]) == there:      # which is open, for smbd
        return _fails(w, REFUSED | OK)
    if not op["replace"]:
        return _fails(w, frozenset((errors.EXIST,)))
    if w[there].type == DIR:               # smbd's to decide
        return [*found, *_fails(w, REFUSED)]
    return found


def _setattr(w, op):
    if "hidden" in op:
        done = [(w.having((op["obj"], w[op["obj"]].but(hidden=op["hidden"]))), Want())]
        return done + [(w, Want())] if "undone" in op else done
    found = do_setattr(w, op)
    if "size" in op and errors.OK in found[0][1].status and op["size"] == w[op["obj"]].size:
        found.append((w, Want(shown=op["obj"])))           # smbd may leave the time alone
    return found


def _listed(w, want, reply, windows):
    names = {name for name, number in want.entries.items() if w[number].type != LNK}
    found = {name for name in reply.entries if name not in want.entries or name in names}
    _must(found == names, "names %s, not %s", sorted(reply.entries), sorted(want.entries))
    for name in names:
        w = reply.entries[name].seen_by(w, want.entries[name], windows)
    return w


model_world.OTHERS["smb"] = {"create": _create, "mkdir": _mkdir, "remove": _remove,
                             "rmdir": _remove, "rename": _rename, "setattr": _setattr,
                             "listed": _listed}


@dataclass
class SmbAttrs:
    """What SMB tells of a file.  Times: ns since 1970, of which it has hundreds."""
    type: int
    size: int
    fileid: int
    mtime: int
    ctime: int
    hidden: bool
    links: Optional[int] = None            # a listing does not tell
    change = None

    def seen_by(self, w, number, windows):
        inode = w[number]
        _must(self.type == inode.type, "type of %s: %s, not %s", number, self.type, inode.type)
        _must(self.hidden == inode.hidden, "hidden: %s is %s, not %s", number, self.hidden,
              inode.hidden)
        if inode.type == REG:
            _must(self.size == inode.size, "size of %s: %d, not %d", number, self.size,
                  inode.size)
            _must(self.links in (None, inode.nlink), "nlink of %s: %s, not %d", number,
                  self.links, inode.nlink)
        if inode.fileid is not None:
            _must(self.fileid == inode.fileid, "fileid of %s: %d, not %d", number, self.fileid,
                  inode.fileid)
        if isinstance(inode.mtime, Token):
            low, high = windows.get(inode.mtime.op, (0, model_world.FOREVER))
            _must(low - SLACK <= self.mtime <= high + SLACK,
                  "mtime of %s: %d, but operation %s was between %d and %d", number, self.mtime,
                  inode.mtime.op, low, high)
        else:
            _must(self.mtime == inode.mtime // 100 * 100, "mtime of %s: %d, not %d", number,
                  self.mtime, inode.mtime)
        if inode.fileid is None:
            w = w.having((number, inode.but(fileid=self.fileid)))
        return w


def attrs_of(info, links=None):
    """Of an Info, or of an Entry of a listing."""
    return SmbAttrs(DIR if info.attributes & wire.ATTR_DIRECTORY else REG, info.size,
                    info.fileid, (info.written - EPOCH) * 100, (info.changed - EPOCH) * 100,
                    bool(info.attributes & wire.ATTR_HIDDEN), links)


# -- doing them -----------------------------------------------------------------------

class Machines:
    """Client machines with a connection each, made when it is used, and made anew when
    its smbd is gone."""

    def __init__(self, samba, path_of):
        """path_of(op): what leads to its object now."""
        self.samba, self.path_of = samba, path_of
        self.clients = [None] * MACHINES
        self.locks = [threading.Lock() for _ in range(MACHINES)]

    def client(self, number):
        if self.clients[number] is None:
            self.clients[number] = self.samba.client(timeout=PATIENCE)
        return self.clients[number]

    def drop(self, number):
        client, self.clients[number] = self.clients[number], None
        if client:
            with contextlib.suppress(OSError):
                client.close()

    def close(self):
        for number in range(MACHINES):
            self.drop(number)

    def revive(self):
        """Drop the connections whose process has died."""
        for number, client in enumerate(self.clients):
            if client:
                try:
                    client.echo()
                except (Gone, OSError):
                    self.drop(number)

    def prepare(self, op, machine):
        """Open the file that an operation is about; its path is not asked for again."""
        op["machine"] = machine
        access = wire.READ_DATA | LOOK if op["op"] in ("read", "getattr") else ALL
        reply = Reply()
        self._patiently(reply, lambda: op.update(
            file=self.client(machine).open(self.path_of(op), access, timeout=PATIENCE)))
        return reply

    def perform(self, op):
        machine = op.get("machine", 0)
        reply = Reply(began=time.time_ns())
        with self.locks[machine]:
            try:
                self._patiently(reply, lambda: self._do(op, machine, reply))
            except (Gone, OSError):
                reply.lost = True
                self.drop(machine)
        reply.ended = time.time_ns()
        return reply

    @staticmethod
    def _patiently(reply, do):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                do()
                reply.status = errors.OK
                return
            except SmbError as err:
                if err.status not in LATER or time.monotonic() > end:
                    reply.status = STATUS.get(err.status, err.status)
                    return

    def _do(self, op, machine, reply):
        f = op.pop("file", None)
        if f is not None:                          # once: a second try opens
            with f:
                return on_file(f, op, reply)
        return DO[op["op"]](self.client(machine), self.path_of(op), op, reply)


def on_file(f, op, reply):
    kind = op["op"]
    if kind == "read":
        reply.data = f.read(op["offset"], op["length"])
    elif kind == "write":
        reply.written = f.write(op["offset"], content(op))
        if op["stable"]:
            f.flush()
    elif kind == "commit":
        f.flush()
    elif kind == "deallocate":
        f.zero(op["offset"], op["offset"] + op["length"])
    elif kind == "getattr":
        info = f.info()
        reply.attrs = attrs_of(info, info.nlink)
    elif "size" in op:
        f.truncate(op["size"])
    elif "hidden" in op:
        f.set_basic(wire.ATTR_HIDDEN if op["hidden"] else wire.ATTR_NORMAL)
    else:
        f.set_basic(written=EPOCH + op["mtime"] // 100)


def _opened(access):
    def do(c, path, op, reply):
        with c.open(path, access) as f:
            on_file(f, op, reply)
    return do


def _do_create(c, path, op, _reply):
    how = wire.CREATE_NEW if op["how"] == "guarded" else \
        wire.OVERWRITE_IF if "size" in op else wire.OPEN_IF
    c.open(path, ALL, how, options=wire.OPT_NOT_DIRECTORY).close()


def _do_remove(c, path, op, _reply):
    kind = wire.OPT_DIRECTORY if op["op"] == "rmdir" else wire.OPT_NOT_DIRECTORY
    more = wire.OPT_DELETE_ON_CLOSE if op["on_close"] else 0
    with c.open(path, wire.DELETE | LOOK, options=kind | more) as f:
        if not op["on_close"]:
            f.remove()


def _do_rename(c, path, op, _reply):
    with c.open(path, wire.DELETE | LOOK) as f:
        try:
            f.rename(op["path2"], op["replace"])
        except SmbError as err:
            if err.status == "SHARING_VIOLATION" and op["path2"].startswith(path + "/"):
                raise SmbError(wire.NUMBER["INVALID_PARAMETER"]) from None   # smbd's word for it
            raise


def _do_link(c, path, op, _reply):
    with c.open(path, ALL) as f:
        f.link(op["path2"])


def _do_mkdir(c, path, _op, _reply):
    c.mkdir(path)


def _do_readdir(c, path, _op, reply):
    reply.entries = {e.name: attrs_of(e) for e in c.listdir(path)}


_look = _opened(LOOK)


def _do_lookup(c, path, op, reply):
    _look(c, path, dict(op, op="getattr"), reply)


DO = {"read": _opened(wire.READ_DATA | LOOK), "write": _opened(ALL), "commit": _opened(ALL),
      "deallocate": _opened(ALL), "setattr": _opened(ALL), "getattr": _look,
      "lookup": _do_lookup, "create": _do_create, "remove": _do_remove, "rmdir": _do_remove,
      "rename": _do_rename, "link": _do_link, "mkdir": _do_mkdir, "readdir": _do_readdir}
