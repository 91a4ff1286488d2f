# SPDX-License-Identifier: GPL-3.0-or-later
"""The old servers that tests/sources migrates from: real ones, which nobody here wrote.

    for row in ROWS: row.key, row.server, row.protocol, row.guest
    with row.serve(place) as old:       # place: where it may keep things, and how
        old.url, old.conf, old.version
        old.compare(volume)             # {property: Count}, once the migration has ended

An NFS server's tree is made on a local file system and compared with the volume there; an SMB
server's by a client, or there, and compared as two clients see both sides.
"""
import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Callable

from lib import oddservers, oldword, richtree, twotrees
from lib.ganesha import BINARY, of_debian
from lib.guest import OF_KSMBD, Guest, why_no_guest
from lib.programs import BASE, WORKER
from lib.twotrees import Count
from lib.volume import LoopVolume

CREATION_TIMES = "creation_times = 1\n"
UNSIGNED = 'smb_signing = "desired"\n'     # ksmbd signs its word of auditing entries wrongly
SPARSE = 0x200          # an attribute that is not brought: the new file system knows better
NFS = ("3", "4.0", "4.1", "4.2")
OTHER = "trixie"                # Debian's other release
# what smbtree.compare() calls a difference, and the property it is one of
SMB_FIELDS = {"missing": "names", "extra": "names", "error": "names", "type": "types",
              "size": "sizes", "data": "data", "written": "mtime", "created": "creation_time",
              "attributes": "dos_attributes", "eas": "xattrs", "streams": "streams",
              **dict.fromkeys(("owner", "group", "sacl", "dacl", "control", "descriptor"), "acls")}


@dataclass
class Place:
    """Where a row may work: a directory of its own, and the preloaded library of its servers."""
    home: pathlib.Path
    shim: object


@dataclass
class Old:
    url: str
    version: str
    compare: Callable
    conf: str = ""
    stop: Callable = lambda: None       # the old server; it must be gone before compare()
    allow: tuple = ()                   # lines of the retriever's log that are fine
    hear: Callable = dict               # what it says itself (oldword.hear()), while it runs
    refused: str = ""                   # what `init` says: nothing is migrated from it


@dataclass
class Row:
    key: str
    server: str
    protocol: str
    serve: Callable = field(repr=False)     # (place): context manager of an Old
    missing: Callable = lambda: None        # why it cannot run here; None: it can
    guest: bool = False
    file_system: str = "xfs"


# -- NFS: Ganesha ---------------------------------------------------------------------------

def ganesha_version(wrap):
    told = subprocess.run([*wrap, BINARY, "-v"], capture_output=True, text=True, timeout=300)
    return re.search(r"Release = V(\S+)", told.stdout).group(1)


@contextlib.contextmanager
def ganesha(release, version, place):
    with LoopVolume(place.home, "xfs", "2G", options="noatime", name="old") as disk:
        tree = disk.path / "tree"
        tree.mkdir()
        richtree.build(tree)
        kind = of_debian(release, BASE)
        with kind(place.home / "server", str(tree), shim=place.shim) as server:
            yield Old(server.url(version=3 if version == "3" else version),
                      ganesha_version(kind.WRAP), lambda new: twotrees.compare(tree, new),
                      CREATION_TIMES if version != "3" else "", server.stop,
                      hear=functools.partial(oldword.hear, server.host, server.port,
                                             server.mount_port, server.pseudo)
                      if version == "3" else dict)


# -- NFS: the kernel's, in a guest ------------------------------------------------------------

@contextlib.contextmanager
def kernel_nfsd(fstype, version, place):
    """The tree is made here, and served by the guest from a disk that it cannot write."""
    with LoopVolume(place.home, fstype, "2G", options="noatime", name="old") as disk:
        tree = disk.path / "tree"
        tree.mkdir()
        if fstype == "btrfs":
            subvolume(tree / "subvolume")
        richtree.build(tree)
        disk.umount()
        guest = Guest(place.home / "guest", disk.image, fstype)
        with guest.nfsd():

            def compare(new):
                disk.mount()
                return twotrees.compare(tree, new)

            yield Old(guest.nfs_url(version), guest.kernel, compare,
                      CREATION_TIMES if version != "3" else "", guest.stop)


def subvolume(path):
    """A btrfs subvolume, with files whose numbers are those of the tree that it lies in."""
    subprocess.run(["btrfs", "-q", "subvolume", "create", str(path)], check=True)
    for number in range(20):
        (path / ("f%d" % number)).write_bytes(b"in the subvolume %d" % number)
    os.link(path / "f1", path / "f1-too")


# -- SMB --------------------------------------------------------------------------------------

def of_smb(differences, counts):
    """{property: Count} of what two SMB clients see."""
    found = {name: Count(counts["objects"]) for name in dict.fromkeys(SMB_FIELDS.values())}
    differ = {}
    for d in differences:
        name = "streams" if d.field.startswith("stream ") else SMB_FIELDS[d.field]
        differ.setdefault(name, {}).setdefault(d.path, None)
    for name, count in found.items():
        paths = list(differ.get(name, ()))
        count.of += len(paths) if name == "names" else 0    # those are not among the objects
        count.kept = count.of - len(paths)
        count.paths = paths[:twotrees.SHOWN]
    return found


def smb_conf(home):
    """Settings for the servers of class Samba, and their users."""
    from lib import smbd
    from lib.smbsource import IDMAP, PATIENT, settings
    (home / "login").write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    (home / "login").chmod(0o600)
    (home / "idmap").write_text(IDMAP)
    return settings(smb_credentials=home / "login", smb_idmap=home / "idmap", call_timeout=PATIENT)


def compare_shares(client, place, new, **options):
    """What the old server's client sees, and one of a stock smbd on the volume."""
    from lib import smbd, smbtree
    with smbd.Samba(place.home / "seen", str(new), more=smbtree.RAW_NAMES) as server:
        counts = {}
        with server.client() as here:
            return of_smb(list(smbtree.compare(client, here, counts=counts, **options)), counts)


@contextlib.contextmanager
def samba(release, place):
    from lib import smbd, smbtree
    with LoopVolume(place.home, "xfs", "2G", name="old") as disk:
        tree = disk.path / "tree"
        tree.mkdir(mode=0o755)
        server = smbd.Samba(place.home / "server", str(tree), more=smbtree.RAW_NAMES,
                            release=release)
        with server, server.client() as client:
            smbtree.Builder(client, entries=300, deep=15).build()
            yield Old(server.url(), ".".join(map(str, server.version)),
                      lambda new: compare_shares(client, place, new), smb_conf(place.home))


@contextlib.contextmanager
def ksmbd(place):
    """The kernel's SMB server in a guest, of a tree that is made here.  It has no auditing entries,
    and calls each file sparse that was not written over SMB."""
    from lib import smbd, smbtree
    from smb2client import Client, wire
    with LoopVolume(place.home, "ext4", "2G", name="old") as disk:
        tree = disk.path / "tree"
        tree.mkdir(mode=0o755)
        richtree.build_plain(tree)
        disk.umount()
        guest = Guest(place.home / "guest", disk.image, "ext4", OF_KSMBD)
        with guest.ksmbd("root", smbd.PASSWORD), Client(
                guest.host, guest.port, "share", "root", smbd.PASSWORD) as client:
            yield Old("smb://%s:%d/share" % (guest.host, guest.port), guest.kernel,
                      lambda new: compare_shares(client, place, new, ignored=SPARSE,
                                                 parts=smbtree.WHOLE & ~wire.SACL),
                      smb_conf(place.home) + UNSIGNED)


# -- libraries --------------------------------------------------------------------------------

@contextlib.contextmanager
def gonfs(place):
    with LoopVolume(place.home, "xfs", "2G", options="noatime", name="old") as disk:
        tree = disk.path / "tree"
        tree.mkdir()
        richtree.build(tree)
        with oddservers.gonfs(tree, place.home / "gonfs.log") as (url, port, stop):
            yield Old(url, oddservers.gonfs_version(), lambda new: twotrees.compare(tree, new),
                      stop=stop, hear=lambda: oldword.hear("127.0.0.1", port, port, "/"))


@contextlib.contextmanager
def impacket(place):
    from lib import smbd
    tree = place.home / "tree"
    tree.mkdir()
    richtree.build_plain(tree)
    with oddservers.impacket(tree, place.home, "root", smbd.PASSWORD) as (url, stop):
        yield Old(url, oddservers.impacket_version(), None, smb_conf(place.home), stop,
                  refused="the server must speak SMB 2.1 or later")


# -- what is here -----------------------------------------------------------------------------

def no_program(path, package):
    return None if os.path.exists(path) else "%s is missing: apt-get install %s" % (path, package)


def no_samba():
    if not WORKER.exists():
        return "built without Samba's headers"
    if importlib.util.find_spec("samba") is None:
        return "Samba's Python is missing: packaging/deps/install --tests --samba"
    return no_program("/usr/sbin/smbd", "samba")


def no_btrfs():
    return no_program("/usr/bin/mkfs.btrfs" if os.path.exists("/usr/bin/mkfs.btrfs")
                      else "/usr/sbin/mkfs.btrfs", "btrfs-progs")


def rows():
    """In the order in which they are worth most."""
    def of_nfs(key, server, serve, release=None, **more):
        for version in NFS:
            yield Row("%s-nfs%s" % (key, version), server, "NFSv" + version,
                      lambda place, version=version: serve(release, version, place), **more)

    here = dict(missing=lambda: no_program(BINARY, "nfs-ganesha nfs-ganesha-vfs"))
    yield from of_nfs("ganesha", "nfs-ganesha", ganesha, **here)
    yield Row("samba-smb", "Samba", "SMB", lambda place: samba(None, place), no_samba)
    for fstype, missing in (("xfs", why_no_guest), ("ext4", why_no_guest),
                            ("btrfs", lambda: why_no_guest() or no_btrfs())):
        yield from of_nfs("nfsd-" + fstype, "Linux nfsd", kernel_nfsd, fstype, missing=missing,
                          guest=True, file_system=fstype)
    yield from of_nfs("ganesha-%s" % OTHER, "nfs-ganesha", ganesha, OTHER, **here)
    yield Row("samba-%s-smb" % OTHER, "Samba", "SMB", lambda place: samba(OTHER, place), no_samba)
    yield Row("ksmbd-smb", "Linux ksmbd", "SMB", ksmbd, lambda: no_samba() or why_no_guest(),
              guest=True, file_system="ext4")
    yield Row("gonfs-nfs3", "go-nfs", "NFSv3", gonfs,
              lambda: None if shutil.which("go") else "go is missing: apt-get install golang-go")
    yield Row("impacket-smb", "impacket", "SMB", impacket, no_samba)


ROWS = {row.key: row for row in rows()}
