# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests' servers have in common: a process, ports that stay, logs that are read.

A server sets name, allow, process, port and _scanned = {}, and has
    BAD_WORDS, ALWAYS_ALLOWED   of its log lines
    logs                        its files, also those that are not there yet
    _choose_ports(), _spawn(), _ready(), _end(sig), sigcont(), _ended(timeout)
"""
import atexit
import re
import signal
import subprocess

from lib.wait import wait_until

RUNNING = []          # every server of this process that was started


class BadLog(AssertionError):
    """A server's log holds words that no healthy server writes."""


class Server:
    BAD_WORDS, ALWAYS_ALLOWED = re.compile("(?!)"), ()
    ENDS_WELL = (0, None, -signal.SIGKILL)

    @property
    def pid(self):
        return self.process.pid if self.process else None

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    # -- life ---------------------------------------------------------------

    def start(self, timeout=60.0):
        """Start and wait until a client can connect; returns self."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        for attempt in range(3):
            if self.port is None:
                self._choose_ports()
            self._spawn()
            try:
                wait_until(self._ready, timeout, "server %s" % self.name)
                return self
            except BaseException:
                ours = "Address already in use" not in self.log_text()
                self._kill(signal.SIGKILL)
                if ours or attempt == 2:
                    raise
                self.port = None

    def _popen(self, argv, output, env):
        """The process, in a session of its own, and ended with ours at the latest."""
        with open(output, "ab") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, env=env, start_new_session=True)
        if self not in RUNNING:
            RUNNING.append(self)
            atexit.register(self._kill, signal.SIGKILL)

    def _is_up(self):
        assert self.alive, "server %s ended with %d:\n%s" % (
            self.name, self.process.returncode, self.tail())

    def _kill(self, sig):
        self._end(sig)
        if self in RUNNING:
            RUNNING.remove(self)
        atexit.unregister(self._kill)

    def stop(self, timeout=60.0, scan=True):
        """End it in peace; BadLog if a log has bad words, it crashed, or something stays."""
        bad = []
        if self.alive:
            self.sigcont()
            self.process.terminate()
            try:
                self._ended(timeout)
            except (subprocess.TimeoutExpired, TimeoutError) as err:
                bad.append("no end within %g s of SIGTERM: %s" % (timeout, err))
        code = self.process.poll() if self.process else None
        self._kill(signal.SIGKILL)
        if scan:
            bad += self.scan()
            if code not in self.ENDS_WELL:
                bad.append("exit status %s:\n%s" % (code, self.tail()))
            if bad:
                raise BadLog("server %s:\n%s" % (self.name, "\n".join(bad)))

    def _ended(self, timeout):
        self.process.wait(timeout)

    def kill9(self):
        """Crash it, and all processes that belong to it."""
        self._kill(signal.SIGKILL)

    def restart(self, timeout=60.0, crash=False):
        """Stop (or crash) and start again on the same ports."""
        if self.alive:
            if crash:
                self.kill9()
            else:
                self.stop()
        return self.start(timeout)

    def __enter__(self):
        return self if self.alive else self.start()

    def __exit__(self, kind, *exc):
        self.stop(scan=kind is None)

    # -- logs ---------------------------------------------------------------

    def log_text(self):
        return "".join(f.read_text(errors="replace") for f in self.logs if f.exists())

    def tail(self, lines=30):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def scan(self, allow=()):
        """Bad lines written since the last scan."""
        allowed = re.compile("|".join("(?:%s)" % a for a in (
            "^$", *self.ALWAYS_ALLOWED, *self.allow, *allow)), re.IGNORECASE)
        bad = []
        for path in self.logs:
            if not path.exists():
                continue
            with open(path, "rb") as f:
                f.seek(self._scanned.get(path, 0))
                data = f.read()
            # A line that is still being written waits for the next scan.
            data = data[:data.rfind(b"\n") + 1] if self.alive else data
            self._scanned[path] = self._scanned.get(path, 0) + len(data)
            text = data.decode(errors="replace")
            if self.BAD_WORDS.search(text):     # none has, mostly, and that is found faster at once
                bad += [line for line in text.splitlines()
                        if self.BAD_WORDS.search(line) and not allowed.search(line)]
        return bad
