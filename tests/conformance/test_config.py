# SPDX-License-Identifier: GPL-3.0-or-later
"""`postcopy config`: what is wrong in the settings, in which line; what is in force, and where
each value comes from. The manual page and the example have all keys."""
import json
import re
import subprocess

import pytest

from lib.programs import POSTCOPY, RETRIEVER, TESTS
from nfsclient.fakeserver import FakeServer
from nfsclient.faketree import Pattern, Tree

EXAMPLE = TESTS.parent / "packaging/examples/postcopy.conf"
MANUAL = TESTS.parent / "retriever/postcopy-retriever.8"


@pytest.fixture(scope="module")
def fake():
    tree = Tree()
    tree.file(tree.root, "f", Pattern(100))
    with FakeServer(tree) as server:
        yield server


@pytest.fixture
def m(fake, fresh_dir, new_migration):
    return new_migration(fake.url(), fresh_dir,
                         conf="# of the test\n\nconnections = 2\nthrottle = 7\n").init()


def check(*what, status=0):
    done = subprocess.run([str(POSTCOPY), "config", "check", *map(str, what)], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == status and not done.stderr, done
    return done.stdout


def parsed(file):
    done = subprocess.run([str(RETRIEVER), "--check-config", "--config", str(file)], text=True,
                          capture_output=True, timeout=300)
    return json.loads(done.stdout)


# ---- check -----------------------------------------------------------------------

def test_the_example_is_right():
    assert check(EXAMPLE) == "nothing is wrong in %s\n" % EXAMPLE


def test_each_problem_with_its_line(tmp_path):
    conf = tmp_path / "postcopy.conf"
    conf.write_bytes(b"# one\r\n# two\r\nthrotle = 5\r\n\r\nconnections = 0\r\nlog_level = \"all\"")
    assert check(conf, status=1).splitlines() == [
        '%s line 3: unknown key "throtle"; did you mean throttle?' % conf,
        "%s line 5: connections = 0: must be a number between 1 and 16" % conf,
        "%s line 6: log_level = all: must be error, warn, info or debug" % conf]
    answer = json.loads(check("--json", conf, status=1))
    assert not answer["ok"] and answer["problems"][1] == {
        "file": str(conf), "line": 5, "key": "connections", "harmless": False,
        "message": "connections = 0: must be a number between 1 and 16"}


def test_a_retriever_says_the_same(m, tmp_path):
    conf = tmp_path / "postcopy.conf"
    conf.write_text("# one\n\nthrotle = 5\n")
    done = subprocess.run([str(RETRIEVER), "--config", str(conf), str(m.volume)], text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr == ('postcopy-retriever: %s line 3: unknown key "throtle"; did you mean '
                           'throttle?\n' % conf)


def test_what_is_only_odd_is_no_failure(tmp_path):
    conf = tmp_path / "postcopy.conf"
    conf.write_text("throttle = 5\nthrottle = 6\n")
    assert check(conf).splitlines()[0] == (
        "%s line 2: warning: throttle was set in line 1 already: this one counts" % conf)


def test_no_such_file(tmp_path):
    assert check(tmp_path / "none", status=1) == (
        "%s: cannot read it: No such file or directory\n" % (tmp_path / "none"))


@pytest.mark.parametrize("order", ["file_first", "dir_first"])
def test_a_volume(m, order):
    what = [EXAMPLE, m.volume] if order == "file_first" else [m.volume, EXAMPLE]
    conf = m.volume / ".postcopy/volume.conf"
    good = conf.read_text()
    assert check(*what) == "nothing is wrong in %s and %s\n" % (EXAMPLE, conf)
    lines = good.splitlines(keepends=True)
    conf.write_text("".join(lines[:3] + ["flavour=new\n"] + lines[3:]))
    assert check(*what, status=1) == (
        '%s line 4: unknown key "flavour": written by a newer postcopy?\n' % conf)
    conf.write_text(good.replace("source=nfs:", "source=ftp:"))
    assert check(*what, status=1) == (
        "%s: source: the URI begins neither with nfs:// nor with smb:// nor with file://\n" % conf)
    conf.write_text(good)
    assert check(*what)


def test_a_directory_that_is_no_volume(tmp_path):
    assert check(EXAMPLE, tmp_path, status=1) == (
        "%s/.postcopy/volume.conf: No such file or directory\n" % tmp_path)


# ---- what the servers show past us ------------------------------------------------

EXPORT = """EXPORT {
    Export_Id = %(id)d; Path = %(path)s; Pseudo = "/%(id)d";
    FSAL { Name = %(fsal)s }
}
"""
OURS = 'STUB; %s FSAL { Name = VFS; }'
ABOVE = "clients see what is unfinished as zeros, and .postcopy"


@pytest.fixture
def other(tmp_path):
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


def exports(file, *those):
    """Of (path, FSAL), in Ganesha's words."""
    file.write_text("# EXPORT { Path = /; }\nNFS_CORE_PARAM { NFS_Port = 2049; }\n" + "".join(
        EXPORT % {"id": i, "path": path, "fsal": fsal} for i, (path, fsal) in enumerate(those)))
    return file


def seen(server, file, m, status):
    """Lines about the server's file, which is right in itself."""
    text = check("--" + server, file, EXAMPLE, m.volume, status=status)
    return [line for line in text.splitlines() if not line.startswith("nothing is wrong in ")]


def uuid(m):
    return m.tool("counts", m.volume)["uuid"]


def test_what_ganesha_shows_of_a_volume(m, tmp_path, other):
    file, v = tmp_path / "ganesha.conf", m.volume
    named = OURS % ('Volume = "%s";' % uuid(m))
    block = m.postcopy("export", "ganesha", v).stdout
    file.write_text(block)
    assert seen("ganesha", file, m, 0) == []
    assert seen("ganesha", exports(file, ('"%s"' % other, "VFS;"), (v.parent, named)), m, 0) == []
    [line] = seen("ganesha", exports(file, ("'%s'" % v.parent, "VFS;")), m, 1)
    assert line.startswith("%s line 3: export 0, %s, is above the volume %s, without FSAL STUB: %s"
                           % (file, v.parent, v, ABOVE)) and "until 'postcopy finish'" in line
    [line] = seen("ganesha", exports(file, (v, named), ("%s/" % v, "VFS;")), m, 1)
    assert line.startswith("%s line 7: export 1, %s/, is the volume" % (file, v)), line
    (v / "sub").mkdir()
    assert " is in the volume " in seen("ganesha", exports(file, (v / "sub", "VFS;")), m, 1)[0]
    (tmp_path / "link").symlink_to(v.parent)
    assert seen("ganesha", exports(file, (tmp_path / "link", "vfs ;")), m, 1)
    assert seen("ganesha", exports(file, ("/", "PROXY_V4;")), m, 0) == []
    file.write_text("EXPORT { Path = /; Export_Id = 5; }\n")       # Ganesha's default is VFS
    assert "export 5, /, is above" in seen("ganesha", file, m, 1)[0]


def test_which_volume_ganesha_shows(m, tmp_path):
    file, v = tmp_path / "ganesha.conf", m.volume
    [line] = seen("ganesha", exports(file, (v, OURS % "")), m, 0)
    assert "warning: " in line and "names no volume" in line and "postcopy export ganesha" in line
    [line] = seen("ganesha", exports(file, (v, OURS % "Volume = 0-0;")), m, 1)
    assert "names the volume 0-0, but %s is %s" % (v, uuid(m)) in line


def test_what_ganesha_includes(m, tmp_path):
    file, part = tmp_path / "ganesha.conf", tmp_path / "more" / "part.conf"
    part.parent.mkdir()
    exports(part, (m.volume.parent, "VFS;"))
    for how in ("%include more/part.conf", '%%include "%s"' % part, "%dir more"):
        file.write_text("LOG { }\n%s\n" % how)
        [line] = seen("ganesha", file, m, 1)
        assert line.startswith("%s line 3: export 0, " % part)
    for text, said in (("%url rados://x/y\n", "line 1: %url rados://x/y cannot be looked at"),
                       ("%include none.conf\n", "cannot read it"), ("A {\n", "has no }"),
                       ("A = \"x\n", "a string has no end"), ("}\n", "a } too many"),
                       ("%include ganesha.conf\n", "includes itself")):
        file.write_text(text)
        [line] = seen("ganesha", file, m, 1)
        assert said in line
    answer = json.loads(check("--json", "--ganesha", file, EXAMPLE, m.volume, status=1))
    assert not answer["ok"] and answer["problems"][0]["file"] == str(file)


def test_what_samba_shows_of_a_volume(m, tmp_path, other):
    file, v = tmp_path / "smb.conf", m.volume

    def shares(*those, top=""):
        file.write_text("[global]\n\tdisable netbios = yes\n%s\n" % top + "".join(
            "[s%d]\n\tpath = %s\n\t%s\n" % (i, path, more)
            for i, (path, more) in enumerate(those)))
        return file

    named = "vfs objects = acl_xattr stub\n\tstub:volume = " + uuid(m)
    file.write_text(m.postcopy("export", "samba", v).stdout)
    assert seen("samba", file, m, 0) == []
    assert seen("samba", shares((other, ""), (v.parent, "vfs objects = stub")), m, 0) == []
    assert seen("samba", shares((v, "stub:volume = " + uuid(m)), top="vfs objects = stub"), m,
                0) == []
    [line] = seen("samba", shares((v, named), (v.parent, "vfs objects = acl_xattr")), m, 1)
    assert line.startswith("%s: share [s1], %s, is above the volume %s, without 'stub' in its vfs "
                           "objects: %s" % (file, v.parent, v, ABOVE))
    assert " is the volume " in seen("samba", shares((v, "vfs objects =")), m, 1)[0]
    for path in v.parent.parent / "%U", "%H/" + v.parent.name:      # whatever smbd puts in
        assert ABOVE in seen("samba", shares((path, "")), m, 1)[0]
    assert seen("samba", shares((other / "%U", "")), m, 0) == []
    assert "names no volume" in seen("samba", shares((v, "vfs objects = stub")), m, 0)[0]
    assert "but %s is" % v in seen("samba", shares(
        (v, "vfs objects = stub\n\tstub:volume = 0-0")), m, 1)[0]
    for none in tmp_path / "none", "":
        assert "testparm does not take it" in seen("samba", none, m, 1)[0]


def test_an_export_of_what_is_no_volume(tmp_path):
    file = exports(tmp_path / "ganesha.conf", (tmp_path, OURS % "Volume = 0-0;"))
    assert check("--ganesha", file, EXAMPLE, tmp_path, status=1) == (
        "%s/.postcopy/volume.conf: No such file or directory\n" % tmp_path)


# ---- show ------------------------------------------------------------------------

def show(m):
    answer = json.loads(m.postcopy("config", "show", "--json", m.volume).stdout)
    answer["by"] = {s["key"]: s for s in answer["settings"]}
    return answer


def line_of(m, key):
    """Of the table for people, its cells."""
    text = m.postcopy("config", "show", m.volume).stdout
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()
            if line.startswith(key + " ")][0]


def test_what_a_running_retriever_uses(m):
    m.start_retriever()
    conf = m.workdir / "postcopy.conf"          # finish_delay comes first, see start_retriever()
    where = [line.split(" ")[0] for line in conf.read_text().splitlines()]
    answer = show(m)
    assert answer["running"] and not answer["changed"] and answer["file"] == str(conf)
    assert answer["by"]["connections"] == {
        "key": "connections", "value": 2, "text": "2", "default": "4", "from": "file",
        "line": where.index("connections") + 1}
    assert answer["by"]["inflight"]["from"] == "default"
    assert line_of(m, "connections") == ["connections", "2", "%s:%d" % (
        conf, where.index("connections") + 1)]
    assert line_of(m, "inflight") == ["inflight", "128", "default"]
    assert line_of(m, "smb_idmap") == ["smb_idmap", '""', "default"]


def test_what_commands_have_set(m):
    m.start_retriever()
    m.postcopy("throttle", m.volume, "3M")
    m.postcopy("pause", m.volume)
    m.postcopy("debug", m.volume, "on")
    answer = show(m)
    assert answer["paused"]
    assert answer["by"]["throttle"] == {
        "key": "throttle", "value": 3072, "text": "3072", "default": "0", "from": "command",
        "bytes_per_s": 3 << 20}
    assert (answer["by"]["log_level"]["text"], answer["by"]["log_level"]["from"]) == (
        "debug", "command")
    assert line_of(m, "throttle") == ["throttle", "3072 (3.0 MiB/s)", "postcopy throttle"]
    assert line_of(m, "log_level") == ["log_level", "debug", "postcopy debug"]
    m.postcopy("debug", m.volume, "off")
    assert show(m)["by"]["log_level"]["from"] == "default"
    m._end(m.retriever, 15)                     # throttle and pause stay, debug does not
    answer = show(m)
    assert not answer["running"] and answer["paused"]
    assert answer["by"]["throttle"]["from"] == "command"
    assert answer["by"]["log_level"]["from"] == "default"


def test_a_file_that_has_changed_since(m):
    m.start_retriever()
    conf = m.workdir / "postcopy.conf"
    old = conf.read_text()
    conf.write_text(old.replace("connections = 2", "connections = 3") + "# more\n")
    answer = show(m)
    assert answer["changed"]
    assert answer["by"]["connections"]["value"] == 2
    assert answer["by"]["connections"]["next"] == "3"
    assert [s["key"] for s in answer["settings"] if "next" in s] == ["connections"]
    text = m.postcopy("config", "show", m.volume).stdout
    assert "%s has changed since the retriever started: restart it" % conf in text
    assert line_of(m, "connections")[-1] == "3"
    conf.write_text(old + "nonsense\n")
    assert "it would not start with it" in m.postcopy("config", "show", m.volume).stdout
    conf.write_text(old)
    assert "no setting differs" in m.postcopy("config", "show", m.volume).stdout
    conf.unlink()
    assert show(m)["changed"]


def test_started_at_level_debug(m):
    m.conf += 'log_level = "debug"\n'
    m.start_retriever()
    assert show(m)["by"]["log_level"]["from"] == "file"
    m.postcopy("debug", m.volume, "off")
    assert (show(m)["by"]["log_level"]["text"], show(m)["by"]["log_level"]["from"]) == (
        "info", "command")


# ---- the manual page -------------------------------------------------------------

def test_the_manual_has_all_keys_and_their_defaults():
    text = MANUAL.read_text()
    text = text[text.index(".Sh CONFIGURATION"):text.index(".Sh PARKED OBJECTS")]
    items = re.split(r"^\.It Ic ", text, flags=re.MULTILINE)[1:]
    manual = {}
    for item in items:
        names, _, body = item.partition("\n")
        for name in names.split(" , "):
            assert name not in manual, name
            manual[name] = body
    keys = parsed(EXAMPLE)["settings"]
    assert sorted(manual) == sorted(s["key"] for s in keys)
    for s in keys:
        assert not s["default"] or re.search(
            r"\b%s\b" % re.escape(s["default"]), manual[s["key"]]), s
