# SPDX-License-Identifier: GPL-3.0-or-later
"""NFSv3 mounts of directories below the export, as automount makes them of homes: the MOUNT
protocol has no "try again", so a request waits for the old server as long as a client does."""
import concurrent.futures
import time

import pytest

from lib.wait import wait_until
from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.hooks import Gate, only
from nfsclient.nfs3 import Mount3
from nfsclient.rpc import AuthSys

ACCES = 13
SHORT = "Delay_V3 = 100;"
DIRS = 6


@pytest.fixture
def fake():
    tree = Tree()
    homes = tree.mkdir(tree.root, "homes")
    tree.file(tree.mkdir(tree.mkdir(homes, "alice"), "deep"), "f", b"hers")
    for i in range(DIRS):
        tree.mkdir(tree.mkdir(tree.root, "d%d" % i), "home")
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(2 * DIRS) as threads:
        yield threads


@pytest.fixture
def held(fake):
    """LOOKUPs of homes and of what is in the others are held back at the old server."""
    gate = Gate()
    remove = fake.hook("LOOKUP", only(lambda call: call.node is not fake.tree.root, gate))
    yield gate
    gate.open()
    remove()


def mount(m, path):
    """MNT's handle, or the status that it is refused with."""
    mnt = Mount3(m.server.host, m.server.mount_port, AuthSys(), 60)
    try:
        return mnt.mnt("/export/" + path)[0]
    except errors.NfsError as err:
        return err.status
    finally:
        mnt.close()


def goes_on(future):
    """It has no answer yet: for several times what an NFSv3 request may wait."""
    time.sleep(1.0)
    return not future.done()


def is_directory(m, fh, names):
    with m.server.client("v3", root=fh) as c:
        assert c.names() == names


def test_slow_source(fake, fresh_dir, new_migration, held, pool):
    m = new_migration(fake.url(), fresh_dir, fsal_more=SHORT).init().start()
    asked = pool.submit(mount, m, "homes/alice/deep")
    wait_until(lambda: held.waiting, 60, "the source")
    assert goes_on(asked)
    held.open()
    is_directory(m, asked.result(60), [b"f"])


def test_retriever_is_started_later(fake, fresh_dir, new_migration, pool):
    m = new_migration(fake.url(), fresh_dir, fsal_more=SHORT).init().start()
    m.kill_retriever()
    asked = pool.submit(mount, m, "homes/alice")
    assert goes_on(asked)
    m.start_retriever(wait=False)
    is_directory(m, asked.result(60), [b"deep"])


def test_what_does_not_exist(fake, fresh_dir, new_migration):
    m = new_migration(fake.url(), fresh_dir).init().start()
    assert mount(m, "homes/nobody") == ACCES


def test_one_limit_for_all_names(fake, fresh_dir, new_migration, held, pool):
    """However many of the path have to be waited for; then the work goes on."""
    m = new_migration(fake.url(), fresh_dir, fsal_more=SHORT + " Delay_Mount = 2000;")
    m.init().start()
    began = time.monotonic()
    assert pool.submit(mount, m, "homes/alice/deep").result(60) == ACCES
    assert time.monotonic() - began > 1.9
    assert held.waiting == 1
    held.open()
    tries = (mount(m, "homes/alice/deep") for _ in range(20))
    is_directory(m, next(fh for fh in tries if fh != ACCES), [b"f"])


def test_not_too_many_wait(fake, fresh_dir, new_migration, held, pool):
    """The server's threads are for others too: a quarter of the places, here one."""
    m = new_migration(fake.url(), fresh_dir,
                      fsal_more=SHORT + " Max_Waiting = 4; Delay_Mount = 60000;")
    m.init().start()
    asked = [pool.submit(mount, m, "d%d/home" % i) for i in range(DIRS)]
    wait_until(lambda: sum(future.done() for future in asked) == DIRS - 1, 60, "the answers")
    assert sorted(f.result() for f in asked if f.done()) == [ACCES] * (DIRS - 1)
    held.open()
    last, = (f for f in asked if not (f.done() and f.result() == ACCES))
    is_directory(m, last.result(60), [])
