# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo starts and mounts, and how it goes away again.

Everything stands in one work directory. Each process is noted in a file there
(pid and start time), so that the next run can end what a killed run left.
"""
import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lib.ganesha import Ganesha
from lib.volume import LoopVolume, process_start, sweep_stale

PROCESSES = "processes"
MIB = 1 << 20


class DemoError(Exception):
    """Why the demo could not be run: one line that says what to do."""


class Stage(contextlib.ExitStack):
    """The work directory; leaving it ends and removes everything."""

    def __init__(self, workdir, keep):
        super().__init__()
        self.workdir, self.keep = Path(workdir), keep
        self.run = self.workdir / "run"

    def __enter__(self):
        super().__enter__()
        try:
            self.workdir.mkdir(parents=True, exist_ok=True)
            os.chmod(self.workdir, 0o755)
            lock = self.enter_context(open(self.workdir / "lock", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError("another demo is running in %s: wait, or use --workdir"
                            % self.workdir) from None
        except OSError as err:
            raise DemoError("work directory %s: %s" % (self.workdir, err)) from None
        self.sweep()
        self.run.mkdir(mode=0o755)
        self.callback(self.tidy)
        return self

    def sweep(self):
        """End and remove what a killed run left."""
        for line in self._noted():
            with contextlib.suppress(ValueError, ProcessLookupError):
                pid, start = map(int, line.split())
                if process_start(pid) == start:
                    os.kill(pid, signal.SIGKILL)
        sweep_stale(self.workdir)
        shutil.rmtree(self.run, ignore_errors=True)

    def _noted(self):
        with contextlib.suppress(OSError):
            return (self.run / PROCESSES).read_text().splitlines()
        return []

    def note(self, pid):
        with open(self.run / PROCESSES, "a") as f:
            f.write("%d %d\n" % (pid, process_start(pid) or 0))

    def tidy(self):
        if not self.keep:
            shutil.rmtree(self.run, ignore_errors=True)

    # -- room ---------------------------------------------------------------

    def need_space(self, size):
        fs = os.statvfs(self.workdir)
        free = fs.f_bavail * fs.f_frsize
        if free < size:
            raise DemoError("no space: %s has %d MiB free, needed are %d MiB (--workdir, or "
                            "--size small)" % (self.workdir, free // MIB, size // MIB))

    def loop_volume(self, name, size):
        """An XFS of its own in a sparse image; path is its mount point."""
        if not os.path.exists("/dev/loop-control"):
            raise DemoError("no loop devices: /dev/loop-control is missing (modprobe loop)")
        volume = LoopVolume(self.run, "xfs", str(size), options="noatime", name=name)
        try:
            volume.create()
        except Exception as err:
            raise DemoError("cannot make a loop file system: %s" % err) from None
        self.callback(self._destroy, volume)
        return volume

    def _destroy(self, volume):
        if self.keep:       # until the next run
            atexit.unregister(volume.destroy)
        else:
            volume.destroy()

    # -- processes ------------------------------------------------------------

    def server(self, name, tree, shim, **options):
        """A running ganesha.nfsd."""
        server = Ganesha(self.run / name, tree, name=name, shim=shim, **options)
        try:
            server.start()
        except Exception as err:
            raise DemoError("%s server does not start: %s\n%s" % (
                name, err, tail(server.log))) from None
        self.note(server.pid)
        self.callback(server.kill9)
        return server

    def samba(self, name, **options):
        """A running smbd."""
        # python3-samba is not needed for ./demo without --smb or --both
        from lib.smbd import Samba
        server = Samba(self.run / name, name=name, **options)
        try:
            server.start()
        except Exception as err:
            raise DemoError("%s server does not start: %s" % (name, err)) from None
        self.note(server.pid)
        self.callback(server.kill9)
        return server

    def daemon(self, name, *argv):
        """A process of ours; its output goes to run/NAME.log."""
        with open(self.run / (name + ".log"), "ab") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.note(process.pid)
        self.callback(end, process)
        return process

    def log_tail(self, name):
        return tail(self.run / (name + ".log"))


def tail(path, lines=15):
    with contextlib.suppress(OSError):
        return "\n".join(Path(path).read_text(errors="replace").splitlines()[-lines:])
    return ""


def end(process, patience=20.0):
    """SIGTERM, then SIGKILL."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(condition, seconds, what):
    """Poll until condition() is true; DemoError with `what` otherwise."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise DemoError(what)
        time.sleep(0.05)
