#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator does with the packages, on a machine of one Debian release that its own
systemd has booted; started by packaging/test, in namespaces of its own: nobody else's processes.

Two stock servers, NFS and SMB, are installed and have to go on at the end. Between: install older
packages, migrate from an old server each, upgrade, downgrade and remove half-way under connected
clients (halfway.py), compare every object, finish, remove, purge. Prints a line of JSON.
"""
import argparse
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import traceback
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
from halfway import OURS, SERVERS, HalfWay, say  # noqa: E402
from machine import SLOW, Machine, Trouble, make_xfs, wait_for  # noqa: E402
from nfsclient import connect  # noqa: E402
from smb2client import Client  # noqa: E402

DISK_SIZE = 4 << 30
DISKS = ("nfs", "smb")
RQUOTA_PORT = 875       # which Ganesha wants unless it is told otherwise
SETTINGS = {"etc/postcopy", "etc/postcopy/postcopy.conf", "etc/postcopy/login"}
SMB_CONF = OWN_CONF + """\
netbios name = FILER
workgroup = WORKGROUP
unix extensions = no
map to guest = never
"""


class Test(HalfWay):
    NETWORK = {}            # what Machine is told of it

    def __init__(self, args):
        self.args, self.work = args, Path(args.work)
        self.machine = Machine(args.root, self.work / "machine", DISKS, **self.NETWORK)
        self.nfstree = build_nfstree(self.work / "tools")
        self.shim = build_rpcshim(self.work / "tools")
        self.result = {"objects": 0, "differences": 0, "upgrade_ok": False,
                       "purged_clean": False}
        self.volumes = {}       # protocol: the answer of init
        self.old = {}           # protocol: where the old server has its tree
        self.came = {"nfs": [], "smb": []}      # what clients have read

    def play(self):
        with self.machine.new_disks(DISK_SIZE), self.machine.boot().network(), \
                self.journal_kept():
            self.address()
            before = self.machine.files()
            self.old_nfs()
            self.old_smb()
            self.first_install(before)
            self.prepare()
            self.begin()
            self.half_way()
            self.crawl()
            self.compare()
            self.finish()
            self.remove_and_purge(before)

    @staticmethod
    def address():
        """With loopback addresses alone, names are not looked up (AI_ADDRCONFIG)."""
        subprocess.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"], check=True)

    @contextlib.contextmanager
    def journal_kept(self):
        """Of the machine, which is gone afterwards."""
        try:
            yield
        except BaseException:
            with open(self.work / "journal.log", "a") as f:
                f.write(self.machine.journal("-o", "short-precise"))
            raise

    # -- old servers: stock ones of this machine ------------------------------

    def file_system(self, name):
        """A new XFS, mounted in the namespace that packaging/test has made."""
        image, path = self.work / (name + ".image"), self.work / name
        make_xfs(image, DISK_SIZE)
        path.mkdir()
        subprocess.run(["mount", "-o", "loop,noatime", image, path], check=True)
        (path / "data").mkdir(mode=0o755)
        return path / "data"

    def old_nfs(self):
        tree = self.old["nfs"] = self.file_system("old-nfs")
        oldtree.build(tree, self.args.size, say)
        self.nfs = Ganesha(self.work / "nfs", tree, shim=self.shim, readonly=True, name="nfs")
        self.nfs.start()

    def old_smb(self):
        tree = self.old["smb"] = self.file_system("old-smb")
        self.smb = Samba(self.work / "smb", shares=[Share(str(tree), more=smbtree.RAW_NAMES)])
        self.smb.start()
        with self.smb.client() as client:
            smb_oldtree.build(tree, client, self.args.size, say)
        self.smb.shares[0].readonly = True
        self.smb.restart()

    # -- the new one ----------------------------------------------------------

    def first_install(self, before):
        say("apt install of older packages")
        self.machine.install(self.args.older)
        self.has_not_begun("installing")
        new = set(self.machine.files()) - set(before)
        wrong = [p for p in new if p.startswith("etc/systemd/") or "/rc" in p]
        if wrong:
            raise Trouble("installing has enabled %s" % ", ".join(wrong))
        for program in ("postcopy", "postcopy-retriever", "postcopy-crawler", "postcopy-mirror",
                        "postcopy-volume"):
            self.machine.say(program, "--help")

    def has_not_begun(self, what):
        done = self.machine.systemctl("list-units", "--plain", "--no-legend",
                                      "--state=active,activating,failed", "postcopy-*", *SERVERS)
        if done.strip():
            raise Trouble("%s has started something: %s" % (what, done))

    def prepare(self):
        machine, etc = self.machine, self.machine.root / "etc"
        for protocol in ("nfs", "smb"):
            (machine.root / "srv" / protocol / "data").mkdir(mode=0o755)
        (etc / "postcopy").mkdir(exist_ok=True)
        login = etc / "postcopy/login"
        login.write_text("username = root\npassword = %s\n" % PASSWORD)
        login.chmod(0o600)
        (etc / "postcopy/postcopy.conf").write_text(
            'finish_delay = 2\nsmb_credentials = "/etc/postcopy/login"\n')
        sources = {"nfs": self.nfs.url().replace("&version=3", ""), "smb": self.smb.url()}
        for protocol, source in sources.items():
            say("postcopy init --source %s" % source)
            answer = json.loads(machine.say(
                "postcopy", "init", "--json", "--source", source,
                "/srv/%s/data" % protocol, check=False).stdout or "{}")
            if not answer.get("ok"):
                raise Trouble("postcopy init: %s" % answer.get("message", answer))
            self.volumes[protocol] = answer
        self.ganesha_conf()
        self.accounts()
        self.samba_users()
        share = self.volumes["smb"]["share_block"]
        (etc / "samba/smb.conf").write_text(SMB_CONF + share + smbtree.RAW_NAMES + "\n")

    def ganesha_conf(self):
        with open(self.machine.root / "etc/ganesha/ganesha.conf", "a") as f:
            # the comparer is root, and looks into what is nobody else's
            f.write(self.volumes["nfs"]["export_block"].replace(
                "Squash = Root_Squash", "Squash = No_Root_Squash"))
            f.write(self.global_block())

    def global_block(self):
        """Ganesha 6 wants a capability that a machine of the tests may lack."""
        block = self.volumes["nfs"]["global_block"]
        if not self.machine.version("nfs-ganesha").startswith("4."):
            block = block.replace("NFS_CORE_PARAM {\n", "NFS_CORE_PARAM {\n"
                                  "    allow_set_io_flusher_fail = true;\n")
        return block

    def accounts(self):
        etc = self.machine.root / "etc"
        with open(etc / "passwd", "a") as f:
            f.writelines("%s:x:%d:%d::/nonexistent:/bin/false\n" % (user, uid, gid)
                         for user, (uid, gid, _) in USERS.items() if uid)
        with open(etc / "group", "a") as f:
            f.writelines("%s:x:%d:%s\n" % (group, gid, ",".join(members))
                         for group, (gid, members) in GROUPS.items())

    def samba_users(self):
        machine = self.machine
        (machine.root / "etc/samba/smb.conf").write_text(SMB_CONF)
        machine.say("net", "setlocalsid", SID)
        for user, (_, _, rid) in USERS.items():
            machine.say("pdbedit", "-a", "-t", "-u", user, "-U", str(rid),
                        text="%s\n%s\n" % (PASSWORD, PASSWORD))
        machine.say("net", "sam", "rights", "grant", "root", *PRIVILEGES)

    def begin(self):
        say("starting the units")
        # as init prints it; what the servers' packages enable, a machine of the tests does not
        self.enable_retrievers()
        with socket.socket() as taken:      # as one of a retriever's connections may have it
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", RQUOTA_PORT))
            self.machine.start(*SERVERS)
            self.connect()
        self.same_sid()

    def same_sid(self):
        """Without it root has no privileges, and descriptors name nobody."""
        if SID not in self.machine.say("net", "getlocalsid").stdout:
            raise Trouble("Samba has lost its SID %s, and the accounts with it" % SID)

    def enable_retrievers(self):
        for answer in self.volumes.values():
            self.machine.systemctl("enable", "--now", answer["units"][0])
        for protocol in self.volumes:
            wait_for("retriever", lambda p=protocol: self.status(p).get("source_connected"))

    def connect(self):
        """Anew, as the clients of a server that was started."""
        for name, new in (("nfs_client", self.new_nfs), ("smb_client", self.new_smb)):
            if getattr(self, name, None):
                with contextlib.suppress(Exception):     # of a server that was ended
                    getattr(self, name).close()
            setattr(self, name, self.retry(new))

    @staticmethod
    def retry(connecting):
        """The server is up when it answers."""
        end = time.monotonic() + SLOW
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
        done = self.machine.say("postcopy", "status", "--json", "/srv/%s/data" % protocol,
                                check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def crawl(self):
        say("crawling")
        for protocol in self.volumes:
            self.machine.say("postcopy", "throttle", "/srv/%s/data" % protocol, "0")
            self.machine.say("postcopy", "resume", "/srv/%s/data" % protocol)
        for protocol, answer in self.volumes.items():
            wait_for("counter 0", lambda p=protocol: self.status(p).get("state") == "complete" or
                     self.status(p).get("counter") == 0, 1800)
            if self.status(protocol).get("parked"):
                raise Trouble("objects are parked: %s" % self.status(protocol))

    # -- the end --------------------------------------------------------------

    def compare(self):
        say("comparing")
        self.same_sid()
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
            self.machine.say("postcopy", "finish", "/srv/%s/data" % protocol)
            for unit in answer["units"]:
                wait_for("end of %s" % unit, lambda u=unit: not self.machine.is_active(u))
                if self.machine.show(unit, "Result") != "success":
                    raise Trouble("%s ends with %s" % (unit, self.machine.show(unit, "Result")))

    def stock_serve(self, what):
        """The servers without our plugins, anew: they have all data."""
        self.machine.systemctl("stop", *SERVERS)
        self.machine.start(*SERVERS)
        self.connect()
        names = len(self.nfs_client.listdir()), len(self.smb_client.names())
        if not all(names):
            raise Trouble("after %s the stock servers show %s names" % (what, names))
        for server in ("nfs-ganesha", "samba"):
            if not self.machine.version(server):
                raise Trouble("after %s %s is gone" % (what, server))

    def take_plugins_out(self):
        """Of the servers' configuration."""
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

    def remove_and_purge(self, before):
        self.take_plugins_out()
        say("apt remove")
        servers = self.servers()
        self.machine.apt("remove", *OURS)
        if self.servers() != servers:
            raise Trouble("removing the packages has touched a server")
        self.stock_serve("remove")
        say("apt purge")
        self.machine.apt("purge", "postcopy")
        self.machine.say("dpkg", "--purge", *OURS)      # what has left nothing is no name to apt
        self.stock_serve("purge")
        after = self.machine.files()
        left = {p for p in after.keys() - before.keys()
                if re.search("postcopy|stubcore|fsal-?stub|vfs_stub|/stub", p)} - SETTINGS
        gone = [p for p in before.keys() - after.keys() if not p.startswith(("run/", "var/"))]
        for path in sorted(left) + gone:
            print("purge: left or gone:", path, file=sys.stderr)
        self.result["purged_clean"] = not left and not gone


def arguments():
    """Those that every test of packages has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--size", default="small")
    parser.add_argument("--half", type=int, default=50,
                        help="files that clients fetch over each protocol")
    parser.add_argument("--json", required=True)
    return parser


def run(kind, args):
    """Plays a test of @kind; the exit status."""
    os.umask(0o022)
    Path(args.work).mkdir(parents=True)
    test = kind(args)
    try:
        test.play()
    except Exception as err:            # whatever it is, what was seen is told
        if not isinstance(err, Trouble):
            traceback.print_exc()
        print("packaging/test: %s" % err, file=sys.stderr)
        test.result["trouble"] = str(err)
    Path(args.json).write_text(json.dumps(test.result) + "\n")
    return 1 if "trouble" in test.result else 0


def main():
    parser = arguments()
    parser.add_argument("--older", required=True)
    parser.add_argument("--other-wire", action="store_true", help="the older ones' retriever "
                        "and servers do not understand these'")
    parser.add_argument("--no-way-back", action="store_true", help="the older ones refuse what "
                        "these have changed in a volume")
    return run(Test, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
