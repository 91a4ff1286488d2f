# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files of an SMB source: several at a time on one connection, each opened once."""
import os
import pathlib

import pytest

from lib import smbd
from lib.line import line
from lib.smbcount import CLOSE, CREATE, QUERY_INFO, READ, Counter
from lib.smbgate import SmbGate
from lib.smbsource import IDMAP, migrations, settings, with_worker
from lib.wait import wait_until

pytestmark = with_worker

FILES, DIRS = 240, 3
LONG_AGO = 978350400    # 2001
SIZES = (1, 4096, 5000, 65536)
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
    login, idmap = tmp_path / "login", tmp_path / "idmap"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    idmap.write_text(IDMAP)
    with migrations(moddir, new_volume, rpcshim) as begin:
        def factory(port, more="", **values):
            values = dict({"smb_credentials": login, "smb_idmap": idmap, "connections": 2,
                           "call_timeout": 20000}, **values)
            return begin("smb://127.0.0.1:%d/share" % port, settings(**values) + more)
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
