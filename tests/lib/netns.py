# SPDX-License-Identifier: GPL-3.0-or-later
"""A network namespace of a command's own, in which servers listen on an address that is nobody else's."""
import os
import subprocess
import sys

INSIDE = "POSTCOPY_TEST_NETNS"


def alone(*addresses):
    """The command that this program is, once more, in a namespace that has these addresses on its loopback."""
    if os.environ.get(INSIDE) != str(os.getpid()):
        os.environ[INSIDE] = str(os.getpid())       # exec keeps it
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, *sys.argv])
    for words in [["link", "set", "lo", "up"], *(["addr", "add", a + "/32", "dev", "lo"] for a in addresses)]:
        subprocess.run(["ip", *words], check=True)
