# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's SMB client: uses the new server while it is being filled."""
import visitor

from smb2client import Gone, SmbError, wire


class Visitor(visitor.Visitor):
    """Lists random directories and reads random pieces until stop()."""

    avoid = ()              # directories: paths
    errors = (SmbError, Gone, AssertionError, OSError)

    def stop(self):
        self.new.delays = 0         # SMB has no "try again": an answer comes when it is there
        super().stop()

    def walk(self):
        path = ""
        while not self._over.is_set():
            entries = self.timed(self.new.listdir, path)
            self.report.listings += 1
            prefix = path + "/" if path else ""
            entries = [e for e in entries if prefix + e.name not in self.avoid]
            dirs = [e for e in entries if e.attributes & wire.ATTR_DIRECTORY]
            files = [e for e in entries if e not in dirs and e.size]
            for entry in self._random.sample(files, min(2, len(files))):
                self.read(prefix + entry.name, entry.size)
            if not dirs:
                return
            path = prefix + self._random.choice(dirs).name
            if not self.opens(path):
                return

    def opens(self, path):
        """Does the old server let it be opened?"""
        return True

    @staticmethod
    def piece(client, path, offset, count):
        with client.open(path, timeout=60) as f:
            return f.read(offset, count, timeout=60)
