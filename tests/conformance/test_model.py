# SPDX-License-Identifier: GPL-3.0-or-later
"""The model-based random test (tests/crash/model.py): 10 000 operations in random
histories, and the histories of bugs that it has found.

POSTCOPY_SEED=n repeats a run (the seed is printed, and shown when a test fails); the
shrunk history of a failure is written to POSTCOPY_TEST_DIR.
"""
import os
import pathlib
import random

import pytest

CRASH = pathlib.Path(__file__).resolve().parent.parent / "crash"

import model

OPERATIONS = 10000
HISTORIES = sorted((CRASH / "histories").glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda p: p.stem)
def test_found_before(path):
    err = model.replay(path)
    assert err is None, err


def test_random_histories(workdir):
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    said = []
    plan = {"operations": OPERATIONS, "where": workdir.parent}
    numbers = model.run(plan, seed, lambda text: (said.append(text), print(text)))
    assert numbers["losses"] == 0, "\n".join(said)
    assert numbers["model_operations"] >= OPERATIONS
    assert numbers["recoveries"] > 0
