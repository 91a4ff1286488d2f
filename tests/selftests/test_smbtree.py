# SPDX-License-Identifier: GPL-3.0-or-later
"""The old SMB server's tree, and that the comparer finds every kind of difference."""
import os
import subprocess

import pytest

from lib import smbd, smbtree
from lib.smbtree import Builder, compare, descriptor, pattern
from smb2client import wire
from samba.dcerpc import security
from samba.ndr import ndr_unpack


@pytest.fixture(scope="module")
def top(loop_xfs):
    return loop_xfs.path


@pytest.fixture(scope="module")
def server(new_samba, top):
    for name in ("old", "new"):
        (top / name).mkdir()
        (top / name).chmod(0o777)
    return new_samba("both", shares=[
        smbd.Share(str(top / name), name, more=smbtree.RAW_NAMES) for name in ("old", "new")])


@pytest.fixture(scope="module")
def old(server):
    with server.client("root", "old") as c:
        Builder(c, entries=20, deep=5).build()
        yield c


@pytest.fixture
def new(server, old, top):
    """A copy of the old tree, as it stands on the disk."""
    subprocess.run("cp -a --preserve=all old/. new/", shell=True, cwd=top, check=True)
    with server.client("root", "new") as c:
        yield c
    subprocess.run(["find", top / "new", "-mindepth", "1", "-delete"], check=True)


def found(old, new, **options):
    return [(d.path, d.field) for d in compare(old, new, **options)]


# -- the tree ------------------------------------------------------------------------

def test_the_tree_is_what_it_says(old):
    """What was set is what the server shows; otherwise its kinds would test nothing."""
    assert set(old.names("names")) == {*smbtree.NAMES, "dir."}
    assert len(old.names("many")) == 20
    for name, streams in smbtree.STREAMS.items():
        shown = old.streams("streams/" + name)
        assert {":%s:$DATA" % s: size for s, size in streams.items()}.items() <= shown.items()
        for stream, size in streams.items():
            assert old.read_file("streams/%s:%s" % (name, stream)) == pattern(size, size)
    for size in smbtree.SIZES:
        assert old.stat("sizes/%d" % size).size == size
    for name, (created, written) in smbtree.TIMES.items():
        for kind in ("file-", "dir-"):
            info = old.stat("times/" + kind + name)
            assert (info.created, info.written) == (created, written), name
    assert old.stat("attributes/file-rhsa").attributes == 0x27
    assert old.stat("attributes/dir-rhsa").attributes == 0x37
    assert old.stat("attributes/file-").attributes == wire.ATTR_NORMAL


@pytest.mark.parametrize("name", sorted(smbtree.DESCRIPTORS))
def test_descriptors_are_kept(old, name):
    want = ndr_unpack(security.descriptor, descriptor(smbtree.DESCRIPTORS[name]))
    got = ndr_unpack(security.descriptor, old.security("descriptors/" + name, smbtree.WHOLE))
    for part in ("dacl", "sacl"):
        if getattr(want, part):
            aces = [[(a.type, a.flags, str(a.trustee)) for a in getattr(d, part).aces]
                    for d in (want, got)]
            assert aces[0] == aces[1]
    for protected in (security.SEC_DESC_DACL_PROTECTED, security.SEC_DESC_SACL_PROTECTED):
        assert want.type & protected == got.type & protected
    for part in ("owner_sid", "group_sid"):
        assert getattr(want, part) in (None, getattr(got, part))


def test_inheritance_is_there(old):
    """The old server passed descriptors on: entries say that they are inherited."""
    flags = {name: [a.flags for a in ndr_unpack(security.descriptor,
                                                old.security("inherit/" + name)).dacl.aces]
             for name in ("file", "dir", "dir/file", "own", "both")}
    inherited = security.SEC_ACE_FLAG_INHERITED_ACE
    for name in ("file", "dir", "dir/file"):
        assert flags[name] and all(f & inherited for f in flags[name]), name
    assert not any(f & inherited for f in flags["own"])
    assert [bool(f & inherited) for f in flags["both"]] == [False, True]


def test_a_large_descriptor(old):
    assert 56 * 1024 < len(old.security("descriptors/large")) < 64 * 1024


# -- the comparer --------------------------------------------------------------------

def test_a_copy_does_not_differ(old, new):
    counts = {}
    assert found(old, new, counts=counts) == []
    assert counts["objects"] > 150 and counts["bytes"] > 4 << 20


def basic(path, **values):
    def change(client, _):
        with client.open(path, wire.WRITE_ATTRIBUTES) as f:
            f.set_basic(**values)
    return change


def data(path, offset, value):
    """Bytes change, and nothing else: behind the server's back."""
    def change(_, top):
        st = os.stat(top / path)
        with open(top / path, "r+b") as f:
            f.seek(offset)
            f.write(value)
        os.utime(top / path, ns=(st.st_atime_ns, st.st_mtime_ns))
    return change


def secure(path, sddl, parts=None):
    def change(client, _):
        raw = descriptor(sddl)
        client.set_security(path, raw, parts or smbtree.parts_of(raw))
    return change


def size(path, value):
    def change(_, top):
        st = os.stat(top / path)
        os.truncate(top / path, value)
        os.utime(top / path, ns=(st.st_atime_ns, st.st_mtime_ns))
    return change


def xattr(path, name, value):
    return lambda _, top: os.setxattr(top / path, name, value)


def stream(path, value):
    """A stream changes; the file's own write time stays."""
    def change(client, top):
        main = path.split(":")[0]
        before = client.stat(main).written
        if value is None:
            client.remove(path)
        else:
            client.write_file(path, value)
        basic(main, written=before)(client, top)
    return change


def extra(path):
    def change(client, top):
        before = client.stat(os.path.dirname(path)).written
        client.write_file(path, b"")
        basic(os.path.dirname(path), written=before)(client, top)
    return change


def missing(path):
    def change(client, top):
        before = client.stat(os.path.dirname(path)).written
        client.remove(path)
        basic(os.path.dirname(path), written=before)(client, top)
    return change


def other_type(path):
    def change(client, top):
        before, parent = client.stat(path), client.stat(os.path.dirname(path)).written
        raw = client.security(path, smbtree.WHOLE)
        client.remove(path)
        client.mkdir(path)
        client.set_security(path, raw, smbtree.WHOLE)
        basic(path, created=before.created, written=before.written)(client, top)
        basic(os.path.dirname(path), written=parent)(client, top)
    return change


ALICE = "D:P(A;;FA;;;{alice})(A;;FR;;;{bob})"
CHANGES = {
    "one byte of data": (data("sizes/65537", 65536, b"\1"), "sizes/65537", {"data"}),
    "zeros for data": (data("sizes/65536", 4096, bytes(4096)), "sizes/65536", {"data"}),
    "shorter": (size("sizes/4096", 4095), "sizes/4096", {"size", "data"}),
    "longer by zeros": (size("sizes/511", 512), "sizes/511", {"size", "data"}),
    "write time by 100 ns": (basic("times/file-100ns", written=smbtree.TIMES["100ns"][1] + 1),
                             "times/file-100ns", {"written"}),
    "a directory's write time": (basic("times/dir-1970", written=smbtree.EPOCH),
                                 "times/dir-1970", {"written"}),
    "creation time by 100 ns": (basic("times/file-1960", created=smbtree.TIMES["1960"][0] - 1),
                                "times/file-1960", {"created"}),
    "hidden": (basic("attributes/file-ra", attributes=0x23), "attributes/file-ra",
               {"attributes"}),
    "not read-only": (basic("attributes/dir-r", attributes=0x10), "attributes/dir-r",
                      {"attributes"}),
    "a stream's byte": (stream("streams/several:b", pattern(4096, 4096)[:-1] + b"?"),
                        "streams/several", {"stream :b:$DATA"}),
    "a stream too few": (stream("streams/several:a", None), "streams/several", {"streams"}),
    "a stream too many": (stream("sizes/1:new", b""), "sizes/1", {"streams"}),
    "a directory's stream": (stream("streams/dir:of a directory", b"x"), "streams/dir",
                             {"stream :of a directory:$DATA"}),
    "an EA's byte": (xattr("eas/binary", "user.binary", bytes(255) + b"?"), "eas/binary",
                     {"eas"}),
    "an EA too many": (xattr("eas/text", "user.more", b"1"), "eas/text", {"eas"}),
    "owner": (secure("descriptors/protected", "O:{carol}"), "descriptors/protected", {"owner"}),
    "group": (secure("descriptors/protected", "G:S-1-22-2-70003"), "descriptors/protected",
              {"group"}),
    "an entry too few": (secure("descriptors/protected", "D:P(A;;FA;;;{alice})"),
                         "descriptors/protected", {"dacl"}),
    "entries' order": (secure("descriptors/protected", "D:P(A;;FR;;;{bob})(A;;FA;;;{alice})"),
                       "descriptors/protected", {"dacl"}),
    "an unknown SID": (secure("descriptors/unknown-only", "D:P(A;;FR;;;{nobody}-1004)"),
                       "descriptors/unknown-only", {"dacl"}),
    "not protected": (secure("descriptors/dir-protected", ALICE.replace("D:P", "D:")),
                      "descriptors/dir-protected", {"control"}),
    "an auditing entry too few": (
        secure("descriptors/audit", "D:(A;;FA;;;{alice})S:(AU;SA;FA;;;WD)"),
        "descriptors/audit", {"sacl"}),
    "auditing protected": (
        secure("descriptors/audit",
               smbtree.DESCRIPTORS["audit"].replace("S:", "S:P")),
        "descriptors/audit", {"control"}),
    "a name too many": (extra("names/more"), "names/more", {"extra"}),
    "a name too few": (missing("names/COM1"), "names/COM1", {"missing"}),
    "a directory for a file": (other_type("sizes/0"), "sizes/0",
                             {"type", "data", "streams", "attributes"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_difference_is_found(old, new, top, name):
    """The one that was made, and nothing else."""
    change, path, fields = CHANGES[name]
    change(new, top / "new")
    seen = list(compare(old, new))
    assert {d.path for d in seen} == {path}, "\n".join(map(str, seen))
    assert {d.field for d in seen} == fields, "\n".join(map(str, seen))


def test_what_cannot_be_read_is_told(server, old, new):
    """Seen by one who may read it on the one side only."""
    secure("sizes", "D:P(A;;FA;;;{alice})")(new, None)
    with server.client("root", "old") as was, server.client("bob", "new") as is_:
        seen = list(compare(was, is_, data=False))
    assert {d.field for d in seen} == {"error"} and "PRIVILEGE_NOT_HELD" in str(seen[0])


def test_offline_is_fine_only_while_migrating(server, old, new_samba, top):
    """The module "offline" shows the attribute on every file."""
    subprocess.run("cp -a --preserve=all old/. new/", shell=True, cwd=top, check=True)
    other = new_samba("offline", str(top / "new"), vfs=("offline", *smbd.STOCK),
                      more=smbtree.RAW_NAMES)
    with other.client("root") as new:
        assert found(old, new, migrating=True) == []
        assert {f for _, f in found(old, new)} == {"attributes"}
    subprocess.run(["find", top / "new", "-mindepth", "1", "-delete"], check=True)
