# SPDX-License-Identifier: GPL-3.0-or-later
"""Histories by clients of both protocols: Ganesha and smbd serve the volume at once.

smbd caches nothing.  Ganesha does, and is told (docs/decisions/0012): what an SMB client
has changed, NFS must show within BOUND, and is looked at until then before NFS clients
go on.  Half of the histories let Ganesha cache attributes for a minute, so that only
what it is told can have done it.  When everything is migrated nobody tells any more; then
Ganesha goes on without a cache.

Faults are those of the others, and kill -9 of a client's smbd while it works, and of
the process that takes connections.  SMB writes are answered without a FLUSH, and are
there after the death of any one process.
"""
import os
import pathlib
import signal
import time

from lib.ganesha import NO_LISTINGS
from lib.programs import BUILD
from lib.smbd import STACK, STOCK, Samba, Share
from lib.wait import wait_until
from model_client import LOOKS
from model_plan import Writer
from model_rig import Rig
from model_run import Run
from model_smb import MACHINES, Machines
from model_world import SLACK, Disagree, Token
from nfsclient import errors
from nfsclient.nfstypes import DIR, LNK, REG

# s.  0012 says milliseconds, 0.2 s for what was just being read; the rest is for machines
# that have other work.  Untold it would be a minute.
BOUND = 20.0
TELLING = 0.3                  # s, after which it is asked whether anybody tells at all
UNCACHED = "Attr_Expiration_Time = 0;"
SHARE_OF_SMB = 0.5
# (operation, how often alone, how often together with others)
KINDS = (("read", 16, 24), ("write", 18, 26), ("size", 8, 10), ("deallocate", 6, 8),
         ("create", 8, 0), ("remove", 5, 0), ("rename", 9, 0), ("link", 4, 0), ("mkdir", 3, 0),
         ("rmdir", 2, 0), ("attrs", 6, 2), ("readdir", 6, 0), ("getattr", 6, 4),
         ("lookup", 4, 0), ("commit", 2, 3))
CONF = """\
kernel oplocks = no
oplocks = no
level2 oplocks = no
smb2 leases = no
"""


class MixedWriter(Writer):
    CACHING = 0.5

    def write(self):
        history = super().write()
        history["options"]["smb"] = True
        return history

    def operation(self, column):
        if self.rng.random() > SHARE_OF_SMB:
            return super().operation(column)
        kind = self.rng.choices([k[0] for k in KINDS], [k[column] for k in KINDS])[0]
        self.number += 1
        self.left -= 1
        op = {"op": kind, "id": self.number, "c": "smb"}
        getattr(self, "_" + kind)(op)
        op["c"] = "smb"
        if kind == "attrs":
            self.smb_attrs(op)
        elif kind == "create" and op["how"] == "unchecked" and self.rng.random() < 0.5:
            op["size"] = 0
        elif kind == "write":
            op["length"] = min(op["length"], 65536)        # more is more than one request
        elif kind == "rename":
            op["replace"] = self.pick(True, True, False)
        elif kind in ("remove", "rmdir"):
            op["on_close"] = self.pick(True, False)
        self.imagine(op)
        return op

    def smb_attrs(self, op):
        for key in ("mode", "uid", "gid", "mtime"):
            op.pop(key, None)
        if self.rng.random() < 0.5:
            op["hidden"] = self.pick(True, False, False)
        else:
            op["mtime"] = 1500000000 * 10 ** 9 + self.number * 1000

    def given(self, path, kind, **more):
        op = super().given(path, kind, **more)
        if self.rng.random() < SHARE_OF_SMB:
            op["c"] = "smb"
        return op

    def together(self):
        super().together()
        if self.rng.random() < 0.04 and any(op.get("c") == "smb" for op in self.steps[-1]):
            self.steps[-1].append({"op": "kill-smb", "after": self.rng.randrange(6)})

    def trouble(self):
        if self.rng.random() < 0.3:
            self.steps.append([{"op": self.pick("kill-smb", "kill-smb", "kill-listener")}])
        else:
            super().trouble()


class MixedRig(Rig):
    def __init__(self, disk, objects, options, stock=False):
        super().__init__(disk, objects, options, stock)
        if getattr(disk, "samba", None) is None:        # users are made once
            disk.samba = Samba(disk.home / "smbd", tree="/nonexistent", conf=CONF,
                               module_dir=None if stock else BUILD / "vfs_stub")
        self.samba = disk.samba
        self.samba.shares = [Share(str(self.volume), vfs=STOCK if stock else STACK)]
        self.machines = None
        if stock:                          # which nobody tells of anything
            self.without_cache()

    def without_cache(self):
        """Nobody tells Ganesha.  With attributes uncached alone 6 keeps its listings.  True: it
        is to be started anew."""
        server = self.m.server
        if (server.exports[0].more, server.conf) == (UNCACHED, NO_LISTINGS):
            return False
        server.exports[0].more, server.conf = UNCACHED, NO_LISTINGS
        return True

    def start(self):
        super().start()
        self.samba.start()
        return self

    def _kill_smb(self, _op):
        """The process of a client that has a connection."""
        for client in filter(None, self.machines.clients):
            try:
                self.samba.kill_client(client)
                self.recoveries += 1
                return
            except (StopIteration, AssertionError, OSError):
                continue                   # that one has gone already

    def _kill_listener(self, _op):
        """Connections go on; then it comes back, and they are made anew."""
        old, process = self.samba.processes(), self.samba.process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.machines.close()
        wait_until(lambda: not any(alive(pid) for pid in old), 30, "end of an smbd's children")
        self.samba.start()
        self.recoveries += 1

    def disturb(self, op):
        if self.stock and op["op"] in ("kill-smb", "kill-listener"):
            getattr(self, "_" + op["op"].replace("-", "_"))(op)
        else:
            super().disturb(op)

    def stop(self, good=True):
        try:
            if good:
                self.samba.stop()
        finally:
            self.samba.kill9()
            super().stop(good)


def alive(pid):
    try:
        fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


def undone(op, ops):
    """May this have been undone by one of those at the same time?  smbd has a file's attributes
    in one piece, reads it, and stores it with its own change: a write, which sets ARCHIVE,
    stores what was HIDDEN before (stock smbd, two connections: 7 of 1500)."""
    if "hidden" in op and any(other["c"] == "smb" and other["op"] in ("write", "setattr") and
                              other is not op and other.get("obj") == op["obj"]
                              for other in ops):
        return dict(op, undone=True)
    return op


class MixedRun(Run):
    RIG = MixedRig

    def __init__(self, disk, history, stock=False):
        super().__init__(disk, history, stock)
        self.changed = {}              # id -> names in it: what SMB changed, NFS has not shown
        self.changed_at = 0
        self.listed = set()            # directories that NFS clients have read
        self.named = set()             # what they have named: Ganesha may know it, though the client does not
        self.smb_operations = 0
        self.slowest = 0.0             # s from a change to NFS showing it

    def connect(self):
        super().connect()
        if self.rig.machines is None:
            self.rig.machines = Machines(self.rig.samba, self.path_of)
        self.clients["smb"] = self.rig.machines

    def path_of(self, op):
        if "at" in op:
            return op["at"]
        number = op["obj"] if "obj" in op else op["dir"]
        path = next(p for p, n in self.world.paths() if n == number)
        return path if "obj" in op else "%s/%s" % (path, op["name"]) if path else op["name"]

    # -- one step --------------------------------------------------------------

    def step(self, step):
        if any(op.get("c", "smb") != "smb" for op in step):
            self.settle()
        super().step(step)

    def learn(self, op, path, key):
        if op["c"] != "smb":           # of what it has no handle of yet, Ganesha may have one
            return self.soon(lambda: super(MixedRun, self).learn(op, path, key))
        return self.world.find(path) if key == "path" else 0

    def prepare(self, op):
        bound = super().prepare(op)
        if bound is None or op["c"] != "smb":
            return bound
        w = self.world
        if "obj" in bound:
            kind = w[bound["obj"]].type
            fits = kind == (DIR if op["op"] == "readdir" else REG) or \
                (kind == DIR and op["op"] in ("getattr", "setattr") and "size" not in op)
        else:                              # no symlink by this name, none in what is removed
            number = w[bound["dir"]].entries.get(bound["name"])
            fits = number is None or (w[number].type != LNK and not any(
                w[n].type == LNK for n in (w[number].entries or {}).values()))
        for where, name in (("dir2", "name2"), ("dir", "name")):
            if where in bound and fits:
                number = w[bound[where]].entries.get(bound[name])
                fits = number is None or w[number].type != LNK
        if not fits:
            return None
        bound["at"] = op["path"]
        return bound

    def together(self, ops, troubles):
        many = len(ops) + len(troubles) > 1
        machine = 0
        for op in ops if many else ():
            if op["c"] == "smb":
                reply = self.rig.machines.prepare(op, machine % MACHINES)
                machine += 1
                if reply.status != errors.OK:
                    raise Disagree("%s: open: %s" % (op, reply.status_name), "open before")
        super().together(ops, troubles)

    def after(self, troubles):
        super().after(troubles)
        if any(t["op"] == "kill-smb" for t in troubles):
            self.rig.machines.revive()

    def is_there(self, op):
        """What was lost over SMB is done again where the file is now, if anywhere."""
        if op["c"] != "smb":
            return True
        number = self.world[op["obj"]].fileid
        for top, _dirs, files in os.walk(self.rig.volume):
            for name in files:
                try:
                    if os.lstat(os.path.join(top, name)).st_ino == number:
                        op["at"] = os.path.relpath(os.path.join(top, name), self.rig.volume)
                        return True
                except FileNotFoundError:
                    pass
        return False

    def touches_late(self, done):
        """smbd sets the time once more when a file is closed that was written to."""
        return [op for op, _reply in done if op["c"] == "smb" and op["op"] not in LOOKS]

    def note(self, op, reply):
        super().note(op, reply)
        if op["c"] != "smb":
            if op["op"] == "readdir":
                self.listed.add(op["obj"])
            for where, name in (("dir", "name"), ("dir2", "name2")):
                up = self.world.inodes.get(op.get(where))
                if up is not None and up.entries:
                    self.named.add(up.entries.get(op[name]))
            return
        self.shown = reply.attrs
        self.smb_operations += not str(op["id"]).startswith("look")
        if op["op"] in LOOKS:
            return
        self.changed_at = time.monotonic()
        for where, name in (("dir", "name"), ("dir2", "name2")):
            if where in op:
                self.changed.setdefault(op[where], set()).add(op[name])
                number = self.world[op[where]].entries.get(op[name])
                if number is not None:
                    self.changed.setdefault(number, set())
        if "obj" in op:
            self.changed.setdefault(op["obj"], set())

    def many(self, done):
        super().many([(undone(op, [other for other, _reply in done]), reply)
                      for op, reply in done])

    def settle(self):
        """NFS shows what SMB has changed, within the bound."""
        changed, self.changed = self.changed, {}
        for number in changed:
            self.learn_time(number)
        for number, names in changed.items():
            inode = self.world.inodes.get(number)
            # By its old handle a removed file goes on while anybody has it open, the
            # retriever too: what has to go is the name.
            if inode is None or not inode.nlink:
                continue
            if inode.handles == (None, None):
                self.settle_named(number)
                continue
            c = "v3" if inode.handles[0] is not None else "v4.1"
            self.soon_seen({"op": "getattr", "obj": number, "c": c})
            for name in sorted(names):
                self.soon_seen({"op": "lookup", "dir": number, "name": name, "c": c})
            if number in self.listed:
                self.soon_seen({"op": "readdir", "obj": number, "attrs": False, "c": c})

    def settle_named(self, number):
        """What no NFS client has a handle of may be in Ganesha's cache all the same."""
        for up, inode in list(self.world.inodes.items()):
            if inode.type != DIR or inode.handles == (None, None) or not inode.nlink:
                continue
            for name in sorted(n for n, one in inode.entries.items() if one == number):
                if number in self.named or up in self.listed:
                    self.soon_seen({"op": "lookup", "dir": up, "name": name,
                                    "c": "v3" if inode.handles[0] is not None else "v4.1"})
                    return

    def decide(self):
        """Not by what Ganesha may still have from before."""
        self.settle()
        super().decide()

    def learn_time(self, number):
        """The time that a change has set, from where nothing is cached: what Ganesha has
        from just before is near enough to be taken for it."""
        inode = self.world.inodes.get(number)
        if inode is None or not inode.nlink or inode.type not in (DIR, REG):
            return
        self.look({"op": "getattr", "obj": number, "c": "smb"})
        mtime, name = self.shown.mtime, "seen %s %d" % (number, self.looks)
        self.windows[name] = (mtime + SLACK, mtime + 99 - SLACK)
        self.worlds = [w.having((number, w[number].but(mtime=Token(name))))
                       if isinstance(w[number].mtime, Token) else w for w in self.worlds]

    def soon(self, call):
        """What NFS shows, as soon as it shows what SMB did."""
        late = False
        while True:
            try:
                shown = call()
                break
            except Disagree as err:
                late = True
                if time.monotonic() > self.changed_at + TELLING and self.nobody_tells():
                    continue
                if time.monotonic() > self.changed_at + BOUND:
                    raise Disagree("after %g s NFS does not show what SMB did: %s" % (
                        BOUND, err), "too late") from err
            time.sleep(0.001)
        if late:
            self.slowest = max(self.slowest, time.monotonic() - self.changed_at)
        return shown

    def soon_seen(self, op):
        self.soon(lambda: self.look(dict(op)))

    def nobody_tells(self):
        """With everything migrated nobody does, and Ganesha's cache is as stale as it always
        is (0012): go on without one."""
        if self.rig.stock or not self.rig.passes() or not self.rig.without_cache():
            return False
        self.trouble({"op": "kill-server"})
        self.changed_at = time.monotonic()
        return True

    def monotone(self, number, attrs):
        if not hasattr(attrs, "seen_by"):          # Samba's change time is mtime
            super().monotone(number, attrs)

    # -- the end ----------------------------------------------------------------

    def compare(self):
        super().compare()
        for path, number in list(self.world.paths()):
            self.at = "the end, over SMB: %s" % (path or "the root")
            kind, looks = self.world[number].type, [{"op": "getattr"}]
            if kind == DIR:
                looks.append({"op": "readdir"})
            elif kind == REG:
                looks.append({"op": "read", "offset": 0, "length": 1 << 20})
            for op in looks if kind in (DIR, REG) else ():
                self.look(dict(op, obj=number, c="smb", at=path))

