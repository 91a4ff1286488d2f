# SPDX-License-Identifier: GPL-3.0-or-later
"""The model-based random test with clients of both protocols on one volume
(tests/crash/model_mixed.py): Ganesha and smbd at once.

POSTCOPY_SEED=n repeats a run (the seed is printed, and shown when a test fails); the
shrunk history of a failure is written to POSTCOPY_TEST_DIR.
"""
import os
import random

import model

OPERATIONS = 1500


def test_random_histories(workdir):
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    said = []
    plan = {"operations": OPERATIONS, "smb": True, "where": workdir.parent}
    numbers = model.run(plan, seed, lambda text: (said.append(text), print(text)))
    assert numbers["losses"] == 0, "\n".join(said)
    assert numbers["model_operations"] >= OPERATIONS
    assert numbers["recoveries"] > 0
