# SPDX-License-Identifier: GPL-3.0-or-later
"""Damage on the disk of a volume, which no file system operation has made: change times stay,
so nothing but a comparison with the source can notice it.

    with Disk(volume) as disk:          # a LoopVolume with ext4; unmounted meanwhile
        disk.flip("volume/file", 4242)

A volume's directory is named as from the file system's root.
"""
import os
import re
import subprocess
import tempfile
import time

from lib.wait import wait_until

BLOCK = 4096


class Disk:
    def __init__(self, volume):
        assert volume.fstype == "ext4", volume.fstype
        self.volume = volume

    def __enter__(self):
        self.volume.umount()
        # a mount namespace of some other test may keep it a little longer
        mounted = os.path.join("/sys/fs/ext4", os.path.basename(self.volume.device))
        wait_until(lambda: not os.path.exists(mounted), 600, "nobody has it mounted")
        return self

    def __exit__(self, *exc):
        os.sync()
        self.volume.mount()

    def debugfs(self, *commands):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("".join(c + "\n" for c in commands))
            f.flush()
            done = subprocess.run(["debugfs", "-w", "-f", f.name, self.volume.device],
                                  capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if not line.startswith("debugfs 1.")]
        assert done.returncode == 0 and not said, (commands, done.stdout, done.stderr)
        return "\n".join(line for line in done.stdout.splitlines()
                         if not line.startswith("debugfs: "))

    def inode(self, path):
        return int(re.search(r"Inode: (\d+)", self.debugfs("stat /%s" % path))[1])

    def flip(self, path, offset):
        """One bit of a file's data."""
        block = int(self.debugfs("bmap /%s %d" % (path, offset // BLOCK)).strip())
        assert block, path
        with open(self.volume.device, "r+b", buffering=0) as disk:
            at = block * BLOCK + offset % BLOCK
            disk.seek(at - at % BLOCK)
            data = bytearray(disk.read(BLOCK))
            data[at % BLOCK] ^= 0x10
            disk.seek(at - at % BLOCK)
            disk.write(data)
            os.fsync(disk.fileno())

    def swap(self, a, b):
        """Each of two names leads to the other's file."""
        one, two = self.inode(a), self.inode(b)
        self.debugfs("unlink /%s" % a, "unlink /%s" % b, "ln <%d> /%s" % (two, a),
                     "ln <%d> /%s" % (one, b))

    def lose(self, path):
        """The name goes; nobody knows of it."""
        self.debugfs("unlink /%s" % path)

    def add(self, path, data):
        with tempfile.NamedTemporaryFile() as f:
            f.write(data)
            f.flush()
            # the birth as file systems keep it: its second alone may be before that in which the
            # directory was finished
            born, rest = divmod(time.time_ns(), 10 ** 9)
            self.debugfs("write %s /%s" % (f.name, path),
                         "set_inode_field /%s crtime @%d" % (path, born),
                         "set_inode_field /%s crtime_extra %d" % (path, rest << 2))

    def set(self, path, field, value):
        self.debugfs("set_inode_field /%s %s %s" % (path, field, value))

    def copy_link(self, path, other, data):
        """The name `other` of the same file becomes a file of its own, with the same data and
        attributes; but for the one that is left to `path`, its link count."""
        stat = self.debugfs("stat /%s" % path)
        mode = int(re.search(r"Mode:\s+(\d+)", stat)[1], 8)
        uid, gid = re.search(r"User:\s+(\d+)\s+Group:\s+(\d+)", stat).groups()
        mtime = re.search(r" mtime: 0x([0-9a-f]+):([0-9a-f]+)", stat)
        self.debugfs("unlink /%s" % other)
        self.add(other, data)
        for field, value in {"mode": "0%o" % (0o100000 | mode), "uid": uid, "gid": gid,
                             "mtime": "@0x" + mtime[1], "mtime_extra": "0x" + mtime[2]}.items():
            self.set(other, field, value)
        self.set(path, "links_count", 1)

    def get_attribute(self, path, name):
        with tempfile.NamedTemporaryFile() as f:
            self.debugfs("ea_get -f %s /%s %s" % (f.name, path, name))
            return f.read()

    def set_attribute(self, path, name, value):
        with tempfile.NamedTemporaryFile() as f:
            f.write(value)
            f.flush()
            self.debugfs("ea_set -f %s /%s %s" % (f.name, path, name))

    def lose_attribute(self, path, name):
        self.debugfs("ea_rm /%s %s" % (path, name))
