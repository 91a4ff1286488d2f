# SPDX-License-Identifier: GPL-3.0-or-later
"""ONC RPC version 2 over TCP (RFC 5531): client side.

One RpcConnection is one TCP connection and one thread that reads replies and
hands them, by xid, to whoever waits.  Any number of calls may be outstanding,
from any number of threads:

    conn = RpcConnection("127.0.0.1", port, 100003, 3, AuthSys(0, 0))
    body = conn.call(proc, args)                  # waits
    pending = [conn.submit(proc, a) for a in ...]  # pipelined
    bodies = [p.result() for p in pending]

A connection that breaks fails every outstanding call with RpcBroken; the next
call connects again (so that tests can restart servers under a client).
"""
import itertools
import os
import random
import socket
import struct
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field

from .xdr import Packer, Unpacker, XdrError

CALL, REPLY = 0, 1
MSG_ACCEPTED, MSG_DENIED = 0, 1
SUCCESS = 0
LAST_FRAGMENT = 0x80000000
MAX_RECORD = 64 << 20

ACCEPT_NAMES = {1: "PROG_UNAVAIL", 2: "PROG_MISMATCH", 3: "PROC_UNAVAIL",
                4: "GARBAGE_ARGS", 5: "SYSTEM_ERR"}


class RpcError(Exception):
    """The RPC layer said no, or said nonsense."""


class RpcBroken(RpcError):
    """The connection ended before the reply came."""


class RpcTimeout(RpcError):
    """No reply in time; the connection is still there."""


@dataclass(frozen=True)
class AuthSys:
    """AUTH_SYS credentials (RFC 5531, appendix A); at most 16 groups."""
    uid: int = 0
    gid: int = 0
    gids: tuple = ()
    machine: str = "postcopy-test"

    def encode(self):
        body = (Packer().u32(os.getpid() & 0xffffffff)
                .opaque(self.machine.encode()).u32(self.uid).u32(self.gid)
                .array(self.gids, lambda p, g: p.u32(g)).done())
        return Packer().u32(1).opaque(body).done()


AUTH_NONE = struct.pack(">II", 0, 0)


@dataclass
class _Link:
    """One TCP connection's life; replaced as a whole on reconnect."""
    sock: socket.socket
    waiting: dict = field(default_factory=dict)
    broken: Exception = None


def recv_exact(sock, size):
    """Read exactly size bytes or raise RpcBroken."""
    data = bytearray(size)
    view = memoryview(data)
    got = 0
    while got < size:
        n = sock.recv_into(view[got:])
        if n == 0:
            raise RpcBroken("connection closed by peer")
        got += n
    return data


def recv_record(sock):
    """Read one record, i.e. all fragments of it (RFC 5531, section 11)."""
    record = b""
    while True:
        mark = struct.unpack(">I", recv_exact(sock, 4))[0]
        size = mark & ~LAST_FRAGMENT
        if len(record) + size > MAX_RECORD:
            raise RpcError("record of more than %d bytes" % MAX_RECORD)
        piece = recv_exact(sock, size)
        record = piece if not record else record + piece
        if mark & LAST_FRAGMENT:
            return record


def parse_reply(record):
    """Return (xid, Unpacker at the results, or an RpcError to raise)."""
    u = Unpacker(record)
    xid = u.u32()
    try:
        if u.u32() != REPLY:
            return xid, RpcError("not a reply")
        if u.u32() == MSG_DENIED:
            reason = u.u32()
            what = "RPC_MISMATCH" if reason == 0 else "AUTH_ERROR %d" % u.u32()
            return xid, RpcError("call denied: " + what)
        u.u32()
        u.opaque(400)  # verifier
        stat = u.u32()
        if stat != SUCCESS:
            return xid, RpcError(ACCEPT_NAMES.get(stat, "accept_stat %d" % stat))
    except XdrError as err:
        return xid, RpcError("bad reply header: %s" % err)
    return xid, u


class Pending:
    """A call on its way; result() gives the Unpacker at the results."""

    def __init__(self, link, xid, future, timeout):
        self.link, self.xid, self.future, self.timeout = link, xid, future, timeout

    def done(self):
        return self.future.done()

    def result(self, timeout=None):
        wait = self.timeout if timeout is None else timeout
        try:
            return self.future.result(wait)
        except FutureTimeout:
            self.link.waiting.pop(self.xid, None)
            raise RpcTimeout("no reply to xid %x within %s s"
                             % (self.xid, wait)) from None


class RpcConnection:
    source = None                          # address to come from, if not any
    def __init__(self, host, port, prog, vers, cred=AuthSys(), timeout=30.0,
                 privileged=False):
        self.host, self.port = host, port
        self.prog, self.vers = prog, vers
        self.cred = cred
        self.timeout = timeout
        self.privileged = privileged
        self._xids = itertools.count(random.getrandbits(30))
        self._lock = threading.Lock()      # guards _link and sending
        self._link = None
        self.connects = 0

    # -- connecting ---------------------------------------------------------

    def _connect(self):
        sock = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET,
                             socket.SOCK_STREAM)
        try:
            if self.privileged:
                _bind_reserved(sock)
            elif self.source:
                sock.bind((self.source, 0))
            sock.settimeout(self.timeout)
            sock.connect((self.host, self.port))
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as err:
            sock.close()
            raise RpcBroken("connect to %s:%d: %s"
                            % (self.host, self.port, err)) from err
        link = _Link(sock)
        self.connects += 1
        threading.Thread(target=_reader, args=(link, self._lock), daemon=True,
                         name="rpc-reader-%d" % self.port).start()
        return link

    def connect(self):
        """Connect now instead of at the first call."""
        with self._lock:
            if self._link is None or self._link.broken:
                self._link = self._connect()
        return self

    def close(self):
        with self._lock:
            link, self._link = self._link, None
        if link:
            _break(link, RpcBroken("closed by us"))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- calling ------------------------------------------------------------

    def submit(self, proc, args=b"", cred=None, timeout=None):
        """Send a call, return a Pending."""
        xid = next(self._xids) & 0xffffffff
        cred = self.cred if cred is None else cred
        body = b"".join((struct.pack(">IIIIII", xid, CALL, 2, self.prog,
                                     self.vers, proc),
                         cred.encode() if cred else AUTH_NONE, AUTH_NONE, args))
        record = struct.pack(">I", LAST_FRAGMENT | len(body)) + body
        future = Future()
        with self._lock:
            if self._link is None or self._link.broken:
                self._link = self._connect()
            link = self._link
            link.waiting[xid] = future
            try:
                link.sock.sendall(record)
            except OSError as err:
                _break(link, RpcBroken("send: %s" % err))
        if link.broken and not future.done():
            _fail(future, link.broken)
        return Pending(link, xid, future,
                       self.timeout if timeout is None else timeout)

    def call(self, proc, args=b"", cred=None, timeout=None):
        """Send a call and wait for its results (an Unpacker)."""
        return self.submit(proc, args, cred, timeout).result()


def _fail(future, error):
    try:
        future.set_exception(error)
    except Exception:  # already answered by the other thread
        pass


def _break(link, error):
    if link.broken is None:
        link.broken = error
    try:
        link.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    for xid in list(link.waiting):
        future = link.waiting.pop(xid, None)
        if future:
            _fail(future, link.broken)


def _reader(link, lock):
    """It also closes: while it may be about to read, nobody else gets the socket's number."""
    try:
        while True:
            xid, result = parse_reply(recv_record(link.sock))
            future = link.waiting.pop(xid, None)
            if future is None:
                continue                    # came after its time-out
            if isinstance(result, RpcError):
                _fail(future, result)
            else:
                future.set_result(result)
    except RpcError as err:
        _break(link, err if isinstance(err, RpcBroken) else RpcBroken(str(err)))
    except (OSError, XdrError) as err:
        _break(link, RpcBroken("receive: %s" % err))
    finally:
        with lock:                      # of who sends
            link.sock.close()


def _bind_reserved(sock):
    """Bind to a port below 1024, which some servers insist on."""
    for port in random.sample(range(600, 1024), 64):
        try:
            sock.bind(("", port))
            return
        except OSError:
            continue
    raise OSError("no reserved port free")
