#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A migration that begins on a machine of one release of Debian, and ends on one of the next, with
its servers and our packages for them; started by packaging/test --next-release.  As docs/upgrades.md
tells: the disks are pulled out half-way, and what is in /etc and /var/lib/samba goes along.
"""
import json
import subprocess
import sys

from migrate import DISK_SIZE, DISKS, Test, arguments, run      # first: it finds the others
from halfway import NEEDED, SERVERS, say
from machine import Machine, Trouble, wait_for

TAKEN = ("etc/postcopy", "var/lib/postcopy", "etc/samba/smb.conf", "var/lib/samba")
BIG = "big"             # of oldtree; some of it is there when the disks are moved


class Moved(Test):
    NETWORK = {"same_network": True}        # which the old servers are in, too

    def __init__(self, args):
        super().__init__(args)
        self.next = Machine(args.next_root, self.work / "next", DISKS, **self.NETWORK)
        del self.result["purged_clean"]

    def play(self):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.address()
        with self.machine.new_disks(DISK_SIZE), self.machine.boot(), self.journal_kept():
            self.old_nfs()
            self.old_smb()
            self.machine.install(self.args.packages)
            self.prepare()
            self.begin()
            left = self.leave()
        with self.next, self.next.boot(), self.journal_kept():
            self.machine = self.next
            self.arrive()
            self.crawl()
            self.compare()
            self.finish()
            self.result["upgrade_ok"] = all(left.values())
            self.take_plugins_out()
            self.stock_serve("finish")

    def leave(self):
        left = self.some_of_it()
        self.read_some(BIG)
        say("the disks leave half-way, with %s to come" % left)
        for client in (self.nfs_client, self.smb_client):
            client.close()
        self.machine.systemctl("stop", *SERVERS, *reversed(self.units()))
        self.machine.say("mkdir", "-p", "/" + TAKEN[1])
        self.machine.say("tar", "-C", "/", "-cf", "/taken.tar", *TAKEN)
        self.taken = (self.machine.root / "taken.tar").read_bytes()
        self.here = {name: self.machine.version(name) for name in (*NEEDED, "samba")}
        self.machine.give_disks(self.next)
        return left

    def read_some(self, path):
        """So that a file has some of its bytes, and a map of the others."""
        client = self.nfs_client.patient(60)
        size = (self.old["nfs"] / path).stat().st_size
        client.read(client.lookup_path(path), size // 2, 10)
        here = (self.volume("nfs") / path).stat().st_blocks * 512
        say("%s has %d of %d bytes" % (path, here, size))

    def arrive(self):
        say("apt install on the next release of Debian")
        self.machine.install(self.args.next_packages)
        self.has_not_begun("installing")
        same = [name for name, version in self.here.items()
                if self.machine.version(name) in (version, None)]
        if same:
            raise Trouble("both machines have the same %s" % ", ".join(same))
        (self.machine.root / "taken.tar").write_bytes(self.taken)
        self.machine.say("tar", "-C", "/", "-xf", "/taken.tar")
        for protocol, answer in self.volumes.items():
            block = json.loads(self.machine.say("postcopy", "blocks", "--json",
                                                "/srv/%s/data" % protocol).stdout)
            if block["uuid"] != answer["uuid"] or block["units"] != answer["units"]:
                raise Trouble("%s is not the volume that left: %s" % (protocol, block))
            answer.update(block)
        self.accounts()
        self.ganesha_conf()
        self.begin()
        for protocol in self.volumes:
            self.read(protocol, self.one(protocol, here=True), 60)
            self.read(protocol, self.one(protocol, here=False), 60)
            self.machine.systemctl("enable", "--now", self.volumes[protocol]["units"][1])
            wait_for("a crawler", lambda p=protocol: self.status(p).get("crawler") or
                     self.status(p).get("state") == "complete")


def main():
    parser = arguments()
    parser.add_argument("--next-root", required=True)
    parser.add_argument("--next-packages", required=True)
    return run(Moved, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
