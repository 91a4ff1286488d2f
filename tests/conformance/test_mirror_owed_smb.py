# SPDX-License-Identifier: GPL-3.0-or-later
"""What SMB clients change of a volume with a mirror is owed to it before (docs/decisions/0080):
stubs, normal objects and those of a complete volume; in an orderly way, while it is frozen, and
when a server is killed.  Nothing that they look at is owed."""
import contextlib
import json
import os
import struct
import subprocess
import threading

import pytest

from lib.case import BLOCK, SIZE
from lib.migration import SmbMigration
from lib.programs import BUILD
from lib.smb import ALL, UNIX, explore, smb_time
from lib.smbd import STACK, Share
from lib.smbtree import descriptor
from lib.wait import wait_until
from lib.world import SmbWorld
from smb2client import SmbError, wire

OWED = BUILD / "tests" / "tools" / "owed"
STATES = ("stub", "normal", "complete")
READS = wire.READ_DATA | wire.READ_ATTRIBUTES | wire.READ_EA | wire.READ_CONTROL | wire.SYNCHRONIZE
OWNER = ALL | wire.READ_CONTROL | wire.DELETE | wire.WRITE_DAC | wire.WRITE_OWNER
ROUNDS = 12             # of killed servers


def owed_tool(command, volume):
    done = subprocess.run([str(OWED), command, str(volume)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class MirroredMigration(SmbMigration):
    def init(self, *args, **kw):
        super().init(*args, **kw)
        owed_tool("make", self.volume)
        return self


class MirroredWorld(SmbWorld):
    KIND = MirroredMigration

    def owed(self):
        """{inode number, or handle of what is gone: what is owed of it}"""
        return {o.get("ino", o.get("handle")): o["what"] for o in owed_tool("list", self.volume)}

    def drained(self):
        """The mirror has everything: nothing is in flight that holds anything back."""
        return owed_tool("strike", self.volume) == []


@contextlib.contextmanager
def a_world(home, volume, rpcshim, complete, **options):
    volume.mkdir()
    w = MirroredWorld(home, volume, rpcshim, **options)
    w.finished = True           # what is changed here has no model
    with w:
        if complete:
            w.m.crawl()
            wait_until(lambda: w.m.status()["state"] == "complete", 60, "the end")
        yield w


@pytest.fixture(scope="module")
def worlds(moddir, loop_xfs, rpcshim):
    """One that is being filled, and a complete one; begun when they are asked for."""
    with contextlib.ExitStack() as stack:
        made = {}

        def world(complete):
            name = "complete" if complete else "filling"
            if name not in made:
                made[name] = stack.enter_context(a_world(
                    moddir / name, loop_xfs.path / name, rpcshim, complete,
                    more="aio write size = 1"))
                add_ways(made[name])
            return made[name]

        yield world


# other shares of the same volume
WAYS = {
    "sync": (STACK, "aio write size = 0"),
    "strict": (STACK, "strict allocate = yes"),
    "recvfile": (STACK, "aio write size = 0\nstrict locking = no"),
    "depot": (("streams_depot", "stub"), ""),
    "first": (("stub", "acl_xattr", "streams_xattr"), ""),
}
CONF = "min receivefile size = 4096\nserver signing = disabled"


def add_ways(world):
    world.smbd.conf = CONF
    world.smbd.shares += [Share(str(world.volume), name=name, vfs=stack, more=more)
                          for name, (stack, more) in WAYS.items()]
    world.smbd.restart()


FILES, DIRS = ("f", "g"), ("d", "e")


class Ground:
    """A directory with the files f and g and the directories d (with x) and e, in one state."""

    def __init__(self, world, state):
        self.world, self.state = world, state
        self.top = world.dir()
        node = world.node(self.top)
        for name in FILES:
            world.file(self.top + "/" + name)
        for name in DIRS:
            world.tree.mkdir(node, name.encode(), mode=0o777)
        world.file(self.top + "/d/x")
        self.held = []

    @property
    def path(self):
        return self.world.volume / self.top

    def make(self, client):
        if self.state == "complete":
            self.path.mkdir(mode=0o777)
            for name in DIRS:
                (self.path / name).mkdir(mode=0o777)
            for name in (*FILES, "d/x"):
                (self.path / name).write_bytes(b"o" * SIZE)
        else:
            for name in ("", *DIRS):
                client.names(self.name(name))
            for name in (*FILES, "d/x") if self.state == "normal" else ():
                self.world.fill(self.name(name))
            if self.state == "stub":
                assert self.world.show(self.name("f"))["stub"]
        # what is removed can still be told by its inode number
        self.held = [os.open(self.path / name, os.O_PATH | os.O_NOFOLLOW)
                     for name in ("", *FILES, *DIRS)]
        self.inode = {name: os.fstat(fd).st_ino
                      for name, fd in zip(("", *FILES, *DIRS), self.held)}
        wait_until(self.world.drained, 60, "the mirror's peace")
        return self

    def close(self):
        for fd in self.held:
            os.close(fd)

    def name(self, name):
        return self.top + "/" + name if name else self.top

    def owed(self):
        """{name: what} of those that were there before."""
        owed = self.world.owed()
        return {name: owed[ino] for name, ino in self.inode.items() if ino in owed}

    def seen(self):
        """All that a change could change, with the bytes that are here; what is copied from comes
        over by that, which is no change."""
        filled, found = self.path / "g" if self.state == "stub" else None, {}
        for path in (self.path, *sorted(self.path.rglob("*"))):
            st = os.lstat(path)
            xattrs = {key: os.getxattr(path, key, follow_symlinks=False)
                      for key in os.listxattr(path, follow_symlinks=False)
                      if not key.startswith("trusted.postcopy")}
            found[str(path)] = (st.st_ino, st.st_mode, st.st_uid, st.st_nlink,
                                st.st_size if path.is_file() else 0, st.st_mtime_ns, xattrs,
                                path.read_bytes() if path.is_file() and path != filled else 0)
        return found


@pytest.fixture(params=STATES)
def ground(request, worlds):
    world = worlds(request.param == "complete")
    with world.smbd.client() as c:
        g = Ground(world, request.param).make(c)
        try:
            yield g
        finally:
            g.close()


@pytest.fixture
def smb(ground):
    with ground.world.smbd.client() as c:
        yield c


# ---- operations: what a client does, and what it owes -----------------------------------------

def opened(ground, smb, name="f", access=OWNER, disposition=wire.OPEN, **options):
    return smb.open(ground.name(name), access, disposition, **options)


def with_open(act, **options):
    def do(ground, smb):
        with opened(ground, smb, **options) as f:
            act(f)
    return do


def copy_chunks(ground, smb):
    with opened(ground, smb, "g", READS) as g, opened(ground, smb) as f:
        f.copy_chunks(g, [(0, 100, 2 * BLOCK)])


def duplicate(ground, smb):
    with opened(ground, smb, "g", READS) as g, opened(ground, smb) as f:
        with contextlib.suppress(SmbError):     # it is refused where there are stubs
            f.ioctl(wire.FSCTL_DUP_EXTENTS, g.id + struct.pack("<QQQ", 0, 0, BLOCK))
        f.write(0, b"and written")


def rename(old, new, replace=False):
    return lambda ground, smb: smb.rename(ground.name(old), ground.name(new), replace)


def make_file(ground, smb):
    opened(ground, smb, "new", disposition=wire.CREATE_NEW).close()


def remove_stream(ground, smb):
    smb.write_file(ground.name("f") + ":s", b"stream")
    assert ground.world.drained()
    smb.remove(ground.name("f") + ":s")


ACL = "D:P(A;;0x1f01ff;;;WD)(A;;FR;;;{bob})"
OPERATIONS = {
    "write": (with_open(lambda f: f.write(BLOCK, b"new")), {"f": "DA"}),
    "append": (with_open(lambda f: f.write(SIZE, b"new")), {"f": "DA"}),
    "cut": (with_open(lambda f: f.truncate(10)), {"f": "DA"}),
    "extend": (with_open(lambda f: f.truncate(2 * SIZE)), {"f": "DA"}),
    "punch": (with_open(lambda f: f.zero(100, 3 * BLOCK)), {"f": "DA"}),
    "copy": (copy_chunks, {"f": "DA"}),
    "duplicate": (duplicate, {"f": "DA"}),
    "overwrite": (lambda g, c: opened(g, c, disposition=wire.OVERWRITE).close(), {"f": "DA"}),
    "supersede": (lambda g, c: opened(g, c, disposition=wire.SUPERSEDE).close(), {"f": "DA"}),
    "times": (with_open(lambda f: f.set_basic(written=smb_time(77 * UNIX * 100))), {"f": "A"}),
    "attributes": (with_open(lambda f: f.set_basic(attributes=wire.ATTR_HIDDEN)), {"f": "A"}),
    "sparse": (with_open(lambda f: f.ioctl(wire.FSCTL_SET_SPARSE)), {"f": "A"}),
    "ea": (with_open(lambda f: f.set_ea(b"name", b"value")), {"f": "A"}),
    "acl": (with_open(lambda f: f.set_security(descriptor(ACL))), {"f": "A"}),
    "owner": (with_open(lambda f: f.set_security(descriptor("O:{alice}"), wire.OWNER)), {"f": "A"}),
    "acl of a directory": (with_open(lambda f: f.set_security(descriptor(ACL)), name="d"),
                           {"d": "A"}),
    "stream": (lambda g, c: c.write_file(g.name("f") + ":s", b"stream"), {"f": "A"}),
    "remove a stream": (remove_stream, {"f": "A"}),
    "create": (make_file, {"": "NA"}),
    "mkdir": (lambda g, c: c.mkdir(g.name("new")), {"": "NA"}),
    "mkdir below": (lambda g, c: c.mkdir(g.name("d/new")), {"d": "NA"}),
    "link": (with_open(lambda f: f.link(f.path + "-too")), {"": "NA", "f": "A"}),
    "remove": (lambda g, c: c.remove(g.name("f")), {"": "NA", "f": "A"}),
    "rmdir": (lambda g, c: c.remove(g.name("e")), {"": "NA", "e": "A"}),
    "rename": (rename("f", "h"), {"": "NA", "f": "A"}),
    "move": (rename("f", "d/f"), {"": "NA", "d": "NA", "f": "A"}),
    "replace": (rename("f", "g", True), {"": "NA", "f": "A", "g": "A"}),
    "move a directory": (rename("e", "d/e"), {"": "NA", "d": "NA", "e": "A"}),
}
# smbd tries these again, for about a minute, before it tells the client
TRIED_AGAIN = {"create": ("new", {"": "NA"}), "stream": ("f:s", {"f": "A"})}


def check_owed(ground, want):
    owed = ground.owed()
    missing = {name: bits for name, bits in want.items()
               if not set(bits) <= set(owed.get(name, ""))}
    assert not missing, (owed, ground.world.owed())
    assert set(owed) == set(want), owed
    assert ground.world.drained(), "something is in flight for ever"


@pytest.mark.parametrize("what", OPERATIONS)
def test_owed(ground, smb, what):
    do, want = OPERATIONS[what]
    do(ground, smb)
    check_owed(ground, want)


def reserve(f):
    f.set(wire.INFO_FILE, wire.ALLOCATION, struct.pack("<q", 3 * SIZE))


IN_OTHER_WAYS = {
    "write": ("sync", with_open(lambda f: f.write(BLOCK, b"new")), {"f": "DA"}),
    "reserve": ("strict", with_open(reserve), {"f": "DA"}),
    "extend": ("strict", with_open(lambda f: f.truncate(2 * SIZE)), {"f": "DA"}),
    "receive": ("recvfile", with_open(lambda f: f.write(0, b"n" * 50000)), {"f": "DA"}),
    "acl": ("first", with_open(lambda f: f.set_security(descriptor(ACL))), {"f": "A"}),
}


@pytest.mark.parametrize("what", IN_OTHER_WAYS)
def test_owed_in_other_ways(ground, what):
    way, do, want = IN_OTHER_WAYS[what]
    with ground.world.smbd.client(share=way) as c:
        do(ground, c)
        check_owed(ground, want)


def below(top):
    """{inode number: is it a directory}"""
    return {os.lstat(os.path.join(where, name)).st_ino: name in dirs
            for where, dirs, files in os.walk(top) for name in dirs + files}


def test_streams_in_files(ground):
    """Those of streams_depot are files like others, in directories of their own."""
    depot = ground.world.volume / ".streams"
    stream = ground.name("f") + ":s"
    with ground.world.smbd.client(share="depot") as c:
        before = below(depot)
        with c.open(stream, ALL, wire.CREATE_NEW) as f:
            f.write(0, b"stream")
            owed = ground.world.owed()
            made = {ino: is_dir for ino, is_dir in below(depot).items() if ino not in before}
            file, = (ino for ino, is_dir in made.items() if not is_dir)
            assert owed[file] == "DA", owed
            parent = next(os.stat(where).st_ino for where, _, files in os.walk(depot)
                          for name in files if os.lstat(os.path.join(where, name)).st_ino == file)
            assert set("NA") <= set(owed[parent]), owed
            for do in (lambda: f.write(3, b"again"), lambda: f.truncate(2)):
                wait_until(ground.world.drained, 60, "the mirror's peace")
                do()
                assert ground.world.owed()[file] == "DA"
        c.open(stream, ALL, wire.OVERWRITE).close()
        assert ground.world.owed()[file] == "DA"
        wait_until(ground.world.drained, 60, "the mirror's peace")
        c.remove(stream)
        assert set("NA") <= set(ground.world.owed()[parent])
        assert ground.world.drained()


def test_looking_owes_nothing(ground, smb):
    explore(smb, ground.top)
    for name in ("f", "g", "d/x"):
        smb.read_file(ground.name(name))
        smb.security(ground.name(name))
        smb.streams(ground.name(name))
    with opened(ground, smb, "f") as f:     # to be written, but it is not
        f.lock(0, 10)
        f.read(0, 10)
        f.flush()
        f.allocated_ranges(0, SIZE)
        with contextlib.suppress(SmbError):
            f.ioctl(wire.FSCTL_GET_REPARSE)
    with opened(ground, smb, "e", READS) as d:
        d.list()
    for name in ("none", "d/none"):
        with pytest.raises(SmbError):
            opened(ground, smb, name)
    assert ground.world.owed() == {}


# ---- frozen ----------------------------------------------------------------------------------

@pytest.fixture
def frozen(ground):
    owed_tool("freeze", ground.world.volume)
    yield ground
    with contextlib.suppress(AssertionError):
        owed_tool("thaw", ground.world.volume)


def look(ground, smb):
    assert {"d", "e", "f", "g"} <= set(smb.names(ground.top))
    assert len(smb.read_file(ground.name("g"))) == SIZE


@pytest.mark.parametrize("what", [what for what in OPERATIONS if what not in TRIED_AGAIN and
                                  what != "remove a stream"])
def test_frozen(frozen, smb, what):
    """Each change is refused and changes nothing; reading goes on."""
    before = frozen.seen()
    with pytest.raises(SmbError):
        OPERATIONS[what][0](frozen, smb)
    assert frozen.seen() == before
    assert frozen.world.owed() == {}
    look(frozen, smb)


@pytest.mark.parametrize("what", TRIED_AGAIN)
def test_frozen_and_tried_again(frozen, smb, what):
    """It comes after the thaw."""
    name, want = TRIED_AGAIN[what]
    before = frozen.seen()
    sent = smb.send_open(frozen.name(name), ALL, wire.CREATE_NEW)
    look(frozen, smb)
    assert frozen.seen() == before
    assert frozen.world.owed() == {}
    owed_tool("thaw", frozen.world.volume)
    smb.finish_open(sent, frozen.name(name)).close()
    check_owed(frozen, want)


def test_frozen_receives_nothing(frozen):
    """What comes by the socket is taken off it, or the connection would be lost."""
    before = frozen.seen()
    with frozen.world.smbd.client(share="recvfile") as c:
        with opened(frozen, c) as f:
            with pytest.raises(SmbError):
                f.write(0, b"n" * 300000)
            assert frozen.seen() == before
            owed_tool("thaw", frozen.world.volume)
            f.write(0, b"n" * 300000)
        assert (frozen.path / "f").read_bytes()[:300000] == b"n" * 300000
        check_owed(frozen, {"f": "DA"})


# ---- killed ----------------------------------------------------------------------------------

def test_killed_while_it_writes(ground):
    """Whatever the server was about when it died: what differs is owed, and is so until a
    replicator has looked at it again."""
    world = ground.world
    names = ["w%d" % i for i in range(24)]
    for i in range(ROUNDS):
        for name in names:
            (ground.path / name).write_bytes(b"o" * 10)
        assert world.drained()
        client = world.smbd.client()
        files = [client.open(ground.name(name), ALL) for name in names]
        assert world.owed() == {}
        pid = world.smbd.pid_of(client)
        killer = threading.Timer(0.002 * i, lambda: os.kill(pid, 9))
        killer.start()
        with contextlib.suppress(OSError, SmbError, wire.Gone):
            for f in files:
                f.send_write(0, b"n" * 20)
            for f in files:
                f.write(0, b"n" * 20)
        killer.join()
        wait_until(lambda: not os.path.exists("/proc/%d" % pid), 60, "death")
        owed = world.owed()
        for name in names:
            st = os.stat(ground.path / name)
            if (ground.path / name).read_bytes() != b"o" * 10:
                assert owed.get(st.st_ino) == "DA", (i, name, owed)
        with contextlib.suppress(OSError, SmbError, wire.Gone):
            client.close()
        wait_until(world.drained, 60, "the burial")
