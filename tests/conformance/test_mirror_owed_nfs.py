# SPDX-License-Identifier: GPL-3.0-or-later
"""What NFS clients change of a volume with a mirror is owed to it before (docs/decisions/0080):
stubs, normal objects and those of a complete volume; in an orderly way, while it is frozen, and
when the server is killed.  Nothing that they look at is owed."""
import contextlib
import itertools
import json
import os
import random
import stat
import subprocess
import threading

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, status_of
from lib.migration import Migration
from lib.programs import BUILD
from lib.wait import wait_until
from lib.world import NfsWorld
from nfsclient import NfsError, RpcError, errors
from nfsclient.nfs4 import UNCHECKED4
from nfsclient.nfstypes import FIFO, UNSTABLE, SetAttrs

OWED = BUILD / "tests" / "tools" / "owed"
STATES = ("stub", "normal", "complete")
PROTOCOLS = ("v3", "v4.0", "v4.2")
ROUNDS = 8              # of killed servers
WRITERS = 4


def owed_tool(command, volume):
    done = subprocess.run([str(OWED), command, str(volume)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class MirroredMigration(Migration):
    def init(self, *args, **kw):
        super().init(*args, **kw)
        owed_tool("make", self.volume)
        return self


class MirroredWorld(NfsWorld):
    KIND = MirroredMigration

    def owed(self):
        """{inode number, or handle of what is gone: what is owed of it}"""
        return {o.get("ino", o.get("handle")): o["what"] for o in owed_tool("list", self.volume)}

    def drained(self):
        """The mirror has everything: nothing is in flight that holds anything back."""
        return owed_tool("strike", self.volume) == []


@contextlib.contextmanager
def a_world(home, volume, rpcshim, complete):
    volume.mkdir()
    w = MirroredWorld(home, volume, rpcshim, attr_cache=0)
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
                    moddir / name, loop_xfs.path / name, rpcshim, complete))
            return made[name]

        yield world


FILES, DIRS = ("f", "g"), ("d", "e")


class Ground:
    """A directory with the files f and g and the directories d (with x) and e, in one state."""

    def __init__(self, world, state):
        self.world, self.state = world, state
        if state == "complete":
            self.top = "c%03d" % next(world._number)
            self._make()
        else:
            case = world.case(state)
            case.free = True
            self.top = case.name
            for name in DIRS:
                case.dir(name)
            for name in (*FILES, "d/x"):
                case.file(name)
            for name in ("", *DIRS):
                case.list(name)
            case.enter({"stub": "partial"}.get(state, state), *FILES, "d/x")
            assert world.show(self.name("f"))["stub"] == (state == "stub")
        # what is removed can still be told by its inode number
        self.held = [os.open(self.path / name, os.O_PATH | os.O_NOFOLLOW)
                     for name in ("", *FILES, *DIRS)]
        self.inode = {name: os.fstat(fd).st_ino
                      for name, fd in zip(("", *FILES, *DIRS), self.held)}
        world.settle()
        self.rest()

    def _make(self):
        self.path.mkdir()
        for name in DIRS:
            (self.path / name).mkdir()
        for name in (*FILES, "d/x"):
            (self.path / name).write_bytes(b"o" * SIZE)

    def rest(self):
        wait_until(self.world.drained, 60, "the mirror's peace")

    def close(self):
        for fd in self.held:
            os.close(fd)

    @property
    def path(self):
        return self.world.volume / self.top

    def name(self, name=""):
        return self.top + "/" + name if name else self.top

    def owed(self):
        """{name: what} of those that were there before."""
        owed = self.world.owed()
        return {name: owed[ino] for name, ino in self.inode.items() if ino in owed}

    def seen(self):
        """{inode number: all that a change could change, by what is owed then}"""
        found = {}
        for path in (self.path, *sorted(self.path.rglob("*"))):
            st = os.lstat(path)
            is_dir = stat.S_ISDIR(st.st_mode)
            found[st.st_ino] = {
                "A": (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns),
                "D": path.read_bytes() if stat.S_ISREG(st.st_mode) else None,
                "N": {e.name: e.inode() for e in os.scandir(path)} if is_dir else None,
            }
        return found


@pytest.fixture(params=STATES)
def ground(request, worlds):
    g = Ground(worlds(request.param == "complete"), request.param)
    yield g
    g.close()


@pytest.fixture(params=PROTOCOLS)
def nfs(request, ground):
    """A client that hears each DELAY."""
    with contextlib.closing(ground.world.m.client(request.param)) as c:
        yield c


# ---- operations: what a client does, and what it owes -----------------------------------------

def on(name, act):
    return lambda g, c: act(c, g.name(name))


def with_open(act):
    def do(g, c):
        with c.opened(g.name("f"), write=True) as f:
            act(c, f)
    return do


def open_to_truncate(g, c):
    f = c.open(g.name("f"), write=True, how=(UNCHECKED4, SetAttrs(size=0), None))
    c.close_file(f)


def create(how):
    return lambda g, c: c.create(g.name("new"), how=how, verifier=b"verifier", mode=0o640)


def rename(old, new):
    return lambda g, c: c.rename(g.name(old), g.name(new))


DATA, ATTRS, NAMES = {"f": "DA"}, {"f": "A"}, {"": "NA"}
ANY, V4, V42 = PROTOCOLS, PROTOCOLS[1:], PROTOCOLS[2:]
OPERATIONS = {
    "write": (ANY, on("f", lambda c, f: c.write(f, BLOCK, b"new")), DATA),
    "write unstable": (ANY, on("f", lambda c, f: c.write(f, BLOCK, b"new", UNSTABLE)), DATA),
    "write to an open file": (ANY, with_open(lambda c, f: c.write(f, 10, b"new")), DATA),
    "append": (ANY, on("f", lambda c, f: c.write(f, SIZE, b"new")), DATA),
    "cut": (ANY, on("f", lambda c, f: c.setattr(f, size=10)), DATA),
    "cut an open file": (V4, with_open(lambda c, f: c.resize(f, 10)), DATA),
    "extend": (ANY, on("f", lambda c, f: c.setattr(f, size=2 * SIZE)), DATA),
    "open to truncate": (V4, open_to_truncate, DATA),
    "create what is there, empty": (ANY, on("f", lambda c, f: c.create(f, size=0)), DATA),
    "punch": (V42, with_open(lambda c, f: c.deallocate(f, 100, 3 * BLOCK)), DATA),
    "reserve": (V42, with_open(lambda c, f: c.allocate(f, SIZE, BLOCK)), DATA),
    "mode": (ANY, on("f", lambda c, f: c.setattr(f, mode=0o604)), ATTRS),
    "owner": (ANY, on("f", lambda c, f: c.setattr(f, uid=77, gid=78)), ATTRS),
    "times": (ANY, on("f", lambda c, f: c.setattr(f, atime=10 ** 18, mtime=10 ** 18)), ATTRS),
    "mode of a directory": (ANY, on("d", lambda c, d: c.setattr(d, mode=0o711)), {"d": "A"}),
    "create": (ANY, create("unchecked"), NAMES),
    "create guarded": (ANY, create("guarded"), NAMES),
    "create exclusive": (ANY, create("exclusive"), NAMES),
    "mkdir": (ANY, on("new", lambda c, n: c.mkdir(n)), NAMES),
    "mkdir below": (ANY, on("d/new", lambda c, n: c.mkdir(n)), {"d": "NA"}),
    "symlink": (ANY, on("new", lambda c, n: c.symlink(n, "to")), NAMES),
    "mknod": (ANY, on("new", lambda c, n: c.mknod(n, FIFO)), NAMES),
    "link": (ANY, lambda g, c: c.link(g.name("f"), g.name("d/h")), {"f": "A", "d": "NA"}),
    "remove": (ANY, on("f", lambda c, f: c.remove(f)), {"": "NA", "f": "A"}),
    "rmdir": (ANY, on("e", lambda c, e: c.rmdir(e)), {"": "NA", "e": "A"}),
    "rename": (ANY, rename("f", "h"), {"": "NA", "f": "A"}),
    "move": (ANY, rename("f", "d/f"), {"": "NA", "d": "NA", "f": "A"}),
    "replace": (ANY, rename("f", "g"), {"": "NA", "f": "A", "g": "A"}),
    "replace a directory": (ANY, rename("d", "e"), {"": "NA", "d": "A", "e": "A"}),
    "move a directory": (ANY, rename("e", "d/e"), {"": "NA", "d": "NA", "e": "A"}),
}
NEW = {"mkdir below": "d/new"}      # else "new"


def operation(what, c):
    protocols, do, want = OPERATIONS[what]
    if c.proto not in protocols:
        pytest.skip("not in NFS%s" % c.proto)
    return do, want


@pytest.mark.parametrize("what", OPERATIONS)
def test_owed(ground, nfs, what):
    do, want = operation(what, nfs)
    do(ground, nfs)
    owed, everything = ground.owed(), ground.world.owed()
    missing = {name: bits for name, bits in want.items()
               if not set(bits) <= set(owed.get(name, ""))}
    assert not missing, (owed, everything)
    assert set(owed) == set(want), owed
    new = ground.path / NEW.get(what, "new")
    if os.path.lexists(new):
        assert "A" in everything[os.lstat(new).st_ino]
    assert ground.world.drained(), "something is in flight for ever"


def test_what_is_written_to_a_new_file_is_owed(ground, nfs):
    fh = nfs.create(ground.name("new"))[0]
    ground.rest()
    nfs.write(fh, 0, b"bytes")
    assert ground.world.owed() == {os.stat(ground.path / "new").st_ino: "DA"}


def test_what_was_struck_is_owed_again(ground, nfs):
    for n in range(3):
        nfs.write(ground.name("f"), n, b"new")
        assert set(ground.owed()["f"]) == set("DA")
        ground.rest()
        assert ground.world.owed() == {}


def test_looking_owes_nothing(ground, nfs):
    for path, entry in nfs.walk(ground.name()):
        nfs.getattr(entry.fh or ground.name(path.decode()))
        nfs.access(ground.name(path.decode()), 63)
    for name in (*FILES, "d/x"):
        assert len(nfs.read_file(ground.name(name))) == SIZE
    for name in ("none", "d/none"):
        assert not nfs.exists(ground.name(name))
    with nfs.opened(ground.name("f"), write=True) as f:     # to be written, but it is not
        nfs.read(f, 0, 10)
        nfs.write(f, 0, b"")
        nfs.commit(ground.name("f"))
        if nfs.proto != "v3":
            nfs.lock(f, 0, 10)
            nfs.unlock(f, 0, 10)
        if nfs.proto == "v4.2":
            nfs.seek(f, 0)
    assert ground.world.owed() == {}


# ---- frozen ----------------------------------------------------------------------------------

@pytest.fixture
def frozen(ground):
    owed_tool("freeze", ground.world.volume)
    yield ground
    owed_tool("thaw", ground.world.volume)


@pytest.mark.parametrize("what", OPERATIONS)
def test_frozen(frozen, nfs, what):
    """Each change is put off and changes nothing; reading goes on."""
    do, _want = operation(what, nfs)
    before = frozen.seen()
    assert status_of(do, frozen, nfs) == errors.DELAY
    assert frozen.seen() == before
    assert frozen.world.owed() == {}
    assert nfs.names(frozen.name()) == [b"d", b"e", b"f", b"g"]
    assert len(nfs.read_file(frozen.name("g"))) == SIZE


def test_thawed(ground, nfs):
    """What was put off is done then."""
    owed_tool("freeze", ground.world.volume)
    try:
        assert status_of(nfs.write, ground.name("f"), 0, b"new") == errors.DELAY
    finally:
        owed_tool("thaw", ground.world.volume)
    nfs.patient(30).write(ground.name("f"), 0, b"new")
    same((ground.path / "f").read_bytes()[:3], b"new")
    assert set(ground.owed()["f"]) == set("DA")


# ---- killed ----------------------------------------------------------------------------------

class Work(threading.Thread):
    """A client that changes things of its own until the server is gone."""

    def __init__(self, ground, number, seed):
        super().__init__(daemon=True)
        self.ground, self.random, self.number = ground, random.Random(seed), number
        self.client = ground.world.m.client("v3")
        self.done = 0

    def mine(self, name):
        return self.ground.name("w%d-%s" % (self.number, name))

    def one(self, name, count):
        c, kind = self.client, self.random.choice
        kind([lambda: c.write(self.mine(name), kind((0, 100, 3 * BLOCK)), b"%d" % count, UNSTABLE),
              lambda: c.write(self.mine(name), 0, b"%d" % count),
              lambda: c.setattr(self.mine(name), size=count),
              lambda: c.setattr(self.mine(name), mode=0o600 + count % 64),
              lambda: c.create(self.mine("n%d" % count)),
              lambda: c.link(self.mine(name), self.mine("l%d" % count)),
              lambda: c.rename(self.mine("r"), self.mine("s")),
              lambda: c.rename(self.mine("s"), self.mine("r"))])()

    def run(self):
        with contextlib.suppress(OSError, RpcError):
            for count in itertools.count(1):
                with contextlib.suppress(NfsError):
                    self.one(self.random.choice("abc"), count)
                self.done = count


def check_differences(ground, before):
    """All that was there and differs is owed; what is new is found by its directory."""
    owed, after = ground.world.owed(), ground.seen()
    for ino, was in before.items():
        now = after.get(ino)
        differs = "A" if now is None else "".join(k for k in was if was[k] != now[k])
        assert set(differs) <= set(owed.get(ino, "")), (ino, differs, owed, was["A"], now)


def test_killed_while_it_changes(ground):
    """Whatever the server was about when it died: what differs is owed, and is so until a
    replicator has looked at it again."""
    world, server = ground.world, ground.world.m.server
    done = 0
    for number in range(WRITERS):
        for name in "abcr":
            (ground.path / ("w%d-%s" % (number, name))).write_bytes(b"o" * BLOCK)
    for i in range(ROUNDS):
        ground.rest()
        before = ground.seen()
        work = [Work(ground, number, 100 * i + number) for number in range(WRITERS)]
        for w in work:
            w.start()
        wait_until(lambda: sum(w.done for w in work) > 5 * i, 60, "some work")
        server.kill9()
        for w in work:
            w.join(60)
            w.client.close()
        check_differences(ground, before)
        done += sum(w.done for w in work)
        server.start()
    assert done
    ground.rest()
