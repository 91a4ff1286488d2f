# SPDX-License-Identifier: GPL-3.0-or-later
"""A programmable NFSv3 and MOUNT3 server: an old server as bad as you like.  It speaks
NFSv4.0 to 4.2, too, as far as a reader needs it (gateway4.py).

    tree = Tree(); tree.file(tree.root, "f", b"hello")
    with FakeServer(tree) as server:
        server.hook("READ", jukebox(3))                  # see hooks.py
        use(server.url())
        assert server.counts["READ"] == 4

One port serves both programs.  Honest by default; hooks make it hostile, and
so does a tree that lies (faketree.py).  It only reads: procedures that would
change something answer ROFS and are counted in `writes`.
"""
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Optional

from . import errors, gateway4
from .faketree import Node, Tree
from .gateway4_session import Sessions
from .nfs3 import (MOUNT_PROCS, MOUNT_PROGRAM, MOUNT_V3, NFS_PROGRAM, NFS_V3,
                   PROCS, put_time)
from .nfstypes import (ACCESS_DELETE, ACCESS_EXECUTE, ACCESS_EXTEND,
                       ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ, DIR, LNK, REG)
from .rpcserver import (PROC_UNAVAIL, PROG_MISMATCH, PROG_UNAVAIL, Cred, Reject,
                        RpcServer)
from .xdr import Packer

ANONYMOUS = 65534
ACL_PROGRAM = 100227
ACL_PROCS = ("ACL_NULL", "GETACL")
# entries of an ACL
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 0x10, 0x20
OF_DEFAULT = 0x1000                             # in those of a default ACL
WRITING = frozenset(("SETATTR", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
                     "REMOVE", "RMDIR", "RENAME", "LINK"))
U64 = (1 << 64) - 1
U32 = (1 << 32) - 1


@dataclass
class Call:
    """One call as hooks see it."""
    proc: str
    index: int                      # 1 for the first call of this procedure
    cred: Cred
    node: Optional[Node] = None     # the object, or the directory
    name: Optional[bytes] = None    # LOOKUP
    offset: int = 0                 # READ
    count: int = 0
    cookie: int = 0                 # READDIR, READDIRPLUS
    verifier: bytes = bytes(8)
    mask: int = 0                   # ACCESS
    when: float = 0.0


class Refuse(Exception):
    """Answer this NFS status (with empty failure data)."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


def put_attrs(p, a):
    p.u32(a.type).u32(a.mode).u32(a.nlink & U32).u32(a.uid & U32).u32(a.gid & U32)
    p.u64(a.size & U64).u64(a.used & U64).u32(a.rdev[0]).u32(a.rdev[1])
    p.u64(a.fsid[0]).u64(a.fileid & U64)
    for when in (a.atime, a.mtime, a.ctime):
        put_time(p, when)
    return p


def put_post(p, node):
    """post_op_attr of a node, or none."""
    p.boolean(node is not None)
    return put_attrs(p, node.attrs()) if node is not None else p


class FakeServer:
    def __init__(self, tree=None, export="/export", host="127.0.0.1", port=0, version=3):
        """version: of the URL, if that does not name another."""
        self.tree = tree or Tree()
        self.version = version
        self.export = export
        self.exports = [export]        # what the mount service lists
        self.rpc = RpcServer(self._handle, host, port)
        self.counts = Counter()
        self.bytes_read = 0
        self.calls = deque(maxlen=200000)
        self.in_flight = self.max_in_flight = 0
        self._hooks = []               # (procedures or None, function)
        self._lock = threading.Lock()
        # Behaviour that is not hostile, only different.
        self.root_squash = False
        self.check_permissions = True
        self.read_limit = None         # bytes per READ: short reads
        self.rtmax = 1 << 20
        self.entry_attrs = True        # READDIRPLUS gives attributes
        self.entry_handles = True      # ... and handles
        self.page_limit = None         # entries per READDIR(PLUS) reply
        self.acls = False              # the ACL protocol beside NFS, as Linux and Solaris
        self.v4 = True                 # NFSv4 on the same port,
        self.minor = 2                 # up to this minor version
        self.sessions = Sessions()
        self.seek_status = 0           # what SEEK says, if it is not what it should
        self.owner_names = {}          # uid -> name that NFSv4 tells for the number
        # None: no ACLs over NFSv4; else fileid -> list of (type, flags, mask, who)
        self.acls4 = None

    # -- life ---------------------------------------------------------------

    def start(self):
        self.rpc.start()
        return self

    def stop(self):
        self.rpc.stop()

    def restart(self):
        """Gone and back on the same port."""
        self.rpc.stop()
        self.rpc.start()

    def pause(self):
        self.rpc.pause()

    def resume(self):
        self.rpc.resume()

    def cut(self):
        self.rpc.cut()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()

    @property
    def port(self):
        return self.rpc.port

    mount_port = port

    def url(self, host=None, version=None):
        """host: a name of its address."""
        host = host or ("[%s]" if ":" in self.rpc.host else "%s") % self.rpc.host
        version = version or self.version
        if str(version) != "3":
            return "nfs://%s%s?nfsport=%d&version=%s" % (host, self.export, self.port, version)
        return "nfs://%s%s?nfsport=%d&mountport=%d&version=3" % (
            host, self.export, self.port, self.port)

    def client(self, **options):
        from .client3 import Client3
        return Client3(self.rpc.host, self.port, self.port, self.export, **options)

    # -- hooks and counters ---------------------------------------------------

    def hook(self, procs, function):
        """Call function(server, call, answer) for these procedures.

        procs: "READ", "READ LOOKUP", or None for all.  answer() gives the
        results the server (or the next hook) would send.  The hook returns
        what to send.  The hook added last is asked first.  Returns a function
        that takes the hook away.
        """
        item = (frozenset(procs.split()) if procs else None, function)
        self._hooks.insert(0, item)
        return lambda: self._hooks.remove(item)

    def clear_hooks(self):
        self._hooks = []

    def reset_counts(self):
        with self._lock:
            self.counts.clear()
            self.calls.clear()
            self.bytes_read = self.max_in_flight = 0

    @property
    def writes(self):
        return sum(self.counts[proc] for proc in WRITING)

    @property
    def misused(self):
        """What no client that reads, and keeps to the protocol, does."""
        return ["%d calls that write" % self.writes] * bool(self.writes) + [
            "%s %r" % call for call in self.sessions.broken]

    # -- dispatch -------------------------------------------------------------

    def _handle(self, prog, vers, proc, u, cred):
        if prog == MOUNT_PROGRAM and vers == MOUNT_V3 and proc < len(MOUNT_PROCS):
            name = MOUNT_PROCS[proc] if proc else "MOUNT_NULL"
        elif prog == NFS_PROGRAM and vers == 4 and self.v4:
            if proc > 1:
                raise Reject(PROC_UNAVAIL)
            return gateway4.compound(self, u, cred) if proc else b""
        elif prog == NFS_PROGRAM and vers == NFS_V3:
            if proc >= len(PROCS):
                raise Reject(PROC_UNAVAIL)
            name = PROCS[proc]
        elif prog == ACL_PROGRAM and self.acls and vers == 3:
            if proc >= len(ACL_PROCS):
                raise Reject(PROC_UNAVAIL)
            name = ACL_PROCS[proc]
        else:
            known = prog in (MOUNT_PROGRAM, NFS_PROGRAM)
            raise Reject(PROG_MISMATCH if known else PROG_UNAVAIL)
        return self.answer3(name, u, cred)

    def answer3(self, name, u, cred):
        """The results of the procedure of that name, with the arguments u."""
        with self._lock:
            self.counts[name] += 1
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
            call = Call(name, self.counts[name], cred, when=time.monotonic())
            self.calls.append(call)
        try:
            return self._answer(call, u)
        finally:
            with self._lock:
                self.in_flight -= 1

    def _answer(self, call, u):
        handler = getattr(self, "_" + call.proc.lower(), None)
        failure = b""
        try:
            if call.proc in WRITING:
                raise Refuse(errors.ROFS)
            answer = handler(call, u)        # decodes now, answers later
        except Refuse as err:
            failure = self._refusal(call, err.status)
            answer = None
        hooks = [f for procs, f in self._hooks if procs is None or call.proc in procs]

        def ask(position):
            if position < len(hooks):
                return hooks[position](self, call, lambda: ask(position + 1))
            if answer is None:
                return failure
            try:
                return answer()
            except Refuse as err:
                return self._refusal(call, err.status)

        try:
            return ask(0)
        except Refuse as err:
            return self._refusal(call, err.status)

    @staticmethod
    def _refusal(call, status):
        p = Packer().u32(status)
        if call.proc in ("GETATTR", "MNT"):
            return p.done()
        if call.proc == "LOOKUP" and status == errors.NOENT:
            return put_post(p, call.node).done()     # as all servers do: whose name it is not
        p.boolean(False)
        if call.proc in WRITING:
            p.boolean(False)                 # wcc: neither before nor after
        if call.proc == "RENAME":
            p.boolean(False).boolean(False)
        if call.proc == "LINK":
            p.boolean(False)
        return p.done()

    def _node(self, call, u):
        node = self.tree.by_fh.get(u.opaque(64))
        if node is None:
            raise Refuse(errors.BADHANDLE)
        call.node = node
        if node.gone:
            raise Refuse(errors.STALE)
        return node

    # -- permissions ------------------------------------------------------------

    def granted(self, node, cred):
        """The ACCESS bits a caller has."""
        uid = cred.uid
        if uid == 0 and self.root_squash:
            uid = ANONYMOUS
        if uid == 0 or not self.check_permissions:
            bits = 7
        elif uid == node.uid:
            bits = node.mode >> 6 & 7
        elif cred.gid == node.gid or node.gid in cred.gids:
            bits = node.mode >> 3 & 7
        else:
            bits = node.mode & 7
        access = ACCESS_READ if bits & 4 else 0
        if bits & 2:
            access |= ACCESS_MODIFY | ACCESS_EXTEND
            access |= ACCESS_DELETE if node.type == DIR else 0
        if bits & 1:
            access |= ACCESS_LOOKUP if node.type == DIR else ACCESS_EXECUTE
        return access

    def _require(self, node, cred, mask):
        if not self.granted(node, cred) & mask:
            raise Refuse(errors.ACCES)

    # -- MOUNT ------------------------------------------------------------------

    def _mount_null(self, _call, _u):
        return lambda: b""

    _null = _umnt = _umntall = _acl_null = _mount_null

    def _dump(self, _call, _u):
        return lambda: Packer().boolean(False).done()

    def _mnt(self, call, u):
        path = u.opaque(1024).decode("utf-8", "replace")
        call.node = self.tree.root

        def answer():
            if path.rstrip("/") != self.export.rstrip("/"):
                raise Refuse(errors.NOENT)
            return (Packer().u32(0).opaque(self.tree.root.fh)
                    .array([1], Packer.u32).done())
        return answer

    def _export(self, _call, _u):
        def answer():
            p = Packer()
            for path in self.exports:
                p.boolean(True).opaque(path.encode()).boolean(False)
            return p.boolean(False).done()
        return answer

    # -- NFS ----------------------------------------------------------------------

    def _getattr(self, call, u):
        node = self._node(call, u)
        return lambda: put_attrs(Packer().u32(0), node.attrs()).done()

    def _lookup(self, call, u):
        directory = self._node(call, u)
        call.name = u.opaque(4096)

        def answer():
            if directory.type != DIR:
                raise Refuse(errors.NOTDIR)
            self._require(directory, call.cred, ACCESS_LOOKUP)
            if call.name in (b".", b".."):
                found = directory if call.name == b"." else directory.parent
            else:
                found = directory.child(call.name)
            if found is None:
                raise Refuse(errors.NOENT)
            p = put_post(Packer().u32(0).opaque(self.tree.handle(found, directory)), found)
            return put_post(p, directory).done()
        return answer

    def _getacl(self, call, u):
        node = self._node(call, u)
        call.mask = u.u32()

        def answer():
            bits = node.attrs().mode
            group = bits >> 3 & 7            # Linux makes up the mask of who has no ACL
            acl = node.acl or [(USER_OBJ, 0, bits >> 6 & 7), (GROUP_OBJ, 0, group),
                               (MASK, 0, group), (OTHER, 0, bits & 7)]
            p = put_post(Packer().u32(0), node).u32(call.mask)
            for entries, of in ((acl if call.mask & 1 else [], 0),
                                (node.default_acl if call.mask & 4 else [], OF_DEFAULT)):
                p.u32(len(entries)).u32(len(entries))
                for kind, who, rights in entries:
                    p.u32(kind | of).u32(who).u32(rights)
            return p.done()
        return answer

    def _access(self, call, u):
        node = self._node(call, u)
        call.mask = u.u32()
        return lambda: (put_post(Packer().u32(0), node)
                        .u32(self.granted(node, call.cred) & call.mask).done())

    def _readlink(self, call, u):
        node = self._node(call, u)

        def answer():
            if node.type != LNK:
                raise Refuse(errors.INVAL)
            return put_post(Packer().u32(0), node).opaque(node.target).done()
        return answer

    def _read(self, call, u):
        node = self._node(call, u)
        call.offset, call.count = u.u64(), u.u32()

        def answer():
            if node.type != REG:
                raise Refuse(errors.ISDIR if node.type == DIR else errors.INVAL)
            self._require(node, call.cred, ACCESS_READ)
            limit = min(x for x in (call.count, self.rtmax, self.read_limit)
                        if x is not None)
            data = node.content.read(call.offset, limit)
            with self._lock:
                self.bytes_read += len(data)
            eof = call.offset + len(data) >= node.content.size
            return (put_post(Packer().u32(0), node).u32(len(data)).boolean(eof)
                    .opaque(data).done())
        return answer

    def _entries(self, directory):
        return ([(b".", directory), (b"..", directory.parent or directory)]
                + list(directory.entries))

    def _list(self, call, u, plus):
        directory = self._node(call, u)
        call.cookie, call.verifier = u.u64(), u.fixed(8)
        if plus:
            u.u32()
        call.count = u.u32()
        return lambda: self._page(call, directory, plus)

    def _page(self, call, directory, plus):
        if directory.type != DIR:
            raise Refuse(errors.NOTDIR)
        self._require(directory, call.cred, ACCESS_READ)
        entries, cookie = self._entries(directory), call.cookie
        p = put_post(Packer().u32(0), directory).fixed(bytes(8))
        used, taken = len(p) + 16, 0
        for name, node in entries[cookie:]:
            item = self.entry(name, node, cookie + 1, plus, directory)
            if used + len(item) > call.count or taken == self.page_limit:
                break
            p.raw(item)
            used, taken, cookie = used + len(item), taken + 1, cookie + 1
        if taken == 0 and cookie < len(entries):
            raise Refuse(errors.TOOSMALL)
        return p.boolean(False).boolean(cookie >= len(entries)).done()

    def entry(self, name, node, cookie, plus=True, directory=None):
        """One encoded directory entry; for hooks that build listings."""
        p = Packer().boolean(True).u64(node.attrs().fileid).opaque(name).u64(cookie)
        if plus:
            put_post(p, node if self.entry_attrs else None)
            p.optional(self.tree.handle(node, directory) if self.entry_handles else None,
                       Packer.opaque)
        return p.done()

    def _readdir(self, call, u):
        return self._list(call, u, False)

    def _readdirplus(self, call, u):
        return self._list(call, u, True)

    def _fsstat(self, call, u):
        node = self._node(call, u)
        return lambda: (put_post(Packer().u32(0), node).u64(1 << 40).u64(1 << 39)
                        .u64(1 << 39).u64(1 << 30).u64(1 << 29).u64(1 << 29)
                        .u32(0).done())

    def _fsinfo(self, call, u):
        node = self._node(call, u)

        def answer():
            p = put_post(Packer().u32(0), node)
            for value in (self.rtmax, self.rtmax, 4096, 1 << 20, 1 << 20, 4096, 65536):
                p.u32(value)
            return p.u64((1 << 63) - 1).u32(0).u32(1).u32(0x1b).done()
        return answer

    def _pathconf(self, call, u):
        node = self._node(call, u)
        return lambda: (put_post(Packer().u32(0), node).u32(32000).u32(255)
                        .boolean(True).boolean(True).boolean(False).boolean(True)
                        .done())

    def _commit(self, call, u):
        self._node(call, u)
        return lambda: Packer().u32(0).boolean(False).boolean(False).fixed(bytes(8)).done()
