# SPDX-License-Identifier: GPL-3.0-or-later
"""./demo --both: one tree that the old server exports over NFS and shares over SMB.

The new server does the same: Ganesha with FSAL STUB beside smbd with our module, on one
volume with both sources.  A client of each lists, reads and writes meanwhile.
"""
import os
import time

import both_compare
import both_visitor
import oldtree
import smb_oldtree
from lib import smbtree
from lib.smbd import SID, USERS, Share
import visitor
from demo import GIB, Demo, say
from smb_demo import SHARE, SmbDemo
from stage import DemoError, wait_for

IDMAP = "".join("uid %d %s-%d\n" % (uid, SID, rid) for uid, _, rid in USERS.values()) + \
    "everyone S-1-5-11\n"
TWIN = "deep-smb"           # as deep as the path that NFS goes first
CACHE_S = 90                # Ganesha asks for attributes again after 60 s at the latest


class BothDemo(SmbDemo):
    KEYS = Demo.KEYS + ("smb_objects", "smb_first_listing_ms", "smb_first_byte_ms", "mismatches",
                        "modes_by_descriptor", "times_before_1970")

    def old_server(self):
        need = oldtree.needed_bytes(self.args.size)
        self.stage.need_space(2 * need + GIB)
        tree = self.stage.loop_volume("oldfs", 2 * need + GIB).path / "data"
        tree.mkdir(mode=0o755)
        oldtree.build(tree, self.args.size, say)
        oldtree.deep(os.fsencode(tree / TWIN), oldtree.WIDTH[self.args.size])
        (tree / both_visitor.PLACE).mkdir(mode=0o755)
        say("starting the old server: stock smbd, stock ganesha.nfsd (read-only export)")
        self.old = self.stage.samba("old-smb", shares=[Share(str(tree), **SHARE)])
        say("making files with descriptors, streams and attributes")
        with self.old.client() as client:
            smbtree.Builder(client, "kinds", entries=smb_oldtree.CROWD[self.args.size],
                            deep=30).build()
            smb_oldtree.homes(client, "people")
        os.sync()
        self.old.shares[0].readonly = True
        self.old.restart()
        self.stage.note(self.old.pid)
        server = self.stage.server("old", tree, self.shim, readonly=True)
        self.old_uri = server.url().replace("&version=3", "")

    def sources(self):
        return [*super().sources(), "--join", self.old.url()]

    def settings(self):
        """Who users are: a table that only root can write."""
        options = super().settings()
        conf, idmap = self.stage.run / "postcopy.conf", self.stage.run / "idmap"
        idmap.write_text(IDMAP)
        idmap.chmod(0o600)
        conf.write_text(conf.read_text() + 'smb_idmap = "%s"\n' % idmap)
        return options

    def start(self):
        super().start()
        say("beside it: ganesha.nfsd with FSAL STUB")
        self.new_smb = self.new
        self.new = self.stage.server("new-nfs", self.volume_dir, self.shim, fsal="stub",
                                     plugin_dir=self.build / "fsal_stub")

    def new_volume(self):
        Demo.new_volume(self)

    def first_access(self):
        """Over NFS as ever; over SMB of what NFS has not touched."""
        Demo.first_access(self)
        cold = "/".join([TWIN, *oldtree.deepest().decode().split("/")[1:]])
        start = time.monotonic()
        with self.new_smb.client() as client:
            names = client.names("kinds")
            self.result["smb_first_listing_ms"] = ms(start)
            start = time.monotonic()
            with client.open(cold, timeout=60) as f:
                f.read(0, 1, timeout=60)
            self.result["smb_first_byte_ms"] = ms(start)
        say("SMB: first listing: %d names after %.1f ms; first byte of a cold file %d levels "
            "deep: after %.1f ms" % (len(names), self.result["smb_first_listing_ms"],
                                     cold.count("/"), self.result["smb_first_byte_ms"]))

    def guest(self):
        self.guests = both_visitor.Both(
            both_visitor.NfsVisitor(visitor.connect_uri(self.old_uri), self.new.client("v3")),
            both_visitor.SmbVisitor(self.old.client(), self.new_smb.client()))
        return self.guests

    def scan(self):
        self.mismatches = self.volume.control.ask("status", 5)["mismatches"]
        super().scan()

    def compare(self):
        self.see_each_other()
        say("comparing both servers through NFS: type, size, mode, owner, times, links, SHA-256")
        old, new = self.manifests()
        self.count(old, new)
        say("and through SMB: type, size, SHA-256, times, attributes, EAs, streams, descriptors")
        tool = [self.build / "tests" / "demo" / "joinedmode", self.stage.run / "idmap",
                os.path.dirname(self.volume_dir)]
        with self.old.client() as was, self.new_smb.client() as is_, \
                both_compare.Compare(was, is_, tool) as c:
            c.run(self.lines(old), self.lines(new))
            c.told(self.stage.run / "retriever.log", self.mismatches)
        for difference in c.found[:20]:
            print(difference)
        self.result.update(smb_objects=c.smb_objects, mismatches=self.mismatches,
                           modes_by_descriptor=c.modes, times_before_1970=c.early)
        say("by design: %d objects that SMB cannot name have what NFS knows, each told; %d modes "
            "are the descriptors'; %d times before 1970 are as SMB tells them" % (
                self.mismatches, c.modes, c.early))
        self.count_wrong(len(c.found))

    def see_each_other(self):
        """What the client of one protocol wrote, the other's reads."""
        nfs, smb = self.guests.nfs.wrote, self.guests.smb.wrote
        if not nfs or not smb:
            raise DemoError("a client wrote nothing")
        with self.new.client("v3") as one, self.new_smb.client() as two:
            wait_for(lambda: one.read_file(both_visitor.MINE["smb"].encode()) == smb, CACHE_S,
                     "an NFS client does not see what an SMB client wrote")
            wait_for(lambda: two.read_file(both_visitor.MINE["nfs"]) == nfs, CACHE_S,
                     "an SMB client does not see what an NFS client wrote")
        say("each client reads what the other wrote: %d and %d bytes" % (len(nfs), len(smb)))

    def still_served(self):
        with self.new_smb.client() as client:
            over_smb = len(client.names())
        say("over SMB: %d names" % over_smb)
        return Demo.still_served(self)

    def more_rows(self):
        r = self.result
        return [("over SMB", "first listing %.1f ms, first byte %.1f ms" % (
                    r["smb_first_listing_ms"], r["smb_first_byte_ms"])),
                *(("client of " + name, "%d listings, %d reads, slowest answer %.0f ms, "
                   "%d bytes written" % (v.report.listings, v.report.reads, v.report.worst_ms,
                                         len(v.wrote)))
                  for name, v in (("NFS", self.guests.nfs), ("SMB", self.guests.smb))),
                ("compared", "%d over NFS, %d of them over SMB" % (r["files"], r["smb_objects"])),
                ("not joined", "%d, as their names want" % r["mismatches"]),
                ("modes", "%d are the descriptors', not those of the old NFS server" %
                 r["modes_by_descriptor"])]


def ms(start):
    return round((time.monotonic() - start) * 1000, 1)
