# SPDX-License-Identifier: GPL-3.0-or-later
"""packaging/rpm/postcopy.spec, with the macros of EL and Fedora: everything that is installed
is in one package, and no package's scriptlet touches a server.

Nothing is built here: that is packaging/rpm/test.
"""
import subprocess

import pytest

from lib import rpmspec, scriptlets
from lib.rpmspec import LAYOUTS, ROOT, SPEC
from lib.scriptlets import units_of

OWN_UNITS = ("postcopy-retriever@", "postcopy-crawler@")
PACKAGES = {"postcopy", "libstubcore", "libstubcore-devel", "nfs-ganesha-stub", "samba-vfs-stub"}

pytestmark = pytest.mark.parametrize("layout", LAYOUTS)


def homes(listed, path):
    return [package for package, entries in listed.items()
            if any(entry.takes(path) for entry in entries)]


def test_packages(layout):
    assert set(rpmspec.files(rpmspec.expand(layout))) == PACKAGES


def test_without_servers(layout):
    """Each plugin can be left out, and leaves nothing behind."""
    text = rpmspec.expand(layout, options=("--without", "ganesha", "--without", "samba"))
    assert set(rpmspec.files(text)) == PACKAGES - {"nfs-ganesha-stub", "samba-vfs-stub"}
    assert "Source1" not in text
    for line in text.splitlines():
        if line.startswith(("Requires", "BuildRequires")):
            assert "samba" not in line and "ganesha" not in line, line


def test_what_is_installed_is_in_one_package(layout):
    listed = rpmspec.files(rpmspec.expand(layout))
    wrong = {}
    for path in rpmspec.installed():
        path = rpmspec.translate(layout, path)
        found = homes(listed, path)
        if len(found) != 1:
            wrong[path] = found
    assert not wrong


@pytest.mark.parametrize("servers", [True, False])
def test_what_is_in_a_package_is_installed(layout, servers):
    options = () if servers else ("--without", "ganesha", "--without", "samba")
    text = rpmspec.expand(layout, options=options)
    paths = [rpmspec.translate(layout, path) for path in rpmspec.installed(servers)]
    for package, entries in rpmspec.files(text).items():
        for entry in entries:
            if entry.of_source:
                assert all((ROOT / path).is_file() for path in entry.paths), entry.paths
            elif not entry.has("%ghost"):
                assert any(map(entry.takes, paths)), (package, entry.paths)


def test_licences(layout):
    """Each package has its licence, or needs one that has."""
    text = rpmspec.expand(layout)
    for package, entries in rpmspec.files(text).items():
        if package != "libstubcore-devel":      # needs libstubcore
            assert any(entry.has("%license") for entry in entries), package


def test_version_is_that_of_the_build(layout):
    built = (ROOT / "meson.build").read_text().split("version: '")[1].split("'")[0]
    done = subprocess.run(["rpmspec", "-q", "--srpm", "--qf", "%{version}",
                           *rpmspec.macro_options(layout), str(SPEC)],
                          check=True, text=True, capture_output=True)
    assert done.stdout == built


def test_plugins_want_the_servers_they_were_built_for(layout):
    text = rpmspec.expand(layout, options=("--define", "ganesha_evr 6.5-3",
                                           "--define", "samba_evr 2:4.22.1-4"))
    for wanted in ("nfs-ganesha", "nfs-ganesha-vfs"):
        assert "%s(x86-64) = 6.5-3" % wanted in text
    for wanted in ("samba", "samba-libs", "samba-client-libs"):
        assert "%s(x86-64) = 2:4.22.1-4" % wanted in text


# ---- scriptlets ---------------------------------------------------------------

@pytest.fixture
def commands(moddir):
    return scriptlets.commands(moddir / "commands")


# count: install 1, upgrade 2 (1 for what goes), removal 0
@pytest.mark.parametrize("count", [0, 1, 2])
def test_scriptlets_touch_our_daemons_only(layout, count, commands):
    scripts = rpmspec.scriptlets(rpmspec.expand(layout))
    assert scripts
    for (kind, package), body in scripts.items():
        calls, done = scriptlets.run(body, [count], commands)
        assert done.returncode == 0 and not done.stderr, (kind, package, done)
        for call in calls:
            command = call.split()
            assert command[0] == "systemctl", (kind, package, call)
            if command[1] == "daemon-reload":
                continue
            units = units_of(call)
            assert units and all(unit.startswith("postcopy-") for unit in units), call


@pytest.mark.parametrize("count", [1, 2])
def test_an_update_stops_nothing(layout, count, commands):
    """Daemons are restarted at its end; nothing is stopped for good or disabled."""
    scripts = rpmspec.scriptlets(rpmspec.expand(layout))
    restarted = []
    for (kind, _), body in scripts.items():
        calls, _ = scriptlets.run(body, [count], commands,
                                 "postcopy-retriever@srv-data.service loaded active\n")
        for call in calls:
            assert not {"stop", "disable", "kill", "remove-system-units"} & set(call.split())
            if "try-restart" in call:
                assert kind == "posttrans"      # new files are all there
                restarted += units_of(call)
    for unit in OWN_UNITS:
        assert any(one.startswith(unit) for one in restarted), restarted


def test_all_units_are_known_to_the_scriptlets(layout):
    text = rpmspec.expand(layout)
    scripts = "\n".join(rpmspec.scriptlets(text).values())
    units = [path.rsplit("/", 1)[1] for path in rpmspec.installed() if "/systemd/system/" in path]
    assert units
    for unit in units:
        assert unit in scripts, unit
