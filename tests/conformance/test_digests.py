# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of the bytes as they come (docs/decisions/0074): a disk that has others is found when the
old server is gone, clients' changes are none, and what has no digest is told."""
import hashlib
import itertools
import os
import random
import threading

import pytest

from lib import proof
from lib.damage import Disk
from lib.wait import wait_until
from nfsclient import hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

T = 1_500_000_000_000_000_000
MIB = 1 << 20
SIZES = {"tiny": 1, "part": 65536, "more": 65537, "mib": MIB + 77, "large": 3 * MIB + 5,
         "blocks": 12 * MIB + 4097}
ON = "digests = 1\ncall_timeout = 600000\n"


def content(size, seed):
    data = bytearray(random.Random(seed).randbytes(size))
    data[size // 3:size // 3 + min(size // 4, 300000)] = bytes(min(size // 4, 300000))
    return bytes(data)


@pytest.fixture
def old():
    """Directories with one file of each size."""
    tree = Tree()
    server = FakeServer(tree)
    server.files = {}
    for d in ("kept", "hit", "clients"):
        parent = tree.mkdir(tree.root, d.encode(), atime=T, mtime=T, ctime=T)
        for n, (name, size) in enumerate(SIZES.items()):
            data = content(size, d + name)
            tree.file(parent, name.encode(), data, uid=1000, gid=1000, mode=0o644,
                      atime=T + n, mtime=T + n * 1_000_000_007, ctime=T + n)
            server.files["%s/%s" % (d, name)] = data
    with server:
        yield server


@pytest.fixture
def disk(new_volume):
    return new_volume("ext4", "1G")


@pytest.fixture
def make(new_migration, disk, old):
    def begin(conf=ON, start=True):
        home = disk.path / "volume"
        home.mkdir()
        m = new_migration(old.url(), home, conf=conf).init()
        return m.start() if start else m
    return begin


def complete(m):
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)


def verify(m, *options, mode="--digests"):
    answer = m.tool("verify", mode, *options, m.volume, check=False)
    assert answer["ok"], answer
    return {f["path"]: f for f in answer["found"]}, answer


def alarms(found):
    """Of what is the same, or a client's."""
    proof.count(false_alarms=sum(f["class"] != "changed" for f in found.values()))
    return {path: f for path, f in found.items() if f["class"] != "changed"}


def gone(m, old):
    """The migration stands still, and the old server is switched off."""
    m.stop()
    old.stop()


def test_damage_is_found_without_the_old_server(make, old, disk):
    m = make()
    complete(m)
    gone(m, old)
    found, answer = verify(m)
    assert not alarms(found) and not found and answer["exit"] == 0, answer
    assert (answer["result"], answer["mode"]) == ("right", "digests")
    assert answer["right"] == answer["files_read"] == len(old.files) and answer["unproven"] == 0
    assert answer["bytes_read"] == sum(map(len, old.files.values()))
    assert answer["names"] == len(old.files) + 3 and answer["listed_only"] == 3
    assert m.tool("verified", m.volume)["result"] == "never"    # it is none for finish
    with Disk(disk) as on:
        on.flip("volume/hit/tiny", 0)
        on.flip("volume/hit/more", 65536)
        on.flip("volume/hit/blocks", 12 * MIB + 4096)
    found, answer = verify(m)
    want = {"hit/tiny", "hit/more", "hit/blocks"}
    proof.count(seeded=len(want), found=len(want & set(found)))
    assert set(found) == want and answer["different"] == 3 and answer["exit"] == 3
    assert all(f["what"] == ["content"] and f["class"] == "different" for f in found.values())


@pytest.mark.parametrize("proto", ["v3", "v4.1"])
def test_clients_changes_are_no_alarm(make, old, proto):
    m = make()
    complete(m)
    with m.client(proto) as c:
        c.write("clients/large", MIB, b"in the middle")
        c.write_file("clients/tiny", b"new, and longer")
        c.setattr("clients/more", size=10)
        c.setattr("clients/part", mode=0o600)
        c.setattr("clients/mib", mtime=T + 7)
        c.write_file("clients/made", b"made")
        c.rename("clients/blocks", "kept/was-blocks")
        c.remove("hit/part")
    gone(m, old)
    found, answer = verify(m)
    assert not alarms(found), found
    assert set(found) == {"clients/" + name for name in ("large", "tiny", "more", "mib")}
    assert answer["exit"] == 0 and answer["unproven"] == 0 and answer["made_by_clients"] == 1
    assert answer["right"] == len(old.files) - len(found) - 1


def test_clients_that_work_meanwhile(make, old):
    m = make()
    complete(m)
    stop, error = threading.Event(), []

    def work():
        try:
            with m.client("v3") as c:
                for n in itertools.count():
                    if stop.is_set():
                        return
                    name = "clients/%s" % list(SIZES)[n % len(SIZES)]
                    c.write(name, n % 1000, b"%d" % n)
                    c.setattr(name, mode=0o600 + n % 8)
                    c.rename(name, "kept/moved")
                    c.rename("kept/moved", name)
                    c.write_file("hit/new", b"new %d" % n)
                    c.remove("hit/new")
        except Exception as err:
            error.append(err)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        for _ in range(5):
            found, answer = verify(m)
            assert not alarms(found), found
            assert answer["unproven"] == answer["pending"] == 0, answer
    finally:
        stop.set()
        thread.join(60)
    assert not error, error


def test_usage(make):
    m = make(start=False)
    for options in (["--digests", "--all"], ["--digests", "--sample", "3"], ["--digests", "x", "y"]):
        answer = m.tool("verify", *options, m.volume, check=False)
        assert answer["error"] == "usage" and answer["exit"] == 2, options


def test_whoever_reads_first_and_wherever(make, old):
    """Bytes that clients made come, at odd places, are digested like the crawler's."""
    m = make()
    with m.client("v3") as c:
        for at in (0, 5 * MIB + 333, 11 * MIB):
            c.read("kept/blocks", at, 100)
        c.read("kept/large", MIB + 12345, 20)
        c.read_file("kept/tiny")
        c.write("clients/blocks", 70000, b"before it is here")
        c.setattr("clients/large", mode=0o600)
        c.setattr("clients/mib", size=100)
    complete(m)
    gone(m, old)
    found, answer = verify(m)
    assert not alarms(found), found
    assert set(found) == {"clients/blocks", "clients/mib"}
    assert answer["exit"] == 0 and answer["unproven"] == 0


def test_a_killed_retriever_costs_digests_and_makes_no_alarm(make, old):
    m = make(start=False)
    gate = hooks.Gate()
    old.hook("READ", hooks.only(lambda call: call.offset == 2 * MIB, gate))
    m.start_retriever()
    m.start_crawler()
    # the rest of those files has come, and is known to nobody but the one that is killed
    wait_until(lambda: gate.waiting == 6 and m.asked()["bytes_done"] > 24 * MIB, 60)
    m.kill_retriever()
    m.kill_crawler()
    gate.open()
    m.start_retriever()
    complete(m)
    m.stop()
    found, answer = verify(m)
    assert not alarms(found) and not found
    assert answer["unproven"] and answer["exit"] == 3 and answer["result"] == "wrong"
    assert answer["unproven"] + answer["right"] == len(old.files)
    # as long as the old server is there
    found, answer = verify(m, "--config", m.workdir / "postcopy.conf", mode="--all")
    assert not found and answer["exit"] == 0 and answer["unproven"] == 0
    old.stop()
    found, answer = verify(m)
    assert not found and answer["exit"] == 0 and answer["right"] == len(old.files)


def test_nobody_has_asked_for_them(make, old):
    m = make(conf="digests = 0\ncall_timeout = 600000\n")
    complete(m)
    m.stop()
    assert not (m.volume / ".postcopy/digests").exists()
    found, answer = verify(m)
    assert not found and answer["unproven"] == len(old.files) and answer["exit"] == 3
    done = m.postcopy("verify", "--digests", m.volume, check=False)
    assert done.returncode == 3 and "have no digest" in done.stdout, done
    assert "nothing is wrong" not in done.stdout


def test_a_manifest_without_the_old_server(make, old):
    m = make()
    complete(m)
    with m.client("v3") as c:
        c.write("clients/large", 5, b"changed")
        c.setattr("clients/tiny", mode=0o600)
    gone(m, old)
    file = m.workdir / "manifest"
    done = m.postcopy("verify", "--digests", "--manifest", file, m.volume)
    assert "nothing is wrong" in done.stdout
    lines = file.read_text().splitlines()
    assert "# comparison: digests" in lines[3]
    digests = {line.split()[0][2:]: line.split("sha256digest=")[1]
               for line in lines if "sha256digest=" in line}
    want = {path: hashlib.sha256(data).hexdigest() for path, data in old.files.items()}
    assert digests == {path: digest for path, digest in want.items()
                       if path not in ("clients/large", "clients/tiny")}
    assert any(line.startswith("./kept type=dir") for line in lines)


def test_digests_that_are_damaged(make, old):
    """Other bytes in their place are no alarm; another file there is told."""
    m = make()
    complete(m)
    gone(m, old)
    path = m.volume / ".postcopy/digests"
    data = bytearray(path.read_bytes())
    for at in range(64, len(data), 64):
        data[at + 40] ^= any(data[at:at + 64])
    path.write_bytes(data)
    found, answer = verify(m)
    assert not found and answer["unproven"] == len(old.files) and answer["exit"] == 3
    path.write_bytes(b"what is this?")
    answer = m.tool("verify", "--digests", m.volume, check=False)
    assert not answer["ok"] and answer["exit"] == 1 and "take it away" in answer["message"]
    os.unlink(path)
    found, answer = verify(m)
    assert not found and answer["unproven"] == len(old.files)
