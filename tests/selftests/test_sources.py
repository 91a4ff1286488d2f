# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/sources compares, promises and writes; no server is needed for it."""
import os
import shutil
import struct
import subprocess
from types import SimpleNamespace

import pytest

from lib import oldword, richtree, sourcetable, twotrees
from lib.guest import archive
from lib.oldservers import ROWS, of_smb
from lib.programs import TESTS
from lib.volume import LoopVolume


@pytest.fixture(scope="module")
def two(workdir):
    """The rich tree and a copy of it that `cp` has made, on file systems that have all of it."""
    with LoopVolume(workdir, "xfs", "1G", options="noatime", name="two-trees") as disk:
        for name in ("old", "new"):
            (disk.path / name).mkdir()
        richtree.build(disk.path / "old")
        subprocess.run(["cp", "-a", "--sparse=always", "%s/." % (disk.path / "old"),
                        str(disk.path / "new")], check=True)
        yield disk.path / "old", disk.path / "new"


def lost(found):
    return {name: count.paths for name, count in found.items() if count.of != count.kept}


def test_a_copy_has_all_but_what_copies_cannot_have(two):
    """Access times move when cp reads, and creation times are its own."""
    found = twotrees.compare(*two)
    assert not set(lost(found)) - {"atime", "creation_time"}, lost(found)
    assert all(count.of for count in found.values()), found
    assert found["creation_time"].kept == 0
    assert found["names"].of > 2000 and found["links"].of > 100
    assert (found["acls"].of, found["xattrs"].of, found["holes"].of) == (8, 8, 4)


def damage(at):
    yield "names", lambda: os.unlink(at / "crowd/entry-000007")
    yield "names", lambda: (at / "more").write_bytes(b"")
    yield "types", lambda: (os.unlink(at / "sizes/0"), os.mkdir(at / "sizes/0"))
    yield "sizes", lambda: os.truncate(at / "sizes/4097", 4096)
    yield "data", lambda: (at / "crowd/entry-000008").write_bytes(b"9\n")
    yield "modes", lambda: os.chmod(at / "crowd/entry-000009", 0o600)
    yield "owners", lambda: os.chown(at / "symlinks/odd", 1, 1, follow_symlinks=False)
    yield "mtime", lambda: os.utime(at / "deep", ns=(1, 1))
    yield "symlinks", lambda: (os.unlink(at / "symlinks/up"), os.symlink("x", at / "symlinks/up"))
    yield "acls", lambda: os.removexattr(at / "acls/user.d", richtree.DEFAULT)
    yield "xattrs", lambda: os.setxattr(at / "xattrs/one", "user.more", b"")
    yield "holes", lambda: (at / "holes/nothing").write_bytes(bytes(32 << 20))
    yield "links", lambda: shutil.copy2(os.rename(at / "links/many", at / "links/one")
                                        or at / "links/one", at / "links/many")


def test_each_difference_is_found(two):
    old, new = two
    missing = {}
    for name, spoil in damage(new):
        spoil()
        after = twotrees.compare(old, new, data=name == "data")[name]
        assert after.of - after.kept > missing.get(name, 0), (name, after)
        missing[name] = after.of - after.kept


def test_creation_times_are_those_of_samba(two):
    old, _new = two
    born = twotrees.born_of(os.fsencode(old / "deep"))
    value = struct.pack("<HHIIIQ", 0, 5, 5, 0x11, 0x10, born + twotrees.TICKS_1970)
    assert twotrees.born_by_samba(value) == born
    assert twotrees.born_by_samba(value[:-1]) is None
    assert twotrees.born_by_samba(value[:8] + bytes(4) + value[12:]) is None


def test_two_smb_clients():
    class Difference:
        def __init__(self, path, what):
            self.path, self.field = path, what

    found = of_smb([Difference("a", "dacl"), Difference("a", "owner"), Difference("b", "stream :s"),
                    Difference("c", "missing")], {"objects": 10})
    assert (found["acls"].of, found["acls"].kept) == (10, 9)
    assert found["streams"].kept == 9 and found["data"].kept == 10
    assert (found["names"].of, found["names"].kept) == (11, 10)


# -- the table --------------------------------------------------------------------------------

PROPERTIES = [
    {"property": "owner", "volume": "kept", "source": "seen"},
    {"property": "hard-links", "volume": "approximated", "source": "seen"},
    {"property": "btime", "volume": "lost", "source": "not offered"},
    {"property": "user-xattrs", "volume": "kept", "source": "seen"},
    {"property": "symlinks", "volume": "kept", "source": "not offered"},
    {"property": "nfs4-acl", "volume": "approximated", "source": "seen"},
    {"property": "mode", "volume": "approximated", "source": "seen"},
    {"property": "locks", "volume": "lost", "source": "not offered"},
]
LINE = {"server": "Linux nfsd", "version": "6.1", "protocol": "NFSv4.2", "file_system": "xfs",
        "objects": 7, "differences": 0,
        "kept": {"names": {"of": 7, "kept": 7}, "mtime": {"of": 7, "kept": 7},
                 "atime": {"of": 7, "kept": 6}, "acls": {"of": 3, "kept": 0},
                 "holes": {"of": 0, "kept": 0}}}


def test_promises():
    assert sourcetable.promised(PROPERTIES) == ["links", "owners", "xattrs"]


def test_the_table_goes_into_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n%s\nold\n%s\nafter\n" % (sourcetable.BEGIN, sourcetable.END))
    for _twice in range(2):
        row = sourcetable.write_table(page, [LINE]).splitlines()[2]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[:4] == ["Linux nfsd 6.1 on xfs", "NFSv4.2", "7", "0"]
        assert dict(zip(sourcetable.COLUMNS, cells[4:], strict=True)) == dict(
            dict.fromkeys(sourcetable.COLUMNS, "-"), names="all", mtime="13 of 14", acls="no")
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text


def test_what_came_as_it_was_told_has_a_mark():
    assert sourcetable.cells(dict(LINE, untrue=["atime", "acls"]))[2:6] == [
        "all", "-", "13 of 14*", "-"]
    assert sourcetable.cells(dict(LINE, untrue=["acls"]))[10] == "no*"


def test_the_line_of_who_is_refused():
    cells = sourcetable.cells(dict(LINE, refused="why", kept={}))
    assert cells[0] == "refused" and set(cells[1:]) == {"-"}
    assert len(cells) == len(sourcetable.cells(LINE))


def said(fh, **attrs):
    return oldword.Word(SimpleNamespace(type=1, mode=0o644, atime=0, **attrs), fh)


def test_a_server_is_taken_at_its_word(tmp_path):
    """Two names of a file: the same handle or not, and the time that it told."""
    (tmp_path / "a").write_bytes(b"x")
    os.link(tmp_path / "a", tmp_path / "b")
    os.utime(tmp_path / "a", ns=(0, 1))
    words = {b"a": said(b"1", nlink=2), b"b": said(b"1", nlink=2)}
    found = oldword.judge(words, tmp_path)
    assert (found["links"].of, found["links"].kept) == (2, 2)
    assert found["atime"].of == found["atime"].kept == 2
    words[b"b"].fh, words[b"a"].attrs.atime = b"2", 5
    found = oldword.judge(words, tmp_path)
    assert (found["links"].of, found["links"].kept) == (2, 0)
    assert (found["atime"].of, found["atime"].kept) == (2, 1)


def test_a_page_without_a_place_stays(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit):
        sourcetable.write_table(page, [LINE])
    assert page.read_text() == "nothing\n"


def test_our_page_has_a_place():
    text = (TESTS.parent / "docs/sources.md").read_text()
    assert text.index(sourcetable.BEGIN) < text.index(sourcetable.END)


# -- the command and the guest ------------------------------------------------------------------

def test_rows_are_told_apart():
    done = subprocess.run([str(TESTS / "sources"), "--list"], capture_output=True, text=True,
                          check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ROWS)
    done = subprocess.run([str(TESTS / "sources"), "--only", "nothing"], capture_output=True,
                          text=True)
    assert done.returncode != 0 and "no row nothing" in done.stderr


def unpacked(data):
    """{path: (mode, bytes)} of an archive, by the words of the kernel's initramfs documentation."""
    found, at = {}, 0
    while True:
        assert data[at:at + 6] == b"070701" and at % 4 == 0
        fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110:at + 110 + fields[11] - 1].decode()
        at = (at + 110 + fields[11] + 3) & ~3
        if name == "TRAILER!!!":
            return found
        assert name not in found and os.path.dirname(name) in {"", *found}
        found[name] = (fields[1], data[at:at + fields[6]])
        at = (at + fields[6] + 3) & ~3


def test_the_kernel_can_unpack_it():
    data = archive({"init": (0o755, b"#!/bin/sh\n"), "a/b/c": (0o644, b"12345")}, [("a/l", "b/c")])
    assert unpacked(data) == {"init": (0o100755, b"#!/bin/sh\n"), "a": (0o40755, b""),
                              "a/b": (0o40755, b""), "a/b/c": (0o100644, b"12345"),
                              "a/l": (0o120777, b"b/c")}
