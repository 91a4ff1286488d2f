#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator does with the packages, on a machine of one Debian release; started by
packaging/test, in namespaces of its own: nobody else's processes, no network but loopback.

Two stock servers, NFS and SMB, are installed and have to go on at the end. Between: install the
previous packages, migrate from an old server each, upgrade half-way under connected clients,
compare every object, finish, remove, purge. Prints a line of JSON.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "demo")]

import oldtree  # noqa: E402
import smb_oldtree  # noqa: E402
from lib import smbtree  # noqa: E402
from lib.ganesha import Ganesha  # noqa: E402
from lib.programs import build_nfstree, build_rpcshim  # noqa: E402
from lib.smbd import (GROUPS, OWN_CONF, PASSWORD, PRIVILEGES, SID, USERS, Samba,  # noqa: E402
                      Share)
from machine import Machine, Trouble, wait_for  # noqa: E402
from nfsclient import connect  # noqa: E402
from smb2client import Client  # noqa: E402

GIB = 1 << 30
OURS = ("libstubcore0", "libstubcore-dev", "nfs-ganesha-stub", "samba-vfs-stub", "postcopy")
SETTINGS = {"etc/postcopy", "etc/postcopy/postcopy.conf", "etc/postcopy/login"}
SMB_CONF = OWN_CONF + """\
netbios name = FILER
workgroup = WORKGROUP
unix extensions = no
map to guest = never
"""


def say(text):
    print(":: [%s] %s" % (time.strftime("%H:%M:%S"), text), file=sys.stderr, flush=True)


class Test:
    def __init__(self, args):
        self.args, self.work = args, Path(args.work)
        self.machine = Machine(args.root, self.work)
        self.nfstree = build_nfstree(self.work / "tools")
        self.shim = build_rpcshim(self.work / "tools")
        self.result = {"objects": 0, "differences": 0, "upgrade_ok": False,
                       "purged_clean": False}
        self.volumes = {}       # protocol: the answer of init

    def play(self):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        # with loopback addresses alone, names are not looked up (AI_ADDRCONFIG)
        subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)
        before = self.machine.files()
        self.old_nfs()
        self.old_smb()
        self.first_install(before)
        self.prepare()
        self.begin()
        self.upgrade()
        self.crawl()
        self.compare()
        self.finish()
        self.remove_and_purge(before)
        return self.result

    # -- old servers: stock ones of this machine ------------------------------

    def old_nfs(self):
        tree = self.machine.file_system(self.work / "old-nfs", 4 * GIB)
        oldtree.build(tree, self.args.size, say)
        self.nfs = Ganesha(self.work / "nfs", tree, shim=self.shim, readonly=True, name="nfs")
        self.nfs.start()

    def old_smb(self):
        tree = self.machine.file_system(self.work / "old-smb", 4 * GIB)
        self.smb = Samba(self.work / "smb", shares=[Share(str(tree), more=smbtree.RAW_NAMES)])
        self.smb.start()
        with self.smb.client() as client:
            smb_oldtree.build(tree, client, self.args.size, say)
        self.smb.shares[0].readonly = True
        self.smb.restart()

    # -- the new one ----------------------------------------------------------

    def first_install(self, before):
        say("apt install of the previous packages")
        self.machine.install(self.args.previous)
        self.has_not_begun("installing")
        new = set(self.machine.files()) - set(before)
        wrong = [p for p in new if p.startswith("etc/systemd/") or "/rc" in p]
        if wrong:
            raise Trouble("installing has enabled %s" % ", ".join(wrong))
        for program in ("postcopy", "postcopy-retriever", "postcopy-crawler", "postcopy-volume"):
            self.machine.run(program, "--help")

    def has_not_begun(self, what):
        calls = [c for c in self.machine.calls() if c.split()[-1] != "daemon-reload"]
        running = [p for name in ("postcopy-retriev", "postcopy-crawler", "ganesha.nfsd", "smbd")
                   for p in self.machine.processes(name)]
        if calls or running:
            raise Trouble("%s has started or stopped something: %s" % (what, calls or running))

    def prepare(self):
        machine, etc = self.machine, self.machine.root / "etc"
        for protocol in ("nfs", "smb"):
            machine.file_system(machine.root / "srv" / protocol, 4 * GIB)
        (etc / "postcopy").mkdir(exist_ok=True)
        login = etc / "postcopy/login"
        login.write_text("username = root\npassword = %s\n" % PASSWORD)
        login.chmod(0o600)
        (etc / "postcopy/postcopy.conf").write_text(
            'finish_delay = 2\nsmb_credentials = "/etc/postcopy/login"\n')
        sources = {"nfs": self.nfs.url().replace("&version=3", ""), "smb": self.smb.url()}
        for protocol, source in sources.items():
            say("postcopy init --source %s" % source)
            answer = json.loads(machine.run(
                "postcopy", "init", "--json", "--source", source,
                "/srv/%s/data" % protocol, check=False).stdout or "{}")
            if not answer.get("ok"):
                raise Trouble("postcopy init: %s" % answer.get("message", answer))
            self.volumes[protocol] = answer
        with open(etc / "ganesha/ganesha.conf", "a") as f:
            # the comparer is root, and looks into what is nobody else's
            f.write(self.volumes["nfs"]["export_block"].replace(
                "Squash = Root_Squash", "Squash = No_Root_Squash"))
            f.write(self.global_block())
        self.samba_users()
        share = self.volumes["smb"]["share_block"]
        (etc / "samba/smb.conf").write_text(SMB_CONF + share + smbtree.RAW_NAMES + "\n")

    def global_block(self):
        """Ganesha 6 wants a capability that a machine of the tests may lack."""
        block = self.volumes["nfs"]["global_block"]
        version = self.machine.run("dpkg-query", "-W", "-f", "${Version}", "nfs-ganesha").stdout
        if not version.startswith("4."):
            block = block.replace("NFS_CORE_PARAM {\n", "NFS_CORE_PARAM {\n"
                                  "    allow_set_io_flusher_fail = true;\n")
        return block

    def samba_users(self):
        machine, etc = self.machine, self.machine.root / "etc"
        with open(etc / "passwd", "a") as f:
            f.writelines("%s:x:%d:%d::/nonexistent:/bin/false\n" % (user, uid, gid)
                         for user, (uid, gid, _) in USERS.items() if uid)
        with open(etc / "group", "a") as f:
            f.writelines("%s:x:%d:%s\n" % (group, gid, ",".join(members))
                         for group, (gid, members) in GROUPS.items())
        (etc / "samba/smb.conf").write_text(SMB_CONF)
        machine.run("net", "setlocalsid", SID)
        for user, (_, _, rid) in USERS.items():
            machine.run("pdbedit", "-a", "-t", "-u", user, "-U", str(rid),
                        text="%s\n%s\n" % (PASSWORD, PASSWORD))
        machine.run("net", "sam", "rights", "grant", "root", *PRIVILEGES)

    def begin(self):
        say("starting the units")
        rpcbind = subprocess.Popen(self.machine.command(["/sbin/rpcbind", "-f", "-w"]))
        wait_for("rpcbind", lambda: rpcbind.poll() is None and (
            self.machine.root / "run/rpcbind.sock").exists())
        for answer in self.volumes.values():
            self.machine.start(answer["units"][0])
        for protocol in self.volumes:
            wait_for("retriever", lambda p=protocol: self.status(p).get("source_connected"))
        self.machine.start("nfs-ganesha.service")
        self.machine.start("smbd.service")
        self.nfs_client = self.retry(lambda: self.new_nfs())
        self.smb_client = self.retry(lambda: self.new_smb())

    @staticmethod
    def retry(connecting):
        """The server is up when it answers."""
        end = time.monotonic() + 60
        while True:
            try:
                return connecting()
            except Exception as err:     # of whatever kind the client has
                if time.monotonic() > end:
                    raise Trouble("a server does not come up: %r" % err) from err
                time.sleep(0.2)

    def new_nfs(self):
        return connect("v3", "127.0.0.1", 2049, self.mount_port(), self.pseudo())

    def pseudo(self):
        return re.search(r'Pseudo = "([^"]+)"', self.volumes["nfs"]["export_block"]).group(1)

    def new_smb(self):
        share = re.search(r"\[(.+)\]", self.volumes["smb"]["share_block"]).group(1)
        return Client("127.0.0.1", 445, share, "root", PASSWORD)

    @staticmethod
    def mount_port():
        from visitor import MOUNT, getport
        return getport("127.0.0.1", MOUNT)

    def status(self, protocol):
        done = self.machine.run("postcopy", "status", "--json", "/srv/%s/data" % protocol,
                                check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    # -- half-way -------------------------------------------------------------

    def upgrade(self):
        """With clients connected, some of the tree here and most of it not."""
        self.nfs_client.patient(60).listdir()
        self.smb_client.names()
        for protocol, answer in self.volumes.items():
            self.machine.run("postcopy", "throttle", "/srv/%s/data" % protocol, "1M")
            self.machine.start(answer["units"][1])
        for protocol in self.volumes:
            wait_for("half of the way", lambda p=protocol: self.half(p), 300)
        left = {p: self.status(p).get("counter", 0) for p in self.volumes}
        servers = self.servers()
        say("apt install of the next packages, with %s to come" % left)
        self.machine.install(self.args.packages)
        calls = self.machine.calls()
        restarted = [c for c in calls if c.split()[0] in ("try-restart", "restart", "stop")]
        if [w for c in restarted for w in c.split()[1:] if not w.startswith("postcopy-")]:
            raise Trouble("an upgrade touches servers: %s" % restarted)
        if not restarted:
            raise Trouble("an upgrade leaves the old daemons running: %s" % calls)
        self.machine.obey(calls)
        for protocol in self.volumes:
            wait_for("retriever", lambda p=protocol: self.status(p).get("source_connected"))
            self.machine.run("postcopy", "throttle", "/srv/%s/data" % protocol, "0")
        if self.servers() != servers:
            raise Trouble("a server has been restarted")
        self.nfs_client.patient(60).read(self.nfs_client.lookup_path(oldtree.deepest()), 0, 10)
        with self.smb_client.open(smb_oldtree.deepest(), timeout=60) as f:
            f.read(0, 10, timeout=60)
        self.result["upgrade_ok"] = all(left.values())

    def half(self, protocol):
        s = self.status(protocol)
        done, counter = s.get("done", 0), s.get("counter", 0)
        return counter and done >= min(counter, self.args.half)

    def servers(self):
        return {name: self.machine.units[name].main()
                for name in ("nfs-ganesha.service", "smbd.service")}

    def crawl(self):
        say("crawling")
        for protocol, answer in self.volumes.items():
            wait_for("counter 0", lambda p=protocol: self.status(p).get("state") == "complete" or
                     self.status(p).get("counter") == 0, 1800)
            if self.status(protocol).get("parked"):
                raise Trouble("objects are parked: %s" % self.status(protocol))

    # -- the end --------------------------------------------------------------

    def compare(self):
        say("comparing")
        manifests = []
        new = "nfs://127.0.0.1%s?nfsport=2049&mountport=%d&version=3" % (
            self.pseudo(), self.mount_port())
        for name, uri in (("old", self.nfs.url()), ("new", new)):
            manifests.append(self.work / (name + ".manifest"))
            done = subprocess.run([self.nfstree, "--no-atime", "--quiet", "-o", manifests[-1],
                                   uri], capture_output=True, text=True)
            if done.returncode not in (0, 2):
                raise Trouble("nfstree %s: %s" % (uri, done.stderr))
        rows = [{line.split(b"\t")[0]: line for line in path.read_bytes().splitlines()
                 if not line.startswith(b"#")} for path in manifests]
        wrong = [k for k in rows[0].keys() | rows[1].keys() if rows[0].get(k) != rows[1].get(k)]
        counts = {}
        with self.smb.client() as old:
            wrong += list(smbtree.compare(old, self.smb_client, counts=counts))
        for one in wrong[:20]:
            print("differs:", one, file=sys.stderr)
        self.result["objects"] = len(rows[0]) + counts["objects"]
        self.result["objects_nfs"], self.result["objects_smb"] = len(rows[0]), counts["objects"]
        self.result["differences"] = len(wrong)

    def finish(self):
        say("postcopy finish")
        for protocol, answer in self.volumes.items():
            self.machine.run("postcopy", "finish", "/srv/%s/data" % protocol)
            for unit in answer["units"]:
                wait_for("end of %s" % unit, lambda u=unit: not self.machine.units[u].main())
                self.machine.units.pop(unit)

    def stock_serve(self, what):
        """The servers without our plugins, anew: they have all data."""
        for client in (self.nfs_client, self.smb_client):
            client.close()
        for unit in ("nfs-ganesha.service", "smbd.service"):
            self.machine.stop(unit)
            self.machine.start(unit)
        self.nfs_client = self.retry(self.new_nfs)
        self.smb_client = self.retry(self.new_smb)
        names = len(self.nfs_client.listdir()), len(self.smb_client.names())
        if not all(names):
            raise Trouble("after %s the stock servers show %s names" % (what, names))
        for server in ("nfs-ganesha", "samba"):
            if "ok installed" not in self.machine.run("dpkg-query", "-s", server).stdout:
                raise Trouble("after %s %s is gone" % (what, server))

    def remove_and_purge(self, before):
        etc = self.machine.root / "etc"
        conf = (etc / "ganesha/ganesha.conf").read_text()
        conf, count = re.subn(r"FSAL\s*{\s*Name = STUB;.*?\n    }\n",
                              "FSAL { Name = VFS; }\n", conf, flags=re.DOTALL)
        if count != 1:
            raise Trouble("the export block is not as it was: %s" % conf)
        (etc / "ganesha/ganesha.conf").write_text(conf)
        conf = (etc / "samba/smb.conf").read_text()
        (etc / "samba/smb.conf").write_text(
            re.sub(r"(?m)^\s*stub:.*\n", "", conf).replace(" stub\n", "\n"))
        say("apt remove")
        servers = self.servers()
        self.machine.run("apt-get", "-q", "-y", "remove", *OURS)
        self.machine.obey(self.machine.calls())
        if self.servers() != servers:
            raise Trouble("removing the packages has stopped a server")
        self.stock_serve("remove")
        say("apt purge")
        self.machine.run("apt-get", "-q", "-y", "purge", "postcopy")
        self.machine.run("dpkg", "--purge", *OURS)      # what has left nothing is no name to apt
        self.machine.obey(self.machine.calls())
        self.stock_serve("purge")
        after = self.machine.files()
        left = {p for p in after.keys() - before.keys()
                if re.search("postcopy|stubcore|fsal-?stub|vfs_stub|/stub", p)} - SETTINGS
        gone = [p for p in before.keys() - after.keys() if not p.startswith(("run/", "var/"))]
        for path in sorted(left) + gone:
            print("purge: left or gone:", path, file=sys.stderr)
        self.result["purged_clean"] = not left and not gone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--previous", required=True)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--size", default="small")
    parser.add_argument("--half", type=int, default=200)
    parser.add_argument("--json", required=True)
    args = parser.parse_args()
    os.umask(0o022)
    test = Test(args)
    try:
        test.play()
    except Trouble as err:
        print("packaging/test: %s" % err, file=sys.stderr)
        test.result["trouble"] = str(err)
    Path(args.json).write_text(json.dumps(test.result) + "\n")
    return 1 if "trouble" in test.result else 0


if __name__ == "__main__":
    sys.exit(main())
