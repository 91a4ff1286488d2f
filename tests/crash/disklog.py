# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk may hold after a power cut, from the log that logdisk wrote.

A cut is taken just before a flush is answered, and at the log's end.  Up to there
every write that was answered before an answered flush came is on the disk; of the
others that have come, any part may be.  Earlier moments of the same interval allow
no other contents, and fewer acknowledgements.

XFS cannot be mounted with gaps far back in its own log: it was the file system that lost, whoever
uses it.  So of the writes to a place that is told (in_order) the later ones are lost first.
Nor does it bear that a block of its metadata is torn: a log that is replayed passes over what
has a newer number in its first sector, and then the checksum is wrong.  Data is torn anywhere.

    log = Log(path, in_order=images.ordered_place(image, "xfs"))
    for cut, states in log.plan("xfs", rng, subsets=2): ...
"""
import os
import struct

HEADER = struct.Struct("<IIIIQ")
MAGIC = 0x474F4C44
# the smallest piece a torn write leaves: ext4's superblock carries a checksum over
# 4 KiB written in place, and does not mount with half of it
TEAR = {"xfs": 512, "ext4": 4096}
BLOCK = 4096
# how XFS's blocks of several sectors begin: inodes, directories and their attributes, B+trees
XFS_MAGIC = (b"IN", b"XDB3", b"XDD3", b"XDF3", b"XARM", b"XSLM", b"BMA3", b"AB3B", b"AB3C",
             b"IAB3", b"FIB3", b"RMB3", b"R3FC")
XFS_DA_MAGIC = (b"\x3d\xf1", b"\x3d\xff", b"\x3e\xbe", b"\x3b\xee")    # after two pointers


class Write:
    __slots__ = ("seq", "id", "offset", "pos", "length", "answered")

    def __init__(self, seq, number, offset, pos, length):
        self.seq, self.id, self.offset, self.pos, self.length = seq, number, offset, pos, length
        self.answered = None


class Cut:
    """One flush interval.

    durable: writes that became durable at its start; volatile: those that came and
    are not, in order; marks: how many of the log's marks were made before its end.
    """
    __slots__ = ("number", "durable", "volatile", "marks")

    def __init__(self, number, durable, volatile, marks):
        self.number, self.durable, self.volatile, self.marks = number, durable, volatile, marks


class State:
    """Volatile writes that are there, and the first `length` bytes of one more."""
    __slots__ = ("name", "writes", "torn", "length")

    def __init__(self, name, writes, torn=None, length=0):
        self.name, self.writes, self.torn, self.length = name, writes, torn, length

    def key(self):
        return (frozenset(w.id for w in self.writes), self.torn and self.torn.id, self.length)


class Log:
    def __init__(self, path, in_order=(0, 0)):
        """in_order: (first, end) byte."""
        self.path, self.in_order = path, in_order
        self.marks, self.cuts, self.writes = [], [], 0
        self.errors = []                 # numbers of the cuts before which one was injected
        self._read()

    def _events(self):
        size = os.path.getsize(self.path)
        with open(self.path, "rb", buffering=1 << 20) as f:
            seq = 0
            while f.tell() + HEADER.size <= size:
                magic, what, number, length, offset = HEADER.unpack(f.read(HEADER.size))
                assert magic == MAGIC, "damaged log at %d" % f.tell()
                pos = f.tell()
                if pos + length > size:
                    return               # the power went while it was written
                yield seq, chr(what), number, offset, pos, length
                f.seek(pos + length)
                seq += 1

    def _read(self):
        pending, came, durable = {}, {}, []
        for seq, what, number, offset, pos, length in self._events():
            if what == "w":
                pending[number] = Write(seq, number, offset, pos, length)
                self.writes += 1
            elif what == "W":
                pending[number].answered = seq
            elif what == "f":
                came[number] = seq
            elif what == "F":
                self._cut(durable, pending)
                flushed = came.pop(number)
                durable = [w for w in pending.values()
                           if w.answered is not None and w.answered < flushed]
                for w in durable:
                    del pending[w.id]
            elif what == "m":
                self.marks.append(self.bytes_at(pos, length).decode())
            else:
                self.errors.append(len(self.cuts))
        self._cut(durable, pending)

    def _cut(self, durable, pending):
        self.cuts.append(Cut(len(self.cuts), durable, list(pending.values()), len(self.marks)))

    def bytes_at(self, pos, length):
        with open(self.path, "rb") as f:
            f.seek(pos)
            return f.read(length)

    def _some(self, writes, rng):
        first, end = self.in_order
        ordered = [w.id for w in writes if first <= w.offset < end]
        lost = set(ordered[rng.randrange(len(ordered) + 1):])
        return [w for w in writes if w.id not in lost and (
            first <= w.offset < end or rng.random() < 0.5)]

    def _whole_metadata(self, write, length):
        """Where to tear, if not inside a block of XFS's metadata: before that."""
        begin = length - (write.offset + length) % BLOCK
        if begin == length or begin < 0:
            return length
        head = self.bytes_at(write.pos + begin, 10)
        return begin if head.startswith(XFS_MAGIC) or head[8:] in XFS_DA_MAGIC else length

    def _states(self, cut, unit, rng, subsets):
        some = cut.volatile
        yield State("none", [])
        if some:
            yield State("all", some)
        if len(some) > 1:
            for i in range(subsets):
                yield State("some%d" % i, self._some(some, rng))
        long = [w for w in some if w.length > unit]
        if long and subsets:
            last = rng.choice(long)
            pieces = (last.length + unit - 1) // unit
            length = self._whole_metadata(last, rng.randrange(1, pieces) * unit)
            if length:
                yield State("torn", [w for w in some if w.seq < last.seq], last, length)

    def last_states(self, fstype, rng, subsets):
        """[State] of the last cut: what the disk may hold at the log's end."""
        return list(self._states(self.cuts[-1], TEAR[fstype], rng, subsets))

    def plan(self, fstype, rng, subsets, limit=None):
        """[(cut, [State])], every cut in order.  Of equal contents only the last is
        kept, which knows of most acknowledgements.  limit: at most so many states."""
        last, flushed = {}, 0
        for cut in self.cuts:
            if cut.durable:
                flushed = cut.number     # what is on the disk changes here only
            if self.errors and cut.number < self.errors[0]:
                continue                 # as without errors
            for state in self._states(cut, TEAR[fstype], rng, subsets):
                last[flushed, state.key()] = (cut.number, state)
        chosen = sorted(last.values(), key=lambda pair: pair[0])
        if limit is not None and len(chosen) > limit:
            chosen = [chosen[i] for i in sorted(rng.sample(range(len(chosen)), limit))]
        plan = [(cut, []) for cut in self.cuts]
        for number, state in chosen:
            plan[number][1].append(state)
        return plan
