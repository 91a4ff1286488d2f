# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of some Debian release with stock servers, booted by its own systemd (lib/machine.py),
on which an administrator installs packages with apt."""
import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from lib import machine
from lib.wait import wait_until

# What changes by itself, or is the test's own.
NOT_OURS = ("dev", "proc", "sys", "srv", "tmp", "run", "var/cache", "var/log", "var/lib/dpkg",
            "var/lib/apt", "var/lib/samba", "var/lib/nfs", "var/lib/systemd", "var/spool",
            "var/tmp", "usr/share/python3", "packages")
DISK = "[Unit]\nBefore=local-fs.target\n[Mount]\nWhat=/srv/%s.disk\nWhere=/srv/%s\nType=xfs\n" \
    "Options=loop,noatime\n[Install]\nWantedBy=local-fs.target\n"
SLOW = 300      # seconds, for a machine that does other things, too


class Trouble(Exception):
    """The test cannot go on, or something is wrong: one line."""


def wait_for(what, condition, seconds=SLOW):
    try:
        return wait_until(condition, seconds, what)
    except TimeoutError as err:
        raise Trouble(str(err)) from err


def make_xfs(image, size):
    with open(image, "wb") as f:
        f.truncate(size)
    subprocess.run(["mkfs.xfs", "-q", "-i", "size=1024", image], check=True)


class Machine(machine.Machine):
    def __init__(self, base, work, disks, **more):
        """@base: a directory of tests/tools/debian-root, left as it is; @disks: names of file
        systems that are mounted at /srv/NAME."""
        super().__init__(work, lower=base, build=None, **more)
        self.disks = disks
        (self.upper / "srv").mkdir()
        for name in disks:
            (self.upper / "srv" / name).mkdir()
            self.file("/etc/systemd/system/srv-%s.mount" % name, DISK % (name, name))

    def image(self, name):
        return self.upper / "srv" / (name + ".disk")

    def new_disks(self, size):
        for name in self.disks:
            make_xfs(self.image(name), size)
        return self

    def give_disks(self, other):
        """To another machine, as an administrator pulls them out of this one."""
        for name in self.disks:
            self.systemctl("stop", "srv-%s.mount" % name)   # which fails while somebody uses it
        self.off()
        for name in self.disks:
            os.rename(self.image(name), other.image(name))

    def boot(self):
        super().boot()
        # debian-root's, which keeps servers from being started while the root is made; and an
        # index of all manuals after each installation
        self.run("rm", "-f", "/usr/sbin/policy-rc.d", "/var/lib/man-db/auto-update")
        for name in self.disks:
            self.systemctl("enable", "--now", "srv-%s.mount" % name)
        return self

    @property
    def root(self):
        """What is in there, seen from here."""
        return Path("/proc/%d/root" % self.pid)

    def say(self, *argv, text=None, check=True):
        """A command as an administrator's shell has it; Trouble if it fails."""
        done = self.run("env", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *argv,
                        input=text, check=False)
        if check and done.returncode:
            raise Trouble("%s: status %d\n%s%s" % (" ".join(map(str, argv)), done.returncode,
                                                   done.stdout[-3000:], done.stderr[-3000:]))
        return done

    # -- packages -------------------------------------------------------------

    def apt(self, verb, *names, check=True):
        return self.say("apt-get", "-q", "-y", "--no-install-recommends", "--allow-downgrades",
                        "-o", "Dpkg::Options::=--force-unsafe-io", "-o", "APT::Sandbox::User=",
                        verb, *names, check=check)

    def install(self, packages):
        """As an administrator does it, from a directory; what they need is there already."""
        directory = self.root / "packages"
        shutil.copytree(packages, directory)
        try:
            self.apt("install", *sorted("/packages/" + p.name for p in directory.glob("*.deb")
                                        if "-dbgsym_" not in p.name))
        finally:
            shutil.rmtree(directory)

    def version(self, package):
        """None if it is not installed."""
        done = self.say("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", package,
                        check=False).stdout
        return done[3:].strip() if done[1:2] == "i" else None

    def files(self):
        """{path: (type and mode, link)} of what packages could have left."""
        found = {}
        for directory, dirs, files in os.walk(self.root):
            below = os.path.relpath(directory, self.root)
            dirs[:] = [d for d in dirs if os.path.normpath(os.path.join(below, d))
                       not in NOT_OURS and d != "__pycache__"]
            for name in dirs + files:
                path = os.path.join(directory, name)
                with contextlib.suppress(FileNotFoundError):
                    found[os.path.normpath(os.path.join(below, name))] = (
                        os.lstat(path).st_mode, os.path.islink(path) and os.readlink(path))
        return found

    # -- units ----------------------------------------------------------------

    def start(self, *units):
        done = self.run("systemctl", "start", *units, check=False)
        if done.returncode:
            raise Trouble("%s does not start: %s%s" % (" ".join(units), done.stderr,
                                                       self.journal("-n", "30")))

    def is_active(self, unit):
        return self.show(unit, "ActiveState") == "active"

    def life(self, unit):
        """Another one each time it is started; the process that systemd watches."""
        return self.show(unit, "InvocationID"), self.show(unit, "MainPID")
