# SPDX-License-Identifier: GPL-3.0-or-later
"""Who removes a package by mistake does not stop his users: DEBs and RPMs refuse alike while a
retriever or crawler is at work (docs/decisions/0058). The scripts alone, without dpkg and rpm;
those remove real packages in packaging/test and packaging/rpm/test.
"""
import pytest

from lib import rpmspec, scriptlets
from lib.rpmspec import LAYOUTS, ROOT

DEBIAN = ROOT / "packaging/debian"
NAMES = {"libstubcore0": "libstubcore"}      # what is called otherwise in an RPM
DEBS = ("libstubcore0", "nfs-ganesha-stub", "postcopy", "samba-vfs-stub")
AT_WORK = "postcopy-retriever@srv-data.service loaded active running x\\n" \
    "postcopy-crawler@srv-data.service loaded active running x\\n"


def of_deb(package):
    """Its prerm, and how dpkg calls that when the package goes, or comes anew."""
    body = (DEBIAN / (package + ".prerm")).read_text().replace("#DEBHELPER#", "")
    return body, ["remove"], ["upgrade", "0.2.0"]


def of_rpm(layout):
    def of(package):
        found = rpmspec.scriptlets(rpmspec.expand(layout))
        return found["preun", NAMES.get(package, package)], [0], [1]
    return of


@pytest.fixture(params=["deb", *LAYOUTS])
def scripts(request):
    return of_deb if request.param == "deb" else of_rpm(request.param)


@pytest.fixture
def place(moddir):
    return scriptlets.commands(moddir / "commands")


def run(body, arguments, place, package, **options):
    return scriptlets.run(body, arguments, place, DPKG_MAINTSCRIPT_PACKAGE=package, **options)


@pytest.mark.parametrize("package", DEBS)
def test_refused_at_work(scripts, package, place):
    """Of each: dpkg and rpm begin with what nothing depends on, or go on with the others."""
    body, removed, _ = scripts(package)
    calls, done = run(body, removed, place, package, units=AT_WORK)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
    for unit in "postcopy-retriever@srv-data.service", "postcopy-crawler@srv-data.service":
        assert unit in done.stderr
    assert [call.split()[1] for call in calls] == ["list-units"]


@pytest.mark.parametrize("package", DEBS)
def test_refused_if_nobody_knows(scripts, package, place):
    body, removed, _ = scripts(package)
    assert run(body, removed, place, package, status=1)[1].returncode != 0


@pytest.mark.parametrize("package", DEBS)
def test_an_update_is_not_refused(scripts, package, place):
    body, _, updated = scripts(package)
    calls, done = run(body, updated, place, package, units=AT_WORK)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [call for call in calls if "list-units" not in call]


@pytest.mark.parametrize("package", DEBS)
def test_what_is_not_finished_is_named(scripts, package, place):
    """Its daemons are stopped: the package goes, and its volumes are told once."""
    body, removed, _ = scripts(package)
    half = place / "half way"
    (half / ".postcopy").mkdir(parents=True, exist_ok=True)
    (place / "volumes").write_text("%s\n%s\n" % (half, place / "finished"))
    _, done = run(body, removed, place, package)
    assert done.returncode == 0
    said = done.stderr.splitlines()
    if package == "postcopy":
        assert len(said) == 1 and "%s is not finished" % half in said[0]
    else:
        assert not said
