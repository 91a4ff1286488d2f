# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers that are libraries: what they do not know is odd.  For tests/lib/oldservers.py.

    with gonfs(directory, log) as (url, port, stop):
        NFSv3, of tests/tools/gonfs
    with impacket(directory, workdir, user, password) as (url, stop):
        SMB 2.0.2, of Debian's package
"""
import contextlib
import functools
import pathlib
import socket
import subprocess

from lib.ports import free_port
from lib.programs import TOOLS
from lib.wait import wait_until

RELEASE = "trixie"
IMPACKET = """import logging, sys
from impacket import smbserver
directory, port, user, hashed = sys.argv[1:]
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
server = smbserver.SimpleSMBServer(listenAddress="127.0.0.1", listenPort=int(port))
server.addShare("SHARE", directory, readOnly="yes")
server.setSMB2Support(True)
server.addCredential(user, 0, "", hashed)
server.start()
"""


@contextlib.contextmanager
def running(argv, port, log, **options):
    """The server, once somebody listens there."""
    with open(log, "wb") as out:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, argv)],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options)

    def stop():
        process.kill()
        process.wait()

    def listens():
        assert process.poll() is None, "%s:\n%s" % (argv[0], pathlib.Path(log).read_text())
        with contextlib.suppress(ConnectionRefusedError), \
                socket.create_connection(("127.0.0.1", port), timeout=10):
            return True

    try:
        wait_until(listens, 60, "the server %s" % argv[0])
        yield stop
    finally:
        stop()


# -- Go ---------------------------------------------------------------------------------------

@functools.cache
def gonfs_program():
    done = subprocess.run([str(TOOLS / "gonfs/build")], stdout=subprocess.PIPE, text=True,
                          timeout=1800)
    assert done.returncode == 0, "gonfs/build: see above"
    return done.stdout.strip()


def gonfs_version():
    """Of the library."""
    for line in (TOOLS / "gonfs/go.mod").read_text().splitlines():
        if "willscott/go-nfs " in line:
            return line.split()[1]


@contextlib.contextmanager
def gonfs(directory, log):
    """(url, port, stop)"""
    port = free_port()
    with running([gonfs_program(), directory, port], port, log) as stop:
        yield "nfs://127.0.0.1/?nfsport=%d&mountport=%d&version=3" % (port, port), port, stop


# -- Python -----------------------------------------------------------------------------------

@functools.cache
def impacket_root():
    done = subprocess.run([str(TOOLS / "debian-root"), RELEASE, "python3-impacket"],
                          stdout=subprocess.PIPE, text=True, timeout=3600)
    assert done.returncode == 0, "debian-root: see above"
    return pathlib.Path(done.stdout.strip())


def impacket_version():
    told, = (impacket_root() / "usr/lib/python3/dist-packages").glob("impacket-*.egg-info")
    return told.name.removeprefix("impacket-").removesuffix(".egg-info")


@contextlib.contextmanager
def impacket(directory, workdir, user, password):
    """(url, stop)"""
    from samba.credentials import Credentials
    known = Credentials()
    known.set_password(password)
    port = free_port()
    argv = [TOOLS / "debian-chroot", impacket_root(), workdir, "python3", "-c", IMPACKET,
            directory, port, user, known.get_nt_hash().hex()]
    with running(argv, port, workdir / "impacket.log", cwd=workdir) as stop:
        yield "smb://127.0.0.1:%d/SHARE" % port, stop
