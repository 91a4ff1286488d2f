# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling: no test sleeps and hopes."""
import time

PATIENCE = 4            # a machine may be slower than the one a timeout was thought of for


def wait_until(condition, timeout=60.0, what="condition", interval=0.01):
    """Poll until condition() is true; return its value.

    timeout: seconds that are more than enough where nothing else runs. An exception of
    condition() is remembered and shown if time runs out.
    """
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except AssertionError:
            raise
        except Exception as err:  # "not yet" in most cases
            last = err
        if time.monotonic() >= end:
            raise TimeoutError("%s not reached in %g s (last: %r)"
                               % (what, timeout, last))
        time.sleep(interval)
        interval = min(interval * 1.5, 0.25)
