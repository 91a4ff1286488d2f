# SPDX-License-Identifier: GPL-3.0-or-later
"""A migration with a way back: what clients change on the new server is the same at the old one, whatever
was here when they changed it; what nobody changes is left alone over there."""
import json
import os
import random
import subprocess
import time

import pytest

from lib.clientwork import Work, Workers, fill
from lib.migration import Migration
from lib.mirror import Mirror
from lib.programs import MIRROR
from lib.twotrees import compare
from lib.wait import wait_until
from nfsclient import NfsError

MODES = ("async", "sync", "partly-async")


class WayBack:
    """A migration from an old server, whose tree is @old, with a way back."""

    def __init__(self, home, server, old, volume, rpcshim, conf=""):
        self.server, self.old, self.volume = server, old, volume
        self.volume.mkdir()
        self.m = Migration(home, self.server.url(), self.volume, shim=rpcshim, conf=conf)
        self.m.way_back = True
        self.m.init().start()
        self.mirror = Mirror(home / "mirror", self.volume).start()

    def client(self, proto="v3"):
        return self.m.client(proto).patient(60)

    def end(self):
        """All has come, and both sides are equal."""
        self.m.crawl()
        wait_until(lambda: self.m.status()["state"] == "complete", 60, "the end")
        self.equal()

    def equal(self):
        self.mirror.equal(self.old)

    def equal_so_far(self):
        """What was changed, is carried over."""
        assert self.mirror.ask("sync", timeout_s=120)["synced"], self.mirror.status()

    def stop(self):
        self.mirror.stop()
        self.m.stop()


@pytest.fixture(scope="module")
def disks(loop_xfs):
    return loop_xfs.path


@pytest.fixture
def way_back(moddir, disks, old_server, rpcshim):
    made = []

    def make(**more):
        home = moddir / ("w%d" % len(list(moddir.glob("w*"))))
        old = disks / (home.name + "-old")
        old.mkdir()
        fill(old, random.Random(3))
        made.append(WayBack(home, old_server(str(old)), old, disks / home.name, rpcshim, **more))
        return made[-1]

    yield make
    for w in made:
        w.stop()


def test_nothing_is_written_there(way_back, disks):
    """Nobody changes anything: the old server's tree stays as it is, its times too."""
    w = way_back()
    before = disks / "before"
    subprocess.run(["cp", "-a", str(w.old), str(before)], check=True)
    os.utime(before, (1e9, 1.2e9))      # as fill() has it: the directory for what is aside was just made
    w.end()
    bad = {name: found.paths for name, found in compare(
        before, w.old, without=(w.mirror.aside.encode(),)).items() if found.paths and name not in (
            "atime", "creation_time")}
    assert not bad
    assert w.mirror.status()["objects_total"] <= 3          # its root, for what is aside


@pytest.mark.parametrize("seed", range(4))
def test_random_work(way_back, seed):
    """Before anything was listed, while it is, and after it is complete."""
    w = way_back(conf="block_size = 65536\n")
    rng = random.Random(seed)
    w.m.postcopy("mirror", "mode", w.volume, MODES[seed % 3])
    work = Work(w.client("v3"), rng, w.client("v4.1"))
    for _ in range(150):
        work.step()
    crawler = w.m.start_crawler()
    for _ in range(150):
        work.step()
    assert crawler.wait(300) == 0
    w.end()
    for _ in range(100):
        work.step()
    w.equal()


@pytest.mark.parametrize("seed", range(3))
def test_many_clients_and_deaths(way_back, seed):
    """Replicator, retriever and old server are killed while clients work; nobody loses anything."""
    w = way_back(conf="block_size = 65536\nmax_tries = 100\n")
    rng = random.Random(seed)
    w.m.postcopy("mirror", "mode", w.volume, MODES[seed])
    workers = Workers([w.client(rng.choice(("v3", "v4.1"))) for _ in range(3)], seed)
    workers.start()
    try:
        for i in range(8):
            if i == 3:
                w.m.start_crawler(stay=True)
            time.sleep(rng.random())            # when they die is chance
            who = rng.choice(("replicator", "replicator", "retriever", "old server"))
            if who == "replicator":
                w.mirror.kill()
                w.mirror.start()
            elif who == "retriever":
                w.m.kill_retriever()
                w.m.start_retriever()
            else:
                w.server.kill9()
                w.server.start()
    finally:
        workers.end()
    w.m.kill_crawler()
    w.end()


def test_gone_there(way_back):
    """What is removed at the old server by somebody else, before it has come: no empty file or directory
    takes its place, and a rollback says so."""
    w = way_back()
    c = w.client()
    assert c.names("d0")                        # stubs, but for what is empty
    file = next("d0/" + name for name in ("f0", "f1", "f2", "f3") if (w.old / "d0" / name).stat().st_size)
    with w.server.client("v3") as other:
        other.remove(file)
        Work(other, None, None).remove_tree(other, "d0/d2")
    c.write_file("d0/new", b"so that the directory is compared")
    wait_until(lambda: {p["path"] for p in w.mirror.status()["parked"]} == {file, "d0/d2"}, 60,
               "what is refused")
    assert (w.old / "d0/new").exists()
    assert not (w.old / file).exists() and not (w.old / "d0/d2").exists()
    assert "refused" in refused("parked", w.m, "rollback", w.volume)
    c.write_file("d0/we go on", b"here")
    w.m.allow.append("gone")


# ---- init ----------------------------------------------------------------------------

def expect(answer, code, *words):
    assert answer["exit"] and answer["error"] == code, answer
    for word in words:
        assert word in answer["message"], answer


def refused_init(moddir, disks, url, *more):
    """What init says; the volume's directory stays empty."""
    home, volume = moddir / "refused", disks / "refused"
    volume.mkdir(exist_ok=True)
    m = Migration(home, url, volume, **dict(more))
    m.way_back = True
    answer = m.init(check=False)
    assert not list(volume.iterdir()), answer
    return answer


def names_and_time(tree):
    return sorted(os.listdir(tree)), os.stat(tree).st_mtime_ns


@pytest.mark.parametrize("how", ["readonly", "squash"])
def test_init_proves_that_it_can_write(moddir, disks, old_server, how):
    tree = disks / how
    tree.mkdir()
    (tree / "f").write_bytes(b"x")
    options = {"readonly": {"readonly": True}, "squash": {"squash": "Root_Squash"}}[how]
    before = names_and_time(tree)
    answer = refused_init(moddir, disks, old_server(str(tree), **options).url())
    expect(answer, "source-denied" if how == "readonly" else answer["error"])
    if how == "readonly":
        assert "rw,no_root_squash" in answer["message"], answer
    assert names_and_time(tree) == before


@pytest.mark.parametrize("url", ["nfs://127.0.0.1/export?version=4", "smb://127.0.0.1/share", "file:///srv"])
def test_init_wants_nfs3(moddir, disks, url):
    expect(refused_init(moddir, disks, url), "usage", "--way-back", "NFSv3")


def test_init_wants_a_socket_for_the_replicator(moddir, disks):
    """One whose path would be too long is refused before anything is tried, and the longest is not."""
    home, volume = moddir / "s", disks / "sockets"
    volume.mkdir()
    for length, code in ((101, "socket-path"), (100, "connection-refused")):
        m = Migration(home, "nfs://127.0.0.1/x?nfsport=1&mountport=1", volume)
        answer = m.tool("init", "--source", m.url, "--way-back", "--control",
                        str(home / "c").ljust(length, "c"), volume, check=False)
        expect(answer, code)
        assert not list(volume.iterdir()), answer


def test_init_wants_no_share(moddir, disks):
    expect(refused_init(moddir, disks, "nfs://127.0.0.1/export", ("join", "smb://127.0.0.1/share")),
           "usage", "--way-back")


def test_init_leaves_the_old_server_as_it_was(moddir, disks, old_server):
    """But for what it tried, of which nothing is left."""
    tree, home, volume = disks / "tried", moddir / "tried", disks / "tried-volume"
    tree.mkdir()
    volume.mkdir()
    (tree / "f").write_bytes(b"x")
    os.utime(tree, (1e9, 1.1e9))
    before = names_and_time(tree)
    m = Migration(home, old_server(str(tree)).url(), volume)
    m.way_back = True
    m.init()
    assert names_and_time(tree) == before
    told = json.loads(m.postcopy("mirror", "status", "--json", volume, check=False).stdout)
    assert (told["kind"], told["state"], told["uri"]) == ("way-back", "mirror-down", m.url), told


def test_init_check_says_what_could_go_back(disks, old_server, moddir):
    tree = disks / "checked"
    tree.mkdir()
    url = old_server(str(tree)).url()
    m = Migration(moddir / "checked", url, disks / "checked-volume")
    done = m.postcopy("init", "--check", "--way-back", "--source", url, check=False)
    assert done.returncode == 3 and "could take back" in done.stdout, done
    assert "no more than" not in done.stderr
    answer = json.loads(m.postcopy("init", "--check", "--way-back", "--source", url, "--json",
                                   check=False).stdout)
    fates = {p["property"]: (p["old_server"], p["why"]) for p in answer["way_back"]}
    assert fates["data"][0] == fates["owner"][0] == "kept"
    assert fates["posix-acl"][0] == "lost" and "hold a rollback up" in fates["posix-acl"][1], fates
    assert fates["streams"][0] == "lost" and "stays here" in fates["streams"][1], fates
    assert not list(tree.iterdir())


# ---- the end: back, or not ------------------------------------------------------------

def some_changes(c, n):
    c.write("f1", 0, b"written before it came")
    c.write("d0/f4", 100, b"in the middle")
    c.write_file("new %d" % n, b"new")
    c.rename("d1/d1", "d0/moved %d" % n)
    c.remove("d2/f5")
    c.mkdir("made %d" % n)
    c.rename("f2", "made %d/f2" % n)


def refused(code, m, *words):
    done = m.postcopy(*words, "--json", check=False)
    answer = json.loads(done.stdout)
    assert done.returncode and not answer["ok"] and answer["error"] == code, answer
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return answer["message"]


def test_rollback(way_back, disks, old_server):
    """Half of it has come; the clients return, and find everything that they have written."""
    w = way_back()
    v, m, c = w.volume, w.m, w.client()
    some_changes(c, 1)
    seen = {path: c.read_file(path) for path in ("f1", "d0/f4", "new 1", "made 1/f2", "d0/moved 1/f3",
                                                 "d0/moved 1/d2/f4")}
    names = {path: c.names(path) for path in ("", "d0", "d1", "d2", "made 1")}
    assert m.status()["pending"] > 0
    told = json.loads(m.postcopy("rollback", "--json", v).stdout)
    assert told["ok"] and told["compared"] >= 8, told
    assert w.mirror.process.wait(60) == 0
    with pytest.raises(NfsError) as refusal:
        c.write("f1", 0, b"too late")
    assert refusal.value.status == 30           # ROFS
    back = old_server(str(w.old)).client("v3")
    for path, data in seen.items():
        assert back.read_file(path) == data, path
    for path, there in names.items():
        assert back.names(path) == there, path
    assert not (w.old / w.mirror.aside).exists()
    # nothing goes on by itself
    again = subprocess.run([str(MIRROR), str(v)], capture_output=True, text=True, timeout=60)
    assert again.returncode == 4 and "rolled back" in again.stderr, again
    assert "rolled back" in refused("mirrored", m, "rollback", v)
    assert "rolled back" in refused("mirrored", m, "commit", v)
    s = m.postcopy("mirror", "status", v)
    assert "rolled-back" in s.stdout, s
    # it can be undone
    m.postcopy("rollback", "--undo", v)
    assert "not rolled back" in refused("mirrored", m, "rollback", "--undo", v)
    w.mirror.start()
    c.write("f1", 0, b"we stay here")
    c.write_file("after", b"the rollback was undone")
    c.remove("new 1")
    w.end()
    m.postcopy("rollback", v)
    assert not w.mirror.differences(w.old)


def test_rollback_needs_the_crawler(way_back):
    """A hard link was changed, of which not all names have been found: without a crawler they never are.  It is said,
    and clients work on; when all names are known it goes back, though not all has come."""
    w = way_back()
    c, m, v = w.client(), w.m, w.volume
    c.write("d1/linked", 3, b"by one of its names")
    wait_until(lambda: w.mirror.status()["waiting_for_fill"] == 1, 60, "it waits")
    assert "no crawler runs" in refused("waits", m, "rollback", v)
    c.write("d1/linked", 30, b"not frozen")
    m.start_crawler()
    m.postcopy("rollback", v)
    assert (w.old / "f3").read_bytes()[3:40] == b"by one of its names" + (v / "f3").read_bytes()[22:40]
    assert (w.old / "f3").read_bytes()[30:40] == b"not frozen" and (w.old / "d1/linked").samefile(w.old / "f3")
    assert not w.mirror.process.wait(60)


def test_rollback_then_abort_then_again(way_back, moddir, disks, rpcshim):
    """Clients work on the old server, and switch once more, into an empty volume."""
    w = way_back()
    some_changes(w.client(), 1)
    w.m.postcopy("rollback", w.volume)
    w.m.stop()
    w.m.postcopy("abort", "--yes", w.volume)
    assert not (w.volume / ".postcopy").exists()
    with w.server.client("v3") as back:
        back.write_file("back here", b"and at work")
        data = back.read_file("d0/f4")
    again = WayBack(moddir / "again", w.server, w.old, disks / "again-volume", rpcshim)
    try:
        with again.client() as c:
            assert c.read_file("back here") == b"and at work"
            assert c.read_file("d0/f4") == data
            c.rename("d0/moved 1", "d2/moved again")
            c.write("d2/moved again/f3", 3, b"!")
            c.remove("d0/linked")
        again.end()
    finally:
        again.stop()


def verify(w):
    answer = json.loads(w.m.postcopy("mirror", "verify", "--json", w.volume).stdout)
    assert not answer["different"] and not answer["owed"], answer
    return answer


def test_verify(way_back):
    """What the migration has not brought is no difference, and is not asked for."""
    w = way_back()
    c = w.client()
    c.listdir("")
    c.write_file("d1/new", b"new")
    w.equal_so_far()
    before = w.m.status()["pending"]
    answer = verify(w)
    assert answer["waiting"] > 0 and answer["objects"] > 0, answer
    assert w.m.status()["pending"] == before > 0
    w.end()
    answer = verify(w)
    assert not answer["waiting"] and answer["objects"] > 50, answer
    c.write("d0/f4", 5, b"ours")
    w.equal_so_far()
    with w.server.client("v3") as there:
        there.write_file("d0/f4", b"theirs")
    done = w.m.postcopy("mirror", "verify", "--json", w.volume, check=False)
    assert done.returncode == 1 and "d0/f4" in done.stdout, done


def test_rollback_leaves_nobody_behind(way_back):
    """What is done next, needs the volume for itself: the replicator is gone then, however long it takes to end."""
    w = way_back()
    tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", "inject=unlink:delay_enter=1000000", "-p",
                               str(w.mirror.process.pid)], stderr=subprocess.PIPE, text=True)
    try:
        assert "attached" in tracer.stderr.readline()
        w.m.postcopy("rollback", w.volume)
        assert w.mirror.process.poll() is not None
    finally:
        tracer.terminate()
        tracer.communicate(timeout=30)


def test_rollback_that_is_given_up(way_back):
    """What cannot be carried over ends it in time, and clients go on here."""
    w = way_back()
    c = w.client()
    c.write_file("here", b"x")
    w.equal_so_far()
    w.server.stop()
    w.mirror.state("gone")
    c.write_file("there is nobody", b"x")
    assert "still owed" in refused("owed", w.m, "rollback", w.volume, "--timeout", "2")
    c.write_file("we go on", b"x")
    w.server.start()
    w.m.postcopy("rollback", w.volume)
    assert (w.old / "we go on").read_bytes() == b"x"


def test_commit(way_back):
    """The old server is not written to any more, and the migration goes on."""
    w = way_back()
    c = w.client()
    some_changes(c, 1)
    w.mirror.ask("sync", timeout_s=60)
    assert "'postcopy commit' forgets it" in refused("refused", w.m, "mirror", "remove", w.volume)
    assert "rollback" in refused("refused", w.m, "mirror", "promote", w.volume)
    told = json.loads(w.m.postcopy("commit", "--json", w.volume).stdout)
    assert told["ok"] and told["left"], told            # what was removed here is aside there
    assert w.mirror.process.wait(60) == 0
    before = sorted(os.listdir(w.old))
    c.write_file("only here", b"x")
    w.m.crawl()
    wait_until(lambda: w.m.status()["state"] == "complete", 60, "the end")
    assert sorted(os.listdir(w.old)) == before
    assert c.read_file("only here") == b"x"
    assert b".postcopy-aside" not in b"".join(c.names())
    assert "no mirror" in refused("mirrored", w.m, "commit", w.volume)


def test_commit_of_what_is_complete(way_back):
    """Nothing of us is left at the old server, and the migration can be finished."""
    w = way_back()
    some_changes(w.client(), 1)
    w.end()
    assert "'postcopy commit' ends that first" in w.m.postcopy(
        "finish", "--unverified", w.volume, check=False).stderr
    assert w.m.retriever.poll() is None
    told = json.loads(w.m.postcopy("commit", "--json", w.volume).stdout)
    assert told["ok"] and not told["left"], told
    assert not (w.old / w.mirror.aside).exists()
    w.m.stop()
    w.m.postcopy("finish", "--unverified", w.volume)
