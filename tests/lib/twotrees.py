# SPDX-License-Identifier: GPL-3.0-or-later
"""Two trees on local file systems, compared property by property.

    found = compare(old, new)
    found["links"].of, found["links"].kept, found["links"].paths

`of` counts the objects of the old tree that have such a thing (hard links: names of files that have
several), `kept` those that have the same in the new one, paths are some that do not.  Names that
only the new tree has are names that are not kept.  Nothing is read but by descriptor, and times are
looked at before data.
"""
import ctypes
import hashlib
import os
import stat
import struct
from dataclasses import dataclass, field

from lib.richtree import ACCESS, DEFAULT

PROPERTIES = ("names", "types", "sizes", "data", "modes", "owners", "mtime", "atime", "links",
              "symlinks", "devices", "acls", "xattrs", "holes", "creation_time")
SHOWN = 20                      # paths of each property
SLACK = 1 << 20                 # a file is sparse if it misses more than this
DOS = "user.DOSATTRIB"          # where Samba keeps creation times
TICKS_1970 = 11644473600 * 10 ** 7
STATX_BTIME, AT_SYMLINK_NOFOLLOW, BTIME_AT = 0x800, 0x100, 80
ORDINARY = (stat.S_IFREG, stat.S_IFDIR)


@dataclass
class Count:
    of: int = 0
    kept: int = 0
    paths: list = field(default_factory=list)

    def add(self, path, same):
        self.of += 1
        self.kept += same
        if not same and len(self.paths) < SHOWN:
            self.paths.append(path)


@dataclass
class Seen:
    """One name of a tree."""
    st: os.stat_result
    born: int = None            # in 100 ns since 1970; None: not known
    target: bytes = b""
    acl: tuple = ()
    xattrs: dict = field(default_factory=dict)
    dos: bytes = b""            # Samba's attribute
    digest: bytes = b""

    @property
    def kind(self):
        return stat.S_IFMT(self.st.st_mode)

    @property
    def missing(self):
        """Bytes of its size for which it has no room."""
        return self.st.st_size - self.st.st_blocks * 512


def born_of(path):
    """When it was made, in 100 ns since 1970; None: the file system does not say."""
    libc = ctypes.CDLL(None, use_errno=True)
    buf = ctypes.create_string_buffer(256)
    if libc.statx(-100, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, buf):
        return None
    mask, = struct.unpack_from("<I", buf)
    seconds, ns = struct.unpack_from("<qI", buf, BTIME_AT)
    return seconds * 10 ** 7 + ns // 100 if mask & STATX_BTIME else None


def born_by_samba(value):
    """The same from Samba's attribute: version 5 of it, which has a time if flag 0x10 is set."""
    if len(value) != 24 or struct.unpack_from("<HH", value) != (0, 5):
        return None
    flags, = struct.unpack_from("<I", value, 8)
    ticks, = struct.unpack_from("<Q", value, 16)
    return ticks - TICKS_1970 if flags & 0x10 else None


def digest_of(path):
    h = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.digest()


def look(path, data):
    """@path leads through a descriptor, and is short."""
    st = os.lstat(path)
    seen = Seen(st, born=born_of(path))
    if seen.kind == stat.S_IFLNK:
        seen.target = os.readlink(path)
    if seen.kind not in ORDINARY:
        return seen
    values = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    seen.acl = tuple(values.get(name) for name in (ACCESS, DEFAULT))
    seen.dos = values.get(DOS, b"")
    seen.xattrs = {name: value for name, value in values.items()
                   if name.startswith("user.") and name != DOS}
    if data and seen.kind == stat.S_IFREG:
        seen.digest = digest_of(path)
    return seen


def walk(top, data=True):
    """{path: Seen}, of the top as b""."""
    found = {}
    for where, dirs, files, fd in os.fwalk(os.fsencode(top)):
        below = where[len(os.fsencode(top)):].lstrip(b"/")
        here = b"/proc/self/fd/%d" % fd
        if not below:
            found[b""] = look(here + b"/.", data)
        for name in (os.fsencode(n) for n in dirs + files):
            found[os.path.join(below, name)] = look(here + b"/" + name, data)
    return found


def links_of(tree):
    """{path: all names of the same file}, of those that are no directories and have several."""
    groups = {}
    for path, seen in tree.items():
        if seen.st.st_nlink > 1 and seen.kind != stat.S_IFDIR:
            groups.setdefault((seen.st.st_dev, seen.st.st_ino), set()).add(path)
    return {path: group for group in groups.values() for path in group}


def of_both(found, path, a, b):
    """What the name is at both sides."""
    def same(what, was, is_):
        found[what].add(path, was == is_)

    same("types", a.kind, b.kind)
    same("owners", (a.st.st_uid, a.st.st_gid), (b.st.st_uid, b.st.st_gid))
    same("mtime", a.st.st_mtime_ns, b.st.st_mtime_ns)
    same("atime", a.st.st_atime_ns, b.st.st_atime_ns)
    if a.kind == stat.S_IFREG:
        same("sizes", a.st.st_size, b.st.st_size)
        same("data", a.digest, b.digest)
        if a.missing > SLACK:
            found["holes"].add(path, b.missing > a.missing - SLACK)
    if a.kind == stat.S_IFLNK:
        same("symlinks", a.target, b.target)
    elif not any(a.acl):        # with an ACL the mode belongs to it
        same("modes", stat.S_IMODE(a.st.st_mode), stat.S_IMODE(b.st.st_mode))
    if a.kind in (stat.S_IFBLK, stat.S_IFCHR):
        same("devices", a.st.st_rdev, b.st.st_rdev)
    if any(a.acl):
        same("acls", a.acl, b.acl)
    if a.xattrs:
        same("xattrs", a.xattrs, b.xattrs)
    if a.born is not None and a.kind in ORDINARY:
        same("creation_time", a.born, born_by_samba(b.dos))


def compare(old, new, data=True, without=()):
    """Of two directories: {property: Count}; @without names in them, and all below."""
    a, b = ({path: seen for path, seen in walk(top, data).items()
             if path.split(b"/")[0] not in without} for top in (old, new))
    links_a, links_b = links_of(a), links_of(b)
    found = {name: Count() for name in PROPERTIES}
    for path in sorted(a.keys() | b.keys()):
        found["names"].add(path, path in a and path in b)
        if path in a and path in b:
            of_both(found, path, a[path], b[path])
        if path in links_a:
            found["links"].add(path, links_a[path] == links_b.get(path))
    return found
