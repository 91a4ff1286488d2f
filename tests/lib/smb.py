# SPDX-License-Identifier: GPL-3.0-or-later
"""What the test_smb_ops_* suites share: case.py's world with an smbd and our module
beside the NFS server, on the same volume.

The model is compared in the end through NFS, after the crawl, as in test_ops_*: modes,
owners, times, bytes, links.
"""
import os

import pytest

from lib import case
from lib.migration import BUILD
from lib.programs import wait_until
from lib.smbd import STOCK, Samba, Share
from smb2client import SmbError, wire

ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES | \
    wire.READ_EA | wire.WRITE_EA | wire.SYNCHRONIZE
STACK = (*STOCK, "stub")        # ours is asked last: what it sees are files
EPOCH = 116444736000000000      # 1970 in 100 ns since 1601
UNIX = 10 ** 7                  # 100 ns in a second


class SmbWorld(case.World):
    SMB = True

    def __init__(self, home, volume, shim, more="", stack=STACK, smb_conf="",
                 attr_cache=0, **options):
        super().__init__(home, volume, shim, attr_cache=attr_cache, **options)
        self.smbd = Samba(self.m.workdir / "smbd", module_dir=BUILD / "vfs_stub", conf=smb_conf,
                          shares=[Share(str(volume), vfs=stack, more=more)]).start()

    def seen(self, client, path):
        """smbd sets the time once more when a file is closed, and NFS is told a moment later."""
        def told():
            fh, attrs = client.lookup(path)
            return attrs.mtime == os.lstat(self.volume / path).st_mtime_ns and (fh, attrs)

        return wait_until(told, 60, "the time of %s" % path, interval=0.001)

    def audit(self):
        """As ever, but for files that SMB clients have removed while Ganesha has them open:
        they are in the journal, and no walk finds them, until it closes them."""
        self.settle()
        status, scan = self.control("status"), self.m.scan()
        counter = status["pending"] + status["parked"] + status["conflicts"]
        assert scan["uncovered"] == 0 and scan["corrupt"] == 0, scan
        assert counter <= scan["journal"] and scan["covered"] <= counter, (status, scan)
        assert status["parked"] + status["conflicts"] == 0, (
            status, self.m.tool("parked", self.volume))

    def finish(self):
        self.smbd.stop()
        self.m.server.restart()
        self.settle()
        return super().finish()

    def stop(self):
        try:
            super().stop()
        finally:
            self.smbd.kill9()


def smb_status(call, *args, **options):
    """The status with which a call fails."""
    with pytest.raises(SmbError) as caught:
        call(*args, **options)
    return caught.value.status
