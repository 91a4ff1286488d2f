# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of tests/bench/protocols: real files, and places where a cold access is measured.

    real/       of /usr, in its own directories
    small/      300 files of 4 KiB
    deep/       8 levels of 300 entries each; COLD is the last one's file
    big/        three large files
Only what both protocols show alike: files and directories (links as their targets), no
names that SMB has to mangle, no two that differ by case alone.
"""
import os
import shutil
from pathlib import Path

MIB = 1 << 20
ROOTS = ("/usr/share", "/usr/include", "/usr/lib")
FILE_MAX = 4 * MIB              # real ones: the large files are ours
WIDTH, LEVELS = 300, 8
SMALL = 4096
BIG = 3
COLD = "/".join(["deep"] + ["level%d" % i for i in range(1, LEVELS)] + ["cold"])


def small(number):
    return "small/file%03d" % number


def shown_alike(name, taken):
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    plain = not (set(name) & set('\\:*?"<>|') or name[-1] in ". " or min(name) < " ")
    return plain and name.lower() not in taken


class Filler:
    """Copies real files until it has so many objects, or so many bytes."""

    def __init__(self, objects, size):
        self.objects, self.left = objects, size

    def enough(self):
        return self.objects <= 0 or self.left <= 0

    def copy(self, source, target):
        target.mkdir()
        self.objects -= 1
        taken = set()
        with os.scandir(source) as it:
            entries = sorted(it, key=lambda e: e.name)
        for e in entries:
            if self.enough():
                return
            if not shown_alike(e.name, taken):
                continue
            taken.add(e.name.lower())
            if e.is_dir(follow_symlinks=False):
                self.copy(e.path, target / e.name)
            elif e.is_file() and e.stat().st_size <= min(FILE_MAX, self.left):
                shutil.copy2(e.path, target / e.name)
                self.left -= e.stat().st_size
                self.objects -= 1


def fill_dir(path, count):
    path.mkdir()
    for number in range(count):
        (path / ("file%03d" % number)).write_bytes(os.urandom(SMALL))


def build(root, objects, mib):
    """Fill an empty directory with about so many objects and MiB."""
    root = Path(root)
    fill_dir(root / "small", WIDTH)
    at = root / "deep"
    for level in range(1, LEVELS + 1):
        fill_dir(at, WIDTH - 1)
        if level < LEVELS:
            at /= "level%d" % level
    (root / COLD).write_bytes(os.urandom(SMALL))
    filler = Filler(objects - (LEVELS + 1) * WIDTH, mib * MIB // 2)
    (root / "real").mkdir()
    for top in ROOTS:
        if not filler.enough():
            filler.copy(top, root / "real" / top.replace("/", "_").strip("_"))
    rest = max(BIG * MIB, mib * MIB - contents(root)[1])
    (root / "big").mkdir()
    for number in range(BIG):
        with open(root / "big" / ("file%d" % number), "wb") as f:
            for _ in range(rest // BIG // MIB):
                f.write(os.urandom(MIB))
    os.sync()


def contents(root):
    """(objects, bytes) below a directory, but for the volume's own."""
    objects = size = 0
    for top, dirs, files in os.walk(root):
        if ".postcopy" in dirs:
            dirs.remove(".postcopy")
        objects += len(dirs) + len(files)
        size += sum(os.lstat(os.path.join(top, f)).st_size for f in files)
    return objects, size
