# SPDX-License-Identifier: GPL-3.0-or-later
"""Old servers that are no liars but odd, or lie in small things: each oddity of docs/sources.md
that no other file has.  What they say is what comes, or it is parked; nothing is lost without a
word."""
import os

import pytest

from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree
from test_hostile_source import for_node

VERSIONS = (3, "4.0", "4.2")
SECOND = 10 ** 9
WHEN = 1_600_000_000 * SECOND


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def fake():
    with FakeServer(Tree()) as server:
        yield server


def done(m, parked=0):
    m.crawl()
    m.audit(complete=not parked, parked=parked)
    if not parked:
        wait_until(lambda: m.status()["state"] == "complete", 60)
        answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                        check=False)
        assert answer["result"] == "right", answer
    return m


def test_no_readdirplus(fake, new_migration, fresh_dir):
    """NFSv3: READDIR, and a look-up of each name.  (NFSv4's READDIR brings attributes.)"""
    for i in range(300):
        fake.tree.file(fake.tree.root, "f%d" % i, b"%d" % i)
    fake.tree.symlink(fake.tree.root, "s", "f1")
    fake.hook("READDIRPLUS", hooks.status(errors.NOTSUPP))
    m = new_migration(fake.url(), fresh_dir).init().start()
    with m.client() as c:
        assert len(c.names()) == 301
    done(m)
    assert fake.counts["READDIR"] and fake.counts["LOOKUP"] >= 301
    assert (fresh_dir / "f299").read_bytes() == b"299" and os.readlink(fresh_dir / "s") == "f1"


def test_cookies_that_a_change_makes_useless(version, fake, new_migration, fresh_dir):
    """The listing is begun again, and has each name once."""
    d = fake.tree.mkdir(fake.tree.root, "d")
    for i in range(50):
        fake.tree.file(d, "f%d" % i, b"x")
    fake.page_limit = 7
    broken = hooks.first(2, hooks.status(errors.BAD_COOKIE))
    for_node(fake, "READDIRPLUS", d, lambda s, call, answer:
             broken(s, call, answer) if call.cookie > 20 else answer())
    done(new_migration(fake.url(version=version), fresh_dir).init().start())
    assert sorted(os.listdir(fresh_dir / "d")) == sorted("f%d" % i for i in range(50))


def test_file_ids_are_all_0(version, fake, new_migration, fresh_dir):
    """Handles tell what is one file; that a handle has become another object's cannot be told."""
    tree = fake.tree
    dirs = [tree.mkdir(tree.root, name) for name in "ab"]
    nodes = [tree.root, *dirs]
    for number, d in enumerate(dirs):
        nodes.append(tree.file(d, "two", b"two names %d" % number, mtime=WHEN, ctime=WHEN))
        tree.hardlink(d, "too", nodes[-1])
        nodes += [tree.file(d, "f%d" % i, b"%d %d" % (number, i)) for i in range(5)]
    for node in nodes:
        node.claim(fileid=0)
    done(new_migration(fake.url(version=version), fresh_dir).init().start())
    for number, d in enumerate("ab"):
        at = fresh_dir / d
        assert (at / "two").samefile(at / "too")
        assert (at / "two").read_bytes() == b"two names %d" % number
        assert [(at / ("f%d" % i)).read_bytes() for i in range(5)] == [
            b"%d %d" % (number, i) for i in range(5)]


def test_times_of_whole_seconds(version, fake, new_migration, fresh_dir):
    node = fake.tree.file(fake.tree.root, "f", Pattern(3 << 20), atime=WHEN, mtime=WHEN,
                          ctime=WHEN)
    other = fake.tree.file(fake.tree.root, "g", b"before", atime=WHEN, mtime=WHEN, ctime=WHEN)
    m = new_migration(fake.url(version=version), fresh_dir).init().start()
    with m.client() as c:
        assert c.getattr("f").mtime == c.getattr("g").mtime == WHEN
    other.mtime += SECOND               # a change is seen, if it is a second later
    m.crawl()
    m.audit(parked=1)
    assert m.status()["conflicts"] == 1
    assert os.stat(fresh_dir / "f").st_mtime_ns == node.mtime


def test_link_counts_that_lie(version, fake, new_migration, fresh_dir):
    tree = fake.tree
    d = tree.mkdir(tree.root, "d")
    one = tree.file(d, "one", b"said to have one name")
    tree.link(d, "one-too", one)
    tree.file(d, "none", b"no names").claim(nlink=0)
    tree.file(d, "many", b"four billion").claim(nlink=(1 << 32) - 1)
    some = tree.file(d, "some", b"five")
    tree.hardlink(d, "some-too", some)
    some.claim(nlink=5)
    m = new_migration(fake.url(version=version), fresh_dir).init().start()
    m.crawl()
    m.audit(complete=True)
    here = fresh_dir / "d"
    assert {n: os.stat(here / n).st_nlink for n in os.listdir(here)} == {
        "one": 1, "one-too": 1, "none": 1, "many": 1, "some": 2, "some-too": 2}
    assert (here / "one").read_bytes() == (here / "one-too").read_bytes() == one.content.data
    assert (here / "many").read_bytes() == b"four billion"
    assert m.status()["links_split"] == 2               # "many", and "some": told, and counted


def test_sizes_that_say_less_than_there_is(version, fake, new_migration, fresh_dir):
    """So much comes as is told, which is what every client of the old server has seen."""
    node = fake.tree.file(fake.tree.root, "f", Pattern(100000)).claim(size=60000)
    m = done(new_migration(fake.url(version=version), fresh_dir).init().start())
    assert (fresh_dir / "f").read_bytes() == node.content.read(0, 60000)
    assert m.status()["errors"] == 0


def test_sizes_that_become_others(version, fake, new_migration, fresh_dir):
    """Another size with each answer: never bytes of it, a conflict."""
    node = fake.tree.file(fake.tree.root, "f", Pattern(100000))
    m = new_migration(fake.url(version=version), fresh_dir,
                      conf="max_tries = 1\n").init().start()
    with m.client() as c:
        assert c.getattr("f").size == 100000
    for_node(fake, "READ GETATTR", node,
             hooks.before(lambda call: node.claim(size=100001 + call.index)))
    m.crawl()
    m.audit(parked=1)
    assert m.status()["conflicts"] == 1


def test_everything_is_later_for_a_while(version, fake, new_migration, fresh_dir):
    """Whatever is asked; a machine that says DELAY for minutes is met by asking again, ever more
    slowly, and nothing is counted against anything."""
    fake.tree.file(fake.tree.mkdir(fake.tree.root, "d"), "f", b"later")
    m = new_migration(fake.url(version=version), fresh_dir, conf="max_tries = 1\n").init().start()
    away = fake.hook("LOOKUP READDIRPLUS READ", hooks.status(errors.JUKEBOX))
    m.start_crawler()
    wait_until(lambda: fake.counts["READDIRPLUS"] > 8, 60, "it is asked again and again")
    status = m.status()
    assert status["errors"] == status["parked"] == 0 and status["source_connected"]
    away()
    assert m.crawler.wait(120) == 0
    m.audit(complete=True)
    assert (fresh_dir / "d/f").read_bytes() == b"later"
