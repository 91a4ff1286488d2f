# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage of tests/crash/run: the model (model.py) with clients of both protocols."""
import model


def run(plan, seed, say):
    return model.run(dict(plan, smb=True), seed, say)
