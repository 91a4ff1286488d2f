# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files that come with the crawler's listing of their directory, and never are stubs
(docs/decisions/0066): as whole as others, in nobody's way, and at what cost.
"""
import os

import pytest

from lib.expect import same, view
from lib.migration import SOURCE_VERSION
from lib.syscalls import counted, counting
from lib.wait import wait_until
from nfsclient import PROTOCOLS, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

RECORD = "trusted.postcopy"
T = 1_500_000_000_000_000_000
SIZES = (1, 100, 4095, 4096, 4097, 40000, 65535, 65536)
PATIENT = "call_timeout = 600000\n"       # no answer is late, however busy the machine is
WAITS = "Delay_V3 = 20000; Delay_V4 = 20000;"


def content(number, size):
    return (b"%d|" % number * (size // 2 + 1))[:size]


def times(number):
    at = T + number * 1_000_000_007
    return dict(atime=at + 1, mtime=at + 2, ctime=at + 3)


def files_of(tree, parent, names, size=None):
    """The nodes, by name."""
    return {name: tree.file(parent, name, content(i, size or SIZES[i % len(SIZES)]),
                            mode=(0o644, 0o600, 0o4755, 0o2711, 0)[i % 5], uid=1000 + i, gid=2000 + i,
                            **times(i)) for i, name in enumerate(names)}


@pytest.fixture
def old():
    """A directory of small files, and what must not be made whole beside them."""
    tree = Tree()
    server = FakeServer(tree)
    server.dir = tree.mkdir(tree.root, b"d", **times(500))
    server.small = files_of(tree, server.dir, [b"s%02d" % i for i in range(40)])
    with server:
        yield server


@pytest.fixture
def start(new_migration, fresh_dir):
    def begin(old, conf=PATIENT, **kw):
        m = new_migration(old.url(), fresh_dir, conf=conf, fsal_more=WAITS, **kw).init()
        return m.start_retriever()
    return begin


def hold(old, names=(b"s03", b"s04", b"s20")):
    """READs of these files; the fake server has few threads, and others must be answered."""
    gate, nodes = hooks.Gate(), [old.small[name] for name in names]
    old.hook("READ", hooks.only(lambda call: call.node in nodes, gate))
    return gate


def is_stub(m, path):
    return RECORD in os.listxattr(m.volume / path)


def check_local(m, nodes):
    for name, node in nodes.items():
        path, st = m.volume / "d" / name.decode(), os.lstat(m.volume / "d" / name.decode())
        same(path.read_bytes(), node.content.read(0, node.size))
        assert (st.st_mode & 0o7777, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_nlink) \
            == (node.mode, node.uid, node.gid, node.size, node.mtime, 1), name
        assert not is_stub(m, path), name


def check_served(m, nodes, protos=PROTOCOLS):
    m.server.start()
    for proto in protos:
        with m.client(proto) as c:
            assert {entry.name for entry in c.listdir(b"d")} >= set(nodes)
            for name, node in nodes.items():
                same(c.read_file(b"d/" + name), node.content.read(0, node.size))
                a = view(c.getattr(b"d/" + name))
                assert (a["mode"], a["uid"], a["gid"], a["size"], a["mtime"], a["nlink"]) == (
                    node.mode, node.uid, node.gid, node.size, node.mtime, 1), name


def test_whole_in_every_attribute(old, start):
    tree = old.tree
    others = files_of(tree, old.dir, [b"large"], 70000)
    twice = files_of(tree, old.dir, [b"h1"], 10)[b"h1"]
    tree.hardlink(old.dir, b"h2", twice)
    holes = {b"holes": tree.file(old.dir, b"holes", b"x" * 4096 + bytes(4 * 4096) + b"y", **times(90)),
             b"zeros": tree.file(old.dir, b"zeros", bytes(10000), **times(91))}
    m = start(old)
    m.crawl()
    assert m.status()["whole"] == len(old.small) + len(holes)
    assert os.lstat(m.volume / "d/zeros").st_blocks == 0
    assert os.lstat(m.volume / "d").st_mtime_ns == old.dir.mtime
    assert m.status()["done"] >= len(old.small) + len(holes)
    for name, node in old.small.items():
        assert os.lstat(m.volume / "d" / name.decode()).st_atime_ns == node.atime
    m.audit(complete=True)
    check_local(m, {**old.small, **holes, **others})
    assert (m.volume / "d/h1").samefile(m.volume / "d/h2")
    check_served(m, {**old.small, **holes, **others})


def test_verify_knows_them(old, start):
    m = start(old)
    m.crawl()
    assert m.status()["whole"] == len(old.small)
    answer = m.tool("verify", "--all", m.volume)
    assert answer["different"] == answer["unclear"] == 0, answer
    (m.volume / "d/s03").write_bytes(b"a client's")
    answer = m.tool("verify", "--all", "--again", m.volume)
    assert (answer["different"], answer["changed"]) == (0, 1), answer


def test_none_if_it_is_said(old, start):
    m = start(old, conf="small_file = 0\n")
    m.crawl()
    assert m.status()["whole"] == 0
    m.audit(complete=True)
    check_local(m, old.small)


def test_a_client_does_not_wait_for_them(old, start):
    """It gets the listing while READs are held, and later its bytes."""
    gate = hold(old)
    m = start(old)
    m.server.start()
    try:
        m.start_crawler()
        wait_until(lambda: gate.waiting, 60, "READs held")
        with m.client("v3") as c:
            assert {entry.name for entry in c.listdir(b"d")} == set(old.small)
        assert gate.waiting and not gate.passed
    finally:
        gate.open()
    assert m.crawler.wait(300) == 0
    m.audit(complete=True)
    check_local(m, old.small)


def test_a_look_up_does_not_wait_either(old, start):
    gate = hold(old)
    m = start(old)
    m.server.start()
    try:
        m.start_crawler()
        wait_until(lambda: gate.waiting, 60, "READs held")
        with m.client("v4.1") as c:
            c.getattr(b"d/s07")
        assert gate.waiting and not gate.passed
    finally:
        gate.open()
    assert m.crawler.wait(300) == 0
    m.audit(complete=True)
    check_local(m, old.small)


def test_a_source_that_does_not_answer_holds_nobody_up(old, start):
    """One file that is on a tape: it comes when it comes, the others do not wait for it."""
    gate, late = hooks.Gate(), old.small[b"s11"]
    old.hook("READ", hooks.only(lambda call: call.node is late, gate))
    m = start(old, conf="call_timeout = 1000\n")
    try:
        m.start_crawler()
        wait_until(lambda: m.asked()["pending"] == 1 and m.asked()["done"] > 1, 60, "the others")
        assert is_stub(m, "d/s11")
    finally:
        gate.open()
    assert m.crawler.wait(300) == 0
    m.audit(complete=True)
    check_local(m, old.small)


def test_changed_between_listing_and_read(old, start):
    """Bytes of another version than the listed one are a conflict, as ever."""
    node = old.small[b"s05"]

    def change(_call):
        node.content = type(node.content)(content(77, node.size))
        node.touch()

    old.hook("READ", hooks.only(lambda call: call.node is node, hooks.before(change)))
    m = start(old)
    m.crawl()
    status = m.status()
    assert (status["whole"], status["conflicts"], status["parked"]) == (len(old.small) - 1, 1, 0)
    assert is_stub(m, "d/s05")
    del old.small[b"s05"]
    m.audit(parked=1)
    check_local(m, old.small)


@pytest.mark.parametrize("hook", [
    hooks.first(3, hooks.status(errors.IO)),
    hooks.first(3, hooks.status(errors.STALE)),
    hooks.first(2, hooks.jukebox(1)),
    hooks.first(2, hooks.cut),
], ids=["io", "stale", "jukebox", "cut"])
def test_reads_that_fail(old, start, hook):
    old.hook("READ", hook)
    m = start(old, conf="call_timeout = 1000\n")
    m.crawl()
    m.audit(complete=True)
    check_local(m, old.small)


def test_attributes_alone_have_changed(old, start):
    """The content is taken, the attributes are those of the listing (docs/decisions/0037)."""
    node = old.small[b"s05"]
    mode = node.mode

    def change(_call):
        node.mode, node.ctime = 0o777, node.ctime + 1

    old.hook("READ", hooks.only(lambda call: call.node is node,
                                hooks.first(1, hooks.before(change))))
    m = start(old)
    m.crawl()
    assert m.status()["touched"] == 1 and m.status()["whole"] == len(old.small) - 1
    m.audit(complete=True)
    node.mode = mode
    check_local(m, old.small)


def test_killed_meanwhile(old, start):
    """Nothing is left of those without a name, and they come again."""
    gate = hold(old)
    m = start(old)
    try:
        m.start_crawler()
        wait_until(lambda: gate.waiting, 60, "READs held")
        m.kill_retriever()
    finally:
        gate.open()
    m.kill_crawler()
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    check_local(m, old.small)


def test_paused_and_throttled(old, start):
    m = start(old, conf="throttle = 400\n")       # KiB/s
    m.postcopy("pause", m.volume)
    m.start_crawler()
    assert m.status()["whole"] == 0 and not old.counts["READ"]
    m.postcopy("resume", m.volume)
    assert m.crawler.wait(300) == 0
    m.audit(complete=True)
    check_local(m, old.small)


# -- what it costs ---------------------------------------------------------------------

FILES, DIRS, CALLS = 100, 8, 18.5     # 4 of them are those of the walk at the end
# Who waits for whom, where memory grows, and how many answers come at one waking: for one file
# each at the worst, not always.
BY_CHANCE, WAKINGS = {"futex", "mprotect", "poll", "read", "write", "ioctl", "getsockopt", "recvfrom"}, 16
MORE = 8 if SOURCE_VERSION == "4.2" else 0    # the names of attributes (docs/decisions/0078)


def test_system_calls(new_migration, fresh_dir, workdir):
    """So many calls of the retriever for each small file, whatever else it does."""
    tree = Tree()
    for d in range(DIRS):
        files_of(tree, tree.mkdir(tree.root, b"d%d" % d), [b"f%03d" % i for i in range(FILES)], 4096)
    out = workdir / "calls.strace"
    with FakeServer(tree) as old:
        m = new_migration(old.url(), fresh_dir, conf=PATIENT,
                          wrap=counting(out)).init()
        m.start_retriever()
        m.crawl()
        assert m.status()["whole"] == DIRS * FILES
        m.audit(complete=True)
        m.stop()
    counts = counted(out)
    total = counts.pop("total") / (DIRS * FILES)
    by_chance = sum(counts.get(name, 0) for name in BY_CHANCE) / (DIRS * FILES)
    print(f"calls for a file: {total - by_chance:.2f}, and by chance {by_chance:.2f}")
    assert total - by_chance <= CALLS, counts
    assert by_chance <= WAKINGS + MORE, counts
