# SPDX-License-Identifier: GPL-3.0-or-later
"""ONC RPC over TCP: server side, for fakeserver.

Calls of one connection are handled by a pool of threads, so a slow one does
not hold up others and replies may overtake each other, as with real servers.
"""
import contextlib
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lib.ports import free_port

from .rpc import LAST_FRAGMENT, RpcError, recv_record
from .xdr import Packer, Unpacker, XdrError

PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = 1, 2, 3, 4, 5


class Drop(Exception):
    """Raised by a handler: no reply at all."""


class Cut(Exception):
    """Raised by a handler: reset the connection."""


class Reject(Exception):
    """Raised by a handler: an RPC error (accept_stat) instead of results."""

    def __init__(self, accept_stat):
        super().__init__(accept_stat)
        self.accept_stat = accept_stat


@dataclass
class Cred:
    """Who calls."""
    uid: int = 65534
    gid: int = 65534
    gids: list = field(default_factory=list)


def _get_cred(u):
    flavor, body = u.u32(), Unpacker(u.opaque(400))
    if flavor != 1:
        return Cred()
    body.u32(), body.opaque(255)
    return Cred(body.u32(), body.u32(), body.array(lambda v: v.u32(), 16))


def reset(sock):
    """End it with RST, so that the peer notices at once.  Who reads from it closes it: a thread
    that is just going to use its number must not meet another socket there."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def end_listener(listener, acceptor):
    """Nobody gets in any more, and nobody accepts from what has its number next."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    acceptor.join(20)
    listener.close()


def send_record(sock, data, lock):
    with lock:
        sock.sendall(struct.pack(">I", LAST_FRAGMENT | len(data)) + data)


class RpcServer:
    """handler(prog, vers, proc, Unpacker, Cred) -> results as bytes."""

    def __init__(self, handler, host="127.0.0.1", port=0, threads=32):
        self.handler, self.host, self.port = handler, host, port
        self.threads = threads
        self._listener = None
        self._connections = set()
        self._pool = None
        self._running = threading.Event()
        self._running.set()

    def start(self):
        self._listener = socket.create_server(
            (self.host, self.port or free_port()), backlog=64,
            family=socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        self.port = self._listener.getsockname()[1]
        self._pool = ThreadPoolExecutor(self.threads, "fake-nfs")
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,),
                                          daemon=True)
        self._acceptor.start()
        return self

    def stop(self):
        listener, self._listener = self._listener, None
        if listener:
            end_listener(listener, self._acceptor)
        self.resume()
        self.cut()
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def pause(self):
        """Take calls and say nothing, until resume()."""
        self._running.clear()

    def resume(self):
        self._running.set()

    def cut(self):
        """Reset every connection."""
        for sock in list(self._connections):
            reset(sock)

    @property
    def connections(self):
        return len(self._connections)

    def _accept(self, listener):
        while True:
            try:
                sock = listener.accept()[0]
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        lock = threading.Lock()
        try:
            while True:
                record = recv_record(sock)
                self._pool.submit(self._one, sock, lock, record)
        except (OSError, RpcError, RuntimeError):
            pass
        finally:
            self._connections.discard(sock)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            with lock:
                sock.close()

    def _one(self, sock, lock, record):
        try:
            reply = self._answer(record)
            self._running.wait()
            send_record(sock, reply, lock)
        except Drop:
            pass
        except (Cut, XdrError):
            reset(sock)
        except OSError:
            pass

    def _answer(self, record):
        u = Unpacker(record)
        xid, kind = u.u32(), u.u32()
        rpcvers, prog, vers, proc = (u.u32() for _ in range(4))
        if kind != 0 or rpcvers != 2:
            raise Cut()
        cred = _get_cred(u)
        u.u32(), u.opaque(400)
        head = Packer().u32(xid).u32(1).u32(0).u32(0).u32(0)
        try:
            results = self.handler(prog, vers, proc, u, cred)
        except Reject as err:
            head.u32(err.accept_stat)
            if err.accept_stat == PROG_MISMATCH:
                head.u32(3).u32(3)
            return head.done()
        except XdrError:
            return head.u32(GARBAGE_ARGS).done()
        except (Drop, Cut):
            raise
        except Exception:
            import traceback
            traceback.print_exc()
            return head.u32(SYSTEM_ERR).done()
        return head.u32(0).raw(results).done()
