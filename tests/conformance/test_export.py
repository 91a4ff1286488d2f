# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy export` prints what init printed, byte for byte, at any time of the migration; the
servers take it."""
import json
import pathlib
import subprocess

import pytest

from lib.programs import POSTCOPY
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

BODY = Pattern(5000)


@pytest.fixture(scope="module")
def fake():
    tree = Tree()
    tree.file(tree.root, "f", BODY, mode=0o644)
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    return new_migration(fake.url(), fresh_dir)


def init(m, *more):
    return m.postcopy("init", "--source", m.url, "--socket", m.socket, "--control", m.control,
                      *more, m.volume).stdout


def export(m, server, *more):
    return m.postcopy("export", server, *more, m.volume).stdout


def test_the_bytes_that_init_printed_at_any_time(m):
    printed = init(m)
    blocks = {"ganesha": export(m, "ganesha"), "samba": export(m, "samba")}
    assert blocks["ganesha"].startswith("EXPORT {\n") and blocks["samba"].startswith("[d-")
    for server, block in blocks.items():
        assert "\n%s\n" % block in printed
        assert json.loads(export(m, server, "--json"))["block"] == block
    uuid = json.loads(m.postcopy("blocks", "--json", m.volume).stdout)["uuid"]
    assert 'Volume = "%s";' % uuid in blocks["ganesha"]
    assert "stub:volume = %s\n" % uuid in blocks["samba"]
    m.start_retriever()
    assert [export(m, server) for server in blocks] == list(blocks.values())
    m.crawl()
    assert [export(m, server) for server in blocks] == list(blocks.values())
    assert m.postcopy("blocks", m.volume).stdout in printed
    m.postcopy("finish", m.volume)
    done = m.postcopy("export", "ganesha", m.volume, check=False)
    assert done.returncode and not done.stdout and len(done.stderr.splitlines()) == 1


def test_the_list_of_volumes_is_where_the_environment_says(m, monkeypatch, tmp_path):
    """All commands keep and read that one, and leave the machine's alone."""
    machines = pathlib.Path("/etc/postcopy/volumes")
    monkeypatch.setenv("POSTCOPY_VOLUMES", str(tmp_path / "mine"))
    init(m)
    assert (tmp_path / "mine").read_text() == "%s\n" % m.volume
    assert json.loads(m.postcopy("status", "--json").stdout)["volume"] == str(m.volume)
    assert not machines.exists() or str(m.volume) not in machines.read_text()
    monkeypatch.setenv("POSTCOPY_VOLUMES", str(tmp_path / "none" / "mine"))
    done = m.postcopy("status", check=False)
    assert done.returncode == 2 and str(tmp_path / "none" / "mine") in done.stderr
    m.start_retriever()
    m.crawl()
    monkeypatch.setenv("POSTCOPY_VOLUMES", str(tmp_path / "mine"))
    m.postcopy("finish")
    assert not (tmp_path / "mine").exists()


def test_where_streams_are_is_the_volumes_to_say(m):
    """As init --streams of an SMB source has written it."""
    init(m)
    conf = m.volume / ".postcopy/volume.conf"
    conf.write_text(conf.read_text().replace("source_id=", "depot=/srv/streams\ndepot_id=7\n"
                                             "source_id="))
    block = export(m, "samba")
    assert "streams_depot:directory = /srv/streams\n" in block
    assert "\n%s\n" % block in m.postcopy("blocks", m.volume).stdout


def test_what_is_not_known_is_an_option(m):
    init(m)
    block, other = export(m, "ganesha"), export(m, "ganesha", "--id", "77", "--pseudo", "/new")
    assert block.replace("Export_Id = 1;                  # any number that is free",
                         "Export_Id = 77;").replace('Pseudo = "/export"', 'Pseudo = "/new"') == other
    assert export(m, "samba", "--name", "data$").startswith("[data$]\n")
    for wrong in (["ganesha", "--id", "0"], ["ganesha", "--id", "65536"], ["ganesha", "--id", "x"],
                  ["ganesha", "--pseudo", "new"], ["ganesha", "--pseudo", '/a"'],
                  ["ganesha", "--name", "x"], ["samba", "--id", "5"], ["samba", "--name", "a]b"],
                  ["samba", "--name", "global"], ["samba", "--name", "x\n"], ["nfsd"]):
        done = m.postcopy("export", *wrong, m.volume, check=False)
        assert done.returncode == 2 and not done.stdout, wrong


def test_a_path_that_a_server_cannot_have(m):
    init(m)
    done = m.postcopy("export", "samba", m.volume.rename(m.volume.with_name("a%Ub")), check=False)
    assert done.returncode == 1 and not done.stdout and "cannot have the path" in done.stderr


def test_ganesha_serves_by_it(m):
    """Beside the test's own export of the same volume."""
    init(m)
    m.start_retriever()
    m.server.conf += export(m, "ganesha", "--id", "77", "--pseudo", "/printed")
    m.server.start()
    with m.server.client("v4.1", "/printed") as client:
        assert client.read_file("f") == BODY.read(0, 5000)


def test_samba_takes_it(m, tmp_path):
    init(m)
    conf = tmp_path / "smb.conf"
    conf.write_text("[global]\n%s" % export(m, "samba", "--name", "data"))
    said = subprocess.run(["testparm", "-s", "--section-name", "data", str(conf)],
                          capture_output=True, text=True, timeout=300)
    assert said.returncode == 0 and "path = %s\n" % m.volume in said.stdout


def test_without_a_volume(tmp_path):
    done = subprocess.run([str(POSTCOPY), "export", "ganesha", str(tmp_path)], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode >= 10 and not done.stdout and len(done.stderr.splitlines()) == 1
