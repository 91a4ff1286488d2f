# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS status codes and what to do about "try again later".

NFSv3 (RFC 1813) and NFSv4 (RFC 7530, RFC 8881) give the same numbers to the
same meanings, so one table and one exception serve all protocols.
"""
import time

OK = 0
PERM, NOENT, IO, NXIO, ACCES, EXIST, XDEV = 1, 2, 5, 6, 13, 17, 18
NODEV, NOTDIR, ISDIR, INVAL, FBIG, NOSPC, ROFS = 19, 20, 21, 22, 27, 28, 30
MLINK, NAMETOOLONG, NOTEMPTY, DQUOT, STALE = 31, 63, 66, 69, 70
BADHANDLE, NOT_SYNC, BAD_COOKIE, NOTSUPP = 10001, 10002, 10003, 10004
TOOSMALL, SERVERFAULT, BADTYPE, JUKEBOX = 10005, 10006, 10007, 10008
DELAY = JUKEBOX                     # NFSv4's name for it
SAME, DENIED, EXPIRED, LOCKED, GRACE = 10009, 10010, 10011, 10012, 10013
STALE_CLIENTID, STALE_STATEID = 10022, 10023
BAD_STATEID, BAD_SEQID, NOT_SAME = 10025, 10026, 10027
SYMLINK, LOCK_RANGE = 10029, 10028
BADNAME, BADSESSION, OPENMODE, BADOWNER = 10041, 10052, 10038, 10039
SHARE_DENIED = 10015
MINOR_VERS_MISMATCH, BADSLOT, SEQ_MISORDERED, OP_NOT_IN_SESSION = 10021, 10053, 10063, 10071
FHEXPIRED = 10014
RESOURCE = 10018
WRONGSEC, MOVED = 10016, 10019
NO_GRACE = 10033
LOCKS_HELD = 10037
NOFILEHANDLE, BADXDR = 10020, 10036
DEADSESSION = 10078
COMPLETE_ALREADY = 10054
BADCHAR = 10040
WRONG_TYPE = 10083
ATTRNOTSUPP = 10032
OP_ILLEGAL, NOXATTR = 10044, 10095

NAMES = {value: name for name, value in list(globals().items())
         if name.isupper() and isinstance(value, int) and name != "DELAY"}


class NfsError(Exception):
    """The server answered with a status other than OK."""

    def __init__(self, status, where=""):
        self.status, self.where = status, where
        super().__init__("%s: %s" % (where, NAMES.get(status, status)))

    @property
    def name(self):
        return NAMES.get(self.status, str(self.status))

    @property
    def is_delay(self):
        return self.status == DELAY


def retry_jukebox(call, deadline=60.0, pause=0.02, longest=0.5, on_delay=None):
    """Run call() until it answers something else than "try again later".

    deadline is in seconds from now; once passed the NfsError is let through.
    on_delay(error) is called for each such answer (to count them).
    """
    end = time.monotonic() + deadline
    while True:
        try:
            return call()
        except NfsError as err:
            if not err.is_delay:
                raise
            if on_delay:
                on_delay(err)
            if time.monotonic() >= end:
                raise
        time.sleep(pause)
        pause = min(pause * 2, longest)
