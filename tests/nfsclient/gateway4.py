# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4 of FakeServer: a compound becomes the one NFSv3 call that it stands for.

So hooks, counters and lies are those of NFSv3, and its suites run by NFSv4 (lib/migration.py,
POSTCOPY_SOURCE_VERSION).  Only the compounds are known that a reader by handle sends:

    PUTFH GETATTR                          GETATTR     PUTFH ACCESS           ACCESS
    PUTFH GETATTR LOOKUP GETFH GETATTR     LOOKUP      PUTFH READ GETATTR     READ
    PUTFH GETATTR READLINK                 READLINK    PUTFH GETATTR READDIR  READDIRPLUS
    PUTROOTFH LOOKUP... GETFH GETATTR      MNT, GETATTR
    PUTFH GETFH GETATTR                    GETATTR, and FSINFO where limits are asked for
    PUTFH SEEK GETATTR                     none: by the ranges of node.content that have data
    LOOKUP's with LISTXATTRS behind it, PUTFH LISTXATTRS, PUTFH GETXATTR: node.xattrs

From 4.1 on behind SEQUENCE (gateway4_session.py); server.minor is the highest version.  A result
that NFSv3 could not have sent goes out as it is: it is no compound either.
"""
import struct

from . import errors, gateway4_session, nfs3
from .nfs4 import OPS
from .nfs4_attrs import (FH_EXPIRE, FILEHANDLE, FILEID, FSID, LEASE_TIME, MAXFILESIZE, MAXREAD,
                         MODE, NUMLINKS, OWNER, OWNER_GROUP, RAWDEV, RDATTR_ERROR, SIZE, SPACE_USED,
                         TIME_ACCESS, TIME_METADATA, TIME_MODIFY, TYPE, get_bitmap, put_bitmap)
from .xdr import Packer, Unpacker, XdrError

NAMES = {number: name for name, number in OPS.items()}
TIME_CREATE, XATTR_SUPPORT = 50, 82
LINK_SUPPORT, SYMLINK_SUPPORT, ACLSUPPORT, CASE_INSENSITIVE, CASE_PRESERVING = 5, 6, 13, 16, 17
SUPPORTED, ACL = 0, 12
CHOWN_RESTRICTED, MAXLINK, MAXNAME = 18, 28, 29
OF_HANDLE = (errors.STALE, errors.BADHANDLE)        # what PUTFH would say


class Failed(Exception):
    """The NFSv3 call failed: reply is what it said, status its first word."""

    def __init__(self, status, reply):
        super().__init__(status)
        self.status = errors.NOT_SAME if status == errors.NOT_SYNC else status
        self.reply = reply


# -- arguments ------------------------------------------------------------------------

def _readdir(u):
    return u.u64(), u.fixed(8), u.u32(), u.u32(), get_bitmap(u)


ARGS = {"PUTFH": lambda u: u.opaque(128), "GETATTR": get_bitmap, "LOOKUP": lambda u: u.opaque(4096),
        "ACCESS": lambda u: u.u32(), "READ": lambda u: (u.fixed(16), u.u64(), u.u32()),
        "READDIR": _readdir, "LISTXATTRS": lambda u: (u.u64(), u.u32()),
        "GETXATTR": lambda u: u.opaque(), "SEEK": lambda u: (u.fixed(16), u.u64(), u.u32()),
        **gateway4_session.ARGS}


WITHOUT = ("PUTROOTFH", "GETFH", "READLINK")


def get_compound(u, highest):
    """Minor version and [(name, arguments)]; ValueError: not one of ours."""
    u.opaque(1024)
    minor = u.u32()
    if minor > highest:
        return minor, []
    ops = []
    for _ in range(u.u32()):
        name = NAMES.get(u.u32())
        if name not in ARGS and name not in WITHOUT:
            raise ValueError(name)
        ops.append((name, ARGS[name](u) if name in ARGS else None))
    return minor, ops


def stands_for(ops):
    """The name of the NFSv3 call."""
    names = [name for name, _ in ops]
    if names[:1] == ["SEQUENCE"] and len(names) > 1:    # from 4.1 on
        del names[0]
    if names[:1] == ["PUTROOTFH"]:
        return "MNT"
    last = [n for n in names if n not in ("PUTFH", "GETATTR", "GETFH")] or ["GETATTR"]
    return "READDIRPLUS" if last[0] == "READDIR" else last[0]


# -- results --------------------------------------------------------------------------

def get_attrs(u):
    """With times as they came, also those that are none: (seconds, nanoseconds)."""
    at = u.pos + 60                     # behind all else of a fattr3
    a = nfs3.get_attrs(u)
    a.atime, a.mtime, a.ctime = (struct.unpack_from(">II", u.data, at + 8 * i) for i in range(3))
    return a


def get_post_attrs(u):
    return u.optional(get_attrs)


def a_time(when):
    seconds, nanoseconds = when if isinstance(when, tuple) else divmod(when, 1000000000)
    return Packer().i64(seconds).u32(nanoseconds)


def put_attrs(p, wanted, a, names, more=()):
    """A fattr4 of what is wanted and known; names: of owners by number, more: values beside those
    of a."""
    values = dict(more)
    if a is not None:
        values.update({
            TYPE: Packer().u32(a.type), SIZE: Packer().u64(a.size),
            FSID: Packer().u64(a.fsid[0]).u64(0), FILEID: Packer().u64(a.fileid),
            FH_EXPIRE: Packer().u32(0), MODE: Packer().u32(a.mode),
            NUMLINKS: Packer().u32(a.nlink),
            OWNER: Packer().opaque(names.get(a.uid, b"%d" % a.uid)),
            OWNER_GROUP: Packer().opaque(b"%d" % a.gid),
            RAWDEV: Packer().u32(a.rdev[0]).u32(a.rdev[1]), SPACE_USED: Packer().u64(a.used),
            TIME_ACCESS: a_time(a.atime), TIME_METADATA: a_time(a.ctime),
            TIME_MODIFY: a_time(a.mtime)})
    numbers = [n for n in sorted(values) if n in wanted]
    put_bitmap(p, numbers)
    return p.opaque(b"".join(values[n].done() for n in numbers))


def put_acl(entries):
    p = Packer().u32(len(entries))
    for kind, flags, mask, who in entries:
        p.u32(kind).u32(flags).u32(mask).opaque(who.encode())
    return p


def acl_of(server, a):
    """The ACL of the object with these attributes, as a value for put_attrs()."""
    if a is None or not server.acls4 or a.fileid not in server.acls4:
        return {}
    return {ACL: put_acl(server.acls4[a.fileid])}


class Compound:
    """One compound, and its results so far; head: those before, of SEQUENCE."""

    def __init__(self, server, ops, cred, head=()):
        self.server, self.cred, self.results = server, cred, list(head)
        self.ops = ops
        self.fh, self.reply = ops[0][1], b""

    def call(self, proc, args):
        """The NFSv3 call: what follows its status."""
        self.reply = self.server.answer3(proc, Unpacker(args), self.cred)
        u = Unpacker(self.reply)
        status = u.u32()
        if status:
            raise Failed(status, u)
        return u

    def ok(self, op, body=b""):
        self.results.append(Packer().u32(OPS[op]).u32(0).raw(body).done())

    def attrs(self, a, wanted, more=()):
        more = {**acl_of(self.server, a), **dict(more)}
        self.ok("GETATTR",
                put_attrs(Packer(), wanted, a, self.server.owner_names, more).done())

    def done(self, status=0, op=None):
        if status:
            self.results.append(Packer().u32(OPS[op]).u32(status).done())
        return reply(status, self.results)

    def of_tree(self):
        """Attributes of the handle that no answer brought."""
        node = self.server.tree.by_fh.get(self.fh)
        return node.attrs() if node else None

    def run(self):
        names = [name for name, _ in self.ops]
        if names.count("PUTFH") > 1:
            return self.run_each([i for i, name in enumerate(names) if name == "PUTFH"])
        if names[0] == "PUTROOTFH" or "GETFH" in names[:2]:
            return self.walk()
        last = names[2] if names[1] == "GETATTR" and len(names) > 2 else names[1]
        try:
            return getattr(self, last.lower())()
        except Failed as err:
            if err.status in OF_HANDLE:
                return self.done(err.status, "PUTFH")
            self.ok("PUTFH")
            if names[1] == "GETATTR" and last != "GETATTR":
                a = get_post_attrs(err.reply) if last == "LOOKUP" else None
                self.attrs(a or self.of_tree(), self.ops[1][1])
            return self.done(err.status, last)

    def run_each(self, begins):
        """Several calls: up to the first one that fails."""
        for begin, end in zip(begins, begins[1:] + [None]):
            one = Compound(self.server, self.ops[begin:end], self.cred, self.results)
            try:
                said = one.run()
            finally:
                self.reply, self.results = one.reply, one.results
            if Unpacker(said).u32():
                break
        return said

    # -- the way to the root, and what is asked of it ------------------------------------

    def walk(self):
        wanted = self.ops[-1][1]
        path = b"".join(b"/" + name for op, name in self.ops if op == "LOOKUP")
        if self.ops[0][0] == "PUTROOTFH":
            try:
                self.fh = self.call("MNT", Packer().opaque(path or b"/").done()).opaque(64)
            except Failed as err:
                self.ok("PUTROOTFH")
                return self.done(err.status, "LOOKUP" if path else "GETFH")
        try:
            a = get_attrs(self.call("GETATTR", Packer().opaque(self.fh).done()))
            more = self.limits() if MAXREAD in wanted else {}
        except Failed as err:
            return self.done(err.status, self.ops[0][0])
        more.update(self.more(self.fh))
        acls = self.server.acls4 is not None
        if acls:
            more[SUPPORTED] = put_bitmap(Packer(), [SUPPORTED, TYPE, ACL])
        more.update({LINK_SUPPORT: Packer().u32(1), SYMLINK_SUPPORT: Packer().u32(1),
                     ACLSUPPORT: Packer().u32(3 if acls else 0), CASE_INSENSITIVE: Packer().u32(0),
                     CASE_PRESERVING: Packer().u32(1), CHOWN_RESTRICTED: Packer().u32(1),
                     MAXLINK: Packer().u32(32000), MAXNAME: Packer().u32(255)})
        for op, _ in self.ops[:-2]:
            self.ok(op)
        self.ok("GETFH", Packer().opaque(self.fh).done())
        self.attrs(a, wanted, more)
        return self.done()

    def limits(self):
        u = self.call("FSINFO", Packer().opaque(self.fh).done())
        get_post_attrs(u)
        rtmax = u.u32()
        for _ in range(6):
            u.u32()
        return {MAXREAD: Packer().u64(rtmax), MAXFILESIZE: Packer().u64(u.u64())}

    # -- calls by handle -----------------------------------------------------------------

    def getattr(self):
        a = get_attrs(self.call("GETATTR", Packer().opaque(self.fh).done()))
        self.ok("PUTFH")
        self.attrs(a, self.ops[1][1], self.more(self.fh))
        return self.done()

    def more(self, fh):
        """Attributes that NFSv3 does not have."""
        node = self.server.tree.by_fh.get(fh)
        values = {XATTR_SUPPORT: Packer().u32(node is not None and node.xattrs is not None)}
        if node is not None and node.born:
            values[TIME_CREATE] = a_time(node.born)
        return values

    # -- extended attributes ---------------------------------------------------------------

    def list_names(self, fh, args):
        node = self.server.tree.by_fh.get(fh)
        if node is None or node.xattrs is None:
            return self.done(errors.NOTSUPP, "LISTXATTRS")
        first, count = args
        names, room = [], count - 16
        for name in sorted(node.xattrs)[first:]:
            room -= 8 + len(name)
            if room < 0:
                break
            names.append(name)
        left = len(node.xattrs) - first - len(names)
        if left and not names:
            return self.done(errors.TOOSMALL, "LISTXATTRS")
        p = Packer().u64(first + len(names)).array(names, Packer.opaque).boolean(not left)
        self.ok("LISTXATTRS", p.done())
        return self.done()

    def listxattrs(self):
        self.server.counts["LISTXATTRS"] += 1
        self.ok("PUTFH")
        return self.list_names(self.fh, self.ops[1][1])

    def getxattr(self):
        self.server.counts["GETXATTR"] += 1
        node = self.server.tree.by_fh.get(self.fh)
        value = (node.xattrs or {}).get(self.ops[1][1]) if node else None
        self.ok("PUTFH")
        if value is None:
            return self.done(errors.NOXATTR, "GETXATTR")
        self.ok("GETXATTR", Packer().opaque(value).done())
        return self.done()

    def lookup(self):
        u = self.call("LOOKUP", Packer().opaque(self.fh).opaque(self.ops[2][1]).done())
        fh, a, of = u.opaque(64), get_post_attrs(u), get_post_attrs(u)
        if a is None:
            node = self.server.tree.by_fh.get(fh)
            a = node.attrs() if node else None
        self.ok("PUTFH")
        self.attrs(of or self.of_tree(), self.ops[1][1])
        self.ok("LOOKUP")
        self.ok("GETFH", Packer().opaque(fh).done())
        self.attrs(a, self.ops[4][1], self.more(fh))
        return self.list_names(fh, self.ops[5][1]) if len(self.ops) > 5 else self.done()

    def readlink(self):
        u = self.call("READLINK", Packer().opaque(self.fh).done())
        a, target = get_post_attrs(u), u.opaque()
        self.ok("PUTFH")
        self.attrs(a or self.of_tree(), self.ops[1][1])
        self.ok("READLINK", Packer().opaque(target).done())
        return self.done()

    def access(self):
        mask = self.ops[1][1]
        u = self.call("ACCESS", Packer().opaque(self.fh).u32(mask).done())
        get_post_attrs(u)
        self.ok("PUTFH")
        self.ok("ACCESS", Packer().u32(mask).u32(u.u32()).done())
        return self.done()

    def read(self):
        _stateid, offset, count = self.ops[1][1]
        u = self.call("READ", Packer().opaque(self.fh).u64(offset).u32(count).done())
        a = get_post_attrs(u)
        u.u32()
        eof, data = u.boolean(), u.opaque()
        self.ok("PUTFH")
        self.ok("READ", Packer().boolean(eof).opaque(data).done())
        self.attrs(a or self.of_tree(), self.ops[2][1])
        return self.done()

    def seek(self):
        """Contents that know where they have data (Sparse) tell; of others all is data."""
        _stateid, offset, what = self.ops[1][1]
        self.server.counts["SEEK"] += 1
        node = self.server.tree.by_fh.get(self.fh)
        if node is None or self.server.seek_status:
            self.ok("PUTFH")
            return self.done(self.server.seek_status or errors.STALE, "SEEK")
        size = node.attrs().size
        at = node.content.seek(offset, what) if hasattr(node.content, "seek") else (
            offset if what == 0 else size)
        self.ok("PUTFH")
        if offset >= size or at is None:
            return self.done(errors.NXIO, "SEEK")
        self.ok("SEEK", Packer().boolean(at >= size).u64(at).done())
        self.attrs(node.attrs(), self.ops[2][1])
        return self.done()

    def readdir(self):
        cookie, verifier, dircount, maxcount, wanted = self.ops[2][1]
        while True:
            u = self.call("READDIRPLUS", Packer().opaque(self.fh).u64(cookie).fixed(verifier)
                          .u32(dircount).u32(maxcount).done())
            of, verifier = get_post_attrs(u), u.fixed(8)
            entries, dots = Packer(), None
            while u.boolean():
                dots = self.entry(u, wanted, entries) or dots
            eof = u.boolean()
            if len(entries) or eof or not dots:
                break
            cookie = dots               # nothing but "." and "..", which NFSv4 does not tell
        self.ok("PUTFH")
        self.attrs(of or self.of_tree(), self.ops[1][1])
        self.ok("READDIR", Packer().fixed(verifier).raw(entries.done()).boolean(False)
                .boolean(eof).done())
        return self.done()

    def entry(self, u, wanted, out):
        """Returns the cookie of "." and "..", the first two; of others so called it tells."""
        _fileid, name, cookie = u.u64(), u.opaque(), u.u64()
        a, fh = get_post_attrs(u), u.optional(lambda v: v.opaque())
        if (name, cookie) in ((b".", 1), (b"..", 2)):
            return cookie
        out.boolean(True).u64(cookie).opaque(name)
        more = {RDATTR_ERROR: Packer().u32(0)}
        if a is None or fh is None:     # it is to be looked up
            a, more = None, {RDATTR_ERROR: Packer().u32(errors.DELAY)}
        else:
            more[FILEHANDLE] = Packer().opaque(fh)
            more.update(self.more(fh))
            more.update(acl_of(self.server, a))
        put_attrs(out, wanted, a, self.server.owner_names, more)
        return None


def reply(status, results):
    return Packer().u32(status).opaque(b"").u32(len(results)).raw(b"".join(results)).done()


def result(name, status, body=b""):
    return Packer().u32(OPS[name]).u32(status).raw(body).done()


def first_call(server, ops, head):
    """RECLAIM_COMPLETE PUTROOTFH GETATTR, which a new session begins with."""
    lease = Packer()
    put_bitmap(lease, [LEASE_TIME])
    lease.opaque(Packer().u32(server.sessions.lease).done())
    bodies = [b"", b"", lease.done()]
    names = ["RECLAIM_COMPLETE", "PUTROOTFH", "GETATTR"]
    if [name for name, _ in ops] != names or ops[2][1] != [LEASE_TIME]:
        raise ValueError(ops)
    return reply(0, head + [result(n, 0, body) for n, body in zip(names, bodies)])


def compound(server, u, cred):
    """The reply to one; u is behind the header of its call."""
    minor, ops = get_compound(u, server.minor)
    head = []
    if minor > server.minor:
        return reply(errors.MINOR_VERS_MISMATCH, [])
    if minor:
        (name, args), ops = ops[0], ops[1:]
        if name != "SEQUENCE" and (name not in gateway4_session.NOT_IN_SESSIONS or ops):
            return reply(errors.OP_NOT_IN_SESSION, [result(name, errors.OP_NOT_IN_SESSION)])
        status, body = getattr(server.sessions, name.lower())(args)
        head = [result(name, status, body if not status else b"")]
        if status or not ops:
            server.sessions.alone += name == "SEQUENCE" and not status
            return reply(status, head)
        if ops[0][0] == "RECLAIM_COMPLETE":
            return first_call(server, ops, head)
    running = Compound(server, ops, cred, head)
    try:
        return running.run()
    except XdrError:
        if not head:
            return running.reply
        return Packer().u32(0).opaque(b"").u32(3).raw(b"".join(head)).raw(running.reply).done()
