# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv4 as a source with Kerberos: a stock Ganesha that takes nothing else, and a KDC.

Who the principal is over there, Ganesha says: nfs/..., root/... and host/... are root."""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess

import pytest

from lib.ganesha import Export, Ganesha
from lib.kdc import HOST, REALM
from lib.programs import RETRIEVER
from lib.wait import wait_until

MIB = 1 << 20
US = "root/new.test"                # who we are
ALICE = "alice"                     # somebody whom the old server does not know
PRINCIPALS = (US, ALICE, "nfs/" + HOST)
pytestmark = pytest.mark.usefixtures("in_realm")


class Filer(Ganesha):
    """Exports by NFSv4 for which AUTH_SYS is too weak, unless sec= says another thing."""

    ALWAYS_ALLOWED = Ganesha.ALWAYS_ALLOWED + (
        r"gssd_", r"Could not map principal", r"nfs4_gss_princ_to_ids")

    def __init__(self, workdir, tree, realm, sec="krb5,krb5i,krb5p", **kw):
        keytab = realm.keytab("nfs/" + HOST, file="filer-%s.keytab" % workdir.name)
        self.KRB5 = 'Active_krb5 = true; PrincipalName = "nfs"; KeytabPath = "%s"; ' \
                    'CCacheDir = "%s";' % (keytab, workdir / "cc")
        (workdir / "cc").mkdir(parents=True, exist_ok=True)
        super().__init__(workdir, exports=[Export(str(tree), "/export", sec=sec)],
                         env=dict(realm.environ, KRB5RCACHENAME="none:"), **kw)

    def _ready(self):
        """MNT and a client of AUTH_SYS would be refused."""
        self._is_up()
        with socket.socket() as s:
            return s.connect_ex((self.host, self.port)) == 0

    def url(self, sec="krb5", version=4, path="/export"):
        return "nfs://%s%s?nfsport=%d&version=%s&sec=%s" % (HOST, path, self.port, version, sec)


@pytest.fixture(scope="module")
def top(moddir):
    top = moddir / "old-tree"
    (top / "down/below").mkdir(parents=True)
    rng = random.Random(5)
    for i in range(150):
        (top / "down" / ("f%d" % i)).write_bytes(rng.randbytes(100 + i))
    (top / "big").write_bytes(rng.randbytes(9 * MIB + 5))
    os.symlink("below/big", top / "down/link")
    (top / "secret").mkdir(mode=0o700)
    (top / "secret/s").write_bytes(b"root's own")
    (top / "secret/s").chmod(0o600)
    return top


@contextlib.contextmanager
def running(server):
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def old(moddir, realm, top, rpcshim):
    with running(Filer(moddir / "old", top, realm, shim=rpcshim)) as server:
        yield server


def lines(**settings):
    return "".join('%s = "%s"\n' % pair for pair in settings.items()) + "call_timeout = 5000\n"


def by_keytab(realm, *names, **more):
    return lines(nfs_kerberos_keytab=realm.keytab(*(names or (US,))), **more)


def right(m):
    answer = m.tool("verify", "--all", "--config", m.workdir / "postcopy.conf", m.volume,
                    check=False)
    assert answer["exit"] == 0 and answer["result"] == "right", answer


# -- what comes over -----------------------------------------------------------------------------


@pytest.mark.parametrize("sec, version", [("krb5", "4.0"), ("krb5i", "4.1"), ("krb5p", "4.2")])
def test_a_whole_tree(new_migration, fresh_dir, old, top, realm, sec, version):
    conf = by_keytab(realm) if sec != "krb5i" else \
        lines(nfs_kerberos_cache=realm.cache(US, file="cache-of-us"))
    m = new_migration(old.url(sec, version), fresh_dir, conf=conf).init().start()
    with m.client("v4.1") as c:
        assert c.read_file("big") == (top / "big").read_bytes()
        assert c.read_file("secret/s") == b"root's own"
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 60, "the end")
    m.audit(complete=True)
    right(m)
    m.stop()


def check(m):
    (m.workdir / "postcopy.conf").write_text(m.conf)
    return m.postcopy("init", "--check", "--json", "--source", m.url, "--config",
                      m.workdir / "postcopy.conf", m.volume, check=False)


def test_init_check_says_which(new_migration, fresh_dir, old, realm):
    for sec in ("krb5", "krb5i", "krb5p"):
        done = check(new_migration(old.url(sec), fresh_dir, conf=by_keytab(realm)))
        assert done.returncode == 3, (done.stdout, done.stderr)
        assert json.loads(done.stdout)["source_says"]["security"] == sec


# -- who is let in -------------------------------------------------------------------------------


def refused(new_migration, fresh_dir, url, conf):
    answer = new_migration(url, fresh_dir, conf=conf).init(check=False)
    assert answer["exit"] != 0 and "\n" not in answer["message"], answer
    return answer


def test_without_kerberos(new_migration, fresh_dir, old):
    answer = refused(new_migration, fresh_dir,
                     old.url("sys").replace(HOST, "127.0.0.1"), "call_timeout = 5000\n")
    assert answer["error"] == "source-denied" and "krb5" in answer["message"], answer


def test_what_the_export_does_not_have(new_migration, workdir, fresh_dir, realm, top, rpcshim):
    with running(Filer(workdir / "private", top, realm, sec="krb5p", shim=rpcshim)) as server:
        answer = refused(new_migration, fresh_dir, server.url("krb5i"), by_keytab(realm))
        assert answer["error"] == "source-denied" and "krb5p" in answer["message"], answer
        new_migration(server.url("krb5p"), fresh_dir, conf=by_keytab(realm)).init()


def test_nfsv3_is_refused(new_migration, fresh_dir, old, realm):
    answer = refused(new_migration, fresh_dir, old.url(version=3), by_keytab(realm))
    assert "add version=4" in answer["message"], answer


def test_settings(new_migration, workdir, fresh_dir, old, realm):
    keytab, cache = realm.keytab(US), realm.cache(US, file="a-cache")
    public = workdir / "public.keytab"
    public.write_bytes(keytab.read_bytes())
    public.chmod(0o640)
    for conf, why in (
            (lines(), "none is set"),
            (lines(nfs_kerberos_keytab=keytab, nfs_kerberos_cache=cache), "both are set"),
            (lines(nfs_kerberos_cache=cache, nfs_kerberos_principal="x"),
             "nfs_kerberos_principal is for nfs_kerberos_keytab"),
            (lines(nfs_kerberos_keytab=public), "can be read by others"),
            (lines(nfs_kerberos_keytab=workdir / "none"), "No such file"),
            (lines(nfs_kerberos_keytab=keytab, nfs_kerberos_principal="carol"), "no key of it"),
            (lines(nfs_kerberos_cache=workdir / "none"), "there is no ticket")):
        answer = refused(new_migration, fresh_dir, old.url(), conf)
        assert answer["error"] == "source-denied" and why in answer["message"], (conf, answer)
    answer = refused(new_migration, fresh_dir, old.url().replace(HOST, "127.0.0.1"),
                     by_keytab(realm))
    assert "the server's name in the URI" in answer["message"], answer


def test_somebody_who_is_not_root_there(new_migration, fresh_dir, old, realm):
    """A principal that the old server does not know may not read what is root's own."""
    answer = refused(new_migration, fresh_dir, old.url(), by_keytab(realm, ALICE))
    assert answer["error"] in ("source-denied", "root-squashed"), answer


def test_the_servers_key(new_migration, workdir, fresh_dir, quick, top, rpcshim):
    realm = quick(3600)
    conf = by_keytab(realm)
    with running(Filer(workdir / "another-key", top, realm, shim=rpcshim)) as server:
        answer = refused(new_migration, fresh_dir, server.url().replace(HOST, "0x7f.1"), conf)
        assert "the KDC knows no nfs/" in answer["message"], answer
        realm.new_key("nfs/" + HOST)
        answer = refused(new_migration, fresh_dir, server.url(), conf)
        assert answer["error"] == "source-denied" and "Kerberos ticket" in answer["message"], answer


# -- in the middle of it -------------------------------------------------------------------------


def begun(new_migration, fresh_dir, server, realm, conf=None, sec="krb5i", **kw):
    """A migration that is not over before it is let go."""
    m = new_migration(server.url(sec), fresh_dir, conf=conf or by_keytab(realm), **kw).init()
    return m.start()


def test_a_server_that_was_restarted(new_migration, workdir, fresh_dir, realm, top, rpcshim):
    """It has forgotten all contexts."""
    with running(Filer(workdir / "old", top, realm, shim=rpcshim)) as server:
        m = begun(new_migration, fresh_dir, server, realm)
        with m.client("v4.1", patience=60) as c:
            assert c.read_file("down/f1") == (top / "down/f1").read_bytes()
            server.kill9()
            server.start()
            assert c.read_file("big") == (top / "big").read_bytes()
        m.crawl()
        m.audit(complete=True)
        m.stop()


def test_tickets_end_and_others_come(new_migration, workdir, fresh_dir, quick, top, rpcshim):
    """Connections move on to newer ones; nobody notices."""
    realm = quick(20)
    with running(Filer(workdir / "old", top, realm, shim=rpcshim)) as server:
        m = begun(new_migration, fresh_dir, server, realm, sec="krb5p")
        first = len(realm.issued(US))
        wait_until(lambda: len(realm.issued(US)) >= first + 2, 200, "the second renewal")
        with m.client("v4.1", patience=60) as c:
            assert c.read_file("big") == (top / "big").read_bytes()
        m.crawl()
        m.audit(complete=True)
        m.stop()


def test_a_kdc_that_is_away(new_migration, workdir, fresh_dir, quick, top, rpcshim):
    """What has tickets goes on, also with new connections."""
    realm = quick(3600)
    with running(Filer(workdir / "old", top, realm, shim=rpcshim)) as server:
        m = begun(new_migration, fresh_dir, server, realm)
        realm.stop()
        server.kill9()
        server.start()
        m.crawl()
        m.audit(complete=True)
        m.stop()


def test_a_keytab_that_is_mended(new_migration, workdir, fresh_dir, quick, top, rpcshim):
    """A key that the KDC refuses is not tried again at once, and a newer one is."""
    realm = quick(3600)
    keytab = realm.keytab(US)
    with running(Filer(workdir / "old", top, realm, shim=rpcshim)) as server:
        m = new_migration(server.url(), fresh_dir, conf=lines(nfs_kerberos_keytab=keytab)).init()
        realm.new_key(US)
        m.start()
        status = wait_until(lambda: m.status().get("source_refused") and m.status(), 60,
                            "it is told")
        assert "refuses the key" in json.dumps(status), status
        failed = realm.failed()
        with m.client("v4.1", patience=120) as c:
            m.retriever.send_signal(signal.SIGHUP)      # at once, and once
            wait_until(lambda: realm.failed() > failed, 60, "another try")
            assert realm.failed() <= failed + 2
            realm.keytab(US)
            assert c.read_file("down/f2") == (top / "down/f2").read_bytes()
        m.crawl()
        m.audit(complete=True)
        m.stop()


def test_no_secret_is_logged(new_migration, fresh_dir, old, realm):
    m = new_migration(old.url("krb5p"), fresh_dir,
                      conf=by_keytab(realm) + "log_level = debug\n").init().start()
    m.crawl()
    text = m.log.read_text(errors="replace")
    done = subprocess.run(["klist", "-K", "-k", "-t", realm.keytab(US)], capture_output=True,
                          text=True, timeout=60, check=True)
    keys = [word.strip("()") for word in done.stdout.split() if word.startswith("(0x")]
    assert keys and not any(key[2:] in text for key in keys)
    m.stop()


def test_the_retriever_does_not_start(new_migration, fresh_dir, old, realm):
    m = new_migration(old.url(), fresh_dir, conf=by_keytab(realm)).init()
    path = m.workdir / "bad.conf"
    path.write_text("call_timeout = 5000\n")
    done = subprocess.run([RETRIEVER, "--config", path, m.volume], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "sec=krb5 needs one of" in done.stderr, done
    assert REALM not in done.stderr
