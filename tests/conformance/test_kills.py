# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 of retriever, crawler and Ganesha at random moments of a migration."""
import os
import random
import subprocess

import pytest

from util import wait_until

FILES, ROUNDS = 1500, 4


def make_tree(path, rng):
    path.mkdir()
    for d in range(FILES // 50):
        (path / ("d%02d" % d)).mkdir()
        for i in range(50):
            (path / ("d%02d" % d) / ("f%02d" % i)).write_bytes(rng.randbytes(rng.randrange(60000)))
        os.link(path / ("d%02d" % d) / "f00", path / ("hard%02d" % d))
    (path / "large").write_bytes(rng.randbytes(48 << 20))


def manifest(nfstree, url, out):
    subprocess.run([nfstree, "-o", out, url], check=True, timeout=300)
    return out


def restart_killed(m):
    if m.retriever.poll() is not None:
        m.start_retriever()
    if not m.server.alive:
        m.server.start()
    if m.crawler.poll() is not None:
        m.start_crawler()


@pytest.mark.parametrize("seed", [11, 12])
def test_killed_at_random_moments(old_server, loop_xfs, new_migration, fresh_dir, nfstree, seed):
    rng = random.Random(seed)
    tree = loop_xfs.path / ("kills%d" % seed)
    make_tree(tree, rng)
    old = old_server(tree)
    m = new_migration(old.url(), fresh_dir).init().start()
    m.start_crawler()
    for _ in range(ROUNDS):
        for kill in (m.kill_retriever, m.kill_crawler, m.server.kill9):
            goal = m.status()["done"] + rng.randrange(1, 60)
            wait_until(lambda: (lambda s: s["done"] >= goal or s["pending"] == 0)(m.status()), 60,
                       "some progress (seed %d)" % seed)
            kill()
            restart_killed(m)
    m.kill_crawler()
    m.crawl()
    wait_until(lambda: m.status()["state"] == "complete", 30, "complete")
    m.audit(complete=True)
    a = manifest(nfstree, old.url(), m.workdir / "old.manifest")
    b = manifest(nfstree, m.server.url(), m.workdir / "new.manifest")
    done = subprocess.run([nfstree, "--diff", a, b], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
