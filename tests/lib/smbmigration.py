# SPDX-License-Identifier: GPL-3.0-or-later
"""SmbMigration: a Migration whose new server is an smbd with our module.

    m = SmbMigration(workdir, url, volume_dir).init().start()
    with m.client("alice") as c: ...
    m.crawl(); m.audit(complete=True); m.stop()
"""
from lib.migration import BUILD, Migration
from lib.smbd import STOCK, Samba, Share

MODULES = BUILD / "vfs_stub"
STACK = (*STOCK, "stub")        # ours is asked last: what it sees are files


class SmbMigration(Migration):
    def __init__(self, workdir, url, volume, shim=None, conf="", more="", allow=(), wrap=(),
                 stack=STACK, **smbd):
        """more: lines of the share; smbd: options of class Samba; the rest as Migration."""
        super().__init__(workdir, url, volume, shim=shim, conf=conf, allow=allow, wrap=wrap)
        self.server = Samba(self.workdir / "smbd", module_dir=MODULES,
                            shares=[Share(str(volume), vfs=stack, more=more)], **smbd)

    def client(self, user="root", **options):
        return self.server.client(user, **options)
