# SPDX-License-Identifier: GPL-3.0-or-later
"""Over SMB: the retriever is killed, or not there, the old server is slow, a client's smbd
is killed, the volume is full.  What cannot be had is an error or a wait, and never "there
is no such file", never zeros, never short."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from lib.case import BLOCK, SIZE
from lib.expect import same, smb_status
from lib.smb import ALL
from lib.smbd import STACK, Share
from lib.wait import wait_until
from lib.world import BothWorld
from nfsclient.hooks import Gate, only
from smb2client import SmbError, wire
from test_no_space import Disk

WORLD = BothWorld
WAIT = 2                # s; what "stub:wait" says
MORE = "stub:wait = %d" % (WAIT * 1000)
NOT_HERE = ("NETWORK_BUSY", "ACCESS_DENIED", "IO_DEVICE_ERROR", "UNEXPECTED_IO_ERROR")


@pytest.fixture
def absent_after(world):
    """Call it when the retriever shall be gone, until the test ends."""
    yield world.m.kill_retriever
    world.m.start_retriever()


def held(world, procs, node):
    gate = Gate()
    world.fake.hook(procs, only(lambda call: call.node is node, gate))
    return gate


# -- the retriever ---------------------------------------------------------------------

def test_killed_while_reads_wait(case, smb, world):
    """They are asked again of the next one."""
    for name in ("f", "g"):
        case.file(name)
    case.enter("partial", "f", "g")
    gate = held(world, "READ", case.node("f"))
    with smb.open(case.path("f")) as f, smb.open(case.path("g")) as g:
        waiting = [(at, f.send_read(at, 1000)) for at in (0, BLOCK, 3 * BLOCK)]
        wait_until(lambda: gate.waiting, 20, "READ at the source")
        world.m.kill_retriever()
        smb.echo()
        more = g.send_read(7, 1000)
        smb.echo()
        assert not any(smb.arrived(message) for _, message in waiting)
        gate.open()
        world.m.start_retriever()
        for at, message in waiting:
            same(f.finish_read(message), case.data("f")[at:at + 1000])
        same(g.finish_read(more), case.data("g")[7:1007])
        same(f.read(), case.data("f"))


def test_changes_without_a_retriever(case, smb, world, absent_after):
    case.file()
    case.file("g")
    case.enter("some", "f", "g")
    absent_after()
    with smb.open(case.path("f"), ALL) as f:
        f.write(10, b"written")
        case.write("f", 10, b"written")
        f.zero(4 * BLOCK, 5 * BLOCK)
        case.punch("f", 4 * BLOCK, BLOCK)
        f.flush()
        same(f.read(BLOCK, 100), case.data("f")[BLOCK:BLOCK + 100])
        f.truncate(SIZE - 10)
        case.resize("f", SIZE - 10)
        assert f.info().size == SIZE - 10
    smb.rename(case.path("f"), case.path("h"))
    case.moved("f", "h")
    smb.write_file(case.path("new"), b"new")
    case.made("new").data = b"new"
    assert smb.names(case.path()) == ["g", "h", "new"]
    smb.remove(case.path("g"))
    case.gone("g")


def test_what_is_not_here_is_not_denied_to_exist(case, smb, world, absent_after):
    case.file()
    case.dir("d")
    case.file("d/g")
    case.list()
    absent_after()
    assert smb_status(smb.stat, case.path("d/g")) in NOT_HERE
    assert smb_status(smb.names, case.path("d")) in NOT_HERE
    assert smb_status(smb.stat, case.path("d/g/below")) in NOT_HERE
    assert smb_status(smb.open, case.path("d/new"), ALL, wire.CREATE_NEW, timeout=100) \
        in (*NOT_HERE, "SHARING_VIOLATION")
    assert smb_status(smb.mkdir, case.path("d/newdir")) in NOT_HERE
    assert smb_status(smb.remove, case.path("d")) in NOT_HERE
    assert smb_status(smb.rename, case.path("f"), case.path("d/f")) in NOT_HERE
    assert smb.stat(case.path("f")).size == SIZE
    assert not os.listdir(world.volume / case.path("d"))


def test_nothing_cold_is_denied_to_exist(case, smb, world, absent_after):
    """A whole path of which nothing is here."""
    case.dir("d")
    case.file("d/g")
    absent_after()
    assert smb_status(smb.stat, case.path("d/g")) in NOT_HERE
    assert smb_status(smb.stat, case.path("d")) in NOT_HERE
    assert smb_status(smb.stat, case.path()) in NOT_HERE


def test_a_dummy_is_not_shown_as_it_is(case, smb, world, absent_after):
    case.file()
    case.enter("dummy", "f")
    absent_after()
    assert smb_status(smb.stat, case.path("f")) in NOT_HERE


def test_a_client_that_closes_is_let_go(case, smb, world, absent_after):
    case.file()
    case.enter("partial", "f")
    absent_after()
    f = smb.open(case.path("f"))
    f.send_read(0, 1000)
    smb.echo()
    f.close()
    assert smb.stat(case.path("f")).size == SIZE


# -- the old server ----------------------------------------------------------------------

def test_a_slow_name_holds_up_no_other_client(case, smb, world):
    case.dir("d")
    case.file("d/g")
    case.file("f")
    case.list()
    gate = held(world, "LOOKUP", case.node("d"))
    world.smbd.shares.append(Share(str(world.volume), name="patient", vfs=STACK,
                                   more="stub:wait = 60000"))
    world.smbd.write_config()
    with world.smbd.client(share="patient") as other:
        asked = other.send_open(case.path("d/g"))
        wait_until(lambda: gate.waiting, 20, "LOOKUP at the source")
        same(smb.read_file(case.path("f")), case.data("f"))
        gate.open()
        with other.finish_open(asked, case.path("d/g")) as g:
            same(g.read(), case.data("d/g"))


def test_parked_is_an_error(case, smb, world):
    """The source has changed: no byte of two versions, and the session goes on."""
    case.file()
    case.enter("partial", "f")
    node = case.node("f")
    node.mtime += 10 ** 9
    with smb.open(case.path("f")) as f:
        assert smb_status(f.read, 0, 1000) in NOT_HERE
        assert f.info().size == SIZE
    node.mtime -= 10 ** 9
    world.m.postcopy("retry", world.volume)
    same(smb.read_file(case.path("f")), case.data("f"))


# -- smbd --------------------------------------------------------------------------------

def children(world):
    return set(world.smbd.processes()) - {world.smbd.pid}


def test_a_clients_process_is_killed(case, smb, world):
    """Its locks are gone with it, what it wrote is there."""
    case.file()
    case.enter("partial", "f")
    before = children(world)
    victim = world.smbd.client()
    victim.stat(case.path())
    f = victim.open(case.path("f"), ALL)
    f.write(5, b"by the victim")
    case.write("f", 5, b"by the victim")
    gate = held(world, "READ", case.node("f"))
    f.send_read(2 * BLOCK, 1000)
    wait_until(lambda: gate.waiting, 20, "READ at the source")
    for pid in children(world) - before:
        os.kill(pid, signal.SIGKILL)
    gate.open()
    with smb.open(case.path("f"), ALL) as g:
        g.write(100, b"by another")
        case.write("f", 100, b"by another")
        same(g.read(), case.data("f"))


# -- no room -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def full(moddir, new_volume, rpcshim):
    small = new_volume("xfs", "320M")
    volume = small.path / "volume"
    volume.mkdir()
    w = BothWorld(moddir / "full", volume, rpcshim)
    w.disk = Disk(small.path)
    w.m.allow.append("pending journal: transaction failed: No space left")
    with w:
        try:
            yield w
        finally:
            w.disk.free()


def test_a_full_volume_passes_data_on(full, request):
    case = full.case(request.node.name)
    for name in ("f", "g"):
        case.file(name)
    case.enter("some", "f", "g")
    with full.smbd.client() as c:
        with c.open(case.path("f")) as f, c.open(case.path("g")) as g:
            full.disk.fill()
            try:
                same(f.read(), case.data("f"))
                same(f.read(2 * BLOCK - 5, 10), case.data("f")[2 * BLOCK - 5:2 * BLOCK + 5])
                same(g.read(SIZE - 7, 100), case.data("g")[-7:])
                assert c.stat(case.path("f")).size == SIZE
            finally:
                full.disk.free()
            same(f.read(), case.data("f"))
    case.close()


# -- this machine -------------------------------------------------------------------------

def test_what_cannot_be_told_is_not_taken_for_complete(case, smb, world):
    """The kernel has no memory to say which object it is: no read, and no zeros."""
    case.file()
    case.enter("partial", "f")
    before = set(world.smbd.processes())
    with world.smbd.client() as other:
        other.echo()
        pid, = set(world.smbd.processes()) - before
        with failing(world.smbd, pid, "name_to_handle_at", "ENOMEM"):
            try:
                with other.open(case.path("f")) as f:
                    f.read(BLOCK, 100)
                raise AssertionError("it was read")
            except SmbError as err:
                assert err.status != "END_OF_FILE"
        same(other.read_file(case.path("f")), case.data("f"))


@contextlib.contextmanager
def failing(server, pid, call, error):
    """A system call of a process fails."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", str(server.workdir / "strace.out"), "-e", "trace=" + call, "-e",
         "inject=%s:error=%s" % (call, error), "-p", str(pid)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "TracerPid:\t%d\n" % tracer.pid in
                   pathlib.Path("/proc/%d/status" % pid).read_text(), 20, "strace attached")
        yield
    finally:
        tracer.terminate()
        tracer.wait(30)
