# SPDX-License-Identifier: GPL-3.0-or-later
"""The old server runs, and its export is away for a while: handles are stale, or everything is
denied.  That is an outage of the source and no property of any object: clients wait, nothing
is parked, the status says why, and all goes on by itself."""
import threading
import time

import pytest

from lib.smbsource import with_worker
from lib.wait import wait_until
from nfsclient import NfsError, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

CONF = "max_tries = 2\nblock_size = 65536\n"
SIZE = 300000
OUTAGES = {"stale": errors.STALE, "acces": errors.ACCES, "io": errors.IO}


def away(status):
    """Everything that has a handle; MOUNT too."""
    return hooks.only(lambda call: call.proc not in ("NULL", "MOUNT_NULL", "EXPORT"),
                      hooks.status(status))


@pytest.fixture
def fake():
    tree = Tree()
    for i in range(3):
        d = tree.mkdir(tree.root, "d%d" % i)
        for j in range(20):
            tree.file(d, "f%d" % j, Pattern(1000 + j, seed=j + 1))
    tree.file(tree.root, "big", Pattern(SIZE, seed=9))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(new_migration, fresh_dir, fake):
    m = new_migration(fake.url(), fresh_dir, conf=CONF).init()
    m.server.allow = ["converted to NFS3ERR_IO"]
    return m.start()


def nothing_is_wrong(m):
    status = m.status()
    assert status["parked"] == status["conflicts"] == status["errors"] == 0, (
        status, m.tool("parked", m.volume))


@pytest.mark.parametrize("status", OUTAGES)
def test_the_export_is_away(m, fake, status):
    with m.client() as c:
        assert c.read("big", 0, 1000)[0] == Pattern(SIZE, seed=9).read(0, 1000)
        fh = c.fh("big")
        take_away = fake.hook(None, away(OUTAGES[status]))
        crawler = m.start_crawler()
        got = {}

        def read():
            with m.client(patience=120) as patient:
                got["d0"] = patient.names("d0")
                got["f3"] = patient.read_file("d1/f3")
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert delayed(c, fh)
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "the status")
        assert m.status()["source_trouble"], m.status()
        for _ in range(3):
            assert delayed(c, fh)
            time.sleep(0.5)
        assert reader.is_alive() and crawler.poll() is None
        lines = len(m.log.read_text().splitlines())
        time.sleep(2)
        assert len(m.log.read_text().splitlines()) - lines < 20
        nothing_is_wrong(m)
        take_away()
        reader.join(120)
        assert sorted(got["d0"]) == sorted(b"f%d" % i for i in range(20))
        assert got["f3"] == Pattern(1003, seed=4).read(0, 1003)
        assert c.patient(60).read_file("big") == Pattern(SIZE, seed=9).read(0, SIZE)
        assert crawler.wait(120) == 0
    nothing_is_wrong(m)
    m.audit(complete=True)


def delayed(c, fh):
    """A byte that is not here yet: come again, and no error."""
    try:
        c.patient(0).read(fh, SIZE - 10, 10)
    except NfsError as err:
        assert err.status == errors.JUKEBOX, err
        return True
    return False


def test_short_outages_blame_nobody(m, fake):
    """It is back before anybody has asked the root.  Where it was the root that could not be
    listed, that is one try of it that failed."""
    fake.hook("READ LOOKUP READDIRPLUS", hooks.first(1, hooks.status(errors.STALE)))
    m.crawl()
    status = m.status()
    assert status["parked"] == status["conflicts"] == 0 and status["errors"] <= 1, status
    m.audit(complete=True)


def test_one_stale_handle_is_the_objects_own(m, fake):
    """The root is well: found again by its path, with another handle."""
    with m.client() as c:
        c.names("d1")
        node, other = fake.tree.find("d1/f3"), fake.tree.find("d1/f4")
        for n in (node, fake.tree.find("d2")):
            del fake.tree.by_fh[n.fh]
            n.fh = b"N" + n.fh[1:]
            fake.tree.by_fh[n.fh] = n
        other.gone = True
        assert c.read_file("d1/f3") == Pattern(1003, seed=4).read(0, 1003)
    m.crawl()
    [entry] = m.tool("parked", m.volume)["parked"]
    assert entry["path"] == "d1/f4" and "read" in entry["reason"]
    assert '"d1/f4"' in m.log.read_text()
    with m.client() as c:
        assert len(c.names("d2")) == 20
        assert c.read_file("d2/f7") == Pattern(1007, seed=8).read(0, 1007)


def test_many_failures_make_few_lines(m, fake):
    fake.hook("READ", hooks.status(errors.IO))
    m.crawl()
    assert m.status()["parked"] == 61
    lines = [line for line in m.log.read_text().splitlines() if "parked" in line]
    assert 3 <= len(lines) < 40, len(lines)
    assert any("more" in line for line in lines), lines
    assert any('"d' in line for line in lines), lines


@with_worker
@pytest.mark.parametrize("anew", [False, True], ids=["moved", "restarted"])
def test_the_share_is_empty_for_a_while(new_samba, make, tree, anew):
    """Its disk is not mounted, and smbd shows what is below the mount point."""
    for i in range(20):
        (tree / ("f%02d" % i)).write_bytes(b"%d" % i * 1000)
    old = new_samba("outage-%d" % anew, tree)
    if old.version >= (4, 22) and not anew:
        pytest.skip("this smbd keeps the directory that a share began with, wherever it is moved")
    m = make(old.url(), conf="max_tries = 2\n").init().start()
    m.server.allow = ["converted to NFS3ERR_IO"]
    with m.client() as c:
        assert len(c.names()) == 20
        fh = c.fh("f07")
        aside = tree.with_name("aside")
        tree.rename(aside)
        tree.mkdir(mode=0o755)
        if anew:
            old.restart()
        crawler = m.start_crawler()
        try:
            for _ in range(3):
                with pytest.raises(NfsError) as info:
                    c.patient(0).read(fh, 0, 100)
                assert info.value.status == errors.JUKEBOX
            wait_until(lambda: m.status()["state"] == "source-lost", 60, "the status")
            assert m.status()["source_trouble"]
        finally:
            tree.rmdir()
            aside.rename(tree)
            if anew:
                old.restart()
        assert c.patient(120).read_file("f07") == b"7" * 1000
        assert crawler.wait(120) == 0
    nothing_is_wrong(m)
    m.audit(complete=True)
