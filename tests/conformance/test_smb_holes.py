# SPDX-License-Identifier: GPL-3.0-or-later
"""Sparse files of an old SMB server: what has no data there is not read, is a hole here, and
reads as zeros in every way; what the server says of it is believed only if it makes sense."""
import contextlib
import os
import random
import struct
import threading

import pytest

from lib.smbgate import SmbGate
from lib.smbsource import PATIENT, with_worker
from lib.wait import wait_until
from smb2client import wire

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
UNSIGNED = "smb_signing = desired\n"     # the gate answers in the server's name
ALL = wire.READ_DATA | wire.WRITE_DATA | wire.READ_ATTRIBUTES | wire.WRITE_ATTRIBUTES | \
    wire.SYNCHRONIZE
OFFLINE, SPARSE = 0x1000, 0x200

pytestmark = [with_worker, pytest.mark.usefixtures("homes")]


@pytest.fixture(scope="module")
def server(new_samba, tree):
    return new_samba("old-server", tree)


def create(path, size, pieces):
    """{offset: bytes} between holes."""
    with open(path, "wb") as f:
        f.truncate(size)
        for at, data in pieces.items():
            f.seek(at)
            f.write(data)


def mark(server, tree, *paths, attributes=0):
    """Sparse, for SMB: else the server says that all is data."""
    with server.client() as c:
        for path in paths:
            with c.open(str(path.relative_to(tree)), ALL) as f:
                f.ioctl(wire.FSCTL_SET_SPARSE)
                if attributes:
                    f.set_basic(attributes | SPARSE)


@pytest.fixture
def make_file(server, tree, request):
    """make_file(name, size, pieces): a sparse file; its directory is this test's own."""
    top = tree / request.node.name.translate(str.maketrans("[]/", "___"))
    top.mkdir()

    def begin(name, size, pieces, **kw):
        create(top / name, size, pieces)
        mark(server, tree, top / name, **kw)
        return top / name

    begin.top = top
    return begin


def segments(path):
    """Where a local file has data."""
    found, at = [], 0
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        while at < size:
            try:
                start = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:                 # ENXIO: none any more
                break
            at = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            found.append((start, at))
    return found


def same_bytes(old, new):
    """Of two sparse files: where either has data, and some in between."""
    assert old.stat().st_size == new.stat().st_size
    with open(old, "rb") as a, open(new, "rb") as b:
        for start, end in segments(old) + segments(new):
            for at in range(start, end, MIB):
                size = min(MIB, end - at)
                assert os.pread(a.fileno(), size, at) == os.pread(b.fileno(), size, at), \
                    (new, at)


def used(path):
    return path.stat().st_blocks * 512


def url(of, make_file):
    return of.url() + "/" + make_file.top.name


R = random.Random(13)
SHAPES = {
    "empty": (0, {}),
    "byte": (1, {0: b"x"}),
    "small-hole": (100 * KIB, {}),
    "small": (100 * KIB, {50 * KIB: b"x"}),
    "all-hole": (64 * MIB, {}),
    "all-hole-odd": (64 * MIB + 4321, {}),
    "at-the-start": (32 * MIB + 1, {30 * MIB + 5: R.randbytes(2 * MIB - 4)}),
    "at-the-end": (32 * MIB + 777, {0: R.randbytes(3 * MIB + 11)}),
    "in-the-middle": (40 * MIB + 3, {0: b"begin", 40 * MIB - 2: b"the e"[:5]}),
    "unaligned": (30 * MIB, {5 * MIB + 1234: b"a" * 70001, 17 * MIB - 1: b"bc",
                             29 * MIB + 4095: b"d"}),
    "data": (9 * MIB + 5, {0: R.randbytes(9 * MIB + 5)}),
    # holes that are not worth a question of their own
    "dense": (16 * MIB, {at: R.randbytes(4096) for at in range(0, 16 * MIB, 64 * KIB)}),
    "mixed": (24 * MIB, {at: R.randbytes(64 * KIB) for at in range(0, 24 * MIB, 600 * KIB)}),
    "zeros": (8 * MIB, {0: bytes(8 * MIB)}),            # allocated over there
}


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_shapes(make, server, make_file, fstype):
    """Every shape costs here what its data needs, and is the same; most is not read."""
    for name, (size, pieces) in SHAPES.items():
        make_file(name, size, pieces)
    m = make(url(server, make_file), fstype, conf="digests = 1\n").init().start()
    m.crawl()
    m.audit(complete=True)
    for name in SHAPES:
        old, new = make_file.top / name, m.volume / name
        same_bytes(old, new)
        if name != "zeros":
            assert used(new) <= used(old) + 64 * KIB, (name, used(old), used(new))
        assert new.stat().st_mtime_ns // 100 == old.stat().st_mtime_ns // 100, name
    s = m.status()
    assert s["bytes_holes"] > 250 * MIB, s
    # what has data, twice at most: small holes are read with what is around them
    assert s["bytes_done"] < 2 * sum(used(make_file.top / name) for name in SHAPES), s
    m.stop()
    answer = m.tool("verify", "--digests", m.volume)    # holes belong to what came
    assert answer["right"] == len(SHAPES) - 1 and not answer["found"], answer


def test_16_tib(make, server, make_file):
    """With 1 MiB of data: neither its size on the volume, nor hours on the wire."""
    size = 16 * TIB - 4096 - 3
    pieces = {7 * TIB + 12345: R.randbytes(MIB), size - 5: b"hello"}
    old = make_file("huge", size, pieces)
    m = make(url(server, make_file), conf="digests = 1\n").init().start()
    new = m.volume / "huge"

    def check():
        for proto in ("v3", "v4.2"):
            with contextlib.closing(m.client(proto).patient(60)) as c:
                fh = c.lookup_path("huge")
                for at, data in pieces.items():
                    assert c.read(fh, at, 4096)[0] == data[:4096], (proto, at)
                    assert c.read(fh, at - 4096, 4096)[0] == bytes(4096), (proto, at)
                for at in (0, TIB, 15 * TIB):
                    assert c.read(fh, at, 65536)[0] == bytes(65536), (proto, at)
    check()                                 # on demand
    m.crawl()
    m.audit(complete=True)
    s = m.status()
    assert s["bytes_done"] < 200 * MIB and s["bytes_holes"] > 15 * TIB, s
    check()
    assert used(new) <= used(old) + 64 * KIB
    same_bytes(old, new)
    # as over there: a hole to the first data, and between that and the end
    assert segments(new)[0][0] > 7 * TIB and segments(new)[-1][1] == size
    with contextlib.closing(m.client("v4.2")) as c, c.opened("huge") as f:
        assert c.seek(f, 0) == (False, segments(new)[0][0])
        assert c.seek(f, 5, hole=True) == (False, 5)
    m.stop()
    assert not m.tool("verify", "--digests", m.volume, check=False)["found"]


def test_more_than_one_answer_has_room_for(make, server, make_file):
    """Of the server, which names 4096 ranges at once, and of the worker."""
    dense = 560 * MIB
    pieces = {at: b"x" for at in range(0, dense, 512 * KIB)}
    pieces.update({at: b"y" for at in range(dense, dense + 36 * MIB, 8 * KIB)})
    old = make_file("many", 4 * TIB, pieces)
    with SmbGate(server) as gate:
        m = make(url(gate, make_file), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(complete=True)
        assert 3 < len(gate.asked) < 200
    same_bytes(old, m.volume / "many")
    assert used(m.volume / "many") <= used(old) + MIB
    assert m.status()["bytes_done"] < 100 * MIB
    m.stop()


# -- who is not asked ---------------------------------------------------------------


def test_only_sparse_files_are_asked_about(make, server, tree, make_file):
    """And none whose data may be elsewhere: what is on a tape has nothing allocated."""
    create(make_file.top / "plain", 32 * MIB, {0: b"begin", 31 * MIB: b"end"})
    make_file("offline", 32 * MIB, {0: b"begin", 31 * MIB: b"end"}, attributes=OFFLINE)
    make_file("less", 3 * MIB, {})
    with SmbGate(server) as gate:
        m = make(url(gate, make_file), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(complete=True)
        assert gate.asked == []
    assert m.status()["bytes_holes"] == 0
    for name in ("plain", "offline", "less"):
        same_bytes(make_file.top / name, m.volume / name)
        assert used(m.volume / name) <= 64 * KIB     # zeros stay holes
    m.stop()


# -- servers that do not know, or lie -------------------------------------------------

PIECES = {0: b"begin", 5 * MIB + 100: b"m" * 200000, 40 * MIB - 3: b"end"}
SIZE = 40 * MIB


def pack(*ranges):
    return b"".join(struct.pack("<QQ", *r) for r in ranges)


LIES = {
    # statuses
    "not-supported": lambda *_: 0xc00000bb,
    "invalid-device-request": lambda *_: 0xc0000010,
    "invalid-parameter": lambda *_: 0xc000000d,
    "access-denied": lambda *_: 0xc0000022,
    "file-closed": lambda *_: 0xc0000128,
    "always-too-small": lambda *_: 0xc0000023,
    "always-more": lambda *_: 0x80000005,
    # answers
    "nothing": lambda *_: b"",
    "half-a-range": lambda *_: pack((0, MIB))[:-1],
    "empty-range": lambda *_: pack((0, MIB), (2 * MIB, 0)),
    "negative": lambda *_: pack((0, 1 << 63)),
    "around": lambda *_: pack((0, MIB), (2 * MIB, (1 << 64) - MIB)),
    "beyond-the-end": lambda *_: pack((0, 6 * MIB), (SIZE + MIB, MIB)),
    "overlapping": lambda *_: pack((0, 6 * MIB), (5 * MIB, MIB), (39 * MIB, MIB)),
    "out-of-order": lambda *_: pack((39 * MIB, MIB), (0, 6 * MIB)),
    "twice": lambda offset, length, said: said + said,
    "without-the-first": lambda offset, length, said: said[16:],
    "without-the-last": lambda offset, length, said: said[:-16],
    "too-late": lambda offset, length, said: pack((64 * KIB, MIB)) + said[16:],
    "endless": lambda *_: pack(*((i * 16, 8) for i in range(4096))),
    "more-than-was-asked-for": lambda *_: pack(*((i * 16, 8) for i in range(40000))),
    "all-of-it": lambda offset, length, said: pack((offset, length)),
}


@pytest.mark.parametrize("lie", LIES)
def test_no_zeros_on_a_guess(make, server, make_file, lie):
    old = make_file("f", SIZE, PIECES)
    with SmbGate(server) as gate:
        gate.ranges = LIES[lie]
        m = make(url(gate, make_file), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        m.crawl()
        m.audit(complete=True)
        assert gate.asked
    same_bytes(old, m.volume / "f")
    assert used(m.volume / "f") <= used(old) + 64 * KIB
    m.stop()


# -- while somebody changes it ----------------------------------------------------------


@contextlib.contextmanager
def asked_meanwhile(make, server, make_file, action):
    """A crawl; action(m) is called when the server's answer is on its way."""
    with SmbGate(server) as gate:
        m = make(url(gate, make_file), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        done = threading.Event()

        def once(*_):
            if not done.is_set():
                done.set()
                action(m)
        gate.ranges = once
        m.crawl()
        assert done.is_set()
        yield m


def test_a_client_writes_meanwhile(make, server, make_file):
    """What it wrote, cut off, punched and made longer is its own."""
    for name in "abc":
        make_file(name, SIZE, PIECES)

    def write(m):
        with contextlib.closing(m.client("v3").patient(60)) as c:
            for name in "abc":
                fh = c.lookup_path(name)
                c.write(fh, 20 * MIB + 7, b"client")
                if name == "b":
                    c.setattr(fh, size=10 * MIB + 1)
                    c.setattr(fh, size=30 * MIB)
                    c.write(fh, 25 * MIB, b"behind")
    with asked_meanwhile(make, server, make_file, write) as m:
        m.audit(complete=True)
        for name in "abc":
            with open(m.volume / name, "rb") as f:
                size = 30 * MIB if name == "b" else SIZE
                want = bytearray(size)
                for at, data in PIECES.items():
                    if at + len(data) <= 10 * MIB or name != "b":
                        want[at:at + len(data)] = data
                if name == "b":
                    want[25 * MIB:25 * MIB + 6] = b"behind"
                else:
                    want[20 * MIB + 7:20 * MIB + 13] = b"client"
                assert f.read() == want, name
        m.stop()


def test_somebody_over_there_writes_meanwhile(make, server, tree, make_file):
    """The answer was of another version: a conflict, and no zeros for its new bytes."""
    old = make_file("f", SIZE, PIECES)

    def change(_m):
        with server.client() as c, c.open(str(old.relative_to(tree)), ALL) as f:
            f.write(20 * MIB, b"new")
    with asked_meanwhile(make, server, make_file, change) as m:
        m.audit(parked=1)
        assert m.status()["conflicts"] == 1
        assert m.status()["bytes_holes"] == 0
        m.stop()


def test_the_connection_breaks_meanwhile(make, server, make_file):
    old = make_file("f", SIZE, PIECES)
    with SmbGate(server) as gate:
        m = make(url(gate, make_file), conf=UNSIGNED).init().start()
        cuts = []

        def cut(*_):
            if len(cuts) < 2:
                cuts.append(1)
                gate.cut()
        gate.ranges = cut
        m.crawl()
        m.audit(complete=True)
        assert len(cuts) == 2 and m.status()["bytes_holes"] > 30 * MIB
        same_bytes(old, m.volume / "f")
        m.stop()


def test_killed_in_between(make, server, make_file):
    """A retriever that dies at any moment of it leaves nothing that is taken for zeros."""
    rng = random.Random(7)
    names = ["f%d" % i for i in range(12)]
    for i, name in enumerate(names):
        make_file(name, 64 * MIB + i, {rng.randrange(64 * MIB - 50000): rng.randbytes(50000)
                                       for _ in range(6)})
    with SmbGate(server) as gate:
        gate.delay = 0.002
        m = make(url(gate, make_file), conf=UNSIGNED, call_timeout=PATIENT).init().start()
        crawler = m.start_crawler()
        for n in range(6):
            wait_until(lambda: len(gate.asked) > 2 * n or crawler.poll() is not None, 60,
                       "questions")
            m.kill_retriever()
            m.start_retriever()
        assert crawler.wait(300) == 0
        m.drain()
        m.audit(complete=True)
    for name in names:
        same_bytes(make_file.top / name, m.volume / name)
        assert used(m.volume / name) <= used(make_file.top / name) + 64 * KIB
    m.stop()
