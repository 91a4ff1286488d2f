# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports for tests' servers: free_port() is one that is this process's for a good while."""
import fcntl
import os
import pathlib
import random
import socket
import struct

F_OFD_SETLK = 37


class Ports:
    """Ports of 127.0.0.1 that no other test on this machine takes, also while the server
    that has one is down for a moment.  A byte of a file that all share is locked for each;
    the locks end with this process, or after the next many ports."""
    RANGE = range(20000, 32000)         # outside that of outgoing connections
    KEPT = 128
    FILE = pathlib.Path("/var/tmp/postcopy-test-ports")

    def __init__(self):
        self.pid, self.fd, self.taken = None, None, []

    def _lock(self, port, kind):
        what = struct.pack("hhqqiI", kind, os.SEEK_SET, port, 1, 0, 0)
        fcntl.fcntl(self.fd, F_OFD_SETLK, what)

    def _open(self):
        """Anew in a child: an inherited description has our parent's locks."""
        if self.pid != os.getpid():
            self.pid, self.taken = os.getpid(), []
            self.fd = os.open(self.FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def take(self):
        self._open()
        for _ in range(1000):
            port = random.SystemRandom().choice(self.RANGE)
            if port in self.taken:
                continue
            try:
                self._lock(port, fcntl.F_WRLCK)
            except BlockingIOError:
                continue
            self.taken.append(port)
            if len(self.taken) > self.KEPT:
                self._lock(self.taken.pop(0), fcntl.F_UNLCK)
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    sock.bind(("0.0.0.0", port))
                    return port
                except OSError:
                    continue            # somebody else's: stays locked for a while
        raise OSError("no free port")


free_port = Ports().take
