# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories on a volume with two sources: the fake NFS server, and an smbd that shares a
local copy of its tree, with the same file ids.  What is wrong with the source is wrong with
both: connections to the smbd are lost, too."""
import contextlib
import os
import pathlib
import random
import signal
import tempfile

from lib.programs import BUILD
from lib.smbd import PASSWORD, Samba, Share
from model_rig import Rig, plant_locally
from model_run import Run


class JoinedRig(Rig):
    def __init__(self, disk, objects, options, stock=False):
        super().__init__(disk, objects, options)
        self.old = pathlib.Path(tempfile.mkdtemp(prefix="o-", dir=disk.volume.path))
        self.old.chmod(0o755)
        plant_locally(objects, self.old)
        for path in ["", *(item["path"] for item in objects)]:
            self.fake.tree.find(path).fileid = os.lstat(self.old / path).st_ino
        if getattr(disk, "old_samba", None) is None:        # users are made once
            disk.old_samba = Samba(disk.home / "old-smbd", tree="/nonexistent")
        self.samba = disk.old_samba
        self.samba.shares = [Share(str(self.old))]
        login = disk.home / "login"
        login.write_text("username = root\npassword = %s\n" % PASSWORD)
        login.chmod(0o600)
        self.m.conf += 'smb_credentials = "%s"\nsmb_worker = "%s"\n' % (
            login, BUILD / "retriever" / "postcopy-smb-worker")

    def start(self):
        self.samba.start()
        self.m.join = self.samba.url()
        return super().start()

    def _source(self, op):
        super()._source(op)
        if op["kind"] in ("cut", "drop"):
            rng = random.Random(op["seed"])
            for pid in self.samba.processes():
                if pid != self.samba.pid and rng.random() < 0.5:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def audit(self, complete):
        """All that the share has was joined."""
        super().audit(complete)
        assert self.control("status")["mismatches"] == 0, self.control("status")["mismatch"]

    def stop(self, good=True):
        try:
            super().stop(good)
        finally:
            self.samba.stop(scan=good)


class JoinedRun(Run):
    RIG = JoinedRig
