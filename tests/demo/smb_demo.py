# SPDX-License-Identifier: GPL-3.0-or-later
"""./demo --smb: the same migration between two SMB servers, seen by an SMB client.

Both are Debian's stock smbd; the new one has our module.  Everything that SMB knows of
each object is compared at the end: bytes, times, DOS attributes, extended attributes,
streams, and descriptors byte for byte.
"""
import os
import time

import oldtree
import smb_oldtree
import smb_visitor
from lib import smbtree
from lib.smbd import PASSWORD, STACK, Share
from demo import GIB, Demo, say
from stage import DemoError

SHOWN = 20                  # differences
SHARE = {"more": smbtree.RAW_NAMES}


class SmbDemo(Demo):
    def old_server(self):
        need = oldtree.needed_bytes(self.args.size)
        self.stage.need_space(2 * need + GIB)
        tree = self.stage.loop_volume("oldfs", 2 * need + GIB).path / "data"
        tree.mkdir(mode=0o755)
        say("starting the old server (stock smbd)")
        self.old = self.stage.samba("old", shares=[Share(str(tree), **SHARE)])
        with self.old.client() as client:
            smb_oldtree.build(tree, client, self.args.size, say)
        self.old.shares[0].readonly = True
        self.old.restart()
        self.stage.note(self.old.pid)
        self.old_uri = self.old.url()

    def settings(self):
        """Who the retriever is at the old server: a file that only root can read."""
        options = super().settings()
        login, conf = self.stage.run / "login", self.stage.run / "postcopy.conf"
        with open(os.open(login, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write("username = root\npassword = %s\n" % PASSWORD)
        conf.write_text(conf.read_text() + 'smb_credentials = "%s"\nsmb_worker = "%s"\n' % (
            login, self.build / "retriever" / "postcopy-smb-worker"))
        return options

    def start(self):
        say("starting the retriever and the new server (smbd with vfs objects = stub)")
        self.start_retriever()
        modules = self.build / "vfs_stub"
        if not (modules / "stub.so").exists():
            raise DemoError("no %s/stub.so: the Samba module was not built" % modules)
        self.new = self.stage.samba("new", module_dir=modules, shares=[
            Share(self.volume_dir, vfs=STACK, **SHARE)])

    def first_access(self):
        start = time.monotonic()
        with self.new.client() as client:
            names = client.names()
            self.result["first_listing_ms"] = round((time.monotonic() - start) * 1000, 1)
            say("first listing: %d names after %.1f ms" % (
                len(names), self.result["first_listing_ms"]))
            cold = smb_oldtree.deepest()
            start = time.monotonic()
            with client.open(cold, timeout=60) as f:
                f.read(0, 1, timeout=60)
            self.result["first_byte_ms"] = round((time.monotonic() - start) * 1000, 1)
            say("first byte of a cold file %d levels deep: after %.1f ms" % (
                cold.count("/"), self.result["first_byte_ms"]))

    def guest(self):
        return smb_visitor.Visitor(self.old.client(), self.new.client())

    def compare(self):
        say("comparing both servers through SMB: type, size, SHA-256, times, attributes, EAs, "
            "streams, descriptors")
        counts = {}
        with self.old.client() as old, self.new.client() as new:
            found = 0
            for difference in smbtree.compare(old, new, counts=counts):
                found += 1
                if found <= SHOWN:
                    print(difference)
        self.result["files"], self.result["bytes"] = counts["objects"], counts["bytes"]
        self.count_wrong(found)

    def still_served(self):
        with self.new.client() as client:
            return len(client.names())
