# SPDX-License-Identifier: GPL-3.0-or-later
"""What the suites of SMB sources share; to be imported with *.

    tree    a directory for an old server's files
    make    make(url, ...): a Migration of a share of class Samba, with USERS in its idmap;
            ends with the module
"""
import pytest

import smbd
from migration import BUILD, Migration
from smbmigration import MODULES

WORKER = BUILD / "retriever" / "postcopy-smb-worker"
IDMAP = "".join("uid %d %s-%d\n" % (uid, smbd.SID, rid)
                for uid, _, rid in smbd.USERS.values()) + "everyone S-1-5-11\n"

with_worker = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")
with_module = pytest.mark.skipif(not WORKER.exists() or not (MODULES / "stub.so").exists(),
                                 reason="built without Samba's headers")


@pytest.fixture(scope="module")
def tree(loop_xfs):
    top = loop_xfs.path / "old"
    top.mkdir(mode=0o755)
    return top


@pytest.fixture(scope="module")
def make(moddir, new_volume, rpcshim):
    made = []
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    (moddir / "idmap").write_text(IDMAP)

    def factory(url, fstype="xfs", idmap=moddir / "idmap", kind=Migration, conf="", **kw):
        """kind: class of the migration; conf: more lines of postcopy.conf; kw: its options."""
        conf += "".join('%s = "%s"\n' % x for x in (
            ("smb_credentials", login), ("smb_worker", WORKER), ("smb_idmap", idmap)))
        m = kind(moddir / ("m-%d" % len(made)), url, new_volume(fstype, "2G").path / "volume",
                 shim=rpcshim, conf=conf + "call_timeout = 2000\n", **kw)
        m.volume.mkdir()
        made.append(m)
        return m

    yield factory
    for m in made:
        m.stop()
