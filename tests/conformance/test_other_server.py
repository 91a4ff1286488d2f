# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that was updated below its plugin, to a version that the plugin was not built for, or
that has lost it: what needs the plugin is refused, and the log names the package to install.
Nothing is served without us, never an empty directory; what is beside goes on.

Seen with plugins that ask for a library, or for symbols, of another version, which the dynamic
linker then refuses; and with the smbd of Debian 13.
"""
import contextlib
import re
import shutil

import pytest

from lib import debian, smbd
from lib.expect import same, status_of
from lib.ganesha import Export
from lib.migration import SmbMigration
from lib.programs import MODULES, PLUGINS
from lib.refusal import export_refused, share_refused
from lib.smbsource import with_module
from nfsclient import PROTOCOLS, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

DATA = b"of the old server" * 1000
WANTED = "install the package %s that was built for this %s, or that %s again"


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    for name in (b"here", b"cold"):
        tree.file(tree.root, name, DATA, mode=0o666)
    with FakeServer(tree) as server:
        yield server


def plugin_of_another(where, home, name, old, new):
    """A copy of a plugin whose needs are those of another version of its server."""
    shutil.copytree(home, where, ignore=lambda top, names: [n for n in names
                                                            if not n.endswith(".so")])
    code = (where / name).read_bytes()
    changed = re.sub(old, new, code)
    assert changed != code and len(changed) == len(code)
    (where / name).write_bytes(changed)
    return where


@pytest.fixture(scope="module")
def other_fsal(moddir):
    return plugin_of_another(moddir / "other-fsal", PLUGINS, "postcopy_ganesha.so",
                             rb"(libganesha_nfsd\.so\.)\d", rb"\g<1>0")


@pytest.fixture(scope="module")
def other_module(moddir):
    return plugin_of_another(moddir / "other-module", MODULES, "postcopy_samba.so",
                             rb"SAMBA_\d(\.[0-9.]+)", rb"SAMBA_0\g<1>")


@pytest.fixture
def beside(loop_xfs):
    home = loop_xfs.path / "beside"
    home.mkdir(exist_ok=True)
    (home / "f").write_bytes(b"beside")
    return home


@pytest.mark.allow_log(".*")
@pytest.mark.parametrize("plugin", ["other", "none"])
def test_ganesha(source, new_migration, fresh_dir, other_fsal, beside, plugin):
    m = new_migration(source.url(), fresh_dir)
    m.server.allow = [".*"]
    m.server.exports.append(Export(str(beside), "/beside"))
    m.init().start()
    with m.client("v3") as c:
        handles = [c.lookup(name)[0] for name in ("here", "cold")]
        same(c.patient(30).read_file("here"), DATA)
    m.server.stop()
    m.server.plugin_dir = other_fsal if plugin == "other" else None
    said = (WANTED % ("nfs-ganesha-stub", "nfs-ganesha", "nfs-ganesha"),
            "FSAL STUB was built for nfs-ganesha ") if plugin == "other" else ("libfsalstub.so",)
    with export_refused(m.server, *said, shown=[b"beside"]):
        for proto in PROTOCOLS:
            with m.server.client(proto, export="/beside") as c:
                assert c.names() == [b"f"] and c.read_file("f") == b"beside"
        with m.server.client("v3", export="/beside") as c:      # who had mounted it
            for fh in handles:
                assert status_of(c.getattr, fh) == errors.STALE
                assert status_of(c.read, fh, 0, 100) == errors.STALE
    m.server.plugin_dir = PLUGINS
    m.server.start()
    with m.client("v3") as c:
        for fh in handles:
            same(c.patient(30).read_file(fh), DATA)


@pytest.fixture
def smb(source, workdir, fresh_dir):
    m = SmbMigration(workdir / fresh_dir.name, source.url(), fresh_dir)
    m.server.allow = [".*"]
    with contextlib.ExitStack() as stack:
        stack.callback(m.stop, scan=False)
        yield m.init().start()


@with_module
@pytest.mark.allow_log(".*")
@pytest.mark.parametrize("module", ["other", "none"])
def test_samba(smb, other_module, module):
    with smb.client() as c:
        same(c.read_file("here"), DATA)
    smb.server.stop()
    smb.server.module_dir = other_module if module == "other" else other_module / "none"
    said = (WANTED % ("samba-vfs-stub", "samba", "samba"), "vfs objects = stub was built for samba "
            ) if module == "other" else ("stub",)
    with share_refused(smb.server, *said):
        pass
    smb.server.module_dir = MODULES
    smb.server.start()
    with smb.client() as c:
        same(c.read_file("cold"), DATA)


@with_module
@pytest.mark.skipif(debian.other("trixie") is None, reason="this is Debian 13")
@pytest.mark.allow_log(".*")
def test_samba_of_debian_13(moddir, source, smb):
    """Really updated: 4.22 loads what was built for 4.17."""
    smb.server.stop()
    modules = shutil.copytree(debian.modules(debian.other(debian.OLDER)),   # in the root, too
                              moddir / "modules",
                              ignore=shutil.ignore_patterns("*.p", "*.a"))
    newer = smbd.Samba(moddir / "newer", str(smb.volume), vfs=smbd.STACK, module_dir=modules,
                       allow=[".*"], release=debian.other(debian.NEWER))
    with share_refused(newer, WANTED % ("samba-vfs-stub", "samba", "samba")):
        version = newer.tool("smbd", "--version").stdout
        assert int(version.split(".")[1]) >= 22, version
