# SPDX-License-Identifier: GPL-3.0-or-later
"""Old servers by IPv6 address and by name: in a network of the tests' own, with addresses and an
/etc/hosts of its own, so that nothing depends on what this machine has.

inside_addresses.py has the tests themselves; each is one here, too.
"""
import os
import re
import shutil
import subprocess
import sys

import pytest

from lib.programs import TESTS

INSIDE = TESTS / "conformance/inside_addresses.py"
NAMES = re.findall(r"^def (test_\w+)", INSIDE.read_text(), re.MULTILINE)
SETUP = r"""
set -eu
for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
    echo 0 >"$file"
done
ip link set lo up
# without an address beyond 127.0.0.1, resolvers hide those of IPv4 (AI_ADDRCONFIG)
ip address add 192.0.2.1/32 dev lo
ip address add fd00:7057::1/128 dev lo nodad
ip address add fd00:7057::2/128 dev lo nodad
mount -t tmpfs none /run
mount --bind "$1/hosts" /etc/hosts
mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf
shift
exec "$@"
"""


def run(tmp_path, *what):
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    return subprocess.run(
        ["unshare", "--net", "--mount", "--propagation", "slave", "bash", "-c", SETUP, "setup",
         str(tmp_path), *what], capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=600)


@pytest.mark.parametrize("name", NAMES)
def test_inside(name, tmp_path):
    assert shutil.which("ip"), "iproute2 is missing"
    done = run(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "%s::%s" % (INSIDE, name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout


def test_the_machine_is_left_alone(tmp_path):
    with open("/etc/hosts") as f:
        before = f.read()
    done = run(tmp_path, "sh", "-c", "echo ::1 filer >>/etc/hosts; getent hosts filer; ip -6 route")
    assert done.returncode == 0 and "::1" in done.stdout, done
    with open("/etc/hosts") as f:
        assert f.read() == before
    assert not os.path.ismount("/etc/hosts") or "filer" not in before
