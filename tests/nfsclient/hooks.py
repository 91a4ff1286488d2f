# SPDX-License-Identifier: GPL-3.0-or-later
"""Ready-made hooks for FakeServer: each makes it misbehave in one way.

    server.hook("READ", jukebox(3))
    server.hook("READ", only(lambda call: call.node is big, delay(0.2)))
    gate = Gate(); server.hook("READ", gate); ...; gate.open()
"""
import threading
import time

from . import errors
from .fakeserver import Refuse, put_post
from .rpcserver import SYSTEM_ERR, Cut, Drop, Reject
from .xdr import Packer


def only(condition, hook):
    """Apply a hook to the calls for which condition(call) is true."""
    def run(server, call, answer):
        return hook(server, call, answer) if condition(call) else answer()
    return run


def first(count, hook):
    """Apply a hook to the next `count` calls only."""
    left, lock = [count], threading.Lock()

    def run(server, call, answer):
        with lock:
            mine = left[0] > 0
            left[0] -= 1
        return hook(server, call, answer) if mine else answer()
    return run


def status(code):
    """Answer an NFS status."""
    def run(_server, _call, _answer):
        raise Refuse(code)
    return run


def jukebox(count):
    """"Try again later" to the next `count` calls."""
    return first(count, status(errors.JUKEBOX))


def delay(seconds):
    """Answer late."""
    def run(_server, _call, answer):
        time.sleep(seconds)
        return answer()
    return run


def drop(_server, _call, _answer):
    """Never answer."""
    raise Drop()


def cut(_server, _call, _answer):
    """Reset the connection instead of answering."""
    raise Cut()


def system_err(_server, _call, _answer):
    """An RPC error instead of results."""
    raise Reject(SYSTEM_ERR)


def garbage(data=b"\xde\xad\xbe\xef" * 64):
    """Results that are no XDR of anything."""
    return lambda _server, _call, _answer: data


def truncate(size):
    """Keep the first `size` bytes of the results (negative: cut from the end)."""
    return lambda _server, _call, answer: answer()[:size]


def patch(offset, data):
    """Overwrite bytes of the results, e.g. a length."""
    def run(_server, _call, answer):
        results = bytearray(answer())
        results[offset:offset + len(data)] = data
        return bytes(results)
    return run


def before(action):
    """Do something (action(call)) each time before answering: let a file grow
    or change while it is read, count, remember."""
    def run(_server, call, answer):
        action(call)
        return answer()
    return run


def after(action):
    """Do something each time once the answer is made."""
    def run(_server, call, answer):
        results = answer()
        action(call)
        return results
    return run


def _listing(server, call, entries, eof):
    """A READDIR(PLUS) reply of (name, node, cookie) entries, unchecked."""
    p = put_post(Packer().u32(0), call.node).fixed(bytes(8))
    for name, node, cookie in entries:
        p.raw(server.entry(name, node, cookie, call.proc == "READDIRPLUS"))
    return p.boolean(False).boolean(eof).done()


def endless_listing(node, per_page=10):
    """A directory that never ends: names new for ever, cookies growing."""
    def run(server, call, _answer):
        start = call.cookie
        return _listing(server, call, [
            (b"e%d" % i, node, i + 1) for i in range(start, start + per_page)], False)
    return run


def stuck_cookie(node, cookie=7):
    """A directory whose pages all end at the same cookie."""
    return lambda server, call, _answer: _listing(
        server, call, [(b"again", node, cookie)], False)


def repeating_listing(nodes):
    """Whatever the cookie, the same entries once more, and never eof."""
    return lambda server, call, _answer: _listing(
        server, call, [(b"r%d" % i, node, call.cookie + i + 1)
                       for i, node in enumerate(nodes)], False)


def empty_pages(_server, call, _answer):
    """Neither entries nor eof."""
    return _listing(_server, call, [], False)


def duplicate_names(node, name=b"twin"):
    """One name twice in a listing."""
    return lambda server, call, _answer: _listing(
        server, call, [(name, node, 1), (name, node, 2)], True)


class Gate:
    """A hook that holds calls back until open(); count them with `waiting`."""

    def __init__(self):
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.waiting = self.passed = 0

    def __call__(self, _server, _call, answer):
        with self._lock:
            self.waiting += 1
        self._open.wait()
        with self._lock:
            self.waiting -= 1
            self.passed += 1
        return answer()

    def open(self):
        self._open.set()

    def shut(self):
        self._open.clear()
