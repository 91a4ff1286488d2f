# SPDX-License-Identifier: GPL-3.0-or-later
"""An export that lies above a volume, and stubs whose volume is not there: refused, never
zeros, never an empty directory.  What is beside them is served as ever.  (SMB:
test_smb_above.py.)"""
import itertools
import shutil
import subprocess

import pytest

from lib.case import SIZE
from lib.expect import status_of
from lib.ganesha import Export
from lib.programs import PLUGINS
from lib.wait import wait_until
from nfsclient import PROTOCOLS, NfsError, errors

REFUSED = (errors.ACCES, errors.PERM)


@pytest.fixture(scope="module", autouse=True)
def beside(world, loop_xfs):
    home = loop_xfs.path / "beside"
    home.mkdir()
    (home / "f").write_bytes(b"beside")
    return home


@pytest.fixture(scope="module")
def above(loop_xfs, new_server):
    return new_server("above", fsal="stub", plugin_dir=PLUGINS,
                      exports=[Export(str(loop_xfs.path), "/export", "stub")],
                      allow=["is a volume of postcopy", "an unfinished directory",
                             "Error I/O error with error code 5 in nfs._(read|write)_cb"])


@pytest.fixture(params=PROTOCOLS)
def upper(above, request):
    with above.client(request.param) as c:
        yield c.patient(30)


@pytest.fixture
def client(world):
    with world.client() as c:
        yield c


def told(above, text):
    return [line for line in above.log.read_text(errors="replace").splitlines() if text in line]


@pytest.mark.parametrize("state", ["partial", "dummy", "cold", "normal"])
def test_a_volume_below_the_export(case, client, upper, above, loop_xfs, state):
    case.file()
    case.enter(state, "f")
    there = "volume/" + case.path()
    for call in (lambda: upper.read_file(there + "/f"), lambda: upper.getattr(there + "/f"),
                 lambda: upper.getattr(there), lambda: upper.names(there),
                 lambda: upper.names("volume"), lambda: upper.create("volume/new"),
                 lambda: upper.create(there + "/new"), lambda: upper.mkdir("volume/newdir"),
                 lambda: upper.remove("volume/" + case.name),
                 lambda: upper.rename("volume/" + case.name, "stolen"),
                 lambda: upper.rename("beside/f", "volume/g"),
                 lambda: upper.names("volume/.postcopy"),
                 lambda: upper.getattr("volume/.postcopy/volume.conf")):
        assert status_of(call) in REFUSED
    assert told(above, "%s is a volume of postcopy" % (loop_xfs.path / "volume"))
    assert {b"beside", b"volume"} <= set(upper.names())
    assert upper.read_file("beside/f") == b"beside"
    assert client.read_file(case.path("f")) == case.data("f")


def test_handles_that_were_kept(case, client, upper, above, loop_xfs):
    """A volume is made where clients have looked before."""
    case.file()
    case.dir("d")
    case.enter("partial", "f")
    home = loop_xfs.path / ("kept-" + upper.proto)
    home.mkdir()
    subprocess.run(["cp", "-a", str(case.world.volume / case.path()), str(home / "old")],
                   check=True)
    old = home.name + "/old"
    top, d, f = (upper.fh(old + name) for name in ("", "/d", "/f"))
    assert upper.getattr(f).size == SIZE
    shutil.copytree(case.world.volume / ".postcopy", home / ".postcopy")
    names = itertools.count()       # that there is none of a name is remembered
    for fh in (top, d):             # each was found good at a time of its own
        wait_until(lambda: refused(upper.lookup, (fh, b"no%d" % next(names))), 60, "refusal")
    assert refused(upper.names, d)
    assert status_of(upper.read_file, f, SIZE) == errors.IO


def refused(call, *args):
    try:
        call(*args)
    except NfsError as err:
        return err.status in REFUSED
    return False


def test_stubs_whose_volume_is_gone(case, client, upper, beside, above):
    for name in ("stub", "some", "normal"):
        case.file(name)
    case.dir("d")
    case.file("d/x")
    case.enter("partial", "stub")
    case.enter("some", "some")
    case.enter("normal", "normal")
    home = beside / ("lost-%s-%s" % (case.name, upper.proto))
    subprocess.run(["cp", "-a", str(case.world.volume / case.path()), str(home)], check=True)
    lost = "beside/" + home.name
    assert upper.read_file(lost + "/normal") == case.data("normal")
    assert sorted(upper.names(lost)) == [b"d", b"normal", b"some", b"stub"]
    for name in ("/stub", "/some"):
        assert upper.getattr(lost + name).size == SIZE
        assert status_of(upper.read_file, lost + name) == errors.IO
        assert status_of(upper.write, lost + name, 0, b"x") == errors.IO
    for call in (lambda: upper.names(lost + "/d"), lambda: upper.getattr(lost + "/d/x"),
                 lambda: upper.create(lost + "/d/new")):
        assert status_of(call) in REFUSED
