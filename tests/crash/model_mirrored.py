# SPDX-License-Identifier: GPL-3.0-or-later
"""A history's volume has a mirror, a backup on a server of its own, and what may befall that.

    options["mirror"]: the mode, "sync", "partly-async", "async"

In the end both sides are equal, object by object, and each of them is what the model has.
"""
import contextlib
import pathlib
import shutil
import tempfile
import time

from lib.ganesha import Ganesha
from lib.mirror import Mirror

MODES = ("sync", "partly-async", "async")
TROUBLES = ("kill-replicator", "kill-replicator", "kill-mirror", "mirror-away", "mirror-mode")


def mode_of(seed):
    """Histories have them in turn, whichever seed is tried."""
    return MODES[seed % len(MODES)]


def trouble(rng):
    op = {"op": rng.choice(TROUBLES)}
    if op["op"] == "mirror-mode":
        op["mode"] = rng.choice(MODES)
    elif op["op"] != "kill-mirror":
        op["away"] = rng.choice((0, 0, 50, 500))
    return op


class Backup:
    """The mirror of a rig's volume."""

    def __init__(self, disk, m, mode):
        self.m, self.mode, self.recoveries = m, mode, 0
        self.tree = pathlib.Path(tempfile.mkdtemp(prefix="b-", dir=disk.volume.path))
        self.tree.chmod(0o755)
        self.server = Ganesha(m.workdir / "backup", str(self.tree), shim=disk.shim)
        self.mirror = None

    def start(self):
        """The volume has been made, and nobody uses it yet."""
        self.server.start()
        self.m.postcopy("mirror", "add", self.server.url(), self.m.volume)
        self.m.postcopy("mirror", "mode", self.m.volume, self.mode)
        self.mirror = Mirror(self.m.workdir / "replicator", self.m.volume).start()

    # -- what may befall it: the rig's disturb() --------------------------------------

    def kill_replicator(self, op):
        self.mirror.kill()
        time.sleep(op["away"] / 1000)
        self.mirror.start()
        self.recoveries += 1

    def kill_mirror(self, _op):
        self.server.kill9()
        self.server.start()
        self.recoveries += 1

    def mirror_away(self, op):
        self.server.stop(scan=False)
        time.sleep(op["away"] / 1000)
        self.server.start()
        self.recoveries += 1

    def mirror_mode(self, op):
        self.m.postcopy("mirror", "mode", self.m.volume, op["mode"])

    # -- the end ----------------------------------------------------------------------

    def finish(self):
        """All has come, and nobody changes anything any more."""
        self.mirror.equal(self.tree)
        status = self.mirror.status()
        assert not status["parked_count"] and not status["waiting_for_fill"], status

    def stop(self, good):
        try:
            if good and self.mirror:
                self.mirror.stop()
                self.server.stop()
        finally:
            if self.mirror:
                self.mirror.kill()
            self.server._kill(9)
        if good:
            with contextlib.suppress(OSError):
                shutil.rmtree(self.tree)
