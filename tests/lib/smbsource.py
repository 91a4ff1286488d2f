# SPDX-License-Identifier: GPL-3.0-or-later
"""What the suites of SMB sources share."""
import contextlib

import pytest

from lib import smbd
from lib.migration import Migration
from lib.programs import MODULES, WORKER

IDMAP = "".join("uid %d %s-%d\n" % (uid, smbd.SID, rid)
                for uid, _, rid in smbd.USERS.values()) + "everyone S-1-5-11\n"

with_worker = pytest.mark.skipif(not WORKER.exists(), reason="built without Samba's headers")
with_module = pytest.mark.skipif(not WORKER.exists() or not (MODULES / "stub.so").exists(),
                                 reason="built without Samba's headers")


@contextlib.contextmanager
def migrations(home, new_volume, rpcshim):
    """begin(url, conf, ...): a Migration on a volume of its own.  They end with the block."""
    made = []

    def begin(url, conf, fstype="xfs", size="2G", kind=Migration, **kw):
        """kind: class of the migration; kw: its options."""
        m = kind(home / ("m-%d" % len(list(home.glob("m-*")))), url,
                 new_volume(fstype, size).path / "volume", shim=rpcshim, conf=conf, **kw)
        m.volume.mkdir()
        made.append(m)
        return m

    try:
        yield begin
    finally:
        for m in made:
            m.stop()


def credentials(directory):
    """Settings of who is root over there, and of who is who here; the files are in the directory."""
    login, idmap = directory / "login", directory / "idmap"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    idmap.write_text(IDMAP)
    return dict(smb_credentials=login, smb_idmap=idmap)


PATIENT = 120000        # ms, of call_timeout: no connection is given up for being slow


def settings(**values):
    """Lines of postcopy.conf; the worker's is among them."""
    return "".join("%s = %s\n" % (key, value if isinstance(value, int) else '"%s"' % value)
                   for key, value in dict(values, smb_worker=WORKER).items())
