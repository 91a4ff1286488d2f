# SPDX-License-Identifier: GPL-3.0-or-later
"""SMB as a source with Kerberos: a stock smbd that takes nothing else, and a KDC."""
import contextlib
import json
import random
import signal
import socket
import subprocess
import threading
import time

import pytest

from lib import smbd
from lib.kdc import HOST, REALM
from lib.programs import RETRIEVER
from lib.smbsource import PATIENT, migrations, settings, with_worker
from lib.wait import wait_until
from test_smb_source import children, compare

MIB = 1 << 20

PRINCIPALS = ("root", "alice", "cifs/" + HOST)
pytestmark = [with_worker, pytest.mark.usefixtures("homes", "in_realm")]


class Filer(smbd.Samba):
    """NTLM is not accepted: what gets in has a ticket."""

    def __init__(self, workdir, tree, realm, **kw):
        keytab = realm.keytab("cifs/" + HOST, file="filer.keytab")
        conf = ("realm = %s\nkerberos method = dedicated keytab\n"
                "dedicated keytab file = FILE:%s\nntlm auth = disabled\n" % (REALM, keytab))
        super().__init__(workdir, tree, env=realm.environ, conf=conf + kw.pop("conf", ""), **kw)
        self.host = HOST

    def _ready(self):
        assert self.process.poll() is None, self.tail()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0


@contextlib.contextmanager
def running(server):
    with server.start():
        yield server


def fill(top, files, size):
    rng = random.Random(7)
    (top / "dir").mkdir(parents=True)
    for i in range(files):
        (top / ("file-%d" % i)).write_bytes(rng.randbytes(size))
        (top / "dir" / str(i)).write_bytes(b"x" * i)
    (top / "dir" / "root's").mkdir(mode=0o700)
    return top


@pytest.fixture(scope="module")
def tree(new_volume):
    return fill(new_volume("xfs", "512M").path / "tree", 6, 2 * MIB)


@pytest.fixture(scope="module")
def old(moddir, realm, tree):
    with running(Filer(moddir / "old", tree, realm)) as server:
        yield server


@pytest.fixture
def make(moddir, new_volume, rpcshim, homes):
    with migrations(moddir, new_volume, rpcshim) as begin:
        yield lambda url, *lines, **kw: begin(
            url, settings(**{"call_timeout": 5000, **dict(lines)}), size="1G", **kw)


def workers(m):
    return set(children(m.retriever.pid))


def finish(m, tree):
    assert m.crawler.wait(120) == 0, m.status()
    m.audit(complete=True)
    assert compare(tree, m.volume) > 10


# -- what comes over -------------------------------------------------------------------


@pytest.mark.parametrize("way", ["cache", "keytab"])
@pytest.mark.parametrize("wants", ["server signing = mandatory", "server smb encrypt = required"])
def test_a_whole_tree(make, moddir, realm, tree, way, wants):
    source = {"cache": ("smb_kerberos_cache", realm.cache("root", file="cache-" + wants[-8:])),
              "keytab": ("smb_kerberos_keytab", realm.keytab("root"))}[way]
    name = "%s-%s" % (way, wants.split()[-1])
    with running(Filer(moddir / name, tree, realm, conf=wants)) as server:
        m = make(server.url(), source, ("smb_encryption", "required")).init().start()
        with m.client("v3") as c:
            assert c.read_file("file-1") == (tree / "file-1").read_bytes()
        m.start_crawler()
        finish(m, tree)
        m.stop()


def check(m, *argv):
    (m.workdir / "postcopy.conf").write_text(m.conf)
    return m.postcopy("init", "--check", "--json", "--source", m.url, "--config",
                      m.workdir / "postcopy.conf", *argv, m.volume, check=False)


def test_init_check(make, old, realm):
    for line in (("smb_kerberos_cache", "FILE:%s" % realm.cache("root")),
                 ("smb_kerberos_keytab", realm.keytab("root"))):
        m = make(old.url(), line)
        done = check(m, "--names")
        assert done.returncode == 3 and json.loads(done.stdout)["walked"]["names"] == 14, done.stdout
        m.init()


def test_whose_keytab(make, old, realm):
    """The first key of a keytab, or the one that is named."""
    keytab = realm.keytab("alice", "root", file="two.keytab")
    for more, who in (((), "alice"), ((("smb_kerberos_principal", "root"),), "root"),
                      ((("smb_kerberos_principal", "alice@" + REALM),), "alice")):
        m = make(old.url(), ("smb_kerberos_keytab", keytab), *more)
        before = {name: len(realm.issued(name)) for name in ("alice", "root")}
        m.init()
        assert [name for name in before if len(realm.issued(name)) > before[name]] == [who]
        listed = make(old.url() + "/dir/root%27s", ("smb_kerberos_keytab", keytab), *more).init(
            check=False)
        assert listed.get("error") == (None if who == "root" else "source-denied"), listed


# -- what is refused --------------------------------------------------------------------


def test_settings(make, moddir, old, realm):
    keytab, cache = realm.keytab("root"), realm.cache("root")
    public = moddir / "public.keytab"
    public.write_bytes(keytab.read_bytes())
    public.chmod(0o640)
    open_cache = moddir / "open-cache"
    open_cache.write_bytes(cache.read_bytes())
    open_cache.chmod(0o644)
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    byname = ("smb_kerberos_keytab", keytab)
    for lines, why in (
            ([byname, ("smb_kerberos_cache", cache)], "set one of them"),
            ([byname, ("smb_credentials", login)], "set one of them"),
            ([("smb_kerberos_cache", cache), ("smb_credentials", login)], "set one of them"),
            ([], "set one of them"),
            ([("smb_kerberos_principal", "root"), ("smb_kerberos_cache", cache)],
             "smb_kerberos_principal is for smb_kerberos_keytab"),
            ([("smb_kerberos_keytab", public)], "can be read by others"),
            ([("smb_kerberos_keytab", moddir)], "is not a file"),
            ([("smb_kerberos_keytab", moddir / "none")], "No such file"),
            ([("smb_kerberos_keytab", login)], "it is no keytab"),
            ([byname, ("smb_kerberos_principal", "carol")], "no key of it"),
            ([("smb_kerberos_cache", open_cache)], "can be read by others"),
            ([("smb_kerberos_cache", moddir / "none")], "there is no ticket"),
            ([("smb_kerberos_cache", login)], "it is no credential cache"),
            # no NTLM with this server: the table above has not passed by it
            ([("smb_credentials", login)], "logon failure")):
        m = make(old.url(), *lines)
        answer = m.init(check=False)
        assert answer["error"] == "source-denied" and why in answer["message"], (lines, answer)
        assert "\n" not in answer["message"]


def test_the_retriever_does_not_start(make, old, realm):
    m = make(old.url(), ("smb_kerberos_keytab", realm.keytab("root"))).init()
    for line in (("smb_kerberos_cache", realm.cache("root")), ("smb_credentials", "/none")):
        path = m.workdir / "bad.conf"
        path.write_text(m.conf + '%s = "%s"\n' % line)
        done = subprocess.run([RETRIEVER, "--config", path, m.volume], capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 1 and done.stderr.count("set one of them") == 1, done


def test_a_server_without_kerberos(make, new_samba, tree, realm):
    """Nobody falls back to anything, and nobody is let in without a name."""
    lax = new_samba("lax", tree, conf="map to guest = bad user\nguest account = root",
                    more="guest ok = yes")
    lax.host = HOST
    for line in (("smb_kerberos_keytab", realm.keytab("root")),
                 ("smb_kerberos_cache", realm.cache("root"))):
        answer = make(lax.url(), line).init(check=False)
        assert answer["error"] == "source-denied" and "logon failure" in answer["message"], answer
    lax.host = "127.0.0.1"
    answer = make(lax.url(), line).init(check=False)
    assert "the server's name" in answer["message"], answer


def test_the_servers_key(make, moddir, quick, tree):
    realm = quick(3600)
    login = ("smb_kerberos_keytab", realm.keytab("root"))
    with running(Filer(moddir / "another-key", tree, realm)) as server:
        server.host = "0x7f.1"      # the same address by another name
        answer = make(server.url(), login).init(check=False)
        assert "the KDC knows no cifs/" in answer["message"], answer
        server.host = HOST
        realm.new_key("cifs/" + HOST)
        answer = make(server.url(), login).init(check=False)
        assert answer["error"] == "source-denied", answer
        assert "does not take the ticket for cifs/" + HOST in answer["message"], answer


# -- in the middle of it ----------------------------------------------------------------


@pytest.fixture
def slow(make, moddir, tmp_path):
    """A migration that is not over before it is let go: slow(realm, *settings), to be used
    with `with`; its filer and its data are m.filer and m.data."""

    @contextlib.contextmanager
    def begin(realm, *lines):
        data = fill(tmp_path / "data", 24, MIB)
        with running(Filer(moddir / realm.workdir.name.replace("kdc", "filer"), data,
                           realm)) as filer:
            m = make(filer.url(), *lines).init()
            m.conf += "throttle = 512\n"
            m.filer, m.data = filer, data
            m.start()
            m.start_crawler()
            wait_until(lambda: m.status()["bytes_done"] > MIB, 30, "some data")
            wait_until(lambda: len(workers(m)) == 4, 30, "all connections")
            yield m
            m.postcopy("throttle", m.volume, "0")
            finish(m, data)
            wait_until(lambda: "source_trouble" not in m.status(), 60, "no trouble")
            m.stop()

    return begin


def test_renewal(slow, quick):
    """Newer tickets in time: all connections move on, and none is lost by it."""
    realm = quick(16)
    with slow(realm, ("smb_kerberos_keytab", realm.keytab("root")),
              ("call_timeout", PATIENT)) as m:
        first = workers(m)
        wait_until(lambda: len(workers(m) - first) == 4, 60, "new workers")
        times = realm.issued("root")[-2:]
        assert 5 <= times[1] - times[0] < 16, times
        assert m.status()["source_reconnects"] == 0 and m.status()["source_connected"]


def test_a_cache_that_is_kept_filled(slow, quick):
    """By somebody else, with tickets that are over before the migration is."""
    realm = quick(8)
    cache, over = realm.cache("root"), threading.Event()

    def keep():
        while not over.wait(0.5):
            realm.cache("root")

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        with slow(realm, ("smb_kerberos_cache", cache)) as m:
            first, began = workers(m), time.monotonic()
            wait_until(lambda: not workers(m) & first and time.monotonic() > began + 8, 60,
                       "new workers")
    finally:
        over.set()
        keeper.join()


def test_kdc_away(slow, quick):
    """Until the server has forgotten us: nothing is parked, and it goes on by itself."""
    realm = quick(6)
    with slow(realm, ("smb_kerberos_keytab", realm.keytab("root"))) as m:
        realm.stop()
        wait_until(lambda: m.status()["state"] == "source-lost", 60, "the loss")
        # a ticket that ended just before may be what is said first, and the next try comes after
        # a minute
        wait_until(lambda: "no KDC of the realm answers" in m.status().get("source_trouble", ""),
                   180, "why")
        assert "no KDC of" in m.postcopy("status", m.volume).stdout
        realm.start()


def test_the_log_tells_in_time(make, quick, moddir, tree):
    """Before anything is lost by it, and what becomes of it."""
    realm = quick(16)
    with running(Filer(moddir / "told", tree, realm)) as server:
        m = make(server.url(), ("smb_kerberos_keytab", realm.keytab("root"))).init()
        m.start_retriever()
        wait_until(lambda: m.status()["source_connected"], 30, "connections")
        realm.stop()
        wait_until(lambda: "tickets cannot be renewed, and end in " in m.log.read_text(), 60,
                   "the news")
        realm.start()
        wait_until(lambda: "Kerberos tickets are renewed again" in m.log.read_text(), 60, "better news")
        m.stop()


def test_kdc_not_needed(slow, quick):
    """While the tickets are good, connections are made again without it."""
    realm = quick(3600)
    with slow(realm, ("smb_kerberos_keytab", realm.keytab("root"))) as m:
        realm.stop()
        m.filer.restart(crash=True)
        wait_until(lambda: m.status()["source_reconnects"] > 0, 60, "connections")


def test_wrong_key(make, old, realm, tree):
    keytab = realm.keytab("root", file="mine.keytab")
    m = make(old.url(), ("smb_kerberos_keytab", keytab)).init()
    realm.new_key("root")
    m.start()
    m.start_crawler()
    wait_until(lambda: "logon failure: the KDC refuses the key" in
               m.status().get("source_trouble", ""), 60, "why")
    status = m.status()
    assert status["state"] == "source-lost" and status["source_refused"], status
    assert "mend it" in status["source_trouble"] and str(keytab) in status["source_trouble"]
    failed, began = realm.failed(), time.monotonic()
    while (now := time.monotonic()) < began + 5:    # an account is locked after a few
        assert now > began + 50 or realm.failed() == failed
        time.sleep(0.2)
    m.retriever.send_signal(signal.SIGHUP)
    wait_until(lambda: realm.failed() > failed, 30, "another attempt")
    realm.keytab("root", file="mine.keytab")
    finish(m, tree)


def test_end_with_a_silent_kdc(make, old, realm):
    """Nobody waits for it."""
    m = make(old.url(), ("smb_kerberos_keytab", realm.keytab("root"))).init()
    realm.sigstop()
    try:
        m.start_retriever()
        wait_until(lambda: "no answer of a KDC yet" in m.status().get("source_trouble", ""), 60,
                   "why")
        m.retriever.send_signal(signal.SIGTERM)
        assert m.retriever.wait(10) == 0
    finally:
        realm.process.send_signal(signal.SIGCONT)
