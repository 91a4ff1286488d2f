# SPDX-License-Identifier: GPL-3.0-or-later
"""Samba: Debian's stock smbd as a test's server.

    server = Samba(workdir / "old", "/srv/data").start()
    with server.client("alice") as c: ...
    print(server.smbclient("ls").stdout)
    server.stop()             # also fails if a log holds bad words

The new server: shares=[Share("/srv/volume", vfs=("stub", *STOCK))], module_dir= says
where our stub.so is (tools/smbshim.c makes smbd find it).

(Not samba.py: that is the name of Samba's own Python package, which we use.)

All state is private, 127.0.0.1 and a port of its own only.  Users exist for this
smbd alone (nss_wrapper): USERS, all with PASSWORD, and the same SIDs on every server,
so that descriptors of two can be compared byte for byte.
kill9(), sigstop() and restart() keep the port and the state.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import signal
import subprocess
from dataclasses import dataclass

from lib import debian
from lib.ports import free_port
from lib.programs import BASE, build_smbshim
from lib.server import Server
from lib.wait import wait_until
from smb2client import Client

BINARY = os.environ.get("POSTCOPY_SMBD", "/usr/sbin/smbd")
STOCK = ("acl_xattr", "streams_xattr")     # what a file server for Windows has
STACK = (*STOCK, "stub")      # ours is asked last: what it sees are files
PASSWORD = "pass-Word-1"
SID = "S-1-5-21-1004336348-1177238915-682003330"

# name: (uid, gid, RID); root is SMB's administrator, carol is in no group of others.
USERS = {"root": (0, 0, 500), "alice": (70001, 70001, 3001), "bob": (70002, 70002, 3002),
         "carol": (70003, 70003, 3003)}
GROUPS = {"alice": (70001, ()), "bob": (70002, ()), "carol": (70003, ()),
          "staff": (70010, ("alice", "bob"))}

# What a machine's own smbd has before its shares, where all of /etc is the test's.
OWN_CONF = """[global]
server role = standalone server
interfaces = lo
bind interfaces only = yes
disable netbios = yes
smb ports = 445
load printers = no
disable spoolss = yes
printcap name = /dev/null
"""

# What a smbd says that is not ready: it listens before its notify daemon can be found,
# and refuses tree connects until then.
STARTING = ("CONNECTION_REFUSED", "NT_STATUS_NO_MEMORY")

# What an administrator of Windows has: reads auditing entries, gives files away.
PRIVILEGES = ("SeSecurityPrivilege", "SeBackupPrivilege", "SeRestorePrivilege",
              "SeTakeOwnershipPrivilege")

# Of each process of Samba, below its lock directory.
LONGEST_SOCKET = "msg.sock/1234567"
SUN_PATH_MAX = 107                         # bytes, unix(7)

BAD_WORDS = re.compile(
    r"PANIC|INTERNAL ERROR|BACKTRACE|smb_panic|dumping core|\bassert|Assertion|Sanitizer"
    r"|runtime error:|SEGV|SIGABRT|Segmentation fault|stack smashing|double free|corrupted"
    r"|talloc: access after free|Bad talloc|LeakSanitizer|error probing vfs module"
    r"|Can't find a vfs module|vfs_init failed|vfs_init_custom failed|undefined symbol"
    r"|Failed to register vfs|Unknown parameter", re.IGNORECASE)


@dataclass
class Share:
    """One share; more: further lines of its section."""
    path: str
    name: str = "share"
    vfs: tuple = STOCK
    readonly: bool = False
    more: str = ""


class Samba(Server):
    BAD_WORDS = BAD_WORDS
    # it ends by the signal itself or in order, as it happens to be told
    ENDS_WELL = (*Server.ENDS_WELL, -signal.SIGTERM, 128 + signal.SIGTERM)

    def __init__(self, workdir, tree=None, *, shares=None, vfs=STOCK, more="", conf="",
                 module_dir=None, shim=None, env=None, preload=(), allow=(), log_level=1,
                 name=None, readonly=False, release=None):
        """shares= gives several Share; otherwise tree= and its friends one.

        conf: further lines of [global]; module_dir: of VFS modules that are not
        installed; env, preload: for sanitizer builds; allow: regular expressions
        of log lines that are fine; log_level: 0 to 10, as smbd counts them; release: of
        Debian, whose smbd it is, if not this machine's.
        """
        self.workdir = pathlib.Path(workdir)
        self.shares = list(shares or [Share(str(tree), vfs=vfs, more=more,
                                            readonly=readonly)])
        self.conf, self.module_dir, self.shim = conf, module_dir, shim
        self.env, self.preload = dict(env or {}), list(preload)
        self.allow, self.log_level = list(allow), log_level
        self.name = name or self.workdir.name
        self.host = "127.0.0.1"
        self.port = self.process = None
        self._scanned = {}
        self.release = release or (module_dir and debian.RELEASE)

    # -- files --------------------------------------------------------------

    @property
    def lock_dir(self):
        """A place with a short name, if its own is too long for the sockets in it."""
        own = self.workdir / "lock"
        if len(str(own / LONGEST_SOCKET)) <= SUN_PATH_MAX or not own.is_relative_to(BASE):
            return own
        short = hashlib.sha1(str(own).encode()).hexdigest()[:12]
        return BASE / own.relative_to(BASE).parts[0] / short

    @property
    def config(self):
        return self.workdir / "smb.conf"

    @property
    def logs(self):
        return [p for p in sorted((self.workdir / "log").glob("*")) if p.is_file()]

    def write_config(self):
        home = self.workdir
        self.lock_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
        for name in ("private", "state", "cache", "pid", "ncalrpc", "log"):
            (home / name).mkdir(parents=True, exist_ok=True, mode=0o755)
        text = """\
[global]
netbios name = FILER
workgroup = WORKGROUP
server role = standalone server
private dir = %(home)s/private
state directory = %(home)s/state
cache directory = %(home)s/cache
lock directory = %(lock)s
pid directory = %(home)s/pid
ncalrpc dir = %(home)s/ncalrpc
log file = %(home)s/log/log.smbd
logging = file
max log size = 0
log level = %(level)d
smb ports = %(port)d
interfaces = lo
bind interfaces only = yes
disable netbios = yes
load printers = no
printcap name = /dev/null
disable spoolss = yes
passdb backend = tdbsam
unix extensions = no
server multi channel support = no
map to guest = never
%(more)s
""" % {"home": home, "lock": self.lock_dir, "level": self.log_level, "port": self.port or 0, "more": self.conf}
        for share in self.shares:
            text += """
[%s]
path = %s
read only = %s
vfs objects = %s
ea support = yes
store dos attributes = yes
map archive = no
map hidden = no
map system = no
map readonly = no
%s
""" % (share.name, share.path, "yes" if share.readonly else "no", " ".join(share.vfs),
                share.more)
        self.config.write_text(text)
        (home / "passwd").write_text("".join(
            "%s:x:%d:%d::/nonexistent:/bin/false\n" % (user, uid, gid)
            for user, (uid, gid, _) in USERS.items()) +
            "nobody:x:65534:65534::/nonexistent:/bin/false\n")
        (home / "group").write_text("root:x:0:\nnogroup:x:65534:\n" + "".join(
            "%s:x:%d:%s\n" % (group, gid, ",".join(members))
            for group, (gid, members) in GROUPS.items()))
        return self.config

    def environment(self):
        """Of smbd and of every tool that reads its databases."""
        env = dict(os.environ, **self.env)
        libs = [*map(str, self.preload), "libnss_wrapper.so"]
        if self.module_dir:
            shim = self.shim or build_smbshim(self.workdir.parent / "build")
            libs.append(str(shim))
            env["POSTCOPY_VFS_DIR"] = str(self.module_dir)
        env.update(LD_PRELOAD=" ".join(libs),
                   NSS_WRAPPER_PASSWD=str(self.workdir / "passwd"),
                   NSS_WRAPPER_GROUP=str(self.workdir / "group"))
        return env

    @property
    def wrap(self):
        """The command in front of smbd and its tools; all they use is in the tests' directory."""
        dirs = [BASE] + [self.module_dir] * bool(self.module_dir)
        return debian.wrap(self.release, *dirs) if self.release else ()

    def tool(self, *argv, text="", check=True):
        """A program of Samba on this server's own databases (pdbedit, net, ...)."""
        done = subprocess.run([*self.wrap, *argv, "-s", str(self.config)], input=text, text=True,
                              capture_output=True, env=self.environment(), timeout=300)
        if check:
            assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def _make_users(self):
        if (self.workdir / "private" / "passdb.tdb").exists():
            return
        self.tool("net", "setlocalsid", SID)
        for user, (_, _, rid) in USERS.items():
            self.tool("pdbedit", "-a", "-t", "-u", user, "-U", str(rid),
                      text="%s\n%s\n" % (PASSWORD, PASSWORD))
        self.tool("net", "sam", "rights", "grant", "root", *PRIVILEGES)

    @property
    def version(self):
        return tuple(map(int, re.findall(r"\d+", self.tool("smbd", "--version").stdout)[:2]))

    def sid(self, user):
        return "%s-%d" % (SID, USERS[user][2])

    # -- life ---------------------------------------------------------------

    def _choose_ports(self):
        self.port = free_port()

    def _spawn(self):
        self.write_config()
        self._make_users()
        self._popen([*self.wrap, BINARY, "--foreground", "--no-process-group", "-s",
                     str(self.config)], self.workdir / "log" / "smbd.out", self.environment())

    def _ready(self):
        self._is_up()
        for share in self.shares:
            # smbclient: whatever signing, encryption and dialect this server insists on
            done = self.smbclient("exit", share=share.name)
            if any(status in done.stdout + done.stderr for status in STARTING):
                return False
            assert done.returncode == 0, done.stdout + done.stderr + self.tail()
        return True

    def _states(self):
        """{pid: state} of what processes() tells."""
        states = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):    # asked for very often
            try:
                with open("/proc/%s/stat" % pid, "rb") as f:
                    fields = f.read().rpartition(b")")[2].decode().split()
            except OSError:
                continue
            if int(fields[3]) == self.pid and fields[0] not in "ZX":
                states[int(pid)] = fields[0]
        return states

    def processes(self):
        """Pids of the server: the listener, one for each client, and helpers."""
        return list(self._states())

    def pid_of(self, client):
        """The process that serves a client: the one whose socket is the other end."""
        ends = "%04X" % self.port, "%04X" % client.socket.getsockname()[1]
        rows = (line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines())
        inode = next(row[9] for row in rows
                     if (row[1].rpartition(":")[2], row[2].rpartition(":")[2]) == ends)
        for pid in self.processes():
            for fd in pathlib.Path("/proc/%d/fd" % pid).glob("*"):
                with contextlib.suppress(OSError):
                    if os.readlink(fd) == "socket:[%s]" % inode and pid != self.pid:
                        return pid
        raise AssertionError("no process of server %s has this connection" % self.name)

    def has_open(self, path):
        """For any client? Until it has not, smbd tells the write time that the file had when it was
        opened, whatever programs beside it do."""
        for pid in self.processes():
            for fd in pathlib.Path("/proc/%d/fd" % pid).glob("*"):
                with contextlib.suppress(OSError):
                    if os.readlink(fd) == str(path):
                        return True
        return False

    def kill_client(self, client):
        """Crash the process that serves this client, and no other."""
        os.kill(self.pid_of(client), signal.SIGKILL)

    def _signal(self, sig):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):    # a client's ends when it likes
                os.kill(pid, sig)

    def _end(self, sig):
        """Every process of the server: its session is its own."""
        if self.process:
            self._signal(signal.SIGCONT)
            self._signal(sig)
            self.process.wait()
            # again: one that was just forked when we looked
            wait_until(lambda: self._signal(sig) or not self.processes(), 60,
                       "end of server %s" % self.name)

    def _ended(self, timeout):
        self.process.wait(timeout)
        # Clients' processes are told, and end on their own.
        wait_until(lambda: not self.processes(), timeout, "end of the clients' processes")

    def sigstop(self):
        """Freeze all of it.  Returns once all processes stand, also those just forked."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: self._states()[self.pid] == "T", 60, "listener frozen")
        wait_until(lambda: self._signal(signal.SIGSTOP) or
                   set(self._states().values()) == {"T"}, 60, "server %s frozen" % self.name)

    def sigcont(self):
        self._signal(signal.SIGCONT)

    # -- talking to it -------------------------------------------------------

    def unc(self, share=None):
        return "//%s/%s" % (self.host, share or self.shares[0].name)

    def url(self, share=None):
        """The URL that libsmbclient takes."""
        return "smb://%s:%d/%s" % (self.host, self.port, share or self.shares[0].name)

    def client(self, user="root", share=None, **options):
        """An smb2client.Client as a user of this server."""
        return Client(self.host, self.port, share or self.shares[0].name, user, PASSWORD,
                      **options)

    def client_tool(self, program, *argv, user="root", timeout=120):
        """A client program of Samba, as a user of this server."""
        return subprocess.run(
            [program, "-s", str(self.config), "-p", str(self.port), "-U",
             "%s%%%s" % (user, PASSWORD), *map(str, argv)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout)

    def smbclient(self, commands, *argv, user="root", share=None, timeout=120):
        return self.client_tool("smbclient", self.unc(share), "-c", commands, *argv,
                                user=user, timeout=timeout)
