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
import socket
import subprocess

from lib.guest import BEGIN, READY, Kind, Machine, archive, root

KIND = Kind("bookworm", ("git", "sqlite3", "make", "tcc", "libc6-dev"), (),
            ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "nfsv3", "nfsv4"))
HERE = "10.0.2.2"               # this machine, as the guest sees it
COMMAND_S = 900                 # emulated, on a busy machine

INIT = BEGIN + r"""
mount -t ext4 /dev/vda /disk || broken disk
mount -t proc proc /disk/proc && mount -t devtmpfs dev /disk/dev && mount -t tmpfs tmp /disk/tmp ||
	broken "mounts of the disk"
stty -F /dev/ttyS1 raw -echo || broken "command line"
echo "READY"
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LANG=C.UTF-8
exec chroot /disk /bin/sh -c 'while read -r line; do
	sh -c "$line" < /dev/null; echo; echo "== $?"
done' < /dev/ttyS1 > /dev/ttyS1 2>&1
""".replace("READY", READY)
GIT = "git config --global user.name client && git config --global user.email client@example.org"


class Failed(AssertionError):
    pass


class GuestClient(Machine):
    def __init__(self, workdir):
        super().__init__(workdir, KIND)
        self.line = self.said = None

    # -- life -------------------------------------------------------------------------

    def start(self):
        self.workdir.mkdir(parents=True, exist_ok=True)
        disk, command = self.workdir / "disk", self.workdir / "command"
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", str(root(KIND)), str(disk), "1500M"], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.boot(command, INIT, disk, "ipv6=off")
        self.run(GIT)
        return self

    def boot(self, command, init, image, netdev, *more, append=""):
        """As start_qemu(), and wait; @command: path of the socket that its shell is at."""
        with socket.socket(socket.AF_UNIX) as listens:
            listens.bind(str(command))
            listens.listen(1)
            self.start_qemu(archive(self.boot_files(init)), image, netdev, "-serial", "unix:%s" % command, *more,
                            append=append)
            listens.settimeout(60)
            self.line = listens.accept()[0]
        self.line.settimeout(COMMAND_S)
        self.said = self.line.makefile("r", encoding="utf-8", errors="replace", newline="\n")
        self.wait_until_ready()

    def stop(self):
        """At once: what it has not written is lost."""
        super().stop()
        if self.said:
            self.said.close()
        if self.line:
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
