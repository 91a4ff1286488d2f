# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client's request that waits for the old server holds up, and for how long
(vfs_stub.8, docs/conformance-smb.md): reads nothing; names, listings and attributes the
same connection, for stub:wait at most; never anybody else; and nothing of a client that
is gone."""
import struct
import time

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.smbd import STACK, Share
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient.hooks import Gate, only
from smb2client import wire

WORLD = BothWorld
WAIT = 2                # s; what "stub:wait" says
MORE = "stub:wait = %d" % (WAIT * 1000)
ROOM = 15               # s that a busy machine may add; less than stub:wait is by itself
LONG = 60               # s; the share "patient"


@pytest.fixture(scope="module")
def patient(world):
    world.smbd.shares.append(Share(str(world.volume), name="patient", vfs=STACK,
                                   more="stub:wait = %d" % (LONG * 1000)))
    world.smbd.write_config()
    return "patient"


@pytest.fixture
def cold(case, world):
    """A listed directory with an unlisted one, whose LOOKUPs and listings are held."""
    for name in ("d", "e"):
        case.dir(name, mode=0o777)
    for name in ("f", "g", "d/x", "e/y"):
        case.file(name, mode=0o666)
    case.enter("partial", "f")
    case.enter("normal", "g")
    gate = Gate()
    remove = world.fake.hook("LOOKUP READDIRPLUS READDIR", only(
        lambda call: call.node is case.node("d"), gate))
    yield gate
    gate.open()
    remove()


def listed(client, case):
    """With stub:wait it may take more than one attempt."""
    wait_until(lambda: client.names(case.path("d")) == ["x"], 30, "listing")


def ask_cold(client, case, what):
    """Send it without waiting for the answer: (message, how it ends)."""
    if what == "name":
        return client.send_open(case.path("d/x"))
    return client.send_open(case.path("d"), wire.READ_DATA, options=wire.OPT_DIRECTORY)


@pytest.mark.parametrize("what", ["name", "listing"])
def test_other_clients_do_not_wait(case, world, cold, patient, what):
    with world.smbd.client("alice", share=patient) as slow, \
            world.smbd.client(share=patient) as smb:
        asked = ask_cold(slow, case, what)
        wait_until(lambda: cold.waiting, 20, "the source")
        began = time.monotonic()
        same(smb.read_file(case.path("g")), case.data("g"))
        same(smb.read_file(case.path("f")), case.data("f"))
        same(smb.read_file(case.path("e/y")), case.data("e/y"))      # cold too
        smb.write_file(case.path("e/new"), b"new")
        case.made("e/new").data = b"new"
        assert smb.names(case.path()) == ["d", "e", "f", "g"]
        smb.rename(case.path("e/new"), case.path("new"))
        case.moved("e/new", "new")
        assert time.monotonic() - began < LONG / 2
        assert not slow.arrived(asked)
        cold.open()
        slow.finish_open(asked, case.path("d")).close()


def test_a_name_holds_up_its_connection_for_a_bounded_time(case, world, cold):
    """What comes behind it is answered then; what is asked again when the source answers
    is there."""
    with world.smbd.client() as c, c.open(case.path("f")) as f:
        f.info()
        began = time.monotonic()
        asked, echo = ask_cold(c, case, "name"), c.send(wire.ECHO, b"\4\0\0\0")
        assert smb_status(c.finish_open, asked, case.path("d/x")) in ("NETWORK_BUSY",
                                                                      "ACCESS_DENIED")
        c.wait(echo)
        assert WAIT - 0.5 < time.monotonic() - began < WAIT + ROOM
        assert cold.waiting
        cold.open()
        same(f.read(BLOCK, 100), case.data("f")[BLOCK:BLOCK + 100])
        same(wait_until(lambda: c.read_file(case.path("d/x")), 30, "the file"), case.data("d/x"))
        listed(c, case)


def test_a_listing_holds_up_nothing(case, world, cold, patient):
    """Of the same connection, for as long as it takes."""
    with world.smbd.client(share=patient) as c:
        asked = ask_cold(c, case, "listing")
        wait_until(lambda: cold.waiting, 20, "the source")
        began = time.monotonic()
        while time.monotonic() - began < 2:
            c.echo()
            same(c.read_file(case.path("g")), case.data("g"))
            assert c.stat(case.path("f")).size == SIZE
            assert c.stat(case.path("d")).attributes & wire.ATTR_DIRECTORY
            assert c.names(case.path("e")) == ["y"]
        again = ask_cold(c, case, "listing")
        c.echo()
        assert not c.arrived(asked) and not c.arrived(again)
        cold.open()
        for message in (asked, again):
            with c.finish_open(message, case.path("d")) as d:
                assert sorted(e.name for e in d.list()) == [".", "..", "x"]


def test_a_listing_that_does_not_come(case, world, cold):
    """The open ends after stub:wait, the listing says that there is none."""
    with world.smbd.client() as c:
        for _ in range(2):
            began = time.monotonic()
            asked = ask_cold(c, case, "listing")
            c.echo()
            assert not c.arrived(asked) or time.monotonic() - began > WAIT - 0.5
            with c.finish_open(asked, case.path("d")) as d:
                assert WAIT - 0.5 < time.monotonic() - began < WAIT + ROOM
                assert smb_status(d.list) == "NETWORK_BUSY"
                assert time.monotonic() - began < WAIT + ROOM
        cold.open()
        listed(c, case)


def test_a_listing_is_cancelled(case, world, cold, patient):
    with world.smbd.client(share=patient) as c:
        asked = ask_cold(c, case, "listing")
        wait_until(lambda: cold.waiting, 20, "the source")
        c.echo()
        c.cancel(asked)
        assert smb_status(c.finish_open, asked, case.path("d")) == "CANCELLED"
        cold.open()
        c.echo()
        assert c.names(case.path("d")) == ["x"]


def test_a_listing_without_a_retriever(case, world, cold):
    """It is over soon, and comes when there is one."""
    with world.smbd.client() as c:
        world.m.kill_retriever()
        try:
            with c.open(case.path("d"), wire.READ_DATA, options=wire.OPT_DIRECTORY) as d:
                assert smb_status(d.list) == "NETWORK_BUSY"
            asked = ask_cold(c, case, "listing")
            c.echo()
        finally:
            world.m.start_retriever()
        cold.open()
        c.finish_open(asked, case.path("d")).close()
        listed(c, case)


def test_reads_hold_up_nothing(case, world, cold):
    """Of the same connection; and they do not end with stub:wait."""
    gate = Gate()
    remove = world.fake.hook("READ", only(lambda call: call.node is case.node("f"), gate))
    with world.smbd.client() as c, c.open(case.path("f")) as f:
        waiting = [f.send_read(at, 1000) for at in (0, BLOCK)]
        wait_until(lambda: gate.waiting, 20, "READ at the source")
        began = time.monotonic()
        while time.monotonic() - began < WAIT + 1:
            c.echo()
            same(c.read_file(case.path("g")), case.data("g"))
            assert c.stat(case.path("f")).size == SIZE
        assert not any(c.arrived(message) for message in waiting)
        gate.open()
        for at, message in zip((0, BLOCK), waiting):
            same(f.finish_read(message), case.data("f")[at:at + 1000])
    remove()


@pytest.mark.parametrize("what", ["name", "listing"])
def test_nobody_waits_for_a_client_that_is_gone(case, smb, world, cold, patient, what):
    """What it had open and locked is free, though the source has not answered."""
    gone = world.smbd.client("alice", share=patient)
    gone.open(case.path("g"), ALL, share=0)
    assert smb_status(smb.open, case.path("g")) == "SHARING_VIOLATION"
    pid = world.smbd.pid_of(gone)
    ask_cold(gone, case, what)
    wait_until(lambda: cold.waiting, 20, "the source")
    gone.socket.close()
    wait_until(lambda: pid not in world.smbd.processes(), LONG / 3, "end of its smbd")
    assert cold.waiting
    with smb.open(case.path("g"), ALL, share=0) as g:
        same(g.read(), case.data("g"))


def test_an_oplock_of_a_waiting_client_is_broken_in_time(case, smb, world, cold):
    """The one thing for which others have to wait for it: as for a slow client's answer,
    and no longer than stub:wait."""
    with world.smbd.client("alice") as c:
        f = c.open(case.path("g"), ALL, oplock=9)       # batch
        asked = ask_cold(c, case, "name")
        wait_until(lambda: cold.waiting, 20, "the source")
        began = time.monotonic()
        wanted = smb.send_open(case.path("g"), ALL)
        assert smb_status(c.finish_open, asked, case.path("d/x")) in ("NETWORK_BUSY",
                                                                      "ACCESS_DENIED")
        wait_until(lambda: c.echo() or c.breaks, 20, "break")
        f.close()
        smb.finish_open(wanted, case.path("g")).close()
        assert time.monotonic() - began < WAIT + ROOM and cold.waiting


# -- several requests in one message, as Windows lists a directory ---------------------------

SAME = b"\xff" * 16     # the file that the request before has opened


def bodies_of(client, *calls):
    """(command, body) of each request that a call sends."""
    sent, real = [], client.send
    client.send = lambda command, body, charge=1: sent.append((command, body))
    try:
        for call in calls:
            call()
    finally:
        client.send = real
    return sent


def send_related(client, requests):
    """The message id of the first."""
    first, packet = client.message, b""
    for i, (command, body) in enumerate(requests):
        one = bytearray(wire.header(command, client.message, client.tree, client.id) + body)
        client.message += 1
        if i + 1 < len(requests):
            one += bytes(-len(one) % 8)
            one[20:24] = struct.pack("<I", len(one))
        one[16:20] = struct.pack("<I", 4 if i else 0)       # related to the one before
        packet += one
    client.socket.sendall(struct.pack(">I", len(packet)) + packet)
    return first


def answers(answer):
    """[(status, bytes)] of all that came in one message."""
    data, found = answer.data, []
    while data:
        status, = struct.unpack_from("<I", data, 8)
        size = struct.unpack_from("<I", data, 20)[0] or len(data)
        found.append((wire.STATUS.get(status, hex(status)), bytes(data[64:size])))
        data = data[size:]
    return found


@pytest.mark.parametrize("end", ["listed", "overdue"])
def test_a_listing_in_one_message(case, world, cold, patient, end):
    pattern = wire.utf16("*")
    with world.smbd.client(share=patient if end == "listed" else None) as c:
        requests = bodies_of(c, lambda: ask_cold(c, case, "listing")) + [
            (wire.QUERY_DIRECTORY, struct.pack("<HBBI16sHHI", 33, 37, 0, 0, SAME, 64 + 32,
                                               len(pattern), 65536) + pattern),
            (wire.CLOSE, struct.pack("<HHI16s", 24, 0, 0, SAME))]
        first = send_related(c, requests)
        wait_until(lambda: cold.waiting, 20, "the source")
        c.echo()
        if end == "listed":
            assert not c.arrived(first)
            cold.open()
        assert c.arrived(first, 30)
        got = answers(c.kept.pop(first))
        wanted = "OK" if end == "listed" else "NETWORK_BUSY"
        assert [status for status, _ in got] == ["OK", wanted, "OK"]
        assert (wire.utf16("x") in got[1][1]) == (end == "listed")
        cold.open()
        listed(c, case)


@pytest.mark.parametrize("command", ["TREE_DISCONNECT", "LOGOFF"])
def test_a_client_takes_its_leave_while_a_listing_waits(case, smb, world, cold, patient,
                                                        command):
    with world.smbd.client(share=patient) as c:
        asked = ask_cold(c, case, "listing")
        wait_until(lambda: cold.waiting, 20, "the source")
        c.echo()
        pid = world.smbd.pid_of(c)
        c.wait(c.send(getattr(wire, command), struct.pack("<HH", 4, 0)))
        assert smb_status(c.finish_open, asked, case.path("d")) != "OK"
        assert pid in world.smbd.processes()
        cold.open()
    listed(smb, case)
