# SPDX-License-Identifier: GPL-3.0-or-later
"""Which contents a disk may have after a power cut."""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from disklog import HEADER, MAGIC, Log  # noqa: E402

PLACE = (1 << 20, 2 << 20)          # of the file system's own log
BLOCK = 4096


def numbered(number):
    return b"%04d" % number * 1024


def write_log(path, offsets, content=numbered):
    """All of them came and were answered, and then a flush."""
    with open(path, "wb") as f:
        for number, offset in enumerate(offsets):
            data = content(number)
            f.write(HEADER.pack(MAGIC, ord("w"), number, len(data), offset) + data)
            f.write(HEADER.pack(MAGIC, ord("W"), number, 0, 0))
        for what in "fF":
            f.write(HEADER.pack(MAGIC, ord(what), len(offsets), 0, 0))


def subsets_of(log, rounds=40):
    """What is there of the writes before the flush, in many states."""
    for seed in range(rounds):
        for cut, states in log.plan("xfs", random.Random(seed), subsets=2):
            for state in states if cut.volatile else ():
                if state.name.startswith("some"):
                    yield [w.offset for w in state.writes]


def test_writes_to_the_log_are_lost_from_the_end_others_freely(tmp_path):
    inside = [PLACE[0] + n * BLOCK for n in range(20)]
    outside = [n * BLOCK for n in range(10)] + [PLACE[1] + n * BLOCK for n in range(10)]
    both = [offset for pair in zip(inside, outside) for offset in pair]
    write_log(tmp_path / "log", both)
    log = Log(tmp_path / "log", PLACE)
    seen, gaps = set(), 0
    for there in subsets_of(log):
        kept = [o for o in there if o in inside]
        assert kept == inside[:len(kept)]
        assert there == sorted(there, key=both.index)
        others = [o for o in there if o in outside]
        gaps += others != outside[:len(others)]
        seen.add(len(kept))
    assert gaps > 20 and len(seen) > 10 and {0, 20} & seen


def test_without_such_a_place_any_may_be_lost(tmp_path):
    offsets = [n * BLOCK for n in range(20)]
    write_log(tmp_path / "log", offsets)
    assert any(there != offsets[:len(there)] for there in subsets_of(Log(tmp_path / "log")))


def test_what_was_flushed_is_there(tmp_path):
    write_log(tmp_path / "log", [0, BLOCK])
    log = Log(tmp_path / "log")
    assert [len(cut.durable) for cut in log.cuts] == [0, 2]
    assert log.bytes_at(log.cuts[1].durable[1].pos, 8) == b"00010001"


def torn_lengths(tmp_path, block):
    """Where one write of two blocks may be torn, the second of which begins as told."""
    second = block.ljust(BLOCK, b"x")
    write_log(tmp_path / "log", [3 * BLOCK], lambda _: b"y" * BLOCK + second)
    log = Log(tmp_path / "log")
    return {state.length for seed in range(200)
            for _, states in log.plan("xfs", random.Random(seed), subsets=2)
            for state in states if state.torn}


def test_data_is_torn_at_every_sector(tmp_path):
    assert torn_lengths(tmp_path, b"anything") == set(range(512, 2 * BLOCK, 512))


def test_a_block_of_metadata_is_not_torn(tmp_path):
    whole = set(range(512, BLOCK + 1, 512))
    for begin in (b"XDB3", b"IN", bytes(8) + b"\x3b\xee"):
        assert torn_lengths(tmp_path, begin) == whole
