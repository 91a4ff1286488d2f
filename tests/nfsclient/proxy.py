# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy between an NFS client and a real server: counts, delays, breaks.

    with Proxy.for_server(ganesha) as proxy:
        use(proxy.url())
        assert proxy.counts["READ"] == 10
        proxy.delay = 0.005              # a slower network
        proxy.hold("READ")               # READs wait here ...
        wait_until(lambda: proxy.held == 2)
        proxy.release()                  # ... and go on
        proxy.pause(); proxy.resume()    # black hole: nothing passes
        proxy.cut()                      # reset all connections
        proxy.refuse(); proxy.accept()   # the port is closed

It parses record marks and call headers on the way to the server; replies pass
unread.  A delay is latency: calls in flight together are delayed together.
Procedures of NFSv3 and MOUNT3 are counted by name, compounds of NFSv4 as what they stand for
(gateway4.py), others as "PROG.VERS.PROC".
"""
import collections
import contextlib
import heapq
import itertools
import socket
import struct
import threading
import time

from lib.ports import free_port

from . import gateway4
from .nfs3 import MOUNT_PROCS, MOUNT_PROGRAM, NFS_PROGRAM, NFS_V3, PROCS
from .rpc import LAST_FRAGMENT, RpcError, recv_record
from .rpcserver import end_listener, reset
from .xdr import Unpacker, XdrError


def call_name(record):
    """The procedure a call record asks for; None if it is no call."""
    if len(record) < 24:
        return None
    _xid, kind, _rpcvers, prog, vers, proc = struct.unpack_from(">6I", record)
    if kind != 0:
        return None
    if prog == NFS_PROGRAM and vers == NFS_V3 and proc < len(PROCS):
        return PROCS[proc]
    if prog == NFS_PROGRAM and vers == 4 and proc == 1:
        u = Unpacker(record, 24)
        with contextlib.suppress(ValueError, XdrError):      # of another kind of client
            for _ in ("credentials", "verifier"):
                u.u32(), u.opaque()
            return gateway4.stands_for(gateway4.get_compound(u, highest=2)[1])
    if prog == MOUNT_PROGRAM and proc < len(MOUNT_PROCS):
        return MOUNT_PROCS[proc] if proc else "MOUNT_NULL"
    return "%d.%d.%d" % (prog, vers, proc)


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, proxy, client, target):
        self.proxy, self.client = proxy, client
        self.server = socket.create_connection(target, timeout=10)
        self.server.settimeout(None)
        for sock in (client, self.server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.queue = []                  # heap of (due, number, name, record)
        self.held = []
        self.order = itertools.count()
        self.wake = threading.Condition()
        self.ended = False
        self.running = 3                 # threads; the last one closes

    def start(self):
        for work in (self._read_calls, self._send_calls, self._pass_replies):
            threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work):
        work()
        with self.wake:
            self.running -= 1
            last = self.running == 0
        if last:
            self.client.close()
            self.server.close()

    def end(self):
        with self.wake:
            self.ended = True
            self.wake.notify_all()
        reset(self.client)
        reset(self.server)
        self.proxy._forget(self)

    def _read_calls(self):
        try:
            while True:
                record = bytes(recv_record(self.client))
                name = self.proxy._count(record)
                due = time.monotonic() + self.proxy._delay_of(name)
                with self.wake:
                    heapq.heappush(self.queue, (due, next(self.order), name, record))
                    self.wake.notify_all()
        except (OSError, RpcError):
            self.end()

    def _next_call(self):
        """Wait for a call that may go now; None at the end."""
        with self.wake:
            while not self.ended:
                now = time.monotonic()
                wait = None
                if self.queue and not self.proxy.paused:
                    if self.queue[0][0] <= now:
                        item = heapq.heappop(self.queue)
                        if item[2] not in self.proxy.holding:
                            return item[3]
                        self.held.append(item)
                        continue
                    wait = self.queue[0][0] - now
                self.wake.wait(wait)
        return None

    def _send_calls(self):
        try:
            while (record := self._next_call()) is not None:
                self.server.sendall(struct.pack(">I", LAST_FRAGMENT | len(record))
                                    + record)
        except OSError:
            self.end()

    def _pass_replies(self):
        try:
            while data := self.server.recv(1 << 20):
                self.proxy._passing.wait()
                self.proxy.bytes_back += len(data)
                self.client.sendall(data)
        except OSError:
            pass
        self.end()

    def let_go(self):
        """Put held calls back in front."""
        with self.wake:
            for item in self.held:
                heapq.heappush(self.queue, (0.0,) + item[1:])
            self.held = []
            self.wake.notify_all()


class Proxy:
    def __init__(self, targets, host="127.0.0.1", export="/export"):
        """targets: ports of the server, e.g. [nfs_port, mount_port]."""
        self.host, self.export = host, export
        self.targets = list(targets)
        self.ports = [0] * len(self.targets)
        self.counts = collections.Counter()
        self.bytes_back = 0              # from the server to the client
        self.delay = 0.0                 # seconds for every call ...
        self.delays = {}                 # ... or by procedure
        self.holding = frozenset()
        self.paused = False
        self._passing = threading.Event()
        self._passing.set()
        self._pairs = set()
        self._listeners = []
        self._lock = threading.Lock()

    @classmethod
    def for_server(cls, server):
        """In front of a Ganesha, a FakeServer, or whatever has such ports."""
        export = getattr(server, "pseudo", None) or server.export
        targets = [server.port]
        if server.mount_port != server.port:
            targets.append(server.mount_port)
        return cls(targets, export=export)

    # -- life ---------------------------------------------------------------

    def start(self):
        self.accept()
        return self

    def stop(self):
        self.refuse()
        self.resume()
        self.cut()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()

    @property
    def port(self):
        return self.ports[0]

    @property
    def mount_port(self):
        return self.ports[-1]

    def url(self, version=3):
        if version != 3:
            return "nfs://%s%s?nfsport=%d&version=%s" % (self.host, self.export, self.port, version)
        return "nfs://%s%s?nfsport=%d&mountport=%d&version=3" % (
            self.host, self.export, self.port, self.mount_port)

    def client(self, proto="v3", **options):
        from . import connect
        return connect(proto, self.host, self.port, self.mount_port, self.export,
                       **options)

    # -- breaking things ------------------------------------------------------

    def accept(self):
        """Listen; the ports stay the same once chosen."""
        for i, target in enumerate(self.targets):
            listener = socket.create_server((self.host, self.ports[i] or free_port()), backlog=64)
            self.ports[i] = listener.getsockname()[1]
            acceptor = threading.Thread(target=self._accept_loop, args=(listener, target),
                                        daemon=True)
            self._listeners.append((listener, acceptor))
            acceptor.start()

    def refuse(self):
        """New connections are refused; those that exist go on."""
        for listener, acceptor in self._listeners:
            end_listener(listener, acceptor)
        self._listeners = []

    def cut(self):
        for pair in list(self._pairs):
            pair.end()

    def pause(self):
        self.paused = True
        self._passing.clear()

    def resume(self):
        self.paused = False
        self._passing.set()
        self._wake_all()

    def hold(self, *procs):
        """Keep calls of these procedures back (in addition to others)."""
        self.holding |= set(procs)

    def release(self):
        """Let every held call go and hold no more."""
        self.holding = frozenset()
        for pair in list(self._pairs):
            pair.let_go()

    @property
    def held(self):
        return sum(len(pair.held) for pair in list(self._pairs))

    @property
    def connections(self):
        return len(self._pairs)

    def reset_counts(self):
        with self._lock:
            self.counts.clear()
            self.bytes_back = 0

    # -- inner workings ---------------------------------------------------------

    def _wake_all(self):
        for pair in list(self._pairs):
            with pair.wake:
                pair.wake.notify_all()

    def _forget(self, pair):
        with self._lock:
            self._pairs.discard(pair)

    def _count(self, record):
        name = call_name(record)
        if name:
            with self._lock:
                self.counts[name] += 1
        return name

    def _delay_of(self, name):
        return self.delays.get(name, self.delay)

    def _accept_loop(self, listener, target):
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            try:
                pair = _Pair(self, client, (self.host, target))
            except OSError:              # the server is down: so are we
                reset(client)
                client.close()
                continue
            with self._lock:
                self._pairs.add(pair)
            pair.start()
