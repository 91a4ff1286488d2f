# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy in front of an smbd: breaks, and does something just before a request goes on.

    with SmbGate(samba) as gate:
        use(gate.url())
        gate.before("dir/name", action)     # the next request that opens dir/name
        gate.hold("dir/name")               # what opens that waits (gate.held) until gate.let_go();
                                        # other requests of the same connection do not
    gate.refuse(); gate.accept()        # away, and back
        gate.delay = 0.002                  # of every request
    gate.refusal = lambda name, options: wire status of this open, or 0: it goes on
    gate.unseen = options that the server does not see of those that go on
    gate.ranges = lambda offset, length, said: what is answered to FSCTL_QUERY_ALLOCATED_RANGES
        instead of `said`: bytes, or a wire status, or None: what the server says
    gate.asked      [(offset, length)] of these questions
    gate.compounds = False          # whatever is related to a CREATE is answered with an error ...
    gate.breaks = True              # ... or the connection is lost with it
    gate.security = lambda parts, said: the descriptor that is answered instead of `said` when these
        parts are asked for

Nothing may be encrypted, and nothing signed that is refused or answered here.  The server gets
an ECHO in place of what is refused, as it must see every message number, and gives credits for
it.
"""
import contextlib
import socket
import struct
import threading
import time

from lib.ports import free_port
from nfsclient.rpcserver import end_listener

CREATE, IOCTL, ECHO, QUERY = 5, 11, 13, 16
INVALID_PARAMETER = 0xC000000D
SECURITY = 3            # what is queried: a descriptor
RANGES = 0x940CF        # FSCTL_QUERY_ALLOCATED_RANGES


def receive(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise OSError("end")
        data += more
    return data


def split(body):
    """The messages of which a message may consist."""
    found = []
    while body[:4] == b"\xfeSMB" and (following := struct.unpack_from("<I", body, 20)[0]):
        found.append(body[:20] + bytes(4) + body[24:following])
        body = body[following:]
    return [*found, body]


def join(bodies):
    *before, last = bodies
    out = b""
    for body in before:
        body += bytes(-len(body) % 8)
        out += body[:20] + struct.pack("<I", len(body)) + body[24:]
    return out + last


class SmbGate:
    def __init__(self, samba):
        self.target, self.share = (samba.host, samba.port), samba.shares[0].name
        self.port, self.delay = 0, 0.0
        self.refusal, self.refused, self.unseen = None, 0, 0
        self.ranges, self.asked, self.security = None, [], None
        self.compounds, self.breaks, self.together = True, False, 0
        self.errors = []                # of actions
        self._listener, self._pairs = None, set()
        self._lock, self._wanted = threading.Lock(), {}
        self._acting = threading.Lock()
        self.held, self._hold, self._back = threading.Event(), None, []

    def url(self):
        return "smb://127.0.0.1:%d/%s" % (self.port, self.share)

    def accept(self):
        self._listener = socket.create_server(("127.0.0.1", self.port or free_port()), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._acceptor.start()
        return self

    def refuse(self):
        """Nobody gets in, and who is in is thrown out."""
        listener, self._listener = self._listener, None
        if listener:
            end_listener(listener, self._acceptor)
        self.cut()

    def cut(self):
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            self._end(*pair)

    @property
    def connections(self):
        return len(self._pairs)

    def before(self, path, action):
        """Call action() once, before the next request to open `path` goes on."""
        with self._lock:
            self._wanted[path.replace("/", "\\").encode("utf-16-le")] = action

    def hold(self, path):
        self._hold = path.replace("/", "\\").encode("utf-16-le")

    def let_go(self):
        with self._lock:
            self._hold, back, self._back = None, self._back, []
            for server, body in back:
                with contextlib.suppress(OSError):
                    self._send(server, body)

    def __enter__(self):
        return self.accept()

    def __exit__(self, *exc):
        self.refuse()
        assert not self.errors, self.errors

    # -- inner workings ---------------------------------------------------------

    @staticmethod
    def _end(*socks):
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        while True:
            try:
                client = listener.accept()[0]
                server = socket.create_connection(self.target, timeout=10)
            except OSError:
                if listener is not self._listener:
                    return
                client.close()              # the server is down: so are we
                continue
            server.settimeout(None)
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.add((client, server))
            refused, asked = {}, {}         # message number -> what is answered; question
            for run in (self._requests, self._answers):
                threading.Thread(target=run, args=(client, server, refused, asked),
                                 daemon=True).start()

    @staticmethod
    def _message(sock):
        return receive(sock, int.from_bytes(receive(sock, 4)[1:], "big"))

    @staticmethod
    def _send(sock, body):
        sock.sendall(struct.pack(">I", len(body)) + body)

    def _requests(self, client, server, refused, asked):
        with contextlib.suppress(OSError):
            while True:
                bodies = split(self._message(client))
                self.together += len(bodies) > 1
                if self.breaks and len(bodies) > 1:
                    self._end(client, server)
                for body in bodies[1:] if not self.compounds else []:
                    refused[body[24:32]] = INVALID_PARAMETER, self._command_of(body)
                for body in bodies:
                    self._act(body)
                    self._ask(body, asked)
                if self.delay:
                    time.sleep(self.delay)
                if refusal := self._refuse(bodies[0]):      # with what is related to it
                    refused.update((body[24:32], (refusal, self._command_of(body))) for body in bodies)
                    bodies = [self._command(body, ECHO) + struct.pack("<HH", 4, 0) for body in bodies]
                self._pass_on(server, bodies)
        self._close(client, server)

    def _pass_on(self, server, bodies):
        message = join(map(self._seen, bodies))
        with self._lock:            # not beside let_go()
            if self._hold is None or self._hold != self._opened(bodies[0]):
                self._send(server, message)
                return
            self._back.append((server, message))
        self.held.set()

    def _ask(self, body, asked):
        if self._asks_for_ranges(body):
            at, = struct.unpack_from("<I", body, 88)
            question = struct.unpack_from("<QQ", body, at)
            asked[body[24:32]] = question
            self.asked.append(question)
        if self.security and (parts := self._asks_for_security(body)):
            asked[body[24:32]] = parts

    def _answers(self, client, server, refused, asked):
        with contextlib.suppress(OSError):
            while True:
                bodies = split(self._message(server))
                self._send(client, join([self._told(body, refused, asked) for body in bodies]))
        self._close(client, server)

    def _told(self, body, refused, asked):
        """What is answered instead of @body."""
        if refusal := refused.pop(body[24:32], None):
            header = bytearray(self._command(body, refusal[1]))
            struct.pack_into("<I", header, 8, refusal[0])
            body = bytes(header) + struct.pack("<HBBIB", 9, 0, 0, 0, 0)
        if question := asked.pop(body[24:32], None):
            tell = self._answer if isinstance(question, tuple) else self._secure
            body = tell(body, question)
        return body

    def _close(self, client, server):
        """By the second of the two."""
        self._end(client, server)
        with self._lock:
            if (client, server) in self._pairs:
                self._pairs.discard((client, server))
                return
        client.close()
        server.close()

    @staticmethod
    def _asks_for_ranges(body):
        return body[:4] == b"\xfeSMB" and struct.unpack_from("<H", body, 12)[0] == IOCTL and \
            struct.unpack_from("<I", body, 68)[0] == RANGES

    def _answer(self, body, question):
        status, = struct.unpack_from("<I", body, 8)
        at, size = struct.unpack_from("<II", body, 96) if not status else (0, 0)
        try:
            said = self.ranges(*question, body[at:at + size]) if self.ranges else None
        except Exception as err:            # told by __exit__
            self.errors.append(err)
            said = None
        if said is None:
            return body
        if isinstance(said, int):
            return body[:8] + struct.pack("<I", said) + body[12:64] + \
                struct.pack("<HBBIB", 9, 0, 0, 0, 0)
        return body[:8] + struct.pack("<I", 0) + body[12:64] + struct.pack(
            "<HHI16sIIIIII", 49, 0, RANGES, body[72:88], 112, 0, 112, len(said), 0, 0) + said

    @staticmethod
    def _asks_for_security(body):
        """Which parts of a descriptor; 0: it asks something else."""
        if body[:4] != b"\xfeSMB" or struct.unpack_from("<H", body, 12)[0] != QUERY:
            return 0
        return struct.unpack_from("<I", body, 80)[0] if body[66] == SECURITY else 0

    def _secure(self, body, parts):
        if struct.unpack_from("<I", body, 8)[0]:
            return body
        at, size = struct.unpack_from("<HI", body, 66)
        said = self.security(parts, body[at:at + size])
        return body[:64] + struct.pack("<HHI", 9, 72, len(said)) + said

    @staticmethod
    def _command(body, command):
        """The header of a message, for another command."""
        return body[:12] + struct.pack("<H", command) + body[14:64]

    @staticmethod
    def _command_of(body):
        return struct.unpack_from("<H", body, 12)[0]

    def _opens(self, body):
        return body[:4] == b"\xfeSMB" and self._command_of(body) == CREATE

    def _opened(self, body):
        """The path, as it comes; None: nothing is opened."""
        if not self._opens(body):
            return None
        at, length = struct.unpack_from("<HH", body, 64 + 44)
        return body[at:at + length]

    def _seen(self, body):
        if not self.unseen or not self._opens(body):
            return body
        options, = struct.unpack_from("<I", body, 64 + 40)
        return body[:64 + 40] + struct.pack("<I", options & ~self.unseen) + body[64 + 44:]

    def _refuse(self, body):
        """The status of this CREATE's answer, or 0: the server does it."""
        if not self.refusal or not self._opens(body):
            return 0
        options, = struct.unpack_from("<I", body, 64 + 40)
        status = self.refusal(self._opened(body).decode("utf-16-le"), options)
        self.refused += status != 0
        return status

    def _act(self, body):
        """Do what is to be done before this CREATE; no other one goes on meanwhile, as that of
        a client that has given this one up."""
        if not self._opens(body):
            return
        with self._acting:
            with self._lock:
                action = self._wanted.pop(self._opened(body), None)
            try:
                if action:
                    action()
            except Exception as err:        # told by __exit__
                self.errors.append(err)
