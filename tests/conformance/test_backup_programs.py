# SPDX-License-Identifier: GPL-3.0-or-later
"""What GNU tar and its like do to a cold tree: they look at a file, read it, look again, and
say "file changed as we read it" if its change time has moved, or its size grown.  So a file
that a client reads is finished some time after it was asked for last, however long others are
done by then; and a directory, which they look at again when all that is below it is read, some
time after anything in it was."""
import os

import pytest

from lib.migration import SmbMigration
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

FILES = 6
MANY = 300                      # names that make a local directory grow
DIRS = {"", "d", "d/sub", "d/sub/deep"}
ASKED = len(DIRS) + FILES - 1 + 1   # the empty file is not asked for; one is in d/sub/deep
LONG = "finish_delay = 86400\n"
SIZE = 777                      # of d on the old server


def content(i):
    return Pattern(5000 * i, seed=i + 1).read(0, 5000 * i)


@pytest.fixture
def fake():
    tree = Tree()
    d = tree.mkdir(tree.root, "d", nlink=3).claim(size=SIZE)
    for i in range(FILES):
        tree.file(d, "f%d" % i, Pattern(5000 * i, seed=i + 1))
        tree.file(tree.root, "other%d" % i, Pattern(100, seed=i))
    tree.hardlink(d, "f3 too", tree.find(b"d/f3"))
    sub = tree.mkdir(d, "sub", nlink=3)
    for i in range(MANY):
        tree.symlink(sub, "a name that takes some place, and number %d" % i, "nowhere")
    tree.file(tree.mkdir(sub, "deep"), "f1", Pattern(5000, seed=2))
    tree.root.nlink = 3
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


def archive(m, client, again, path="d", look=True):
    """Reads all that is below, as tar does; again: another look, by its handle, at each file
    after it was read and at each directory after all below it was; look: at least one."""
    files = {path: (client.fh(path.encode()), seen(client, client.fh(path.encode())))}
    for name in sorted(n.decode() for n in client.names(path)):
        below = path + "/" + name
        fh = client.fh(below.encode())
        if below in DIRS:
            files.update(archive(m, client, again, below, look))
        elif name[0] == "f":
            files[below] = fh, seen(client, fh)
            assert client.read_file(fh) == content(int(name.split()[0][1:])), below
            if look:
                check(m, client, {below: files[below]}, again)
    if look:
        check(m, client, {path: files[path]}, again)
    return files


def check(m, client, files, again):
    for rested in range(1 + again):
        if rested:
            settle(m)
        for name, (fh, before) in files.items():
            assert seen(client, fh) == before, name


def only_kept(m):
    status = m.status()
    return status["pending"] == status["kept_back"] > 0


@pytest.mark.parametrize("proto,crawling", [("v3", False), ("v4.1", False), ("v4.1", True)])
def test_nothing_changes_while_it_is_read(fake, fresh_dir, new_migration, proto, crawling):
    m = new_migration(fake.url(), fresh_dir, conf=LONG).init().start()
    with m.client(proto) as c:
        c = c.patient(60)
        files = {"": (c.fh(b""), seen(c, c.fh(b"")))}
        assert len(c.names("")) == FILES + 1
        files.update(archive(m, c, again=not crawling))
        assert files["d"][1][2] == SIZE and DIRS < set(files)
        if crawling:
            m.start_crawler()
            wait_until(lambda: only_kept(m), 60, "the crawl")
        settle(m)
        check(m, c, files, again=True)
    assert m.status()["kept_back"] == ASKED
    assert "kept back" in m.postcopy("status", m.volume).stdout
    if crawling:                # the administrator need not wait
        m.server.stop()
        m.postcopy("finish", m.volume)
        assert not (fresh_dir / ".postcopy").exists()


def test_it_is_finished_by_itself(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf="finish_delay = 2\n").init().start()
    with m.client("v4.1") as c:
        # what was read first may be finished before the rest is read
        files = archive(m, c, again=False, look=False)
        m.crawl()
        m.audit(complete=True)
        for name, (fh, before) in files.items():    # its size is the local one now
            after = seen(c, fh)
            assert after[0] >= before[0], name
            assert (after[1], after[3]) == (before[1], before[3]), name


def test_a_crawler_lists_without_keeping(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir, conf=LONG).init().start()
    m.crawl()
    assert m.status()["kept_back"] == 0
    m.audit(complete=True)


@pytest.fixture
def listed(fake, fresh_dir, new_migration):
    """A client has listed d, which stays kept back."""
    m = new_migration(fake.url(), fresh_dir, conf=LONG).init().start()
    with m.client("v4.1") as c:
        c = c.patient(60)
        assert len(c.names("d")) == FILES + 2
        yield m, c


CHANGES = (("create", lambda c: c.create(b"d/new"), 0),
           ("mkdir", lambda c: c.mkdir(b"d/newdir"), 1),
           ("rename", lambda c: c.rename(b"d/f1", b"d/renamed"), 0),
           ("move away", lambda c: c.rename(b"d/newdir", b"elsewhere"), -1),
           ("remove", lambda c: c.remove(b"d/f2"), 0))


def test_a_client_sees_its_own_changes(listed, fresh_dir):
    """In a directory that is kept back, as in any other."""
    m, c = listed
    fh = c.fh(b"d")
    change, nlink = c.getattr(fh).change, 3
    for what, do, links in CHANGES:
        before = seen(c, fh)
        do(c)
        after, nlink = seen(c, fh), nlink + links
        assert after[0] > before[0] and after[1] > before[1], what
        assert after[3] == nlink, what
        assert c.getattr(fh).change > change, what
        change = c.getattr(fh).change
    names = sorted(c.names("d"))
    assert b"renamed" in names and b"f2" not in names
    m.start_crawler()
    wait_until(lambda: only_kept(m), 60, "the crawl")
    m.server.stop()
    m.postcopy("finish", m.volume)
    local = os.stat(fresh_dir / "d")
    assert (local.st_mtime_ns, local.st_nlink) == (after[1], nlink)
    assert sorted(os.listdir(os.fsencode(fresh_dir / "d"))) == names


def test_smb_clients_see_the_same(fake, fresh_dir, workdir):
    m = SmbMigration(workdir / "backup-smb", fake.url(), fresh_dir, conf=LONG)
    try:
        m.init().start()
        with m.client() as c:
            before = c.stat("d")
            assert len(c.listdir("d")) == FILES + 2
            settle(m)
            after = c.stat("d")
            assert (after.changed, after.written, after.nlink) == (
                before.changed, before.written, before.nlink)
            c.mkdir("d/new")
            assert c.stat("d").written > before.written
            assert c.stat("d").changed > before.changed
    finally:
        m.stop()
