# SPDX-License-Identifier: GPL-3.0-or-later
"""packaging/deps/cache.sh: what nobody asks for any more leaves the cache, and nothing else."""
import fcntl
import hashlib
import os
import subprocess
import time

import pytest

from lib.programs import TESTS, TOOLS

DEPS = TESTS.parent / "packaging/deps"
DAY = 24 * 3600


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def sourced(call, *args, **env):
    return subprocess.run(["bash", "-euc", '. "$0"; "$@"', DEPS / "cache.sh", call, *args],
                          env=dict(os.environ, **env), capture_output=True, text=True, timeout=300)


def prune(cache, **env):
    done = sourced("cache_prune", cache, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def entry(cache, name, days=None):
    """One with something in it, last asked for so many days ago."""
    path = cache / name
    (path / "deep").mkdir(parents=True)
    (path / "deep/file").write_text("x")
    (path / "tree").write_text("/somewhere")
    if days is not None:
        (cache / ".used").mkdir(exist_ok=True)
        stamp = cache / ".used" / name
        stamp.touch()
        age(stamp, days)
    return path


def left(cache):
    return {path.name for path in cache.iterdir() if not path.name.startswith(".")}


def test_what_is_asked_for_is_there_or_not(cache):
    assert sourced("cache_use", cache / "ganesha-1").returncode != 0
    entry(cache, "ganesha-1")
    done = sourced("cache_use", cache / "ganesha-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert time.time() - (cache / ".used/ganesha-1").stat().st_mtime < DAY


def test_what_is_old_goes(cache):
    names = ["ganesha-4.3-1", "samba-2_4.17", "debian-trixie-1", "build-trixie-1"]
    for name in names:
        entry(cache, name, days=15)
        entry(cache, name + "-young", days=13)
    prune(cache)
    assert left(cache) == {name + "-young" for name in names}
    assert {path.name for path in cache.iterdir()} == left(cache) | {".lock", ".used"}
    assert {path.name for path in (cache / ".used").iterdir()} == left(cache)


def test_days_are_said(cache):
    entry(cache, "ganesha-1", days=3)
    prune(cache, POSTCOPY_CACHE_DAYS="4")
    assert left(cache) == {"ganesha-1"}
    prune(cache, POSTCOPY_CACHE_DAYS="2")
    assert left(cache) == set()


def test_who_has_left_no_time_has_it_from_now_on(cache):
    age(entry(cache, "samba-1"), 100)
    prune(cache)
    assert left(cache) == {"samba-1"}
    age(cache / ".used/samba-1", 15)
    prune(cache)
    assert not left(cache)


def test_what_is_not_ours_stays(cache):
    entry(cache, "packages-ccache", days=100)
    (cache / "build-trixie-mounted").mkdir()            # in a root: nothing that is seen there
    (cache / ".used/build-trixie-mounted").touch()
    age(cache / ".used/build-trixie-mounted", 100)
    elsewhere = entry(cache.parent, "elsewhere")
    (cache / "ganesha-link").symlink_to(elsewhere)
    prune(cache)
    assert left(cache) == {"packages-ccache", "build-trixie-mounted", "ganesha-link"}
    assert (elsewhere / "deep/file").exists()


def test_what_is_being_made_stays(cache):
    young = entry(cache, "debian-trixie-1.part", days=100)
    prune(cache)
    assert young.exists()
    age(young, 15)                                      # who made it was killed
    prune(cache)
    assert not young.exists()


def test_what_is_asked_for_meanwhile_stays(cache):
    """Who looks at it has the lock: the time is known before anything is taken away."""
    old = entry(cache, "debian-trixie-1", days=100)
    with open(cache / ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        pruner = subprocess.Popen(["bash", "-euc", '. "$0"; cache_prune "$1"',
                                   DEPS / "cache.sh", cache])
        assert sourced("cache_use", old).returncode == 0
        assert pruner.poll() is None
    assert pruner.wait(60) == 0
    assert (old / "deep/file").exists()


def test_what_was_left_half_removed_goes(cache):
    entry(cache, ".gone.ganesha-1.77")
    entry(cache, "ganesha-2", days=1)
    prune(cache)
    assert {path.name for path in cache.iterdir()} == {"ganesha-2", ".lock", ".used"}


def test_a_cache_that_is_not_ours_is_only_read(cache):
    """No time is left in it (of root, where nobody can write)."""
    entry(cache, "ganesha-1")
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && . "$0" && ' \
        'cache_use "$1/ganesha-1" && ! cache_use "$1/ganesha-2"'
    done = subprocess.run(["unshare", "--mount", "bash", "-euc", script, DEPS / "cache.sh", cache],
                          capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


# -- who uses it ----------------------------------------------------------------

def test_roots(cache):
    """A root that is there is printed, and used; for that nobody needs debootstrap, which is in
    /usr/sbin (and not in such a root)."""
    name = "debian-trixie-" + hashlib.sha256(b"attr\n").hexdigest()[:8]
    root = entry(cache, name, days=15)
    done = subprocess.run([TOOLS / "debian-root", "trixie", "attr"], capture_output=True,
                          text=True, timeout=300, env=dict(os.environ, POSTCOPY_CACHE=str(cache),
                                                          PATH="/usr/bin:/bin"))
    assert done.stdout == "%s\n" % root, done.stderr
    prune(cache)
    assert root.exists()


def test_headers(cache):
    """Those of Ganesha, from where the build has them."""
    def prepare(*options):
        done = subprocess.run([DEPS / "prepare-headers", *options, "ganesha"],
                              capture_output=True, text=True, timeout=600, check=True)
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    made = prepare()["ganesha_config_dir"].removesuffix("/config")
    cache.mkdir()
    subprocess.run(["cp", "-r", made, cache], check=True)
    found = prepare("--cache", cache)["ganesha_config_dir"]
    assert found == "%s/%s/config" % (cache, os.path.basename(made))
    assert (cache / ".used" / os.path.basename(made)).exists()
