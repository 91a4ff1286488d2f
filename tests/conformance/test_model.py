# SPDX-License-Identifier: GPL-3.0-or-later
"""The model-based random test (tests/crash/model.py): operations in random histories, and
the histories of bugs that it has found.

POSTCOPY_SEED=n repeats a run (the seed is printed, and shown when a test fails); the
shrunk history of a failure is written to POSTCOPY_TEST_DIR.
"""
import os
import pathlib
import random

import pytest

import model
from lib.smbsource import with_worker

HISTORIES = sorted((pathlib.Path(model.__file__).parent / "histories").glob("*.json"))

PLANS = {
    "nfs": {"operations": 10000},
    "smb": {"operations": 1500, "smb": True},       # clients of both protocols (model_mixed.py)
    "mirrored": {"operations": 900, "mirror": True},  # the volume has a mirror (model_mirrored.py)
    "mirrored-smb": {"operations": 450, "mirror": True, "smb": True},
    "joined": {"operations": 800, "join": True},    # two sources (model_joined.py)
}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda p: p.stem)
def test_found_before(path):
    err = model.replay(path)
    assert err is None, err


@pytest.mark.parametrize("plan", ["nfs", "smb", "mirrored", "mirrored-smb", pytest.param("joined", marks=with_worker)])
def test_random_histories(workdir, plan):
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    said, plan = [], PLANS[plan]
    numbers = model.run(dict(plan, where=workdir.parent), seed,
                        lambda text: (said.append(text), print(text)))
    assert numbers["losses"] == 0, "\n".join(said)
    assert numbers["model_operations"] >= plan["operations"]
    assert numbers["recoveries"] > 0
