# SPDX-License-Identifier: GPL-3.0-or-later
"""What an NFSv3 server itself says of its tree, by the client of the tests: where the new one is
not like the old file system, is it like that?

    said = hear(host, port, mount_port, export)     {path: Word}, while the server runs
    found = judge(said, new)                        {property: Count}
"""
import os
import stat
from collections import Counter
from dataclasses import dataclass

from lib.richtree import GROUP, MASK, USER, acl
from lib.twotrees import Count, walk
from nfsclient.nfs3 import Mount3, Nfs3, get_post_attrs
from nfsclient.nfstypes import DIR, LNK, REG
from nfsclient.rpc import RpcConnection, RpcError
from nfsclient.xdr import Packer

ACL_PROGRAM, GETACL, OF_DEFAULT = 100227, 1, 0x1000
ALL_OF_IT = 0xf


@dataclass
class Word:
    attrs: object
    fh: bytes
    target: bytes = None
    acl: tuple = None               # values as those of the attributes; None: the server has none


def entries(u, mask=None):
    """The value of ACCESS or DEFAULT, with this mask; None: it is no more than a mode."""
    listed = u.array(lambda v: (v.u32() & ~OF_DEFAULT, v.u32(), v.u32()), 1024)
    if not any(tag in (USER, GROUP) for tag, _, _ in listed):
        return None
    return acl(*((tag, rights & 7, who) if tag in (USER, GROUP) else
                 (tag, rights & 7 if tag != MASK or mask is None else mask)
                 for tag, who, rights in sorted(listed)))


def ask_acl(conn, fh, mode):
    """(access, default), or None.  The mask of the former is what the mode says."""
    try:
        u = conn.call(GETACL, Packer().opaque(fh).u32(ALL_OF_IT).done())
    except RpcError:                # it does not know the program
        return None
    if u.u32():
        return None
    get_post_attrs(u)
    u.u32()
    u.u32()
    access = entries(u, mode >> 3 & 7)
    u.u32()
    return access, entries(u)


def listing(nfs, fh):
    cookie, verifier = 0, bytes(8)
    while True:
        page = nfs.readdirplus(fh, cookie, verifier, maxcount=65536)
        yield from (e for e in page.entries if e.name not in (b".", b".."))
        if page.eof:
            return
        cookie, verifier = page.entries[-1].cookie, page.verifier


def hear(host, port, mount_port, export):
    with RpcConnection(host, port, 100003, 3) as conn, \
            RpcConnection(host, port, ACL_PROGRAM, 3) as acls:
        mount, nfs = Mount3(host, mount_port), Nfs3(conn)
        root, _ = mount.mnt(export)
        mount.close()
        attrs = nfs.getattr(root)
        said = {b"": Word(attrs, root, acl=ask_acl(acls, root, attrs.mode))}
        todo = [b""]
        while todo:
            where = todo.pop()
            for entry in listing(nfs, said[where].fh):
                path = os.path.join(where, entry.name)
                fh, attrs = nfs.lookup(said[where].fh, entry.name)
                word = said[path] = Word(attrs or nfs.getattr(fh), fh)
                if word.attrs.type == LNK:
                    word.target = nfs.readlink(fh)
                elif word.attrs.type in (DIR, REG):
                    word.acl = ask_acl(acls, fh, word.attrs.mode)
                if word.attrs.type == DIR:
                    todo.append(path)
    return said


def judge(said, new):
    """Of what the server says: what the new side has of it."""
    found = {name: Count() for name in ("atime", "symlinks", "links", "acls")}
    handles = Counter(word.fh for word in said.values())
    for path, is_ in walk(new, data=False).items():
        word = said.get(path)
        if not word:
            continue
        found["atime"].add(path, word.attrs.atime == is_.st.st_atime_ns)
        if word.target is not None:
            found["symlinks"].add(path, word.target == is_.target)
        if word.attrs.nlink > 1 and not stat.S_ISDIR(is_.st.st_mode):
            found["links"].add(path, handles[word.fh] == is_.st.st_nlink)
        if word.acl and any(word.acl):
            found["acls"].add(path, word.acl == is_.acl)
    return found
