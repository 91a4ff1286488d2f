# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is the root of its file system, as most are.

Ganesha looks up ".." of every export's root.  FSAL_VFS follows it out of the file
system, claims the one above, and says from then on that it is the export's.
"""
import pytest

from lib.expect import status_of
from lib.migration import Migration
from nfsclient import PROTOCOLS, errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

DATA = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def server(workdir, rpcshim, new_volume):
    tree = Tree()
    for proto in PROTOCOLS:
        tree.file(tree.mkdir(tree.root, proto), "f", DATA)
    with FakeServer(tree) as fake:
        m = Migration(workdir / "mount-root", fake.url(), new_volume().path, shim=rpcshim)
        m.init().start()
        yield m
        m.crawl()
        m.audit(complete=True)
        m.stop()


@pytest.fixture
def client(server, proto):
    with server.client(proto) as c:
        yield c.patient(30)


def test_what_is_missing_is_fetched(client, proto):
    assert client.read_file(proto + "/f") == DATA


def test_hidden(client):
    assert status_of(client.lookup, ".postcopy") == errors.NOENT
    assert b".postcopy" not in client.names()


def test_listed(client):
    assert client.names() == sorted(p.encode() for p in PROTOCOLS)
