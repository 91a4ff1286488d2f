# SPDX-License-Identifier: GPL-3.0-or-later
"""The smbd of Debian 13 (Samba 4.22) as the old server: all that SMB knows comes over
from it too.  Releases differ in what they say to the same call."""
import functools
import json

import pytest

from lib import debian, smbd, smbtree
from lib.smbsource import PATIENT, with_worker
from lib.smbtree import Builder, compare
from test_smb_meta import build_access

pytestmark = with_worker

RELEASE = debian.other(debian.NEWER)
SHOWN = smbtree.RAW_NAMES + "\nveto files = /.postcopy/"


@pytest.fixture(scope="module")
def newer(loop_xfs):
    return functools.partial(smbd.Samba, release=RELEASE)


@pytest.fixture(scope="module")
def server(newer, moddir, tree):
    with newer(moddir / "old", tree, more=smbtree.RAW_NAMES) as server:
        yield server


@pytest.fixture(scope="module")
def old(server):
    with server.client() as c:
        Builder(c, entries=50, deep=5).build()
        build_access(c)
        yield c


def test_it_is_newer(server):
    assert server.version >= (4, 22)


def test_everything_comes_over(new_samba, make, server, old):
    m = make(server.url(), call_timeout=PATIENT).init().start()
    m.crawl()
    m.audit(complete=True)
    assert m.status()["metadata_lost"] == m.status()["source_reconnects"] == 0, m.status()
    new = new_samba("new", m.volume, more=SHOWN)
    counts = {}
    with new.client() as c:
        found = [str(d) for d in compare(old, c, counts=counts)]
    assert not found, "\n".join(found)
    assert counts["objects"] > 200


def test_streams_of_any_size(new_samba, make, server, old, loop_xfs):
    """As files (streams_depot), from where they are extended attributes."""
    m = make(server.url())
    m.streams = "depot:%s" % (loop_xfs.path / "depot")
    m.init().start()
    m.crawl()
    m.audit(complete=True)
    new = new_samba("depot", m.volume, vfs=("acl_xattr", "fileid", "streams_depot"), more=SHOWN + """
fileid:algorithm = fsname
streams_depot:directory = %s
streams_depot:delete_lost = yes""" % (loop_xfs.path / "depot"))
    with new.client() as c:
        found = [str(d) for d in compare(old, c, "streams")]
    assert not found, "\n".join(found)


def test_init_check(new_samba, make, tree, server, old):
    """The same as of the Samba of this machine."""
    answers = []
    for one in (server, new_samba("stock", tree, more=smbtree.RAW_NAMES)):
        m = make(one.url())
        (m.workdir / "postcopy.conf").write_text(m.conf)
        done = m.postcopy("init", "--check", "--names", "--json", "--source", m.url, "--config",
                          m.workdir / "postcopy.conf", m.volume, check=False)
        answers.append({key: json.loads(done.stdout)[key]
                        for key in ("properties", "kinds", "walked")})
    assert answers[0] == answers[1] and answers[0]["walked"]["names"] > 200


@pytest.mark.parametrize("wants", ["server smb encrypt = required", "server signing = mandatory"])
def test_a_server_that_insists(newer, moddir, make, tree, old, wants):
    server = newer(moddir / wants.split()[-1], tree, more=smbtree.RAW_NAMES, conf=wants)
    server._ready = lambda: server.smbclient("exit").returncode == 0    # not the suite's client
    with server:
        m = make(server.url() + "/sizes").init().start()
        m.crawl()
        m.audit(complete=True)
        assert (m.volume / "65537").read_bytes() == (tree / "sizes/65537").read_bytes()
