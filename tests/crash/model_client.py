# SPDX-License-Identifier: GPL-3.0-or-later
"""Doing the model's operations through real NFS clients.

One operation is one call (NFSv4.1: one COMPOUND; creating a file is OPEN and
CLOSE), by handles that were learned before.  "Try again later" is retried, as
clients do; any other status is the reply.
"""
import time
from dataclasses import dataclass
from typing import Optional

from model_world import content
from nfsclient import NfsError, RpcBroken, RpcTimeout, errors
from nfsclient.nfstypes import FILE_SYNC, NOW, UNSTABLE, Attrs

PATIENCE = 60                 # seconds of "try again later" before that is the reply
# Doing these twice is doing them once: a client repeats them when the server died.
REPEATABLE = frozenset(("lookup", "getattr", "read", "readlink", "readdir", "write", "setattr",
                        "commit", "deallocate", "allocate", "seek"))
LOOKS = frozenset(("lookup", "getattr", "read", "readlink", "readdir", "seek"))


@dataclass
class Reply:
    status: int = errors.OK
    attrs: Optional[Attrs] = None
    handle: Optional[bytes] = None
    data: Optional[bytes] = None
    eof: Optional[bool] = None
    entries: Optional[dict] = None
    written: Optional[int] = None
    verifier: Optional[bytes] = None
    found: Optional[int] = None          # SEEK
    lost: bool = False                   # no reply came: the server died
    delays: int = 0                      # times it was told to try again before
    began: int = 0                       # ns, wall clock
    ended: int = 0

    @property
    def status_name(self):
        return "lost" if self.lost else errors.NAMES.get(self.status, str(self.status))


class Handles:
    """An op's file handles: those of its ids, for its client's protocol."""

    def __init__(self, world, op):
        at = 0 if op["c"] == "v3" else 1
        for key in ("obj", "dir", "dir2"):
            if key in op:
                setattr(self, key, world[op[key]].handles[at])


def _lookup(c, op, h):
    handle, attrs = c.lookup((h.dir, op["name"]))
    return Reply(handle=handle, attrs=attrs)


def _getattr(c, op, h):
    return Reply(attrs=c.getattr(h.obj))


def _readlink(c, op, h):
    return Reply(data=bytes(c.readlink(h.obj)))


def _read(c, op, h):
    data, eof = c.read(h.obj, op["offset"], op["length"])
    return Reply(data=bytes(data), eof=bool(eof))


def _write(c, op, h):
    done = c.write(h.obj, op["offset"], content(op), FILE_SYNC if op["stable"] else UNSTABLE)
    return Reply(written=done.count, verifier=done.verifier,
                 attrs=done.wcc.after if done.wcc else None)


def _commit(c, op, h):
    return Reply(verifier=c.commit(h.obj))


def _deallocate(c, op, h):
    with c.opened(h.obj, write=True) as f:
        c.deallocate(f, op["offset"], op["length"])
    return Reply()


def _allocate(c, op, h):
    with c.opened(h.obj, write=True) as f:
        c.allocate(f, op["offset"], op["length"])
    return Reply()


def _seek(c, op, h):
    with c.opened(h.obj) as f:
        eof, found = c.seek(f, op["offset"], op["hole"])
    return Reply(eof=eof, found=found)


def _setattr(c, op, h):
    what = {k: op[k] for k in ("mode", "uid", "gid", "size", "mtime") if k in op}
    if what.get("mtime") == "now":
        what["mtime"] = NOW
    return Reply(attrs=c.setattr(h.obj, **what))


def _create(c, op, h):
    what = {"size": op["size"]} if "size" in op else {}
    handle, attrs = c.create((h.dir, op["name"]), op["mode"], op["how"], **what)
    return Reply(handle=handle, attrs=attrs)


def _mkdir(c, op, h):
    return Reply(handle=c.mkdir((h.dir, op["name"]), op["mode"]))


def _symlink(c, op, h):
    return Reply(handle=c.symlink((h.dir, op["name"]), op["target"]))


def _link(c, op, h):
    c.link(h.obj, (h.dir, op["name"]))
    return Reply()


def _remove(c, op, h):
    c.remove((h.dir, op["name"]))
    return Reply()


def _rmdir(c, op, h):
    c.rmdir((h.dir, op["name"]))
    return Reply()


def _rename(c, op, h):
    c.rename((h.dir, op["name"]), (h.dir2, op["name2"]))
    return Reply()


def _readdir(c, op, h):
    # what comes without attributes stays so: looking it up would be another operation
    return Reply(entries={e.name.decode(): e
                          for e in c.listdir(h.obj, attrs=op["attrs"], whole=False)})


CALLS = {name[1:]: function for name, function in list(globals().items())
         if name.startswith("_") and callable(function) and not isinstance(function, type)}


def perform(client, op, handles):
    """Do it; a Reply whatever happens, but for a client that does not understand."""
    if hasattr(client, "perform"):               # no NFS client: it knows how
        return client.perform(op)
    client, began = client.counting(), time.time_ns()
    try:
        reply = CALLS[op["op"]](client, op, handles)
    except NfsError as err:
        reply = Reply(status=err.status)
    except (RpcBroken, RpcTimeout, OSError):
        reply = Reply(lost=True)
    reply.began, reply.ended, reply.delays = began, time.time_ns(), client.delays
    return reply
