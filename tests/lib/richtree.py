# SPDX-License-Identifier: GPL-3.0-or-later
"""A tree with some of everything that an old file server may know, on a local file system that has
it all: what oldtree.py makes, and ACLs, extended attributes and holes.

    build(top)      for an NFS server; top is an empty directory
    build_plain(top)    what SMB servers show of it, too, under the same names
"""
import os
import random
import struct

import oldtree

MIB = 1 << 20
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODY = 0xffffffff


def acl(*entries):
    """The value of ACCESS or DEFAULT; entries: (tag, rights) or (tag, rights, number)."""
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *(e if len(e) == 3 else (*e, NOBODY))) for e in entries)


def modes(top):
    """A sticky directory that nobody may search is a referral to Ganesha's NFSv4
    (MOVED, also on the old server): make it one that somebody may."""
    oldtree.modes(top)
    for name in os.listdir(top):
        if name.startswith(b"1644") and name.endswith(b".d"):
            os.chmod(os.path.join(top, name), 0o1755)


def acls(top):
    os.mkdir(top)
    cases = {
        b"user": acl((USER_OBJ, 6), (USER, 4, 1001), (GROUP_OBJ, 4), (MASK, 4), (OTHER, 0)),
        b"kept-out": acl((USER_OBJ, 7), (USER, 0, 1001), (GROUP_OBJ, 5), (MASK, 5), (OTHER, 5)),
        b"groups": acl((USER_OBJ, 7), (GROUP_OBJ, 0), (GROUP, 7, 1002), (GROUP, 4, 1003), (MASK, 7),
                       (OTHER, 0)),
        b"masked": acl((USER_OBJ, 6), (USER, 7, 1001), (GROUP_OBJ, 7), (MASK, 4), (OTHER, 4)),
    }
    for name, value in cases.items():
        path = os.path.join(top, name)
        oldtree.write(path, b"of " + name)
        os.chown(path, 1000, 1000)
        os.setxattr(path, ACCESS, value)
        os.mkdir(path + b".d")
        os.setxattr(path + b".d", ACCESS, value)
        os.setxattr(path + b".d", DEFAULT, value)


def xattrs(top):
    os.mkdir(top)
    of = {b"one": {"user.one": b"1"},
          b"some": {"user.empty": b"", "user.binary": bytes(range(256)), "user.a b/c": b"\0\xff"},
          b"long-name": {"user." + "n" * 240: b"x"},
          b"large": {"user.large": os.urandom(3000)}}
    for name, values in of.items():
        path = os.path.join(top, name)
        oldtree.write(path, b"content")
        os.mkdir(path + b".d")
        for key, value in values.items():
            os.setxattr(path, key, value)
            os.setxattr(path + b".d", key, value)


def holes(top):
    """Large enough for who asks where there is data, and too small for that."""
    os.mkdir(top)
    for name, length, pieces in [(b"islands", 64 * MIB, [0, 20 * MIB + 5, 63 * MIB]),
                                 (b"nothing", 32 * MIB, []), (b"small", 3 * MIB + 1, [MIB]),
                                 (b"tail", 16 * MIB, [0])]:
        with open(os.path.join(top, name), "wb") as f:
            for offset in pieces:
                f.seek(offset)
                f.write(b"\xa5" * 4096)
            f.truncate(length)


def sizes(top):
    os.mkdir(top)
    rng = random.Random(1)
    for size in (0, 1, 4095, 4096, 4097, 65536, MIB - 1, MIB + 1, 3 * MIB + 5):
        oldtree.write(os.path.join(top, b"%d" % size), rng.randbytes(size))


PARTS = {"homes": oldtree.homes, "names": oldtree.names, "modes": modes, "times": oldtree.times,
         "special": oldtree.special, "symlinks": oldtree.symlinks, "links": oldtree.hardlinks,
         "sizes": sizes, "holes": holes, "acls": acls, "xattrs": xattrs,
         "crowd": lambda top: oldtree.crowd(top, 1500), "deep": lambda top: oldtree.deep(top, 5)}


def build(top):
    for name, make in PARTS.items():
        make(os.path.join(os.fsencode(top), name.encode()))


def build_plain(top):
    """Files and directories with names that Windows takes; all of them root's."""
    top = os.fsencode(top)
    sizes(os.path.join(top, b"sizes"))
    holes(os.path.join(top, b"holes"))
    oldtree.crowd(os.path.join(top, b"crowd"), 300)
    at = os.path.join(top, b"deep")
    for level in range(12):
        os.mkdir(at)
        oldtree.write(os.path.join(at, b"file%d" % level), b"level %d" % level)
        at = os.path.join(at, b"level %d" % level)
    for number, ns in enumerate(oldtree.TIMES):
        path = os.path.join(top, b"sizes", b"time%d" % number)
        oldtree.write(path, b"x")
        os.utime(path, ns=(ns, ns))
