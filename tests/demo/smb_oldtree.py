# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of the demo's old SMB server: real files, and everything that SMB knows.

Sizes: as in oldtree.
"""
import os
import shutil
import subprocess
from pathlib import Path

import oldtree
from lib.smbtree import Builder, descriptor, parts_of

MIB = 1 << 20
CROWD = {"tiny": 100, "small": 500, "full": 5000}   # files of the one big directory
HOME = "D:PARAI(A;OICI;FA;;;{alice})(A;OICI;FR;;;S-1-22-2-70010)S:ARAI(AU;OICISAFA;FA;;;WD)"


def build(root, client, size, say):
    """Fill a share that is empty; root is where it stands."""
    root = Path(root)
    for path in oldtree.REAL[size]:
        say("copying %s" % path)
        # What links point to: an SMB server shows links as their targets.
        done = subprocess.run(["cp", "-rL", "--preserve=mode,timestamps", "--", path, root],
                              stderr=subprocess.PIPE, text=True)
        wrong = [line for line in done.stderr.splitlines() if "No such file" not in line and
                 "Too many levels" not in line]      # dangling links
        if done.returncode and wrong:
            raise OSError(wrong[0])
    left_out = unspeakable(root)
    if left_out:
        say("left out: %d names with ':', by which no SMB client can ask for them" % left_out)
    say("making files with descriptors, streams, attributes and odd names")
    Builder(client, "kinds", entries=CROWD[size], deep=30).build()
    homes(client)
    say("making a path of %d levels" % oldtree.DEPTH)
    at = Path(root, "deep")
    at.mkdir()
    oldtree.deep(os.fsencode(at / "x"), 20)
    for directory, _, files in os.walk(at):
        for name in files:
            if os.path.islink(os.path.join(directory, name)):
                os.unlink(os.path.join(directory, name))
    say("making a file of %d MiB" % (oldtree.BIG[size] // MIB))
    oldtree.big(root / "big", oldtree.BIG[size])
    os.sync()


def unspeakable(root):
    """Remove what has a ':' in its name, as many manual pages do: a stream's name begins there."""
    found = sorted(root.rglob("*:*"), reverse=True)
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(found)


def homes(client, top="home"):
    """Directories of users, who alone may enter."""
    client.mkdir(top)
    for user in ("alice", "bob", "carol"):
        home = "%s/%s" % (top, user)
        client.mkdir(home)
        raw = descriptor(HOME.replace("{alice}", "{%s}" % user))
        client.set_security(home, raw, parts_of(raw))
        for name in ("letter.docx", "photo.jpg", "notes/deep.txt"):
            if "/" in name:
                client.mkdir("%s/%s" % (home, name.split("/")[0]))
            client.write_file("%s/%s" % (home, name), os.urandom(30000))
            client.write_file("%s/%s:Zone.Identifier" % (home, name),
                              b"[ZoneTransfer]\r\nZoneId=3\r\n")


def deepest():
    """The file at the end of the deep path."""
    return "/".join(["deep", "x"] + ["level%02d" % i for i in range(1, oldtree.DEPTH)] + ["cold"])
