# SPDX-License-Identifier: GPL-3.0-or-later
"""What the model takes for possible, where servers may do a thing in two steps, and no more."""
import types

import pytest

from model_client import Reply
from model_mixed import undone
from model_run import Run
from model_world import REG, Disagree, between, outcomes
from nfsclient import errors

OWNED = {"uid": 0, "gid": 0, "mtime": 10 ** 18}
TREE = [dict(OWNED, type="dir", path="d", mode=0o755)] + [
    dict(OWNED, type="file", path="d/" + name, mode=0o644, size=10) for name in ("f", "g")] + [
    {"type": "link", "path": "d/h", "of": "d/g"}]


class Told(Run):
    """No server: the replies are given."""
    RIG = staticmethod(lambda *_: None)

    def decide(self):
        pass

    def worlds_after(self, *done):
        """What names d may have once these, all at one time, were answered so."""
        ops = []
        for number, (kind, name, status, delays) in enumerate(done):
            op = {"op": kind, "id": number, "c": "v4.1", "path": "d/" + name, "dir": "d",
                  "name": name, "mode": 0o600, "how": "unchecked"}
            if kind == "guarded":
                op.update(op="create", how=kind)
            elif kind == "truncate":
                op.update(op="create", size=0)
            elif kind == "symlink":
                op["target"] = "t"
            elif kind == "rename":
                op.update(path2="d/moved", dir2="d", name2="moved")
            elif kind == "allocate":
                op = {"op": kind, "id": number, "c": "v4.2", "obj": self.world.find("d/" + name),
                      "offset": 0, "length": 1}
            ops.append((op, Reply(status, delays=delays, began=1, ended=2)))
        self.name_new([op for op, _reply in ops])
        self.many(ops)
        return {tuple(sorted(w[w.find("d")].entries)) for w in self.worlds}


@pytest.fixture
def told():
    return Told(None, {"tree": TREE, "options": {}})


OK, NOENT, STALE, EXIST = errors.OK, errors.NOENT, errors.STALE, errors.EXIST
WITHOUT, WITH = ("f", "g", "h"), ("f", "g", "h", "n")


@pytest.mark.parametrize("how", ("create", "guarded"))
def test_create_and_remove(told, how):
    assert told.worlds_after((how, "n", OK, 0), ("remove", "n", OK, 0)) == {WITHOUT}


@pytest.mark.parametrize("how", ("create", "guarded"))
def test_create_that_was_delayed(told, how):
    """What it made before it was to come again was removed: it makes another one."""
    assert told.worlds_after((how, "n", OK, 1), ("remove", "n", OK, 0)) == {WITHOUT, WITH}


def test_create_that_was_delayed_is_one_create(told):
    assert told.worlds_after(("create", "n", OK, 3), ("remove", "n", NOENT, 0)) == {WITH}


def test_create_found_its_object_gone(told):
    assert told.worlds_after(("create", "n", STALE, 0), ("remove", "n", OK, 0)) == {WITHOUT}


@pytest.mark.parametrize("status", (NOENT, STALE))
@pytest.mark.parametrize("how", ("create", "symlink"))
def test_what_was_made_has_gone_or_moved(told, how, status):
    """Before its attributes were asked for."""
    assert told.worlds_after((how, "n", status, 0), ("remove", "n", OK, 0)) == {WITHOUT}
    told.__init__(None, {"tree": TREE, "options": {}})
    assert told.worlds_after((how, "n", status, 0), ("rename", "n", OK, 0)) == {
        ("f", "g", "h", "moved")}


@pytest.mark.parametrize("replies", [
    [("symlink", "n", NOENT, 0)], [("symlink", "n", NOENT, 0), ("remove", "n", NOENT, 0)],
    [("create", "n", NOENT, 0), ("rename", "n", NOENT, 0)],
    # what an attempt made is there: that would be its answer
    [("guarded", "n", EXIST, 1)], [("guarded", "n", EXIST, 1), ("remove", "n", OK, 0)],
    # nobody made what was removed, or not often enough
    [("remove", "n", OK, 0)],
    [("create", "n", OK, 0), ("remove", "n", OK, 0), ("remove", "n", OK, 0)],
    # ALLOCATE: its file has all its names
    [("allocate", "g", errors.BAD_STATEID, 0), ("remove", "f", OK, 0)]])
def test_not_possible(told, replies):
    with pytest.raises(Disagree):
        told.worlds_after(*replies)


def test_truncated_by_an_attempt(told):
    """g lost this name while it was truncated for a CREATE, which makes another one then."""
    told.worlds_after(("truncate", "g", OK, 1), ("remove", "g", OK, 0))
    assert {(w[w.find("d/h")].size, "g" in w[w.find("d")].entries) for w in told.worlds} == {
        (0, False), (0, True), (10, True)}


def test_state_of_a_file_that_loses_a_name(told):
    assert told.worlds_after(("allocate", "g", errors.BAD_STATEID, 0),
                             ("remove", "g", OK, 0)) == {("f", "h")}


def reads_beside_removal(told, data, size=0):
    """READ of d/f's second half, under way while f was removed and then truncated."""
    obj, d = told.world.find("d/f"), told.world.find("d")
    told.many([
        ({"op": "read", "id": 0, "c": "v4.1", "obj": obj, "offset": 5, "length": 5},
         Reply(OK, data=data, began=1, ended=9)),
        ({"op": "remove", "id": 1, "c": "v3", "dir": d, "name": "f"}, Reply(OK, began=2, ended=3)),
        ({"op": "setattr", "id": 2, "c": "v4.1", "obj": obj, "size": size},
         Reply(OK, began=4, ended=5))])
    assert [w[obj].nlink for w in told.worlds] == [0]


def test_truncated_after_its_last_name_went(told):
    """The READ keeps it open, so SETATTR finds it, and READ what that has left."""
    whole = outcomes(told.world, {"op": "read", "obj": told.world.find("d/f"), "offset": 5,
                                  "length": 5})[0][1].data
    assert len(whole) == 5
    for data, size in (whole, 0), (b"", 0), (whole[:2], 7):
        reads_beside_removal(told, data, size)
        told.__init__(None, {"tree": TREE, "options": {}})


@pytest.mark.parametrize("data", [b"zzzzz", b"zz"])
def test_truncated_to_what_nobody_wrote(told, data):
    with pytest.raises(Disagree):
        reads_beside_removal(told, data, len(data) + 5)


def found(told, nlink, *names):
    """LOOKUP of d/g, beside removals of these, brings an object of so many names."""
    d = told.world.find("d")
    states = [told.world]
    for name in names:
        states.append(outcomes(states[-1], {"op": "remove", "id": 1, "c": "v3", "path": "d/" + name,
                                            "dir": d, "name": name})[0][0])
    shown = types.SimpleNamespace(type=REG, mode=0o644, uid=0, gid=0, size=10, nlink=nlink)
    between(states, {"op": "lookup", "c": "v4.1", "path": "d/g", "dir": d, "name": "g"},
            Reply(OK, attrs=shown))


@pytest.mark.parametrize("names", [("g",), ("h",), ("g", "h")])
def test_found_before_a_name_went(told, names):
    """Its attributes are asked for after its name, which it may have lost by then."""
    for nlink in range(2 - len(names), 3):
        found(told, nlink, *names)
    for nlink in {0, 1, 3} - set(range(2 - len(names), 3)):
        with pytest.raises(Disagree):
            found(told, nlink, *names)


def test_found_after_a_name_went_only(told):
    with pytest.raises(Disagree):
        found(told, 1)


@pytest.mark.parametrize("other, hidden", [("write", {True, False}), ("setattr", {True, False}),
                                           ("read", {True})])
def test_hidden_beside_a_write(told, other, hidden):
    """smbd stores all of a file's attributes with each change of one of them."""
    number = told.world.find("d/f")
    ops = [{"op": "setattr", "id": 0, "c": "smb", "obj": number, "hidden": True},
           {"op": other, "id": 1, "c": "smb", "obj": number, "offset": 0, "length": 1}]
    assert {w[number].hidden for w, _want in outcomes(told.world, undone(ops[0], ops))} == hidden
    assert undone(ops[1], ops) == ops[1]
