# SPDX-License-Identifier: GPL-3.0-or-later
"""How a client introduces itself to an NFSv4 server, and runs compounds.

Session40: SETCLIENTID and SETCLIENTID_CONFIRM; compounds go as they are.
Session41: EXCHANGE_ID, CREATE_SESSION; each compound starts with SEQUENCE on a
slot of its own, so as many may be in flight as there are slots.

Both come up again after a server restart: 4.1 when the server answers
BADSESSION, 4.0 when the caller sees STALE_CLIENTID and calls establish().
"""
import itertools
import os
import queue
import threading

from . import errors
from .errors import NfsError
from .nfs4 import NFS_PROGRAM, NFS_V4, PROC_COMPOUND, Compound
from .rpc import AuthSys, RpcBroken, RpcConnection, RpcTimeout
from .xdr import Packer, Unpacker

_instance = itertools.count(1)
SLOTS = 16
MAX_SIZE = (1 << 20) + 65536
# EXPIRED: of a client that was quiet for longer than its lease, until Ganesha forgets it
LOST_SESSION = (errors.BADSESSION, errors.DEADSESSION, errors.STALE_CLIENTID, errors.EXPIRED)


def _client_name():
    """Unlike any other client's, so that tests do not take each other's state."""
    return b"postcopy-test/%d/%d/%s" % (os.getpid(), next(_instance),
                                        os.urandom(4).hex().encode())


class _Pending:
    """A compound on its way."""

    def __init__(self, pending, compound, skip=0, done=None):
        self.pending, self.compound = pending, compound
        self.skip, self.done = skip, done

    def result(self, timeout=None):
        try:
            u = self.pending.result(timeout)
        except (RpcBroken, RpcTimeout):
            if self.done:
                self.done(False)
            raise
        except Exception:
            if self.done:
                self.done(True)
            raise
        if self.done:
            self.done(True)
        return self.compound.decode(u)[self.skip:]


class Session40:
    minor = 0

    def __init__(self, host, port, cred=AuthSys(), timeout=30.0):
        self.conn = RpcConnection(host, port, NFS_PROGRAM, NFS_V4, cred, timeout)
        self.name = _client_name()
        self.verifier = os.urandom(8)
        self.clientid = None
        self.establish()

    def establish(self):
        callback = (Packer().u32(0x40000000).opaque(b"tcp").opaque(b"0.0.0.0.0.0")
                    .u32(0).done())
        p = Packer().fixed(self.verifier).opaque(self.name).raw(callback)
        self.clientid, confirm = self.run(Compound().add(
            "SETCLIENTID", p, lambda u: (u.u64(), u.fixed(8))))[0]
        self.run(Compound().add("SETCLIENTID_CONFIRM",
                                Packer().u64(self.clientid).fixed(confirm)))

    def renew(self):
        self.run(Compound().add("RENEW", Packer().u64(self.clientid)))

    def submit(self, compound):
        return _Pending(self.conn.submit(PROC_COMPOUND, compound.encode(self.minor)),
                        compound)

    def run(self, compound, timeout=None):
        return self.submit(compound).result(timeout)

    def close(self):
        self.conn.close()


def _put_channel(p, requests):
    return (p.u32(0).u32(MAX_SIZE).u32(MAX_SIZE).u32(8192).u32(64).u32(requests)
            .u32(0))


def _get_channel(u):
    values = [u.u32() for _ in range(6)]
    u.array(Unpacker.u32, 1)
    return values


def _get_exchange(u):
    clientid, sequence = u.u64(), u.u32()
    u.u32()                                 # flags
    if u.u32() != 0:
        raise errors.NfsError(errors.SERVERFAULT, "EXCHANGE_ID: state protection")
    u.u64(), u.opaque(1024), u.opaque(1024)
    u.array(lambda v: (v.opaque(), v.opaque(), v.i64(), v.u32()), 1)
    return clientid, sequence


def _get_session(u):
    return u.fixed(16), u.u32(), u.u32(), _get_channel(u), _get_channel(u)


class Session41:
    def __init__(self, host, port, cred=AuthSys(), timeout=30.0, minor=1):
        self.minor = minor
        self.conn = RpcConnection(host, port, NFS_PROGRAM, NFS_V4, cred, timeout)
        self.name = _client_name()
        self.verifier = os.urandom(8)
        self.clientid = self.sessionid = None
        self._lock = threading.Lock()
        self.establish()

    def _plain(self, compound, timeout=None):
        """A compound without SEQUENCE: only for making and ending sessions."""
        u = self.conn.call(PROC_COMPOUND, compound.encode(self.minor), timeout=timeout)
        return compound.decode(u)

    def establish(self):
        """A new session; after a server restart also a new client id."""
        p = (Packer().fixed(self.verifier).opaque(self.name).u32(0).u32(0).u32(0))
        self.clientid, sequence = self._plain(
            Compound().add("EXCHANGE_ID", p, _get_exchange))[0]
        p = Packer().u64(self.clientid).u32(sequence).u32(0)
        _put_channel(_put_channel(p, SLOTS), 1)
        p.u32(0x40000000).array([0], Packer.u32)
        session = self._plain(Compound().add("CREATE_SESSION", p, _get_session))[0]
        self.sessionid = session[0]
        self.slots = queue.LifoQueue()
        count = min(SLOTS, session[3][5])
        for slot in reversed(range(count)):
            self.slots.put((slot, 1))
        self.highest = count - 1
        self._alive = count
        try:
            self.run(Compound().add("RECLAIM_COMPLETE", Packer().boolean(False)))
        except NfsError as err:
            if err.status != errors.COMPLETE_ALREADY:
                raise

    def submit(self, compound):
        """Send with SEQUENCE in front; waits for a free slot."""
        if self._alive == 0:
            self.establish()
        slots, sessionid = self.slots, self.sessionid
        slot, sequence = slots.get(timeout=60)
        p = (Packer().fixed(sessionid).u32(sequence).u32(slot)
             .u32(self.highest).boolean(False))
        whole = Compound(compound.tag).add("SEQUENCE", p, _get_sequence)
        whole.ops += compound.ops

        def done(known):
            # If no reply came nobody knows what the slot's number is now.
            if known:
                slots.put((slot, (sequence + 1) & 0xffffffff))
            elif slots is self.slots:
                with self._lock:
                    self._alive -= 1

        try:
            pending = self.conn.submit(PROC_COMPOUND, whole.encode(self.minor))
        except RpcBroken:
            slots.put((slot, sequence))
            raise
        return _Pending(pending, whole, 1, done)

    def run(self, compound, timeout=None):
        try:
            return self.submit(compound).result(timeout)
        except NfsError as err:
            if err.op != "SEQUENCE" or err.status not in LOST_SESSION:
                raise
        self.establish()
        return self.submit(compound).result(timeout)

    def renew(self):
        self.run(Compound())

    def close(self):
        """Give the session back; silent if the server is gone."""
        try:
            self._plain(Compound().add("DESTROY_SESSION",
                                       Packer().fixed(self.sessionid)), 2)
            self._plain(Compound().add("DESTROY_CLIENTID",
                                       Packer().u64(self.clientid)), 2)
        except Exception:
            pass
        self.conn.close()


def _get_sequence(u):
    return u.fixed(16), [u.u32() for _ in range(5)]
