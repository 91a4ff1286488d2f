# SPDX-License-Identifier: GPL-3.0-or-later
"""What may come in the middle of a migration, with clients connected: newer packages, older ones,
and none.  What docs/upgrades.md and docs/packages.md say is done, and is so."""
import contextlib
import errno
import itertools
import os
import re
import stat
import sys
import time

import oldtree
import smb_oldtree
from machine import Trouble, wait_for
from nfsclient import NfsError, RpcError

NEEDED = ("libstubcore0", "nfs-ganesha-stub", "samba-vfs-stub", "postcopy")
OURS = (*NEEDED, "libstubcore-dev")
SERVERS = ("nfs-ganesha.service", "smbd.service")
OF_TWO_RELEASES = "is of an earlier release"
WHOLE = 65536   # what is so small is read at once


def say(text):
    print(":: [%s] %s" % (time.strftime("%H:%M:%S"), text), file=sys.stderr, flush=True)


class HalfWay:
    def some_of_it(self):
        """Is here then, and how much each volume misses. It is clients who fetch it: however slow
        this machine is, crawlers that begin and are told to pause do not come to the end."""
        self.nfs_client.patient(60).listdir()
        self.smb_client.names()
        for protocol, answer in self.volumes.items():
            self.postcopy("throttle", protocol, "16K")
            self.machine.systemctl("enable", "--now", answer["units"][1])
            self.postcopy("pause", protocol)
            for path in list(itertools.islice(self.to_come(protocol), self.args.half)):
                self.read(protocol, path, 60)
        return {p: self.status(p).get("counter", 0) for p in self.volumes}

    def half_way(self):
        left = self.some_of_it()
        say("half of the way, with %s to come" % left)
        self.other("upgrade", self.args.packages)
        if not self.args.no_way_back:
            self.other("downgrade", self.args.older)
            self.other("upgrade again", self.args.packages)
        self.deepest()
        self.removal_is_refused()
        self.removed_and_back()
        self.result["upgrade_ok"] = all(left.values())

    def postcopy(self, verb, protocol, *more):
        self.machine.say("postcopy", verb, "/srv/%s/data" % protocol, *more)

    def units(self):
        return [unit for answer in self.volumes.values() for unit in answer["units"]]

    def lives(self, units):
        return {unit: self.machine.life(unit) for unit in units}

    def servers(self):
        return self.lives(SERVERS)

    # -- clients --------------------------------------------------------------

    def volume(self, protocol):
        return self.machine.root / "srv" / protocol / "data"

    def to_come(self, protocol):
        """Paths of files of an old server that have no data in the volume yet, and that no client
        has read."""
        top = self.old[protocol]
        for directory, dirs, names in os.walk(top):
            dirs.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                below = os.path.relpath(path, top)
                info = os.lstat(path)
                if stat.S_ISREG(info.st_mode) and 0 < info.st_size <= WHOLE and \
                        re.fullmatch(r"[\w./-]+", below) and "home/" not in below and \
                        below not in self.came[protocol] and not self.has_data(protocol, below):
                    yield below

    def has_data(self, protocol, below):
        try:
            path = self.volume(protocol) / below
            os.getxattr(path, "trusted.postcopy")
            return bool(os.stat(path).st_blocks)
        except FileNotFoundError:
            return False
        except OSError as err:          # no stub: all of it
            if err.errno != errno.ENODATA:
                raise
            return True

    def one(self, protocol, here):
        """One of them; with @here one that a client has read."""
        found = self.came[protocol][-1:] if here else self.to_come(protocol)
        for path in found:
            return path
        raise Trouble("no file of %s is %s" % (protocol, "here" if here else "to come any more"))

    def read(self, protocol, path, patience):
        """As a client; Trouble if it is not what the old server has."""
        with open(self.old[protocol] / path, "rb") as f:
            want = f.read(WHOLE)
        if protocol == "nfs":
            client = self.nfs_client.patient(patience)
            got = bytes(client.read(client.lookup_path(path), 0, WHOLE)[0])
        else:
            with self.smb_client.open(path, timeout=patience) as f:
                got = bytes(f.read(0, WHOLE, timeout=patience))
        if got != want:
            raise Trouble("%s over %s is not what the old server has: %r..., should be %r..." % (
                path, protocol, got[:40], want[:40]))
        self.came[protocol].append(path)
        return True

    def reads_now(self, path):
        """Over NFS, without waiting for what has not come."""
        with contextlib.suppress(NfsError, RpcError, OSError):
            return self.read("nfs", path, 1)
        return False

    def deepest(self):
        self.nfs_client.patient(60).read(
            self.nfs_client.patient(60).lookup_path(oldtree.deepest()), 0, 10)
        with self.smb_client.open(smb_oldtree.deepest(), timeout=60) as f:
            f.read(0, 10, timeout=60)

    # -- another release ------------------------------------------------------

    def other(self, what, packages):
        """Its packages, while everything runs and clients are connected."""
        servers, daemons = self.servers(), self.lives(self.units())
        say("%s half-way" % what)
        self.machine.install(packages)
        for unit, life in daemons.items():
            wait_for("%s: restart of %s" % (what, unit), lambda u=unit, b=life: (
                self.machine.is_active(u) and self.machine.life(u)[0] != b[0]))
        for protocol in self.volumes:
            wait_for("retriever", lambda p=protocol: self.status(p).get("source_connected"))
        if self.servers() != servers:
            raise Trouble("%s has touched a server" % what)
        for protocol in self.volumes:
            self.read(protocol, self.one(protocol, here=True), 60)
        self.with_old_servers(what)
        for protocol in self.volumes:
            self.read(protocol, self.one(protocol, here=False), 60)

    def with_old_servers(self, what):
        """The servers have the plugin of before: what has not come is right, or waits, and the
        log says what to do. That is done."""
        cold = self.one("nfs", here=False)
        wait_for("%s: an answer, or a line that says why not" % what,
                 lambda: self.told() or self.reads_now(cold))
        if not self.told():
            if self.args.other_wire:
                raise Trouble("%s: servers and retriever are of two releases, and talk" % what)
            return
        say("restarting Ganesha, and connecting to smbd anew, as the logs say")
        self.machine.systemctl("restart", SERVERS[0])
        self.connect()

    def told(self):
        """Do the retrievers that run say that a server is of another release?"""
        return any(OF_TWO_RELEASES in self.machine.journal(
            "_SYSTEMD_INVOCATION_ID=" + self.machine.show(answer["units"][0], "InvocationID"))
            for answer in self.volumes.values())

    # -- none -----------------------------------------------------------------

    def removal_is_refused(self):
        say("apt remove and purge, at work")
        before = self.lives([*SERVERS, *self.units()])
        versions = [self.machine.version(one) for one in NEEDED]
        for verb, names in (("remove", OURS), ("purge", NEEDED), ("remove", NEEDED[1:2]),
                            ("remove", NEEDED[2:3])):
            done = self.machine.apt(verb, *names, check=False)
            if not done.returncode or "is at work and stays" not in done.stderr + done.stdout:
                raise Trouble("apt %s at work: status %d, %s%s" % (
                    verb, done.returncode, done.stdout[-1000:], done.stderr[-1000:]))
        now = [self.machine.version(one) for one in NEEDED]
        if None in now or now != versions:
            raise Trouble("a refused removal has left %s of %s" % (now, NEEDED))
        self.machine.install(self.args.packages)    # libstubcore-dev, which nobody needs, may go
        if self.lives([*SERVERS, *self.units()]) != before:
            raise Trouble("a refused removal has stopped something")
        for protocol in self.volumes:
            self.read(protocol, self.one(protocol, here=False), 60)

    def removed_and_back(self):
        """Who stops the daemons first is obeyed: nothing is served empty or wrong meanwhile."""
        say("daemons stopped, apt purge half-way")
        here = {p: self.one(p, here=True) for p in self.volumes}
        cold = self.one("nfs", here=False)
        self.machine.systemctl("stop", *reversed(self.units()))
        servers = self.servers()
        done = self.machine.apt("remove", *OURS)
        said = done.stdout + done.stderr        # dpkg's is on a terminal of apt's
        for protocol in self.volumes:
            if "migration of /srv/%s/data is not finished" % protocol not in said:
                raise Trouble("apt remove does not name what is unfinished: %s" % said)
        self.machine.apt("purge", "postcopy")
        if self.servers() != servers:
            raise Trouble("removing the packages has touched a server")
        for protocol, path in here.items():
            self.read(protocol, path, 60)
        if self.reads_now(cold):
            raise Trouble("%s has come while nothing can fetch it" % cold)
        say("servers without our plugins")
        self.machine.systemctl("restart", *SERVERS)
        self.refused()
        say("installed again")
        self.machine.install(self.args.packages)
        self.enable_retrievers()
        for answer in self.volumes.values():
            self.machine.systemctl("enable", "--now", answer["units"][1])
        self.machine.systemctl("restart", SERVERS[0])
        self.connect()
        for protocol in self.volumes:
            self.read(protocol, self.one(protocol, here=False), 60)

    def refused(self):
        """Export and share: the servers are up, and do not have them."""
        wait_for("Ganesha", self.mount_port)
        wait_for("smbd", lambda: self.machine.is_active(SERVERS[1]))
        for name, connecting in ("export", self.new_nfs), ("share", self.new_smb):
            try:
                client = connecting()
            except Exception as err:    # of whatever kind the client has
                say("the %s is refused: %s" % (name, str(err)[:100]))
                continue
            client.close()
            raise Trouble("without the plugin, the %s is served" % name)
