# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares servers that show one tree over NFS and SMB.

What NFS shows of each object must be the same, but for rules of the dual source
(docs/decisions/0018), which are checked and not passed over:

* owner and mode of what is joined are those that its descriptor gives to NFS's numbers:
  asked of joinedmode, with what the old server says over both protocols;
* what has a name that SMB cannot say is not joined: it has NFS's mode, and was told;
* the clients' directory has later times and the clients' files, whose bytes they know.

What SMB shows of each joined object must be the same without any other exception.
"""
import re
import subprocess

import both_visitor
from lib import smbtree
from smb2client import SmbError

FIELDS = ("path", "type", "mode", "uid", "gid", "size", "mtime", "atime", "nlink", "group", "rdev",
          "target", "sha256", "error")      # of nfstree's manifests
PATH, TYPE, MODE, UID, GID = range(5)
MTIME, GROUP, ERROR = map(FIELDS.index, ("mtime", "group", "error"))
SHOWN_MAX = 200             # bytes of a path in the retriever's log
UNSPEAKABLE = re.compile(rb'[\x00-\x1f\x7f\\:*?"<>|]')
GUESTS = both_visitor.PLACE.encode()
NEW_ONLY = {name.encode() for name in both_visitor.MINE.values()}


def unescape(text):
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), text)


def smb_path(path):
    """The path as SMB has it; None if it cannot."""
    raw = b"" if path == b"." else unescape(path)
    if UNSPEAKABLE.search(raw):
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def in_log(path):
    """The path as the log has it: of long ones the beginning."""
    out = b""
    for piece in re.findall(rb"\\x[0-9a-f]{2}|.", path):
        if len(out) + 4 > SHOWN_MAX:
            break
        out += piece
    return out


class Compare:
    def __init__(self, old, new, tool):
        """old, new: SMB clients; tool: joinedmode and its arguments."""
        self.old, self.new = old, new
        self.tool, self.modes_known = tool, {}
        self.found, self.unjoined = [], {}
        self.smb_objects = self.modes = self.early = 0

    def __enter__(self):
        self.rules = subprocess.Popen(self.tool, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *exc):
        self.rules.stdin.close()
        self.rules.wait()
        self.rules.stdout.close()

    def differ(self, path, what, new, old):
        self.found.append("%s: %s: %s, was %s" % (path.decode(), what, smbtree.short(new),
                                                  smbtree.short(old)))

    def run(self, old, new):
        """Of two manifests, as lists of fields."""
        was, is_ = ({r[PATH]: r for r in rows} for rows in (old, new))
        for path in sorted((was.keys() ^ is_.keys()) - NEW_ONLY | NEW_ONLY - is_.keys()):
            self.differ(path, "name", path in is_, path in was)
        for path in sorted(was.keys() & is_.keys()):
            self.one(path, was[path], is_[path])

    def one(self, path, was, is_):
        want, smb = list(was), smb_path(path)
        if was[ERROR] != b"-":
            self.differ(path, "cannot be read", is_[ERROR], was[ERROR])
        if was[TYPE] in (b"file", b"dir"):
            if smb is None:
                self.unjoined[in_log(path)] = was[GROUP] if was[GROUP] != b"-" else path
            else:
                self.over_smb(path, smb, want)
        if path == GUESTS and seconds(is_[MTIME]) > seconds(was[MTIME]):
            want[MTIME] = is_[MTIME]
        for name, before, wanted, found in zip(FIELDS, was, want, is_):
            if wanted != found:
                old = "" if wanted == before else " (by its descriptor; NFS showed %s)" % \
                    before.decode()
                self.differ(path, "NFS: " + name, found.decode(), wanted.decode() + old)

    def over_smb(self, path, smb, want):
        """A joined object; puts into `want` what its descriptor makes of owner and mode."""
        try:
            was, is_ = (smbtree.look(side, smb) for side in (self.old, self.new))
        except SmbError as err:
            self.differ(path, "SMB", err, "")
            return
        self.smb_objects += 1
        self.early += was.written < smbtree.EPOCH
        if path == GUESTS and is_.written > was.written:
            was.written = is_.written
        self.found += ["SMB: %s" % d for d in smbtree.differences(smb, was, is_, 0)]
        ruled = self.ruled(want, was.descriptor)
        self.modes += want[MODE] != ruled[2]
        want[UID], want[GID], want[MODE] = ruled

    def ruled(self, row, descriptor):
        """[uid, gid, mode] by the rules of the dual source."""
        line = b" ".join((row[TYPE][:1], row[UID], row[GID], row[MODE],
                          descriptor.hex().encode())) + b"\n"
        if line not in self.modes_known:
            self.rules.stdin.write(line)
            self.rules.stdin.flush()
            answer = self.rules.stdout.readline().split()
            if len(answer) != 3:
                raise RuntimeError("joinedmode: no answer to %.80r" % line)
            self.modes_known[line] = [answer[0], answer[1], b"%04o" % int(answer[2], 8)]
        return self.modes_known[line]

    def told(self, log, count):
        """Is each object that is not joined in the log, and no other?"""
        lines = re.findall(rb'"(.*)": not joined: ', log.read_bytes())
        said = {self.unjoined.get(path, path) for path in lines}
        for path in sorted(said ^ set(self.unjoined.values())):
            self.differ(path, "not joined", path in said, path not in said)
        if count != len(lines):
            self.differ(b".", "mismatches in the status", count, len(lines))


def seconds(text):
    return [int(x) for x in text.split(b".")] if text != b"-" else []
