# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy verify`: each damage that nobody's change explains is found, and what clients have
changed is told apart (docs/decisions/0064)."""
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading

import pytest

from lib import proof
from lib.damage import Disk
from lib.migration import Migration
from lib.programs import VOLUME_TOOL
from lib.wait import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
NS = 10 ** 9
OLD = 1500000000 * NS + 123456789
SIZES = {"a": 100, "b": 5000, "c": 70000, "d": (1 << 20) + 77, "e": (3 << 20) + 5, "empty": 0}


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    os.utime(path, ns=(OLD, OLD))


def build(top):
    rng = random.Random(5)
    for where in ("kept", "swapped", "names", "links", "clients", "clients/below", "moved",
                  "moved/deep", "away", "away/sub", "hit", "odd"):
        os.mkdir(top / where)
        for name, size in SIZES.items():
            write(top / where / name, rng.randbytes(size))
    for pair in ("one", "two"):
        write(top / "links" / pair, rng.randbytes(3000))
        os.link(top / "links" / pair, top / "links" / (pair + "-again"))
    for name in ("new\nline", "a blank", "back\\slash", "st*r [x] #", "\u65e5\u672c", "-n"):
        write(top / "odd" / name, name.encode())
    os.symlink("some/where", top / "odd" / "symlink")
    os.mkfifo(top / "odd" / "fifo")
    os.truncate(top / "odd" / "e", 40 << 20)            # a hole behind it
    os.utime(top / "odd" / "e", ns=(OLD, OLD))
    for path, _, _ in os.walk(top, topdown=False):
        os.utime(path, ns=(OLD, OLD))


@pytest.fixture(scope="module")
def old(old_server, loop_xfs):
    top = loop_xfs.path / "old"
    top.mkdir()
    build(top)
    server = old_server(str(top))
    server.top = top
    return server


@pytest.fixture
def disk(new_volume):
    return new_volume("ext4", "1G")


@pytest.fixture
def m(new_migration, disk, old):
    home = disk.path / "volume"
    home.mkdir()
    m = new_migration(old.url(), home).init().start()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    return m


@pytest.fixture(scope="module")
def still(moddir, rpcshim, new_volume, old):
    """A migration that has ended, and that no test changes."""
    m = Migration(moddir / "still", old.url(), new_volume("ext4", "1G").path / "volume",
                  shim=rpcshim)
    m.volume.mkdir()
    m.init().start_retriever()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    yield m
    m.stop()


def verify(m, *options, mode=("--all",), check=True):
    """What it has found, by path, and its other answers."""
    answer = m.tool("verify", *mode, *options, m.volume, check=False)
    if check:
        assert answer["ok"], answer
    return {f["path"]: f for f in answer["found"]}, answer


def names(top):
    return sum(len(dirs) + len(files) for _, dirs, files in os.walk(top))


def files(top):
    return [path for where, _, found in os.walk(top) for path in
            (os.path.join(where, name) for name in found)
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path)]


def test_nothing_is_wrong(still, old):
    found, answer = verify(still)
    assert not found and answer["exit"] == 0 and answer["result"] == "right", answer
    assert answer["names"] == names(old.top)
    assert answer["right"] == names(old.top) + 1 and answer["pending"] == 0
    # further names of what was read need not be read again
    assert answer["files_read"] + answer["files_read_earlier"] == len(files(old.top))
    assert 0 <= sum(map(os.path.getsize, files(old.top))) - answer["bytes_read"] <= 6000
    assert answer["made_by_clients"] == answer["removed_by_clients"] == 0


def change_as_clients(m, proto):
    """Returns what must be told as changed."""
    with m.client(proto) as c:
        c.write_file("clients/a", b"new, and longer than it was" * 10)
        c.write("clients/d", 1 << 19, b"in the middle")
        c.setattr("clients/b", size=10)
        c.setattr("clients/c", mode=0o600)
        c.setattr("clients/e", mtime=OLD + 7 * NS)
        c.setattr("clients/empty", uid=4242)
        c.write_file("clients/made", b"made")
        c.mkdir("clients/made-too")
        c.link("links/two", "clients/linked")
        c.remove("names/a")
        c.rename("names/b", "names/c-was-b")
        c.rename("names/c", "clients/made-too/c")
        c.rename("moved", "clients/made-too/was-moved")
        c.write_file("clients/made-too/was-moved/deep/a", b"after the move")
        for name in SIZES:
            c.remove("away/" + name)
            c.rename("away/sub/" + name, "clients/made-too/sub-" + name)
        c.rmdir("away/sub")
        c.rmdir("away")
        c.remove("odd/symlink")
        c.symlink("odd/symlink", b"else/where")
        c.write_file("odd/new", b"as editors do it" * 400)
        c.rename("odd/new", "odd/a")
    return {"clients/a", "clients/b", "clients/c", "clients/d", "clients/e", "clients/empty",
            "links/two", "links/two-again", "moved/deep/a", "odd/symlink", "odd/a"}


@pytest.mark.parametrize("proto", ["v3", "v4.1"])
def test_clients_changes_are_told_apart(m, proto):
    want = change_as_clients(m, proto)
    found, answer = verify(m)
    directories = {path for path in found if (m.volume / path).is_dir() or path == "."}
    proof.count(false_alarms=answer["different"] + answer["unclear"])
    assert not [f for f in found.values() if f["class"] != "changed"], found
    assert set(found) - directories == want
    assert answer["exit"] == 0 and answer["result"] == "right"
    assert answer["moved_by_clients"] == 3 + len(SIZES), answer
    assert answer["made_by_clients"] == 3


def test_what_clients_changed_before_it_was_here(new_migration, disk, old):
    home = disk.path / "volume"
    home.mkdir()
    m = new_migration(old.url(), home).init().start()
    with m.client("v3") as c:
        c.write("clients/d", 100, b"before it came")
        c.setattr("clients/b", mode=0o640)
        c.remove("clients/c")
        c.write_file("clients/new", b"new")
        c.rename("names/d", "names/was-d")
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    found, answer = verify(m)
    directories = {path for path in found if (m.volume / path).is_dir()}
    assert not [f for f in found.values() if f["class"] != "changed"], found
    assert set(found) - directories == {"clients/d", "clients/b"}
    assert answer["exit"] == 0


def seed(m, disk):
    """Damage that a comparison must find: {path: what}."""
    with open(m.volume / "links" / "one", "rb") as f:
        linked = f.read()
    m.stop()
    with Disk(disk) as on:
        on.flip("volume/hit/c", 65537)
        on.flip("volume/hit/e", (3 << 20) + 1)
        on.swap("volume/swapped/a", "volume/swapped/b")
        on.copy_link("volume/links/one", "volume/links/one-again", linked)
        on.set("volume/hit/a", "mtime", "@1400000000")
        on.set("volume/hit/b", "uid", 77)
        on.set("volume/hit/d", "mode", "0100600")
        on.lose("volume/names/e")
        on.add("volume/hit/extra", b"where does this come from?")
    return {
        "hit/c": {"content"}, "hit/e": {"content"},
        "swapped/a": {"other-object"}, "swapped/b": {"other-object"},
        "links/one": {"links"}, "links/one-again": {"links"},
        "hit/a": {"mtime"}, "hit/b": {"owner"}, "hit/d": {"mode"},
        "names/e": {"missing"}, "hit/extra": {"extra"},
    }


def found_of(found, want):
    """Of what must be found; counted for tests/proof."""
    got = {path: set(found[path]["what"]) for path in want
           if path in found and found[path]["class"] == "different"}
    proof.count(seeded=len(want), found=sum(got.get(path) == what for path, what in want.items()),
                false_alarms=sum(f["class"] != "changed" for path, f in found.items()
                                 if path not in want))
    return got


def test_each_damage_is_found(m, disk):
    want = seed(m, disk)
    found, answer = verify(m)
    assert found_of(found, want) == want, found
    assert set(found) == set(want) and answer["exit"] == 3 and answer["result"] == "wrong"
    assert answer["different"] == len(want) and answer["unclear"] == 0


def test_damage_beside_clients_changes(m, disk):
    """In a directory whose names clients have changed a lost name counts as removed by them; all
    else is found as if they had been elsewhere."""
    changed = change_as_clients(m, "v3")
    want = seed(m, disk)
    del want["names/e"]                      # clients have removed other names there
    found, answer = verify(m)
    assert found_of(found, want) == want, found
    assert answer["different"] == len(want) and answer["unclear"] == 0
    assert answer["removed_by_clients"] >= 1 and changed <= set(found)


def test_clients_that_work_meanwhile(m):
    """Whatever they do while it is compared is no alarm."""
    m.postcopy("throttle", m.volume, "8M")
    stop, error = threading.Event(), []

    def work():
        try:
            with m.client("v3") as c:
                for n in itertools.count():
                    if stop.is_set():
                        return
                    at = "clients/%s" % "abcde"[n % 5]
                    c.write(at, 50, b"%d" % n)
                    c.rename(at, "names/moved-%d" % n)
                    c.rename("names/moved-%d" % n, at)
                    c.write_file("names/new-%d" % n, b"new")
                    c.rename("moved/%s" % "abcde"[n % 5], "clients/from-%d" % n)
                    c.rename("clients/from-%d" % n, "moved/%s" % "abcde"[n % 5])
        except Exception as err:
            error.append(err)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        found, answer = verify(m)
    finally:
        stop.set()
        thread.join(60)
    proof.count(false_alarms=answer["different"] + answer["unclear"])
    assert not error, error
    assert not [f for f in found.values() if f["class"] != "changed"], found
    assert answer["exit"] == 0


def test_content_under_a_changed_mode_is_unclear(m, disk):
    with m.client("v3") as c:
        c.setattr("hit/c", mode=0o600)
    m.stop()
    with Disk(disk) as on:
        on.flip("volume/hit/c", 1)
    found, answer = verify(m)
    assert set(found["hit/c"]["what"]) == {"content", "mode"}
    assert found["hit/c"]["class"] == "unclear" and answer["exit"] == 3


def test_a_sample(still):
    """Names and attributes of all, content of some."""
    found, answer = verify(still, mode=("--sample", 10))
    # both names of one file may be among them
    assert not found and answer["files_read"] + answer["files_read_earlier"] == 10, answer
    assert answer["exit"] == 0
    assert answer["listed_only"] + answer["right"] == answer["names"] + 1


def test_a_sample_of_all_finds_what_all_finds(m, disk):
    want = seed(m, disk)
    found, answer = verify(m, mode=("--sample", 10 ** 6))
    assert found_of(found, want) == want and set(found) == set(want)
    assert answer["different"] == len(want)


def running(m, *options):
    return subprocess.Popen([str(VOLUME_TOOL), "verify", "--all", *options, str(m.volume)],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def notes_right(m):
    """How many files the comparison that is running has found right."""
    path = m.volume / ".postcopy/verify"
    state = dict(line.split("=") for line in path.read_text().splitlines() if "=" in line) \
        if path.exists() else {}
    if state.get("result") != "running":
        return 0
    data = (m.volume / ".postcopy/finished").read_bytes()
    return sum(int.from_bytes(data[at + 20:at + 24], "little") == int(state["number"])
               for at in range(64, len(data), 64))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_goes_on_where_it_was(still, old, how):
    m = still
    m.postcopy("throttle", m.volume, "2M")
    with running(m, "--again") as process:
        wait_until(lambda: notes_right(m) > 5, 120)
        process.send_signal(how)
        out = process.communicate(timeout=300)[0]
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    if how == signal.SIGTERM:
        assert json.loads(out)["result"] == "broken-off"
    m.postcopy("throttle", m.volume, "0")
    found, answer = verify(m)
    assert answer["resumed"] and not found and answer["result"] == "right"
    assert answer["files_read_earlier"] > 5
    assert answer["files_read"] + answer["files_read_earlier"] == len(files(old.top))
    found, answer = verify(m)
    assert not answer["resumed"] and answer["files_read"] >= len(files(old.top)) - 2


def test_paused_it_waits(still):
    m = still
    m.postcopy("pause", m.volume)
    with subprocess.Popen([str(VOLUME_TOOL), "verify", "--all", "--again", str(m.volume)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while "waits: paused" not in process.stderr.readline():
            assert process.poll() is None
        m.postcopy("resume", m.volume)
        out, _ = process.communicate(timeout=120)
    assert json.loads(out)["result"] == "right"


def test_one_at_a_time(still):
    m = still
    m.postcopy("pause", m.volume)
    with running(m) as process:
        wait_until(lambda: m.tool("verified", m.volume)["result"] == "running", 60)
        answer = m.tool("verify", "--all", m.volume, check=False)
        process.terminate()
        process.communicate(timeout=300)
    m.postcopy("resume", m.volume)
    assert not answer["ok"] and answer["error"] == "in-use"


def test_the_source_is_lost(still, old):
    """It says how far it came, and is not taken for a verdict."""
    m = still
    old.stop()
    try:
        answer = m.tool("verify", "--all", "--give-up", 2, m.volume, check=False)
        assert not answer["ok"] and answer["exit"] == 1 and answer["error"] == "source-failed"
        assert "goes on" in answer["message"] and not answer["found"]
        assert m.tool("verified", m.volume)["result"] == "broken-off"
    finally:
        old.start()
    found, answer = verify(m)
    assert not found and answer["resumed"] and answer["result"] == "right"


def test_what_is_not_here_yet_is_pending(new_migration, disk, old):
    home = disk.path / "volume"
    home.mkdir()
    m = new_migration(old.url(), home).init().start()
    with m.client("v3") as c:
        c.read_file("hit/a")
    _, answer = verify(m)
    assert answer["pending"] and answer["exit"] == 3 and answer["result"] == "wrong"


def test_usage(still):
    m = still
    for options in ([], ["--all", "--sample", "3"], ["--sample", "0"], ["--sample", "x"],
                    ["--all", "--workers", "0"], ["--nonsense"]):
        answer = m.tool("verify", *options, m.volume, check=False)
        assert answer["error"] == "usage" and answer["exit"] == 2, options


def command(m, *argv):
    done = m.postcopy(*argv, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_command_and_what_finish_wants(m, disk):
    """finish refuses what was not found right, and what was asked for and not done."""
    status, text = command(m, "finish", "--require", "sample", m.volume)
    assert status == 60 and "never compared" in text
    status, text = command(m, "verify", "--sample", "5", m.volume)
    assert status == 0 and "0 different" in text and "probably fewer" in text, text
    status, text = command(m, "finish", "--require", "all", m.volume)
    assert status == 60 and "read 5 files only" in text
    m.server.stop()
    want = seed(m, disk)
    m.start_retriever()
    status, text = command(m, "verify", "--all", m.volume)
    assert status == 3 and "%d different" % len(want) in text, text
    assert all(path in text for path in want)
    for options in ([], ["--require", "all"], ["--require", "sample"]):
        status, text = command(m, "finish", *options, m.volume)
        assert status == 60 and "%d different" % len(want) in text, text
        assert m.asked()                                # nothing was stopped
    m.kill_retriever()
    answer = m.tool("remove", m.volume, check=False)
    assert answer["error"] == "not-verified" and (m.volume / ".postcopy").exists()
    status, text = command(m, "finish", "--unverified", m.volume)
    assert status == 0 and not (m.volume / ".postcopy").exists(), text


def test_finish_after_all_was_right(m):
    status, text = command(m, "verify", "--all", m.volume)
    assert status == 0 and "all of it was compared" in text, text
    status, text = command(m, "finish", "--require", "all", m.volume)
    assert status == 0 and not (m.volume / ".postcopy").exists(), text


def test_finish_without_any_comparison(m):
    """Who never asked for one is not held up."""
    status, text = command(m, "finish", m.volume)
    assert status == 0 and not (m.volume / ".postcopy").exists(), text


def lines_of(manifest):
    """By path: the words of its line."""
    found = {}
    for line in manifest.read_text("ascii").splitlines():
        if not line.startswith("#"):
            path, *words = line.split(" ")
            path = re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), path.encode())
            found[os.fsdecode(path)] = dict(word.split("=", 1) for word in words)
    return found


def snippet():
    """What docs/manifest.md says to type."""
    text = (ROOT / "docs/manifest.md").read_text()
    start = text.index("    while read -r path rest")
    return text[start:text.index("\n\n", start)].replace("< FILE", '< "$MANIFEST"')


def test_manifest(still, old, tmp_path):
    key, file = tmp_path / "key", tmp_path / "manifest"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    status, text = command(still, "verify", "--all", "--manifest", file, "--sign", key,
                           still.volume)
    assert status == 0 and "signed" in text, text
    found = lines_of(file)
    assert len(found) == names(old.top) + 1 and not list(tmp_path.glob("*.lines"))
    for path in files(old.top):
        line = found["./" + os.path.relpath(path, old.top)]
        with open(path, "rb") as f:
            assert line["sha256digest"] == hashlib.sha256(f.read()).hexdigest()
        assert line["time"] == "%d.%09d" % divmod(OLD, NS) and line["type"] == "file"
    assert found["./links/one"]["nlink"] == "2" and found["./odd/symlink"]["link"] == "some/where"
    (tmp_path / "signers").write_text("admin " + key.with_suffix(".pub").read_text())
    check = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "admin", "-n",
             "postcopy-manifest", "-s", str(file) + ".sig"]
    with open(file, "rb") as f:
        subprocess.run(check, stdin=f, check=True, capture_output=True)
    body = file.read_bytes()
    assert subprocess.run(check, input=body.replace(b"0644", b"0666", 1),
                          capture_output=True).returncode != 0
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", still.volume, copy], check=True)
    bash = ["bash", "-c", snippet()]
    done = subprocess.run(bash, cwd=copy, env=dict(os.environ, MANIFEST=str(file)), check=True,
                          capture_output=True, text=True)
    assert done.stdout == ""
    with open(copy / "hit" / "c", "r+b") as f:
        f.write(b"!")
    done = subprocess.run(bash, cwd=copy, env=dict(os.environ, MANIFEST=str(file)), check=True,
                          capture_output=True, text=True)
    assert done.stdout == "./hit/c\n"
    status, text = command(still, "verify", "--all", "--manifest", file, still.volume)
    assert status == 2 and "is there already" in text and file.read_bytes() == body
