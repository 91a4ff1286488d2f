# SPDX-License-Identifier: GPL-3.0-or-later
"""Old servers that are read by NFSv4: what costs a round trip, what happens when they go away, and
what is refused with words.  (A whole tree: test_real_source.py; what hostile servers and faults do
is in the suites of NFSv3, which run by NFSv4 with POSTCOPY_SOURCE_VERSION=4.)"""
import os
import random

import pytest

from lib.ganesha import Export, release
from lib.wait import wait_until
from nfsclient import errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.proxy import Proxy

MIB = 1 << 20
ALICE = 1001
OLD = (-5 * 10 ** 9 + 7, -10 ** 9 + 1)          # before 1970
VERSIONS = ("4.0", "4.1", "4.2")
LEVELS, FILES, WIDE = 16, 300, 3000
ONE = "connections = 1\n"               # none that still begins while calls are counted
PINGS = ("NULL", "SEQUENCE")            # of a connection that has nothing to do


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def fake():
    with FakeServer(Tree()) as server:
        yield server


@pytest.fixture(scope="module")
def top(new_volume):
    """noatime: whoever reads it first leaves no trace."""
    top = new_volume("xfs", "512M", options="noatime").path / "old-tree"
    (top / "down/below").mkdir(parents=True)
    rng = random.Random(3)
    for i in range(200):
        (top / "down" / ("f%d" % i)).write_bytes(rng.randbytes(100 + i))
    (top / "down/below/big").write_bytes(rng.randbytes(8 * MIB + 5))
    os.symlink("below/big", top / "down/link")
    os.link(top / "down/f1", top / "down/below/f1-too")
    os.utime(top / "down/f2", ns=OLD)
    os.chown(top / "down/f3", 1234, 4321)
    return top


@pytest.fixture(scope="module")
def old(old_server, top):
    return old_server(top)


def right(m):
    answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                    check=False)
    assert answer["exit"] == 0 and answer["result"] == "right", answer
    return answer


# -- round trips ------------------------------------------------------------------------------

def costs(new_migration, volume, version):
    """Calls that a client's first look down a path and its first read are, by procedure."""
    tree = Tree()
    at = tree.root
    for name in ("a", "b", "c"):
        at = tree.mkdir(at, name)
    tree.file(at, "f", b"x" * 5000)
    with FakeServer(tree) as fake:
        m = new_migration(fake.url(version=version), volume, conf=ONE).init().start()
        wait_until(lambda: m.status()["source_connected"], 60, "it is connected")
        fake.reset_counts()
        with m.client("v4.1") as c:
            assert c.read_file("a/b/c/f") == b"x" * 5000
        wait_until(lambda: m.status()["inflight"] == 0, 60, "all is answered")
        counts = dict(fake.counts)
        m.stop()
    return counts


def test_no_more_round_trips_than_nfsv3(new_migration, workdir, new_volume):
    homes = new_volume("xfs", "1G").path
    by = {}
    for version in (3,) + VERSIONS:
        (homes / str(version)).mkdir()
        by[version] = costs(new_migration, homes / str(version), version)
    for version in VERSIONS:
        for proc, count in by[version].items():
            if proc != "NULL":
                assert count <= by[3].get(proc, 0), by


# -- the same, of a server that nobody here wrote ---------------------------------------------

@pytest.fixture(scope="module")
def counted(old_server, new_volume):
    """A proxy before a stock server."""
    top = new_volume("xfs", "512M", options="noatime").path / "tree"
    for at in ["/".join(["deep"] + ["level%d" % i for i in range(1, LEVELS)]), "small", "wide"]:
        (top / at).mkdir(parents=True)
    for d in top.glob("**/level*"):
        (d / "beside").touch()
    (top / deep_file()).write_bytes(b"deep" * 1000)
    for i in range(FILES):
        (top / "small" / ("f%d" % i)).write_bytes(b"%4096d" % i)
    for i in range(WIDE):
        (top / "wide" / ("a-name-of-some-length-%06d" % i)).touch()
    with Proxy.for_server(old_server(top)) as proxy:
        yield proxy


def deep_file():
    return "/".join(["deep"] + ["level%d" % i for i in range(1, LEVELS)] + ["file"])


def calls_of(proxy, m, work):
    """What work() makes the old server hear, by procedure."""
    wait_until(lambda: m.status()["source_connected"], 60, "it is connected")
    proxy.reset_counts()
    work()
    wait_until(lambda: m.status()["inflight"] == 0, 60, "all is answered")
    return {name: n for name, n in proxy.counts.items() if name not in PINGS}


@pytest.mark.parametrize("version", (3,) + VERSIONS)
def test_a_cold_path_costs_a_call_for_each_name(version, counted, new_migration, fresh_dir):
    m = new_migration(counted.url(version), fresh_dir, conf=ONE).init().start()
    with m.client("v4.1") as c:
        c.patient(60).getattr("")
        calls = calls_of(counted, m, lambda: c.patient(60).getattr(deep_file()))
        assert calls == {"LOOKUP": LEVELS + 1}
        calls = calls_of(counted, m, lambda: c.patient(60).read(c.fh(deep_file()), 0, 1))
        assert calls == {"READ": 1}


def crawl_calls(counted, new_migration, volume, version):
    m = new_migration(counted.url(version), volume, conf=ONE).init().start()
    calls = calls_of(counted, m, m.crawl)
    m.audit(complete=True)
    m.stop()
    for i in range(FILES):
        assert (volume / "small" / ("f%d" % i)).read_bytes() == b"%4096d" % i
    return calls


def test_small_files_cost_no_more_calls_than_by_nfsv3(counted, new_migration, new_volume):
    homes, by = new_volume("xfs", "1G").path, {}
    for version in (3,) + VERSIONS:
        (homes / str(version)).mkdir()
        by[version] = crawl_calls(counted, new_migration, homes / str(version), version)
        assert by[version]["READ"] <= FILES + 1, by
    for version in VERSIONS:
        assert sum(by[version].values()) <= sum(by[3].values()), by
        assert by[version]["READDIRPLUS"] <= by[3]["READDIRPLUS"], by


# -- several file systems -----------------------------------------------------------------------

def test_exports_below_the_pseudo_root(version, new_server, new_volume, new_migration, fresh_dir):
    """Two file systems with the same file ids: each is a directory, and none is mixed up."""
    exports, trees = [], {}
    for name in ("one", "two"):
        at = new_volume("xfs", "512M").path / "tree"
        at.mkdir()
        for i in range(20):
            (at / ("f%d" % i)).write_bytes(b"%s %d" % (name.encode(), i))
        os.link(at / "f1", at / "f1-too")
        exports.append(Export(str(at), "/exports/" + name))
        trees[name] = at
    same = [[os.stat(tree / ("f%d" % i)).st_ino for i in range(20)] for tree in trees.values()]
    assert same[0] == same[1], "the file ids are others: is the test still one?"
    server = new_server("borders-" + version, exports=exports)
    m = new_migration(server.url("/", version=version), fresh_dir).init().start()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    right(m)
    for name in trees:
        here = fresh_dir / "exports" / name
        assert sorted(os.listdir(here)) == sorted(os.listdir(trees[name]))
        for i in range(20):
            assert (here / ("f%d" % i)).read_bytes() == b"%s %d" % (name.encode(), i)
        assert os.stat(here / "f1").st_nlink == 2 and os.stat(here / "f2").st_nlink == 1


# -- it goes away -----------------------------------------------------------------------------

def test_a_restart_in_the_middle(version, old, top, new_migration, fresh_dir):
    m = new_migration(old.url(version=version), fresh_dir, conf="call_timeout = 2000\n",
                      allow=["lost for more than"]).init().start()
    with m.client("v4.1", patience=60) as c:
        assert c.patient(60).read_file("down/f7") == (top / "down/f7").read_bytes()
        old.sigstop()
        try:
            m.start_crawler()
            wait_until(lambda: m.status()["inflight"] > 0 or not m.status()["source_connected"],
                       60, "somebody asks")
        finally:
            old.kill9()
            old.start()
        assert c.patient(60).read_file("down/below/big") == (top / "down/below/big").read_bytes()
    assert m.crawler.wait(300) == 0
    wait_until(lambda: m.status()["state"] == "complete", 60)
    m.audit(complete=True)
    right(m)
    here = os.stat(fresh_dir / "down/f2")
    assert (here.st_atime_ns, here.st_mtime_ns) == OLD
    assert os.stat(fresh_dir / "down/f1").st_nlink == 2
    assert (os.stat(fresh_dir / "down/f3").st_uid, os.stat(fresh_dir / "down/f3").st_gid) == (
        1234, 4321)


@pytest.mark.parametrize("code", [errors.DELAY, errors.GRACE, errors.RESOURCE, errors.LOCKED])
def test_later_is_no_error(code, version, fake, new_migration, fresh_dir):
    fake.tree.file(fake.tree.root, "f", b"later")
    m = new_migration(fake.url(version=version), fresh_dir, conf="max_tries = 1\n").init().start()
    remove = fake.hook("READ", hooks.status(code))
    m.start_crawler()
    wait_until(lambda: fake.counts["READ"] > 6, 60, "it is asked again")
    assert m.status()["parked"] == 0
    remove()
    assert m.crawler.wait(120) == 0
    m.audit(complete=True)
    assert (fresh_dir / "f").read_bytes() == b"later"


# -- owners that are names --------------------------------------------------------------------

def test_nobody_gets_what_is_alices(fake, new_migration, fresh_dir):
    for name, uid in (("hers", ALICE), ("mine", 1000)):
        fake.tree.file(fake.tree.root, name, b"x", uid=uid, mode=0o600)
    fake.owner_names = {ALICE: b"alice@example.org"}
    m = new_migration(fake.url(version=4), fresh_dir,
                      allow=['an owner over there is "alice@example.org", no number',
                             "impossible answer"]).init().start()
    m.crawl()
    assert not (fresh_dir / "hers").exists()
    assert os.stat(fresh_dir / "mine").st_uid == 1000
    assert "alice@example.org" in m.log.read_text()
    m.audit(parked=1)                   # the directory, whose entry was left out
    fake.owner_names = {}               # as the administrator has mended it over there
    m.postcopy("retry", "--errors", fresh_dir)
    m.crawl()
    m.audit(complete=True)
    assert os.stat(fresh_dir / "hers").st_uid == ALICE


def test_names_are_those_of_the_table(fake, new_migration, fresh_dir, workdir):
    for name, uid in (("hers", ALICE), ("bobs", 1002), ("mine", 1000)):
        fake.tree.file(fake.tree.root, name, b"x", uid=uid, mode=0o600)
    fake.owner_names = {0: b"root@example.org", ALICE: b"alice@example.org",
                        1002: b"bob@example.org"}
    table = workdir / "idmap-names"
    table.write_text("uid 0 root@example.org\nuid 5001 alice@example.org\n")
    table.chmod(0o600)
    m = new_migration(fake.url(version=4), fresh_dir, conf="smb_idmap = %s\n" % table,
                      allow=['"bob@example.org", no number', "impossible answer"]).init().start()
    m.crawl()
    assert {n: os.stat(fresh_dir / n).st_uid for n in ("hers", "mine")} == {"hers": 5001,
                                                                           "mine": 1000}
    assert os.stat(fresh_dir).st_uid == 0 and not (fresh_dir / "bobs").exists()
    m.audit(parked=1)
    table.write_text(table.read_text() + "uid 5002 bob@example.org\n")
    m.kill_retriever()
    m.start_retriever()
    m.postcopy("retry", "--errors", fresh_dir)
    m.crawl()
    m.audit(complete=True)
    assert os.stat(fresh_dir / "bobs").st_uid == 5002
    right(m)


# -- what is refused --------------------------------------------------------------------------

def refused(m, *texts):
    answer = m.init(check=False)
    assert answer["exit"] != 0 and not answer["ok"], answer
    for text in texts:
        assert text in answer["message"], answer
    assert "\n" not in answer["message"]
    assert not (m.volume / ".postcopy").exists()


def test_names_for_owners_are_refused(old_server, top, new_migration, fresh_dir):
    named = old_server(top, numeric=False)
    refused(new_migration(named.url(version=4), fresh_dir), "no number", "postcopy-idmap(5)")


def test_what_is_not_there_is_refused(old, new_migration, fresh_dir):
    url = old.url("/nothing/of/the/kind", version=4)
    refused(new_migration(url, fresh_dir), "/nothing/of/the/kind is not there over NFSv4")


def test_a_server_without_nfsv4_is_refused(fake, new_migration, fresh_dir):
    fake.v4 = False
    refused(new_migration(fake.url(version=4), fresh_dir), "the server must speak that NFSv4")


@pytest.mark.parametrize("minor, version", [(0, "4.1"), (1, "4.2")])
def test_a_server_without_that_version_is_refused(minor, version, fake, new_migration, fresh_dir):
    fake.minor = minor
    refused(new_migration(fake.url(version=version), fresh_dir), "has no NFSv" + version)


def test_the_highest_version_is_taken_and_kept(fake, new_migration, fresh_dir):
    """What the server is updated to in the middle of it changes nothing."""
    fake.minor = 1
    fake.tree.file(fake.tree.root, "f", b"f")
    m = new_migration(fake.url(version=4), fresh_dir)
    answer = m.init(check=False)
    assert answer["ok"] and "version=4.1" in answer["source"], answer
    assert "version=4.1" in (fresh_dir / ".postcopy/volume.conf").read_text()
    fake.minor = 2
    m.start()
    m.crawl()
    m.audit(complete=True)
    assert "version=4.1" in m.status()["source"]


@pytest.mark.parametrize("code, text", [
    (errors.WRONGSEC, "sec=sys"), (errors.MOVED, "referral"), (errors.ACCES, "may not be used"),
    (errors.NOENT, "is not there"), (errors.STALE, "stale")])
def test_roots_that_cannot_be_used(code, text, fake, new_migration, fresh_dir):
    fake.hook("MNT", hooks.status(code))
    refused(new_migration(fake.url(version=4), fresh_dir), text)


@pytest.mark.parametrize("options, text", [
    ("version=4&mountport=1", "mountport"), ("version=4.9", "version is none of"),
    ("version=4&version=4", "twice")])
def test_options_that_do_not_fit(options, text, new_migration, fresh_dir):
    refused(new_migration("nfs://127.0.0.1/export?" + options, fresh_dir), text)


@pytest.mark.parametrize("command", ["init", "check", "rehearse"])
@pytest.mark.parametrize("options, todo", [
    ("version=4", "use version=3"), ("version=4.0", "use version=3"),
    ("version=4.2", "use version=3"), ("sec=krb5i&version=4.1", "leave out --join")])
def test_a_joined_share_is_refused(options, todo, command, new_migration, fresh_dir):
    """The advice leads to no other refusal: NFSv3 has no Kerberos."""
    m = new_migration("nfs://127.0.0.1/export?" + options, fresh_dir)
    answer = m.tool(command, "--source", m.url, "--join", "smb://127.0.0.1/share", fresh_dir,
                    check=False)
    assert answer["error"] == "usage" and answer["exit"] != 0, answer
    assert "cannot be joined to NFSv4 yet: " + todo in answer["message"], answer
    assert os.listdir(fresh_dir) == []


# -- what init --check tells ------------------------------------------------------------------

def test_check_tells_of_this_protocol(old, new_migration, fresh_dir):
    m = new_migration(old.url(version=4), fresh_dir)
    answer = m.tool("check", "--source", m.url, fresh_dir, check=False)
    rows = {p["property"]: p for p in answer["properties"]}
    assert "does not tell it" in rows["btime"]["why"] and rows["btime"]["volume"] == "lost"
    assert "1970" not in rows["mtime"]["why"] and rows["mtime"]["volume"] == "kept"
    assert rows["owner"]["volume"] == "kept"
    says = answer["source_says"]
    assert says["security"] == "sys"
    assert says["nfs4_acl"] is (release() > 4) and "posix_acl" not in says
    assert says["hard_links"] and says["symlinks"] and says["bytes_total"] > 0
    assert not any("NFSv3" in p["why"] for p in rows.values()), rows
