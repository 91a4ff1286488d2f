# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients wait for: in `sync` each change is on both sides when it is acknowledged, in `partly-async` all
but what is written; what happens while the mirror is away, or behind."""
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import threading
import time

import pytest

from lib.clientwork import Knowing
from lib.line import line
from lib.migration import Migration, SmbMigration
from lib.mirror import Mirror
from lib.wait import wait_until
from nfsclient import NfsError
from nfsclient.errors import DELAY, EXIST, IO, ROFS
from nfsclient.nfstypes import FIFO, FILE_SYNC, UNSTABLE
from nfsclient.rpc import RpcBroken
from smb2client import wire

class Mirrored:
    """A migration with a way back that is over; @tree is the old server's."""

    def __init__(self, home, server, tree, volume, rpcshim, kind=Migration, **more):
        self.server, self.tree, self.volume = server, tree, volume
        self.m = kind(home, server.url(), volume, shim=rpcshim, **more)
        self.m.way_back = True
        self.m.init().start()
        self.mirror = Mirror(home / "r", volume).start()
        self.m.crawl()
        wait_until(lambda: self.m.status()["state"] == "complete", 60, "the end")
        self.mirror.equal(tree)

    def mode(self, *words):
        answer = json.loads(self.m.postcopy("mirror", "mode", "--json", self.volume, *words).stdout)
        if self.mirror.process.poll() is None and answer["mode"] != "async":
            wait_until(lambda: self.mirror.status()["awaited"], 60, "clients wait")
        return answer


@pytest.fixture(scope="module")
def it(moddir, loop_xfs, old_server, rpcshim):
    tree, volume = loop_xfs.path / "old", loop_xfs.path / "new"
    for top in (tree, volume):
        top.mkdir()
    (tree / "dir").mkdir()
    for i in range(5):
        (tree / "dir" / ("f%d" % i)).write_bytes(b"%d" % i * 1000)
    (tree / "big").write_bytes(os.urandom(9 << 20))
    made = Mirrored(moddir / "m", old_server(str(tree)), tree, volume, rpcshim)
    yield made
    made.mirror.stop()
    made.m.stop()


@pytest.fixture
def sync(it):
    it.mode("sync")
    yield it
    if not it.server.alive:
        it.server.start()
    if it.mirror.process.poll() is not None:
        it.mirror.start()
    it.mode("async", "--gone", "continue", "--lag", "0")
    it.mirror.equal(it.tree)


def shown(path):
    st = path.lstat()
    return stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns


def test_new_objects_are_whole(sync):
    """What is new is over there with all that it has, not only by its name."""
    with sync.m.client("v3") as c:
        for i in range(20):
            c.mkdir("whole %d" % i, mode=0o2750, uid=5, gid=6)
            c.create("whole %d/f" % i, mode=0o604, uid=7, gid=8)
            c.mknod("whole %d/p" % i, FIFO, mode=0o600, uid=9)
            for name in ("whole %d" % i, "whole %d/f" % i, "whole %d/p" % i):
                assert shown(sync.tree / name) == shown(sync.volume / name), name


def test_sync(sync):
    """Looked at over there as soon as it is acknowledged here."""
    t = sync.tree
    for proto in ("v4.1", "v3"):
        with sync.m.client(proto) as c:
            top = "sync " + proto
            c.mkdir(top)
            assert (t / top).is_dir()
            c.write_file(top + "/f", b"x" * 70000)
            assert (t / top / "f").read_bytes() == b"x" * 70000
            c.write(top + "/f", 10, b"more")
            assert (t / top / "f").read_bytes()[8:16] == b"xxmorexx"
            c.setattr(top + "/f", mode=0o711, uid=12, gid=34)
            st = (t / top / "f").stat()
            assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid) == (0o711, 12, 34)
            c.setattr(top + "/f", size=5)
            assert (t / top / "f").read_bytes() == b"xxxxx"
            c.rename(top + "/f", "dir/g")
            assert (t / "dir/g").read_bytes() == b"xxxxx" and not (t / top / "f").exists()
            c.link("dir/g", top + "/l")
            assert (t / top / "l").samefile(t / "dir/g")
            c.symlink(top + "/s", "some where")
            assert os.readlink(t / top / "s") == "some where"
            c.remove("dir/g")
            assert not (t / "dir/g").exists()
            c.write("big", 5 << 20, b"in the middle")
            with open(t / "big", "rb") as f:
                f.seek((5 << 20) - 1)
                assert f.read(15)[1:-1] == b"in the middle"
            for name in ("s", "l"):
                c.remove(top + "/" + name)
            c.rmdir(top)
            assert not (t / top).exists()


@contextlib.contextmanager
def at_work(sync, top):
    """A client that makes and removes names in one directory all the time."""
    ends, failed = threading.Event(), []

    def work():
        try:
            with sync.m.client("v3") as c:
                while not ends.is_set():
                    c.create(top + "/comes")
                    c.remove(top + "/comes")
                    time.sleep(.05)
        except Exception as err:
            failed.append(err)

    client = threading.Thread(target=work)
    client.start()
    try:
        yield
    finally:
        ends.set()
        client.join()
    assert not failed, failed


def test_nothing_is_put_off(sync):
    """A directory in which somebody always waits for a name is compared as a whole as well: what is gone does not stay
    aside, and what somebody has changed over there does not last."""
    aside = sync.tree / sync.mirror.aside
    with sync.m.client("v3") as c:
        c.mkdir("busy")
    with at_work(sync, "busy"):
        wait_until(lambda: aside.exists() and list(aside.iterdir()), 60, "something is held aside")
        held = {p.name for p in aside.iterdir()}
        os.chmod(sync.tree / "busy", 0o700)
        wait_until(lambda: not held & {p.name for p in aside.iterdir()}, 60, "that is removed")
        wait_until(lambda: stat.S_IMODE((sync.tree / "busy").stat().st_mode) == 0o755, 60, "its mode")


def test_changed_over_there(sync):
    """What somebody has changed there a moment ago, which is not asked for while a client waits, is found later."""
    with sync.m.client("v3") as c:
        for name, harm in (("mode", lambda p: os.chmod(p, 0o600)), ("owner", lambda p: os.chown(p, 77, 78)),
                           ("longer", lambda p: os.truncate(p, 90000)), ("shorter", lambda p: os.truncate(p, 7)),
                           ("bytes", lambda p: p.write_bytes(b"no" * 20000))):
            c.write_file(name, b"x" * 40000)
            sync.mirror.status()                # which counts what is owed: so the replicator has taken it over
            harm(sync.tree / name)
            c.write(name, 5, b"yes")
            assert (sync.tree / name).read_bytes()[5:8] == b"yes"
        c.write_file("size", b"x" * 100)
        sync.mirror.drained()
        c.setattr("size", mode=0o600)           # nothing else is owed
        sync.mirror.status()
        os.truncate(sync.tree / "size", 200)
        c.setattr("size", mode=0o604)
        assert stat.S_IMODE((sync.tree / "size").stat().st_mode) == 0o604
        c.create("there")
        (sync.tree / "taken").write_bytes(b"by somebody over there")
        c.create("taken")
        assert (sync.tree / "taken").read_bytes() == b""
        (sync.tree / "there").unlink()
        c.remove("there")
    sync.mirror.equal(sync.tree)


def status_of(operation, *args):
    """0, or the error's number."""
    try:
        operation(*args)
    except NfsError as err:
        return err.status
    return 0


@pytest.mark.parametrize("proto", ["v3", "v4.1"])
def test_unstable(sync, proto):
    """What a client does not want to be stable yet is on both sides after its COMMIT, and is not waited for before."""
    sync.mode("sync", "--gone", "refuse")
    sync.m.server.allow += ("ERR_IO but was set non-retryable",)        # the COMMITs that are refused
    name, there = "unstable " + proto, sync.tree / ("unstable " + proto)
    with sync.m.client(proto) as c:
        c.write_file(name, b"x" * 100000)
        for at in (0, 70000, 99998):
            c.write(name, at, b"abc", UNSTABLE)
        c.commit(name)
        assert there.read_bytes() == (sync.volume / name).read_bytes()
        for _ in range(10):             # on a machine that stands still the replicator is gone at once
            sync.mirror.process.send_signal(signal.SIGSTOP)
            try:
                written = status_of(c.write, name, 5, b"more", UNSTABLE)
                commits = status_of(c.commit, name)
            finally:
                sync.mirror.process.send_signal(signal.SIGCONT)
            wait_until(lambda: sync.mirror.status()["awaited"], 60, "clients wait again")
            if written == 0:
                break
        assert (written, commits) == (0, IO)
        c.commit(name)
        assert there.read_bytes() == b"abcxxmore".ljust(70000, b"x") + b"abc".ljust(29998, b"x") + b"abc"


def test_names_take_each_other_over(sync):
    """Of each change only the names that it is about are compared: they are right over there all the same."""
    t, v = sync.tree / "over", sync.volume / "over"

    def right():
        for top in ("a", "b"):
            assert sorted(p.name for p in (t / top).iterdir()) == sorted(p.name for p in (v / top).iterdir()), top
            for p in (v / top).iterdir():
                there = t / top / p.name
                assert there.is_dir() == p.is_dir() and (p.is_dir() or there.read_bytes() == p.read_bytes()), p

    with sync.m.client("v3") as c:
        for name in ("over", "over/a", "over/b", "over/a/dir", "over/a/dir/in"):
            c.mkdir(name)
        for i in range(4):
            c.write_file("over/a/%d" % i, b"%d" % i * 100)
        for old, new in (("a/0", "a/1"),                                    # over another one
                         ("a/2", "b/2"), ("a/3", "b/2"), ("b/2", "a/1"),    # there and back
                         ("a/dir", "a/renamed"), ("a/renamed", "b/dir"), ("b/dir/in", "a/out")):
            c.rename("over/" + old, "over/" + new)
            right()
        c.link("over/a/1", "over/b/link")
        right()
        c.rename("over/b/link", "over/a/1")     # two names of one file: nothing happens
        right()
        c.remove("over/a/1")
        c.mkdir("over/a/1")                     # what had that name is still held aside
        right()
        c.rmdir("over/a/1")
        c.rename("over/b/link", "over/a/1")
        right()
        c.rename("over/b/dir", "over/a/out")    # over an empty directory
        right()


def test_a_name_in_a_large_directory(sync):
    """It is not listed for each: of most no listing begins while they are waited for.  As part of what is owed
    it is listed once in a second, however long that lasts here."""
    names, created, listed = 100, [], []
    with sync.m.client("v3") as c:
        c.mkdir("large")
        out = sync.mirror.workdir / "lists.strace"
        tracer = subprocess.Popen(["strace", "-f", "-ttt", "-e", "trace=getdents64", "-o", str(out), "-p",
                                   str(sync.mirror.process.pid)], stderr=subprocess.PIPE, text=True)
        try:
            assert "attached" in tracer.stderr.readline()
            for i in range(names):
                begun = time.time()
                c.create("large/%d" % i)
                created.append((begun, time.time()))
                assert (sync.tree / "large" / str(i)).is_file()
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=30)
    for line in out.read_text().splitlines():
        if "getdents64(" in line:
            listed.append(float(line.split()[1]))
    without = [1 for begun, ended in created if not any(begun <= at <= ended for at in listed)]
    assert len(without) > names / 4, (len(without), len(listed), created[-1][1] - created[0][0])
    sync.mirror.equal(sync.tree)


def test_sync_smb(moddir, loop_xfs, old_server, rpcshim):
    """The same through Samba."""
    tree, volume = loop_xfs.path / "smb-old", loop_xfs.path / "smb-new"
    for top in (tree, volume):
        top.mkdir()
    (tree / "dir").mkdir()
    s = Mirrored(moddir / "s", old_server(str(tree)), tree, volume, rpcshim, SmbMigration,
                 more="nt acl support = no")      # the old server has no ACLs
    s.mode("sync")
    try:
        with s.m.client() as c:
            c.mkdir("smb")
            assert (tree / "smb").is_dir()
            c.write_file("smb/f", b"y" * 70000)
            assert (tree / "smb/f").read_bytes() == b"y" * 70000
            c.rename("smb/f", "dir/g")
            assert (tree / "dir/g").is_file() and not (tree / "smb/f").exists()
            with c.open("dir/g", wire.READ_DATA | wire.WRITE_DATA | wire.DELETE) as f:
                f.write(100, b"changed")
                assert (tree / "dir/g").read_bytes()[99:108] == b"ychangedy"
                f.truncate(102)
                assert (tree / "dir/g").read_bytes()[99:] == b"ych"
            c.remove("dir/g")
            assert not (tree / "dir/g").exists()
        s.mirror.equal(tree)
    finally:
        s.mirror.stop()
        s.m.stop()


def test_partly_async(it, sync):
    """Names and attributes are waited for, what is written comes later."""
    it.mode("partly-async")
    with it.m.client("v3") as c:
        c.mkdir("partly")
        assert (it.tree / "partly").is_dir()
        c.create("partly/f")
        assert (it.tree / "partly/f").is_file()
        it.mirror.process.send_signal(signal.SIGSTOP)
        try:
            c.write("partly/f", 0, b"later")
        finally:
            it.mirror.process.send_signal(signal.SIGCONT)
        wait_until(lambda: (it.tree / "partly/f").read_bytes() == b"later", 60, "what was written")
        c.setattr("partly/f", mode=0o600)
        assert stat.S_IMODE((it.tree / "partly/f").stat().st_mode) == 0o600


def test_async(it):
    """Nobody waits."""
    assert it.mode("async")["mode"] == "async"
    it.mirror.process.send_signal(signal.SIGSTOP)
    try:
        with it.m.client("v3") as c:
            c.mkdir("nobody")
    finally:
        it.mirror.process.send_signal(signal.SIGCONT)
    it.mirror.equal(it.tree)


# ---- the mirror is gone ----

@pytest.mark.parametrize("how", ["mirror", "replicator"])
def test_gone_and_continue(sync, how):
    """Clients wait for a moment, and go on alone; later both sides are equal again, and who changes something waits."""
    name = "alone-" + how
    if how == "mirror":
        sync.server.stop()
    else:
        sync.mirror.kill()
    with sync.m.client("v3").patient(30) as c:
        c.mkdir(name)
        begun = time.monotonic()
        c.write_file(name + "/f", b"here only")
        assert time.monotonic() - begun < 5
    assert not (sync.tree / name).exists()
    if how == "mirror":
        wait_until(lambda: not sync.mirror.status()["awaited"], 60, "nobody waits any more")
        text = sync.m.postcopy("mirror", "status", sync.volume).stdout
        assert "degraded" in text, text
        sync.server.start()
    else:
        sync.mirror.start()
    wait_until(lambda: sync.mirror.status()["awaited"], 60, "clients wait again")
    sync.mirror.equal(sync.tree)
    with sync.m.client("v3") as c:
        c.mkdir(name + "/again")
        assert (sync.tree / name / "again").is_dir()


@pytest.mark.parametrize("how,mode", [("mirror", "sync"), ("replicator", "async")])
def test_gone_and_refuse(sync, how, mode):
    """Nothing is changed; clients try again, and hear of it after a while."""
    name = "refused-%s-%s" % (how, mode)
    sync.mode(mode, "--gone", "refuse")
    sync.m.server.allow += ("NFS3ERR_IO but was set non-retryable",)     # what was under way
    with sync.m.client("v3") as c:
        c.mkdir(name)
        if how == "mirror":
            sync.server.stop()
        else:
            sync.mirror.kill()
        # what was under way is here, and was not acknowledged
        wait_until(lambda: refusal(c, name + "/perhaps") == DELAY, 60, "try again")
        wait_until(lambda: refusal(c, name + "/no") == ROFS, 60, "refused")
        assert b"no" not in [e.name for e in c.listdir(name)]       # there is still reading
        if how == "mirror":
            sync.server.start()
        else:
            sync.mirror.start()
        c.patient(60)
        wait_until(lambda: refusal(c, name + "/yes") is None, 60, "it is there again")
    sync.mirror.equal(sync.tree)
    names = {p.name for p in (sync.tree / name).iterdir()}
    assert "yes" in names and "no" not in names


def refusal(c, path):
    status = status_of(c.mkdir, path)
    assert status in (0, EXIST, DELAY, IO, ROFS), status
    return None if status in (0, EXIST) else status


# ---- one side dies ----

def test_everything_dies(sync):
    """What was acknowledged is over there at that moment, without anybody who could bring it.  Nothing is
    acknowledged without it, also where the replicator says nothing for seconds, as on a machine that stands still."""
    sync.mode("--gone", "refuse")
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    rng = random.Random(seed)
    with sync.m.client("v3") as c:
        for i in range(3):
            c.mkdir("w%d" % i)
    for turn in range(4):
        workers = [Knowing(sync.m.client(proto), "w%d" % i, rng.random()) for i, proto in
                   enumerate(("v3", "v4.1", "v3"))]
        for w in workers:
            w.files = {p.name: p.read_bytes() for p in (sync.volume / w.top).iterdir()}
            w.start()
        wait_until(lambda: all(w.done > 20 or w.error for w in workers), 60, "work")
        time.sleep(rng.random())
        sync.m.server.kill9()
        sync.mirror.kill()
        for w in workers:
            w.join(60)
            assert isinstance(w.error, RpcBroken) or getattr(w.error, "status", None) == IO, repr(w.error)
            w.check(sync.tree)
        sync.m.server.start()
        sync.mirror.start()
        wait_until(lambda: sync.mirror.status()["awaited"], 60, "clients wait again")
        sync.mirror.equal(sync.tree)


# ---- the lag ----

def test_words(it):
    """What is not said stays; what is wrong is refused."""
    it.mode("sync", "--lag", "30", "--gone", "refuse")
    a = it.mode("--lag", "5")
    assert (a["mode"], a["gone"], a["lag_bound_seconds"]) == ("sync", "refuse", 5), a
    for words in (("--lag", "-1"), ("--lag", "86401"), ("--lag", "x"), ("--gone", "x"), ("x", "sync"), ()):
        done = it.m.postcopy("mirror", "mode", it.volume, *words, check=False)
        assert done.returncode == 2, (words, done)
    a = it.mode("async", "--gone", "continue", "--lag", "0")
    assert (a["mode"], a["gone"], a["lag_bound_seconds"]) == ("async", "continue", 0), a


class Far:
    """The same server, at the end of a long line."""

    def __init__(self, server, port):
        self.near, self.port = server, port

    def url(self):
        return self.near.url().replace("nfsport=%d" % self.near.port, "nfsport=%d" % self.port)


def test_lag(moddir, loop_xfs, old_server, rpcshim):
    """Where the mirror is behind by more than the bound, clients are slowed down; no more when it has caught up."""
    tree, volume = loop_xfs.path / "far-old", loop_xfs.path / "far-new"
    for top in (tree, volume):
        top.mkdir()
    (tree / "dir").mkdir()
    server = old_server(str(tree))
    with line(server.host, server.port, 15_000) as end:
        far = Mirrored(moddir / "far", Far(server, end.port), tree, volume, rpcshim)
        far.mode("--lag", "1")
        try:
            with far.m.client("v3") as c:
                assert far.mirror.status()["delay_us"] == 0
                made = 0
                while far.mirror.status()["delay_us"] < 2000:
                    for _ in range(20):
                        made += 1
                        c.write_file("dir/%d" % made, b"x" * 1000)
                    assert made < 20000
                begun = time.monotonic()
                for i in range(5):
                    c.setattr("dir/1", mode=0o600 + i)
                assert time.monotonic() - begun > 5 * 0.001
                assert "slowed down" in far.m.postcopy("mirror", "status", volume).stdout
                wait_until(lambda: far.mirror.status()["delay_us"] == 0, 120, "no delay any more")
            far.mirror.equal(tree)
            after_a_pause(far)
            far.mirror.equal(tree)
        finally:
            far.mirror.stop()
            far.m.stop()


def after_a_pause(far):
    """Nobody waits for a mirror that has more than a few to carry over, whoever stopped it."""
    far.mode("sync", "--lag", "0")
    far.mirror.ask("pause")
    with far.m.client("v3") as c:
        for i in range(320):
            c.create("dir/paused%d" % i)
    wait_until(lambda: not far.mirror.status()["awaited"], 60, "nobody waits")
    time.sleep(6)       # longer than anybody is waited for
    far.mirror.ask("resume")
    while True:
        s = far.mirror.status()
        if s["owed"] <= 256:
            break
        assert not s["awaited"], s
    wait_until(lambda: far.mirror.status()["awaited"], 60, "clients wait again")
