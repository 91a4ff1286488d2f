# SPDX-License-Identifier: GPL-3.0-or-later
"""From one SMB server to another: all that SMB knows of every object, compared over SMB,
while it is fetched on demand and when all of it is here."""

import pytest

from lib import smbtree
from lib.migration import SmbMigration
from lib.smbsource import with_module
from smb2client import wire

pytestmark = with_module


@pytest.fixture(scope="module")
def old(new_samba, tree):
    server = new_samba("old", tree, more=smbtree.RAW_NAMES)
    with server.client() as c:
        smbtree.Builder(c, entries=300, deep=10).build()
    server.shares[0].readonly = True
    return server.restart()


@pytest.fixture
def migrate(make, old):
    """A migration of the old share; nothing has been asked for."""
    return make(old.url(), kind=SmbMigration, more=smbtree.RAW_NAMES).init().start()


def compared(old, m, **options):
    with old.client() as was, m.client() as is_:
        return list(smbtree.compare(was, is_, **options))


def told(found):
    return "\n".join(map(str, found))


def test_on_demand_and_at_the_end(old, migrate):
    """Nothing was asked for before; the comparer reads all of it, and again when it is here."""
    assert told(compared(old, migrate, migrating=True)) == ""
    migrate.crawl()
    migrate.audit(complete=True)
    assert told(compared(old, migrate)) == ""


def test_metadata_needs_no_data(old, migrate):
    """All but bytes, which stay where they are."""
    assert told(compared(old, migrate, migrating=True, data=False)) == ""
    with migrate.client() as c:
        for size in (s for s in smbtree.SIZES if s):
            assert c.stat("sizes/%d" % size).attributes & wire.ATTR_OFFLINE
    assert migrate.status()["bytes_done"] == 0


def test_crawled_unseen(old, migrate):
    """No client was there before the end."""
    migrate.crawl()
    migrate.audit(complete=True)
    assert told(compared(old, migrate)) == ""


def test_opened_by_path(old, migrate):
    """A client that knows a path has nothing listed on its way there."""
    path = "deep/" + "/".join("level %d" % i for i in range(10))
    with migrate.client() as c, old.client() as was:
        assert c.read_file(path) == was.read_file(path)
    migrate.crawl()
    migrate.audit(complete=True)
    assert told(compared(old, migrate)) == ""
