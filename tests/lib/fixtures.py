# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the suites that share a world or an old SMB server.

    world    a fake old server, a volume and new servers for the module: WORLD of the module
             says which (NfsWorld: Ganesha), ATTR_CACHE, CONF, FSAL_MORE, MORE its options
    case     one test's directory: its source, its model, the state it is in (lib.case)
    client   an NFS client of each version; client3, client4, client42: of one, or some
    smb      an administrator's SMB session
    tree     a directory for an old server's files
    make     make(url, ...): a Migration of a share of class Samba, with USERS in its idmap;
             ends with the module
    homes    where the workers' directories go; none of them stays
    realm    a Kerberos realm for the module, with its PRINCIPALS; tickets of ten hours
    quick    quick(seconds): one whose tickets are over then; at most one a test
    in_realm what the test starts is in the realm
"""
import contextlib

import pytest

from lib import smbd
from lib.case import PLACES, STATES
from lib.kdc import Kdc
from lib.programs import MODULES
from lib.smbsource import IDMAP, migrations, settings
from lib.wait import wait_until
from lib.world import NfsWorld
from nfsclient import PROTOCOLS

OPTIONS = ("ATTR_CACHE", "CONF", "FSAL_MORE", "MORE", "RELEASE")


@pytest.fixture(scope="module")
def world(request, moddir, loop_xfs, rpcshim):
    kind = getattr(request.module, "WORLD", NfsWorld)
    if kind.SMB and not (MODULES / "stub.so").exists():
        pytest.skip("no Samba module in %s" % MODULES)
    volume = loop_xfs.path / "volume"
    volume.mkdir()
    options = {key.lower(): getattr(request.module, key) for key in OPTIONS
               if hasattr(request.module, key)}
    with kind(moddir / "world", volume, rpcshim, **options) as w:
        yield w


@pytest.fixture
def case(world, request):
    c = world.case(request.node.name)
    yield c
    world.fake.clear_hooks()
    world.fake.resume()
    try:
        c.close()
        world.audit()
    except BaseException:
        c.free = True
        raise


@pytest.fixture(params=PROTOCOLS)
def client(world, request):
    with contextlib.closing(world.client(request.param)) as c:
        yield c


@pytest.fixture(params=PROTOCOLS[1:])
def client4(world, request):
    with contextlib.closing(world.client(request.param)) as c:
        yield c


@pytest.fixture
def client42(world):
    with contextlib.closing(world.client("v4.2")) as c:
        yield c


@pytest.fixture
def client3(world):
    with contextlib.closing(world.client("v3")) as c:
        yield c


@pytest.fixture(params=STATES)
def state(request):
    return request.param


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


@pytest.fixture
def smb(world):
    with world.smbd.client() as c:
        yield c


# -- an old SMB server ----------------------------------------------------------------

@pytest.fixture(scope="module")
def tree(loop_xfs):
    top = loop_xfs.path / "old"
    top.mkdir(mode=0o755)
    return top


@pytest.fixture(scope="module")
def make(moddir, new_volume, rpcshim):
    login = moddir / "login"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    (moddir / "idmap").write_text(IDMAP)
    with migrations(moddir, new_volume, rpcshim) as begin:
        yield lambda url, fstype="xfs", idmap=moddir / "idmap", conf="", call_timeout=2000, \
            **kw: begin(url, conf + settings(smb_credentials=login, smb_idmap=idmap,
                                             call_timeout=call_timeout), fstype, **kw)


@pytest.fixture
def homes(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    wait_until(lambda: not list(tmp_path.glob("postcopy-smb-*")), 20, "the workers' directories")


# -- Kerberos ---------------------------------------------------------------------------

def new_realm(request, workdir, **kw):
    realm = Kdc(workdir, **kw).start()
    for name in request.module.PRINCIPALS:
        realm.principal(name)
    return realm


@pytest.fixture(scope="module")
def realm(request, moddir):
    realm = new_realm(request, moddir / "kdc")
    yield realm
    realm.stop()


@pytest.fixture
def quick(request, moddir, monkeypatch):
    made = []

    def make(life):
        workdir = moddir / ("kdc-%d-%d" % (life, len(list(moddir.glob("kdc-*")))))
        made.append(new_realm(request, workdir, life=life))
        monkeypatch.setenv("KRB5_CONFIG", made[-1].environ["KRB5_CONFIG"])
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def in_realm(realm, monkeypatch):
    monkeypatch.setenv("KRB5_CONFIG", realm.environ["KRB5_CONFIG"])
