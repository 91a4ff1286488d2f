# SPDX-License-Identifier: GPL-3.0-or-later
"""The recall budget: who reads much that is not here gets it at a rate, others do not
notice, and `postcopy status` says who made how much come.

Nothing here trusts a clock to be fast: what a client has got never exceeds burst and
rate, and the other one is through while it still waits."""
import json
import re
import socket
import threading
import time

import pytest

from lib.case import BLOCK, pattern
from lib.wait import wait_until
from lib.world import SmbWorld
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from nfsclient.rpc import AuthSys

MANY, FEW, SIZE = 160, 20, 3000
RATE, BURST = 600, 20          # files a minute, at once
SLOW = 150                     # of NFS users, whose requests are tried again
LEAST = (MANY - BURST) * 60 / RATE
CONF = "recall_files_per_minute = %d\nrecall_burst = %d\n" % (RATE, BURST)

WORLD = SmbWorld


def status(m):
    """Asked of the control socket: starting the command takes longer than a turn."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(60)
        sock.connect(str(m.control))
        sock.sendall(b'{"cmd": "status"}\n')
        return json.loads(sock.makefile().readline())


def clients(m):
    return {c["who"]: c for c in status(m)["clients"]}


class Reader(threading.Thread):
    """Reads all files, one after the other."""

    def __init__(self, read, names):
        super().__init__(daemon=True)
        self.read, self.names = read, names
        self.done, self.failure = 0, None
        self.began = time.monotonic()
        self.start()

    def run(self):
        try:
            for name, data in self.names.items():
                assert self.read(name) == data, name
                self.done += 1
        except BaseException as e:          # pylint: disable=broad-except
            self.failure = e

    def allowed(self):
        """How many files it may have by now, at most."""
        return BURST + 1 + (time.monotonic() - self.began) * RATE / 60

    def end(self):
        self.join(300)
        assert self.failure is None, self.failure
        assert not self.is_alive() and self.done == len(self.names)
        return time.monotonic() - self.began


def at_once(client, names):
    """Reads one of the files; the first time all of them are asked for: whoever waits for each
    answer before the next one may be slower than the budget."""
    sent = {}

    def read(name):
        if not sent:
            opened = [client.open(name) for name in names]
            sent.update((f.path, (f, f.send_read(0, SIZE))) for f in opened)
        f, message = sent[name]
        data = f.finish_read(message, timeout=300)
        f.close()
        return data

    return read


def files(world, d, prefix, n):
    return {"%s/%s%03d" % (d, prefix, i): world.file("%s/%s%03d" % (d, prefix, i), SIZE)
            for i in range(n)}


def over_budget(reader, m, who):
    wait_until(lambda: reader.failure or clients(m).get(who, {}).get("slowed", 0) > 3, 60,
               "%s slowed down" % who)
    assert reader.failure is None, reader.failure


def test_smb_users(world):
    d = world.dir()
    many, few = files(world, d, "a", MANY), files(world, d, "b", FEW)
    with world.m.client("alice") as alice, world.m.client("bob") as bob:
        reader = Reader(at_once(alice, many), many)
        over_budget(reader, world.m, "alice@127.0.0.1")
        for name, data in few.items():
            assert bob.read_file(name) == data
            assert reader.done <= reader.allowed()
        assert reader.done < MANY, "bob has waited for alice"
        seconds = reader.end()
        assert seconds >= LEAST, seconds
    told = clients(world.m)
    assert told["alice@127.0.0.1"]["files"] == MANY
    assert told["alice@127.0.0.1"]["bytes"] == MANY * SIZE
    assert told["alice@127.0.0.1"]["slowed"] > 0
    assert told["bob@127.0.0.1"]["files"] == FEW
    assert told["bob@127.0.0.1"]["slowed"] == 0
    text = world.m.postcopy("status", world.volume).stdout
    assert "alice@127.0.0.1: %d files" % MANY in text, text
    assert "bob@127.0.0.1: %d files" % FEW in text, text


def test_a_session_goes_on(world):
    """Reads that wait for their turn stop nothing else of their session; a file that has
    been begun costs nothing more; others who want the same file need not wait.

    So many wait that some meet in the table of turns: each is paid once all the same."""
    d = world.dir()
    names = files(world, d, "c", 8 * BURST)
    begun = d + "/begun"
    data = world.file(begun, 3 * BLOCK)
    world.m.postcopy("debug", world.volume, "on")
    with world.m.client("carol") as c, world.m.client("bob") as bob:
        with c.open(begun) as f:
            assert f.read(0, 10) == data[:10]
            opened = [c.open(name) for name in names]
            sent = [f.send_read(0, SIZE) for f in opened]
            wait_until(lambda: status(world.m)["held"] > 0, 30, "reads held")
            assert f.read(2 * BLOCK, 100) == data[2 * BLOCK:2 * BLOCK + 100]
            assert len(c.names(d)) == len(names) + 1
            c.echo()
            last = list(names)[-1]
            assert bob.read_file(last) == names[last]
            assert not all(c.arrived(message) for message in sent), "carol was not slowed"
            assert status(world.m)["held"] > 0
        for f, message, want in zip(opened, sent, names.values()):
            assert f.finish_read(message, timeout=300) == want
            f.close()
    told = clients(world.m)["carol@127.0.0.1"]
    assert told["files"] == len(names) + 1 and told["slowed"] > 0
    world.m.postcopy("debug", world.volume, "off")
    assert re.search(r"ask \w{8}: held: carol@127.0.0.1 is over its recall budget; \d+ ms",
                     world.m.log.read_text())


def test_the_crawler_has_no_budget(world):
    d = world.dir()
    names = files(world, d, "d", 3 * BURST)
    with world.m.client("bob") as c:
        c.names(d)
        before = clients(world.m)
        for name in names:
            world.ask(name, "fill")
    assert {k: v["files"] for k, v in clients(world.m).items()} == {
        k: v["files"] for k, v in before.items()}
    assert status(world.m)["held"] == 0


@pytest.mark.parametrize("proto", ["v3", "v4.1"])
def test_nfs_users(proto, fresh_dir, new_migration):
    """They get DELAY meanwhile, and the file in the end."""
    tree = Tree()
    tree.root.mode = 0o777
    want = [{}, {}]
    for user, n in ((0, 3 * BURST), (1, FEW)):
        for i in range(n):
            name = b"u%d-%03d" % (user, i)
            tree.file(tree.root, name, Pattern(SIZE, 1000 * user + i), mode=0o666)
            want[user][name] = pattern(SIZE, 1000 * user + i)
    with FakeServer(tree) as old:
        m = new_migration(old.url(), fresh_dir, conf=CONF.replace(str(RATE), str(SLOW)),
                          fsal_more="Delay_V3 = 100;\nDelay_V4 = 100;\n").init().start()
        with m.client(proto, cred=AuthSys(uid=1001, gid=1001), patience=60) as mass, \
                m.client(proto, cred=AuthSys(uid=1002, gid=1002), patience=60) as other:
            reader = Reader(mass.read_file, want[0])
            over_budget(reader, m, "#1001@127.0.0.1")
            for name, data in want[1].items():
                assert other.read_file(name) == data
            assert reader.done < len(want[0]), "one has waited for the other"
            assert reader.end() >= (len(want[0]) - BURST) * 60 / SLOW
        told = clients(m)
        assert told["#1001@127.0.0.1"]["files"] == len(want[0])
        assert told["#1001@127.0.0.1"]["bytes"] == SIZE * len(want[0])
        assert told["#1002@127.0.0.1"]["files"] == FEW
        assert told["#1002@127.0.0.1"]["slowed"] == 0


def test_no_limit_by_default(fresh_dir, new_migration):
    tree = Tree()
    for i in range(3 * BURST):
        tree.file(tree.root, b"f%03d" % i, Pattern(SIZE, i))
    with FakeServer(tree) as old:
        m = new_migration(old.url(), fresh_dir).init().start()
        with m.client() as c:
            for i in range(3 * BURST):
                assert c.read_file(b"f%03d" % i) == pattern(SIZE, i)
        (who, told), = clients(m).items()
        assert who == "#0@127.0.0.1" and told["files"] == 3 * BURST and told["slowed"] == 0
