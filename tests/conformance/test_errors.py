# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy errors`: what is parked, as work to do.

By reason, in words that scripts may rely on, with what to do about each, and with the first
objects by their names here and over there; no retriever is needed."""
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import types

import pytest

from lib.programs import POSTCOPY, TESTS, VOLUME_TOOL
from lib.smbsource import with_module
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

MANUAL = TESTS.parent / "crawler/admin/postcopy.8"
CONF = "max_tries = 1\n"
SMALL = "block_size = 65536\nread_size = 65536\n"
FINE = ["converted to NFS[34]ERR_IO"]


def told(m, *argv):
    return json.loads(m.postcopy("errors", "--json", *argv, m.volume).stdout)


def codes(answer):
    return {g["code"]: g["count"] for g in answer["groups"]}


def first(answer, code):
    return [g["first"] for g in answer["groups"] if g["code"] == code][0]


@pytest.fixture
def failing(new_migration, fresh_dir):
    """Crawled; some objects are parked, each for a reason of its own but for two."""
    tree = Tree()
    for name in ("denied1", "denied2", "broken", "short", "changed", "fine"):
        tree.file(tree.root, name, Pattern(9000, seed=1))
    tree.find("short").claim(size=20000)
    d = tree.mkdir(tree.root, "locked")
    tree.file(d, "in", b"inside")
    tree.symlink(tree.mkdir(tree.root, "odd"), "link", "t" * 5000)
    nodes = {name: tree.find(name) for name in ("denied1", "denied2", "broken", "locked")}
    with FakeServer(tree) as server:
        server.hook("READ", hooks.only(
            lambda call: call.node in (nodes["denied1"], nodes["denied2"]),
            hooks.status(errors.ACCES)))
        server.hook("READ", hooks.only(lambda call: call.node is nodes["broken"],
                                       hooks.status(errors.IO)))
        server.hook("READDIRPLUS READDIR", hooks.only(
            lambda call: call.node is nodes["locked"], hooks.status(errors.IO)))
        m = new_migration(server.url(), fresh_dir, conf=CONF, allow=FINE).init()
        m.server.allow = FINE
        m.start()
        with m.client() as c:
            c.patient(60).names()
        tree.find("changed").touch()
        m.crawl()
        m.mend = server.clear_hooks
        yield m, server


def test_by_reason(failing):
    m, server = failing
    answer = told(m)
    assert codes(answer) == {"denied": 2, "read-error": 1, "cut-short": 1, "list-failed": 1,
                             "changed-there": 1, "name-unreadable": 1}, answer
    assert (answer["errors"], answer["conflicts"], answer["damaged"]) == (6, 1, 0)
    assert answer["groups"][0]["code"] == "denied"          # most first
    assert {p["path"] for p in first(answer, "denied")} == {"denied1", "denied2"}
    for p in first(answer, "denied"):
        node = server.tree.find(p["path"])
        assert p["source_fileid"] == node.fileid and p["source_handle"] == node.fh.hex()
    assert [g["why"] for g in answer["groups"] if g["code"] == "changed-there"] == ["conflict"]
    assert {p["code"] for p in m.tool("parked", m.volume)["parked"]} == set(codes(answer))
    assert len(first(told(m, "--first", "1"), "denied")) == 1
    m.kill_retriever()                                      # it is not needed
    assert codes(told(m)) == codes(answer)
    assert json.loads(m.postcopy("status", "--json", m.volume).stdout)["only_parked"] is True
    text = m.postcopy("errors", m.volume).stdout
    for word in ("denied", "postcopy retry denied", "changed-there", "postcopy accept --theirs",
                 "7 objects parked", "old server: inode %d" % server.tree.find("broken").fileid):
        assert word in text, text
    for argv in (["--first", "x"], ["--first", "1001"]):
        assert m.postcopy("errors", *argv, m.volume, check=False).returncode == 2


def test_a_path_that_the_kernel_does_not_know(tmp_path):
    """It is found by a walk, but not in what is mounted inside, where numbers mean others."""
    loader = importlib.machinery.SourceFileLoader("postcopy_command", str(POSTCOPY))
    command = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(command)
    top = tmp_path / "volume"
    for name in ("d/deep/file", "d/other", "mounted/none", ".postcopy/provisional/x"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(b"")
    hidden = (top / ".postcopy/provisional/x").stat().st_ino
    subprocess.run(["mount", "-t", "tmpfs", "none", top / "mounted"], check=True)
    try:
        (top / "mounted/alien").write_bytes(b"")
        alien = (top / "mounted/alien").stat().st_ino
        objects = [{"inode": (top / "d/deep/file").stat().st_ino}, {"inode": alien},
                   {"inode": hidden}, {"path": "known", "inode": (top / "d/other").stat().st_ino},
                   {"kind": "gone"}]
        volume = types.SimpleNamespace(path=str(top))
        command.with_paths(volume, objects)
        assert [p.get("path") for p in objects] == ["d/deep/file", None, None, "known", None]
        with pytest.raises(OSError):
            command.inode_at(volume, "mounted/alien")
        assert command.inode_at(volume, "d/other").st_ino == objects[3]["inode"]
        assert command.by_inode(volume, {objects[0]["inode"]}, seconds=-1) == {}
    finally:
        subprocess.run(["umount", top / "mounted"], check=True)


def test_nothing(new_migration, fresh_dir):
    tree = Tree()
    tree.file(tree.root, "f", b"x")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init()
        answer = told(m)
        assert (answer["groups"], answer["errors"], answer["conflicts"]) == ([], 0, 0)
        assert m.postcopy("errors", m.volume).stdout == "nothing is parked\n"
        assert "nothing was decided by hand" in m.postcopy("errors", "--decided", m.volume).stdout


def test_decisions_that_are_no_decisions(failing):
    """Lines that were cut off, or written by who may not: counted, and shown harmlessly."""
    m, _server = failing
    line = {"time": "2026-01-31T12:00:00Z", "how": "lost", "kind": "file", "inode": 1 << 60,
            "path": "a\x1b[2Jb", "reason": "read", "missing": []}
    (m.volume / ".postcopy/resolved").write_bytes(b"\n".join([
        json.dumps(line).encode(), b'{"time":"2026', b"[" * 5000, b"null", b"\xff\xfe",
        json.dumps({**line, "how": "stolen"}).encode(),
        json.dumps({**line, "inode": "1"}).encode(), json.dumps({**line, "how": []}).encode()]))
    answer = told(m, "--decided")["decided"]
    assert (answer["lost"], answer["theirs"], answer["unreadable"]) == (1, 0, 7), answer
    assert [d["path"] for d in answer["decisions"]] == [line["path"]]
    said = m.postcopy("errors", "--decided", m.volume).stdout
    assert "\x1b" not in said and r"\x1b[2Jb" in said and "1 given up" in said


# -- retry ---------------------------------------------------------------------------------------

def retry(m, *words, check=True):
    done = m.postcopy("retry", "--json", *words, check=check)
    return json.loads(done.stdout) if check else done


def left(m):
    return {p["path"] for p in m.tool("parked", m.volume)["parked"]}


ALL = {"denied1", "denied2", "broken", "short", "changed", "locked", "odd"}


def test_what_is_tried_again(failing):
    """By reason, by path, and what is no mistake of typing; without a crawler."""
    m, server = failing
    assert left(m) == ALL and m.status()["crawler"] is False
    for words in (["denid"], ["denied", "nowhere"], ["locked/in"], ["does-not-fit"], ["../x"],
                  ["/etc/passwd"], [".postcopy"], [""]):
        done = retry(m, m.volume, *words, check=False)
        assert done.returncode in (2, 4), (words, done)
        assert json.loads(done.stdout)["ok"] is False and left(m) == ALL
    assert retry(m, "--errors", m.volume, "changed", check=False).returncode == 4
    m.mend()
    answer = retry(m, m.volume, "denied")
    assert (answer["retried"], answer["asked"], answer["crawler"]) == (2, 2, False)
    wait_until(lambda: not os.listxattr(m.volume / "denied1") and
               m.status()["pending"] == 0, 120, "the retriever fetches them itself")
    assert (m.volume / "denied2").read_bytes() == Pattern(9000, seed=1).read(0, 9000)
    assert left(m) == ALL - {"denied1", "denied2"}
    assert retry(m, m.volume / "brok*")["retried"] == 1         # in full, and DIR is known by it
    assert retry(m, "--conflicts", m.volume, "./changed")["retried"] == 1
    wait_until(lambda: left(m) == {"short", "changed", "locked", "odd"}, 120, "one is parked again")
    assert retry(m, m.volume, "locked")["retried"] == 1
    wait_until(lambda: (m.volume / "locked/in").exists(), 120, "names of it")
    assert "locked" not in left(m)
    m.crawl()
    assert (m.volume / "locked/in").read_bytes() == b"inside"


def test_a_crawler_that_runs_does_it(failing):
    m, _server = failing
    m.start_crawler(stay=True)
    wait_until(lambda: m.status()["crawler"], 60, "a crawler")
    m.mend()
    answer = retry(m, m.volume, "read-error", "denied*", "--all")
    assert (answer["retried"], answer["asked"], answer["crawler"]) == (3, 0, True)
    wait_until(lambda: left(m) == ALL - {"broken", "denied1", "denied2"} and
               m.status()["pending"] == 0, 120, "they come")
    m.kill_crawler()


def test_what_fails_again_is_parked_again(failing):
    """And the old words go on meaning what they meant."""
    m, _server = failing
    assert retry(m, m.volume)["retried"] == 6
    wait_until(lambda: left(m) == ALL and m.status()["pending"] == 0, 120, "parked again")
    assert retry(m, m.volume, "--conflicts")["retried"] == 1
    wait_until(lambda: left(m) == ALL and m.status()["pending"] == 0, 120, "parked again")
    m.postcopy("pause", m.volume)
    assert "paused" in m.postcopy("retry", "--all", m.volume).stdout
    m.postcopy("resume", m.volume)
    wait_until(lambda: left(m) == ALL and m.status()["pending"] == 0, 120, "parked again")


# -- skip, accept ---------------------------------------------------------------------------------

def decide(m, *words, ok=True):
    done = m.postcopy(*words[:1], "--json", *words[1:], check=False)
    answer = json.loads(done.stdout)
    assert (done.returncode == 0) == ok == answer["ok"], done
    return answer


def test_skip(failing):
    """Explicit, recorded, and the migration can end; nothing is given up on a guess."""
    m, server = failing
    linked = m.volume / "other"
    os.link(m.volume / "broken", linked)
    (m.volume.parent / (m.volume.name + "-aside")).symlink_to(m.volume)
    os.symlink(m.volume / "locked", m.volume / "way")
    for words, why in ((["fine"], "is not parked"), (["denied1", "fine"], "is not parked"),
                       (["absent"], "No such file"), (["way/in"], "Not a directory"),
                       (["/etc/passwd"], "not in the volume"), (["../x"], "name what is"),
                       ([".postcopy/lock"], "name what is"), (["way"], "is not parked"),
                       (["broken"], "hard-linked"), (["other"], "hard-linked"), ([], "name the")):
        said = decide(m, "skip", m.volume, *words, ok=False)["message"]
        assert why in said, (words, said)
    assert "is no conflict" in decide(m, "accept", "--theirs", m.volume, "denied1",
                                      ok=False)["message"]
    assert {"broken" if p == "other" else p for p in left(m)} == ALL
    assert not (m.volume / ".postcopy/resolved").read_bytes()
    os.unlink(m.volume / "way")
    assert decide(m, "skip", "--links", m.volume, "other")["resolved"] == 1
    os.unlink(linked)
    assert decide(m, "skip", m.volume / "denied1", m.volume / "locked/", m.volume / "odd")[
        "resolved"] == 3
    assert decide(m, "skip", m.volume, "./denied2", "denied2", "short")["resolved"] == 2
    assert left(m) == {"changed"}                       # at once
    answer = decide(m, "accept", "--ours", m.volume, "changed", ok=False)
    assert "never came" in answer["refused"][0]["message"]
    assert decide(m, "accept", "--theirs", m.volume, "changed")["resolved"] == 1
    wait_until(lambda: m.status()["state"] == "complete", 120, "the end, without a crawler")
    assert (m.volume / "changed").read_bytes() == Pattern(9000, seed=1).read(0, 9000)
    assert (m.volume / "denied1").read_bytes() == bytes(9000)
    answer = told(m, "--decided")
    assert (answer["decided"]["lost"], answer["decided"]["theirs"]) == (6, 1), answer
    assert {"broken" if d["path"] == "other" else d["path"]
            for d in answer["decided"]["decisions"]} == ALL
    m.audit(complete=True)


KILLED = [(call, n) for call, most in (("fsync", 3), ("fsetxattr", 2), ("write", 3), ("openat", 3))
          for n in range(1, most + 1)]


def killed_at(m, call, n):
    """The retriever is killed by its n-th such call from now on; it is traced when this returns."""
    process = subprocess.Popen(["strace", "-f", "-e", "trace=" + call, "-e",
                                "inject=%s:signal=KILL:when=%d" % (call, n), "-o", "/dev/null", "-p",
                                str(m.retriever.pid)], stderr=subprocess.PIPE, text=True)
    assert "attached" in process.stderr.readline()
    return process


def end_trace(m, trace):
    """strace that is told to end at the moment in which what it traces dies waits for ever for a thread group's leader
    that is gone, and the others stay where they are, stopped: until it is killed."""
    if m.retriever.poll() is None:
        trace.terminate()
    try:
        trace.wait(10)
    except subprocess.TimeoutExpired:
        trace.kill()
        trace.wait(60)
        m.retriever.wait(60)
    trace.stderr.close()


def test_killed_while_skipping(new_migration, fresh_dir):
    """At any moment: the object is parked still, or skipped and recorded."""
    tree = Tree()
    names = ["f-%s-%d" % k for k in KILLED]
    for name in names:
        tree.file(tree.root, name, Pattern(9000, seed=1))
    with FakeServer(tree) as server:
        server.hook("READ", hooks.status(errors.ACCES))
        m = new_migration(server.url(), fresh_dir, conf=CONF, allow=FINE).init()
        m.server.allow = FINE
        m.start()
        m.crawl()
        assert left(m) == set(names)
        died = 0
        for name, (call, n) in zip(names, KILLED):
            trace = killed_at(m, call, n)
            m.postcopy("skip", m.volume, name, check=False)
            end_trace(m, trace)
            if m.retriever.poll() is not None:
                died += 1
                m.start_retriever()
            wait_until(lambda: m.status()["state"] != "source-lost", 60, "a connection")
            if name in left(m):
                m.postcopy("skip", m.volume, name, check=False)
            else:
                assert '"path":"%s"' % name in (m.volume / ".postcopy/resolved").read_text()
            wait_until(lambda: name not in left(m), 60, "skipped")
        assert died >= 4, died
        m.crawl()               # what a retriever that was killed had in hand
        wait_until(lambda: m.status()["state"] == "complete", 120, "the end")
        assert told(m)["decided"]["lost"] == len(names)
        m.audit(complete=True)


# -- real servers ------------------------------------------------------------------------------

def end(m, changed, lost):
    """What is left is decided, without a crawler."""
    decide(m, "accept", "--theirs", m.volume, changed)
    decide(m, "skip", m.volume / lost)
    wait_until(lambda: m.status()["state"] == "complete", 120, "the end")
    m.audit(complete=True)
    assert {d["path"]: d["how"] for d in told(m, "--decided")["decided"]["decisions"]} == {
        changed: "theirs", lost: "lost"}


def test_of_a_real_nfs_server(new_migration, old_server, loop_xfs, fresh_dir):
    """Removed, and changed, after they were listed."""
    top = loop_xfs.path / "nfs-tree"
    top.mkdir()
    for name in ("removed", "changed", "fine"):
        (top / name).write_bytes(os.urandom(5000))
    number = (top / "changed").stat().st_ino
    old = old_server(top)
    m = new_migration(old.url(), fresh_dir, conf=CONF, allow=FINE).init()
    m.server.allow = FINE
    m.start()
    with m.client() as c:
        assert len(c.patient(60).names()) == 3
    with old.client() as c:
        c.remove("removed")
        c.setattr("changed", size=5)
    m.crawl()
    answer = told(m)
    assert codes(answer) == {"gone-there": 1, "changed-there": 1}, answer
    [p] = first(answer, "changed-there")
    assert (p["path"], p["source_fileid"]) == ("changed", number)
    end(m, "changed", "removed")
    assert (m.volume / "changed").read_bytes() == (top / "changed").read_bytes()
    assert (m.volume / "removed").read_bytes() == bytes(5000)


@with_module
def test_of_a_real_smb_server(moddir, new_samba, make, tree):
    """More streams than are taken, and a file of which the rest has changed; by their paths."""
    (tree / "d").mkdir()
    for name in ("d/changed", "d/streams", "fine"):
        (tree / name).write_bytes(b"x" * (3 << 20))
    for i in range(300):
        os.setxattr(tree / "d/streams", "user.DosStream.s%03d:$DATA" % i,
                    b"%03d" % i * 20000 + b"\0")
    old = new_samba("old", tree)
    m = make(old.url(), conf=CONF + SMALL, allow=[" error: ", *FINE]).init().start()
    m.server.allow = FINE
    with m.client() as c:
        assert c.patient(60).read("d/changed", 0, 10)[0] == b"x" * 10
        m.server.stop()
    wait_until(lambda: not old.has_open(tree / "d/changed"), 60, "the worker has closed it")
    (tree / "d/changed").write_bytes(b"y" * (3 << 20) + b"more")
    m.crawl()
    answer = told(m)
    assert codes(answer) == {"bad-answer": 1, "changed-there": 1}, answer
    assert [p["source_path"] for p in first(answer, "changed-there")] == ["d/changed"]
    assert [p["source_path"] for p in first(answer, "bad-answer")] == ["d/streams"]
    assert "old server: d/streams" in m.postcopy("errors", m.volume).stdout
    end(m, "d/changed", "d/streams")
    assert (m.volume / "d/changed").read_bytes() == (tree / "d/changed").read_bytes()
    st = (m.volume / "d/streams").stat()
    assert (st.st_mode & 0o077, st.st_uid, st.st_size) == (0, 0, 3 << 20)   # gives nothing


# -- the table -----------------------------------------------------------------------------------

def test_the_manual_page_has_the_table():
    """Word by word, with its sentences."""
    reasons = json.loads(subprocess.run([str(VOLUME_TOOL), "reasons"], check=True, timeout=300,
                                        capture_output=True).stdout)["reasons"]
    section = MANUAL.read_text().split(".Ss Reasons\n")[1].split("\n.El\n")[0]
    found = {}
    for item in section.split("\n.It Cm ")[1:]:
        word, _, text = item.partition("\n")
        found[word] = " ".join(text.replace("\\&", "").split())
    assert list(found) == [r["code"] for r in reasons]
    for r in reasons:
        text = " ".join(s[0].upper() + s[1:] + "." for s in (r["says"], r["advice"]))
        assert found[r["code"]] == text
        assert re.search(r"postcopy (retry|skip|accept)|by hand", r["advice"]), r
