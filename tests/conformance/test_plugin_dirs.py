# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed where another system's servers look for plugins, as the RPMs are built: door and plugin
are in one directory, and the servers load them from there.

The build that is tested is configured anew for it, in a copy that only these commands see; nothing
is compiled for it.
"""
import contextlib
import subprocess

import pytest

from lib.expect import same
from lib.migration import SmbMigration
from lib.programs import BUILD, MODULES
from lib.smbsource import with_module
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

DATA = b"of the old server" * 1000
GANESHA_DIR, SAMBA_DIR = "opt/el/ganesha", "opt/el/samba/vfs"
PLUGINS = {GANESHA_DIR: {"libfsalstub.so", "postcopy_ganesha.so"},
           SAMBA_DIR: {"stub.so", "postcopy_samba.so"}}
# Only with the options that are tested; as an overlay, it has this build's paths and times.
INSTALL = """
build=$1 work=$2 dest=$3
shift 3
mkdir -p "$work/upper" "$work/work"
mount -t overlay overlay "$build" -o "lowerdir=$build,upperdir=$work/upper,workdir=$work/work"
/usr/bin/meson configure "$build" "$@"
ninja -C "$build"
/usr/bin/meson install -C "$build" --no-rebuild --destdir "$dest"
"""


@pytest.fixture(scope="module")
def source():
    tree = Tree()
    tree.root.mode = 0o777
    tree.file(tree.root, b"cold", DATA, mode=0o666)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture(scope="module")
def installed(moddir):
    dest = moddir / "dest"
    done = subprocess.run(["unshare", "--mount", "--propagation", "slave", "bash", "-euc",
                           INSTALL, "install", BUILD, moddir / "overlay", dest,
                           "-Dganesha_plugin_dir=/" + GANESHA_DIR,
                           "-Dsamba_plugin_dir=/" + SAMBA_DIR],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:]
    return dest


def test_each_is_in_its_directory(installed):
    """Door and plugin beside each other, and nowhere else."""
    found = {}
    for path in installed.rglob("*.so"):
        found.setdefault(str(path.parent.relative_to(installed)), set()).add(path.name)
    assert found == {at: names for at, names in PLUGINS.items()
                     if at != SAMBA_DIR or (MODULES / "stub.so").exists()}


def test_ganesha_loads_them(installed, source, new_migration, fresh_dir):
    m = new_migration(source.url(), fresh_dir)
    m.server.plugin_dir = installed / GANESHA_DIR
    m.init().start()
    with m.client("v3") as c:
        same(c.patient(30).read_file("cold"), DATA)


@with_module
def test_smbd_loads_them(installed, source, workdir, fresh_dir):
    m = SmbMigration(workdir / fresh_dir.name, source.url(), fresh_dir)
    m.server.module_dir = installed / SAMBA_DIR
    with contextlib.ExitStack() as stack:
        stack.callback(m.stop)
        m.init().start()
        with m.client() as c:
            same(c.read_file("cold"), DATA)
