# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian 13: what tests/debian13.txt names runs in a root of that release, with its Ganesha
6.5, our programs and plugin built there, its libnfs and its Python.  And a plugin of one
release in the server of another: nothing is served."""
import collections
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from lib import debian, ganesha
from lib.programs import TESTS, TOOLS
from lib.refusal import export_refused

LIST = [line.strip() for line in (TESTS / "debian13.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")]
SCRIPT = """
. /etc/os-release
printf '\\nDebian %s\\n' $VERSION_ID
ganesha.nfsd -v
meson test -C $POSTCOPY_BUILD --no-rebuild --suite unit fsal_ops fsal_symbols nfs4 onc_gss \\
	source_nfs vfs_ops vfs_symbols smb_meta smb_ntacl
exec python3 -m pytest -q "$@"
"""
JOBS = 4                # they wait for each other, and for time-outs, most of the time


def outcomes(report):
    """{file::function: [trouble or None, of each of its cases]}"""
    found = collections.defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        file = "tests/%s.py" % case.get("classname").replace(".", "/")
        bad = [node.get("message") or node.text or node.tag for node in case]
        trouble = "%s: %s" % (case.get("name"), bad[0]) if bad else None
        function = case.get("name").partition("[")[0]
        for name in (file, "%s::%s" % (file, function)):
            found[name].append(trouble)
    return found


@pytest.fixture(scope="module")
def there(workdir):
    """What came of all of them, and all that was said."""
    home = workdir.parent / "13"        # paths of sockets are short
    report = home / "report.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [TOOLS / "debian-run", "trixie", "sh", "-c", SCRIPT, "sh", "-n", str(JOBS), "--dist",
         "loadfile", "--junitxml", str(report), *LIST],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=2400, cwd=TESTS.parent,
        env=dict(os.environ, POSTCOPY_TEST_DIR=str(home)))
    print(done.stdout)
    assert report.exists(), done.stdout
    return outcomes(report), done.stdout


@pytest.mark.parametrize("test", LIST, ids=lambda test: pathlib.Path(test).name)
def test_there(there, test):
    found, said = there
    assert found[test], "it did not run:\n" + said
    bad = [trouble for trouble in found[test] if trouble]
    assert not bad, "\n".join(bad)


def test_it_is_newer(there):
    assert "\nDebian 13\n" in there[1] and "Release = V6." in there[1], there[1]


def test_unit_tests(there):
    """The plugins' tables of operations against the structures of those servers; libnfs,
    GSSAPI, and Samba's encodings."""
    assert re.search(r"^Ok: +9\b", there[1], re.MULTILINE), there[1]


def test_a_plugin_of_another_release(moddir, loop_xfs, rpcshim):
    """An upgrade of the server below a plugin that was built for the one before: the export is
    refused, and the log says what is to be installed."""
    plugins = debian.built_for(debian.OLDER) / "fsal_stub"
    newer = ganesha.of_debian(debian.other(debian.NEWER), plugins.parent, moddir.parent)
    server = newer(moddir / "newer", loop_xfs.path, fsal="stub", plugin_dir=plugins,
                   shim=rpcshim, allow=[".*"])
    with export_refused(server, "FSAL STUB was built for nfs-ganesha 4.",
                        "install the package nfs-ganesha-stub"):
        assert server.alive
