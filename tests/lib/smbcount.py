# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy in front of an smbd that counts what its clients ask."""
import collections
import socket
import struct
import threading

from nfsclient.rpcserver import end_listener

CREATE, CLOSE, READ, QUERY_DIRECTORY, QUERY_INFO = 5, 6, 8, 14, 16


class Counter:
    """Stands before an SMB server and counts the commands of its clients."""

    def __init__(self, port):
        self.target, self.counts = ("127.0.0.1", port), collections.Counter()
        self.open, self.most = set(), 0     # connections with an open object; the most at a time
        self.under, self.most_under = 0, 0  # objects that are being opened or are open, likewise
        self.client_of = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def _accept(self):
        try:
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.target)
                self.client_of[server] = client
                for ends in ((client, server, self._count), (server, client, self._answered)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()
        except OSError:
            pass                                # closed

    def _pass(self, source, sink, look):
        data = b""
        try:
            while got := source.recv(1 << 16):
                data = self._commands(look, source, data + got)
                sink.sendall(got)       # counted before it can be answered
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()
        self.open.discard(source)

    @staticmethod
    def _commands(look, source, data):
        """Those of whole messages, also of several in one; returns the rest."""
        while len(data) >= 4:
            end = 4 + int.from_bytes(data[1:4], "big")
            if len(data) < end:
                break
            at = 4
            while data[at:at + 4] == b"\xfeSMB":
                command, following = struct.unpack_from("<H6xI", data, at + 12)
                look(source, command)
                if not following:
                    break
                at += following
            data = data[end:]
        return data

    def _count(self, client, command):
        self.counts[command] += 1
        if command == CREATE:
            self.open.add(client)
            self.most = max(self.most, len(self.open))
            self.under += 1
            self.most_under = max(self.most_under, self.under)

    def _answered(self, server, command):
        if command == CLOSE:        # it may have come in one message with its CREATE
            self.open.discard(self.client_of[server])
            self.under -= 1

    def close(self):
        end_listener(self.listener, self.acceptor)
