# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy resolve`: what changed on the old server, or never comes, has ways out.

theirs: the old server's present version, whole, and nothing of the one before; refused
where a client has written.  ours, lost: what is here counts.  Each decision is written down
before, outlives a kill at any time, and leaves the counter."""
import json
import os
import re

import pytest

from lib.case import BLOCK
from lib.expect import smb_status
from lib.wait import wait_until
from lib.world import SmbWorld
from nfsclient import NfsError, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Bytes, Pattern, Tree
from smb2client import wire

WORLD = SmbWorld


MIB = 1 << 20
OLD = Pattern(3 * MIB, seed=1)
NEW = {"content": Pattern(3 * MIB, seed=2), "longer": Pattern(4 * MIB + 5, seed=2),
       "shorter": Pattern(MIB + 5, seed=2), "replaced": Pattern(3 * MIB, seed=2)}


@pytest.fixture
def running(new_migration, fresh_dir):
    tree = Tree()
    tree.file(tree.root, "f", OLD)
    tree.file(tree.root, "g", Pattern(5000))
    d = tree.mkdir(tree.root, "d")
    tree.file(d, "in", b"inside")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir, allow=["converted to NFS3ERR_IO"], conf="""
block_size = 65536
read_size = 65536
max_tries = 1
""").init()
        m.server.allow = ["converted to NFS3ERR_IO"]
        m.start()
        with m.client() as c:
            yield m, server, c.patient(60)


def change(node, what):
    node.content = NEW[what]
    node.touch()
    if what == "replaced":
        node.fileid += 50


def parked(m):
    return m.tool("parked", m.volume)["parked"]


def resolve(m, *argv, check=True):
    done = m.postcopy("resolve", "--json", *argv, check=False)
    answer = json.loads(done.stdout) if done.stdout else {}
    if check:
        assert done.returncode == 0 and answer["ok"], (done.stdout, done.stderr)
    return done, answer


def decisions(m):
    return [json.loads(line) for line in
            (m.volume / ".postcopy" / "resolved").read_text().splitlines()]


def conflict(m, c, node, what="content"):
    """f is a conflict, of which the first block is here."""
    assert c.read("f", 0, 65536)[0] == OLD.read(0, 65536)
    change(node, what)
    with pytest.raises(NfsError) as info:
        c.read("f", 2 * MIB if what != "shorter" else MIB, 1000)
    assert info.value.status == errors.IO
    m.crawl()
    assert [e["why"] for e in parked(m)] == ["conflict"]


@pytest.mark.parametrize("what", NEW)
def test_theirs(running, what):
    m, server, c = running
    conflict(m, c, server.tree.find("f"), what)
    fh = c.lookup("f")[0]
    _done, answer = resolve(m, "--theirs", m.volume, "f")
    assert (answer["resolved"], answer["refused"]) == (1, [])
    assert parked(m) == []
    [line] = decisions(m)
    assert (line["how"], line["path"], line["kind"]) == ("theirs", "f", "file")
    new = NEW[what]
    assert c.getattr("f").size == new.size              # as the old server has it now
    assert c.read("f", 0, 65536)[0] == new.read(0, 65536)
    m.kill_retriever()                                  # it is kept
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == new.read(0, new.size) and c.lookup("f")[0] == fh


def test_theirs_while_the_bytes_of_before_are_on_their_way(running):
    """A READ that was answered before the decision, and comes after it, is not stored."""
    m, server, c = running
    node, gate = server.tree.find("f"), hooks.Gate()
    server.hook("READ", hooks.only(
        lambda call: call.node is node and 2 * MIB <= call.offset < 2 * MIB + MIB // 2, gate))
    c.names()
    m.start_crawler()
    try:
        wait_until(lambda: gate.waiting > 0, 60, "old bytes on their way")
        change(node, "content")
        with pytest.raises(NfsError):
            c.read("f", 3 * MIB - 1000, 1000)
        wait_until(lambda: parked(m), 60, "a conflict")
        resolve(m, "--theirs", m.volume, "f")
    finally:
        gate.open()
    assert m.crawler.wait(120) == 0
    m.drain()
    if parked(m):                                       # an answer of before has parked it again
        done, answer = resolve(m, "--theirs", "--all", m.volume, check=False)
        if done.returncode:                             # though all of it has come
            assert re.search("nothing of it is missing|it is not parked",
                             answer["refused"][0]["message"]), answer
            wait_until(lambda: not parked(m), 60, "the retriever's own look at it")
        m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == NEW["content"].read(0, 3 * MIB)


def test_what_a_client_wrote_is_not_given_up(running, tmp_path):
    """theirs is refused then; ours too while something never came; lost is a decision."""
    m, server, c = running
    conflict(m, c, server.tree.find("f"))
    c.write("f", 10, b"mine")
    for way, word in (("--theirs", "a client has changed it here"), ("--ours", "never came")):
        done, answer = resolve(m, way, m.volume, "f", check=False)
        assert done.returncode == 1 and answer["resolved"] == 0
        assert word in answer["refused"][0]["message"]
    assert decisions(m) == [] and len(parked(m)) == 1
    assert c.read("f", 0, 65536)[0] == OLD.read(0, 10) + b"mine" + OLD.read(14, 65536 - 14)
    resolve(m, "--lost", m.volume, "f")
    [line] = decisions(m)
    assert line["missing"] == [[65536, 3 * MIB]] and "mtime" in line["reason"]
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == OLD.read(0, 10) + b"mine" + OLD.read(14, 65536 - 14) + bytes(
        3 * MIB - 65536)
    m.server.stop()
    to = tmp_path / "lists" / "kept"
    said = m.postcopy("finish", "--list", to, m.volume).stdout
    assert str(to) in said and json.loads(to.read_text()) == line
    assert not (m.volume / ".postcopy").exists()


def test_ours_of_what_was_written_here(running):
    """Past us, on the server itself: what lies there is the file."""
    m, server, c = running
    conflict(m, c, server.tree.find("f"))
    mine = os.urandom(3 * MIB)
    with open(m.volume / "f", "r+b") as f:
        f.write(mine)
    resolve(m, "--ours", m.volume, "--all")
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f") == mine


def test_lost_objects_do_not_hold_up_the_end(running):
    """A file that cannot be read and a directory that cannot be listed."""
    m, server, c = running
    bad = {server.tree.find(name) for name in ("g", "d")}
    server.hook("READ READDIRPLUS READDIR",
                hooks.only(lambda call: call.node in bad, hooks.status(errors.IO)))
    assert c.read("d/in", 0, 6)[0] == b"inside"        # looked up: it is here
    m.crawl()
    assert {e["path"] for e in parked(m)} == {"d", "g"} and m.status()["parked"] == 2
    done, answer = resolve(m, "--theirs", m.volume, "d", check=False)
    assert done.returncode == 1 and "directory" in answer["refused"][0]["message"]
    assert resolve(m, "--lost", "--all", m.volume)[1]["resolved"] == 2
    m.crawl()
    m.audit(complete=True)
    assert {(d["path"], d["kind"]) for d in decisions(m)} == {("d", "directory"), ("g", "file")}
    assert c.names("d") == [b"in"] and c.read_file("d/in") == b"inside"
    assert c.read_file("g") == bytes(5000)


@pytest.mark.parametrize("way", ["--lost", "--ours"])
def test_what_was_decided_is_parked_no_more(running, way):
    """Also where its end waits, since clients have asked for it lately."""
    m, server, c = running
    m.kill_retriever()
    m.conf += "finish_delay = 3600\n"
    m.start_retriever()
    conflict(m, c, server.tree.find("f"))
    if way == "--ours":
        c.write("f", 0, bytes(3 * MIB))
    resolve(m, way, m.volume, "f")
    assert c.read("f", 2 * MIB, 1000)[0] == bytes(1000)
    s = m.status()
    assert (s["parked"], s["conflicts"], parked(m)) == (0, 0, [])
    assert m.postcopy("retry", "--all", m.volume).stdout == "0 objects are tried again\n"
    m.kill_retriever()
    m.conf = m.conf.replace("finish_delay = 3600\n", "")
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)


def test_what_is_not_parked_is_left_alone(running):
    m, _server, c = running
    c.names()
    for argv, word in ((["--lost", m.volume, "g"], "is not parked"),
                       (["--lost", m.volume, "absent"], "No such file"),
                       (["--lost", m.volume], "--all")):
        done, answer = resolve(m, *argv, check=False)
        assert done.returncode != 0 and word in answer["message"], answer
    assert resolve(m, "--lost", "--all", m.volume)[1]["resolved"] == 0
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("g") == Pattern(5000).read(0, 5000)


# -- over SMB -------------------------------------------------------------------------------

def smb_conflict(world, client, path):
    node, data = world.models.pop(path)
    with client.open(path) as f:
        assert f.read(0, BLOCK) == data[:BLOCK]
    node.content = Bytes(bytes(reversed(data)))
    node.touch()
    assert smb_status(client.read_file, path)
    wait_until(lambda: [p for p in parked(world.m) if p.get("path") == path], 60, "a conflict")
    return data


def test_theirs_over_smb(world, smb):
    d = world.dir()
    path = d + "/f"
    world.file(path)
    data = smb_conflict(world, smb, path)
    resolve(world.m, "--theirs", world.volume, path)
    assert smb.read_file(path) == bytes(reversed(data))
    world.fill(path)
    assert smb.read_file(path) == bytes(reversed(data)) and parked(world.m) == []


def test_lost_over_smb(world, smb):
    d = world.dir()
    path = d + "/f"
    world.file(path)
    data = smb_conflict(world, smb, path)
    here = world.show(path)["now"]
    with smb.open(path, wire.READ_DATA | wire.WRITE_DATA) as f:
        f.write(0, b"mine")
    done, _answer = resolve(world.m, "--theirs", world.volume, path, check=False)
    assert done.returncode == 1
    resolve(world.m, "--lost", world.volume, path)
    world.settle()
    want = bytearray(b"mine" + data[4:])
    for start, end in here:
        want[start:end] = bytes(end - start)
    assert smb.read_file(path) == bytes(want) and parked(world.m) == []
