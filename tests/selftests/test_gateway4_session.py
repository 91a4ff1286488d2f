# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake server's sessions, without a socket: what a reader by NFSv4.1 sends, and what it must not."""
import pytest

from nfsclient import errors
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree
from nfsclient.gateway4 import compound
from nfsclient.nfs4 import OPS, Compound
from nfsclient.nfs4_attrs import LEASE_TIME, TYPE
from nfsclient.nfs4_session import _get_exchange, _get_sequence, _get_session, _put_channel
from nfsclient.rpcserver import Cred
from nfsclient.xdr import Packer, Unpacker


@pytest.fixture
def fake():
    return FakeServer(Tree())


def run(fake, c, minor=1):
    return c.decode(Unpacker(compound(fake, Unpacker(c.encode(minor)), Cred(0, 0, ()))))


def exchange(fake, minor=1):
    p = Packer().fixed(bytes(8)).opaque(b"me").u32(3).u32(0).u32(0)
    return run(fake, Compound().add("EXCHANGE_ID", p, _get_exchange), minor)[0]


def create(fake):
    client, sequence = exchange(fake)
    p = Packer().u64(client).u32(sequence).u32(0)
    _put_channel(_put_channel(p, 4), 1)
    p.u32(0x40000000).array([0], Packer.u32)
    return run(fake, Compound().add("CREATE_SESSION", p, _get_session))[0][0]


def call(session, number, slot=0):
    return Compound().add("SEQUENCE", Packer().fixed(session).u32(number).u32(slot).u32(slot)
                          .u32(0), _get_sequence)


def status(fake, c):
    with pytest.raises(errors.NfsError) as failed:
        run(fake, c)
    return failed.value.status


def test_a_session_is_used(fake):
    session = create(fake)
    first = call(session, 1).add("RECLAIM_COMPLETE", Packer().boolean(False)).putrootfh()
    assert run(fake, first.getattr([LEASE_TIME]))[-1] == {LEASE_TIME: 60}
    answer = run(fake, call(session, 2).putfh(fake.tree.root.fh).getattr([TYPE]))
    assert answer[-1] == {TYPE: 2}
    assert run(fake, call(session, 1, slot=3))[0][0] == session
    assert (fake.sessions.made, fake.sessions.broken) == (1, [])


def test_what_is_refused(fake):
    session = create(fake)
    assert status(fake, call(b"another session.", 1)) == errors.BADSESSION
    assert not fake.sessions.broken
    assert status(fake, call(session, 2)) == errors.SEQ_MISORDERED
    assert status(fake, call(session, 1, slot=4)) == errors.BADSLOT
    assert len(fake.sessions.broken) == 2
    bare = Compound().putfh(fake.tree.root.fh).getattr([TYPE])
    assert status(fake, bare) == errors.OP_NOT_IN_SESSION
    fake.sessions.drop = 1
    assert status(fake, call(session, 1)) == errors.BADSESSION
    assert status(fake, call(session, 1)) == errors.BADSESSION  # it is gone
    fake.minor = 0
    with pytest.raises(errors.NfsError) as failed:
        exchange(fake)
    assert failed.value.status == errors.MINOR_VERS_MISMATCH


def test_a_client_that_has_started_again_has_no_session(fake):
    session = create(fake)
    exchange(fake)
    assert status(fake, call(session, 1)) == errors.BADSESSION
    session = create(fake)
    assert run(fake, Compound().add("DESTROY_SESSION", Packer().fixed(session)))
    assert (fake.sessions.made, fake.sessions.ended) == (2, 1)
    assert "DESTROY_CLIENTID" in OPS
