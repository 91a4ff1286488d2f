# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that two nodes can reach: one of them is the active one, the other takes over when that is
off, and not before.  Both are machines with a systemd of their own (lib/machine.py) and one kernel, so
nothing is lost of what the kernel had.  What docs/failover.md tells an administrator to type is typed."""
import contextlib
import json
import pathlib
import shlex
import subprocess
import tempfile
import time
import xml.etree.ElementTree

import pytest

from lib import guides
from lib.ganesha import CORE
from lib.machine import Machine
from lib.wait import wait_until
from nfsclient import NfsError, RpcError, connect
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

MOUNT, VOLUME = "/srv/shared", "/srv/shared/data"
ACTIVE = "postcopy-active@srv-shared.service"
RETRIEVER = "postcopy-retriever@srv-shared-data.service"
GANESHA = "nfs-ganesha.service"
FILES = 60
NODES = """# the same on both
disk "%s" {
    device = "%s"
    lease = "%s"
    nodes = { "nas1", "nas2" }
    options = "noatime"
}
"""
# There is no watchdog here, and limits and priorities may be another's to raise.
SANLOCK = 'sanlock_opts="-w 0 -U root -G root"\nSANLOCK_PRIVILEGED=0\n'
# of the servers: their states on the shared disk, and no address of their own
GANESHA_CONF = """
NFS_CORE_PARAM { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; %s }
NFSV4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = "/srv/shared/ganesha"; }
NFS_KRB5 { Active_krb5 = false; }
""" % CORE
NOT_ACTIVE = 59
GUIDE = "docs/failover.md"
AGENT = "/usr/lib/ocf/resource.d/postcopy/active"
OCF_SUCCESS, OCF_ERR_GENERIC, OCF_ERR_UNIMPLEMENTED, OCF_ERR_CONFIGURED, OCF_NOT_RUNNING = 0, 1, 3, 6, 7
STOP, TAKE_OVER = "systemctl stop postcopy-active@srv-shared", "postcopy volume take-over " + VOLUME
NOT_RUN = {
    "fuser -vm /srv/shared": "its package is not among those of the tests",
    "postcopy moved --one-machine DIR": "its form",
    "postcopy blocks": "its form", "postcopy status": "likewise", "postcopy finish": "test_admin does it",
    "systemctl daemon-reload": "Pair.configure() does it",
}


typed = set()


def read_of(number):
    return Pattern(1000 + number, seed=number + 1).read(0, 1000 + number)


class Disk:
    """A file as a block device."""

    def __init__(self, path, size):
        self.path = path
        with open(path, "wb") as f:
            f.truncate(size)
        self.device = subprocess.run(["losetup", "-f", "--show", "--direct-io=on", str(path)], check=True,
                                     capture_output=True, text=True).stdout.strip()

    def close(self):
        wait_until(lambda: not subprocess.run(["losetup", "-d", self.device], capture_output=True).returncode, 60,
                   "the end of " + self.device)
        self.path.unlink()


class Node:
    def __init__(self, name, workdir, nodes, tree):
        self.name, self.m = name, Machine(workdir)
        self.m.file("/etc/postcopy/nodes.conf", nodes)
        self.m.file("/etc/default/sanlock", SANLOCK)
        self.m.file("/etc/hostname", name + "\n")
        self.tree, self.fake = tree, None

    def boot(self, port=None):
        self.m.boot()
        self.m.run("hostname", self.name)
        self.fake = FakeServer(self.tree, **({"port": port} if port else {}))
        with self.m.network():
            self.fake.start()
        return self.fake.port

    def off(self):
        """As by the power button."""
        if self.fake:
            self.fake.stop()
            self.fake = None
        self.m.off()

    def status_of(self, *argv):
        done = self.m.run(*argv, check=False)
        return done.returncode, done.stdout + done.stderr

    def type(self, text, places={}):
        """A command of the guide."""
        assert text in {c.text for c in guides.commands(GUIDE)}, "the guide does not say: " + text
        shell = text
        for place, real in places.items():
            shell = shell.replace(place, real)
        typed.add(text)
        return self.m.run("sh", "-c", shell)

    def type_all(self, section, places={}):
        for c in guides.commands(GUIDE):
            if c.fenced and c.section.startswith(section):
                said = self.type(c.text, places)
        return said.stdout

    def serves(self, number):
        def read():
            with contextlib.suppress(OSError, RpcError, NfsError), self.m.network(), contextlib.closing(
                    connect("v4.1", "127.0.0.1", 2049, export="/export")) as c:
                return c.read("f%d" % number, 0, 5000)[0]

        assert wait_until(read, 120, "an answer of f%d on %s" % (number, self.name)) == read_of(number)


class Pair:
    def __init__(self, home):
        home = pathlib.Path(home)
        self.data, self.lease = Disk(home / "data", 600 << 20), Disk(home / "lease", 4 << 20)
        tree = Tree()
        for i in range(FILES):
            tree.file(tree.root, "f%d" % i, Pattern(1000 + i, seed=i + 1))
        nodes = NODES % (MOUNT, self.data.device, self.lease.device)
        self.one, self.two = (Node(name, home / name, nodes, tree) for name in ("nas1", "nas2"))

    def configure(self, answer):
        """What init has said, on both nodes, as an administrator pastes it."""
        text = answer["global_block"]
        for line in GANESHA_CONF.strip().splitlines():
            name, more = line[:-1].split(" { ")
            text = text.replace(name + " {", name + " {\n" + more, 1) if name + " {" in text else text + line + "\n"
        for node in self.one, self.two:
            node.m.file("/etc/ganesha/ganesha.conf", answer["export_block"] + text)
            for path, unit in answer["active_drop_ins"].items():
                if "smbd" not in path:
                    node.m.file(path, unit.replace(" smbd.service", ""))
            if node.m.process:
                node.m.systemctl("daemon-reload")

    def close(self):
        for node in self.one, self.two:
            node.off()
        self.data.close()
        self.lease.close()


@pytest.fixture(scope="module")
def pair(workdir):
    p = Pair(tempfile.mkdtemp(prefix="failover-", dir=workdir))
    try:
        port = p.one.boot()
        p.two.boot(port)
        one = p.one.m
        for node in p.one, p.two:
            node.type_all("Prepare")
            node.m.run("mkdir", "-p", MOUNT)
        disk = "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"
        said = p.one.type_all("Make the volume", {
            disk + "-part1": p.lease.device, disk + "-part2": p.data.device, "nfs://old/export": shlex.quote(p.one.fake.url()),
            "active make": "active --io-timeout 1 make"})
        assert "systemctl restart 'postcopy-active@srv-shared'" in said
        answer = json.loads(one.run("postcopy", "blocks", "--json", VOLUME).stdout)
        for path in answer["active_drop_ins"]:
            assert "# %s\n[Unit]\n" % path in said
        p.configure(answer)
        one.systemctl("restart", ACTIVE)
        wait_until(lambda: one.show(GANESHA, "ActiveState") == "active", 60, "Ganesha")
        yield p
    finally:
        p.close()


def test_the_unit_is_right(pair):
    done = pair.one.m.run("systemd-analyze", "verify", "--man=no", ACTIVE)
    assert done.stdout + done.stderr == ""


def test_the_active_node_serves(pair):
    pair.one.serves(0)
    s = json.loads(pair.one.m.run("postcopy", "status", "--json", VOLUME).stdout)
    assert s["node"] == "nas1" and s["node_since"] <= time.time()
    assert "nas1, since" in pair.one.m.run("postcopy", "status", VOLUME).stdout


def test_the_other_one_refuses(pair):
    """It says who is active, and touches nothing."""
    two = pair.two
    status, said = two.status_of("postcopy", "status", VOLUME)
    assert status == NOT_ACTIVE and "sanlock does not run" in said
    status, said = two.status_of("postcopy", "volume", "take-over", "/srv")
    assert status == 50 and "no disk of" in said
    two.m.systemctl("start", "sanlock")
    wait_until(lambda: two.status_of("postcopy-active", "show", MOUNT)[0] == 0, 60, "sanlock")
    status, said = two.status_of("postcopy", "status", VOLUME)
    assert status == NOT_ACTIVE and "nas1 has its disk" in said
    status, said = two.status_of(*TAKE_OVER.split())
    assert status == NOT_ACTIVE and "nas1 is the active node of %s, and alive" % MOUNT in said
    assert not two.m.run("mountpoint", "-q", MOUNT, check=False).returncode == 0
    assert two.m.show(GANESHA, "ActiveState") == "inactive"
    pair.one.serves(1)


def test_who_mounts_it_by_hand_opens_nothing(pair):
    """On the active node itself, where that harms nobody: but its lease is not held for that machine."""
    with tempfile.TemporaryDirectory(dir=pair.one.m.dir) as at:
        subprocess.run(["mount", pair.data.device, at], check=True)
        try:
            done = subprocess.run([pair.one.m.upper / "usr/sbin/postcopy-volume", "counts", at + "/data"],
                                  capture_output=True, text=True)
        finally:
            subprocess.run(["umount", at], check=True)
    assert done.returncode == NOT_ACTIVE
    assert "does not hold" in done.stderr and "not-active" in done.stdout


def test_a_holder_that_is_killed_comes_back(pair):
    m = pair.one.m
    m.kill(ACTIVE)
    wait_until(lambda: m.show(ACTIVE, "ActiveState") == "active", 60, "another one")
    assert "is mounted already, under the lease that this node had" in m.journal("-u", ACTIVE)
    pair.one.serves(2)


def test_it_moves_when_told(pair):
    """Stopped on one, started on the other: at once."""
    one, two = pair.one, pair.two
    one.type(STOP)
    assert one.m.show(GANESHA, "ActiveState") == "inactive"
    assert one.m.show(ACTIVE, "Result") == "success"
    assert "no node has its disk" in two.status_of("postcopy", "status", VOLUME)[1]
    said = two.type(TAKE_OVER)
    assert "nas2 is the active node of " + MOUNT in said.stdout
    two.serves(0)
    two.serves(3)


def test_a_node_that_is_off_is_replaced(pair):
    """And when it is back, it begins nothing, and has to wait if it is told to."""
    one, two = pair.one, pair.two
    two.off()
    begun = time.monotonic()
    said = one.type(TAKE_OVER)
    assert "nas1 is the active node of " + MOUNT in said.stdout
    assert "nas2 has the lease" in said.stderr
    assert time.monotonic() - begun > 60        # its watchdog had a minute
    two.boot(one.fake.port)
    two.m.systemctl("start", "sanlock")
    wait_until(lambda: two.status_of("postcopy-active", "show", MOUNT)[0] == 0, 60, "sanlock")
    for unit in RETRIEVER, GANESHA:
        assert two.m.show(unit, "ActiveState") == "inactive"
    assert "nas1 has its disk" in two.status_of("postcopy", "status", VOLUME)[1]
    two.m.systemctl("start", "--no-block", ACTIVE)
    wait_until(lambda: "joining" in two.m.show(ACTIVE, "StatusText"), 60, "a try")
    assert two.status_of("mountpoint", "-q", MOUNT)[0] != 0
    two.m.systemctl("stop", ACTIVE)
    wait_until(lambda: '"complete"' in one.m.run("postcopy", "status", "--json", VOLUME).stdout, 120, "the end")
    scan = json.loads(one.m.run("postcopy", "scan", "--json", VOLUME).stdout)
    assert scan["clean"] and scan["files"] == FILES
    for i in range(FILES):
        one.serves(i)


def test_pacemakers_agent(pair):
    """What the cluster manager asks it, on the node that is active, and on the other one."""
    one, two = pair.one, pair.two

    def agent(node, action, mount=MOUNT):
        return node.status_of("env", "OCF_ROOT=/usr/lib/ocf", "OCF_RESOURCE_INSTANCE=disk", "OCF_RESOURCE_TYPE=active",
                              "OCF_RESKEY_mount=" + mount, AGENT, action)

    status, said = agent(one, "meta-data")
    assert status == OCF_SUCCESS
    assert [p.get("name") for p in xml.etree.ElementTree.fromstring(said).iter("parameter")] == ["mount"]
    assert agent(one, "validate-all")[0] == OCF_SUCCESS
    assert agent(one, "validate-all", "shared")[0] == OCF_ERR_CONFIGURED
    assert agent(one, "monitor")[0] == OCF_SUCCESS
    assert agent(two, "monitor")[0] == OCF_NOT_RUNNING
    assert agent(one, "start")[0] == OCF_SUCCESS
    assert agent(one, "stop")[0] == OCF_SUCCESS
    assert agent(one, "monitor")[0] == OCF_NOT_RUNNING
    assert agent(one, "stop")[0] == OCF_SUCCESS
    assert agent(one, "start")[0] == OCF_SUCCESS
    one.serves(5)
    one.m.run("umount", "-l", MOUNT)                    # by somebody else
    assert agent(one, "monitor")[0] == OCF_ERR_GENERIC
    one.m.systemctl("stop", RETRIEVER, GANESHA)
    assert agent(one, "stop")[0] == OCF_SUCCESS
    assert agent(one, "start")[0] == OCF_SUCCESS
    assert agent(one, "nonsense")[0] == OCF_ERR_UNIMPLEMENTED


def test_it_stays_with_one_machine(pair):
    """When no other can reach its disk any more, it wants no lease."""
    one = pair.one.m
    one.systemctl("stop", ACTIVE)
    one.run("mount", pair.data.device, MOUNT)
    assert pair.one.status_of("postcopy", "moved", VOLUME)[0] == NOT_ACTIVE
    one.run("postcopy", "moved", "--one-machine", VOLUME)
    assert '"complete"' in one.run("postcopy", "status", "--json", VOLUME).stdout
    one.run("umount", MOUNT)


def test_the_guide_was_typed(pair):
    said = {c.text: c for c in guides.commands(GUIDE)}
    missing = [text for text in said if text not in typed and text not in NOT_RUN]
    assert not missing and not set(NOT_RUN) - set(said)


def test_what_the_guide_quotes_is_said():
    unsaid = [m for _, m in guides.messages(GUIDE) if not guides.is_said(m)]
    assert guides.messages(GUIDE) and not unsaid
