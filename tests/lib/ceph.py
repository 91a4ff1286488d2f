# SPDX-License-Identifier: GPL-3.0-or-later
"""CephCluster: a monitor, an OSD that keeps all in memory, an MDS, and one file system, for tests.

    with CephCluster(workdir, "10.99.0.1") as ceph:     # an address of this network namespace
        ceph.device, ceph.secret                        # for mount -t ceph
        ceph.command("fs", "status")

It is Debian's.  Nothing of it is left on disk but its directory, which is the caller's to remove.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import uuid

from lib.ports import free_port
from lib.wait import wait_until

PROGRAMS = ("ceph-mon", "ceph-osd", "ceph-mds", "ceph", "ceph-authtool", "monmaptool")
PACKAGES = "ceph-mon ceph-osd ceph-mds ceph-common"
CONF = """[global]
fsid = {fsid}
mon host = v1:{host}:{port}
public addr = {host}
cluster addr = {host}
ms bind msgr2 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
keyring = {dir}/keyring
run dir = {dir}/run
admin socket = {dir}/run/$name.asok
log file = {dir}/$name.log
log to stderr = false
mon cluster log file = {dir}/cluster.log
pid file =
crash dir = {dir}/crash
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = {memory}
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail warn = 1
mon data avail crit = 0
mon osd full ratio = 0.97
osd class dir = /usr/lib/x86_64-linux-gnu/rados-classes
[mon.a]
mon data = {dir}/mon
[osd.0]
osd data = {dir}/osd
[mds.a]
mds data = {dir}/mds
"""


def why_no_ceph():
    """Why there can be none here; None: there can."""
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        return "%s is missing: apt-get install --no-install-recommends %s" % (missing[0], PACKAGES)
    return None


class CephCluster:
    def __init__(self, workdir, host, memory=4 << 30):
        self.dir, self.host, self.port, self.memory = pathlib.Path(workdir), host, free_port(), memory
        self.fsid, self.processes = str(uuid.uuid4()), []

    # -- life -----------------------------------------------------------------------

    def start(self):
        for name in ("mon", "osd", "mds", "run", "crash"):
            (self.dir / name).mkdir(parents=True)
        (self.dir / "run").chmod(0o700)
        (self.dir / "ceph.conf").write_text(CONF.format(**vars(self)))
        keyring, monmap = self.dir / "keyring", self.dir / "monmap"
        for name, caps in (("mon.", ("mon",)), ("client.admin", ("mon", "osd", "mds", "mgr")),
                           ("osd.0", ("mon", "osd")), ("mds.a", ("mon", "osd", "mds"))):
            words = ["ceph-authtool", str(keyring), "--gen-key", "-n", name]
            for cap in caps:
                words += ["--cap", cap, "allow" if cap == "mds" and name != "client.admin" else "allow *"]
            self._run(*words, *(() if keyring.exists() else ("--create-keyring",)))
        self._run("monmaptool", "--create", "--fsid", self.fsid, "--addv", "a", "[v1:%s:%d]" % (self.host, self.port),
                  str(monmap))
        self._run("ceph-mon", *self._conf, "--mkfs", "-i", "a", "--monmap", str(monmap), "--keyring", str(keyring))
        self._spawn("ceph-mon", "a")
        osd = str(uuid.uuid4())
        self.command("osd", "new", osd, "0")
        self._run("ceph-osd", *self._conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._spawn("ceph-osd", "0")
        self._spawn("ceph-mds", "a")
        self.command("osd", "pool", "create", "meta", "8")
        self.command("osd", "pool", "create", "data", "8")
        self.command("fs", "new", "fs", "meta", "data")
        wait_until(self._active, 120, "the MDS is active")
        return self

    def _active(self):
        status = json.loads(self.command("mds", "stat", "--format", "json"))
        return any(i["state"] == "up:active" for f in status["fsmap"]["filesystems"]
                   for i in f["mdsmap"]["info"].values())

    @property
    def _conf(self):
        return "-c", str(self.dir / "ceph.conf")

    def _run(self, *words, timeout=240):
        done = subprocess.run(words, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
        assert done.returncode == 0, "%s: %s%s" % (" ".join(words), done.stdout, done.stderr)
        return done.stdout

    def _spawn(self, program, name):
        with open(self.dir / (program + ".out"), "ab") as out:
            self.processes.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", program, *self._conf, "-f", "-i", name],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True))

    def stop(self):
        """At once: what it kept was in memory."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.processes = []

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    # -- what it is asked -----------------------------------------------------------

    def command(self, *words):
        return self._run("ceph", *self._conf, "--connect-timeout", "120", *words)

    @property
    def secret(self):
        return self._run("ceph-authtool", "-p", "-n", "client.admin", str(self.dir / "keyring")).strip()

    @property
    def device(self):
        """For mount -t ceph."""
        return "%s:%d:/" % (self.host, self.port)
