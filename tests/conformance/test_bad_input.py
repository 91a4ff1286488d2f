# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input: one clear line, the documented exit status, and nothing is lost.

The exit statuses are those of postcopy-volume(8), which postcopy(8) passes on.
"""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

from lib.migration import SOURCE_VERSION, source_url
from lib.ports import free_port
from lib.programs import CRAWLER, POSTCOPY, RETRIEVER, VOLUME_TOOL, copy_program
from lib.volume import LoopVolume
from lib.wait import wait_until
from nfsclient import NfsError, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
RECORD = "trusted.postcopy"


def run(*argv, **kw):
    return subprocess.run([*map(str, argv)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300, **kw)


def said(done, status, *texts):
    """It ended with this status after exactly one line that says these things."""
    assert done.returncode == status, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("postcopy"), lines
    for text in texts:
        assert text in lines[0]


def init(url, target, *options, prefix=()):
    """`postcopy init`, which must not change its target."""
    before = sorted(os.listdir(target)) if os.path.isdir(target) else None
    url = source_url(url, "--join" in options)
    done = run(*prefix, POSTCOPY, "init", "--source", url, *options, target)
    if before is not None and done.returncode:
        assert sorted(os.listdir(target)) == before
    return done


@pytest.fixture(scope="module")
def fake():
    tree = Tree()
    for i in range(5):
        tree.file(tree.root, "f%d" % i, Pattern(3000 + i, seed=i + 1), mode=0o600)
    d = tree.mkdir(tree.root, "d")
    tree.file(d, "in", Pattern(100))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def migration(fake, fresh_dir, new_migration):
    return new_migration(fake.url(), fresh_dir)


@pytest.fixture
def listed(migration):
    """A running migration of which the names are there and nothing else."""
    migration.init().start()
    with migration.client() as c:
        c.names(), c.names("d")
        yield migration, c


@contextlib.contextmanager
def mounted(*argv):
    where = tempfile.mkdtemp(dir="/var/tmp")
    subprocess.run(["mount", *map(str, argv), where], check=True)
    try:
        yield pathlib.Path(where)
    finally:
        subprocess.run(["umount", where], check=True)
        os.rmdir(where)


# -- the source ---------------------------------------------------------------------

def test_unknown_host(fresh_dir):
    """In a network of its own: no question leaves this machine."""
    said(init("nfs://no-such-host.invalid/export", fresh_dir, prefix=("unshare", "-n")),
         12, "unknown host 'no-such-host.invalid'")


def test_connection_refused(fresh_dir):
    port = free_port()
    said(init("nfs://127.0.0.1/x?nfsport=%d&mountport=%d" % (port, port), fresh_dir),
         13, "127.0.0.1", "refused", "is the NFS server running")


def test_silent_host(fresh_dir):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said(init("nfs://127.0.0.1/x?nfsport=%d&mountport=%d" % (port, port), fresh_dir),
             15, "check the network")


@pytest.mark.parametrize("stock", [False, True])
def test_not_an_export(fake, fresh_dir, stock, old_server):
    server = old_server("/usr/include") if stock else fake
    said(init(server.url().replace("/export", "/nothing"), fresh_dir), 14,
         "showmount" if SOURCE_VERSION == "3" else "(pseudo) root")


@pytest.mark.parametrize("uri", ["smb://", "smb:///share", "nfs://", "nfs:///x", "/local", "nfs://h/x?a=b",
                                 "nfs://127.0.0.1/x?nfsport=99999"])
def test_bad_uri(fresh_dir, uri):
    said(init(uri, fresh_dir), 11, uri)


def test_squashed_root_fake(fresh_dir):
    tree = Tree()
    tree.file(tree.mkdir(tree.root, "home"), "secret", b"x", mode=0o600, uid=1000)
    with FakeServer(tree) as server:
        server.root_squash = True
        said(init(server.url(), fresh_dir), 18, "squashed", "/home/secret", "no_root_squash")


def test_squashed_root_stock(fresh_dir, old_server):
    (fresh_dir / "src").mkdir()
    (fresh_dir / "target").mkdir()
    (fresh_dir / "src" / "secret").write_bytes(b"x")
    os.chmod(fresh_dir / "src" / "secret", 0o600)
    server = old_server(fresh_dir / "src", squash="Root_Squash")
    said(init(server.url(), fresh_dir / "target"), 18, "squashed", "/secret", "no_root_squash")


@pytest.mark.parametrize("denied, private, status, text", [
    (1, 0, 18, "or an ACL denies it"), (2, 0, 18, "root is squashed on"),
    (2, 1, 18, "and 1 more, and on 1 objects"), (1, 3, 0, "by an ACL")])
def test_denied_to_root(fresh_dir, denied, private, status, text):
    """By an ACL, and met first: no proof, as long as others prove the contrary, and what was
    seen is said."""
    tree = Tree()
    tree.root.uid = 1000
    closed = [tree.file(tree.root, "denied%d" % i, b"x", mode=0o600, uid=1000)
              for i in range(denied)]
    below = tree.mkdir(tree.root, "d")
    for i in range(private):
        tree.file(below, "private%d" % i, b"x", mode=0o600, uid=0)
    with FakeServer(tree) as server:
        server.hook("ACCESS", hooks.only(lambda call: call.node in closed,
                                         hooks.status(errors.ACCES)))
        done = init(server.url(), fresh_dir)
    if status:
        said(done, status, "/denied0", "squashed", text)
    else:
        assert done.returncode == 0 and text in done.stdout and "/denied0" in done.stdout, done


def test_reserved_name(fresh_dir):
    tree = Tree()
    tree.mkdir(tree.root, ".postcopy")
    with FakeServer(tree) as server:
        said(init(server.url(), fresh_dir), 19, "'.postcopy'", "rename it there")


# -- the target -----------------------------------------------------------------------

def test_target_missing(fake, fresh_dir):
    said(init(fake.url(), fresh_dir / "no"), 30, "does not exist")


def test_target_is_a_file(fake, fresh_dir):
    (fresh_dir / "f").write_bytes(b"x")
    said(init(fake.url(), fresh_dir / "f"), 31, "is not a directory")


def test_target_not_empty(fake, fresh_dir):
    (fresh_dir / "mine").write_bytes(b"x")
    said(init(fake.url(), fresh_dir), 32, "is not empty", "'mine'")


def test_target_on_tmpfs(fake):
    with mounted("-t", "tmpfs", "none") as where:
        said(init(fake.url(), where), 37, "tmpfs", "XFS")


def test_target_without_xattrs(fake):
    with mounted("-t", "mqueue", "none") as where:
        said(init(fake.url(), where), 34, "no trusted extended attributes")


def test_target_without_handles(fake, fresh_dir):
    for name in ("lower", "upper", "work"):
        (fresh_dir / name).mkdir()
    with mounted("-t", "overlay", "none", "-o", "index=off,nfs_export=off,lowerdir=%s/lower,"
                 "upperdir=%s/upper,workdir=%s/work" % ((fresh_dir,) * 3)) as where:
        said(init(fake.url(), where), 35, "no file handles")


def test_target_read_only_or_full(fake, moddir):
    with LoopVolume(moddir, "ext4", "32M") as volume:
        shutil.rmtree(volume.path / "lost+found")
        said(init(fake.url(), volume.path), 40, "MiB free")
        volume.remount("ro")
        said(init(fake.url(), volume.path), 38, "read-only")


def test_source_inside_target(fresh_dir, old_server):
    (fresh_dir / "src").mkdir()
    (fresh_dir / "src" / "f").write_bytes(b"x")
    said(init(old_server(fresh_dir / "src").url(), fresh_dir), 39, "inside the target")


def test_target_inside_source(fresh_dir, old_server):
    (fresh_dir / "a" / "target").mkdir(parents=True)
    said(init(old_server(fresh_dir).url(), fresh_dir / "a" / "target"), 39, "inside the source")


def test_second_init(fake, migration):
    migration.init()
    conf = (migration.volume / ".postcopy/volume.conf").read_text()
    with FakeServer(Tree()) as other:
        said(init(other.url(), migration.volume), 33, "is a volume already")
    (migration.volume / "below").mkdir()
    said(init(fake.url(), migration.volume / "below"), 33, "lies inside one")
    assert (migration.volume / ".postcopy/volume.conf").read_text() == conf


@pytest.mark.parametrize("options", [("--socket", "relative"), ("--control", "/" + "x" * 108),
                                     ("--socket", "/run/same", "--control", "/run/same")])
def test_socket_paths(fake, fresh_dir, options):
    said(init(fake.url(), fresh_dir, *options), 42, options[0])


# -- the caller -----------------------------------------------------------------------

@pytest.mark.parametrize("argv, status", [
    ((POSTCOPY, "init", "--source", "nfs://127.0.0.1/x"), 10), ((POSTCOPY, "status"), 10),
    ((POSTCOPY, "finish"), 10), ((RETRIEVER,), 1), ((CRAWLER,), 1)])
def test_not_root(fresh_dir, argv, status):
    os.chmod(fresh_dir, 0o755)
    # a copy: the tree may stand in /root, where nobody cannot even execute it
    program = copy_program(argv[0], pathlib.Path(fresh_dir).parent)
    os.chmod(program, 0o755)
    said(run(*NOBODY, program, *argv[1:], fresh_dir), status, "must be run as root")


@pytest.mark.parametrize("argv, text", [
    ((POSTCOPY,), "usage"), ((POSTCOPY, "frobnicate"), "frobnicate"),
    ((POSTCOPY, "init", "/x"), "--source"), ((POSTCOPY, "throttle", "/x", "fast"), "'fast'"),
    ((POSTCOPY, "retry", "--errors", "--all", "/x"), "not allowed"),
    ((VOLUME_TOOL, "frobnicate"), "frobnicate"), ((VOLUME_TOOL, "scan", "/a", "/b"), "one DIR"),
    ((RETRIEVER,), "usage"), ((RETRIEVER, "--frob", "/x"), "--frob"),
    ((CRAWLER,), "no VOLUME"), ((CRAWLER, "--workers", "0", "/x"), "'0'"),
    ((CRAWLER, "--workers", "many", "/x"), "'many'")])
def test_wrong_usage(argv, text):
    done = run(*argv)
    assert done.returncode == 2 and text in done.stderr, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("argv, status", [
    ((POSTCOPY, "status"), 50), ((POSTCOPY, "scan"), 50), ((POSTCOPY, "crawl"), 50),
    ((POSTCOPY, "finish"), 50), ((RETRIEVER,), 4), ((CRAWLER,), 4)])
def test_not_a_volume(fresh_dir, argv, status):
    said(run(*argv, fresh_dir), status, "volume")


@pytest.mark.parametrize("text, say", [
    ("conections = 4", "conections"), ("connections = 0", "between 1 and 16"),
    ("connections = many", "connections"), ("block_size = 1", "between 65536"),
    ("give_up_after = -1", "give_up_after"), ('log_level = "loud"', "loud"),
    ("connections =", "line 1: connections: there is no value"),
    ("throttle = 99999999999", "throttle"), (None, "cannot read")])
def test_configuration_errors(fresh_dir, text, say):
    conf = fresh_dir / "postcopy.conf"
    if text is not None:
        conf.write_text(text + "\n")
    said(run(RETRIEVER, "--config", conf, fresh_dir), 2, str(conf), say)


# -- what is on the disk ----------------------------------------------------------------

CONF_DAMAGES = {
    "empty": lambda text: b"", "junk": lambda text: text + b"junk\n",
    "half": lambda text: text[:len(text) // 2], "cut": lambda text: text[:-1],
    "nul": lambda text: text.replace(b"uuid=", b"uuid=\0"), "long": lambda text: b"x" * 9000,
    "newer": lambda text: text.replace(b"format=2", b"format=99"),
}


@pytest.mark.parametrize("damage", CONF_DAMAGES)
def test_damaged_volume_conf(migration, damage):
    migration.init()
    conf = migration.volume / ".postcopy/volume.conf"
    good = conf.read_bytes()
    conf.write_bytes(CONF_DAMAGES[damage](good))
    newer = "newer release" if damage == "newer" else ""
    said(run(POSTCOPY, "status", migration.volume), 51, "cannot open the volume", newer)
    for program in (RETRIEVER, CRAWLER):
        done = run(program, migration.volume)
        assert done.returncode == (4 if newer else 1), done
        assert "volume.conf line" in done.stderr, done
        assert newer in done.stderr and len(done.stderr.splitlines()) <= 2, done
    said(init(migration.url, migration.volume), 33)
    conf.write_bytes(good)
    assert migration.status()["pending"] == 1


def test_damaged_volume_conf_refuses_the_export(migration, monkeypatch):
    """Else clients would see holes for data."""
    migration.init()
    conf = migration.volume / ".postcopy/volume.conf"
    conf.write_bytes(conf.read_bytes()[:20])
    server, why = migration.server, "cannot open the volume: .postcopy is damaged"
    server.allow, ready = [".*"], server._ready
    monkeypatch.setattr(server, "_ready", lambda: why in server.log_text())
    server.start(timeout=60)
    with pytest.raises((TimeoutError, AssertionError)):
        wait_until(ready, 2)
    server.kill9()


def test_second_retriever(migration):
    migration.init().start_retriever()
    said(run(RETRIEVER, migration.volume), 1, "another retriever is serving")
    wait_until(lambda: migration.status()["state"] == "migrating", what="a connection")
    migration.crawl()
    migration.audit(complete=True)


DAMAGES = {
    "empty": lambda data: b"", "gone": lambda data: None, "one-page": lambda data: data[:4096],
    "half": lambda data: data[:len(data) // 8192 * 4096], "noise": lambda data: os.urandom(len(data)),
    "zeros": lambda data: bytes(len(data)), "no-meta": lambda data: bytes(8192) + data[8192:],
    "no-tree": lambda data: data[:8192] + os.urandom(len(data) - 8192),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_journal(listed, damage):
    """All refuse, nothing is 'repaired', clients keep what is migrated."""
    m, c = listed
    c.read_file("f0")
    m.drain()
    m.postcopy("status", m.volume)
    m.retriever.terminate()
    assert m.retriever.wait(30) == 0
    path = m.volume / ".postcopy/journal/data.mdb"
    good = path.read_bytes()
    bad = DAMAGES[damage](good)
    path.unlink() if bad is None else path.write_bytes(bad)
    done = run(RETRIEVER, m.volume)
    assert done.returncode == 1 and "journal" in done.stderr and "damaged" in done.stderr, done
    said(run(POSTCOPY, "status", m.volume), 52, "pending journal")
    said(run(POSTCOPY, "scan", m.volume), 52, "pending journal")
    done = run(CRAWLER, m.volume)
    assert done.returncode == 1 and "pending journal" in done.stderr, done
    assert (path.read_bytes() if path.exists() else None) == bad
    assert c.read_file("f0") == Pattern(3000, seed=1).read(0, 3000)
    path.write_bytes(good)
    m.start_retriever()
    m.crawl()
    m.audit(complete=True)
    assert c.read_file("f4") == Pattern(3004, seed=5).read(0, 3004)


def spoiled(record):
    return bytes([*record[:40], record[40] ^ 1, *record[41:]])


def parked(m):
    return m.tool("parked", m.volume)["parked"]


@pytest.mark.parametrize("name", ["f2", "d"])
def test_damaged_record(migration, name):
    """It is parked, the others go on; when it is repaired, `retry` brings it."""
    m = migration
    m.server.allow = ["converted to NFS3ERR_IO"]
    m.init().start()
    with m.client() as c:
        assert len(c.names()) == 6
        good = os.getxattr(m.volume / name, RECORD)
        os.setxattr(m.volume / name, RECORD, spoiled(good))
        with pytest.raises(NfsError) as info:
            c.names(name) if name == "d" else c.read_file(name)
        assert info.value.status == errors.IO
        m.crawl()
        status, scan = m.status(), m.tool("scan", m.volume, check=False)
        assert (status["parked"], status["pending"], scan["corrupt"]) == (1, 0, 1)
        assert scan["exit"] == 3 and not scan["clean"]
        assert "stub record" in parked(m)[0]["reason"] and parked(m)[0]["path"] == name
        assert c.read_file("f1") == Pattern(3001, seed=2).read(0, 3001)
        os.setxattr(m.volume / name, RECORD, good)
        assert "1 objects" in m.postcopy("retry", m.volume).stdout
        m.crawl()
        m.audit(complete=True)
        assert c.read_file("f2") == Pattern(3002, seed=3).read(0, 3002)
        assert c.read_file("d/in") == Pattern(100).read(0, 100)


def test_record_of_another_file(listed):
    """Nobody knows what the file misses: it is neither a stub nor whole, until the
    administrator says so."""
    m, c = listed
    m.server.allow = ["converted to NFS3ERR_IO"]
    record = os.getxattr(m.volume / "f3", RECORD)
    (m.volume / "mine").write_bytes(b"whole")
    os.setxattr(m.volume / "mine", RECORD, record)
    assert m.tool("scan", m.volume, check=False)["foreign"] == 1
    with pytest.raises(NfsError) as info:
        c.read_file("mine")
    assert info.value.status == errors.IO
    m.crawl()
    wait_until(lambda: m.status()["state"] == "blocked", what="the check before the end")
    os.removexattr(m.volume / "mine", RECORD)
    wait_until(lambda: m.status()["state"] == "complete", what="the end")
    assert c.read_file("mine") == b"whole"
