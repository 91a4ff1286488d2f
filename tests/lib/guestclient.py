# SPDX-License-Identifier: GPL-3.0-or-later
"""GuestClient: a machine in QEMU with Linux's own NFS client, and programs that nobody here wrote.

    with GuestClient(workdir) as g:
        g.mount(server, "/mnt")                 # of lib.ganesha; proto="v3" or "v4.1"
        g.run("git -C /mnt/repo fsck")          # what it said; fails if that does
        g.unmount("/mnt")

Its kernel is Debian's cloud kernel; its file system has git, sqlite3, make and a C compiler, on a disk that is
its own and forgotten in the end.  Servers are reached by the loopback of this machine.  What it says is in
workdir/console.log.  It is emulated, as lib/guest.py tells.
"""
import atexit
import functools
import pathlib
import socket
import subprocess

from lib.guest import ACCEL, BROKEN, NO_KVM, QEMU, READY, START_S, archive, modules
from lib.programs import TOOLS
from lib.wait import wait_until

RELEASE = "bookworm"
PACKAGES = ("linux-image-cloud-amd64", "busybox-static", "git", "sqlite3", "make", "tcc", "libc6-dev")
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "nfsv3", "nfsv4")
HERE = "10.0.2.2"               # this machine, as the guest sees it
COMMAND_S = 900                 # emulated, on a busy machine

INIT = r"""#!/bin/busybox sh
# the guest's first process: tests/lib/guestclient.py
/bin/busybox --install -s /bin
export PATH=/bin
broken() { echo "BROKEN: $*"; poweroff -f; }
mkdir -p /proc /sys /dev /disk
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev || broken mounts
exec < /dev/console > /dev/console 2>&1
while read -r module; do
	insmod "/modules/$module" || echo "no module $module"
done < /modules/order
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2 ||
	broken network
mount -t ext4 /dev/vda /disk || broken disk
mount -t proc proc /disk/proc && mount -t devtmpfs dev /disk/dev && mount -t tmpfs tmp /disk/tmp ||
	broken "mounts of the disk"
stty -F /dev/ttyS1 raw -echo || broken "command line"
echo "READY"
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LANG=C.UTF-8
exec chroot /disk /bin/sh -c 'while read -r line; do
	sh -c "$line" < /dev/null; echo; echo "== $?"
done' < /dev/ttyS1 > /dev/ttyS1 2>&1
""".replace("BROKEN", BROKEN).replace("READY", READY)
GIT = "git config --global user.name client && git config --global user.email client@example.org"


@functools.cache
def root():
    """Where what it boots from is, installed."""
    done = subprocess.run([str(TOOLS / "debian-root"), RELEASE, *PACKAGES], text=True, stdout=subprocess.PIPE,
                          timeout=3600)
    assert done.returncode == 0, "debian-root: see above"
    return pathlib.Path(done.stdout.strip())


class Failed(AssertionError):
    pass


class GuestClient:
    def __init__(self, workdir):
        self.workdir = pathlib.Path(workdir)
        self.process = self.line = self.said = None

    @property
    def console(self):
        return self.workdir / "console.log"

    # -- life -------------------------------------------------------------------------

    def start(self):
        self.workdir.mkdir(parents=True, exist_ok=True)
        kernel = sorted(path.name for path in (root() / "lib/modules").iterdir())[-1]
        loaded = modules(root() / "lib/modules" / kernel, MODULES)
        files = {"bin/busybox": (0o755, (root() / "bin/busybox").read_bytes()), "init": (0o755, INIT.encode())}
        files.update(("modules/" + name, (0o644, data)) for name, data in loaded)
        files["modules/order"] = (0o644, "".join(name + "\n" for name, _ in loaded).encode())
        (self.workdir / "initrd").write_bytes(archive(files))
        image = self.workdir / "disk"
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", str(root()), str(image), "1500M"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        listens = socket.socket(socket.AF_UNIX)
        listens.bind(str(self.workdir / "command"))
        listens.listen(1)
        argv = ["setpriv", "--pdeathsig", "KILL", QEMU, "-accel", ACCEL, "-m", "1024", "-smp", "2",
                "-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot",
                "-serial", "file:%s" % self.console,
                "-serial", "unix:%s" % (self.workdir / "command"),
                "-kernel", str(root() / "boot" / ("vmlinuz-" + kernel)),
                "-initrd", str(self.workdir / "initrd"),
                "-append", "console=ttyS0 panic=-1 loglevel=4",
                "-drive", "file=%s,if=virtio,format=raw,snapshot=on" % image,
                "-netdev", "user,id=net,ipv6=off", "-device", "virtio-net-pci,netdev=net,romfile="]
        with listens, open(self.workdir / "qemu.log", "wb") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)
            atexit.register(self.stop)
            listens.settimeout(60)
            self.line = listens.accept()[0]
        self.line.settimeout(COMMAND_S)
        self.said = self.line.makefile("r", encoding="utf-8", errors="replace", newline="\n")
        wait_until(self._is_ready, START_S, "the guest")
        self.run(GIT)
        return self

    def _is_ready(self):
        said = self.console.read_text(errors="replace") if self.console.exists() else ""
        self._alive(said)
        return READY in said

    def _alive(self, said):
        told = (self.workdir / "qemu.log").read_text(errors="replace")
        assert self.process.poll() is None and BROKEN not in said and NO_KVM not in told, \
            "the guest ended:\n%s%s" % (told, said[-4000:])

    def stop(self):
        """At once: what it has not written is lost."""
        atexit.unregister(self.stop)
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
        if self.line:
            self.said.close()
            self.line.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        self.stop()

    # -- work -------------------------------------------------------------------------

    def run(self, command, check=True):
        """One line for its shell: what that printed."""
        assert "\n" not in command
        self.line.sendall(command.encode() + b"\n")
        lines = []
        while True:
            line = self.said.readline()
            assert line, "the guest ended: %s" % self.console.read_text(errors="replace")[-4000:]
            if line.startswith("== "):
                break
            lines.append(line)
        text, status = "".join(lines).removesuffix("\n"), int(line[3:])
        if check and status:
            raise Failed("%s: exit status %d\n%s" % (command, status, text[-6000:]))
        return text

    def mount(self, server, at, proto="v4.1"):
        """@server of lib.ganesha; at @at, which is made."""
        if proto == "v3":
            options = "vers=3,proto=tcp,port=%d,mountport=%d,mountproto=tcp,nolock" % (server.port, server.mount_port)
        else:
            options = "vers=4.1,proto=tcp,clientaddr=10.0.2.15,port=%d" % server.port
        self.run("mkdir -p %s && mount -i -t %s -o %s,sec=sys,addr=%s %s:%s %s" % (
            at, "nfs" if proto == "v3" else "nfs4", options, HERE, HERE, server.pseudo, at))

    def unmount(self, at):
        self.run("umount " + at)
