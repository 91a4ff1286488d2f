# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage of tests/crash/run: the model (model.py) on volumes that have a mirror, one time with clients
of NFS, the next time with those of both protocols."""
import model


def run(plan, seed, say):
    return model.run(dict(plan, mirror=True, smb=seed % 2 == 1), seed, say)
