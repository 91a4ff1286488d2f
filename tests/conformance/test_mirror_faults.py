# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong with a mirror: the replicator dies, the mirror is away, full, changed by somebody
else, or refuses something.  In the end both sides are equal, by themselves."""
import contextlib
import os
import random
import subprocess
import threading

import pytest

from lib.mirror import Changes, Mirror, finished, make
from lib.programs import MIRROR
from lib.wait import wait_until
from nfsclient.proxy import Proxy

MIB = 1 << 20
TOO_LARGE = 17 << 40            # for ext4


class Place:
    """A volume with a mirror of its own."""

    def __init__(self, workdir, moddir, new_volume, new_server, name, size="2G", fstype="xfs"):
        self.here = new_volume("xfs")
        self.there = new_volume(fstype, size=size)
        old, volume, self.tree = (self.here.path / "old", self.here.path / "volume",
                                  self.there.path / "mirror")
        for top in (old, volume, self.tree):
            top.mkdir()
        (old / "file").write_bytes(b"from the old server")
        self.server = new_server(moddir / (name + "-target"), tree=str(self.tree))
        finished(workdir, volume, old)
        make(volume, self.server.url())
        self.volume = volume
        self.m = Mirror(moddir / (name + "-mirror"), volume).start()
        self.m.equal(self.tree)


@pytest.fixture(scope="module")
def place(workdir, moddir, new_volume, new_server):
    p = Place(workdir, moddir, new_volume, new_server, "usual")
    yield p
    p.m.stop()


@pytest.fixture(scope="module")
def small(workdir, moddir, new_volume, new_server):
    """The mirror is small, and on ext4."""
    p = Place(workdir, moddir, new_volume, new_server, "small", size="64M", fstype="ext4")
    yield p
    p.m.stop()


@pytest.fixture
def c(place):
    with Changes(place.volume) as changes:
        yield changes
    place.m.equal(place.tree)


class Busy:
    """Changes of all kinds below @top, from a thread, until it is told to end; some hundreds a second,
    so that between two changes of one object there is time to compare it; fewer after a while, for a
    machine that is slow."""

    def __init__(self, volume, top, seed):
        self.volume, self.top, self.rng = volume, top, random.Random(seed)
        self.ending = threading.Event()
        self.error, self.operations = None, 0
        self.dirs, self.files = [top], []
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.ending.set()
        self.thread.join()
        assert self.error is None, self.error

    def _run(self):
        try:
            with Changes(self.volume) as c:
                c.mkdir(self.top)
                while not self.ending.is_set():
                    self._one(c)
                    self.operations += 1
                    self.ending.wait(0.003 + self.operations * 2e-6)
        except Exception as err:
            self.error = err

    def _new(self):
        return "%s/%d" % (self.rng.choice(self.dirs), self.rng.randrange(10 ** 9))

    def _moving_dir(self):
        """One, and where it can go: not below itself."""
        old = self.rng.choice(self.dirs[1:])
        to = self.rng.choice([d for d in self.dirs if not (d + "/").startswith(old + "/")])
        return old, "%s/%d" % (to, self.rng.randrange(10 ** 9))

    def _one(self, c):
        rng = self.rng
        what = rng.randrange(10)
        if len(self.files) > 300:
            c.unlink(self.files.pop(rng.randrange(len(self.files))))
        elif what <= 1 or len(self.files) < 4:
            self.files.append(self._new())
            c.write(self.files[-1], rng.randbytes(rng.choice([0, 10, 70000, 300000])))
        elif what == 2 and len(self.dirs) < 20:
            self.dirs.append(self._new())
            c.mkdir(self.dirs[-1])
        elif what == 3:
            i, new = rng.randrange(len(self.files)), self._new()
            c.rename(self.files[i], new)
            self.files[i] = new
        elif what == 4 and len(self.dirs) > 2:
            old, new = self._moving_dir()
            c.rename(old, new)
            self.dirs, self.files = ([new + p[len(old):] if (p + "/").startswith(old + "/") else p
                                      for p in list_] for list_ in (self.dirs, self.files))
        elif what == 5:
            c.unlink(self.files.pop(rng.randrange(len(self.files))))
        elif what == 6:
            self.files.append(self._new())
            c.link(rng.choice(self.files[:-1]), self.files[-1])
        elif what == 7:
            c.truncate(rng.choice(self.files), rng.randrange(100000))
        elif what == 8:
            c.chmod(rng.choice(self.files + self.dirs), rng.choice([0o600, 0o755, 0o711]))
        else:
            c.write(rng.choice(self.files), rng.randbytes(100), rng.randrange(300000))


@pytest.mark.parametrize("seed", range(3))
def test_killed(place, seed):
    """At random moments, while the volume is changed: what is owed is enough to go on with."""
    rng = random.Random(seed)
    with Busy(place.volume, "killed-%d" % seed, seed) as busy:
        for _ in range(8):
            before = busy.operations
            wait_until(lambda: busy.error or busy.operations >= before + rng.randrange(5, 60), 60,
                       "some changes")
            place.m.kill()
            place.m.start(wait=rng.random() < 0.5)
        wait_until(lambda: place.m.status(), 60, "replicator")
    place.m.equal(place.tree)


@pytest.mark.parametrize("crash", [False, True])
def test_target_restarts(place, crash):
    """The server goes away and comes back, while the volume is changed."""
    with Busy(place.volume, "away-%d" % crash, 7 + crash) as busy:
        for _ in range(3):
            before = busy.operations
            wait_until(lambda: busy.error or busy.operations >= before + 40, 60, "some changes")
            place.server.restart(crash=crash)
    place.m.equal(place.tree)


@pytest.mark.parametrize("size", [3 * MIB, 5000])
def test_killed_before_what_it_wrote_is_kept(workdir, moddir, new_volume, new_server, size):
    """What an earlier life of the replicator has written reads as if it were right, from the mirror's memory: the next
    one has it kept before it believes that."""
    here, there = new_volume("xfs"), new_volume("xfs")
    old, volume, tree = here.path / "old", here.path / "volume", there.path / "mirror"
    for top in (old, volume, tree):
        top.mkdir()
    data = os.urandom(size)
    (old / "file").write_bytes(data)
    finished(workdir, volume, old)
    server = new_server(moddir / ("kept-%d" % size), tree=str(tree))
    with Proxy.for_server(server) as proxy:
        make(volume, proxy.url())
        m = Mirror(moddir / ("kept-mirror-%d" % size), volume).start()
        m.equal(tree)
        m.stop()
        changed = data[:1000] + bytes(100) + data[1100:]
        with Changes(volume) as changes:
            changes.write("file", changed)
        (tree / "file").write_bytes(changed)        # which is not kept, as far as anybody knows
        proxy.reset_counts()
        m.start()
        m.equal(tree)
        assert proxy.counts["COMMIT"] == 1 and not proxy.counts["WRITE"], proxy.counts
        with Changes(volume) as changes:            # of what it has brought to its end itself it knows
            changes.write("file", b"again")
        m.equal(tree)
        assert proxy.counts["COMMIT"] == 1 + (size > MIB) and proxy.counts["WRITE"] == 1, proxy.counts
        m.stop()


def test_target_away(place, c):
    """Nothing is parked meanwhile, and it goes on by itself."""
    place.server.stop()
    c.mkdir("while it is away")
    c.write("while it is away/file", b"x" * MIB)
    place.m.state("gone")
    s = place.m.status()
    assert not s["parked"] and s["owed"] and not s["target"]["connected"], s
    assert not place.m.ask("drained")["drained"]
    place.server.start()
    place.m.equal(place.tree)


def test_another_root(place, c, new_server, moddir, loop_xfs):
    """As when its disk is not mounted: nothing is written there."""
    other = loop_xfs.path / "another root"
    other.mkdir()
    place.server.stop()
    c.write("not there", b"x")
    was, place.server.exports[0].tree = place.server.exports[0].tree, str(other)
    place.server.start()
    try:
        place.m.kill()
        place.m.start()
        place.m.state("gone")
        # it is gone, then there, then looked at
        wait_until(lambda: "mounted" in place.m.status()["target"]["trouble"], 60, "what is wrong")
        assert place.m.status()["target"]["connected"]
        assert not list(other.iterdir())
    finally:
        place.server.stop()
        place.server.exports[0].tree = was
        place.server.start()
    place.m.equal(place.tree)


def test_new_handles(place, c, new_volume):
    """A copy of the tree on another disk, as after a restore: what is in it, and whether all of it is, nobody can tell,
    and nothing is written there until it is exported as it was."""
    other = new_volume("xfs").path / "mirror"
    place.server.stop()
    subprocess.run(["cp", "-a", str(place.tree), str(other)], check=True)
    before = subprocess.run(["ls", "-lR", "--time-style=full-iso", str(other)], capture_output=True, check=True).stdout
    c.write("while it has others", b"x")
    was, place.server.exports[0].tree = place.server.exports[0].tree, str(other)
    place.server.start()
    try:
        place.m.state("gone")
        wait_until(lambda: "exported as it was" in place.m.status()["target"]["trouble"], 60, "what is wrong")
        assert before == subprocess.run(["ls", "-lR", "--time-style=full-iso", str(other)], capture_output=True,
                                        check=True).stdout
    finally:
        place.server.stop()
        place.server.exports[0].tree = was
        place.server.start()
    place.m.equal(place.tree)


def test_full(small):
    """It is tried again until there is room, and nothing is parked."""
    with Changes(small.volume) as c:
        c.mkdir("full")
        for i in range(6):
            c.write("full/%d" % i, random.Random(i).randbytes(20 * MIB))
        small.m.state("full")
        assert not small.m.status()["parked"]
        for i in range(1, 6):
            c.unlink("full/%d" % i)
    small.m.equal(small.tree)
    assert small.m.status()["state"] == "following"


def test_refused(small):
    """Parked, with the reason; others go on; when it can be, it is done."""
    with Changes(small.volume) as c:
        c.mkdir("refused")
        c.write("refused/too large", b"x")
        c.truncate("refused/too large", TOO_LARGE)
        c.write("refused/other", b"this comes")
        wait_until(lambda: small.m.status()["parked"], 60, "parked")
        wait_until(lambda: (small.tree / "refused/other").read_bytes() == b"this comes", 60,
                   "the other")
        parked, = small.m.status()["parked"]
        assert parked["what"] == "size" and parked["error"] and parked["text"], parked
        assert not small.m.ask("drained")["drained"]
        c.truncate("refused/too large", 5)
        small.m.ask("retry")
    small.m.equal(small.tree)
    assert small.m.status()["parked_count"] == 0


def test_changed_there(place, c):
    """By somebody else: it is made as it is here, when all is compared."""
    c.mkdir("foreign")
    c.mkdir("foreign/dir")
    for name in ("written", "removed", "renamed", "dir/below"):
        c.write("foreign/" + name, b"ours" * 1000)
    place.m.equal(place.tree)
    with place.server.client() as x:
        x.write_file(b"foreign/written", b"theirs")
        x.remove(b"foreign/removed")
        x.rename(b"foreign/renamed", b"foreign/another name")
        x.write_file(b"foreign/new", b"theirs")
        x.remove(b"foreign/dir/below")
        x.rmdir(b"foreign/dir")
    place.m.ask("walk")
    wait_until(lambda: place.m.status()["state"] != "walking" and place.m.ask("drained")["drained"]
               and not place.m.differences(place.tree), 60, "equal")


def test_removed_there(place, c):
    """What was removed over there is known only when it is changed here: its names are found."""
    c.mkdir("gone there")
    c.mkdir("gone there/deep")
    c.write("gone there/deep/file", b"ours")
    place.m.equal(place.tree)
    with place.server.client() as x:
        x.remove(b"gone there/deep/file")
    c.write("gone there/deep/file", b"more", 4)
    place.m.equal(place.tree)


def test_paused(place, c):
    """Also over a restart."""
    place.m.ask("pause")
    place.m.kill()
    place.m.start()
    c.write("paused", b"x")
    assert place.m.status()["paused"]
    assert not place.m.ask("sync", timeout_s=2)["synced"]
    assert not (place.tree / "paused").exists()
    place.m.ask("resume")


def test_sync(place, c):
    """What was owed before has been carried over, whatever is changed meanwhile."""
    with Busy(place.volume, "busy", 3):
        for i in range(3):
            c.write("synced-%d" % i, b"%d" % i)
            assert place.m.ask("sync", timeout_s=120)["synced"]
            assert (place.tree / ("synced-%d" % i)).read_bytes() == b"%d" % i


def verified(m, timeout=120):
    """What comes of a comparison that runs."""
    wait_until(lambda: m.ask("verified")["verify"] != "running", timeout, "the comparison's end")
    return m.ask("verified")


def begins(m):
    try:
        return m.ask("verify") is not None
    except AssertionError as err:
        assert "one runs already" in str(err)
        return False


def test_verify_while_clients_work(place, c):
    """What they change is no difference."""
    for seed in range(3):
        with Busy(place.volume, "busy verified %d" % seed, seed) as busy:
            wait_until(lambda: busy.operations > 200, 60, "work")
            place.m.ask("verify")
            answer = verified(place.m)
        assert answer["verify"] == "done" and not answer["different"], answer
        assert answer["objects"] > 50, answer


def test_verify_of_what_is_away(place, c):
    """It waits; and can be ended."""
    c.mkdir("verified away")
    for i in range(20):
        c.write("verified away/%d" % i, b"x")
    place.m.equal(place.tree)
    place.server.stop()
    place.m.ask("verify")
    assert not begins(place.m)
    place.m.state("gone")
    assert place.m.ask("verified")["verify"] == "running"
    place.m.ask("verify-stop")
    assert place.m.ask("verified")["verify"] == "stopped"
    place.server.start()
    wait_until(lambda: begins(place.m), 60, "the end of the one before")
    answer = verified(place.m)
    assert answer["verify"] == "done" and not answer["different"] and answer["objects"] > 20, answer


def test_frozen(place, c):
    place.m.ask("freeze")
    assert place.m.status()["state"] == "frozen"
    with pytest.raises(BlockingIOError):
        c.write("frozen", b"x")
    place.m.ask("thaw")
    c.write("frozen", b"x")


def test_no_mirror(place, workdir, moddir, loop_xfs):
    """A volume without one, and a second replicator, are told apart."""
    done = subprocess.run([str(MIRROR), str(place.volume)], capture_output=True, text=True)
    assert done.returncode == 1 and "another one" in done.stderr, done.stderr
    done = subprocess.run([str(MIRROR), str(loop_xfs.path)], capture_output=True, text=True)
    assert done.returncode == 4 and "no volume" in done.stderr, done.stderr


def test_made_late(workdir, moddir, new_volume, new_server):
    """A new directory is looked at while the mirror has not made it yet: it is as it should be all
    the same."""
    with contextlib.ExitStack() as stack:
        def through_proxy(*args, **kw):
            server = new_server(*args, **kw)
            proxy = stack.enter_context(Proxy.for_server(server))
            server.url, server.proxy = proxy.url, proxy
            return server

        p = Place(workdir, moddir, new_volume, through_proxy, "late")
        stack.callback(p.m.stop)
        p.server.proxy.hold("MKDIR")
        with Changes(p.volume) as c:
            c.mkdir("late")
            c.chmod("late", 0o2710)
            c.chown("late", 1, 5)
            wait_until(lambda: p.server.proxy.held, 60, "the mirror's MKDIR")
            assert not p.m.ask("sync", timeout_s=2)["synced"]       # it had its turn meanwhile
            p.server.proxy.release()
            p.m.equal(p.tree)
