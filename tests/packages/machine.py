# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of some Debian release: a root directory over a cached one, in the namespaces of
this process (packaging/test has made them), and a runner for the units that packages install.

There is no systemd in it. A program called systemctl notes what it is told, and the test does
it. So the maintainer scripts' calls are seen, too.
"""
import contextlib
import fnmatch
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> /run/systemctl.calls
"""
# What changes by itself, or is the test's own.
NOT_OURS = ("dev", "proc", "sys", "srv", "tmp", "run/rpcbind", "run/lock", "var/cache", "var/log",
            "var/lib/dpkg", "var/lib/apt", "var/lib/samba", "var/lib/nfs", "run/samba",
            "run/ganesha", "var/spool", "var/tmp", "usr/share/python3", "packages")


class Trouble(Exception):
    """The test cannot go on, or something is wrong: one line."""


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Trouble("%s did not happen within %d s" % (what, seconds))
        time.sleep(0.1)


class Machine:
    def __init__(self, base, work):
        """@base: a directory of tests/tools/debian-root, left as it is; @work: where we write."""
        self.work = Path(work)
        self.root = self.work / "root"
        self.units = {}
        for name in ("upper", "overlay", "root"):
            (self.work / name).mkdir(parents=True)
        self._mount("-t", "overlay", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (
            base, self.work / "upper", self.work / "overlay"), self.root)
        self._mount("-t", "proc", "proc", self.root / "proc")
        for name in ("dev", "sys"):
            self._mount("--rbind", "/" + name, self.root / name)
        self._mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", self.root / "run")
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "run/lock").mkdir()
        (self.root / "run/rpcbind").mkdir()
        with contextlib.suppress(FileExistsError):
            (self.root / "etc/mtab").symlink_to("../proc/self/mounts")
        fake = self.work / "systemctl"
        fake.write_text(SYSTEMCTL)
        fake.chmod(0o755)
        self._mount("--bind", fake, self.root / "usr/bin/systemctl")

    @staticmethod
    def _mount(*argv):
        subprocess.run(["mount", *map(str, argv)], check=True)

    def file_system(self, path, size):
        """A new XFS, mounted at path."""
        image = self.work / (path.name + ".image")
        with open(image, "wb") as f:
            f.truncate(size)
        subprocess.run(["mkfs.xfs", "-q", "-i", "size=1024", image], check=True)
        path.mkdir(parents=True)
        self._mount("-o", "loop,noatime", image, path)
        (path / "data").mkdir(mode=0o755)
        return path / "data"

    # -- programs -------------------------------------------------------------

    def command(self, argv):
        return ["chroot", str(self.root), "/usr/bin/env", "-i", "PATH=" + PATH, "LC_ALL=C.UTF-8",
                "HOME=/root", "DEBIAN_FRONTEND=noninteractive", *map(str, argv)]

    def run(self, *argv, text="", check=True):
        done = subprocess.run(self.command(argv), input=text, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900)
        if check and done.returncode:
            raise Trouble("%s: status %d\n%s%s" % (shlex.join(map(str, argv)), done.returncode,
                                                   done.stdout[-3000:], done.stderr[-3000:]))
        return done

    def install(self, packages):
        """As an administrator does it, from a directory; what they need is there already."""
        directory = self.root / "packages"
        directory.mkdir(exist_ok=True)
        self._mount("--bind", packages, directory)
        try:
            names = sorted("/packages/" + p.name for p in directory.glob("*.deb")
                           if "-dbgsym_" not in p.name)
            self.run("apt-get", "-q", "-y", "--no-install-recommends", "-o",
                     "Dpkg::Options::=--force-unsafe-io", "-o", "APT::Sandbox::User=",
                     "install", *names)
        finally:
            subprocess.run(["umount", directory], check=True)

    def calls(self):
        """What systemctl was told since the last look."""
        path = self.root / "run/systemctl.calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def files(self):
        """{path: (type and mode, link)} of what packages could have left."""
        found = {}
        for directory, dirs, files in os.walk(self.root):
            below = os.path.relpath(directory, self.root)
            dirs[:] = [d for d in dirs if os.path.normpath(os.path.join(below, d))
                       not in NOT_OURS and d != "__pycache__"]
            for name in dirs + files:
                path = os.path.join(directory, name)
                found[os.path.normpath(os.path.join(below, name))] = (
                    os.lstat(path).st_mode, os.path.islink(path) and os.readlink(path))
        return found

    # -- units ----------------------------------------------------------------

    def start(self, name):
        self.units[name] = Unit(self, name)
        self.units[name].start()

    def stop(self, name):
        self.units.pop(name).stop()

    def restart(self, pattern):
        """systemctl try-restart: of what runs."""
        for name in fnmatch.filter(self.units, pattern):
            self.units[name].stop()
            self.units[name].start()

    def obey(self, calls):
        """Do what maintainer scripts have asked systemctl for."""
        for call in calls:
            verb, *names = [word for word in shlex.split(call) if not word.startswith("-")]
            if verb == "try-restart":
                for name in names:
                    self.restart(name)
            elif verb == "stop":
                for name in [u for pattern in names for u in fnmatch.filter(self.units, pattern)]:
                    self.stop(name)
            elif verb not in ("daemon-reload", "list-units"):
                raise Trouble("a maintainer script calls systemctl %s" % call)

    def processes(self, program):
        """Pids of a program of this machine (all processes here are the test's own)."""
        found = []
        for proc in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(proc / "root") == str(self.root) and \
                        (proc / "comm").read_text().strip() == program[:15]:
                    found.append(int(proc.name))
        return sorted(found)


def unescaped(instance):
    """systemd-escape --unescape."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m.group(1), 16)),
                  instance.replace("-", "/"))


class Unit:
    """One unit as its file says it is started and stopped: a small part of systemd.service(5).
    The sandbox is left out; tests of the units look at that."""

    def __init__(self, machine, name):
        self.machine, self.name, self.process = machine, name, None
        stem, _, kind = name.rpartition(".")
        stem, at, self.instance = stem.partition("@")
        for where in ("etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"):
            path = machine.root / where / (stem + at + "." + kind)
            if path.is_file():
                break
        else:
            raise Trouble("no package has installed a unit %s" % name)
        self.keys = {}
        for line in path.read_text().replace("\\\n", " ").splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith(("#", ";")):
                self.keys.setdefault(key.strip(), []).append(value.strip())

    def one(self, key, default=""):
        return self.keys.get(key, [default])[-1]

    def specifiers(self, text):
        known = {"%": "%", "i": self.instance, "I": unescaped(self.instance),
                 "f": "/" + unescaped(self.instance), "n": self.name, "t": "/run"}
        return re.sub(r"%(.)", lambda m: known[m.group(1)], text)

    def environment(self):
        env = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
        for value in self.keys.get("Environment", []):
            env.update(word.partition("=")[::2] for word in shlex.split(self.specifiers(value)))
        for value in self.keys.get("EnvironmentFile", []):
            path = self.machine.root / value.lstrip("-").lstrip("/")
            if path.exists():
                env.update(word.partition("=")[::2] for line in path.read_text().splitlines()
                           if not line.startswith("#") for word in shlex.split(line))
        return env

    def argv(self, line, env):
        words = []
        for word in shlex.split(self.specifiers(line.lstrip("-+!:@"))):
            alone = re.fullmatch(r"\$(\w+)", word)
            if alone:
                words += shlex.split(env.get(alone.group(1), ""))
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda m: env.get(m.group(1), ""), word))
        return words

    def start(self):
        for path in self.keys.get("ConditionPathExists", []):
            if not (self.machine.root / self.specifiers(path).lstrip("/")).exists():
                raise Trouble("%s: its condition %s is not there" % (self.name, path))
        for name in " ".join(self.keys.get("RuntimeDirectory", [])).split():
            (self.machine.root / "run" / name).mkdir(exist_ok=True)
        env, kind = self.environment(), self.one("Type", "simple")
        notified = self.listen(env) if kind.startswith("notify") else None
        log = open(self.machine.work / (self.name + ".log"), "ab")
        self.process = subprocess.Popen(
            ["chroot", self.machine.root, *self.argv(self.one("ExecStart"), env)], env=env,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        if kind == "forking":
            if self.process.wait(60):
                raise Trouble("%s does not start: status %d" % (self.name,
                                                                self.process.returncode))
        elif notified:
            wait_for("%s ready" % self.name, lambda: self.ready(notified))
            notified.close()

    def listen(self, env):
        path = self.machine.root / "run" / ("notify-%d" % len(os.listdir(self.machine.work)))
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        here = os.open(path.parent, os.O_PATH)      # a socket's path may have 107 bytes only
        sock.bind("/proc/self/fd/%d/%s" % (here, path.name))
        os.close(here)
        sock.setblocking(False)
        env["NOTIFY_SOCKET"] = "/run/" + path.name
        return sock

    def ready(self, sock):
        if self.process.poll() is not None:
            raise Trouble("%s ended with status %d: %s" % (self.name, self.process.returncode,
                                                           self.log()[-1500:]))
        with contextlib.suppress(BlockingIOError):
            return b"READY=1" in sock.recv(4096).split(b"\n")
        return False

    def log(self):
        return (self.machine.work / (self.name + ".log")).read_text(errors="replace")

    def main(self):
        """Pids of what runs."""
        if self.one("Type") != "forking":
            return [self.process.pid] if self.process.poll() is None else []
        program = re.findall(r"/usr/s?bin/([\w.]+)", self.one("ExecStart"))[0]
        return self.machine.processes(program)

    def stop(self):
        for pid in self.main():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_for("end of %s" % self.name, lambda: not self.main())
