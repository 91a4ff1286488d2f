# SPDX-License-Identifier: GPL-3.0-or-later
"""Where smbtorture runs: an XFS, and an smbd with a share for each suite.

names.txt says which files a suite makes ("SUITE NAME", a directory's with "/"): the old
server has them already, so that the suite meets, overwrites and removes stubs.
"""
import contextlib
import os
import re
import subprocess
from pathlib import Path

from lib.ganesha import Ganesha
from lib.migration import SmbMigration
from lib.programs import MODULES, STUBTOOL, build_rpcshim
from lib.server import BadLog
from lib.smbd import STOCK, USERS, Samba, Share
from lib.volume import LoopVolume, VolumeError

NAMES = Path(__file__).resolve().parent / "names.txt"
FILE_SIZE = 100001          # of each file that is there before

# Shares of suites that ask for more than Samba's defaults: "share=" in expected.txt.
SPECIAL = {
    "dosmode": "hide files = /hidefile/",
    "durable": "kernel share modes = no\nposix locking = no",
    "fruit": "fruit:resource = file\nfruit:metadata = netatalk\nfruit:locking = netatalk\n"
             "fruit:encoding = native\nfruit:veto_appledouble = no",
    "mangled": "mangled names = yes",
}
STACKS = {"fruit": ("catia", "fruit", *STOCK)}

GLOBAL = """\
server min protocol = NT1
client min protocol = NT1
kernel oplocks = no
fruit:copyfile = yes
"""
AUDIT = """\
full_audit:prefix = audited %S
full_audit:success = openat mkdirat
full_audit:failure = none
full_audit:syslog = no
"""
AUDITED = re.compile(r"audited (\S+)\|(openat\|ok\|w|mkdirat\|ok)\|(.*)$", re.M)
ENOUGH = 40                 # names of one suite


class PlaceError(Exception):
    """Why it could not be made ready."""


def all_names():
    """The (suite, name) pairs of names.txt."""
    if not NAMES.exists():
        return []
    return [tuple(line.split(" ", 1)) for line in NAMES.read_text().splitlines()
            if line and not line.startswith("#")]


def read_names(suite):
    """The names a suite uses, directories before what is in them."""
    return sorted(name for owner, name in all_names() if owner == suite)


def record_names(place):
    """Write what the log of an audited server says to names.txt; other suites' stay."""
    found = {}
    for suite, call, path in AUDITED.findall(place.server.log_text()):
        name = os.path.relpath(path, place.top / suite) if path.startswith("/") else path
        if not name.startswith(".") and ":" not in name and name.isprintable():
            found.setdefault(suite, {})[name] = "/" if call.startswith("mkdirat") else ""
    ran = {share.name for share in place.server.shares}
    lines = ["%s %s" % (suite, name) for suite, name in all_names() if suite not in ran]
    lines += ["%s %s%s" % (suite, name, slash) for suite, names in found.items()
              for name, slash in sorted(names.items())[:ENOUGH]]
    NAMES.write_text("# Files that suites of smbtorture make: tests/smb/torture --record\n" +
                     "".join(line + "\n" for line in sorted(lines)))


class Place(contextlib.ExitStack):
    """server: an smbd whose shares are named as the suites."""

    def __init__(self, home):
        super().__init__()
        self.home, self.top = home, None
        self.server = None

    def directory(self, name):
        """A directory of an XFS of its own."""
        try:
            top = self.enter_context(LoopVolume(self.home, "xfs", "2G", name=name)).path / "data"
        except VolumeError as err:
            raise PlaceError(err) from None
        top.mkdir()
        return top

    def shares(self, top, suites, above=(), below=(), more=""):
        """One for each suite; above and below what a stock server has: more modules."""
        kinds = [(suite, suite.options.get("share")) for suite in suites]
        return [Share(str(top / suite.name), suite.name,
                      (*above, *STACKS.get(kind, STOCK), *below),
                      more=SPECIAL.get(kind, "") + "\n" + more) for suite, kind in kinds]

    def start(self, shares, **options):
        self.server = Samba(self.home / "smbd", shares=shares, conf=GLOBAL, **options)
        try:
            self.server.start()
        except (AssertionError, TimeoutError) as err:
            raise PlaceError("smbd does not start: %s" % err) from None
        self.callback(self.stop)

    def stop(self):
        try:
            self.server.stop()
        except BadLog as err:
            raise PlaceError(err) from None


def make_directories(top, suites, used):
    """A directory for each suite, with the files that it uses if they shall be there."""
    uid, gid, _ = USERS["alice"]
    data = bytes(range(1, 252)) * (FILE_SIZE // 251 + 1)
    for suite in suites:
        (top / suite.name).mkdir()
        for name in read_names(suite.name) if used else ():
            path = top / suite.name / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data[:FILE_SIZE])
                path.chmod(0o777)
        for directory, _, files in os.walk(top / suite.name):
            for name in (".", *files):
                os.chown(os.path.join(directory, name), uid, gid)
        (top / suite.name).chmod(0o777)


def migrating(place, target, suites):
    """A volume in the state that the target says; stock Ganesha is its old server."""
    if not (MODULES / "stub.so").exists():
        raise PlaceError("no module: %s/stub.so is missing" % MODULES)
    shim = build_rpcshim(place.home / "build")
    old = place.directory("old")
    make_directories(old, suites, target in ("partial", "dummy"))
    server = Ganesha(place.home / "ganesha", str(old), shim=shim, readonly=True).start()
    place.callback(server.stop)
    new = place.directory("new")       # later: with the same times init takes it for the old one
    m = SmbMigration(place.home / "m", server.url(), new, shim=shim).init().start_retriever()
    place.callback(m.stop)
    if target == "normal":
        m.crawl()
        m.audit(complete=True)
    elif target == "partial":
        list_all(new)
    else:
        for suite in suites:        # a share's path has to be there; nothing below it is
            ask(new, ".", "lookup", suite.name)
    found = m.scan()
    print("%d stubs, %d unlisted directories" % (found["stubs"], found["unlisted"]))
    if (found["stubs"] + found["unlisted"] == 0) != (target == "normal"):
        raise PlaceError("the volume is not %s: %s" % (target, found))
    place.start(place.shares(new, suites, below=("stub",)), module_dir=MODULES)


def ask(top, where, *request):
    """As a server asks the retriever about an object."""
    done = subprocess.run([STUBTOOL, "ask", str(top), where, *request], capture_output=True,
                          text=True)
    if done.returncode:
        raise PlaceError("stubtool ask %s: %s" % (where, done.stderr.strip()))


def list_all(top):
    """Every directory is listed: what is in it are stubs, dummy or partial."""
    for directory, dirs, _ in os.walk(top):
        ask(top, os.path.relpath(directory, top), "list")
        dirs[:] = [d for d in os.listdir(directory) if d != ".postcopy" and
                   os.path.isdir(os.path.join(directory, d))]


def make_place(target, home, suites, record=False):
    """target: stock, used (stock, but the names are there), normal, partial, dummy."""
    place = Place(home)
    try:
        if target in ("stock", "used"):
            top = place.top = place.directory("fs")
            make_directories(top, suites, target == "used")
            place.start(place.shares(top, suites, ("full_audit",), more=AUDIT) if record
                        else place.shares(top, suites))
        else:
            migrating(place, target, suites)
    except BaseException:
        place.close()
        raise
    return place
