# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy report`: the page of a real volume, at each point of its life.

That it is well-formed and loads nothing is asserted of each; what is in it has to be what the other
commands say."""
import importlib.machinery
import importlib.util
import json
import os
import struct
import subprocess

import pytest

from lib.programs import POSTCOPY
from lib.reportfacts import NOW, history
from lib.strict_html import Page
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

import postcopy_report        # the way to it is lib.reportfacts'

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&amp;&lt;b&gt;",
           "a\x1b[2Jb", os.fsdecode(b"bytes-\xff-\xc3"), "\u202egnp.exe", "]]><!--",
           "</code></li><b>", "n" * 250, "line\nbreak"]
SHOWN = [*HOSTILE[:3], "a\\x1b[2Jb", "bytes-\\xff-\\xc3", "\\u202egnp.exe", *HOSTILE[6:9],
         "line\\nbreak"]


def report(m, tmp_path, *argv):
    file = tmp_path / "report.html"
    done = m.postcopy("report", *argv, m.volume, file)
    assert done.stdout.startswith("report: %s (" % file), done
    return Page(file.read_bytes().decode()).is_self_contained()


@pytest.fixture
def failing(new_migration, fresh_dir):
    """Files that are not let be read, with names that somebody has chosen with care."""
    tree, bad = Tree(), []
    for i, path in enumerate(HOSTILE):
        *above, name = os.fsencode(path).split(b"/")
        d = tree.root
        for one in above:
            d = d.child(one) or tree.mkdir(d, one)
        bad.append(tree.file(d, name, Pattern(3000, seed=i + 1)).fileid)
    tree.file(tree.root, "fine", Pattern(9000, seed=1))
    with FakeServer(tree) as server:
        server.hook("READ", hooks.only(lambda call: call.node.fileid in bad,
                                       hooks.status(errors.ACCES)))
        m = new_migration(server.url(), fresh_dir, conf="max_tries = 1\n",
                          allow=["converted to NFS[34]ERR_IO"]).init()
        m.server.allow = m.allow
        m.mend = server.clear_hooks
        yield m


def test_from_the_first_to_the_last_day(failing, tmp_path):
    m = failing
    page = report(m, tmp_path)                              # nothing has begun
    assert "no retriever is running" in page.text and "Nothing is parked" in page.text
    assert "Migration of %s" % m.volume in page.text and m.url in page.text

    m.start()
    wait_until(lambda: m.status()["source_connected"], 60, "a connection")
    with m.client() as c:
        c.patient(60).names()
    page = report(m, tmp_path)
    assert "migrating" in page.text and "no retriever" not in page.text
    assert "First accesses" in page.text and "Names: looking up" in page.text
    assert "POSIX ACLs" in page.text and "lost" in page.text        # NFSv3

    m.crawl()
    page = report(m, tmp_path)
    parked = m.status()["parked"]
    assert parked == len(HOSTILE)
    assert "%d objects are parked" % parked in page.text and "denied" in page.text
    assert "only parked objects are left" in page.text
    for sign in SHOWN:
        assert page.text.count(sign) == 1, sign             # as text, and nothing else
    few = report(m, tmp_path, "--first", "2")
    assert "and %d more" % (parked - 2) in few.text

    m.kill_retriever()
    page = report(m, tmp_path)
    assert "no retriever is running" in page.text and "denied" in page.text
    assert "How long clients waited" in page.text and "First accesses" not in page.text

    m.start_retriever()
    m.postcopy("skip", m.volume, HOSTILE[0])
    m.mend()
    m.postcopy("retry", m.volume)
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.postcopy("verify", "--all", "--manifest", tmp_path / "manifest", m.volume, check=False)
    page = report(m, tmp_path, "--manifest", str(tmp_path / "manifest"))
    assert "complete" in page.text and "100 %" in page.text and "nothing is left" in page.text
    assert "1 given up" in page.text and "Decided by hand" in page.text
    assert "Manifest" in page.text and "Compared with the source" in page.text
    sums = subprocess.run(["sha256sum", tmp_path / "manifest"], capture_output=True, text=True)
    assert sums.stdout.split()[0] in page.text

    last, kept = tmp_path / "last.html", tmp_path / "kept"
    m.postcopy("finish", "--unverified", "--list", kept, "--report", last, m.volume)
    page = Page(last.read_text()).is_self_contained()
    assert "A last walk through the whole volume found" in page.text
    done = m.postcopy("report", m.volume, tmp_path / "report.html", check=False)
    assert done.returncode == 50 and "is not a volume" in done.stderr, done


def test_what_it_writes_over(new_migration, fresh_dir, tmp_path):
    tree = Tree()
    tree.file(tree.root, "f", b"x")
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init()
        file, other, link = tmp_path / "r.html", tmp_path / "thesis.html", tmp_path / "link"
        m.postcopy("report", m.volume, file)
        assert file.stat().st_mode & 0o777 == 0o600         # names of users' files are in it
        before = file.stat().st_ino
        file.chmod(0o644)
        m.postcopy("report", m.volume, file)
        assert file.stat().st_ino != before and file.stat().st_mode & 0o777 == 0o644
        other.write_text("<!DOCTYPE html>\nmine")
        link.symlink_to(file)
        (tmp_path / "into").symlink_to(m.volume)
        for bad in (other, link, tmp_path, m.volume / "r.html", m.volume / ".postcopy/r.html",
                    tmp_path / "none/r.html", "/dev/null", tmp_path / "into/r.html", m.volume):
            done = m.postcopy("report", m.volume, bad, check=False)
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (bad, done)
            done = m.postcopy("finish", "--report", bad, m.volume, check=False)
            assert done.returncode == 2 and "report: " in done.stderr, (bad, done)
        assert other.read_text() == "<!DOCTYPE html>\nmine" and link.is_symlink()
        assert sorted(os.listdir(m.volume)) == [".postcopy"]
        m.postcopy("report", "--force", m.volume, other)
        Page(other.read_text()).is_self_contained()
        m.postcopy("report", "--force", m.volume, link)
        assert not link.is_symlink()
        assert m.postcopy("report", "--force", m.volume, tmp_path, check=False).returncode == 2
        assert m.postcopy("report", "--force", m.volume, m.volume / "r.html",
                          check=False).returncode == 2
        assert not [n for n in os.listdir(tmp_path) if n.startswith(".postcopy.")]
        Page(m.postcopy("report", m.volume, "-").stdout).is_self_contained()
        assert m.postcopy("report", "--manifest", file, m.volume, file, check=False).returncode == 2


@pytest.fixture
def command():
    loader = importlib.machinery.SourceFileLoader("postcopy_command", str(POSTCOPY))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_what_finish_and_abort_have_left(command, tmp_path, monkeypatch):
    """The youngest list of this directory, and of no other one."""
    monkeypatch.setattr(command, "LISTS", tmp_path / "lists")
    lost = command.Failure("no volume", 50, "not-a-volume")
    with pytest.raises(command.Failure):
        command.finished_facts("/srv/data", lost)
    (tmp_path / "lists").mkdir()
    line = {"time": "2026-01-31T12:00:00Z", "how": "lost", "kind": "file", "inode": 7,
            "path": "home/<b>", "reason": "read", "missing": []}
    for name, age in (("srv-data-0a0b0c0d.resolved", 10), ("srv-data-x-0a0b0c0d.missing", 1),
                      ("srv-data-99999999.missing", 20), ("srv-datax0a0b0c0d.missing", 1)):
        (tmp_path / "lists" / name).write_text(json.dumps(line) + "\n{")
        os.utime(tmp_path / "lists" / name, (NOW - age, NOW - age))
    facts = command.finished_facts("/srv/data", lost)
    assert facts["state"] == "finished" and facts["kept"][0].endswith("a-0a0b0c0d.resolved")
    text = postcopy_report.page({**facts, "now": NOW, "version": "postcopy 9"})
    page = Page(text).is_self_contained()
    assert "1 given up" in page.text and "home/<b>" in page.text and "finish --report" in page.text
    os.utime(tmp_path / "lists/srv-data-99999999.missing", (NOW, NOW))
    facts = command.finished_facts("/srv/data", lost)
    text = postcopy_report.page({**facts, "now": NOW, "version": "postcopy 9"})
    assert "given up" in Page(text).is_self_contained().text and "decided" not in facts


def test_manifests_that_are_none(command, tmp_path):
    for text in (b"", b"#mtree\n", b"#mtree\n# postcopy", b"\x00" * 200, b"<html>"):
        (tmp_path / "m").write_bytes(text)
        with pytest.raises(command.Failure):
            command.manifest_facts(str(tmp_path / "m"))
    (tmp_path / "m").write_bytes(b"#mtree\n# postcopy manifest 1\n# <x>\n./a type=file\n./b\n./cut")
    facts = command.manifest_facts(str(tmp_path / "m"))
    assert (facts["objects"], facts["head"], facts["signature"]) == (2, ["# <x>"], None)


FNV, PRIME = 0xcbf29ce484222325, 0x100000001b3


def plant(m, samples):
    """.postcopy/progress as the retriever writes it (retriever/progress.h), without headers."""
    out = bytearray(8192 + 512 * 64)
    for i, (at, active, found, size, done, stored, dirs, parked) in enumerate(samples):
        one = struct.pack("<qQQQQQIII", at, active * 1000, found, size, done, stored, dirs, parked, 0)
        h = FNV
        for b in one:
            h = (h ^ b) * PRIME % 2 ** 64
        out[8192 + 64 * i:8256 + 64 * i] = one + struct.pack("<I", (h ^ h >> 32) % 2 ** 32)
    (m.volume / ".postcopy/progress").write_bytes(out)


def test_the_history_without_a_retriever(new_migration, fresh_dir, tmp_path):
    tree = Tree()
    tree.file(tree.root, "f", b"x")
    samples = [[int(x) for x in s] for s in history()]
    with FakeServer(tree) as server:
        m = new_migration(server.url(), fresh_dir).init()
        few = "too few entries to draw"
        assert m.tool("history", m.volume)["samples"] == [] and few in report(m, tmp_path).text
        plant(m, samples)
        assert m.tool("history", m.volume)["samples"] == samples
        page = report(m, tmp_path)
        assert few not in page.text and "no retriever is running" in page.text
        for text in ("Progress", "Data done per second", "no crawl", "Predictions"):
            assert text in page.text, text
        (m.volume / ".postcopy/progress").write_bytes(os.urandom(40960))
        assert m.tool("history", m.volume)["samples"] == [] and few in report(m, tmp_path).text
        (m.volume / ".postcopy/progress").unlink()
        (m.volume / ".postcopy/progress").symlink_to("/etc/passwd")
        assert m.tool("history", m.volume, check=False)["error"] == "volume-damaged"
        assert "How it went over time: " in report(m, tmp_path).text
