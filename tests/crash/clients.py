# SPDX-License-Identifier: GPL-3.0-or-later
"""A client machine of the crash tests: NFSv3, and NFSv4 for what it has open.

An operation on a file that is open goes through its open state; punch and reserve, which
only NFSv4.2 has, open the file for themselves if nobody did.
"""
import contextlib

V3, V42 = "v3", "v4.2"


class Clients:
    def __init__(self, m, patience, opened=None, **options):
        """m: the Migration; patience: seconds to come back after "try again later".
        opened: {path: protocol} of what is open, kept by the caller: who gives it to
        another machine's Clients has these files open there as soon as they are used."""
        self._m, self._patience, self._options = m, patience, options
        self._opened = {} if opened is None else opened
        self._clients, self._files = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for client in self._clients.values():
            client.close()

    def client(self, proto=V3):
        if proto not in self._clients:
            self._clients[proto] = self._m.client(proto, **self._options)
        return self._clients[proto].patient(self._patience)

    def on(self, path):
        """(client, target) for data operations on a path."""
        if path not in self._opened:
            return self.client(), path
        client = self.client(self._opened[path])
        if path not in self._files:
            self._files[path] = client.open(path, write=True)
        return client, self._files[path]

    def open(self, path, proto):
        self._opened[path] = proto
        self.on(path)

    def close(self, path):
        """Open state that went with a server or a connection is no loss."""
        client = self.client(self._opened.pop(path))
        if path in self._files:
            client.close_file(self._files.pop(path))

    @contextlib.contextmanager
    def space(self, path):
        """(client, open file) by NFSv4.2."""
        if self._opened.get(path) == V42:
            yield self.on(path)
        else:
            client = self.client(V42)
            with client.opened(path, write=True) as f:
                yield client, f
