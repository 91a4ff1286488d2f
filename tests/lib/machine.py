# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine: a systemd as PID 1 with what `ninja install` installs, and this machine's programs.

    with Machine(workdir) as m:             # workdir: on a real file system
        m.file("/etc/ganesha/ganesha.conf", text)
        m.boot()
        m.systemctl("start", "nfs-ganesha")
        with m.network(): ...               # sockets made here are of its network

Its root is an overlay of this machine's: what is in /etc of that for systemd and the servers is
not seen, nothing starts that was not asked for, and nothing in there is changed.  The namespaces
are made by tools/boot, and all ends with it, and with us.  reboot() boots with what is on the disk by then.
"""
import atexit
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess

from lib.programs import BUILD, TOOLS
from lib.wait import wait_until

CLONE_NEWNET = 0x40000000
UNITS = "/usr/lib/systemd/system"
EMPTY = ["/etc/systemd/system", "/etc/ganesha", "/etc/samba", "/etc/postcopy", "/var/lib/ganesha",
         "/var/lib/nfs", "/var/lib/samba", "/var/lib/postcopy", "/var/log", "/var/cache/samba"]
# as the servers' packages make them
MADE = ["/var/log/ganesha", "/var/log/samba", "/var/lib/samba/private", "/var/lib/nfs/ganesha"]
# What a boot is here: /proc, /sys and /dev are there, and belong to another machine.
OWN_UNITS = {
    "sysinit.target": "[Unit]\nDefaultDependencies=no\nWants=local-fs.target "
                      "systemd-journald.socket systemd-journald.service "
                      "systemd-tmpfiles-setup.service dbus.socket\n"
                      "After=local-fs.target systemd-tmpfiles-setup.service\n",
    "default.target": "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\n",
    "multi-user.target": "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n",
    "network-online.target": "[Unit]\n",
}
MASKED = ["tmp.mount", "nfs-ganesha-lock.service", "apparmor.service", "systemd-udevd.service",
          "nmbd.service", "winbind.service", "systemd-remount-fs.service",
          "systemd-journald-audit.socket"]


class Machine:
    def __init__(self, workdir, lower="/", build=BUILD, same_network=False):
        """@build: what is installed; None: nothing, and @lower is a root of a machine of its own,
        seen as it is but for what starts by itself.  @same_network: as who boots it."""
        self.dir = pathlib.Path(workdir)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.lower, self.upper = lower, self.dir / "upper"
        self.process, self.same_network = None, same_network
        for path in EMPTY if build else EMPTY[:1]:
            self._hide(path)
        for path in MADE if build else ():
            (self.upper / path.lstrip("/")).mkdir(parents=True)
        for wants in pathlib.Path(str(lower) + UNITS).glob("*.wants"):
            self._hide(UNITS + "/" + wants.name)
        if build:
            subprocess.run(["/usr/bin/meson", "install", "-C", str(build), "--no-rebuild",
                            "--quiet", "--destdir", str(self.upper)], check=True,
                           capture_output=True)
        for name, text in OWN_UNITS.items():
            self.file("/etc/systemd/system/" + name, text)
        for name in MASKED:
            (self.upper / "etc/systemd/system" / name).symlink_to("/dev/null")
        self.file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        self.file("/etc/fstab", "")

    def _hide(self, path):
        """An empty directory, whatever is below."""
        at = self.upper / path.lstrip("/")
        at.mkdir(parents=True)
        os.setxattr(at, "trusted.overlay.opaque", b"y")

    def file(self, path, text, mode=0o644):
        """While it is off or on."""
        if self.process:
            put = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod %o "$1"' % mode
            self.run("sh", "-c", put, "sh", path, input=text)
            return
        at = self.upper / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        at.chmod(mode)

    # -- life ---------------------------------------------------------------

    def boot(self):
        with open(self.dir / "boot.log", "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(TOOLS / "boot"),
                 *["--same-network"] * self.same_network, str(self.lower), str(self.dir)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        atexit.register(self.off)
        wait_until(self._is_up, 300, "systemd (see %s)" % (self.dir / "boot.log"))
        return self

    def _is_up(self):
        assert self.process.poll() is None, (self.dir / "boot.log").read_text()
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in (
            "running", "degraded")

    @property
    def pid(self):
        """systemd's, here."""
        tasks = pathlib.Path("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid))
        return int(tasks.read_text().split()[0])

    def off(self):
        """As by the power button, held long."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)
        self.process = None
        self._forget_cgroups()

    def _forget_cgroups(self):
        with contextlib.suppress(FileNotFoundError):
            group = pathlib.Path((self.dir / "cgroup").read_text().strip())

            def gone():
                for at, _, _ in os.walk(group, topdown=False):
                    os.rmdir(at)
                return True
            wait_until(gone, 60, "the end of all in %s" % group)
            (self.dir / "cgroup").unlink()

    def reboot(self):
        self.off()
        return self.boot()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.off()
        shutil.rmtree(self.dir, ignore_errors=True)

    # -- in there -----------------------------------------------------------

    def enter(self):
        return ["nsenter", "--all", "--target", str(self.pid)]

    def run(self, *argv, check=True, input=None):
        env = {k: v for k, v in os.environ.items() if k != "POSTCOPY_VOLUMES"}  # it has its own
        done = subprocess.run([*self.enter(), *map(str, argv)], input=input, env=env,
                              stdin=None if input else subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=900)
        if check:
            assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done

    def systemctl(self, *argv, check=True):
        return self.run("systemctl", "--no-pager", *argv, check=check).stdout

    def show(self, unit, name):
        return self.systemctl("show", "--value", "-p", name, unit).strip()

    def kill(self, unit, sig=signal.SIGKILL):
        self.run("kill", "-%d" % sig, self.show(unit, "MainPID"))

    def journal(self, *match):
        return self.run("journalctl", "--no-pager", "-q", "-o", "cat", *match, check=False).stdout

    @contextlib.contextmanager
    def network(self):
        """This thread's new sockets are in its network."""
        libc = ctypes.CDLL(None, use_errno=True)
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

        def join(fd):
            if libc.setns(fd, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

        try:
            there = os.open("/proc/%d/ns/net" % self.pid, os.O_RDONLY)
            try:
                join(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                join(before)
        finally:
            os.close(before)
