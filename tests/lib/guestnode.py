# SPDX-License-Identifier: GPL-3.0-or-later
"""GuestNode: a machine in QEMU with systemd, the servers and postcopy, beside others that reach the same
disks; what it has in memory is lost when it is killed.

    with image(place) as base:                      # the file system of all of them, which stays as it is
        node = GuestNode(place / "nas1", "nas1", base, [data, lease], port)
        node.start()                                # two disks: /dev/vda and /dev/vdb
        node.run("postcopy status /srv/shared/data")
        node.stop()                                 # at once

NFS of it is at 127.0.0.1:port, and this machine's loopback is 10.0.2.2 there.
"""
import base64
import contextlib
import os
import re
import subprocess
import tempfile

from lib.guest import BEGIN, READY, Kind, root
from lib.guestclient import GuestClient
from lib.programs import BUILD

PACKAGES = ("systemd-sysv", "sanlock", "xfsprogs", "nfs-ganesha", "nfs-ganesha-vfs", "samba", "samba-vfs-modules",
            "python3", "python3-rich", "libconfuse2", "libjson-c5", "liblmdb0", "libsmbclient", "libsanlock-client1")
LIBRARIES = {"bookworm": ("libnfs13",), "trixie": ("libnfs14",)}
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "xfs")

INIT = BEGIN + r"""
mount -t ext4 /dev/vdc /disk || broken disk
mount --move /proc /disk/proc; mount --move /sys /disk/sys; mount --move /dev /disk/dev
exec switch_root /disk /lib/systemd/systemd
"""
SHELL = r"""[Unit]
After=multi-user.target
[Service]
ExecStart=/bin/sh -c 'stty -F /dev/ttyS1 raw -echo; echo "READY" > /dev/console; \
    while read -r line; do sh -c "$line" < /dev/null; echo; echo "== $?"; done < /dev/ttyS1 > /dev/ttyS1 2>&1'
Environment=HOME=/root LANG=C.UTF-8
""".replace("READY", READY)
FILES = {
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/fstab": "", "etc/hostname": "",
    "etc/default/sanlock": 'sanlock_opts="-w 0"\n',      # who is killed here is as dead as by a watchdog
    "etc/systemd/system/shell.service": SHELL,
}
NOT_WANTED = ("systemd-timesyncd.service", "systemd-networkd.service", "systemd-resolved.service", "nmbd.service",
              "samba-ad-dc.service", "wdmd.service", "systemd-udev-settle.service", "getty.target", "serial-getty@ttyS0.service",
              "e2scrub_reap.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
              "fstrim.timer", "systemd-tmpfiles-clean.timer", "motd-news.timer")


def release():
    """Of this machine: what was built here runs there."""
    with open("/etc/os-release") as f:
        return re.search(r"^VERSION_CODENAME=(\w+)", f.read(), re.M).group(1)


KIND = Kind(release(), PACKAGES + LIBRARIES.get(release(), ()), (), MODULES)


@contextlib.contextmanager
def image(place, more=()):
    """The file system of a node: packages, what is installed, and @more {path: text}."""
    path = place / "node.img"
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", str(root(KIND)), str(path), "2500M"], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(dir=place) as at:
        subprocess.run(["mount", "-o", "loop", str(path), at], check=True)
        try:
            subprocess.run(["/usr/bin/meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--destdir", at],
                           check=True, stdout=subprocess.DEVNULL)
            system = os.path.join(at, "etc/systemd/system")
            subprocess.run("rm -rf %s/*.wants" % system, shell=True, check=True)
            for name, text in {**FILES, **dict(more)}.items():
                os.makedirs(os.path.dirname(os.path.join(at, name)), exist_ok=True)
                with open(os.path.join(at, name), "w") as f:
                    f.write(text)
            os.makedirs(system + "/multi-user.target.wants")
            os.symlink("../shell.service", system + "/multi-user.target.wants/shell.service")
            for name in NOT_WANTED:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(system, name))
                os.symlink("/dev/null", os.path.join(system, name))
        finally:
            subprocess.run(["umount", at], check=True)
    try:
        yield path
    finally:
        path.unlink()


class GuestNode(GuestClient):
    def __init__(self, workdir, name, base, disks, port):
        super().__init__(workdir)
        self.kind, self.name, self.base, self.disks, self.port = KIND, name, base, disks, port

    def start(self):
        self.workdir.mkdir(parents=True, exist_ok=True)
        command = self.workdir / "command"
        for old in command, self.console:
            old.unlink(missing_ok=True)
        drives = [word for disk in self.disks for word in (
            "-drive", "file=%s,if=virtio,format=raw,file.locking=off" % disk)]
        self.boot(command, INIT, self.base, "ipv6=off,hostfwd=tcp:127.0.0.1:%d-:2049" % self.port, *drives,
                  append="systemd.hostname=%s systemd.show_status=0 selinux=0" % self.name)
        return self

    def file(self, path, text):
        self.run("mkdir -p $(dirname %s) && echo %s | base64 -d > %s" % (
            path, base64.b64encode(text.encode()).decode(), path))
