# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of FakeServer (NFSv4.1 and 4.2), as strict as a server may be: what breaks the protocol
is in `broken`.

    sessions = Sessions(slots=4)
    sessions.drop = 1                   # the next SEQUENCE: BADSESSION
    sessions.forget()                   # all of them, as after a restart
"""
import struct
import threading

from . import errors
from .xdr import Packer

REPLY_MAX = (1 << 20) + 4092
NOT_IN_SESSIONS = ("EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION", "DESTROY_CLIENTID")


class Session:
    def __init__(self, number, client, slots):
        self.id = struct.pack(">QQ", number, client)
        self.client = client
        self.next = [1] * slots


class Sessions:
    def __init__(self, slots=16, reply_max=REPLY_MAX, lease=60):
        self.slots, self.reply_max, self.lease = slots, reply_max, lease
        self.drop = 0                   # so many SEQUENCEs say BADSESSION
        self.made = self.ended = 0
        self.alone = 0                  # SEQUENCE, and nothing behind it
        self.broken = []
        self._clients, self._open, self._last = {}, {}, 0
        self._lock = threading.Lock()

    def forget(self):
        with self._lock:
            self._clients.clear()
            self._open.clear()

    @property
    def clients(self):
        return dict(self._clients)

    def _number(self):
        self._last += 1
        return self._last

    # -- each: (status, body) -----------------------------------------------------------

    def exchange_id(self, args):
        verifier, owner, _flags = args
        with self._lock:
            for client, of in list(self._clients.items()):
                if of[0] == owner:      # it has started again: what it had before goes
                    del self._clients[client]
                    for session in [s for s in self._open.values() if s.client == client]:
                        del self._open[session.id]
            client = self._number()
            self._clients[client] = (owner, verifier)
        return 0, (Packer().u64(client).u32(1).u32(0x10000).u32(0).u64(0).opaque(b"fake")
                   .opaque(b"fake").u32(0).done())

    def create_session(self, args):
        client, sequence, flags, wanted = args
        with self._lock:
            if client not in self._clients:
                return errors.STALE_CLIENTID, b""
            if sequence != 1 or flags:
                self.broken.append(("CREATE_SESSION", args))
            session = Session(self._number(), client, min(self.slots, wanted))
            self._open[session.id] = session
            self.made += 1
        p = Packer().fixed(session.id).u32(sequence).u32(0)
        for _ in range(2):
            p.u32(0).u32(8192).u32(self.reply_max).u32(0).u32(24).u32(len(session.next)).u32(0)
        return 0, p.done()

    def sequence(self, args):
        sid, number, slot, highest, _keep = args
        with self._lock:
            session = self._open.get(sid)
            if self.drop and session:
                self.drop -= 1
                session = self._open.pop(sid)
                return errors.BADSESSION, b""
            if session is None:
                return errors.BADSESSION, b""
            last = len(session.next) - 1
            if slot > last or highest > last or highest < slot:
                self.broken.append(("SEQUENCE", args))
                return errors.BADSLOT, b""
            if number != session.next[slot]:
                self.broken.append(("SEQUENCE", args))
                return errors.SEQ_MISORDERED, b""
            session.next[slot] += 1
        return 0, Packer().fixed(sid).u32(number).u32(slot).u32(last).u32(last).u32(0).done()

    def destroy_session(self, args):
        with self._lock:
            found = self._open.pop(args, None)
            self.ended += found is not None
        return (0 if found else errors.BADSESSION), b""

    def destroy_clientid(self, args):
        with self._lock:
            found = self._clients.pop(args, None)
        return (0 if found else errors.STALE_CLIENTID), b""

    def reclaim_complete(self, _args):
        return 0, b""


def get_exchange_id(u):
    verifier, owner, flags = u.fixed(8), u.opaque(1024), u.u32()
    if u.u32() != 0 or u.u32() != 0:    # protection, implementation
        raise ValueError("EXCHANGE_ID")
    return verifier, owner, flags


def get_create_session(u):
    client, sequence, flags = u.u64(), u.u32(), u.u32()
    fore = [u.u32() for _ in range(7)]
    back = [u.u32() for _ in range(7)]
    if fore[6] or back[6]:
        raise ValueError("RDMA")
    u.u32()
    for _ in range(u.u32()):
        if u.u32() != 0:
            raise ValueError("callback credentials")
    return client, sequence, flags, fore[5]


def get_sequence(u):
    return u.fixed(16), u.u32(), u.u32(), u.u32(), u.u32()


ARGS = {"EXCHANGE_ID": get_exchange_id, "CREATE_SESSION": get_create_session,
        "SEQUENCE": get_sequence, "DESTROY_SESSION": lambda u: u.fixed(16),
        "DESTROY_CLIENTID": lambda u: u.u64(), "RECLAIM_COMPLETE": lambda u: u.u32()}
