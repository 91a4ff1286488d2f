# SPDX-License-Identifier: GPL-3.0-or-later
"""An old SMB server that does not let us in: it is asked seldom, whatever asks, so that
no account gets locked; status says what is to be done; and it goes on when that is done."""
import signal
import time

import pytest

from lib import smbd
from lib.smbgate import SmbGate
from lib.smbsource import migrations, settings, with_worker
from lib.wait import wait_until

pytestmark = with_worker

AUDIT = "log level = 1 auth_audit:2"
OFTEN = 60              # s between the first two attempts at least; more between later ones


def login_text(password=smbd.PASSWORD, user="root"):
    return "username = %s\npassword = %s\n" % (user, password)


@pytest.fixture(scope="module")
def old(new_samba, tree):
    for i in range(40):
        (tree / ("f%d" % i)).write_bytes(b"x" * i)
    server = new_samba("old", tree, conf=AUDIT)
    for policy, value in (("bad lockout attempt", 3), ("lockout duration", 600)):
        server.tool("pdbedit", "-P", policy, "-C", str(value))
    return server


@pytest.fixture
def gate(old):
    with SmbGate(old) as gate:
        yield gate


@pytest.fixture
def login(tmp_path, old):
    old.tool("pdbedit", "-z", "-u", "root")         # nothing counts that was before

    path = tmp_path / "login"
    path.touch(0o600)
    path.write_text(login_text())
    return path


@pytest.fixture
def make(moddir, new_volume, rpcshim, login):
    with migrations(moddir, new_volume, rpcshim) as begin:
        yield lambda url, **kw: begin(url, settings(smb_credentials=login, call_timeout=5000),
                                      size="1G", **kw)


class Refusals:
    """Failed logons that a server has logged since."""

    def __init__(self, server):
        self.server, self.before = server, 0
        self.before = self.count()

    def count(self):
        lines = "".join(p.read_text(errors="replace") for p in self.server.logs)
        return sum("status [NT_STATUS_" in line and "status [NT_STATUS_OK]" not in line
                   for line in lines.splitlines()) - self.before

    def stay(self, n, seconds=6):
        """Not more than @n of them, but for those that come after OFTEN seconds."""
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            assert self.count() <= n + (now - began) // OFTEN
            time.sleep(0.2)
        assert self.count() >= n


def refused(m):
    status = m.status()
    return status if status.get("source_refused") else None


def test_a_wrong_password(make, old, tree, login):
    """Once a minute at most, of however many connections; the account is not locked by it,
    and the file is read again when it is mended."""
    m = make(old.url()).init()
    login.write_text(login_text("s3cret"))
    seen = Refusals(old)
    m.start_retriever()
    m.start_crawler()
    status = wait_until(lambda: refused(m), 30, "the refusal to be told")
    assert status["state"] == "source-lost" and 0 < status["source_next_try_s"] <= OFTEN, status
    for part in ("logon failure", "root", str(login), "next try in "):
        assert part in status["source_trouble"], status
    assert "s3cret" not in status["source_trouble"] + m.log.read_text()
    assert str(login) in m.postcopy("status", m.volume).stdout.replace("\n", "")
    seen.stay(1)
    login.write_text("# the same again\n" + login_text("s3cret"))
    seen.stay(1, 3)

    m.retriever.send_signal(signal.SIGHUP)      # "try it now"
    m.crawler.send_signal(signal.SIGHUP)
    wait_until(lambda: seen.count() == 2, 30, "another attempt")
    seen.stay(2, 3)

    login.write_text(login_text())
    assert m.crawler.wait(60) == 0
    assert seen.count() == 2 and m.retriever.poll() is None
    m.audit(complete=True)
    status = m.status()
    assert "source_trouble" not in status and not status["source_refused"], status
    assert "source %s: " % old.host in m.log.read_text()


def test_a_password_that_was_changed(make, old, login, gate):
    """All connections are lost at once: one of them tries it."""
    m = make(gate.url()).init()
    m.start_retriever()
    # a logon that is under way would be refused, and cut off before it is answered
    wait_until(lambda: old.tool("smbstatus", "--shares").stdout.count("\nshare ") >= 4, 60,
               "four that are logged on")
    old.tool("pdbedit", "-a", "-t", "-u", "root", "-U", "500", text="other-1\nother-1\n")
    try:
        seen = Refusals(old)
        gate.cut()
        wait_until(lambda: refused(m), 60, "the refusal to be told")
        seen.stay(1)
        login.write_text(login_text("other-1"))
        wait_until(lambda: m.status()["source_connected"], 30, "a connection")
        assert seen.count() == 1
    finally:
        old.tool("pdbedit", "-a", "-t", "-u", "root", "-U", "500",
                 text="%s\n%s\n" % (smbd.PASSWORD, smbd.PASSWORD))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("user, password, why", [
    ("root", "s3cret", "wrong password, or no such user"),
    ("bob", smbd.PASSWORD, "the account is disabled"),
    ("whoever", "x", "whoever")])
def test_init_asks_once(make, old, login, user, password, why, check):
    old.tool("pdbedit", "-u", "bob", "-c", "[D]")
    login.write_text(login_text(password, user))
    m, seen = make(old.url()), Refusals(old)
    if check:
        (m.workdir / "postcopy.conf").write_text(m.conf)
        done = m.postcopy("init", "--check", "--names", "--source", m.url, "--config",
                          m.workdir / "postcopy.conf", m.volume, check=False)
        assert done.returncode == 1
        message = done.stderr.replace("\n", " ")
    else:
        message = m.init(check=False)["message"]
    assert "logon failure" in message and why in message, message
    assert password not in message or len(password) < 2
    assert seen.count() == 1
