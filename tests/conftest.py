# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of all suites: directories, volumes, servers, migrations.

What whole suites share beyond that is in lib/fixtures.py.
POSTCOPY_TEST_DIR: where private directories go (default /var/tmp/postcopy-tests).
POSTCOPY_KEEP=1: keep logs and configuration after the run.
"""
import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from lib import programs
from lib.ganesha import Ganesha
from lib.migration import Migration
from lib.programs import BASE
from lib.server import RUNNING, BadLog
from lib.smbd import Samba
from lib.sourceversion import FORCED, unsaid
from lib.volume import LoopVolume, sweep_stale
from nfsclient import PROTOCOLS

pytest_plugins = ["lib.fixtures"]

# They make a root of another release, and this is one (tests/tools/debian-run).
LEFT_OUT = ["conformance/test_*debian13.py"] if os.environ.get("POSTCOPY_DEBIAN") else []
collect_ignore_glob = LEFT_OUT


def pytest_terminal_summary(terminalreporter):
    for left_out in LEFT_OUT:
        terminalreporter.line("left out: %s, which make a root of another release" % left_out)


def pytest_configure():
    # A shell's jobs in the background ignore it, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


LAST_LINES = 60


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What the servers and daemons said last while a test ran that failed."""
    report = (yield).get_result()
    workdir = getattr(item, "funcargs", {}).get("workdir")
    if report.failed and workdir:
        for log in logs_since(workdir, call.start):
            lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            report.sections.append((str(log.relative_to(workdir)), "\n".join(lines)))


def logs_since(top, start):
    for where, dirs, names in os.walk(top):
        dirs[:] = sorted(name for name in dirs if name != "mnt")    # volumes may be broken
        for log in (pathlib.Path(where, name) for name in sorted(names)
                    if name.endswith(".log") or name.startswith("log.")):
            if log.is_file() and log.stat().st_mtime >= start:
                yield log


# Files that take longest, which several workers therefore begin with: else all would wait
# for one in the end.
LONGEST = ("debian13", "model", "smb_source", "smb_depot", "smb_kerberos", "nfs_kerberos",
           "smb_meta", "limits", "both", "ops_rename", "init_check", "smb_torture",
           "recall_budget", "nfs4_suites", "ops_setattr", "two_releases", "disk_missing", "broken_volume",
           "bad_input", "fragments", "kills", "refused", "guides")


def pytest_collection_modifyitems(items):
    place = {"test_" + name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.module.__name__, len(LONGEST)))
    for item in items if FORCED not in (None, "3") else ():
        reason = unsaid("tests/" + item.nodeid)
        if reason:
            item.add_marker(pytest.mark.skip(reason="NFSv4: " + reason))


@pytest.fixture(scope="session")
def workdir():
    """A private directory for this run; leftovers of dead runs are removed."""
    BASE.mkdir(parents=True, exist_ok=True)
    sweep_stale(BASE)
    path = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=BASE))
    os.chmod(path, 0o755)
    yield path
    if not os.environ.get("POSTCOPY_KEEP"):
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _own_list_of_volumes(workdir):
    """That of the machine, /etc/postcopy/volumes, is its administrator's."""
    os.environ["POSTCOPY_VOLUMES"] = str(workdir / "volumes")
    yield
    del os.environ["POSTCOPY_VOLUMES"]


ETC = pathlib.Path("/etc/postcopy")


def settings_here():
    """The machine's, all of them."""
    return {at: at.read_bytes() if at.is_file() else None for at in [ETC, *ETC.rglob("*")]
            if at.exists()}


def pytest_sessionstart(session):
    session.settings_here = settings_here()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """With several workers it is for who started them to look, when all have ended."""
    if hasattr(session.config, "workerinput") or settings_here() == session.settings_here:
        return
    session.config.get_terminal_writer().line("\n%s is not as it was before the tests" % ETC,
                                              red=True)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module")
def moddir(workdir, request):
    """A private directory for one test module."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=request.module.__name__ + "-",
                                         dir=workdir))
    os.chmod(path, 0o755)
    return path


@pytest.fixture(scope="session")
def rpcshim(workdir):
    return programs.build_rpcshim(workdir / "build")


@pytest.fixture(scope="session")
def nfstree(workdir):
    """Path of the nfstree program."""
    ready = os.environ.get("POSTCOPY_NFSTREE")
    return pathlib.Path(ready) if ready else programs.build_nfstree(workdir / "build")


@pytest.fixture(scope="module")
def new_volume(moddir):
    """Factory of LoopVolumes that end with the module."""
    made = []

    def make(fstype="xfs", size="2G", **kw):
        made.append(LoopVolume(moddir, fstype, size, **kw))
        return made[-1].create()

    yield make
    for volume in reversed(made):
        volume.destroy()


@pytest.fixture(scope="module")
def loop_xfs(new_volume):
    return new_volume("xfs")


def factory(server):
    """A function that starts one, for a fixture: all of them end with it, the last one first."""
    made = []

    def make(*args, **kw):
        made.append(server(*args, **kw))
        return made[-1].start()

    yield make
    bad = []
    for server in reversed(made):
        try:
            server.stop()
        except BadLog as err:
            bad.append(str(err))
    assert not bad, "\n".join(bad)


@pytest.fixture(scope="module")
def new_server(moddir, rpcshim, new_volume):
    """Factory of running Ganeshas that end with the module (before volumes).

    new_server("name", tree, fsal="stub", plugin_dir=...) as in lib.ganesha.Ganesha.
    """
    yield from factory(lambda name, tree=None, **kw: Ganesha(moddir / name, tree, shim=rpcshim,
                                                             **kw))


@pytest.fixture(scope="module")
def old_server(new_server):
    """Factory: old_server(tree, **options) is a plain FSAL_VFS server."""
    count = iter(range(1000))

    def make(tree, **kw):
        return new_server("old%d" % next(count), tree, fsal="vfs", **kw)

    return make


@pytest.fixture(scope="module")
def new_samba(moddir, new_volume):
    """Factory of running smbds that end with the module (before volumes).

    new_samba("name", tree, ...) as in lib.smbd.Samba.
    """
    yield from factory(lambda name, tree=None, **kw: Samba(moddir / name, tree, **kw))


@pytest.fixture(params=PROTOCOLS)
def proto(request):
    """Runs a test once for each protocol version."""
    return request.param


@pytest.fixture(autouse=True)
def _clean_logs(request):
    """Bad words in a server's log fail the test during which they came."""
    yield
    marker = request.node.get_closest_marker("allow_log")
    bad = []
    for server in RUNNING:
        bad += server.scan(marker.args if marker else ())
    if bad:
        pytest.fail("bad words in a server's log:\n" + "\n".join(bad))


@pytest.fixture
def new_migration(workdir, rpcshim, request):
    """Factory of Migrations that end with the test, audited for hidden state.

    new_migration(url, volume_dir, ...) as in lib.migration.Migration; not started.
    """
    made = []

    def make(url, volume, **kw):
        home = tempfile.mkdtemp(prefix="m-", dir=workdir)
        made.append(Migration(home, url, volume, shim=rpcshim, **kw))
        return made[-1]

    yield make
    for m in reversed(made):
        m.stop()


@pytest.fixture
def fresh_dir(loop_xfs):
    """An empty directory on the module's XFS."""
    return pathlib.Path(tempfile.mkdtemp(prefix="d-", dir=loop_xfs.path))
