# SPDX-License-Identifier: GPL-3.0-or-later
"""What GNU tar and its like do to a cold tree: they look at a file, read it, look again, and
say "file changed as we read it" if its change time has moved.  So a file that a client reads
is finished some time after it was asked for last, however long others are done by then."""
import pytest

from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from util import wait_until

FILES = 6
LONG = "finish_delay = 86400\n"


def content(i):
    return Pattern(5000 * i, seed=i + 1).read(0, 5000 * i)


@pytest.fixture
def fake():
    tree = Tree()
    d = tree.mkdir(tree.root, "d")
    for i in range(FILES):
        tree.file(d, "f%d" % i, Pattern(5000 * i, seed=i + 1))
        tree.file(tree.root, "other%d" % i, Pattern(100, seed=i))
    tree.hardlink(d, "f3 too", tree.find(b"d/f3"))
    with FakeServer(tree) as server:
        yield server


def seen(client, fh):
    a = client.getattr(fh)
    return a.ctime, a.mtime, a.size, a.nlink


def settle(m):
    """Nothing is on its way: what is going to be finished now is."""
    def rests():
        status = m.status()
        return not any(status[key] for key in ("inflight", "active", "queued"))
    wait_until(rests, 60, "a retriever at rest")


def archive(m, client, again):
    """Reads what is in d, as tar does; again: a look after each file, by its handle."""
    files = {}
    for name in client.names("d"):
        fh = client.fh(b"d/" + name)
        files[name] = (fh, seen(client, fh))
        number = int(name.split()[0][1:])
        assert client.read_file(fh) == content(number), name
        assert seen(client, fh) == files[name][1], name
        if again:
            settle(m)
            assert seen(client, fh) == files[name][1], name
    return files


def only_kept(m):
    status = m.status()
    return status["pending"] == status["kept_back"] > 0


@pytest.mark.parametrize("proto,crawling", [("v3", False), ("v4.1", False), ("v4.1", True)])
def test_nothing_changes_while_it_is_read(fake, fresh_dir, new_migration, proto, crawling):
    m = new_migration(fake.url(), fresh_dir, conf=LONG).init().start()
    with m.client(proto) as c:
        c = c.patient(60)
        files = archive(m, c, again=not crawling)
        if crawling:
            m.start_crawler()
            wait_until(lambda: only_kept(m), 60, "the crawl")
        settle(m)
        for name, (fh, before) in files.items():
            assert seen(c, fh) == before, name
    assert m.status()["kept_back"] == FILES - 1     # the empty one is not asked for
    assert "kept back" in m.postcopy("status", m.volume).stdout
    if crawling:                # the administrator need not wait
        m.server.stop()
        m.postcopy("finish", m.volume)
        assert not (fresh_dir / ".postcopy").exists()


def test_it_is_finished_by_itself(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="finish_delay = 2\n").init().start()
    with m.client("v4.1") as c:
        archive(m, c, again=False)
        m.crawl()
        m.audit(complete=True)
