# SPDX-License-Identifier: GPL-3.0-or-later
"""Running one history: real clients and the model side by side.

The model is a set of worlds: all states that the volume may be in after what has
been seen.  Mostly that is one.  Operations in flight together may have happened in
any order (but for those that had ended when another began), so each order that fits
the replies leaves a world; looking where two worlds differ decides between them.
No world left: the volume is not what a file system with the source's tree could be.
"""
import contextlib
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from model_client import LOOKS, PATIENCE, REPEATABLE, Handles, perform
from model_plan import bind, first_world
from model_rig import Rig
from model_world import (FOREVER, GONE_NAME, ROOT, Disagree, Raced, Token, agrees, between,
                         difference, outcomes)
from nfsclient import errors
from nfsclient.nfstypes import DIR, LNK, REG

sys.setswitchinterval(0.0005)   # clients and the source share this process
MOST_WORLDS = 800
MANY_WORLDS = 16               # more are looked at, not kept
PROTOCOLS = ("v3", "v4.1")
WHOLE = 1 << 20


class Failed(Exception):
    """The volume disagrees with the model.  kind: as in Disagree."""

    def __init__(self, text, kind=None):
        super().__init__(text)
        self.kind = kind or text.splitlines()[0][:40]


class Run:
    RIG = Rig

    def __init__(self, disk, history, stock=False):
        self.history = history
        self.rig = self.RIG(disk, history["tree"], history["options"], stock)
        self.worlds = [first_world(history["tree"])]
        self.windows = {}              # operation -> (earliest, latest) time it happened
        self.clients = {}
        self.operations = self.looks = self.ghosts = 0
        self.newest = {}               # inode -> latest (ctime, change) that was seen
        self.at = "start"

    @property
    def world(self):
        return self.worlds[0]

    # -- all of it ------------------------------------------------------------

    def go(self):
        """Run the history to its end; Failed tells what is wrong and where."""
        good = False
        try:
            self.rig.start()
            self.connect()
            with ThreadPoolExecutor(8) as self.pool:
                for number, step in enumerate(self.history["steps"]):
                    self.at = "step %d: %s" % (number, step)
                    self.step(step)
                self.at = "the end"
                self.disconnect()
                self.rig.finish()
                self.connect()
                self.compare()
            self.disconnect()
            good = True
        except (Disagree, AssertionError, TimeoutError) as err:
            raise Failed("%s\nat %s" % (err, self.at), getattr(err, "kind", None)) from err
        finally:
            self.disconnect()
            try:
                self.rig.stop(good)
            except AssertionError as err:
                raise Failed("at the end: %s" % err) from err

    def connect(self):
        for proto in PROTOCOLS:
            c = self.rig.m.client(proto, timeout=PATIENCE * 2)
            self.clients[proto] = c.patient(PATIENCE)
        self.clients["v4.2"] = self.rig.m.client("v4.2", timeout=PATIENCE * 2).patient(PATIENCE)
        roots = tuple(self.clients[proto].root for proto in PROTOCOLS)
        known = self.world[ROOT].handles
        if known not in ((None, None), roots):
            raise Disagree("the root's file handle has changed")
        self.worlds = [w.having((ROOT, w[ROOT].but(handles=roots))) for w in self.worlds]

    def disconnect(self):
        for client in self.clients.values():
            with contextlib.suppress(Exception):
                client.close()
        self.clients = {}

    # -- one step ---------------------------------------------------------------

    def step(self, step):
        troubles = [op for op in step if "c" not in op]
        ops = [bound for bound in map(self.prepare, [op for op in step if "c" in op]) if bound]
        ops = [op for op in ops if not self.follows(op, ops)]
        self.name_new(ops)
        self.together(ops, troubles)
        if len(self.worlds) > MANY_WORLDS:
            self.decide()

    def together(self, ops, troubles):
        if len(ops) == 1 and not troubles:
            reply = perform(self.clients[ops[0]["c"]], ops[0], Handles(self.world, ops[0]))
            self.note(ops[0], reply)
            self.alone(ops[0], reply)
            return
        if not ops:
            for trouble in troubles:
                self.trouble(trouble)
            return
        others = [threading.Thread(target=self.in_thread, args=(t,)) for t in troubles]
        self.errors = []
        self.rig.reading.clear()
        for thread in others:
            thread.start()
        waiting = [(op, self.pool.submit(self.one_of_many, op, Handles(self.world, op)))
                   for op in ops]
        done = [(op, future.result()) for op, future in waiting]
        for thread in others:
            thread.join()
        if self.errors:
            raise self.errors[0]
        self.after(troubles)
        self.forget_ghosts(done)
        self.many(done)

    def one_of_many(self, op, handles):
        if "on_read" in op:               # microseconds after the source has answered
            self.rig.reading.wait(0.05)
            time.sleep(op["on_read"] / 10 ** 6)
        return perform(self.clients[op["c"]], op, handles)

    def in_thread(self, op):
        try:
            self.rig.disturb(op)
        except BaseException as err:
            self.errors.append(err)

    def trouble(self, op):
        self.rig.disturb(op)
        self.after([op])

    def after(self, troubles):
        if any(t["op"] == "kill-server" for t in troubles):
            self.after_a_kill()

    def after_a_kill(self):
        """4.1: the session is gone; make a new one before many threads try to."""
        for client in self.clients.values():
            if not hasattr(client, "perform"):
                client.getattr(client.root)

    def prepare(self, op):
        """Ids for paths, handles for ids.  A path the model does not have is looked up,
        and that is all there is to do."""
        for key in ("path", "path2"):
            if key in op and self.learn(op, op[key], key) is None:
                return None
        bound = bind(self.world, op)
        if bound and op["op"] in ON_FILES and self.world[bound["obj"]].type != REG:
            return None
        return bound

    def follows(self, op, ops):
        """Would this CREATE follow a symlink?  FSAL_VFS does; FSAL STUB refuses it, until
        everything is migrated and it passes all operations through."""
        if op["op"] != "create" or op["how"] == "guarded":
            return False
        place = op["dir"], op["name"]
        links = any(place == (other.get("dir2", other.get("dir")),
                              other.get("name2", other.get("name")))
                    for other in ops if other["op"] in ("symlink", "rename", "link"))
        found = [w[w[op["dir"]].entries[op["name"]]] for w in self.worlds
                 if op["name"] in w[op["dir"]].entries]
        return (links or any(inode.type == LNK for inode in found)) and self.rig.passes()

    @staticmethod
    def name_new(ops):
        """What is made under one name at one time is one thing, whoever makes it."""
        names = {}
        for op in ops:
            if op["op"] in MAKES:
                op["new"] = names.setdefault((op["dir"], op["name"]), "new%s" % op["id"])

    def forget_ghosts(self, done):
        """Stock Ganesha takes what it has made, or found by a CREATE, into its list of the
        directory after the file system was asked: if another client has removed or replaced
        the name by then, it goes on showing the old file (plain FSAL_VFS: 1 of 3000 CREATEs
        against REMOVEs, docs/reliability.md).  Only a new server forgets that for sure, and
        what counts is the volume."""
        done = [op for op, reply in done if reply.status == errors.OK]
        made = {(op["dir"], op["name"]) for op in done if op["op"] in MAKES}
        taken = {(op["dir"], op["name"]) for op in done if op["op"] in TAKES}
        taken |= {(op["dir2"], op["name2"]) for op in done if op["op"] == "rename"}
        if any(self.is_ghost(*place) for place in made & taken):
            self.ghosts += 1
            self.trouble({"op": "kill-server"})

    def is_ghost(self, number, name):
        path = next((p for p, n in self.world.paths() if n == number), None)
        if path is None or self.world[number].handles[0] is None:
            return False
        found = perform(self.clients["v3"], {"op": "lookup", "name": name}, Handles(
            self.world, {"c": "v3", "dir": number}))
        try:
            real = os.lstat(self.rig.volume / path / name).st_ino
        except OSError:
            real = None
        if found.status == errors.STALE:         # found, and then not there
            return True
        return real != (found.attrs and found.attrs.fileid)

    def learn(self, op, path, key):
        """Look up, component by component, what this client has no handle of yet.
        The last one only if the operation is on the object, not on its name."""
        parts = path.split("/")
        if key == "path2" or op["op"] in BY_NAME:
            parts.pop()
        at, number = 0 if op["c"] == "v3" else 1, ROOT
        for name in parts:
            entries = self.world[number].entries
            if entries is None:
                return None
            below = entries.get(name)
            if below is None or not self.same_handle(below, at):
                self.look({"op": "lookup", "dir": number, "name": name, "c": op["c"]})
                below = self.world[number].entries.get(name)
            if below is None:
                return None
            number = below
        return number

    def same_handle(self, number, at):
        """Is one known, and the same in all worlds?  Where it is not settled what a CREATE has
        made, the handle that it answered is another object's in each."""
        mine = self.world[number].handles[at]
        return mine is not None and all(number in w.inodes and w[number].handles[at] == mine
                                        for w in self.worlds)

    def look(self, op):
        """Do something that changes nothing."""
        self.looks += 1
        op.setdefault("id", "look%d" % self.looks)
        reply = perform(self.clients[op["c"]], op, Handles(self.world, op))
        self.note(op, reply)
        self.alone(op, reply)

    def note(self, op, reply):
        self.operations += op["op"] not in LOOKS or not str(op["id"]).startswith("look")
        self.windows[op["id"]] = (reply.began, reply.ended)

    # -- one operation, nothing else in flight ---------------------------------------

    def alone(self, op, reply):
        if reply.lost:
            raise Disagree("%s: the server did not answer: %s" % (op, self.rig.m.server.tail()))
        left, why = [], None
        for w in self.worlds:
            for after, want in outcomes(w, op):
                try:
                    left.append(agrees(after, want, op, reply, self.windows))
                except Disagree as err:
                    why = err
        self.keep(left, "%s: %s" % (op, why), why)
        shown = outcomes(self.world, op)[0][1].shown if op["op"] in LOOKS else None
        if shown is not None and reply.attrs is not None:
            self.monotone(shown, reply.attrs)

    def monotone(self, number, attrs):
        """ctime never goes back, whoever changes or fills.  Nor does the change attribute,
        which is Ganesha's: the later of ctime and mtime; but from an mtime that a client, or
        smbd with a finer clock than the kernel's, has set into the future it may."""
        before = self.newest.get(number, (0, 0))
        now = (attrs.ctime, attrs.change or before[1])
        if now[0] < before[0] or now[1] < before[1] <= before[0]:
            raise Disagree("ctime or change went back: %s, before %s" % (now, before),
                           "ctime went back")
        self.newest[number] = now

    def keep(self, left, text, why):
        kept = list({w.key(self.world): w for w in left}.values())
        if not kept:
            raise Disagree(text, getattr(why, "kind", None))
        self.worlds = kept
        if len(kept) > MOST_WORLDS:
            raise AssertionError("%d worlds: the model has lost its way" % len(kept))

    # -- several at once ----------------------------------------------------------------

    def many(self, done):
        lost = [op for op, reply in done if reply.lost]
        again = []
        for op, reply in done:
            if reply.lost and op["op"] in REPEATABLE and self.is_there(op):
                once = perform(self.clients[op["c"]], op, Handles(self.world, op))
                if once.lost:
                    raise Disagree("%s: no answer after a restart" % op)
                once.ended, again = time.time_ns(), again + [(op, once)]
                self.windows[op["id"]] = (reply.began, once.ended)
                self.operations += 1
            else:
                self.note(op, reply)
        # what was lost may have been done, or not; what was repeated, once more
        maybe = [(op, reply) for op, reply in done if reply.lost and op["op"] not in LOOKS]
        maybe += [(dict(op, new=op["new"] + "?", attempt=True), reply) for op, reply in done
                  if attempted(op, reply)]
        sure = [(op, reply) for op, reply in done if not reply.lost] + again
        self.stale = [op for op, reply in sure if reply.status == errors.STALE
                      and "obj" in op and op["op"] not in LOOKS and "name" not in op]
        self.reopened = [op for op, reply in sure if reply.status == errors.BAD_STATEID]
        left, self.why = [], None
        late = lost + self.touches_late(done)
        for w in self.worlds:
            if late:
                w = forget_times(w, late)
            self.orders(w, sure, maybe, [w], left)
        if late:
            left = [forget_times(w, late) for w in left]
        self.keep(left, "no order of these fits their replies (%s):\n%s" % (
            self.why, "\n".join("  %s: %s %s" % (op, reply.status_name, brief(reply))
                                for op, reply in done)), self.why)
        self.decide()

    def is_there(self, _op):
        """Can what was lost be asked for again?  A file handle always."""
        return True

    def touches_late(self, _done):
        """Operations that may move times after they have had their place in the order."""
        return []

    def orders(self, w, sure, maybe, states, left):
        """All orders in which these may have happened, one after the other."""
        strong = [item for item in sure if item[0]["op"] not in LOOKS]
        if not strong:
            self.looked(w, [item for item in sure if item[0]["op"] in LOOKS], states, left)
        for item in strong:
            op, reply = item
            if any(other[1].ended < reply.began for other in strong):
                continue                  # that one had ended before
            if not undone(w, op):
                continue
            for after, want in outcomes(w, op):
                try:
                    after = agrees(after, want, op, reply, self.windows, alone=False)
                    shown = [after]
                except Raced:
                    after, shown = w, [w, *beyond_its_names(w, op, reply)]
                except Disagree as err:
                    self.because(op, err)
                    continue
                self.orders(after, [i for i in sure if i is not item], maybe,
                            states + shown, left)
        for item in maybe:
            rest, still = [i for i in maybe if i is not item], sure
            if "attempt" in item[0]:
                still = after_attempt(w, item[0], sure)
                if not still:
                    continue              # it has been answered
            for after, want in outcomes(w, item[0]):
                if errors.OK in want.status:
                    self.orders(after, still, rest, states + [after], left)

    def because(self, op, err):
        self.why = Disagree("%s: %s" % (op, err), err.kind)

    def looked(self, w, looks, states, left):
        try:
            for op in self.stale:
                if w[op["obj"]].nlink:
                    raise Disagree("STALE, but it is there")
            for op in self.reopened:
                links = [world[op["obj"]].nlink for world in states]
                if not any(later < link for link, later in zip(links, links[1:])):
                    raise Disagree("BAD_STATEID, but it has lost no name")
            for op, reply in looks:
                between(states, op, reply)
        except Disagree as err:
            self.because(op, err)
            return
        left.append(w)

    def decide(self):
        """Look where worlds differ, until they do not."""
        for _ in range(100):
            op = next((found for other in self.worlds[1:]
                       for found in [difference(self.world, other)] if found), None)
            if op is None:
                return
            number = op.get("obj", op.get("dir"))
            path = next(p for p, n in self.world.paths() if n == number)
            op["c"] = "v3"
            self.learn({"op": "getattr", "c": "v3"}, path, "path")
            self.look(op)
        raise AssertionError("worlds that nothing tells apart")

    # -- the end -------------------------------------------------------------------------

    def compare(self):
        """Everything, byte by byte."""
        for index, (path, number) in enumerate(list(self.world.paths())):
            self.at = "the end: %s" % (path or "the root")
            c = PROTOCOLS[index % 2]
            self.learn({"op": "getattr", "c": c}, path, "path") if path else None
            inode = self.world[number]
            self.look({"op": "getattr", "obj": number, "c": c})
            if inode.type == DIR:
                self.look({"op": "readdir", "obj": number, "c": c, "attrs": True})
            elif inode.type == LNK:
                self.look({"op": "readlink", "obj": number, "c": c})
            elif inode.type == REG:
                self.look({"op": "read", "obj": number, "c": c, "offset": 0, "length": WHOLE})


# For files only: stock Ganesha answers with a bad log line for a symlink.
ON_FILES = frozenset(("write", "commit", "deallocate", "allocate", "seek"))
MAKES = frozenset(("create", "mkdir", "symlink"))
TAKES = frozenset(("remove", "rmdir", "rename"))
BY_NAME = frozenset(("lookup", "create", "remove", "rmdir", "mkdir", "symlink", "rename"))


def brief(reply):
    if reply.attrs is not None:
        return "size %d" % reply.attrs.size
    return "" if reply.data is None else "%d bytes" % len(reply.data)


def attempted(op, reply):
    """May this have been done once more than was answered?  Who makes something that another
    client removes or renames at once finds that it has gone when its attributes are asked for:
    stock Ganesha's CREATE is STALE or NOENT then, FSAL STUB's OPEN and NFSv3's CREATE are to be
    tried again, and make another one.  The same if a file was truncated, and has lost its name."""
    return op["op"] in MAKES and not reply.lost and (
        reply.delays > 0 or reply.status in GONE_NAME)


def after_attempt(w, attempt, sure):
    """The operations to come, that of the attempt with what it has made, or found; nothing
    if that has been answered."""
    number = w[attempt["dir"]].entries.get(attempt["name"], attempt["new"])
    if not any(op["id"] == attempt["id"] for op, _reply in sure):
        return []
    return [(dict(op, tried=number), reply) if op["id"] == attempt["id"] else (op, reply)
            for op, reply in sure]


def beyond_its_names(w, op, reply):
    """What another operation sees, which still holds the object that has lost its last name,
    when this one is done to it."""
    number = op.get("obj")
    if number is None or w[number].nlink or reply.status != errors.OK:
        return []
    return [after for after, _want in outcomes(w.having((number, w[number].but(nlink=1))), op)]


def undone(w, op):
    """What an attempt has made or found must have lost the name: else it would have been
    answered."""
    return "tried" not in op or w[op["dir"]].entries.get(op["name"]) != op["tried"]


def forget_times(w, lost):
    """A change that was not answered may have moved times, or not yet."""
    touched = set()
    for op in lost:
        touched |= {op[key] for key in ("obj", "dir", "dir2") if key in op}
        for directory, name in (("dir", "name"), ("dir2", "name2")):
            if directory in op:
                touched.add((w[op[directory]].entries or {}).get(op[name]))
        touched.add(op.get("new", "new%s" % op["id"]))
    return w.having(*((n, w[n].but(mtime=Token("lost%s" % n)))
                      for n in touched if n in w.inodes))


assert FOREVER                     # of windows nobody has noted
