# SPDX-License-Identifier: GPL-3.0-or-later
"""kill -9 in a migration that has two sources: retriever, SMB workers and crawler die, and
connections to both servers, at random moments; it ends as if nothing had been.

POSTCOPY_SEED=n repeats a run (the seed is printed, and shown when a test fails).
"""
import os
import random
import signal
import stat
import threading
import time

import pytest

from lib.smbgate import SmbGate
from lib.smbsource import with_module
from lib.smbtree import descriptor, parts_of
from lib.wait import wait_until
from nfsclient import RpcError
from nfsclient.proxy import Proxy
from test_kills import Visitor, covered
from test_smb_source import workers

pytestmark = with_module

DIRS, FILES = 12, 20
VICTIMS = ["retriever", "worker", "crawler"] * 3 + ["smb", "nfs"]
EARLY = -300000000 * 10 ** 9        # 1960
KEPT = ("security.NTACL", "system.posix_acl_access", "system.posix_acl_default")


@pytest.fixture(scope="module")
def contents(tree):
    """Bytes by path.  Owners, modes, times, streams, links differ from file to file."""
    source, found = random.Random(11), {}
    for d in range(DIRS):
        where = tree / ("d%d" % (d % 4)) / ("e%d" % d)
        where.mkdir(parents=True)
        for i in range(FILES):
            path = where / ("f%d" % i)
            path.write_bytes(source.randbytes(source.choice((0, 1, 4096, 20000))))
            owner = source.choice((0, 70001, 70002, 65534, 77777))
            os.chown(path, owner, source.choice((0, 70010, 65534)))
            os.chmod(path, source.choice((0o600, 0o644, 0o751, 0o4711)))
            if i % 4 == 0:
                os.setxattr(path, "user.DosStream.s:$DATA", source.randbytes(300) + b"\0")
            os.utime(path, ns=(10 ** 18 + i, EARLY + i * 100 if i % 5 == 0 else 10 ** 18 + d))
            found[bytes(path.relative_to(tree))] = path.read_bytes()
        os.link(tree / "d0/e0" / ("f%d" % (d % FILES)), where / "hard")
        found[bytes((where / "hard").relative_to(tree))] = (where / "hard").read_bytes()
        os.symlink("../e%d/f1" % d, where / "link")
        os.chown(where, 70001, 70010)
        os.chmod(where, source.choice((0o755, 0o750, 0o2770)))
    os.mkfifo(tree / "pipe")
    for path in sorted(tree.rglob("e*")) + sorted(tree.glob("d*")):
        os.utime(path, ns=(10 ** 18, 10 ** 18 + 100))
    return found


@pytest.fixture(scope="module")
def servers(contents, tree, old_server, new_samba):
    """Some descriptors say what no mode can."""
    samba = new_samba("old-smb", tree)
    with samba.client() as c:
        for d in range(DIRS):
            raw = descriptor("D:P(D;;FW;;;{carol})(A;;FA;;;{alice})(A;;FR;;;{bob})")
            c.set_security("d%d/e%d/f2" % (d % 4, d), raw, parts_of(raw))
    return old_server(tree), samba


def seen(top, where, windows):
    """What a volume shows of an object; windows: what else was made of the share's answer."""
    path = top / where
    st, found = path.lstat(), {}
    for key in ("st_uid", "st_gid", "st_mtime_ns"):
        found[key] = getattr(st, key)
    found["type"] = stat.S_IFMT(st.st_mode)
    if stat.S_ISLNK(st.st_mode):
        found["target"] = os.readlink(path)
    if stat.S_ISREG(st.st_mode):
        found["bytes"], found["nlink"] = path.read_bytes(), st.st_nlink
    if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
        names = [n for n in os.listxattr(path) if n.startswith("user.DosStream.")]
        if windows:
            found["mode"] = st.st_mode
            names += [n for n in os.listxattr(path) if n in KEPT]
        found.update((n, os.getxattr(path, n)) for n in names)
    else:
        found["mode"] = st.st_mode
    return found


def below(top):
    return {str(path.relative_to(top)): path for path in top.rglob("*")
            if ".postcopy" not in path.parts}


def same(one, other, windows, but=()):
    assert below(one).keys() == below(other).keys()
    differ = [(where, a, b) for where in sorted(below(one)) if where not in but
              for a, b in [(seen(one, where, windows), seen(other, where, windows))] if a != b]
    assert differ == [], (len(differ), differ[0])


@pytest.fixture(scope="module")
def undisturbed(make, servers):
    m = make(servers[0].url(), join=servers[1].url()).init().start()
    m.crawl()
    m.audit(complete=True)
    assert m.status()["mismatches"] == 0
    return m


class Changer(threading.Thread):
    """A client that changes files, one after the other, and comes back until it is answered."""

    def __init__(self, m, paths):
        super().__init__(daemon=True)
        self.m, self.paths, self.error = m, paths, None

    def run(self):
        try:
            for path in self.paths:
                wait_until(lambda: self.change(path), 120, "an answer")
        except Exception as err:            # told by finish()
            self.error = err

    def change(self, path):
        try:
            with self.m.client("v3", patience=60, timeout=10) as c:
                c.patient(60).setattr(path, mode=0o604)
                return c.patient(60).write(path, 1, b"ours").count == 4
        except (RpcError, OSError):
            return False

    def finish(self):
        self.join(300)
        assert not self.is_alive() and self.error is None, self.error


def kill(m, victim, rng, nfs, smb):
    if victim == "retriever":
        m.kill_retriever()
        covered(m)
        m.start_retriever()
    elif victim == "worker":
        def one():                          # the one killed before may just be going
            os.kill(rng.choice(sorted(workers(m))), signal.SIGKILL)
            return True
        wait_until(one, 60, "workers")
    elif victim == "crawler":
        m.kill_crawler()
        covered(m)
        m.start_crawler("--workers", "4")
    else:
        {"smb": smb, "nfs": nfs}[victim].cut()


def test_whoever_dies(make, servers, tree, contents, undisturbed):
    seed = int(os.environ.get("POSTCOPY_SEED") or random.SystemRandom().randrange(1 << 32))
    print("POSTCOPY_SEED=%d" % seed)
    rng = random.Random(seed)
    victims = rng.sample(VICTIMS, len(VICTIMS))
    mine = ["d%d/e%d/f7" % (d % 4, d) for d in range(1, DIRS)]
    with Proxy.for_server(servers[0]) as nfs, SmbGate(servers[1]) as smb:
        nfs.delay, smb.delay = 0.005, 0.03     # until all have died
        m = make(nfs.url(), join=smb.url()).init().start()
        m.start_crawler("--workers", "4")
        visitor = Visitor(m, {p: b for p, b in contents.items() if p.decode() not in mine},
                          rng.random())
        changer = Changer(m, rng.sample(mine, len(mine)))
        visitor.start(), changer.start()
        busy = 0
        for victim in victims:
            busy += m.status()["pending"] > 0
            time.sleep(rng.uniform(0, 0.2))
            kill(m, victim, rng, nfs, smb)
        nfs.delay = smb.delay = 0
        changer.finish()
        wait_until(lambda: m.crawler.poll() is not None, 300, "the crawler's end")
        assert m.crawler.returncode == 0, (m.workdir / "crawler.log").read_text()
        wait_until(lambda: m.status()["state"] == "complete", 60, "complete")
        visitor.finish()
        m.audit(complete=True)
        assert busy >= 4, "too quick: nothing was left to be killed"
        assert m.status()["parked"] == m.status()["mismatches"] == 0
        m.stop()
    same(tree, m.volume, False, but=mine)
    same(undisturbed.volume, m.volume, True, but=mine)
    for path in mine:
        data = contents[path.encode()]
        data = data[:1].ljust(1, b"\0") + b"ours" + data[5:]
        assert (m.volume / path).read_bytes() == data, path
        assert stat.S_IMODE((m.volume / path).stat().st_mode) == 0o604, path
        assert (m.volume / path).stat().st_uid == (tree / path).stat().st_uid
