# SPDX-License-Identifier: GPL-3.0-or-later
"""How many system calls a program and its children make, by strace."""
import re

from lib.wait import wait_until


def counting(out):
    """What to start it with."""
    return ["strace", "-D", "-f", "-c", "-o", str(out)]


def counted(out):
    """By name, and "total", once it has ended."""
    wait_until(lambda: out.exists() and "total" in out.read_text(), 60, "strace's counts")
    return {line.split()[-1]: int(line.split()[3])
            for line in out.read_text().splitlines() if re.match(r"^ *\d+[.,]\d\d ", line)}
