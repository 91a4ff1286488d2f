# SPDX-License-Identifier: GPL-3.0-or-later
"""Our module in the smbd of Debian 13 (Samba 4.22), built for it; all else is this machine's:
some tests of other files, and what differs between the releases.  Whole files run so with
POSTCOPY_DEBIAN=trixie, and with nothing but Debian 13's programs below tests/tools/debian-run
(docs/conformance-smb.md)."""
import subprocess

import pytest

from lib import debian, smbtree
from lib.case import SIZE
from lib.expect import same
from lib.migration import SmbMigration
from lib.programs import MODULES
from lib.smbd import PASSWORD, STACK, Samba, Share
from lib.smbsource import with_module
from lib.world import BothWorld
from smb2client import wire
from test_smb_ops_data import (test_copied_from, test_copied_to, test_flush,  # noqa: F401
                               test_overwritten_by_open, test_read, test_streams,
                               test_write_in_the_middle, test_write_without_reading, test_zeroed)
from test_smb_ops_names import (exact, test_a_directory_made_lists_nothing,  # noqa: F401
                                test_an_empty_directory_goes, test_create, test_create_below,
                                test_descriptor, test_dos_attributes, test_eas,
                                test_fill_is_invisible, test_list, test_remove, test_rename,
                                test_rename_over, test_stat,
                                test_what_the_old_server_has_is_there)
from test_smb_waits import (cold, patient, test_a_listing_holds_up_nothing,  # noqa: F401
                            test_a_name_holds_up_its_connection_for_a_bounded_time,
                            test_reads_hold_up_nothing)

pytestmark = with_module

WORLD = BothWorld
RELEASE = debian.other(debian.NEWER)
MORE = "stub:wait = 2000"
POSIX = "smb3 unix extensions = yes"

# A client with the POSIX extensions, which is Samba's own; it runs where that is.
APPEND = r"""
import sys
from samba import credentials, param
from samba.dcerpc import security
from samba.samba3 import libsmb_samba_internal as libsmb, param as s3param
config, host, password, path = sys.argv[1:]
lp = s3param.get_context()
lp.load(config)
creds = credentials.Credentials()
creds.guess(param.LoadParm(config))
creds.set_username("root")
creds.set_password(password)
c = libsmb.Conn(host, "share", lp, creds, posix=True)
mode = libsmb.unix_mode_to_wire(0o644).to_bytes(4, "little")
f, *_ = c.create_ex(path, DesiredAccess=security.SEC_FILE_APPEND_DATA,
                    ShareAccess=libsmb.FILE_SHARE_READ | libsmb.FILE_SHARE_WRITE,
                    CreateDisposition=libsmb.FILE_OPEN,
                    CreateContexts=[(libsmb.SMB2_CREATE_TAG_POSIX, mode)])
for line in (b"one", b"and two"):
    c.write(f, buffer=line, offset=libsmb.VFS_PWRITE_APPEND_OFFSET)
c.close(f)
"""


def test_it_is_newer(world):
    assert world.smbd.version >= (4, 22)


class Alone(Samba):
    """In a network of its own, with the port that a client of Samba's Python takes for granted."""
    @property
    def wrap(self):
        return ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
                *super().wrap)

    def _choose_ports(self):
        self.port = 445

    def _ready(self):
        self._is_up()
        return self.run("smbclient", "-U", "root%" + PASSWORD, self.unc(), "-c",
                        "exit").returncode == 0

    def run(self, *argv):
        return subprocess.run(["nsenter", "--net", "--target", str(self.pid), *super().wrap, *argv],
                              capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def alone(world, moddir):
    share = Share(str(world.volume), vfs=STACK)
    with Alone(moddir / "alone", shares=[share], release=RELEASE, conf=POSIX,
               module_dir=debian.modules(RELEASE)) as server:
        yield server


def test_appended(case, smb, alone, place):
    """By a client with the POSIX extensions: to the end of a file whose data is elsewhere."""
    case.file()
    case.enter(place, "f")
    done = alone.run("python3", "-c", APPEND, str(alone.config), alone.host, PASSWORD,
                     case.path("f"))
    assert done.returncode == 0, done.stdout + done.stderr
    case.write("f", SIZE, b"oneand two")
    same(smb.read_file(case.path("f")), case.data("f"))


@pytest.mark.skipif(not RELEASE, reason="there is no other release here")
@pytest.mark.parametrize("smbd_of", ["this", "other"])
def test_the_module_of_another_samba_is_refused(moddir, loop_xfs, smbd_of):
    """Nobody can connect to the share, and the log says which file it is."""
    tree = loop_xfs.path / ("refused-" + smbd_of)
    tree.mkdir()
    ours = {"this": debian.modules(RELEASE), "other": MODULES}[smbd_of]
    server = Samba(moddir / ("refused-" + smbd_of), module_dir=ours,
                   release={"this": None, "other": RELEASE}[smbd_of], allow=["."],
                   shares=[Share(str(tree)), Share(str(tree), name="ours", vfs=(*STACK, "stub"))])
    server._ready = lambda: server._is_up() or server.smbclient("exit").returncode == 0
    with server:
        refused = server.smbclient("ls", share="ours")
        assert refused.returncode != 0 and "tree connect failed" in refused.stdout + refused.stderr
        assert "stub.so" in server.log_text() and "error probing vfs module" in server.log_text()
        assert server.smbclient("ls").returncode == 0


def test_a_whole_share(new_samba, make, tree):
    """From an smbd of that release, brought by the worker, to one of it; compared over SMB while
    it is fetched on demand, and when all of it is here."""
    old = new_samba("old", tree, more=smbtree.RAW_NAMES, release=RELEASE)
    with old.client() as c:
        smbtree.Builder(c, entries=50, deep=5).build()
    m = make(old.url(), kind=SmbMigration, more=smbtree.RAW_NAMES, release=RELEASE).init().start()
    with old.client() as was, m.client() as is_:
        assert not list(map(str, smbtree.compare(was, is_, migrating=True, data=False)))
        assert is_.stat("sizes/65537").attributes & wire.ATTR_OFFLINE
        m.crawl()
        m.audit(complete=True)
        counts = {}
        assert not list(map(str, smbtree.compare(was, is_, counts=counts)))
    assert counts["objects"] > 150
