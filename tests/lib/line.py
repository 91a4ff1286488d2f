# SPDX-License-Identifier: GPL-3.0-or-later
"""A long line to a server, and a narrow one: tests/tools/delayproxy."""
import contextlib
import subprocess

from lib.programs import BUILD


class Line:
    """port: the server's, at this end."""

    def __init__(self, process):
        self._process = process
        self.port = int(process.stdout.readline())

    def widen(self, rate):
        """So many bytes/s from now on."""
        self._process.stdin.write("%d\n" % rate)
        self._process.stdin.flush()


@contextlib.contextmanager
def line(host, port, one_way_us, rate=0):
    """rate: bytes/s of what the server says, 0: any number."""
    with subprocess.Popen([str(BUILD / "tests/tools/delayproxy"), str(int(one_way_us)), host,
                           str(port), str(int(rate))], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        yield Line(process)
        process.stdin.close()
        assert process.wait(30) == 0
