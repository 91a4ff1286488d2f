# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS for tests: clients for v3, v4.0 and v4.1, a fake server, a proxy.

Pure Python, no kernel client needed.  Start with connect():

    from nfsclient import connect
    with connect("v4.1", "127.0.0.1", nfs_port, mount_port, "/export") as c:
        c.write_file("a/b", b"data")
        assert c.getattr("a/b").size == 4
"""
from .errors import NfsError, retry_jukebox
from .rpc import AuthSys, RpcBroken, RpcError, RpcTimeout

PROTOCOLS = ("v3", "v4.0", "v4.1")


def connect(proto, host, port, mount_port=None, export="/export",
            cred=AuthSys(), **options):
    """A client of the given protocol version on the root of an export."""
    if proto == "v3":
        from .client3 import Client3
        return Client3(host, port, mount_port, export, cred, **options)
    from .client4 import Client4
    return Client4(host, port, export, cred, minor=int(proto[-1]), **options)


__all__ = ["connect", "PROTOCOLS", "AuthSys", "NfsError", "RpcBroken",
           "RpcError", "RpcTimeout", "retry_jukebox"]
