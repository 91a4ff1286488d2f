# SPDX-License-Identifier: GPL-3.0-or-later
"""postcopy mirror: a backup is added, watched, takes over, and is removed, as an administrator types it."""
import json
import subprocess

import pytest

from lib.mirror import Changes, Mirror, finished
from lib.programs import POSTCOPY

MIRRORED = 62


def postcopy(*words):
    done = subprocess.run([str(POSTCOPY), *map(str, words)], capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def good(*words):
    done = postcopy(*words)
    assert done.returncode == 0, done.stderr
    return done


def refused(code, *words):
    """One line that says what to do."""
    done = postcopy(*words, "--json")
    answer = json.loads(done.stdout)
    assert not answer["ok"] and answer["error"] == code, answer
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return answer["message"]


class Place:
    def __init__(self, workdir, new_volume, new_server):
        self.here, self.there = new_volume("xfs"), new_volume("ext4")
        old, self.volume, self.tree = (self.here.path / "old", self.here.path / "volume",
                                       self.there.path / "mirror")
        for top in (old, self.volume, self.tree):
            top.mkdir()
        for i in range(20):
            (old / ("%d" % i)).write_bytes(b"%d" % i * 1000)
        self.server = new_server("command-target", tree=str(self.tree))
        finished(workdir, self.volume, old)


@pytest.fixture(scope="module")
def place(workdir, new_volume, new_server):
    return Place(workdir, new_volume, new_server)


@pytest.fixture
def mirrored(place, moddir):
    """With a mirror that is equal; there is none afterwards."""
    assert not list(place.tree.iterdir())
    good("mirror", "add", place.server.url(), place.volume)
    m = Mirror(moddir / "command-mirror", place.volume).start()
    yield m
    m.stop()
    if json.loads(postcopy("mirror", "status", place.volume, "--json").stdout).get("uri"):
        good("mirror", "remove", place.volume, "--force")
    for name in sorted(place.tree.rglob("*"), reverse=True):
        name.rmdir() if name.is_dir() else name.unlink()


def test_story(place, mirrored):
    """Everything comes, what changes follows, it takes over, and nothing of us is left there."""
    good("mirror", "sync", place.volume)
    mirrored.equal(place.tree)
    s = json.loads(good("mirror", "status", place.volume, "--json").stdout)
    assert (s["state"], s["kind"], s["mode"], s["owed"]) == ("following", "backup", "async", 0), s
    text = good("mirror", "status", place.volume).stdout
    assert "following" in text and "backup, async" in text and place.server.url() in text, text
    assert "streams" in s["not_mirrored"] and "streams" in text, text
    with Changes(place.volume) as c:
        c.write("later", b"later")
        good("mirror", "pause", place.volume)
        c.write("paused", b"x")
        assert "paused" in good("mirror", "status", place.volume).stdout
        assert "resume" in refused("refused", "mirror", "promote", place.volume)
        c.write("paused", b"y")
        good("mirror", "resume", place.volume)
        good("mirror", "sync", place.volume)
        assert (place.tree / "later").read_bytes() == b"later"
        good("mirror", "promote", place.volume)
        with pytest.raises(BlockingIOError):
            c.write("too late", b"x")
        assert (place.tree / "paused").read_bytes() == b"y"
        assert not mirrored.differences(place.tree)
        assert not (place.tree / mirrored.aside).exists()
        good("mirror", "thaw", place.volume)
        c.write("we stay here", b"x")
        mirrored.equal(place.tree)
        good("mirror", "promote", place.volume)
        good("mirror", "remove", place.volume)
        assert mirrored.process.wait(60) == 0
        c.write("there is no mirror", b"x")
    assert not (place.tree / mirrored.aside).exists()
    assert (place.tree / "we stay here").exists()
    assert "no mirror" in refused("mirrored", "mirror", "status", place.volume)


def test_promote_of_what_is_away(place, mirrored):
    """It gives up in time, and clients go on here."""
    good("mirror", "sync", place.volume)
    place.server.stop()
    try:
        with Changes(place.volume) as c:
            c.write("not there", b"x")
            message = refused("owed", "mirror", "promote", place.volume, "--timeout", "2")
            assert "still owed" in message, message
            c.write("not there", b"we go on")
        s = json.loads(good("mirror", "status", place.volume, "--json").stdout)
        assert s["state"] == "gone" and s["owed"], s
    finally:
        place.server.start()
    mirrored.equal(place.tree)


def test_removed_by_force(place, mirrored):
    """What is owed is forgotten; without --force the mirror has to be there."""
    good("mirror", "sync", place.volume)
    place.server.stop()
    try:
        mirrored.state("gone")
        assert "away" in refused("refused", "mirror", "remove", place.volume)
        good("mirror", "remove", "--force", place.volume)
    finally:
        place.server.start()
    refused("mirrored", "mirror", "status", place.volume)


def test_replicator_down(place, mirrored):
    mirrored.stop()
    done = postcopy("mirror", "status", place.volume)
    assert done.returncode == 3 and "postcopy-mirror@" in done.stdout, done
    for words in (["sync", place.volume], ["promote", place.volume], ["remove", place.volume]):
        done = postcopy("mirror", *words)
        assert done.returncode == 3 and "not running" in done.stderr, done
    mirrored.start()


def test_ends_are_refused(place, mirrored):
    """An abort does not take the ledger away; the end of a migration (test_mirror_alone) neither."""
    done = postcopy("abort", "--yes", place.volume)
    assert done.returncode == MIRRORED and "mirror remove" in done.stderr, done
    assert "already" in refused("mirrored", "mirror", "add", place.server.url(), place.volume)


# ---- what cannot be a mirror ----

def test_not_empty(place):
    (place.tree / "somebody's").write_bytes(b"x")
    assert "somebody's" in refused("mirror", "mirror", "add", place.server.url(), place.volume)
    assert (place.tree / "somebody's").read_bytes() == b"x"
    (place.tree / "somebody's").unlink()


@pytest.mark.parametrize("how", [{"squash": "Root_Squash"}, {"readonly": True}])
def test_not_writable(place, how, new_server):
    server = new_server("mirror-" + "-".join(how), str(place.tree), **how)
    message = refused("source-denied", "mirror", "add", server.url(), place.volume)
    assert "no_root_squash" in message, message
    assert not list(place.tree.iterdir())
    server.stop()


def test_the_volume_itself(workdir, new_volume, new_server):
    volume = new_volume("xfs").path / "volume"
    volume.mkdir()
    (volume.parent / "old").mkdir()
    (volume.parent / "old/file").write_bytes(b"x")
    finished(workdir, volume, volume.parent / "old")
    server = new_server("itself", tree=str(volume))
    assert "not empty" in refused("mirror", "mirror", "add", server.url(), volume)


def test_no_socket_for_it(place):
    volume = place.here.path / "long"
    volume.mkdir()
    good("init", "--source", "file://%s" % (place.here.path / "old"), "--control", "/run/" + "c" * 96, volume)
    message = refused("socket-path", "mirror", "add", place.server.url(), volume)
    assert "--control" in message and "107" in message, message


def test_in_use(place):
    with Changes(place.volume):
        assert "python3" in refused("in-use", "mirror", "add", place.server.url(), place.volume)
    assert not list(place.tree.iterdir())


@pytest.mark.parametrize("uri", ["nfs://", "smb://127.0.0.1/share", "/path", "file:///path",
                                 "nfs://127.0.0.1/export?version=4"])
def test_no_such_uri(place, uri):
    assert "nfs://" in refused("uri-bad", "mirror", "add", uri, place.volume)


def test_nobody_there(place):
    assert "127.0.0.1" in refused("mirror", "mirror", "add", "nfs://127.0.0.1/x?nfsport=1&mountport=1",
                                  place.volume)


def test_no_mirror(place):
    for words in (["status"], ["sync"], ["promote"], ["remove"], ["thaw"]):
        done = postcopy("mirror", *words, place.volume)
        assert done.returncode == MIRRORED and "no mirror" in done.stderr, done
