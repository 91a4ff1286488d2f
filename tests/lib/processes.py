# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that a command has started, and what they have started in turn.

Who is to see those whose parents have ended, or that have a session of their own, is their
adopter: adopt() first, as orphans are the nearest such ancestor's children then."""
import contextlib
import ctypes
import os
import pathlib
import signal

from lib.wait import wait_until

PR_SET_CHILD_SUBREAPER = 36


def adopt():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def state(pid):
    """(state, parent) or None."""
    try:
        stat = pathlib.Path("/proc/%d/stat" % pid).read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[1])


def descendants(top):
    """{pid: state} of all below a process."""
    children = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        seen = state(pid)
        if seen:
            children.setdefault(seen[1], []).append((pid, seen[0]))
    found, todo = {}, [top]
    while todo:
        for pid, now in children.get(todo.pop(), ()):
            todo.append(pid)
            found[pid] = now
    return found


def end_all(but=()):
    """Kill what is below this process, except some: how many there were."""
    killed = set()

    def gone():
        left = {pid: now for pid, now in descendants(os.getpid()).items() if pid not in but}
        for pid, now in left.items():
            if now != "Z":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            with contextlib.suppress(ChildProcessError):    # another one's child, as yet
                os.waitpid(pid, os.WNOHANG)
        return not left

    wait_until(gone, 60, "the end of all that was started")
    return len(killed)
