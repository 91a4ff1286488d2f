# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's two clients of one tree: one of NFS, one of SMB, each with a file of its own."""
import smb_visitor
import visitor

from smb2client import SmbError, wire

PLACE = "guests"            # a directory of the old tree: only there clients write
MINE = {"nfs": PLACE + "/nfs", "smb": PLACE + "/smb"}
ACCESS = wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.SYNCHRONIZE


class Writer:
    """Adds a line to a file of its own before each walk; what it wrote is in .wrote."""

    wrote = b""

    def walk(self):
        line = b"walk %d\n" % self.wrote.count(b"\n")
        self.timed(self.write, len(self.wrote), line)
        self.wrote += line
        super().walk()


class NfsVisitor(Writer, visitor.Visitor):
    def write(self, offset, data):
        patient = self.new.patient(60)
        fh = patient.create(MINE["nfs"].encode())[0]      # or the one that is there
        assert patient.write(fh, offset, data).count == len(data)

    def read(self, path, size):
        if path.decode(errors="replace") not in MINE.values():
            super().read(path, size)


class SmbVisitor(Writer, smb_visitor.Visitor):
    avoid = {"odd"}         # names of which SMB shows others, or none

    def write(self, offset, data):
        with self.new.open(MINE["smb"], ACCESS, wire.OPEN_IF, timeout=60) as f:
            f.write(offset, data)

    def read(self, path, size):
        if path not in MINE.values() and self.opens(path):
            super().read(path, size)

    def opens(self, path):
        """Symlinks to nowhere are listed, too: both servers must say the same."""
        was, is_ = (status(side, path) for side in (self.old, self.new))
        if was != is_:
            self.report.wrong.append("%r: the new server says %s, the old one %s" % (
                path, is_, was))
        return was == is_ == "OK"


def status(client, path):
    try:
        client.open(path, wire.READ_ATTRIBUTES, timeout=60).close()
    except SmbError as err:
        return err.status
    return "OK"


class Both:
    """Two visitors as one."""

    def __init__(self, nfs, smb):
        self.nfs, self.smb = nfs, smb
        self.report = visitor.Report()

    def start(self):
        self.nfs.start()
        self.smb.start()

    def stop(self):
        one, two = self.nfs, self.smb
        try:
            one.stop()
        finally:
            two.stop()
        for r in (one.report, two.report):
            for name in ("listings", "reads", "bytes", "delays", "wrong"):
                setattr(self.report, name, getattr(self.report, name) + getattr(r, name))
            self.report.worst_ms = max(self.report.worst_ms, r.worst_ms)
