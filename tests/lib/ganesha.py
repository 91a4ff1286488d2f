# SPDX-License-Identifier: GPL-3.0-or-later
"""Ganesha: Debian's stock ganesha.nfsd as a test's server.

    server = Ganesha(workdir / "old", tree="/srv/data").start()
    with server.client("v3") as c: ...
    server.stop()             # also fails if the log holds bad words

Two kinds of export:
    fsal="vfs"    the old server: plain FSAL_VFS
    fsal="stub"   the new server: FSAL_STUB over FSAL_VFS, plugin_dir= says
                  where our libfsalstub.so is

Runs without a portmapper (tools/rpcshim.c) on ports of its own, 127.0.0.1 only.
kill9(), sigstop() and restart() keep the ports, so clients can come back.
"""
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass

from lib import debian
from lib.ports import free_port
from lib.programs import build_rpcshim
from lib.server import Server
from lib.wait import wait_until
from nfsclient import connect
from nfsclient.nfs3 import Mount3
from nfsclient.rpc import AuthSys

BINARY = os.environ.get("POSTCOPY_GANESHA", "/usr/bin/ganesha.nfsd")
SYSTEM_PLUGINS = (pathlib.Path("/usr/lib/x86_64-linux-gnu/ganesha"),
                  pathlib.Path("/usr/lib/ganesha"), pathlib.Path("/usr/lib64/ganesha"))

BAD_WORDS = re.compile(
    r":(CRIT|FATAL|MAJ) :|\bCRITICAL\b|FATAL|\bassert|Assertion|Sanitizer"
    r"|runtime error:|SEGV|SIGABRT|backtrace|Segmentation fault|stack smashing"
    r"|double free|corrupted|Memory leak|LeakSanitizer", re.IGNORECASE)

# What a healthy stock server says when it stands alone on a test machine.
ALWAYS_ALLOWED = (
    r"DBUS :CRIT",                       # no system bus
    r"gssd_(refresh_krb5_machine_credential|search_krb5_keytab)",  # no keytab, no Kerberos
    r"Could not start NFS rquota",
    r"CAP_SYS_RESOURCE",
)



@functools.cache
def release():
    """The server's major version: 4, 6."""
    told = subprocess.run([BINARY, "-v"], capture_output=True, text=True, timeout=300).stdout
    return int(re.search(r"Release = V(\d+)", told).group(1))


# No capability for it, as in many containers: 6 ends then, if it is not told.
NO_FLUSHER = "allow_set_io_flusher_fail = true;"
CORE = NO_FLUSHER if release() > 4 else ""
# For an export with Attr_Expiration_Time = 0 in which files change below the server: 6 asks for
# attributes each time, but never again whether a listing that it keeps is still right.
NO_LISTINGS = "MDCACHE { Dir_Chunk = 0; }" if release() > 4 else ""


@dataclass
class Export:
    """One exported directory; pseudo is its name for MNT and NFSv4."""
    tree: str
    pseudo: str = "/export"
    fsal: str = "vfs"
    squash: str = "No_Root_Squash"
    readonly: bool = False
    more: str = ""               # further lines of the EXPORT block
    fsal_more: str = ""          # further lines of the outer FSAL block
    sec: str = "sys"             # SecType


class Ganesha(Server):
    BAD_WORDS, ALWAYS_ALLOWED = BAD_WORDS, ALWAYS_ALLOWED
    WRAP, CORE = (), CORE       # command in front of the server; lines of NFS_CORE_PARAM
    KRB5 = "Active_krb5 = false;"

    def __init__(self, workdir, tree=None, *, fsal="vfs", plugin_dir=None,
                 squash="No_Root_Squash", readonly=False, pseudo="/export",
                 exports=None, conf="", core="", env=None, preload=(), allow=(),
                 log_level="EVENT", name=None, host="127.0.0.1", shim=None,
                 more="", fsal_more="", numeric=True):
        """exports= gives several Export; otherwise tree= and its friends one.

        conf: further blocks of the configuration; core: lines of NFS_CORE_PARAM;
        env, preload: for sanitizer builds; allow: regular expressions of log
        lines that are fine; log_level: EVENT, INFO, DEBUG, FULL_DEBUG.
        """
        self.workdir = pathlib.Path(workdir)
        self.exports = list(exports or [Export(str(tree), pseudo, fsal, squash,
                                               readonly, more, fsal_more)])
        self.plugin_dir = plugin_dir
        self.conf, self.core = conf, core
        self.env, self.preload = dict(env or {}), list(preload)
        self.allow = list(allow)
        self.log_level = log_level
        self.name = name or self.workdir.name
        self.host = host
        self.shim = shim
        self.numeric = numeric          # owners are numbers to NFSv4 clients
        self.port = self.mount_port = None
        self.process = None
        self._scanned = {}

    # -- files --------------------------------------------------------------

    @property
    def log(self):
        return self.workdir / "ganesha.log"

    @property
    def output(self):
        return self.workdir / "ganesha.out"

    @property
    def logs(self):
        return [self.log, self.output]

    @property
    def pseudo(self):
        return self.exports[0].pseudo

    def _plugins(self):
        """A private plugin directory: the distribution's FSALs and ours."""
        private = self.workdir / "plugins"
        shutil.rmtree(private, ignore_errors=True)
        private.mkdir(parents=True)
        sources = [p for p in SYSTEM_PLUGINS if p.is_dir()][:1]
        if self.plugin_dir:
            sources.append(pathlib.Path(self.plugin_dir))
        for source in sources:
            for lib in source.glob("libfsal*.so"):
                link = private / lib.name
                link.unlink(missing_ok=True)
                link.symlink_to(lib.resolve())
        return private

    def _export_block(self, number, export):
        inner = "Name = VFS;"
        fsal = inner if export.fsal == "vfs" else (
            "Name = STUB; %s FSAL { %s }" % (export.fsal_more, inner))
        return """
EXPORT {
    Export_Id = %d;
    Path = "%s";
    Pseudo = "%s";
    Protocols = 3, 4;
    Transports = TCP;
    SecType = %s;
    Access_Type = %s;
    Squash = %s;
    %s
    FSAL { %s }
}
""" % (number, export.tree, export.pseudo, export.sec, "RO" if export.readonly else "RW",
            export.squash, export.more, fsal)

    def write_config(self):
        recovery = self.workdir / "recovery"
        recovery.mkdir(parents=True, exist_ok=True)
        text = """
NFS_CORE_PARAM {
    NFS_Port = %d;
    MNT_Port = %d;
    Bind_addr = %s;
    NFS_Protocols = 3, 4;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
    mount_path_pseudo = true;
    Plugins_Dir = "%s";
    %s
    %s
}
NFSV4 {
    RecoveryBackend = fs;
    RecoveryRoot = "%s";
    Graceless = true;
    Only_Numeric_Owners = %s;
    Minor_Versions = 0, 1, 2;
}
NFS_KRB5 { %s }
%s
""" % (self.port, self.mount_port, self.host, self._plugins(), self.CORE,
            self.core, recovery, "true" if self.numeric else "false", self.KRB5, self.conf)
        for number, export in enumerate(self.exports, 1):
            text += self._export_block(number, export)
        path = self.workdir / "ganesha.conf"
        path.write_text(text)
        return path

    # -- life ---------------------------------------------------------------

    def _choose_ports(self):
        self.port = free_port()
        self.mount_port = free_port()

    def _spawn(self):
        shim = self.shim or build_rpcshim(self.workdir.parent / "build")
        env = dict(os.environ, **self.env)
        env["LD_PRELOAD"] = " ".join([*map(str, self.preload), str(shim)])
        # Ganesha puts the file system's UUID into handles, and asks libblkid,
        # whose shared cache may still tell the UUID of what was on the loop
        # device before: all handles STALE after a restart.
        cache = self.workdir / "blkid.tab"
        cache.unlink(missing_ok=True)
        env["BLKID_FILE"] = str(cache)
        # With a realm, and Debian's /etc/krb5.conf names one, it looks for a keytab
        # in spite of Active_krb5 = false, and calls it critical that there is none.
        env.setdefault("KRB5_CONFIG", str(self.workdir / "no-krb5.conf"))
        argv = [*self.WRAP, BINARY, "-F", "-f", str(self.write_config()), "-L", str(self.log),
                "-p", str(self.workdir / "ganesha.pid"), "-N",
                "NIV_" + self.log_level]
        self._begins = self.log.stat().st_size if self.log.exists() else 0
        self._popen(argv, self.output, env)

    def _ready(self):
        self._is_up()
        mount = Mount3(self.host, self.mount_port, timeout=5)
        try:
            for export in self.exports:
                mount.mnt(export.pseudo)
        finally:
            mount.close()
        with self.client("v3", timeout=5):
            return self._is_initialized()

    def _is_initialized(self):
        """It answers before; who ends it then meets threads that are still being made (SIGSEGV)."""
        with open(self.log, "rb") as f:
            f.seek(self._begins)
            return b"NFS SERVER INITIALIZED" in f.read()

    def _end(self, sig):
        if self.process and self.process.poll() is None:
            if sig != signal.SIGCONT:
                self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(sig)
            self.process.wait()

    def sigstop(self):
        """Freeze: connections stay, nothing answers.  Returns once all threads stand."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(self._frozen, 60, "server %s frozen" % self.name)

    def _frozen(self):
        tasks = pathlib.Path("/proc/%d/task" % self.pid).iterdir()
        return all((t / "stat").read_text().rpartition(")")[2].split()[0] in "TZ"
                   for t in tasks)

    def sigcont(self):
        self.process.send_signal(signal.SIGCONT)

    # -- talking to it -------------------------------------------------------

    def client(self, proto="v3", export=None, cred=AuthSys(), **options):
        """A client on an export's root (the first one by default)."""
        return connect(proto, self.host, self.port, self.mount_port,
                       export or self.pseudo, cred, **options)

    def url(self, export=None, version=3):
        """The URL that libnfs, nfstree and the retriever take; another version: the retriever."""
        if version != 3:
            return "nfs://%s%s?nfsport=%d&version=%s" % (
                ("[%s]" if ":" in self.host else "%s") % self.host, export or self.pseudo,
                self.port, version)
        return "nfs://%s%s?nfsport=%d&mountport=%d&version=3" % (
            ("[%s]" if ":" in self.host else "%s") % self.host, export or self.pseudo, self.port,
            self.mount_port)


def of_debian(release, *dirs):
    """A class Ganesha whose servers are those of another release of Debian, in the root that
    tests/tools/debian-build has for it; @dirs: directories with all that they use. None: this
    machine's."""

    if not release:
        return Ganesha

    class Other(Ganesha):
        WRAP = debian.wrap(release, *dirs)
        CORE = "" if release == "bookworm" else NO_FLUSHER

    return Other
