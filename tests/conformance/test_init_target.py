# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that `postcopy init` refuses: they take A and a for the same, or lie inside the
source.  What only looks like that is taken."""
import json
import os
import subprocess

import pytest

from lib import smbd
from lib.programs import TOOLS, VOLUME_TOOL, WORKER, build_c
from lib.volume import LoopVolume, VolumeError
from lib.wait import wait_until
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Tree

FOLDS, OVERLAP, NOT_EMPTY = (43, "target-folds-case"), (39, "target-source-overlap"), (
    32, "target-not-empty")
FOLDING = {"xfs": ("-n", "version=ci"), "ext4": ("-O", "casefold")}


def tool(command, url, target, *argv, **more):
    done = subprocess.run([str(VOLUME_TOOL), command, "--source", url, *map(str, argv), str(target)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                          **more)
    return done.returncode, json.loads(done.stdout), done.stderr


def refused(how, url, target, *argv, **more):
    status, answer, told = tool("init", url, target, *argv, **more)
    assert (status, answer.get("error")) == how, answer
    assert told.count("\n") == 1, told
    assert not os.path.exists(target / ".postcopy")
    return answer["message"]


def taken(url, target, *argv):
    status, answer, told = tool("init", url, target, *argv)
    assert status == 0, told
    assert os.path.exists(target / ".postcopy")


# -- A and a --------------------------------------------------------------------------

@pytest.fixture(scope="module")
def fake():
    tree = Tree()
    tree.file(tree.root, "secret", b"x", mode=0o600)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture(params=FOLDING)
def folding(moddir, request):
    """An empty directory of a file system that folds case."""
    volume = LoopVolume(moddir, request.param, "512M", mkfs=FOLDING[request.param])
    try:
        volume.create()
    except VolumeError as err:
        pytest.skip("this kernel does not mount it: %s" % err)
    with volume:
        top = volume.path / "top"
        top.mkdir()
        if request.param == "ext4":
            subprocess.run(["chattr", "+F", top], check=True)
        below = top / "below"           # has it from its parent
        below.mkdir()
        yield below


def test_a_file_system_that_folds_case(folding, fake):
    (folding / "a").write_bytes(b"")
    assert (folding / "A").exists()
    (folding / "a").unlink()
    message = refused(FOLDS, fake.url(), folding)
    assert "differ in case" in message and "choose" in message
    status, answer, _ = tool("check", fake.url(), folding)
    assert status == 3 and answer["target_has"]["folds_case"]
    assert "target-folds-case" in [w["code"] for w in answer["warnings"]]
    assert {p["property"]: p["volume"] for p in answer["properties"]}["names"] == "lost"


def test_what_does_not_fold_on_one_that_could(moddir, fake):
    """What counts is the directory."""
    volume = LoopVolume(moddir, "ext4", "512M", mkfs=FOLDING["ext4"])
    try:
        volume.create()
    except VolumeError as err:
        pytest.skip("this kernel does not mount it: %s" % err)
    with volume:
        (volume.path / "plain").mkdir()
        taken(fake.url(), volume.path / "plain")


def test_one_that_does_not_say_so(workdir, fake, fresh_dir):
    """Tried, not only asked: init makes .postcopy, and sees it under another name."""
    shim = build_c([TOOLS / "foldshim.c"], workdir / "build" / "foldshim.so", "-D_GNU_SOURCE",
                   "-shared", "-fPIC")
    env = dict(os.environ, LD_PRELOAD=str(shim))
    assert "differ in case" in refused(FOLDS, fake.url(), fresh_dir, env=env)
    assert os.listdir(fresh_dir) == []
    taken(fake.url(), fresh_dir)


# -- source and target on one machine -----------------------------------------------------

@pytest.fixture(scope="module")
def twins(new_volume):
    """Two fresh file systems: their inode numbers are the same."""
    tops = [new_volume("xfs", "512M").path for _ in range(2)]
    for top in tops:                    # mostly in the same tick of the clock
        (top / "data" / "deep").mkdir(parents=True)
        (top / "other").mkdir()
        (top / "data" / "deep" / "file").write_bytes(b"")
    for names in ("data/deep", "data", "other"):
        os.utime(tops[1] / names, ns=(1, os.stat(tops[0] / names).st_mtime_ns))
        one, two = (os.stat(top / names) for top in tops)
        assert one.st_ino == two.st_ino and one.st_dev != two.st_dev
    return tops


def differ(tops, name):
    """Their change times; that of the second one is set again if not."""
    one, two = (os.stat(top / name) for top in tops)
    os.utime(tops[1] / name, ns=(1, one.st_mtime_ns))
    return one.st_ctime_ns // 100 != two.st_ctime_ns // 100


@pytest.fixture(scope="module", params=["nfs", "smb"])
def source(request, twins, moddir, old_server, new_samba):
    """(URL, options) of the first one's root."""
    if request.param == "nfs":
        return old_server(twins[0]).url(), ()
    if not WORKER.exists():
        pytest.skip("built without Samba's headers")
    for name in ("data", "other"):      # SMB has nothing but times to tell them by
        wait_until(lambda: differ(twins, name), what="another tick of the clock")
    login, conf = moddir / "login", moddir / "postcopy.conf"
    login.write_text("username = root\npassword = %s\n" % smbd.PASSWORD)
    login.chmod(0o600)
    conf.write_text('smb_credentials = "%s"\nsmb_worker = "%s"\n' % (login, WORKER))
    return new_samba("old", twins[0]).url(), ("--config", conf)


def test_target_inside_the_source(source, twins):
    for below in ("other", "data/deep"):
        assert "lies inside the source" in refused(OVERLAP, source[0], twins[0] / below, *source[1])
    refused(OVERLAP, source[0], twins[0], *source[1])


def test_target_of_another_file_system_that_looks_the_same(source, twins):
    """Same names, same inode numbers, one level up or more."""
    for below in ("other", "data/deep"):
        status, answer, _ = tool("check", source[0], twins[1] / below, *source[1])
        assert status == 3, answer
    target = twins[1] / "other"
    taken(source[0], target, *source[1])
    subprocess.run(["rm", "-r", target / ".postcopy"], check=True)
    refused(NOT_EMPTY, source[0], twins[1], *source[1])


def test_source_inside_the_target(twins, old_server):
    """Whatever it is exported as."""
    server = old_server(twins[0] / "data" / "deep")
    for target in (twins[0], twins[0] / "data"):
        assert "lies inside the target" in refused(OVERLAP, server.url(), target)
    for target in (twins[1], twins[1] / "data"):
        refused(NOT_EMPTY, server.url(), target)
    taken(server.url(), twins[1] / "other")
    subprocess.run(["rm", "-r", twins[1] / "other" / ".postcopy"], check=True)


def test_roots_of_fresh_file_systems(new_volume, old_server):
    """Each XFS has a root of the same number and generation: the two have the same handle."""
    one, two = (new_volume("xfs", "512M").path for _ in range(2))
    server = old_server(one)
    assert tool("check", server.url(), two)[0] == 3
    refused(OVERLAP, server.url(), one)


def test_an_empty_source(twins, old_server):
    """Nothing is in it to tell it by."""
    server = old_server(twins[0] / "other")
    refused(OVERLAP, server.url(), twins[0] / "other")
    taken(server.url(), twins[1] / "other")
    subprocess.run(["rm", "-r", twins[1] / "other" / ".postcopy"], check=True)
