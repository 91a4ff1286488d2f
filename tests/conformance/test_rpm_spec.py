# SPDX-License-Identifier: GPL-3.0-or-later
"""packaging/rpm/postcopy.spec, with the macros of EL and Fedora: everything that is installed
is in one package, and no package's scriptlet touches a server.

Nothing is built here: that is packaging/rpm/test.
"""
import os
import subprocess

import pytest

from lib import rpmspec
from lib.rpmspec import LAYOUTS, ROOT, SPEC

OWN_UNITS = ("postcopy-retriever@", "postcopy-crawler@")
PACKAGES = {"postcopy", "libstubcore", "libstubcore-devel", "nfs-ganesha-stub", "samba-vfs-stub"}
# for whom a command is recorded, not done
RECORDED = ("systemctl", "service", "kill", "pkill", "killall", "smbcontrol", "dbus-send")

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
    """Directory of programs that write down how they were called."""
    place = moddir / "commands"
    place.mkdir(exist_ok=True)
    for name in RECORDED:
        program = place / name
        program.write_text('#!/bin/sh\necho "%s $*" >> "$RECORD"\n'
                           'case "$*" in *list-units*) printf "%%b" "$UNITS" ;; esac\n' % name)
        program.chmod(0o755)
    return place


def run_scriptlet(body, count, commands, record, units=""):
    """Runs it as rpm does, on a machine where systemd runs; the calls, and the result."""
    # what the machine of this test lacks or has, the scriptlet must not ask about
    body = body.replace("/run/systemd/system", str(commands))
    body = body.replace("/usr/lib/systemd/systemd-update-helper", "systemctl")
    body = body.replace("-x systemctl", "-n systemctl")
    record.write_text("")
    done = subprocess.run(["/bin/sh", "-c", body, "scriptlet", str(count)], text=True,
                          capture_output=True,
                          env={"PATH": "%s:%s" % (commands, os.environ["PATH"]),
                               "RECORD": str(record), "UNITS": units})
    return record.read_text().splitlines(), done


def units_of(call):
    return [word.strip("'") for word in call.split() if "@" in word or ".service" in word
            or ".socket" in word]


# count: install 1, upgrade 2 (1 for what goes), removal 0
@pytest.mark.parametrize("count", [0, 1, 2])
def test_scriptlets_touch_our_daemons_only(layout, count, commands, moddir):
    scripts = rpmspec.scriptlets(rpmspec.expand(layout))
    assert scripts
    for (kind, package), body in scripts.items():
        calls, done = run_scriptlet(body, count, commands, moddir / "record")
        assert done.returncode == 0 and not done.stderr, (kind, package, done)
        for call in calls:
            command = call.split()
            assert command[0] == "systemctl", (kind, package, call)
            if command[1] == "daemon-reload":
                continue
            units = units_of(call)
            assert units and all(unit.startswith("postcopy-") for unit in units), call


@pytest.mark.parametrize("count", [1, 2])
def test_an_update_stops_nothing(layout, count, commands, moddir):
    """Daemons are restarted at its end; nothing is stopped for good or disabled."""
    scripts = rpmspec.scriptlets(rpmspec.expand(layout))
    restarted = []
    for (kind, _), body in scripts.items():
        calls, _ = run_scriptlet(body, count, commands, moddir / "record",
                                 "postcopy-retriever@srv-data.service loaded active\n")
        for call in calls:
            assert not {"stop", "disable", "kill", "remove-system-units"} & set(call.split())
            if "try-restart" in call:
                assert kind == "posttrans"      # new files are all there
                restarted += units_of(call)
    for unit in OWN_UNITS:
        assert any(one.startswith(unit) for one in restarted), restarted


@pytest.mark.parametrize("package", sorted(PACKAGES - {"libstubcore-devel"}))
def test_removal_is_refused_at_work(layout, package, commands, moddir):
    """Of each: rpm goes on with the others when one refuses."""
    body = rpmspec.scriptlets(rpmspec.expand(layout))["preun", package]
    calls, done = run_scriptlet(body, 0, commands, moddir / "record",
                                "postcopy-retriever@srv-data.service loaded active running x\\n")
    assert done.returncode != 0
    assert "postcopy-retriever@srv-data.service" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [call.split()[1] for call in calls] == ["list-units"]


def test_all_units_are_known_to_the_scriptlets(layout):
    text = rpmspec.expand(layout)
    scripts = "\n".join(rpmspec.scriptlets(text).values())
    units = [path.rsplit("/", 1)[1] for path in rpmspec.installed() if "/systemd/system/" in path]
    assert units
    for unit in units:
        assert unit in scripts, unit
