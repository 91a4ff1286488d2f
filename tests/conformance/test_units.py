# SPDX-License-Identifier: GPL-3.0-or-later
"""What is installed, under a systemd that is PID 1 of a machine of its own (lib/machine.py): the
units start in their order, come back after every death, and serve nothing that is not mounted."""
import contextlib
import json
import os
import re
import shlex
import signal
import tempfile

import pytest

from lib.ganesha import CORE
from lib.kdc import HOST, REALM
from lib.machine import Machine
from lib.smbd import OWN_CONF
from lib.smbsource import IDMAP, with_worker
from lib.volume import LoopVolume
from lib.wait import wait_until
from nfsclient import NfsError, RpcError, connect, errors, hooks
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

RETRIEVER, CRAWLER = "postcopy-retriever@srv-data.service", "postcopy-crawler@srv-data.service"
GANESHA, SMBD = "nfs-ganesha.service", "smbd.service"
UNITS = "/usr/lib/systemd/system"
FILES = 40
# what systemd-analyze security calls the exposure, times 10: docs/decisions/0052
EXPOSURE = {"retriever": 32, "crawler": 12}
GANESHA_MORE = """
NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; %s }
NFSV4 { Graceless = true; RecoveryBackend = fs; }
NFS_KRB5 { Active_krb5 = false; }
""" % CORE
CONF = "max_tries = 1\n"                 # what fails is parked at once
# The machine's smbd is an old server, too.
OLD_SHARE = "[old]\npath = /srv/old\nread only = yes\n"
MOUNT = "[Unit]\nBefore=local-fs.target\n[Mount]\nWhat=%s\nWhere=%s\nType=xfs\n" \
        "[Install]\nWantedBy=local-fs.target\n"
# The retriever takes its time, and a server that begins before it listens fails.
SLOW_START = "[Service]\nExecStart=\n" \
             "ExecStart=/bin/sh -c 'sleep 1; exec /usr/sbin/postcopy-retriever %f'\n"
LISTENS = "[Service]\nExecStartPre=/usr/bin/test -S %s\n" \
          "ExecStartPre=/usr/bin/mountpoint -q /srv/data\n"


def blocks_merged(answer):
    """The blocks that init prints, and what this network needs: each block once."""
    text = answer["global_block"]
    for name, more in re.findall(r"^(\w+) \{(.*)\}$", GANESHA_MORE, re.MULTILINE):
        if name + " {" in text:
            text = text.replace(name + " {", name + " {" + more.replace("; ", ";\n"), 1)
        else:
            text += "%s {%s}\n" % (name, more)
    return answer["export_block"] + text


class Stack:
    """A machine with a volume, its daemons and servers, and an old server in its network."""

    def __init__(self, workdir, device, other):
        self.m = Machine(workdir)
        for at, disk in ("data", device), ("smb", other):
            self.m.file("/etc/systemd/system/srv-%s.mount" % at, MOUNT % (disk, "/srv/" + at))
            (self.m.upper / "srv" / at).mkdir(parents=True)
        self.m.file("/etc/postcopy/postcopy.conf", CONF)
        tree = Tree()
        for i in range(FILES):
            tree.file(tree.root, "f%d" % i, Pattern(1000 + i, seed=i + 1))
        bad = tree.file(tree.root, "bad", Pattern(1000, seed=99))
        self.fake = FakeServer(tree)
        self.fake.hook("READ", hooks.only(lambda call: call.node is bad,
                                          hooks.status(errors.IO)))

    def boot(self):
        self.m.boot()
        with self.m.network():
            self.fake.start()

    def reboot(self):
        self.fake.stop()
        self.m.off()
        self.boot()

    def init(self):
        self.m.systemctl("enable", "--now", "srv-data.mount")
        answer = json.loads(self.m.run("postcopy", "init", "--json", "--source", self.fake.url(),
                                       "/srv/data").stdout)
        self.m.file("/etc/ganesha/ganesha.conf", blocks_merged(answer))
        self.m.file("/etc/samba/smb.conf", OWN_CONF + OLD_SHARE + answer["share_block"])
        return answer

    def serves(self, name):
        """An NFS client reads it."""
        number = int(name[1:])

        def read():
            with self.m.network(), contextlib.closing(
                    connect("v4.1", "127.0.0.1", 2049, export="/export")) as c:
                return c.read(name, 0, 5000)[0]

        got = wait_until(lambda: suppressed(read), 120, "an answer of %s" % name)
        assert got == Pattern(1000 + number, seed=number + 1).read(0, 1000 + number)

    def is_active(self, unit):
        return self.m.show(unit, "ActiveState") == "active"

    def wait_active(self, *units):
        for unit in units:
            try:
                wait_until(lambda: self.is_active(unit), 60, unit)
            except TimeoutError as e:
                status = self.m.systemctl("status", unit, check=False)
                raise AssertionError("%s\n%s\n%s" % (
                    e, status, self.m.journal("-n", "40"))) from None


def suppressed(function):
    """What it returns, None if it fails as a server does that is not up yet."""
    with contextlib.suppress(OSError, RpcError, NfsError):
        return function()


@pytest.fixture(scope="module")
def stack(workdir):
    home = tempfile.mkdtemp(prefix="machine-", dir=workdir)
    with LoopVolume(workdir, "xfs") as vol, LoopVolume(workdir, "xfs") as other:
        vol.umount()
        other.umount()
        s = Stack(home + "/m", vol.device, other.device)
        with s.m:
            s.boot()
            s.answer = s.init()
            yield s
            s.fake.stop()


def test_the_units_are_right(stack):
    """As systemd reads them; and what they could do if they were taken over has a limit."""
    done = stack.m.run("systemd-analyze", "verify", "--man=no", RETRIEVER, CRAWLER)
    assert done.stdout + done.stderr == ""
    for name, most in EXPOSURE.items():
        done = stack.m.run("systemd-analyze", "security", "--no-pager", "--offline=yes",
                           "--threshold=%d" % most, "%s/postcopy-%s@.service" % (UNITS, name),
                           check=False)
        assert done.returncode == 0, done.stdout
    # directories by their handles: the rest of where clients are at work (job_heat.c)
    assert "open_by_handle_at" in stack.m.show(CRAWLER, "SystemCallFilter").split()
    assert "cap_fowner" in stack.m.show(CRAWLER, "CapabilityBoundingSet").split()


def test_a_boot_has_its_order(stack):
    """What 'postcopy init' prints is done, and the machine started again."""
    m = stack.m
    assert stack.answer["units"] == [RETRIEVER, CRAWLER]
    m.systemctl("enable", *stack.answer["units"], GANESHA, SMBD)
    m.file("/etc/systemd/system/%s.d/slow.conf" % RETRIEVER, SLOW_START)
    for server in GANESHA, SMBD:
        m.file("/etc/systemd/system/%s.d/listens.conf" % server,
               LISTENS % stack.answer["socket"])
    stack.reboot()
    stack.wait_active(RETRIEVER, GANESHA, SMBD, CRAWLER)
    m.run("rm", "-r", "/etc/systemd/system/%s.d" % RETRIEVER)
    m.systemctl("daemon-reload")
    stack.serves("f0")
    m.run("sh", "-c", "printf 'x\\nx\\n' | smbpasswd -a -s root")
    listed = m.run("smbclient", "-U", "root%x", "//127.0.0.1/data", "-c", "ls f1").stdout
    assert "1001" in listed, listed


def test_a_test_is_in_its_own_network_again(stack):
    own = os.readlink("/proc/thread-self/ns/net")
    with stack.m.network():
        assert os.readlink("/proc/thread-self/ns/net") != own
    assert os.readlink("/proc/thread-self/ns/net") == own


@with_worker
def test_the_smb_worker_has_what_it_needs(stack):
    """In the sandbox of its retriever: an old server's share comes over, all of it."""
    m = stack.m
    m.run("sh", "-c", "mkdir /srv/old && cd /srv/old && mkdir d && "
          "for i in 1 2 3 4 5; do echo $i > f$i; done && head -c 300000 /dev/urandom > d/big")
    m.file("/etc/postcopy/login", "username = root\npassword = x\n", 0o600)
    m.file("/etc/postcopy/idmap", IDMAP)
    m.file("/etc/postcopy/postcopy.conf", CONF + "smb_credentials = /etc/postcopy/login\n")
    m.systemctl("start", "srv-smb.mount")
    stack.wait_active(SMBD)
    answer = json.loads(m.run("postcopy", "init", "--json", "--source", "smb://127.0.0.1/old",
                              "/srv/smb").stdout)
    m.systemctl("start", *answer["units"])

    def complete():
        return m.run("postcopy", "status", "--json", "/srv/smb").stdout

    wait_until(lambda: '"complete"' in complete(), 120, "the end of it (%s)" % complete())
    m.run("postcopy", "finish", "/srv/smb")
    m.run("diff", "-r", "/srv/old", "/srv/smb")
    m.systemctl("stop", *answer["units"], "srv-smb.mount")


KDC_CONF = """[kdcdefaults]
kdc_listen = 127.0.0.1:88
kdc_tcp_listen = 127.0.0.1:88
[realms]
%(realm)s = {
    database_name = /var/lib/kdc/principal
    key_stash_file = /var/lib/kdc/stash
    disable_pac = true
}
"""
KRB5_CONF = """[libdefaults]
default_realm = %(realm)s
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
%(realm)s = {
    kdc = 127.0.0.1:88
}
[domain_realm]
%(host)s = %(realm)s
"""
KDC_UNIT = """[Service]
Environment=KRB5_KDC_PROFILE=/var/lib/kdc/kdc.conf
ExecStart=/usr/sbin/krb5kdc -n -r %(realm)s
"""
ONLY_TICKETS = """[global]
realm = %(realm)s
kerberos method = dedicated keytab
dedicated keytab file = FILE:/etc/samba/keytab
ntlm auth = disabled
"""


@pytest.fixture
def realm(stack):
    """A KDC in the machine, whose smbd takes nothing but its tickets; root's key for us."""
    m, names = stack.m, {"realm": REALM, "host": HOST}
    m.file("/etc/krb5.conf", KRB5_CONF % names)
    m.file("/var/lib/kdc/kdc.conf", KDC_CONF % names)
    m.file("/etc/systemd/system/kdc.service", KDC_UNIT % names)
    before = m.run("cat", "/etc/samba/smb.conf").stdout
    m.file("/etc/samba/smb.conf", before.replace("[global]\n", ONLY_TICKETS % names))
    kadmin = ["env", "KRB5_KDC_PROFILE=/var/lib/kdc/kdc.conf"]
    m.run(*kadmin, "kdb5_util", "create", "-r", REALM, "-s", "-P", "master", "-W")
    for who, keytab in (("root", "/etc/postcopy/keytab"), ("cifs/" + HOST, "/etc/samba/keytab")):
        m.run(*kadmin, "kadmin.local", "-q", "addprinc -randkey +requires_preauth " + who)
        m.run(*kadmin, "kadmin.local", "-q", "ktadd -k %s -norandkey %s" % (keytab, who))
    m.systemctl("daemon-reload")
    m.systemctl("start", "kdc")
    m.systemctl("restart", "smbd")
    yield m
    m.file("/etc/samba/smb.conf", before)
    m.systemctl("restart", "smbd")
    m.systemctl("stop", "kdc")


@with_worker
def test_the_smb_worker_has_tickets(stack, realm):
    """In the same sandbox, from a keytab; the old server takes nothing else."""
    m = realm
    m.run("sh", "-c", "mkdir -p /srv/old/of-kerberos && echo mine > /srv/old/of-kerberos/f")
    m.file("/etc/postcopy/postcopy.conf", CONF + "smb_kerberos_keytab = /etc/postcopy/keytab\n")
    m.systemctl("start", "srv-smb.mount")
    m.run("mkdir", "/srv/smb/tickets")
    answer = json.loads(m.run("postcopy", "init", "--json", "--source", "smb://%s/old" % HOST,
                              "/srv/smb/tickets").stdout)
    m.systemctl("start", *answer["units"])

    def complete():
        return m.run("postcopy", "status", "--json", "/srv/smb/tickets").stdout

    wait_until(lambda: '"complete"' in complete(), 120, "the end of it (%s)" % complete())
    assert "for krbtgt/" in m.journal("-u", "kdc") and "cifs/" + HOST in m.journal("-u", "kdc")
    m.run("postcopy", "finish", "/srv/smb/tickets")
    m.run("diff", "-r", "/srv/old", "/srv/smb/tickets")
    m.systemctl("stop", *answer["units"], "srv-smb.mount")


def test_what_the_journal_has(stack):
    """An object that fails: found by its name."""
    def said():
        return stack.m.journal("VOLUME=/srv/data", "OBJECT=bad", "REASON=read: Input/output error",
                               "PRIORITY=4", "SYSLOG_IDENTIFIER=postcopy-retriever")

    assert '"bad": read: Input/output error; parked' in wait_until(said, 120, "a line about it")


@pytest.mark.parametrize("unit", [RETRIEVER, CRAWLER])
def test_one_that_is_killed_comes_back(stack, unit):
    before = stack.m.show(unit, "MainPID")
    stack.m.kill(unit)
    wait_until(lambda: stack.m.show(unit, "MainPID") not in ("0", before), 60, "another " + unit)
    stack.wait_active(unit)
    stack.serves("f%d" % (2 if unit == RETRIEVER else 3))


@pytest.mark.parametrize("unit", [RETRIEVER, CRAWLER])
def test_one_that_hangs_is_ended_and_comes_back(stack, unit):
    stack.m.file("/run/systemd/system/%s.d/impatient.conf" % unit,
                 "[Service]\nWatchdogSec=3\nRestartSec=1\n")
    stack.m.systemctl("daemon-reload")
    stack.m.systemctl("restart", unit)
    before = stack.m.show(unit, "MainPID")
    stack.m.kill(unit, signal.SIGSTOP)
    wait_until(lambda: stack.m.show(unit, "MainPID") not in ("0", before), 120, "another " + unit)
    stack.wait_active(unit)
    assert "Watchdog timeout" in stack.m.journal("-u", unit)
    stack.serves("f4")
    stack.m.run("rm", "-r", "/run/systemd/system/%s.d" % unit)
    stack.m.systemctl("daemon-reload")


def test_reload_and_stop(stack):
    m = stack.m
    m.systemctl("reload", RETRIEVER)
    assert stack.is_active(RETRIEVER)
    assert "reading credentials again" in m.journal("-u", RETRIEVER)
    m.systemctl("stop", RETRIEVER)
    assert m.show(RETRIEVER, "Result") == "success"
    assert m.show(RETRIEVER, "ActiveState") == "inactive"
    m.systemctl("start", RETRIEVER)
    wait_until(lambda: "objects to go" in m.show(RETRIEVER, "StatusText"), 60, "a status")
    stack.serves("f5")


def test_a_disk_that_is_not_mounted(stack):
    """Neither daemon begins, and the directory below the mount point is not served."""
    m = stack.m
    m.systemctl("disable", "srv-data.mount")
    m.run("sh", "-c", "rm -f /etc/systemd/system/srv-data.mount.wants/*")
    stack.fake.stop()
    m.off()
    hidden = m.upper / "etc/systemd/system/srv-data.mount"
    text = hidden.read_text()
    hidden.unlink()                         # nobody knows that there is one to be mounted
    try:
        stack.boot()
        wait_until(lambda: m.show(RETRIEVER, "ActiveState") == "failed", 60, "a failed retriever")
        assert m.show(RETRIEVER, "ExecMainStatus") == "4"
        assert "is its file system not mounted?" in m.journal("-u", RETRIEVER)
        with pytest.raises((NfsError, OSError, RpcError)), m.network():
            connect("v4.1", "127.0.0.1", 2049, export="/export").read("f0", 0, 10)
        assert not list((m.upper / "srv/data").iterdir())
    finally:
        stack.fake.stop()
        m.off()
        hidden.write_text(text)
        stack.boot()
    m.systemctl("enable", "--now", "srv-data.mount")
    m.systemctl("restart", RETRIEVER)
    m.systemctl("restart", CRAWLER, GANESHA)
    stack.serves("f6")


def test_finish_is_the_end(stack):
    """The retriever is not started again."""
    m = stack.m
    m.run("postcopy", "resolve", "--lost", "/srv/data", "/srv/data/bad")
    wait_until(lambda: '"complete"' in m.run("postcopy", "status", "--json").stdout, 120, "the end")
    m.run("postcopy", "finish", "/srv/data")
    assert m.show(RETRIEVER, "Result") == "success"
    assert m.show(RETRIEVER, "ActiveState") == "inactive"
    assert m.show(RETRIEVER, "ExecMainStatus") == "3"
    wait_until(lambda: m.show(CRAWLER, "ActiveState") == "inactive", 60, "the crawler's end")
    assert not shlex.split(m.systemctl("--failed", "--no-legend", "--plain", "-q"))
