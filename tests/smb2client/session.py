# SPDX-License-Identifier: GPL-3.0-or-later
"""One TCP connection with one session and one tree: requests may overlap.

    send() returns a message id at once, wait() its answer; others that come
    meanwhile are kept for their own wait().  Dialect 2.1, not signed.
"""
import os
import socket
import struct
import time

from . import wire
from .wire import Gone, SmbError

DIALECT = 0x0210


def _gensec(user, password, domain):
    """A state of Samba's own client library that makes the tokens of a logon."""
    from samba import credentials, gensec, param
    lp = param.LoadParm()
    lp.load(os.devnull)
    creds = credentials.Credentials()
    creds.guess(lp)
    creds.set_username(user)
    creds.set_password(password)
    creds.set_domain(domain)
    creds.set_kerberos_state(credentials.DONT_USE_KERBEROS)
    state = gensec.Security.start_client({"lp_ctx": lp, "target_hostname": "127.0.0.1"})
    state.set_credentials(creds)
    state.start_mech_by_name("spnego")
    return state


class Session:
    def __init__(self, host, port, share, user, password, domain="WORKGROUP", timeout=30.0):
        self.timeout = timeout
        self.message = self.credits = 0
        self.tree = self.id = 0
        self.kept = {}                # message id: answer nobody asked for yet
        self.pending = {}             # message id: async id, of those that wait at the server
        self.breaks = []              # oplock breaks that came
        self.socket = socket.create_connection((host, port), timeout=timeout)
        try:
            self._negotiate()
            self._log_on(user, password, domain)
            self._connect("\\\\%s\\%s" % (host, share))
        except BaseException:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()

    # -- messages -------------------------------------------------------------

    def send(self, command, body, charge=1):
        """Send one request; returns its message id."""
        message = self.message
        self.message += charge
        packet = wire.header(command, message, self.tree, self.id, charge) + body
        self.socket.sendall(struct.pack(">I", len(packet)) + packet)
        return message

    def cancel(self, message):
        """Ask to give up a request that is under way."""
        packet = bytearray(wire.header(wire.CANCEL, message, self.tree, self.id, 0, 0))
        if message in self.pending:
            packet[16:20] = struct.pack("<I", wire.FLAG_ASYNC)
            packet[32:40] = struct.pack("<Q", self.pending[message])
        packet += struct.pack("<HH", 4, 0)
        self.socket.sendall(struct.pack(">I", len(packet)) + packet)

    def _receive_exactly(self, length, end):
        data = b""
        while len(data) < length:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            part = self.socket.recv(length - len(data))
            if not part:
                raise Gone("connection closed by the server")
            data += part
        return data

    def _receive(self, end):
        """Take one message and keep it where it belongs."""
        length, = struct.unpack(">I", self._receive_exactly(4, end))
        answer = wire.parse_answer(self._receive_exactly(length & 0xFFFFFF, end))
        if answer.status == wire.NUMBER["PENDING"]:
            self.pending[answer.message], = struct.unpack_from("<Q", answer.data, 32)
        elif answer.command == wire.OPLOCK_BREAK and answer.message == (1 << 64) - 1:
            self.breaks.append(answer)
        else:
            self.pending.pop(answer.message, None)
            self.kept[answer.message] = answer

    def arrived(self, message, timeout=0.0):
        """Is the answer here (within timeout seconds)?"""
        end = time.monotonic() + timeout
        try:
            while message not in self.kept:
                self._receive(end)
        except TimeoutError:
            return False
        return True

    def wait(self, message, fine=("OK",), what="", timeout=None):
        """The answer of a request; SmbError if its status is none of `fine`."""
        if not self.arrived(message, timeout or self.timeout):
            raise TimeoutError("no answer to %s" % (what or message))
        answer = self.kept.pop(message)
        if wire.STATUS.get(answer.status) not in fine:
            raise SmbError(answer.status, what)
        return answer

    def call(self, command, body, fine=("OK",), what="", charge=1, timeout=None):
        return self.wait(self.send(command, body, charge), fine, what, timeout)

    # -- the beginning ----------------------------------------------------------

    def _negotiate(self):
        body = struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, os.urandom(16), 0, DIALECT)
        answer = self.call(wire.NEGOTIATE, body, what="negotiate")
        (self.max_transact, self.max_read, self.max_write) = struct.unpack_from(
            "<III", answer.body, 28)

    def _log_on(self, user, password, domain):
        state = _gensec(user, password, domain)
        token, status = b"", "MORE_PROCESSING_REQUIRED"
        while status != "OK":
            _, out = state.update(token)
            body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 64 + 24, len(out), 0) + out
            answer = self.call(wire.SESSION_SETUP, body, ("OK", "MORE_PROCESSING_REQUIRED"),
                               "log on as " + user)
            self.id = answer.session
            status = wire.STATUS[answer.status]
            offset, length = struct.unpack_from("<HH", answer.body, 4)
            token = answer.data[offset:offset + length]

    def _connect(self, unc):
        path = wire.utf16(unc)
        body = struct.pack("<HHHH", 9, 0, 64 + 8, len(path)) + path
        self.tree = self.call(wire.TREE_CONNECT, body, what=unc).tree
