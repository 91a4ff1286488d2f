# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of the demo's old server: real files, and everything that is odd.

Sizes: "tiny" takes /usr/include/linux, "small" /usr/include, "full" /usr/share and
/usr/include. All get the same odd objects, a deep path and one big file.
"""
import os
import socket
import stat
import subprocess
from pathlib import Path

MIB = 1 << 20
REAL = {"tiny": ["/usr/include/linux"], "small": ["/usr/include"],
        "full": ["/usr/share", "/usr/include"]}
BIG = {"tiny": 16 * MIB, "small": 64 * MIB, "full": 1024 * MIB}
WIDTH = {"tiny": 5, "small": 20, "full": 200}       # entries beside each level of the deep path
CROWD = {"tiny": 100, "small": 500, "full": 5000}   # files of the one big directory
DEPTH = 16
NS = 10 ** 9

ODD_NAMES = [
    b"with space", b" leading and trailing ", b"-rf", b"--help", b"new\nline", b"tab\there",
    b"quote'\"`", b"back\\slash", b"dollar$(true)", b"star*?[a]", b"latin1-\xe4\xf6\xfc",
    b"\xff\xfe\xfd", "grüße-日本語-🙂".encode(), "e\u0301-decomposed".encode(),
    b"case", b"Case", b"CASE", b"trailing.", b"CON", b"semi;colon:colon", b".hidden", b"...",
    b"\x01\x02control", b"~tilde", b"#hash#", b"%2e%2e", b"L" * 255, b"\xe4" * 255,
]
MODES = [0o0000, 0o0400, 0o0600, 0o0644, 0o0755, 0o4755, 0o2755, 0o6711, 0o1644, 0o7777]
OWNERS = [(0, 0), (1000, 1000), (1000, 0), (65534, 65534), (3000000000, 3000000001)]
TIMES = [1, 999999999, 1000000000 * NS + 123456789, 1700000000 * NS + 1,
         2147483647 * NS + 999999999]


def needed_bytes(size):
    """What the tree takes on disk, roughly."""
    total = BIG[size] + 64 * MIB
    for path in REAL[size]:
        out = subprocess.run(["du", "-sxB1", path], capture_output=True, text=True).stdout
        total += int(out.split()[0]) if out else 0
    return total


def build(root, size, say):
    """Fill the empty directory root."""
    root = os.fsencode(root)
    for path in REAL[size]:
        say("copying %s" % path)
        subprocess.run(["cp", "-a", "--", path, os.fsdecode(root) + "/"], check=True)
    say("making odd objects")
    homes(os.path.join(root, b"home"))
    odd = os.path.join(root, b"odd")
    os.mkdir(odd)
    names(os.path.join(odd, b"names"))
    modes(os.path.join(odd, b"modes"))
    times(os.path.join(odd, b"times"))
    special(os.path.join(odd, b"special"))
    symlinks(os.path.join(odd, b"symlinks"))
    sparse(os.path.join(odd, b"sparse"))
    hardlinks(os.path.join(root, b"links"))
    crowd(os.path.join(root, b"crowd"), CROWD[size])
    say("making a path of %d levels" % DEPTH)
    deep(os.path.join(root, b"deep"), WIDTH[size])
    say("making a file of %d MiB" % (BIG[size] // MIB))
    big(os.path.join(root, b"big"), BIG[size])
    os.sync()


def deepest():
    """The file at the end of the deep path, relative to the root."""
    return b"/".join([b"deep"] + [b"level%02d" % i for i in range(1, DEPTH)] + [b"cold"])


def write(path, data=b"", mode=0o644):
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def names(top):
    os.mkdir(top)
    for name in ODD_NAMES:
        write(os.path.join(top, name), b"content of " + name)
    inside = os.path.join(top, b"dir with \n and \xff")
    os.mkdir(inside)
    write(os.path.join(inside, b"\xff\xff"), b"deeper")


def homes(top):
    """Private directories: what tells init that root is not squashed."""
    os.mkdir(top)
    for uid in (0, 1000, 1001):
        home = os.path.join(top, b"user%d" % uid)
        os.mkdir(home)
        write(os.path.join(home, b"key"), os.urandom(100))
        for path in (home, os.path.join(home, b"key")):
            os.chown(path, uid, uid)
            os.chmod(path, 0o700 if path == home else 0o600)


def modes(top):
    os.mkdir(top)
    for number, mode in enumerate(MODES):
        for uid, gid in OWNERS:
            base = b"%04o-%d-%d" % (mode, uid, gid)
            path = os.path.join(top, base)
            write(path, os.urandom(100 + number))
            os.chown(path, uid, gid)
            os.chmod(path, mode)
            os.mkdir(path + b".d")
            write(path + b".d/inside", base)
            os.chown(path + b".d", uid, gid)
            os.chmod(path + b".d", mode)


def times(top):
    os.mkdir(top)
    for number, ns in enumerate(TIMES):
        path = os.path.join(top, b"file%d" % number)
        write(path, b"x" * number)
        os.mkdir(path + b".d")
        write(path + b".d/inside")
        os.symlink(b"nowhere", path + b".link")
        for each in (path, path + b".d", path + b".link"):
            os.utime(each, ns=(ns, ns), follow_symlinks=False)
    os.utime(top, ns=(TIMES[2], TIMES[3]))


def special(top):
    os.mkdir(top)
    os.mkfifo(os.path.join(top, b"fifo"), 0o640)
    os.mknod(os.path.join(top, b"null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(os.path.join(top, b"block"), stat.S_IFBLK | 0o600, os.makedev(259, 200000))
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(top)           # a socket's path may have 107 bytes only
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
    write(os.path.join(top, b"empty"))
    os.mkdir(os.path.join(top, b"empty.d"))


def symlinks(top):
    os.mkdir(top)
    for name, target in {b"relative": b"../names/case", b"absolute": b"/etc/passwd",
                         b"dangling": b"no/such/file", b"loop": b"loop", b"up": b"../../../..",
                         b"odd": b"\xff\n \xe4", b"long": b"x/" * 500, b"dot": b"."}.items():
        os.symlink(target, os.path.join(top, name))
    os.chown(os.path.join(top, b"odd"), 1000, 1000, follow_symlinks=False)


def sparse(top):
    os.mkdir(top)
    for name, length, pieces in [(b"islands", 100 * MIB, [0, 33 * MIB + 5, 99 * MIB]),
                                 (b"hole", 10 * MIB, []), (b"tail", 20 * MIB, [0]),
                                 (b"end", 12345 * 4096 + 7, [12345 * 4096])]:
        with open(os.path.join(top, name), "wb") as f:
            for offset in pieces:
                f.seek(offset)
                f.write(os.urandom(min(4096, length - offset)))
            f.truncate(length)


def hardlinks(top):
    """Groups inside one directory, across directories, and across levels."""
    os.mkdir(top)
    for name in (b"a", b"b", b"b/c"):
        os.mkdir(os.path.join(top, name))
    for number in range(50):
        first = os.path.join(top, b"a", b"file%d" % number)
        write(first, os.urandom(1000 + number))
        for other in (b"a/again%d", b"b/other%d", b"b/c/deeper%d")[:1 + number % 3]:
            os.link(first, os.path.join(top, other % number))
    many = os.path.join(top, b"many")
    write(many, b"one of many")
    for number in range(100):
        os.link(many, os.path.join(top, b"b", b"many%d" % number))


def crowd(top, count):
    os.mkdir(top)
    for number in range(count):
        write(os.path.join(top, b"entry-%06d" % number), b"%d\n" % number)


def deep(top, width):
    os.mkdir(top)
    at = top
    for level in range(1, DEPTH):
        for number in range(width):
            os.symlink(b"beside", os.path.join(at, b"beside%04d" % number))
        at = os.path.join(at, b"level%02d" % level)
        os.mkdir(at)
    write(os.path.join(at, b"cold"), os.urandom(3 * MIB))


def big(path, length):
    block = os.urandom(16 * MIB)
    with open(path, "wb") as f:
        for number in range(length // len(block)):
            f.write(number.to_bytes(8, "big"))
            f.write(block[8:])


if __name__ == "__main__":
    import sys
    build(Path(sys.argv[2]), sys.argv[1], print)
