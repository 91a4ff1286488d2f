# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files of an SMB source: several at a time on one connection, each opened once."""
import collections
import os
import pathlib

import pytest

from lib import smbd
from lib.line import line
from lib.smbcount import CLOSE, CREATE, QUERY_INFO, READ, Counter
from lib.smbgate import SmbGate
from lib.smbsource import credentials, migrations, settings, with_worker
from lib.syscalls import counted, counting
from lib.wait import wait_until
from smb2client import wire

pytestmark = with_worker

FILES, DIRS = 240, 3
LONG_AGO = 978350400    # 2001
SIZES = (1, 4096, 5000, 65536)
UNSIGNED = "smb_signing = desired\n"     # the gate answers in the server's name
AROUND = 120            # requests of connecting, listing and looking at the root, at most


def content(directory, number):
    size = SIZES[number % len(SIZES)]
    return (b"%d/%d " % (directory, number) * size)[:size]


def plant(top):
    for d in range(DIRS):
        (top / ("d%d" % d)).mkdir()
        for n in range(FILES // DIRS):
            path = top / ("d%d" % d) / ("f%03d" % n)
            path.write_bytes(content(d, n))
            path.chmod(0o640 if n % 2 else 0o600)
            os.chown(path, smbd.USERS["alice"][0], 100)
            # read since it was written, so the server notes the next read as well
            os.utime(path, (LONG_AGO + n, LONG_AGO + 1000 + n))


def check(volume):
    for d in range(DIRS):
        names = sorted(os.listdir(volume / ("d%d" % d)))
        assert names == ["f%03d" % n for n in range(FILES // DIRS)]
        for n, name in enumerate(names):
            path = volume / ("d%d" % d) / name
            st = path.lstat()
            # before the bytes: reading them changes it here, too
            assert st.st_atime == LONG_AGO + n, name
            assert st.st_mtime == LONG_AGO + 1000 + n, name
            assert st.st_uid == smbd.USERS["alice"][0], name
            assert path.read_bytes() == content(d, n), name


@pytest.fixture
def tree(new_volume):
    top = new_volume("xfs", "300M").path / "old"
    top.mkdir()
    plant(top)
    return top


@pytest.fixture
def server(tree, new_samba, request):
    return new_samba(request.node.name[5:15], tree)


@pytest.fixture
def make(moddir, new_volume, rpcshim, tmp_path):
    who = credentials(tmp_path)
    with migrations(moddir, new_volume, rpcshim) as begin:
        def factory(port, more="", wrap=(), **values):
            values = dict({**who, "connections": 2, "call_timeout": 20000}, **values)
            return begin("smb://127.0.0.1:%d/share" % port, settings(**values) + more, wrap=wrap)
        yield factory


def test_a_small_file_is_opened_once(make, server):
    """Its descriptor, streams, attributes and bytes come through one handle."""
    counter = Counter(server.port)
    try:
        m = make(counter.port).init().start()
        counter.counts.clear()
        m.crawl()
        m.audit(complete=True)
        counts = dict(counter.counts)
    finally:
        counter.close()
    check(m.volume)
    assert counts[CREATE] <= FILES + AROUND, counts
    assert counts[CLOSE] <= FILES + AROUND, counts
    assert FILES <= counts[READ] <= FILES + AROUND, counts
    assert counts[QUERY_INFO] <= 3 * FILES + AROUND, counts


def test_with_small_files_switched_off(make, server):
    """The bytes do not come with the attributes, and all is the same."""
    m = make(server.port, small_file=0).init().start()
    m.crawl()
    m.audit(complete=True)
    check_but_atime(m.volume)


def check_but_atime(volume):
    for d in range(DIRS):
        for n in range(FILES // DIRS):
            assert (volume / ("d%d" % d) / ("f%03d" % n)).read_bytes() == content(d, n)


def test_many_are_under_way_on_a_long_line(make, server):
    """Two connections, of which one is kept for clients."""
    counter = Counter(server.port)
    try:
        with line("127.0.0.1", counter.port, 25000) as proxy:
            m = make(proxy.port).init().start()
            m.crawl()
            m.audit(complete=True)
    finally:
        counter.close()
    check(m.volume)
    assert counter.most <= 2
    assert counter.most_under > 12, counter.most_under


def test_one_that_breaks_the_connection(make, server):
    """It is parked in the end; those that were under way with it are not."""
    with SmbGate(server) as gate:
        m = make(gate.port, max_tries=1).init().start()
        broken = []

        def refusal(name, options):
            if name.replace("\\", "/") == "d1/f020":
                broken.append(name)
                raise ConnectionResetError      # this connection, and no other
            return 0

        gate.refusal = refusal
        crawler = m.start_crawler()
        wait_until(lambda: m.status()["parked"] == 1, 120, "the one to be parked")
        wait_until(lambda: crawler.poll() is not None, 120, "the others")
        m.audit(parked=1)
        gate.refusal = None
        parked = m.tool("parked", m.volume)["parked"]
        assert [p["path"] for p in parked] == ["d1/f020"]
        assert len(broken) >= 3
        for d in range(DIRS):
            for n in range(FILES // DIRS):
                if (d, n) != (1, 20):
                    path = pathlib.Path(m.volume) / ("d%d" % d) / ("f%03d" % n)
                    assert path.read_bytes() == content(d, n)
        m.postcopy("retry", m.volume)
        m.crawl()
        m.audit(complete=True)
    check_but_atime(m.volume)


def test_replaced_while_they_are_under_way(make, server, tree):
    """What changes over there before its bytes come is told, and never mixed."""
    with SmbGate(server) as gate:
        m = make(gate.port).init().start()
        victim = tree / "d2" / "f041"          # 4096 bytes
        gate.before("d2/f041", lambda: victim.write_bytes(b"x" * 4096))
        m.crawl()
        assert not gate.errors
        status = m.status()
        new = m.volume / "d2" / "f041"
        # listed before, and of another version since: a conflict, or wholly the new one
        assert status["conflicts"] == 1 or new.read_bytes() == b"x" * 4096, status
        m.audit(parked=status["conflicts"])


def test_shorter_than_it_was_listed(make, server, tree):
    """What is answered is not what is wanted any more: no byte of anything else comes with it, and the retriever does
    not give the worker up for a message that makes no sense."""
    with SmbGate(server) as gate:
        m = make(gate.port).init().start()
        for n, size in ((41, 1000), (42, 1), (43, 0)):
            path = tree / "d2" / ("f%03d" % n)
            gate.before("d2/f%03d" % n, lambda path=path, size=size: os.truncate(path, size))
        m.crawl()
        assert not gate.errors
        for _attempt in range(3):       # what was listed has changed: taken as it is now, at the latest when it is asked
            if m.status()["conflicts"]:
                m.postcopy("resolve", "--theirs", m.volume, *(p["path"] for p in m.tool("parked", m.volume)["parked"]))
                m.crawl()
        m.audit(complete=True)
    for n, size in ((41, 1000), (42, 1), (43, 0)):
        assert (m.volume / "d2" / ("f%03d" % n)).read_bytes() == content(2, n)[:size]


# -- made whole while their directory is listed (docs/decisions/0099) ----------------------

def kept(volume):
    """All of each object below @volume that a migration brings."""
    found = {}
    for at, dirs, files in os.walk(volume):
        dirs[:] = [d for d in dirs if d != ".postcopy"]
        for name in dirs + files:
            path = os.path.join(at, name)
            st = os.lstat(path)
            found[os.path.relpath(path, volume)] = (
                st.st_mode, st.st_uid, st.st_gid, st.st_size if name in files else 0, st.st_mtime_ns,
                {x: os.getxattr(path, x) for x in os.listxattr(path)},
                pathlib.Path(path).read_bytes() if name in files else b"")
    return found


def of_all_kinds(server, tree):
    """What SMB clients set; also where there was nothing, which smbd would make up anew each time."""
    (tree / "d2/zeros").write_bytes(bytes(9000))
    with server.client() as c:
        for at, _dirs, files in os.walk(tree):
            for name in ["", *files]:
                path = os.path.relpath(os.path.join(at, name), tree)
                with c.open("" if path == "." else path, wire.WRITE_ATTRIBUTES) as f:
                    f.set_basic(0 if name == "" else wire.ATTR_ARCHIVE, created=131 * 10 ** 15)
        for n in range(6):
            name = "d1/own%d" % n
            c.write_file(name, b"%d" % n * 3000)
            c.write_file(name + ":mark", b"a stream of %d" % n)
            with c.open(name, wire.WRITE_ATTRIBUTES) as f:
                f.set_basic((wire.ATTR_ARCHIVE, wire.ATTR_HIDDEN, wire.ATTR_SYSTEM)[n % 3],
                            created=130 * 10 ** 15 + n)
        c.write_file("d1/empty", b"")


def test_they_are_as_those_that_were_stubs(make, server, tree):
    of_all_kinds(server, tree)
    one, other = make(server.port).init().start(), make(server.port, small_file=0).init().start()
    other.crawl()
    one.crawl()
    assert one.status()["whole"] > FILES and not other.status()["whole"]
    for m in one, other:
        m.audit(complete=True)
    was = kept(other.volume)
    assert any("security.NTACL" in entry[5] for entry in was.values())
    for path, entry in kept(one.volume).items():
        assert entry == was.pop(path), path
    assert not was
    assert os.lstat(one.volume / "d2/zeros").st_blocks <= 8     # of attributes
    answer = one.tool("verify", "--all", "--config", one.workdir / "postcopy.conf", one.volume)
    assert answer["different"] == answer["unclear"] == 0, answer


def test_a_client_does_not_wait_for_them(make, server):
    """One of them is not answered; a look-up beside it is, and the rest comes later."""
    with SmbGate(server) as gate:
        gate.hold("d1/f020")
        m = make(gate.port, call_timeout=600000).init().start()
        try:
            crawler = m.start_crawler()
            assert gate.held.wait(120)
            with m.client("v3").patient(60) as c:
                assert c.getattr(b"d1/f041").size == len(content(1, 41))
        finally:
            gate.let_go()
        assert crawler.wait(300) == 0
        m.audit(complete=True)
    check_but_atime(m.volume)


def test_where_hardly_any_is_plain(make, server, tree):
    """What has streams has to be asked for again; other directories are not asked for in vain then."""
    with server.client() as c:
        for d in range(DIRS):
            for n in range(FILES // DIRS):
                c.write_file("d%d/f%03d:mark" % (d, n), b"a stream")
    (tree / "d2").rename(tree / "d1/d2")        # so they are listed one after the other
    (tree / "d1").rename(tree / "d0/d1")
    opens = collections.Counter()
    with SmbGate(server) as gate:
        def note(name, _options):
            opens[name.replace("\\", "/").rpartition("/")[0]] += 1
            return 0

        gate.refusal = note
        m = make(gate.port).init().start()
        m.crawl()
        m.audit(complete=True)
    assert m.status()["whole"] == 0
    assert opens["d0"] >= opens["d0/d1"] + FILES // DIRS, opens
    assert opens["d0/d1"] <= opens["d0/d1/d2"] + 4, opens       # of d2 itself


def test_killed_while_they_come(make, server):
    """What has no name yet goes, and comes again."""
    with SmbGate(server) as gate:
        gate.hold("d1/f020")
        m = make(gate.port, call_timeout=600000).init().start()
        try:
            m.start_crawler()
            assert gate.held.wait(120)
            m.kill_retriever()
        finally:
            gate.let_go()
        m.kill_crawler()
        m.start_retriever()
        m.crawl()
        m.audit(complete=True)
    check_but_atime(m.volume)


CALLS = 52      # 41.5 were seen; 126 where they are stubs first
# Who waits for whom, and where memory grows.
BY_CHANCE = {"futex", "mprotect", "poll", "epoll_wait", "read", "write", "ioctl", "getsockopt", "recvfrom", "brk"}


def test_system_calls(make, server, workdir):
    """So many of the retriever and its workers for each small file, whatever else they do."""
    out = workdir / "calls.strace"
    m = make(server.port, wrap=counting(out)).init().start()
    m.crawl()
    m.audit(complete=True)
    assert m.status()["whole"] == FILES
    m.stop()
    counts = counted(out)
    of_files = (counts.pop("total") - sum(counts.get(name, 0) for name in BY_CHANCE)) / FILES
    print(f"calls for a file: {of_files:.2f}")
    assert of_files <= CALLS, counts


# -- all questions about an object in one message ----------------------------------------


def test_one_message_for_an_object(make, server):
    with SmbGate(server) as gate:
        m = make(gate.port).init().start()
        before = gate.together
        m.crawl()
        m.audit(complete=True)
        assert FILES + DIRS <= gate.together - before <= FILES + DIRS + 8
    check(m.volume)
    assert m.status()["whole"] == FILES


def test_a_server_without_compounds(make, server):
    """It answers the first request of a message and refuses the others: then it is asked in steps, and nothing is
    taken for "there is none"."""
    with SmbGate(server) as gate:
        gate.compounds = False
        m = make(gate.port, more=UNSIGNED).init().start()
        m.crawl()
        m.audit(complete=True)
        assert gate.together <= 4 * 80, gate.together       # connections, and what was under way on each
    check(m.volume)
    other = make(server.port).init().start()
    other.crawl()
    other.audit(complete=True)
    acls = [{x: os.getxattr(path, x) for x in os.listxattr(path) if "acl" in x.lower()}
            for path in (v / "d1" / "f003" for v in (m.volume, other.volume))]
    assert acls[0] == acls[1] and "security.NTACL" in acls[0]


def test_a_server_that_does_not_stand_compounds(make, server):
    """Connections are lost with them: after some it is asked one at a time, and nothing is parked."""
    with SmbGate(server) as gate:
        gate.breaks = True
        m = make(gate.port, small_file=0).init().start()
        m.crawl()
        m.audit(complete=True)
        lost = gate.together
    check_but_atime(m.volume)
    assert lost < 30, lost
    assert "one at a time" in m.log.read_text()
