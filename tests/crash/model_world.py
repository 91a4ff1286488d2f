# SPDX-License-Identifier: GPL-3.0-or-later
"""The model: a plain file system in memory, and what each operation does to it.

It starts as the source's tree and knows nothing of stubs.  A PossibleWorld is one state
that the volume may be in; worlds are never changed, only replaced.

    outcomes(world, op)       all (world after it, what the reply must say)
    agrees(world, want, ...)  the world, with what the reply has taught; or None

Where more than one thing may happen, outcomes() gives each of them; the replies
of this and of later operations tell which it was.  Times that the server chose
are learned: a new mtime is a Token, a number once it was seen, and must have
come from the time of the operation that moved it.
"""
from dataclasses import dataclass, replace
from typing import Optional

from nfsclient import errors
from nfsclient.nfstypes import DIR, LNK, REG

ROOT = "root"
SLACK = 20 * 10 ** 6           # ns: file systems use a clock that moves every few ms
FOREVER = 1 << 63
PIECE = 256
GONE = frozenset((errors.STALE,))
GONE_NAME = frozenset((errors.STALE, errors.NOENT))
# "No", for whatever reason; but not because something broke.
REFUSED = frozenset((errors.PERM, errors.ACCES, errors.EXIST, errors.NOTDIR, errors.ISDIR,
                     errors.INVAL, errors.NOTEMPTY, errors.SYMLINK, errors.WRONG_TYPE,
                     errors.BADTYPE))
OK = frozenset((errors.OK,))
ANY = OK | REFUSED | {errors.SERVERFAULT}      # stock Ganesha's to decide


@dataclass(frozen=True)
class Token:
    """An mtime nobody has seen yet, set by the operation with this number."""
    op: object


@dataclass(frozen=True)
class Inode:
    type: int
    mode: Optional[int]                  # None: made over SMB, the server's to decide
    uid: int
    gid: int
    mtime: object                        # ns, or Token
    nlink: int = 1
    data: bytes = b""
    target: bytes = b""
    entries: Optional[dict] = None       # of a directory: name -> id; never changed in place
    fileid: Optional[int] = None         # learned, as are the handles
    handles: tuple = (None, None)        # for v3, for v4.1
    hidden: bool = False                 # as SMB clients see it

    def but(self, **what):
        return replace(self, **what)

    @property
    def size(self):
        return len(self.target) if self.type == LNK else len(self.data)


class PossibleWorld:
    __slots__ = ("inodes",)

    def __init__(self, inodes):
        self.inodes = inodes

    def __getitem__(self, number):
        return self.inodes[number]

    def having(self, *pairs):
        """The same world, with these (id, Inode) instead."""
        inodes = dict(self.inodes)
        for number, inode in pairs:
            inodes[number] = inode
        return PossibleWorld(inodes)

    def key(self, base):
        """The same for equal worlds: what is different from a world they come from."""
        return frozenset(
            (k, i.nlink and (i.type, i.mode, i.uid, i.gid, i.mtime, i.nlink, hash(i.data),
                             i.target, frozenset((i.entries or {}).items()), i.fileid,
                             i.handles, i.hidden))
            for k, i in self.inodes.items() if base.inodes.get(k) is not i)

    def find(self, path):
        """The id at a path, None if there is none."""
        number = ROOT
        for name in filter(None, path.split("/")):
            entries = self.inodes[number].entries
            number = entries.get(name) if entries is not None else None
            if number is None:
                return None
        return number

    def below(self, top, number):
        """Is directory `number` top itself, or somewhere below it?"""
        if number == top:
            return True
        return any(self.inodes[n].type == DIR and self.below(n, number)
                   for n in self.inodes[top].entries.values())

    def paths(self, number=ROOT, prefix=""):
        """All (path, id) from a directory on, itself included."""
        yield prefix, number
        entries = self.inodes[number].entries
        for name in sorted(entries or ()):
            yield from self.paths(entries[name], prefix + "/" + name if prefix else name)


@dataclass(frozen=True)
class Want:
    """What the reply of an operation must say."""
    status: frozenset = OK
    shown: object = None           # id of the inode whose attributes it may carry
    handle: object = None          # id of the inode whose handle it carries
    data: Optional[bytes] = None
    eof: Optional[bool] = None
    entries: Optional[dict] = None
    written: Optional[int] = None
    sought: Optional[bytes] = None     # the bytes among which SEEK was to look


# -- what operations do -------------------------------------------------------------
# An op is a dict; "obj", "dir", "dir2" are ids, "name", "name2" names in them.

def _touched(w, number, op):
    return number, w[number].but(mtime=Token(op["id"]))


def _with_name(w, directory, name, number, op, links=0):
    """(id, Inode) of a directory that has got a name, or lost it (number None)."""
    inode = w[directory]
    entries = dict(inode.entries)
    if number is None:
        del entries[name]
    else:
        entries[name] = number
    return directory, inode.but(entries=entries, nlink=inode.nlink + links,
                                mtime=Token(op["id"]))


def _fails(w, status):
    return [(w, Want(status))]


def content(op):
    """The bytes a WRITE writes: nowhere zero, and unlike those of any other."""
    word = b"%06d." % (op["id"] % 10 ** 6)
    count = op["length"]
    return (word * (count // len(word) + 2))[op["offset"] % len(word):][:count]


def overlay(old, offset, data):
    if not data:
        return old
    old = old + bytes(max(0, offset - len(old)))
    return old[:offset] + data + old[offset + len(data):]


def do_lookup(w, op):
    directory = w[op["dir"]]
    if directory.nlink == 0:
        return _fails(w, GONE_NAME)
    number = directory.entries.get(op["name"])
    if number is None:
        return _fails(w, frozenset((errors.NOENT,)))
    return [(w, Want(shown=number, handle=number))]


def do_getattr(w, op):
    if w[op["obj"]].nlink == 0:
        return _fails(w, GONE)
    return [(w, Want(shown=op["obj"]))]


def do_commit(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    return [(w, Want(OK if inode.type == REG else ANY))]


def do_readlink(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != LNK:
        return _fails(w, REFUSED)
    return [(w, Want(data=inode.target))]


def do_read(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != REG:
        return _fails(w, REFUSED)
    end = op["offset"] + op["length"]
    return [(w, Want(data=inode.data[op["offset"]:end], eof=end >= len(inode.data)))]


def do_write(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != REG:
        return _fails(w, REFUSED)
    new = inode.but(data=overlay(inode.data, op["offset"], content(op)), mtime=Token(op["id"]))
    return [(w.having((op["obj"], new)), Want(shown=op["obj"], written=op["length"]))]


def do_deallocate(w, op):
    """A hole is punched: zeros, the size stays."""
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != REG:
        return _fails(w, REFUSED)
    data, end = inode.data, min(op["offset"] + op["length"], len(inode.data))
    if op["offset"] < end:
        data = overlay(data, op["offset"], bytes(end - op["offset"]))
    return _maybe_touched(w, op, inode.but(data=data))


def do_allocate(w, op):
    """Space is reserved: the file may grow, its bytes stay."""
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != REG:
        return _fails(w, REFUSED)
    more = max(0, op["offset"] + op["length"] - len(inode.data))
    return _maybe_touched(w, op, inode.but(data=inode.data + bytes(more)))


def _maybe_touched(w, op, new):
    """File systems differ in whether mtime moves by this."""
    return [(w.having((op["obj"], new.but(mtime=Token(op["id"])))), Want()),
            (w.having((op["obj"], new)), Want())]


def do_seek(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    if inode.type != REG:
        return _fails(w, REFUSED)
    if op["offset"] >= len(inode.data):
        return _fails(w, frozenset((errors.NXIO,)))
    return [(w, Want(OK | {errors.NXIO}, sought=inode.data))]


def do_setattr(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE)
    new = inode.but(**{k: op[k] for k in ("mode", "uid", "gid") if k in op})
    if "size" in op:
        if inode.type != REG:
            return _fails(w, REFUSED)
        data = (inode.data + bytes(max(0, op["size"] - len(inode.data))))[:op["size"]]
        new = new.but(data=data, mtime=Token(op["id"]))
    if "mtime" in op:
        new = new.but(mtime=Token(op["id"]) if op["mtime"] == "now" else op["mtime"])
    changed = [(w.having((op["obj"], new)), Want(shown=op["obj"]))]
    if inode.type == LNK and "mtime" in op:
        changed.append((w, Want(shown=op["obj"])))       # FSAL_VFS leaves a symlink's alone
    return changed


def _make(w, op, inode, **want):
    """A new object; its id is that of the operation."""
    directory = w[op["dir"]]
    if directory.nlink == 0:
        return _fails(w, GONE_NAME)
    if op["name"] in directory.entries:
        return None
    links = 1 if inode.type == DIR else 0
    number = op.get("new", "new%s" % op["id"])
    while number in w.inodes:                # made, removed, and made again in one step
        number += "'"
    after = w.having((number, inode),
                     _with_name(w, op["dir"], op["name"], number, op, links))
    return [(after, Want(shown=number, handle=number, **want))]


def do_create(w, op):
    new = Inode(REG, op["mode"], 0, 0, Token(op["id"]))
    made = _make(w, op, new)
    if made:
        return made
    number = w[op["dir"]].entries[op["name"]]
    if op["how"] == "guarded":
        return _fails(w, frozenset((errors.EXIST,)))
    if w[number].type != REG:
        return _fails(w, ANY)
    want = Want(shown=number, handle=number)
    if "size" not in op:
        return [(w, want)]
    cut = w[number].but(data=b"", mtime=Token(op["id"]))
    return [(w.having((number, cut)), want)]


def do_mkdir(w, op):
    new = Inode(DIR, op["mode"], 0, 0, Token(op["id"]), nlink=2, entries={})
    return _make(w, op, new) or _fails(w, frozenset((errors.EXIST,)))


def do_symlink(w, op):
    new = Inode(LNK, 0o777, 0, 0, Token(op["id"]), target=op["target"].encode())
    return _make(w, op, new) or _fails(w, frozenset((errors.EXIST,)))


def do_link(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0 or w[op["dir"]].nlink == 0:
        return _fails(w, GONE_NAME)
    if inode.type == DIR:
        return _fails(w, REFUSED)
    if op["name"] in w[op["dir"]].entries:
        return _fails(w, frozenset((errors.EXIST,)))
    after = w.having((op["obj"], inode.but(nlink=inode.nlink + 1)),
                     _with_name(w, op["dir"], op["name"], op["obj"], op))
    return [(after, Want())]


def _unlinked(w, number):
    """(id, Inode) of an object that loses a name."""
    inode = w[number]
    return number, inode.but(nlink=0 if inode.type == DIR else inode.nlink - 1)


def do_remove(w, op):
    directory = w[op["dir"]]
    if directory.nlink == 0:
        return _fails(w, GONE_NAME)
    number = directory.entries.get(op["name"])
    if number is None:
        return _fails(w, frozenset((errors.NOENT,)))
    inode, v3 = w[number], op["c"] == "v3"
    if v3 and (inode.type == DIR) != (op["op"] == "rmdir"):
        return _fails(w, REFUSED)                       # NFSv4 has one REMOVE for both
    if inode.entries:
        return _fails(w, REFUSED)
    links = -1 if inode.type == DIR else 0
    return [(w.having(_unlinked(w, number),
                      _with_name(w, op["dir"], op["name"], None, op, links)), Want())]


do_rmdir = do_remove


def do_rename(w, op):
    if w[op["dir"]].nlink == 0 or w[op["dir2"]].nlink == 0:
        return _fails(w, GONE_NAME)
    number = w[op["dir"]].entries.get(op["name"])
    if number is None:
        return _fails(w, frozenset((errors.NOENT,)))
    there = w[op["dir2"]].entries.get(op["name2"])
    if there == number:
        return [(w, Want())]                 # two names of one inode: nothing happens
    moved = w[number]
    if moved.type == DIR and w.below(number, op["dir2"]):
        return _fails(w, REFUSED)
    if there is not None:
        if (w[there].type == DIR) != (moved.type == DIR) or w[there].entries:
            return _fails(w, REFUSED)
        w = w.having(_unlinked(w, there))
    is_dir = moved.type == DIR
    w = w.having(_with_name(w, op["dir"], op["name"], None, op, -1 if is_dir else 0))
    links = 1 if is_dir and there is None else 0
    w = w.having(_with_name(w, op["dir2"], op["name2"], number, op, links))
    return [(w, Want())]


def do_readdir(w, op):
    inode = w[op["obj"]]
    if inode.nlink == 0:
        return _fails(w, GONE_NAME)
    if inode.type != DIR:
        return _fails(w, REFUSED)
    return [(w, Want(entries=inode.entries))]


DO = {name[3:]: function for name, function in list(globals().items())
      if name.startswith("do_")}


OTHERS = {}                    # client -> what operations do that differ for it


def outcomes(w, op):
    return OTHERS.get(op.get("c"), DO).get(op["op"], DO[op["op"]])(w, op)


# -- what replies say -----------------------------------------------------------------

# Done with the state of an OPEN by handle just before.  Where the file loses a name meanwhile,
# stock Ganesha may make another object of its handle, whose state that is not (of 12000 files
# with two names it was so with 1, and with 3 of FSAL STUB's).
BY_STATE = frozenset(("allocate", "deallocate", "seek"))


class Disagree(Exception):
    """Why a reply does not fit a world; kind: the same for the same sort of reason."""

    def __init__(self, text, kind=None):
        super().__init__(text)
        self.kind = kind or text


class Raced(Disagree):
    """Nothing was done: stock Ganesha met the object of a name as it went."""


def _must(condition, text, *args):
    if not condition:
        raise Disagree(text % args, text)


def first_difference(got, want):
    if len(got) != len(want):
        return "%d bytes, not %d" % (len(got), len(want))
    at = next(i for i in range(len(got)) if got[i] != want[i])
    return "bytes from %d on: %r, not %r" % (at, got[at:at + 16], want[at:at + 16])


def _see(w, number, attrs, windows):
    """Attributes of an inode, while nothing else goes on: all must be right."""
    if hasattr(attrs, "seen_by"):
        return attrs.seen_by(w, number, windows)
    inode = w[number]
    for key in ("type", "mode", "uid", "gid", "nlink"):
        if key != "mode" or (inode.type != LNK and inode.mode is not None):   # for show
            _must(getattr(attrs, key) == getattr(inode, key), key + " of %s: %s, not %s",
                  number, getattr(attrs, key), getattr(inode, key))
    if inode.type != DIR:
        _must(attrs.size == inode.size, "size of %s: %d, not %d", number, attrs.size, inode.size)
    if inode.fileid is None:
        _must(all(i.fileid != attrs.fileid or i.nlink == 0 for i in w.inodes.values()),
              "fileid of %s is that of another object", number)
    else:
        _must(attrs.fileid == inode.fileid, "fileid of %s: %d, not %d", number, attrs.fileid,
              inode.fileid)
    if isinstance(inode.mtime, Token):
        low, high = windows.get(inode.mtime.op, (0, FOREVER))
        _must(low - SLACK <= attrs.mtime <= high + SLACK,
              "mtime of %s: %d, but operation %s was between %d and %d", number, attrs.mtime,
              inode.mtime.op, low, high)
    else:
        _must(attrs.mtime == inode.mtime, "mtime of %s: %d, not %d", number, attrs.mtime,
              inode.mtime)
    if inode.fileid is None or isinstance(inode.mtime, Token) or inode.mode is None:
        mode = attrs.mode if inode.mode is None else inode.mode
        w = w.having((number, inode.but(fileid=attrs.fileid, mtime=attrs.mtime, mode=mode)))
    return w


def _handle(w, number, proto, handle):
    inode, at = w[number], 0 if proto == "v3" else 1
    known = inode.handles[at]
    _must(known in (None, handle), "the file handle of %s has changed", number)
    if known is None:
        handles = (handle, inode.handles[1]) if at == 0 else (inode.handles[0], handle)
        w = w.having((number, inode.but(handles=handles)))
    return w


def agrees(w, want, op, reply, windows, alone=True):
    """Raise Disagree, or return the world with what the reply has taught.

    alone: nothing else was in flight, so attributes are those of this moment."""
    allowed = want.status
    if not alone and reply.status == errors.NOENT and op["c"] in OTHERS:
        raise Raced("smbd looks for an open file's name, which has gone or moved")
    if not alone and reply.status == errors.STALE and "name" in op:
        raise Raced("the name went while it was looked for")
    if "tried" in op and reply.status == errors.NOENT:
        raise Raced("what it had made has lost the name")
    if not alone and op["op"] in ("setattr", "write") and reply.status == errors.STALE:
        # Done; the GETATTR behind a SETATTR, or the commit of a stable write to a stub,
        # met nothing any more.  That it has gone, the caller makes sure of.
        return w
    if not alone and op["op"] in BY_STATE and reply.status == errors.BAD_STATEID:
        raise Raced("the file that was opened is another object of Ganesha's by now")
    if not alone and want.status == GONE and reply.status == errors.OK:
        raise Raced("another operation still held the object that has gone")
    if errors.NOENT in allowed and not alone:
        allowed = GONE_NAME           # stock Ganesha found the name just before it went
    _must(reply.status in allowed, "%s, not %s", reply.status_name,
          " or ".join(errors.NAMES.get(s, str(s)) for s in sorted(allowed)))
    if reply.status != errors.OK:
        _must(want.sought is None or not any(want.sought[op["offset"]:]),
              "SEEK finds nothing where data is")
        return w
    if want.handle is not None and reply.handle is not None:
        w = _handle(w, want.handle, op["c"], reply.handle)
    if want.data is not None and alone:
        _must(reply.data == want.data, "%s", first_difference(reply.data, want.data)
              if reply.data != want.data else "")
    if want.eof is not None and reply.eof is not None and alone:
        _must(reply.eof == want.eof, "eof %s, not %s", reply.eof, want.eof)
    if want.written is not None:
        _must(reply.written == want.written, "%d bytes written, not %d", reply.written,
              want.written)
    if want.sought is not None and alone:
        _seek_is_right(op, reply, want.sought)
    if want.shown is not None and reply.attrs is not None and alone:
        w = _see(w, want.shown, reply.attrs, windows)
    if want.entries is not None and alone and op["c"] in OTHERS:
        w = OTHERS[op["c"]]["listed"](w, want, reply, windows)
    elif want.entries is not None and alone:
        _must(reply.entries.keys() == want.entries.keys(), "names %s, not %s",
              sorted(reply.entries), sorted(want.entries))
        for name, entry in reply.entries.items():
            _must(entry.attrs is not None or not op["attrs"], "%s has no attributes", name)
            if entry.fh is not None:
                w = _handle(w, want.entries[name], op["c"], entry.fh)
            if entry.attrs is not None:
                w = _see(w, want.entries[name], entry.attrs, windows)
    return w


def _seek_is_right(op, reply, data):
    """What SEEK skips on its way to data, and what it calls a hole, holds only zeros."""
    at = len(data) if reply.eof else reply.found
    _must(op["offset"] <= at <= len(data), "SEEK from %d: %d of %d", op["offset"], at, len(data))
    if op["hole"]:
        _must(at == len(data) or data[at] == 0, "SEEK: a hole at %d, where data is", at)
    else:
        _must(not any(data[op["offset"]:at]), "SEEK from %d: data only at %d", op["offset"], at)


def between(states, op, reply):
    """A reply of something that only looks, while others changed: is every part of it
    true in one of these states?"""
    wants = [want for w in states for _after, want in outcomes(w, op)]
    if op["op"] == "lookup" and reply.status == errors.STALE and len(
            {want.handle for want in wants}) > 1:
        return          # found, and removed or replaced before its attributes were asked
    if op["op"] in BY_STATE and reply.status == errors.BAD_STATEID:
        return
    _must(any(reply.status in want.status for want in wants), "%s", reply.status_name)
    if reply.status != errors.OK:
        return
    wants = [want for want in wants if errors.OK in want.status]
    if op["op"] == "read":
        _between_data([want.data for want in wants], reply.data)
    elif op["op"] == "readdir":
        names = [set(want.entries) for want in wants]
        _must(set.intersection(*names) <= set(reply.entries) <= set.union(*names),
              "names %s, not between %s", sorted(reply.entries), [sorted(n) for n in names])
    elif op["op"] in ("getattr", "lookup"):
        _between_attrs([(w, outcomes(w, op)[0][1]) for w in states], reply.attrs)
    elif op["op"] == "readlink":
        _must(reply.data in [want.data for want in wants], "target %r", reply.data)


def _between_data(allowed, got):
    lengths = [len(a) for a in allowed]
    _must(min(lengths) <= len(got) <= max(lengths), "%d bytes, not %s", len(got), lengths)
    if any(got == a for a in allowed):
        return
    padded = [a + bytes(max(0, len(got) - len(a))) for a in allowed]
    for start in range(0, len(got), PIECE):
        piece = got[start:start + PIECE]
        if any(a[start:start + len(piece)] == piece for a in padded):
            continue
        for at, byte in enumerate(piece, start):
            _must(any(a[at] == byte for a in padded), "byte %d: %r, which nobody wrote: %r",
                  at, got[at:at + 16], [a[at:at + 16] for a in allowed])


def _shown(pairs):
    """What is found, as it is then or later: its attributes are asked for after its name,
    which it may have lost by then."""
    shown, found = [], set()
    for w, want in pairs:
        if want.shown is not None:
            found.add(want.shown)
        shown += [w.inodes[number] for number in found if number in w.inodes]
    return shown


def _between_attrs(pairs, attrs):
    shown = _shown(pairs)
    if attrs is None or not shown:
        return
    loose = {DIR: ("size",), LNK: ("mode",)}.get(shown[0].type, ())
    for key in ("type", "mode", "uid", "gid", "nlink", "size"):
        if key in loose or not hasattr(attrs, key):
            continue
        values, got = {getattr(inode, key) for inode in shown}, getattr(attrs, key)
        if None in values:
            continue
        # a file grows page by page while it is written
        _must(got in values or key == "size" and min(values) < got < max(values),
              "%s: %s, not one of %s", key, got, sorted(values))


def difference(a, b):
    """An operation (by ids) whose reply differs between two worlds; None if we know of
    none."""
    for number in sorted(a.inodes.keys() | b.inodes.keys(), key=str):
        x, y = a.inodes.get(number), b.inodes.get(number)
        if x is None or y is None or x is y or (x.nlink == 0 and y.nlink == 0):
            continue
        if x.nlink == 0 or y.nlink == 0:
            continue                          # a directory's entries tell
        if x.entries != y.entries:
            for name in sorted(x.entries.keys() | y.entries.keys()):
                if x.entries.get(name) != y.entries.get(name):
                    return {"op": "lookup", "dir": number, "name": name}
        if x.data != y.data and len(x.data) == len(y.data):
            at = next(i for i in range(len(x.data)) if x.data[i] != y.data[i])
            return {"op": "read", "obj": number, "offset": at, "length": 64}
        if (x.size, x.mode, x.uid, x.gid, x.nlink) != (y.size, y.mode, y.uid, y.gid, y.nlink) \
                or x.mtime != y.mtime:
            return {"op": "getattr", "obj": number}
    return None
