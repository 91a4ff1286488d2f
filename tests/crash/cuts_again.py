# SPDX-License-Identifier: GPL-3.0-or-later
"""The power goes once more, while the migration recovers from a cut.

The state of the first cut is put on a disk that remembers, too; mounting it, two starts
of the retriever and the crawl to the end are recorded, and states of that disk are
judged as of yet another boot.  No client does anything meanwhile: names and bytes must
be exactly those that were there right after the first cut.
"""
import contextlib
import pathlib
import shutil
import tempfile

from cuts_model import logical, tree_wrong
from cuts_record import Disk, dump
from disklog import Log
import images


def _record(run, image, where, recovery):
    disk = Disk(image, where / "disk.log", where, run.fstype)
    try:
        again = recovery(run, disk.mnt / "vol")
        again.start_and_stop()
        again.to_the_end()
    finally:
        disk.power_off()
        disk.close()
    return Log(where / "disk.log", images.ordered_place(image, run.fstype))


def _judge(volume, tree, wanted):
    """(what is wrong, what there is)"""
    found = dump(volume)
    wrong = tree_wrong(found, tree)
    if not wrong:
        now = logical(found, tree)
        wrong = ["%r is other bytes than before" % p for p in wanted if now[p] != wanted[p]]
    return wrong, found


@contextlib.contextmanager
def _another_boot(where):
    images.new_boot(where)
    try:
        yield
    finally:
        images.umount(images.BOOT_ID)


def cut_again(run, image, home, tree, wanted, rng, limit, recovery, go_on):
    """(what is wrong, states judged, recoveries): limit of the second cut's states; the
    one in the middle goes on to the end by go_on().  wanted: names and bytes as they were."""
    wrong, judged, recoveries = [], 0, 0
    where = pathlib.Path(tempfile.mkdtemp(prefix="again-", dir=home))
    try:
        base = images.clone(image, where / "base.img")
        log = _record(run, image, where, recovery)
        plan = [(cut, state) for cut, states in log.plan(run.fstype, rng, 2, limit)
                for state in states]
        builder = images.Builder(log, base, where)
        with _another_boot(where):
            last = -1
            for cut, state in plan:
                for number in range(last + 1, cut.number + 1):
                    builder.advance(log.cuts[number])
                last = cut.number
                judged += 1
                try:
                    with images.Mounted(builder.state(state), where / "mnt", run.fstype) as mnt:
                        volume = pathlib.Path(mnt) / "vol"
                        bad, found = _judge(volume, tree, wanted)
                        if not bad and judged == len(plan) // 2:
                            bad = go_on(run, volume, tree, found)
                            recoveries += 1
                except (AssertionError, TimeoutError, OSError) as err:
                    bad = ["%s: %s" % (type(err).__name__, err)]
                wrong += ["cut again at %d, state %s: %s" % (cut.number, state.name, text)
                          for text in bad]
        builder.close()
    finally:
        shutil.rmtree(where, ignore_errors=True)
    return wrong, judged, recoveries
