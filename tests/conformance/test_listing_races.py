# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory is read while another client removes what is in it.

No READDIR fails as a whole because one name has just gone.  Stock Ganesha does that in
two places: FSAL_VFS looks up each name that it has read (NOENT), and MDCACHE asks for the
attributes of an entry that is gone from the volume, but not yet from its list (STALE).

The old server holds the listing in the middle, at a stub without attributes, and the
removal before it happens.  Attributes are not cached, so the listing asks for all of
them; those of stubs expire every second anyway (docs/decisions/0008).
"""
import os
import threading

import pytest

from lib.wait import wait_until
from nfsclient.hooks import Gate, only

ATTR_CACHE = 0
FSAL_MORE = "Delay_V3 = 60000; Delay_V4 = 60000;"      # a request waits as long as it takes
NAMES = ["d0", "d1", "d2", "d3", "d4"]


class Doing(threading.Thread):
    """A client's request, while others do theirs."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.value, self.error = call, None, None
        self.start()

    def run(self):
        try:
            self.value = self.call()
        except Exception as err:
            self.error = err

    def result(self):
        self.join(60)
        assert not self.is_alive() and self.error is None, self.error
        return self.value


def held(case, proc, name):
    """A gate for calls about one object at the old server."""
    node, gate = case.node(name), Gate()
    case.world.fake.hook(proc, only(lambda call: call.node is node, gate))
    return gate


@pytest.fixture
def order(case):
    """Unlisted directories, in the order in which they are read; the middle one is a
    stub without attributes."""
    for name in NAMES:
        case.dir(name)
    case.list()
    with os.scandir(case.world.volume / case.path()) as entries:
        order = [e.name for e in entries]
    assert sorted(order) == NAMES
    case.world.stubtool("dummy", case.path(order[2]))
    return order


@pytest.mark.parametrize("attrs", [True, False])
@pytest.mark.parametrize("at", [1, 3], ids=["was read", "will be"])
def test_removed_in_the_middle(case, client, order, at, attrs):
    name, path = order[at], case.path(order[at])
    local, fh = case.world.volume / path, client.fh(case.path())
    removal, listing = held(case, "READDIRPLUS", name), held(case, "GETATTR", order[2])
    with case.world.client("v3") as other:
        doing = [Doing(lambda: other.rmdir((fh3, name)))
                 for fh3 in [other.fh(case.path())]]
        try:
            wait_until(lambda: removal.waiting, 30, "removal held")
            doing.append(Doing(lambda: client.listdir(fh, attrs=attrs, whole=False)))
            wait_until(lambda: listing.waiting, 30, "listing held")
            removal.open()
            wait_until(lambda: not local.exists(), 30, "removed from the volume")
        finally:
            removal.open(), listing.open()
        found = {e.name.decode() for e in doing[1].result()}
        doing[0].result()
    case.gone(name)
    assert set(NAMES) - {name} <= found <= set(NAMES)
    assert client.names(case.path()) == sorted(n.encode() for n in set(NAMES) - {name})
