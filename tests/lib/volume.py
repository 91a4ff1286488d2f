# SPDX-License-Identifier: GPL-3.0-or-later
"""LoopVolume: a real file system of its own for one test, in a sparse image.

    with LoopVolume(parent, "xfs", size="2G") as vol:
        (vol.path / "file").write_bytes(b"...")

Cleaning up never gives up half way: a busy mount is unmounted lazily, the loop
device is detached and the image removed whatever went wrong before.  Volumes
of a run that was killed are removed by sweep_stale() of a later one.
"""
import atexit
import ctypes
import errno
import itertools
import os
import pathlib
import shutil
import subprocess
import time

from lib.wait import wait_until

MKFS = {"xfs": ["mkfs.xfs", "-q", "-f", "-i", "size=1024"],
        "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1"],
        "btrfs": ["mkfs.btrfs", "-q", "-f"]}
OWNER = "owner"        # file in each volume's directory: pid and its start time
_number = itertools.count(1)


class VolumeError(Exception):
    pass


def _run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise VolumeError("%s: %s" % (" ".join(argv), done.stderr.strip()))
    return done.stdout.strip()


def process_start(pid):
    """Start time of a process in ticks, None if there is none."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_mounted(path):
    want = os.path.realpath(path)
    with open("/proc/self/mountinfo") as f:
        return any(line.split()[4].encode().decode("unicode_escape") == want
                   for line in f)


def unmount(path, patience=5.0):
    """Unmount; a mount that stays busy is detached from the tree."""
    end = time.monotonic() + patience
    while is_mounted(path):
        if subprocess.run(["umount", path], capture_output=True).returncode == 0:
            continue
        if time.monotonic() > end:
            subprocess.run(["umount", "-l", path], check=False)
            return False
        time.sleep(0.05)
    return True


class LoopVolume:
    """Attributes: path (mount point), device (/dev/loopN), image."""

    def __init__(self, parent, fstype="xfs", size="2G", options="", mkfs=(),
                 name=None):
        self.fstype, self.size, self.options = fstype, size, options
        self.mkfs_options = list(mkfs)
        name = name or "vol-%d-%d" % (os.getpid(), next(_number))
        self.home = pathlib.Path(parent) / name
        self.image = self.home / "image"
        self.path = self.home / "mnt"
        self.device = None

    # -- life ---------------------------------------------------------------

    def create(self):
        """Make the image, the file system, and mount it; returns self."""
        self.home.mkdir(parents=True)
        (self.home / OWNER).write_text("%d %d\n" % (
            os.getpid(), process_start(os.getpid())))
        atexit.register(self.destroy)
        try:
            self._prepare()
            _run("truncate", "-s", self.size, str(self.image))
            _run(*MKFS[self.fstype], *self.mkfs_options, str(self.image))
            self.device = _run("losetup", "--find", "--show", str(self.image))
            self.mount()
        except BaseException:
            self.destroy()
            raise
        return self

    def destroy(self):
        """Undo everything; harmless when called twice."""
        atexit.unregister(self.destroy)
        _clear(self.home)
        self.device = None

    def __enter__(self):
        return self.create() if self.device is None else self

    def __exit__(self, *exc):
        self.destroy()

    def _prepare(self):
        """The mount point, on a mount that is shared: what is unmounted there goes from all
        namespaces that others began meanwhile, if these are slaves of this one."""
        _run("mount", "--bind", str(self.home), str(self.home))
        _run("mount", "--make-shared", str(self.home))
        self.path.mkdir()

    # -- in between ---------------------------------------------------------

    def mount(self, options=None):
        options = self.options if options is None else options
        argv = ["mount", "-t", self.fstype]
        if options:
            argv += ["-o", options]
        _run(*argv, self.device, str(self.path))

    def umount(self):
        """Unmount for good reasons (offline check, power cut); busy: error."""
        _run("umount", str(self.path))
        wait_until(lambda: not self.is_in_use(), 120, "%s, unmounted everywhere" % self.device)

    def is_in_use(self):
        """Is it mounted in any namespace?"""
        try:
            os.close(os.open(self.device, os.O_RDONLY | os.O_EXCL))
        except OSError as err:
            if err.errno != errno.EBUSY:
                raise
            return True
        return False

    def remount(self, options=None):
        """Unmount and mount again: empties the kernel's caches of it."""
        self.umount()
        self.mount(options)

    def twin(self, *change):
        """The same file system once more, block by block, mounted; change: a command that
        is run on its device before. This one must be unmounted."""
        twin = LoopVolume(self.home.parent, self.fstype, self.size, self.options,
                          name=self.home.name + "-twin")
        twin.home.mkdir()
        shutil.copy(self.home / OWNER, twin.home)
        atexit.register(twin.destroy)
        try:
            twin._prepare()
            _run("cp", "--sparse=always", str(self.image), str(twin.image))
            twin.device = _run("losetup", "--find", "--show", str(twin.image))
            said = _run(*change, twin.device) if change else ""
            if "ERROR" in said:         # xfs_admin ends with 0
                raise VolumeError("%s: %s" % (" ".join(change), said))
            twin.mount()
        except BaseException:
            twin.destroy()
            raise
        return twin

    def check(self):
        """Run the file system's checker; the volume must be unmounted."""
        tool = {"xfs": ["xfs_repair", "-n"], "ext4": ["e2fsck", "-fn"],
                "btrfs": ["btrfs", "check"]}[self.fstype]
        return _run(*tool, self.device)


def _clear(home):
    """Unmount, detach and remove whatever stands in a volume's directory."""
    mnt, image = home / "mnt", home / "image"
    unmount(str(mnt))
    if image.exists():
        listed = subprocess.run(["losetup", "-n", "-O", "NAME", "-j", str(image)],
                                capture_output=True, text=True).stdout
        for device in listed.split():
            subprocess.run(["losetup", "-d", device], capture_output=True)
        image.unlink(missing_ok=True)       # another run sweeps, too
    if is_mounted(str(home)) and not is_mounted(str(mnt)):
        unmount(str(home))
    if home.exists() and not is_mounted(str(mnt)):
        shutil.rmtree(home, ignore_errors=True)


def sweep_stale(parent):
    """Remove volumes below parent whose owner is gone; returns how many."""
    count = 0
    for home, subdirs, files in os.walk(parent):
        if OWNER not in files:
            continue
        subdirs.clear()                  # do not walk into the volume itself
        try:
            pid, start = map(int, (pathlib.Path(home) / OWNER).read_text().split())
        except (OSError, ValueError):
            continue
        if process_start(pid) != start:
            _clear(pathlib.Path(home))
            count += 1
    return count


def kernel_handle(path):
    """name_to_handle_at(2): (type, bytes)."""
    class Handle(ctypes.Structure):
        _fields_ = [("length", ctypes.c_uint), ("type", ctypes.c_int),
                    ("bytes", ctypes.c_ubyte * 128)]
    handle, mount = Handle(128), ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(-100, os.fsencode(path), ctypes.byref(handle),
                              ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at", str(path))
    return handle.type, bytes(handle.bytes[:handle.length])
