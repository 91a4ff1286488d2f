# SPDX-License-Identifier: GPL-3.0-or-later
"""Disk images: clones by reflink, loop devices and mounts without child processes.

Everything is meant for a mount namespace of its own (unshare -m): when its last
process ends, mounts and loop devices are gone, whatever happened.
"""
import ctypes
import errno
import fcntl
import os
import pathlib
import struct
import subprocess
import time
import uuid

FICLONE = 0x40049409
LOOP_CONFIGURE, LOOP_CTL_GET_FREE = 0x4C0A, 0x4C82
AUTOCLEAR, DIRECT_IO = 4, 16
CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MKFS = {"xfs": ["mkfs.xfs", "-q", "-K", "-i", "size=1024"],
        "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]}
SIZE = {"xfs": 320 << 20, "ext4": 96 << 20}      # XFS takes no less than 300 MiB
OPTIONS = {"xfs": "nouuid", "ext4": ""}          # all clones have one UUID
_libc = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):
    """This machine lacks what power cuts need."""


def _check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def kernel_says(device, lines=6):
    """What the kernel's log has last of a device; "" if nobody may read it."""
    name = "(%s)" % os.path.basename(str(device))
    said = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace").stdout
    return "; ".join([line for line in said.splitlines() if name in line][-lines:])


def mount(device, where, fstype, options="", flags=0):
    if _libc.mount(str(device).encode(), str(where).encode(), fstype.encode(),
                   ctypes.c_ulong(flags), options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code),
                      "%s on %s: %s" % (device, where, kernel_says(device)))


def bind(source, where):
    mount(source, where, "none", flags=MS_BIND)


def umount(where, patience=10.0):
    """Unmount; what was just in use may be busy for a moment."""
    end = time.monotonic() + patience
    while _libc.umount2(str(where).encode(), 0) != 0:
        code = ctypes.get_errno()
        if code != errno.EBUSY or time.monotonic() > end:
            raise OSError(code, os.strerror(code), str(where))
        time.sleep(0.005)


def own_namespace():
    """A mount namespace for this process and its children."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", "none", flags=MS_REC | MS_SLAVE)


def new_boot(workdir):
    """From now on this namespace is another boot of the machine."""
    path = pathlib.Path(workdir) / ("boot-" + uuid.uuid4().hex)
    path.write_text("%s\n" % uuid.uuid4())
    bind(path, BOOT_ID)


def check_machine():
    """Missing, if anything that no package brings is not there."""
    if os.geteuid() != 0:
        raise Missing("power cuts need root")
    for path in ("/dev/fuse", "/dev/loop-control"):
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError as err:
            raise Missing("power cuts need %s: %s" % (path, err.strerror)) from None
    for tool in ("mkfs.xfs", "mkfs.ext4", "debugfs", "unshare"):
        if subprocess.run(["sh", "-c", "command -v %s" % tool],
                          stdout=subprocess.DEVNULL).returncode != 0:
            raise Missing("power cuts need %s" % tool)


def clone(source, target):
    """A copy that shares its blocks; both on the scratch file system."""
    a = os.open(source, os.O_RDONLY)
    try:
        b = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            fcntl.ioctl(b, FICLONE, a)
        finally:
            os.close(b)
    finally:
        os.close(a)
    return target


def loop(image, direct=False):
    """(device, descriptor): detached when the last descriptor and mount are gone."""
    flags = AUTOCLEAR | (DIRECT_IO if direct else 0)
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        config = struct.pack("<II5Q4I", backing, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags)
        config = config.ljust(8 + 232 + 64, b"\0")
        for _ in range(1000):
            control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            os.close(control)
            device = "/dev/loop%d" % number
            fd = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(fd, LOOP_CONFIGURE, config)
                return device, fd
            except OSError as err:
                os.close(fd)
                if err.errno != errno.EBUSY:     # somebody else was quicker
                    raise
        raise Missing("no loop device to be had")
    finally:
        os.close(backing)


class Mounted:
    """with Mounted(image, where, "xfs"): ..."""

    def __init__(self, image, where, fstype, options=""):
        self.image, self.where, self.fstype = image, str(where), fstype
        self.options = ",".join(o for o in (OPTIONS[fstype], options) if o)

    def __enter__(self):
        os.makedirs(self.where, exist_ok=True)
        device, fd = loop(self.image)
        try:
            mount(device, self.where, self.fstype, self.options)
        finally:
            os.close(fd)
        return self.where

    def __exit__(self, *exc):
        umount(self.where)


def make(image, fstype):
    """An empty file system."""
    with open(image, "wb") as f:
        f.truncate(SIZE[fstype])
    subprocess.run([*MKFS[fstype], str(image)], check=True, stdout=subprocess.DEVNULL)


def log_place(image, fstype):
    """(first, end) byte of the file system's own log."""
    if fstype == "ext4":
        told = subprocess.run(["debugfs", "-R", "blocks <8>", str(image)], check=True,
                              capture_output=True, text=True).stdout
        blocks = [int(word) for word in told.split()]
        with open(image, "rb") as f:         # struct ext4_super_block
            size = 1024 << struct.unpack_from("<I", f.read(2048), 1024 + 24)[0]
        return min(blocks) * size, (max(blocks) + 1) * size
    with open(image, "rb") as f:             # struct xfs_dsb
        sb = f.read(512)
    (size,), (start,) = struct.unpack_from(">I", sb, 4), struct.unpack_from(">Q", sb, 48)
    (group,), (count,) = struct.unpack_from(">I", sb, 84), struct.unpack_from(">I", sb, 96)
    first = (start >> sb[124]) * group + (start & ((1 << sb[124]) - 1))
    return first * size, (first + count) * size


def ordered_place(image, fstype):
    """(first, end) byte of what cannot be read with gaps; see disklog."""
    return log_place(image, fstype) if fstype == "xfs" else (0, 0)


def scratch(where, size=4 << 30):
    """A file system with reflinks, in memory; ends with the namespace."""
    where = pathlib.Path(where)
    memory, top = where / "memory", where / "scratch"
    memory.mkdir(parents=True)
    top.mkdir()
    mount("cuts", memory, "tmpfs", "size=%d" % size)
    image = memory / "image"
    with open(image, "wb") as f:
        f.truncate(size - (64 << 20))
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    device, fd = loop(image)
    mount(device, top, "xfs")
    os.close(fd)
    return top


class Builder:
    """The disk of a log, moved on from cut to cut; state() gives an image of it."""

    def __init__(self, log, base, workdir):
        self.log, self.workdir = log, pathlib.Path(workdir)
        self.now = clone(base, self.workdir / "now.img")
        self._fd = os.open(self.now, os.O_RDWR)
        self._data = open(log.path, "rb")

    def _bytes(self, write):
        self._data.seek(write.pos)
        return self._data.read(write.length)

    def advance(self, cut):
        for write in cut.durable:
            os.pwrite(self._fd, self._bytes(write), write.offset)

    def state(self, state, name="cut.img"):
        image = clone(self.now, self.workdir / name)
        fd = os.open(image, os.O_RDWR)
        for write in state.writes:
            os.pwrite(fd, self._bytes(write), write.offset)
        if state.torn:
            os.pwrite(fd, self._bytes(state.torn)[:state.length], state.torn.offset)
        os.close(fd)
        return image

    def close(self):
        os.close(self._fd)
        self._data.close()
        os.unlink(self.now)
