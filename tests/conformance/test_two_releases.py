# SPDX-License-Identifier: GPL-3.0-or-later
"""In the middle of an update: processes of two releases on a volume that is half-way, and clients
that are connected.  What is here works; what is not waits; nobody is given other bytes, and both
logs say once who is older and what to restart.

The other release is this tree with another version of the ask protocol, another ring of news
and another protocol with the SMB worker, built by tests/tools/other-release.
"""
import contextlib
import signal
import subprocess

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, smb_status, status_of
from lib.migration import Migration
from lib.programs import BUILD, MODULES, PLUGINS, POSTCOPY, WORKER
from lib.refusal import export_refused, share_refused
from lib.release import other_release
from lib.smb import ALL
from lib.smbd import Samba
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

WORLD = BothWorld
MORE = "stub:wait = 2000"
LATER = {"v3": errors.JUKEBOX, "v4.0": errors.DELAY, "v4.1": errors.DELAY}


@pytest.fixture(scope="module")
def newer(moddir):
    return other_release(moddir / "newer", ['STUB_RING_SUFFIX=".newsX"'],
                         STUB_WIRE_VERSION=+1, SMB_WIRE_VERSION=+1)


def put_retriever(world, build):
    """As a package's update does."""
    world.m._end(world.m.retriever, signal.SIGTERM)
    world.m.build = build
    world.m.start_retriever()


def put_servers(world, build):
    world.m.server.plugin_dir = build / "fsal_stub"
    world.smbd.module_dir = build / "vfs_stub"
    world.m.server.restart()
    world.smbd.restart()


@pytest.fixture(autouse=True)
def as_before(world, newer):
    """All of this release again, after each test."""
    yield
    if world.m.server.plugin_dir != PLUGINS:
        put_servers(world, BUILD)
        world.smbd.module_dir = MODULES
        world.m.server.plugin_dir = PLUGINS
    if world.m.build != BUILD:
        put_retriever(world, BUILD)


def lines(path, *texts):
    return [line for line in path.read_text(errors="replace").splitlines()
            if all(text in line for text in texts)]


def smbd_lines(world, *texts):
    return [line for path in world.smbd.logs for line in lines(path, *texts)]


def half_way(case):
    case.file("here")
    case.file("some")
    case.file("cold")
    case.dir("d")
    case.file("d/x")
    case.enter("normal", "here")
    case.enter("some", "some")


def served_meanwhile(case, client, smb):
    """What is here, and what clients change; the rest waits."""
    hasty = client.patient(0)
    same(client.read_file(case.path("here")), case.data("here"))
    same(smb.read_file(case.path("here")), case.data("here"))
    hasty.write(case.path("here"), 10, b"nfs")
    case.write("here", 10, b"nfs")
    with smb.open(case.path("here"), ALL) as f:
        f.write(2 * BLOCK, b"smb")
    case.write("here", 2 * BLOCK, b"smb")
    hasty.write(case.path("some"), SIZE - 5, b"nfs")
    case.write("some", SIZE - 5, b"nfs")
    for _ in range(3):
        assert status_of(hasty.read, case.path("some"), 4 * BLOCK, 100) == LATER[client.proto]
        assert status_of(hasty.lookup, case.path("d/x")) == LATER[client.proto]
        assert status_of(hasty.names, case.path("d")) == LATER[client.proto]
    assert smb_status(smb.open, case.path("d/x")) in ("NETWORK_BUSY", "ACCESS_DENIED")


def wait_told(case, client, *found):
    """Each of these is said, after more asks if need be."""
    def all_of_it():
        assert status_of(client.patient(0).read, case.path("some"), 4 * BLOCK, 100) == \
            LATER[client.proto]
        unsaid = [number for number, look in enumerate(found) if not look()]
        if unsaid:
            raise LookupError("not said yet: %s" % unsaid)
        return True
    wait_until(all_of_it, 180, "lines about two releases")


def then_all_comes(case, client, smb, waiting):
    at, f, message = waiting
    same(f.finish_read(message), case.data("some")[at:at + 100])
    f.close()
    for name in ("here", "some", "cold", "d/x"):
        same(client.patient(60).read_file(case.path(name)), case.data(name))
        same(smb.read_file(case.path(name)), case.data(name))


def read_that_waits(case, smb):
    f = smb.open(case.path("some"))
    return 4 * BLOCK + 7, f, f.send_read(4 * BLOCK + 7, 100)


def test_newer_retriever(case, client, smb, world, newer):
    """An update has restarted the daemons; the file servers run on as they are."""
    half_way(case)
    before = len(lines(world.m.log, "is of an earlier release"))
    put_retriever(world, newer)
    waiting = read_that_waits(case, smb)
    served_meanwhile(case, client, smb)
    smb.echo()
    assert not smb.arrived(waiting[2])
    # Samba 4.22 calls its processes smbd[ADDRESS]
    wait_told(case, client, *(
        lambda name=name: lines(world.m.log, "(" + name,
                                ") is of an earlier release than this retriever", "restart it")
        for name in ("ganesha.nfsd", "smbd")),
        lambda: lines(world.m.server.log,
                      "ganesha.nfsd is of an earlier release than the retriever",
                      "restart ganesha.nfsd"),
        lambda: smbd_lines(world, "smbd is of an earlier release than the retriever",
                           "restart smbd"))
    assert len(lines(world.m.log, "is of an earlier release")) - before <= 8
    put_retriever(world, BUILD)             # or the servers are restarted: below
    then_all_comes(case, client, smb, waiting)


@pytest.mark.parametrize("proto", ["v4.1"])
def test_newer_servers(case, proto, world, newer):
    """Ganesha and Samba were restarted, the retriever was not; then it is."""
    with contextlib.ExitStack() as stack:
        half_way(case)
        put_servers(world, newer)
        client = stack.enter_context(contextlib.closing(world.client(proto)))
        smb = stack.enter_context(world.smbd.client())
        waiting = read_that_waits(case, smb)
        served_meanwhile(case, client, smb)
        wait_told(
            case, client,
            lambda: lines(world.m.server.log, "the retriever at",
                          "is of an earlier release than ganesha.nfsd",
                          "restart 'postcopy-retriever@*'"),
            lambda: smbd_lines(world, "the retriever at", "is of an earlier release than smbd",
                               "restart 'postcopy-retriever@*'"),
            lambda: lines(world.m.log, "this retriever is of an earlier release than process"))
        put_retriever(world, newer)
        then_all_comes(case, client, smb, waiting)
        # and back again, with what the newer one has brought
        put_servers(world, BUILD)
        put_retriever(world, BUILD)
    with contextlib.closing(world.client(proto)) as client, world.smbd.client() as smb:
        then = client.patient(60)
        same(then.read_file(case.path("some")), case.data("some"))
        same(smb.read_file(case.path("cold")), case.data("cold"))


def test_crawler_and_commands(case, world, newer):
    """A crawler that was not restarted waits, and does not come ten times a second; commands
    speak JSON and work."""
    case.file("f")
    case.file("g")
    case.reach("f")
    log = world.m.workdir / "crawler.log"
    put_retriever(world, newer)
    world.m.build = BUILD
    crawler = world.m.start_crawler(stay=True)
    wait_until(lambda: lines(log, "no retriever at"), 60, "the crawler's word")
    assert len(lines(log, "postcopy-crawler is of an earlier release than the retriever",
                     "restart postcopy-crawler")) == 1
    told = len(lines(log))
    calls = world.control("status")["uptime_s"]
    wait_until(lambda: world.control("status")["uptime_s"] > calls + 3, 60, "some seconds")
    assert crawler.poll() is None and len(lines(log)) == told
    for command in (("status", "--json"), ("pause",), ("resume",), ("throttle", "0"),
                    ("parked",), ("retry",)):
        argv = [command[0], str(world.volume), *command[1:]] if command[0] == "throttle" else [
            *command, str(world.volume)]
        done = subprocess.run(["/usr/bin/python3", str(POSTCOPY), *argv], capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 0, done
    put_retriever(world, BUILD)
    wait_until(lambda: lines(log, "the retriever is there"), 60, "the retriever again")
    case.finished("f")
    world.m.kill_crawler()


# -- what is on the disk ----------------------------------------------------------------

@pytest.fixture(scope="module")
def formats(moddir):
    """A release that makes volumes of another format."""
    return other_release(moddir / "formats", STUB_VOLUME_FORMAT=+1)


@pytest.fixture
def source():
    tree = Tree()
    tree.root.mode = 0o777
    tree.file(tree.root, b"here", b"is here" * 1000, mode=0o666)
    tree.file(tree.root, b"cold", b"has not come" * 1000, mode=0o666)
    with FakeServer(tree) as server:
        yield server


def read_both(m):
    with m.client() as c:
        c = c.patient(60)
        return c.read_file("here"), c.read_file("cold")


def test_older_volume(source, new_migration, fresh_dir, formats):
    """A release with a newer format goes on with the volume, and this one after it: nobody has
    told them to change it."""
    m = new_migration(source.url(), fresh_dir).init().start()
    with m.client() as c:
        same(c.patient(60).read_file("here"), b"is here" * 1000)
    for build in (formats, BUILD):
        m.server.stop()
        m._end(m.retriever, signal.SIGTERM)
        m.build, m.server.plugin_dir = build, build / "fsal_stub"
        m.start()
        same(read_both(m)[0], b"is here" * 1000)
    m.crawl()
    m.audit(complete=True)


@pytest.mark.allow_log(".*")
def test_newer_volume(source, new_migration, fresh_dir, formats, monkeypatch):
    """This release, installed again: everybody refuses it, and nothing is changed."""
    m = new_migration(source.url(), fresh_dir)
    m.server.allow = [".*"]
    with monkeypatch.context() as patch:
        patch.setattr("lib.migration.VOLUME_TOOL", formats / "crawler" / "postcopy-volume")
        m.init()
    conf = fresh_dir / ".postcopy" / "volume.conf"
    before = conf.read_bytes()
    m.build, m.server.plugin_dir = formats, formats / "fsal_stub"
    m.start()
    with m.client() as c:
        same(c.patient(60).read_file("here"), b"is here" * 1000)
    m.server.stop()
    m._end(m.retriever, signal.SIGTERM)
    for program in ("retriever/postcopy-retriever", "crawler/postcopy-crawler"):
        done = subprocess.run([str(BUILD / program), str(fresh_dir)], capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 4 and "made by a newer release of postcopy" in done.stderr, done
    done = m.postcopy("status", m.volume, check=False)
    assert done.returncode == 51 and "newer release of postcopy" in done.stderr, done
    m.server.plugin_dir = PLUGINS
    with export_refused(m.server, "cannot open the volume", "made by a newer release"):
        pass
    with share_refused(Samba(m.workdir / "smbd", str(fresh_dir), vfs=("stub",),
                             module_dir=MODULES, allow=[".*"]), "made by a newer release"):
        pass
    assert conf.read_bytes() == before
    m.build, m.server.plugin_dir = formats, formats / "fsal_stub"
    m.start()
    same(read_both(m), (b"is here" * 1000, b"has not come" * 1000))


def test_journal_and_state_of_later(source, new_migration, fresh_dir, moddir, monkeypatch):
    """Should only these be newer, they are refused all the same, and not called damaged."""
    later = other_release(moddir / "later", ["FORMAT=2", "STUB_STATE_VERSION=3"])
    m = new_migration(source.url(), fresh_dir)
    with monkeypatch.context() as patch:
        patch.setattr("lib.migration.VOLUME_TOOL", later / "crawler" / "postcopy-volume")
        m.init()
    state = fresh_dir / ".postcopy" / "state"
    for program, said in (("retriever/postcopy-retriever", "was made by a newer release"),
                          ("crawler/postcopy-crawler", "was made by a newer release")):
        done = subprocess.run([str(BUILD / program), str(fresh_dir)], capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 4 and ".postcopy/state: of a newer release" in done.stderr, done
        assert said in done.stderr
    state.write_bytes(state.read_bytes()[:4] + b"\1" + state.read_bytes()[5:])
    done = subprocess.run([str(BUILD / "retriever/postcopy-retriever"), str(fresh_dir)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 4 and "journal was made by a newer release" in done.stderr, done
    assert "damaged" not in done.stderr
    done = m.postcopy("parked", m.volume, check=False)
    assert done.returncode == 52 and "newer release" in done.stderr, done


# -- the SMB worker ------------------------------------------------------------------------

def test_worker_of_another_build(make, new_samba, tree, newer):
    """An update has put another program there, and the retriever has not been restarted."""
    (tree / "f").write_bytes(b"of the old server")
    m = make(new_samba("old-smb", str(tree), more="veto files = /.postcopy/").url()).init()
    conf, theirs = m.conf, newer / "retriever" / "postcopy-smb-worker"
    m.conf = conf.replace(str(WORKER), str(theirs))
    m.allow = [r"of another build"]
    m.start_retriever()
    wait_until(lambda: "of another build than this retriever" in
               m.status().get("source_trouble", ""), 60, "trouble")
    assert len(lines(m.log, "of another build")) <= 3, m.log.read_text()
    assert m.status()["state"] == "source-lost"
    m._end(m.retriever, signal.SIGTERM)
    m.conf = conf
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
