# SPDX-License-Identifier: GPL-3.0-or-later
"""NewServer: a new file server on which postcopy is installed, beside an old one, both on
this machine in namespaces of their own, for tests of what administrators type.

    with NewServer(workdir, shim) as machine:
        machine.run("systemctl enable --now postcopy-retriever@srv-data")

Mounts, processes and network are private: /etc, /var/lib and /var/log are written to
memory, /usr has what 'meson install' put there, /run, /srv and /mnt are empty; eth0 has
the addresses of `old` and `new`, with the usual ports and one portmapper. systemctl is
tools/systemctl. All processes end with the first one.

The old server is a stock ganesha.nfsd that exports `tree` as /export; freeze() makes
it read-only, thaw() writable again.
"""
import atexit
import os
import pathlib
import shutil
import subprocess
import time

from lib.ganesha import CORE
from lib.programs import BUILD, TOOLS
from lib.wait import wait_until

OLD, NEW = "192.0.2.10", "192.0.2.20"

SETUP = r"""
set -e
mount -t tmpfs -o mode=755 stage "$STAGE"
over() {
	mkdir -p "$STAGE$1/upper" "$STAGE$1/work"
	mount -t overlay -o lowerdir="$1",upperdir="$STAGE$1/upper",workdir="$STAGE$1/work" over "$1"
}
over /etc
over /var/lib
over /var/log
mount -t overlay -o lowerdir="$DEST/usr:/usr" over /usr
for dir in /run /srv /mnt /var/lib/samba /var/log/samba; do
	mount -t tmpfs -o mode=755 stage "$dir"
done
rm -rf /etc/postcopy /var/lib/postcopy
mkdir -p "$LOGS/units" "$LOGS/ganesha" /run/units /var/log/ganesha
mount --bind "$LOGS/units" /run/units           # where who looks for a failure's cause finds them
mount --bind "$LOGS/ganesha" /var/log/ganesha
mkdir -p /run/rpcbind /run/samba /run/lock /run/blkid /var/lib/samba/private /root
ip link set lo up
ip link add eth0 type bridge
ip link set eth0 up
ip address add 192.0.2.10/24 dev eth0
ip address add 192.0.2.20/24 dev eth0
printf '127.0.0.1 localhost %s\n192.0.2.10 old filer\n192.0.2.20 new\n' "$(hostname)" > /etc/hosts
rpcbind
echo ready
exec sleep infinity
"""

OLD_CONF = """\
NFS_CORE_PARAM {
    Bind_addr = %(address)s;
    NFS_Port = 2049;
    MNT_Port = 20048;
    NFS_Protocols = 3;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
    mount_path_pseudo = true;
    %(core)s
}
NFSV4 { RecoveryBackend = fs; RecoveryRoot = "%(home)s"; Graceless = true; }
NFS_KRB5 { Active_krb5 = false; }
EXPORT {
    Attr_Expiration_Time = 0;
    Export_Id = 1; Path = "%(tree)s"; Pseudo = "/export"; Protocols = 3; Transports = TCP;
    SecType = sys; Access_Type = %(access)s; Squash = No_Root_Squash;
    FSAL { Name = VFS; }
}
"""

# What a test's Ganesha needs beside what the guides say: an address of its own, no Kerberos.
NEW_CORE = """\
    Bind_addr = %s;
    NFS_Port = 2049;
    MNT_Port = 20048;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
    %s
""" % (NEW, CORE)
NEW_V4 = "    RecoveryBackend = fs; Graceless = true;\n"
NEW_MORE = "NFS_KRB5 { Active_krb5 = false; }\n"

SMB_CONF = """\
[global]
workgroup = WORKGROUP
server role = standalone server
interfaces = %s
bind interfaces only = yes
disable netbios = yes
load printers = no
printcap name = /dev/null
disable spoolss = yes
log level = 1
logging = file
log file = /var/log/samba/log.smbd
""" % NEW


class NewServer:
    def __init__(self, workdir, shim):
        self.workdir = pathlib.Path(workdir)
        self.shim = shim
        self.tree = self.workdir / "oldtree"
        self.holder = self.old = None

    def __enter__(self):
        for name in ("stage", "bin", "oldtree", "recovery"):
            (self.workdir / name).mkdir(parents=True, exist_ok=True)
        dest = self.workdir / "dest"
        subprocess.run(["/usr/bin/meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet"],
                       check=True, env=dict(os.environ, DESTDIR=str(dest)),
                       stdout=subprocess.DEVNULL)
        for name in ("systemctl", "journalctl"):
            shutil.copy(TOOLS / "systemctl", self.workdir / "bin" / name)
        self.holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "slave", "--net",
             "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", SETUP],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, STAGE=str(self.workdir / "stage"),
                     LOGS=str(self.workdir / "logs"), DEST=str(dest)),
            start_new_session=True)
        atexit.register(self.end)
        assert self.holder.stdout.readline() == "ready\n", "the machine does not come up"
        self.first = int(subprocess.run(["pgrep", "-P", str(self.holder.pid)], text=True,
                                        capture_output=True, check=True).stdout)
        return self

    def __exit__(self, *exc):
        self.end()

    def end(self):
        atexit.unregister(self.end)
        if self.holder and self.holder.poll() is None:
            self.holder.kill()
        if self.holder:
            self.holder.wait()

    # -- what is typed ------------------------------------------------------------

    def argv(self, *command):
        return ["nsenter", "--target", str(self.first), "--mount", "--net", "--pid", *command]

    def environment(self):
        env = dict(os.environ, LC_ALL="C.UTF-8", BLKID_FILE="/run/blkid/blkid.tab",
                   KRB5_CONFIG="/run/no-krb5.conf",
                   PATH="%s:/usr/sbin:/usr/bin:/sbin:/bin" % (self.workdir / "bin"),
                   UNIT_PRELOAD_nfs_ganesha=str(self.shim))
        for name in "LD_PRELOAD", "POSTCOPY_VOLUMES":   # it has /etc of its own
            env.pop(name, None)
        return env

    def run(self, script, stdin=None, timeout=300):
        """A line of shell, as root on the new server: CompletedProcess. nfs-cat and nfs-ls give up
        where a mount tries again ("later", NFS3ERR_JUKEBOX), so they are run again then."""
        end = time.monotonic() + timeout
        while True:
            done = self._run_once(script, stdin, timeout)
            if not (script.startswith(("nfs-cat ", "nfs-ls ")) and "JUKEBOX" in done.stderr and
                    time.monotonic() < end):
                return done
            time.sleep(0.1)

    def _run_once(self, script, stdin, timeout):
        return subprocess.run(self.argv("bash", "-c", script), text=True, errors="replace",
                              stdin=subprocess.DEVNULL if stdin is None else None, input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                              env=self.environment(), timeout=timeout)

    def ok(self, script, **more):
        done = self.run(script, **more)
        assert done.returncode == 0, "%s: status %d\n%s%s" % (script, done.returncode,
                                                             done.stdout, done.stderr)
        return done.stdout

    # -- the old server -------------------------------------------------------------

    def start_old(self, access="RW", address=OLD):
        conf = self.workdir / "old.conf"
        conf.write_text(OLD_CONF % {"address": address, "home": self.workdir / "recovery",
                                    "tree": self.tree, "access": access, "core": CORE})
        log = self.workdir / "old.log"
        with open(self.workdir / "old.out", "ab") as out:
            self.old = subprocess.Popen(
                self.argv("/usr/bin/ganesha.nfsd", "-F", "-f", str(conf), "-L", str(log), "-p",
                          str(self.workdir / "old.pid"), "-N", "NIV_EVENT"),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env=self.environment())
        wait_until(lambda: self.run("showmount -e old").returncode == 0 and
                   self.run("nfs-ls nfs://old/export").returncode == 0, 60, "old server")

    def stop_old(self):
        self.ok("kill $(cat %s/old.pid)" % self.workdir)    # nsenter hands no signal on
        self.old.wait(60)

    def freeze(self):
        self.stop_old()
        self.start_old("RO")

    def thaw(self):
        self.stop_old()
        self.start_old("RW")
