# SPDX-License-Identifier: GPL-3.0-or-later
"""Guest: a machine in QEMU whose Linux kernel serves a disk, by nfsd or by ksmbd.

    guest = Guest(workdir, image, "xfs")        # the disk's image, unmounted here
    with guest.nfsd():
        url = guest.nfs_url("4.2")              # its directory /disk/tree
    with guest.ksmbd("root", "secret"): guest.host, guest.port      # the share "share"

Debian's cloud kernel with no more than the programs for that, in memory.  The disk's image is never
written, so what is on it can be compared when the guest has ended.  What it says is in
workdir/console.log.  For ksmbd it is Debian 13's: 6.1's (6.1.176-1) takes a directory that is
opened without a lease for a null pointer, and no longer answers then.

It is emulated (TCG), which takes a minute to boot and works everywhere.  POSTCOPY_GUEST_ACCEL=kvm:
faster, where there is KVM and it works.  In a guest of another host it need not: seen was a kernel
that had said nothing after minutes, and "KVM internal error" of a cmpxchg16b in the end.
"""
import atexit
import contextlib
import functools
import lzma
import os
import pathlib
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass

from lib.ports import free_port
from lib.programs import TOOLS
from lib.wait import wait_until
from nfsclient.nfs3 import Mount3

QEMU = "qemu-system-x86_64"
FILES = ("etc/netconfig", "etc/passwd", "etc/group", "etc/protocols", "etc/services", "etc/rpc")
# what others ask the kernel for by another name is named here
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "xxhash_generic",
           "blake2b_generic", "sha256_generic", "xfs", "ext4", "btrfs")
FOR_SMB = ("ksmbd", "nls_utf8", "sha512_generic", "cmac", "ccm", "gcm", "aes_generic", "md4",
           "hmac", "md5")
READY, BROKEN = "postcopy: ready", "postcopy: broken"
START_S = 300                   # emulated, on a busy machine
ACCEL = os.environ.get("POSTCOPY_GUEST_ACCEL", "tcg")
NO_KVM = "KVM internal error"   # it stands still then


@dataclass(frozen=True)
class Kind:
    """What the guest serves by."""
    release: str                # of Debian
    packages: tuple
    programs: tuple
    modules: tuple
    mount: str = "ro"           # of the disk


OF_NFSD = Kind("bookworm", ("nfs-kernel-server",),
               ("sbin/rpcbind", "usr/sbin/rpc.mountd", "usr/sbin/rpc.nfsd", "usr/sbin/exportfs"),
               (*MODULES, "nfsd"))
# It opens nothing of a file system that is mounted read-only.
OF_KSMBD = Kind("trixie", ("ksmbd-tools",), ("usr/sbin/ksmbd.adduser", "usr/sbin/ksmbd.mountd"),
                MODULES + FOR_SMB, mount="rw")


def why_no_guest():
    """Why there can be none here; None: there can."""
    if os.uname().machine != "x86_64":
        return "guests are for x86_64"
    if not shutil.which(QEMU):
        return QEMU + " is missing: apt-get install --no-install-recommends qemu-system-x86"
    return None


# -- what it boots ----------------------------------------------------------------------------

@functools.cache
def root(kind):
    """Where the guest's kernel and programs are, installed."""
    done = subprocess.run([str(TOOLS / "debian-root"), kind.release, "linux-image-cloud-amd64",
                           "busybox-static", *kind.packages], text=True, stdout=subprocess.PIPE,
                          timeout=3600)
    assert done.returncode == 0, "debian-root: see above"
    return pathlib.Path(done.stdout.strip())


def modules(top, wanted):
    """(name, bytes) of these modules and of all that they need, in the order in which they are
    loaded.  What the kernel has built in is left out."""
    needs, by_name = {}, {}
    for line in (top / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[file] = others.split()
        by_name[pathlib.Path(file).name.partition(".")[0].replace("-", "_")] = file
    order = []

    def add(file):
        for other in reversed(needs[file]):
            add(other)
        if file not in order:
            order.append(file)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return [unpacked(top / file) for file in order]


def unpacked(path):
    """Name and bytes of a module that may be compressed."""
    data = path.read_bytes()
    return (path.stem, lzma.decompress(data)) if path.suffix == ".xz" else (path.name, data)


def libraries(top, program):
    """Paths below top of the shared libraries that it uses, and of its loader."""
    told = subprocess.run(["chroot", str(top), "ldd", "/" + program], capture_output=True,
                          text=True, check=True).stdout
    return set(re.findall(r"(?:=> )?/(\S+) \(0x", told))


def newc(entries):
    """An archive of (path, mode, bytes), as the kernel unpacks it."""
    out = bytearray()

    def add(number, path, mode, data):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out.extend(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        out.extend(bytes(-len(out) % 4))
        out.extend(data)
        out.extend(bytes(-len(out) % 4))

    for number, (path, mode, data) in enumerate(entries, 1):
        add(number, path, mode, data)
    add(0, "TRAILER!!!", 0, b"")
    return bytes(out)


def archive(files, links=()):
    """newc() of {path: (mode, bytes)} with all directories that they need; links: (path, target)"""
    entries, dirs = [], set()
    for path in sorted([*files, *(path for path, _ in links)]):
        for parent in reversed(pathlib.PurePosixPath(path).parents):
            if str(parent) != "." and str(parent) not in dirs:
                dirs.add(str(parent))
                entries.append((str(parent), stat.S_IFDIR | 0o755, b""))
        if path in files:
            entries.append((path, stat.S_IFREG | files[path][0], files[path][1]))
    entries += [(path, stat.S_IFLNK | 0o777, target.encode()) for path, target in links]
    return newc(entries)


# How the guest's first process begins: devices, what its kernel needs, the network.
BEGIN = r"""#!/bin/busybox sh
# the guest's first process: tests/lib/guest.py
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/sbin
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
""".replace("BROKEN", BROKEN)

INIT = BEGIN + r"""
mkdir -p /run/lock /run/rpcbind /tmp /etc/ksmbd /var/lib/nfs/sm /var/lib/nfs/v4recovery
mount -t %(fstype)s -o %(mount)s /dev/vda /disk || broken disk
%(serve)s
echo "READY"
while :; do sleep 1000; done
""".replace("READY", READY)

# Leases and grace are as short as the kernel takes them: reads wait for the end of grace.
NFSD = r"""mount -t nfsd nfsd /proc/fs/nfsd || broken nfsd
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
: > /var/lib/nfs/etab; : > /var/lib/nfs/rmtab
rpcbind -i || broken rpcbind
exportfs -ra || broken exports
rpc.mountd -p 20048 || broken mountd
rpc.nfsd 8 || broken threads
"""
EXPORTS = "/disk/tree *(ro,insecure,no_root_squash,no_subtree_check,fsid=0,sync,sec=sys)\n"
KSMBD = r"""ksmbd.adduser -a %(user)s -p %(password)s || broken users
ksmbd.mountd || broken ksmbd
"""
SMB_CONF = """[global]
server string = old
netbios name = OLD
map to guest = never
server min protocol = SMB2_10

[share]
path = /disk/tree
read only = yes
store dos attributes = yes
valid users = %(user)s
"""


class Machine:
    """In QEMU; what it says is in workdir/console.log."""

    def __init__(self, workdir, kind):
        self.workdir, self.kind = pathlib.Path(workdir), kind
        self.process = None

    @property
    def kernel(self):
        """Its version: 6.1.0-50-cloud-amd64."""
        return sorted(path.name for path in (root(self.kind) / "lib/modules").iterdir())[-1]

    @property
    def console(self):
        return self.workdir / "console.log"

    def boot_files(self, init):
        """What its memory needs in any case: @init, the shell of it, and modules in the order of BEGIN."""
        top = root(self.kind)
        loaded = modules(top / "lib/modules" / self.kernel, self.kind.modules)
        return {"bin/busybox": (0o755, (top / "bin/busybox").read_bytes()), "init": (0o755, init.encode()),
                "modules/order": (0o644, "".join(name + "\n" for name, _ in loaded).encode()),
                **{"modules/" + name: (0o644, data) for name, data in loaded}}

    def start_qemu(self, initrd, image, netdev, *more, append=""):
        """initrd: bytes; image: its disk, which stays as it is; append: for the kernel."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        (self.workdir / "initrd").write_bytes(initrd)
        argv = ["setpriv", "--pdeathsig", "KILL", QEMU, "-accel", ACCEL, "-m", "1024", "-smp", "2",
                "-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot",
                "-serial", "file:%s" % self.console, *more,
                "-kernel", str(root(self.kind) / "boot" / ("vmlinuz-" + self.kernel)),
                "-initrd", str(self.workdir / "initrd"),
                "-append", "console=ttyS0 panic=-1 loglevel=4 " + append,
                "-drive", "file=%s,if=virtio,format=raw,snapshot=on" % image,
                "-netdev", "user,id=net," + netdev,
                "-device", "virtio-net-pci,netdev=net,romfile="]
        with open(self.workdir / "qemu.log", "wb") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)
        atexit.register(self.stop)

    def wait_until_ready(self):
        wait_until(self._is_ready, START_S, "the guest")

    def _is_ready(self):
        told = (self.workdir / "qemu.log").read_text(errors="replace")
        said = self.console.read_text(errors="replace") if self.console.exists() else ""
        assert self.process.poll() is None and BROKEN not in said and NO_KVM not in told, \
            "the guest ended:\n%s%s" % (told, said[-4000:])
        return READY in said

    def stop(self):
        """At once: what it wrote is its own."""
        atexit.unregister(self.stop)
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()


class Guest(Machine):
    host = "127.0.0.1"

    def __init__(self, workdir, image, fstype, kind=OF_NFSD):
        super().__init__(workdir, kind)
        self.image, self.fstype = image, fstype
        self.port = self.mount_port = None

    # -- its memory -----------------------------------------------------------------

    def _initrd(self, serve, more):
        top = root(self.kind)
        init = INIT % {"fstype": self.fstype, "mount": self.kind.mount, "serve": serve}
        files = self.boot_files(init)
        for program in self.kind.programs:
            for path in {program} | libraries(top, program):
                files[path] = (0o755, (top / path).read_bytes())
        for path in FILES:
            if (top / path).exists():
                files[path] = (0o644, (top / path).read_bytes())
        files.update({path: (0o600, text.encode()) for path, text in more.items()})
        return archive(files)

    # -- life -------------------------------------------------------------------------

    def _boot(self, serve, more, *forwarded):
        forward = "".join(",hostfwd=tcp:%s:%d-:%d" % (self.host, here, there)
                          for here, there in forwarded)
        self.start_qemu(self._initrd(serve, more), self.image, "restrict=on" + forward)
        self.wait_until_ready()

    @contextlib.contextmanager
    def nfsd(self):
        self.port, self.mount_port = free_port(), free_port()
        try:
            self._boot(NFSD, {"etc/exports": EXPORTS}, (self.port, 2049),
                       (self.mount_port, 20048))
            wait_until(self._answers, 60, "the guest's nfsd")
            yield self
        finally:
            self.stop()

    def _answers(self):
        mount = Mount3(self.host, self.mount_port, timeout=10)
        try:
            return mount.mnt("/disk/tree")
        finally:
            mount.close()

    @contextlib.contextmanager
    def ksmbd(self, user, password):
        self.port = free_port()
        who = {"user": user, "password": password}
        try:
            self._boot(KSMBD % who, {"etc/ksmbd/ksmbd.conf": SMB_CONF % who}, (self.port, 445))
            wait_until(lambda: self._lets_in(user, password), 60, "the guest's ksmbd")
            yield self
        finally:
            self.stop()

    def _lets_in(self, user, password):
        from smb2client import Client       # wants Samba's Python
        with Client(self.host, self.port, "share", user, password):
            return True

    # -- talking to it ------------------------------------------------------------------

    def nfs_url(self, version):
        """Of /disk/tree, which is the root to NFSv4."""
        if version == "3":
            return "nfs://%s/disk/tree?nfsport=%d&mountport=%d&version=3" % (
                self.host, self.port, self.mount_port)
        return "nfs://%s/?nfsport=%d&version=%s" % (self.host, self.port, version)
