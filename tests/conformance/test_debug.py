# SPDX-License-Identifier: GPL-3.0-or-later
"""Watching it work: the name of an ask leads from the server's log through the retriever's,
from the one that asks to the old server and back; and nothing is said unless it is wanted."""
import contextlib
import re
import signal
import subprocess

import pytest

from lib import smbd
from lib.case import BLOCK
from lib.expect import same
from lib.programs import STUBTOOL, VOLUME_TOOL
from lib.smbsource import with_worker
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient.hooks import Gate, jukebox, only

WORLD = BothWorld
ASK = re.compile(r"\bask ([0-9a-f]{8}): (.*)")
LINE = re.compile(r"\b(?:ask|own) [0-9a-f]{8}: |received from process")


def lines_of(text, name):
    return [found[2] for found in map(ASK.search, text.splitlines())
            if found and found[1] == name]


class Logs:
    """What the logs say from here on."""

    def __init__(self, world):
        self.files = [world.m.log, *world.m.server.logs, *world.smbd.logs]
        self.world, self.from_ = world, {f: f.stat().st_size for f in self.files if f.exists()}

    def of(self, *files):
        text = ""
        for f in files:
            with open(f, "rb") as log:
                log.seek(self.from_.get(f, 0))
                text += log.read().decode(errors="replace")
        return text

    def retriever(self):
        return self.of(self.world.m.log)

    def ganesha(self):
        return self.of(self.world.m.server.log)

    def smbd(self):
        return self.of(*self.world.smbd.logs)


def retriever_says(m, on):
    assert "does not say" in m.postcopy("debug", m.volume, "on" if on else "off").stdout or on
    assert m.asked()["debug"] is on


def ganesha_says(world, level):
    """By its own means, while it runs."""
    server = world.m.server
    server.allow.append("Extra (fsal )?references")     # whatever the FSAL, since it was told anew
    server.conf = "LOG { COMPONENTS { FSAL = %s; } }" % level
    logs = Logs(world)
    server.write_config()
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: re.search("COMPONENT_FSAL.*NIV_" + level, logs.ganesha()), 60,
               "another level in Ganesha")


def smbd_says(world, smb, level):
    pid = world.smbd.pid_of(smb)
    world.smbd.tool("smbcontrol", str(pid), "debug", "stub:%d" % level)
    wait_until(lambda: "stub:%d" % level in
               world.smbd.tool("smbcontrol", str(pid), "debuglevel").stdout, 60, "another level in smbd")


@contextlib.contextmanager
def read_by(proto, world, path, request):
    if proto == "smb":
        with request.getfixturevalue("smb").open(path) as f:
            yield lambda: f.read(0, BLOCK)
    else:
        with world.client("v3") as client:
            fh = client.fh(path)
            client.getattr(fh)
            yield lambda: client.read(fh, 0, BLOCK)[0]


def story(log, server_log):
    """The lines of the retriever about the READ of which the server's log tells."""
    def told():
        data = [(name, what) for name, what in ASK.findall(server_log()) if
                what.startswith("DATA ") and "done" in what]
        return data and "ended: done" in lines_of(log(), data[-1][0]) and data
    data = wait_until(told, 60, "the ask in both logs")
    return data[-1], lines_of(log(), data[-1][0])


def told_whole(lines, source):
    """Received, begun, a call to the old server, answered: in this order."""
    rest = iter(lines)
    for wanted in (r"received from process \d+: DATA \d+:[0-9a-f]+ 0\+%d for \S+" % BLOCK,
                   r"worked on, \"", source, r"answered: done after \d+ ms"):
        assert any(re.match(wanted, line) for line in rest), (wanted, lines)


@pytest.mark.parametrize("proto", ["v3", "smb"])
def test_one_read_is_followed(case, world, smb, proto, request):
    for name in ("quiet", "loud", "quiet again"):
        case.file(name)
    case.list()

    def read(name):
        logs = Logs(world)
        with read_by(proto, world, case.path(name), request) as cold:
            same(cold(), case.data(name)[:BLOCK])
        world.settle()
        return logs

    def say(on):
        retriever_says(world.m, on)
        if proto == "smb":
            smbd_says(world, smb, 10 if on else 1)
        else:
            ganesha_says(world, "DEBUG" if on else "EVENT")

    for name in ("quiet", "quiet again"):
        logs = read(name)
        for text in (logs.retriever(), logs.ganesha(), logs.smbd()):
            assert not LINE.search(text), text
        if name == "quiet":
            say(True)
            logs = read("loud")
            (_, what), lines = story(logs.retriever,
                                     logs.smbd if proto == "smb" else logs.ganesha)
            assert re.match(r"DATA \d+:[0-9a-f]+ 0\+%d for \S+: done, [0-9.]+ ms$" % BLOCK, what)
            told_whole(lines, r"source READ [0-9a-f]+ 0\+\d+: done, \d+ bytes, [0-9.]+ ms, "
                       r"connection \d")
            say(False)


@pytest.fixture
def loud(world):
    retriever_says(world.m, True)
    yield Logs(world)
    retriever_says(world.m, False)


def asked(world, path, *request):
    """Somebody asks the retriever, as the servers do, and waits."""
    return subprocess.Popen([str(STUBTOOL), "ask", str(world.volume), path, *map(str, request)])


def test_who_joins_is_told_whom(case, world, loud):
    """... and what the old server puts off."""
    case.file()
    case.list()
    node, gate = case.node("f"), Gate()
    remove = world.fake.hook("READ", only(lambda call: call.node is node, gate))
    readers = [asked(world, case.path("f"), "data", 0, 10)]
    wait_until(lambda: "worked on, " in loud.retriever(), 60, "the first is at it")
    readers.append(asked(world, case.path("f"), "data", 100, 10))
    joined = wait_until(lambda: re.search(r"ask (\w{8}): joins ask (\w{8})\n", loud.retriever()),
                        60, "the second joins")
    remove()
    remove = world.fake.hook("READ", only(lambda call: call.node is node, jukebox(4)))
    gate.open()
    assert [r.wait(60) for r in readers] == [0, 0]
    world.settle()
    remove()
    text = loud.retriever()
    assert joined[1] != joined[2] and "answered: done" in "".join(lines_of(text, joined[1]))
    lines = lines_of(text, joined[2])
    assert any(line.startswith("source READ %s " % node.fh.hex()) for line in lines), lines


def test_what_is_put_off(case, world, loud):
    case.file()
    case.list()
    remove = world.fake.hook("READ", only(lambda call: call.node is case.node("f"), jukebox(4)))
    assert asked(world, case.path("f"), "data", 0, 10).wait(60) == 0
    world.settle()
    remove()
    text = loud.retriever()
    name = next(n for n, what in ASK.findall(text) if re.match("received.* DATA ", what))
    lines = lines_of(text, name)
    rest = iter(lines)
    for wanted in ("source READ: JUKEBOX", "put off for 500 ms", "worked on, .*was held back",
                   "source READ .*: done", "answered: done"):
        assert any(re.match(wanted, line) for line in rest), (wanted, lines)


def test_a_name_forges_no_line(case, world, loud):
    name = 'x\n2026-01-01 00:00:00.000 debug: ask 00000001: answered: "done" \x1b[2J'
    case.file(name)
    with world.client("v3") as client:
        client.fh(case.path(name))
    text = loud.retriever()
    assert r'"x\x0a2026-01-01 00:00:00.000 debug: ask 00000001: answered: \x22done\x22 \x1b[2J"' \
        in text
    assert all(re.match(r"\d{4}-\d\d-\d\d \S+ (debug|info|warn): [ -~]*$", line)
               for line in text.splitlines()), text
    assert not lines_of(text, "00000001")


def test_calls_of_a_check(world):
    done = subprocess.run([str(VOLUME_TOOL), "--debug", "check", "--names", "--source",
                           world.fake.url()], capture_output=True, text=True, timeout=300)
    assert re.search(r"^postcopy-volume: -: source READDIRPLUS [0-9a-f]+: done, [0-9.]+ ms, "
                     r"connection \d$", done.stderr, re.M), done


@with_worker
def test_an_smb_source(new_samba, make, tree):
    """Configured so; and the crawler's asks."""
    (tree / "d").mkdir()
    (tree / "d" / "big file").write_bytes(b"x" * 100000)
    server = new_samba("old", tree)
    m = make("smb://%s:%d/share" % (server.host, server.port), conf="log_level = debug\n")
    m.init().start()
    assert m.asked()["debug"]
    with m.client("v3") as c:
        assert c.patient(30).read_file("d/big file") == b"x" * 100000
    crawler = m.start_crawler("--debug")
    assert crawler.wait(120) == 0
    text = m.log.read_text()
    name = next(n for n, what in ASK.findall(text) if re.match("received.* DATA ", what))
    assert any(re.match(r'source READ "d/big file" 0\+\d+: done, 100000 bytes, [0-9.]+ ms, '
                        r"connection \d \(worker \d+\)", line) for line in lines_of(text, name))
    crawled = (m.workdir / "crawler.log").read_text()
    names = {n for n, what in ASK.findall(crawled) if what.startswith("FILL ")}
    assert names and all("answered: " in "".join(lines_of(text, n)) for n in names), crawled
    assert all(lines_of(crawled, n)[-1].startswith(("done, ", "EAGAIN, ")) for n in names)
    assert smbd.PASSWORD not in text + crawled
    m.audit(complete=True)
