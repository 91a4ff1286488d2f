# SPDX-License-Identifier: GPL-3.0-or-later
"""Completion in bash knows every command and every option that postcopy knows, and the volumes."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pty
import re
import select
import shlex
import subprocess
import time

import pytest

from lib.programs import BUILD, POSTCOPY, TESTS, VOLUME_TOOL

COMPLETION = TESTS.parent / "packaging/completion/postcopy"


def command_table():
    """{(command, ...): what may follow it}, from the command itself."""
    loader = importlib.machinery.SourceFileLoader("postcopy_command", str(POSTCOPY))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    table = {}

    def look(parser, path):
        words = set()
        for action in parser._actions:
            words.update(o for o in action.option_strings if o.startswith("--"))
            if isinstance(action, argparse._SubParsersAction):
                words.update(action.choices)
                for name, below in action.choices.items():
                    look(below, (*path, name))
            elif action.choices and not action.option_strings:
                words.update(action.choices)
        table[path] = words

    look(module.parser(), ())
    return table


TABLE = command_table()
REASONS = {r["code"] for r in json.loads(subprocess.run(
    [str(VOLUME_TOOL), "reasons"], check=True, capture_output=True, timeout=300).stdout)["reasons"]}
# words that argparse does not know of
POSITIONAL = {("window",): {"show", "none"},
              ("order",): {"show", "default", "recent", "small", "large", "ahead=", "first=", "last="},
              ("mirror", "mode"): {"sync", "partly-async", "async"},
              ("retry",): REASONS}


def complete(*words, env=None, cwd="/"):
    """What bash would offer for the last of the words."""
    line = re.sub(r" ([:=]) ", r"\1", " ".join(("postcopy", *words)))
    script = "source %s; COMP_WORDS=(%s); COMP_CWORD=%d; COMP_LINE=%s; COMP_POINT=%d; " \
        "_postcopy postcopy '' ''; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
            shlex.quote(str(COMPLETION)),
            " ".join(map(shlex.quote, ("postcopy", *words))), len(words), shlex.quote(line),
            len(line))
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                          timeout=300, cwd=cwd, env={**os.environ, **(env or {})})
    assert done.returncode == 0 and not done.stderr, done
    return sorted(word for word in done.stdout.splitlines() if word)


@pytest.mark.parametrize("path", sorted(TABLE), ids=lambda path: "-".join(path) or "postcopy")
def test_what_the_command_knows(path):
    words = TABLE[path] | POSITIONAL.get(path, set())
    options = {w for w in words if w.startswith("-")}
    assert set(complete(*path, "--")) == options
    offered = set(complete(*path, ""))
    assert words <= offered, words - offered
    assert all("/" in w or os.path.exists("/" + w) for w in offered - words), offered - words


def test_options_with_values_are_known():
    """Else the completion takes their values for something else."""
    loader = importlib.machinery.SourceFileLoader("postcopy_command", str(POSTCOPY))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    known = re.findall(r"--[a-z-]+", COMPLETION.read_text().split("_postcopy_values()")[1].split(
        "esac")[0])

    def look(parser):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for below in action.choices.values():
                    look(below)
            for option in action.option_strings:
                if option.startswith("--"):
                    assert (option in known) == (action.nargs != 0), option

    look(module.parser())


def test_values(tmp_path):
    assert complete("init", "--source", "") == ["file:///", "nfs://", "smb://"]
    assert complete("init", "--source", "n") == ["nfs://"]
    assert complete("init", "--source", "=", "s") == ["smb://"]
    assert complete("init", "--source", "nfs", ":", "//o") == []
    assert complete("init", "--protocols", "nfs") == ["nfs", "nfs,smb"]
    (tmp_path / "a file").write_text("")
    (tmp_path / "a dir").mkdir()
    assert complete("init", "--config", "a", cwd=tmp_path) == ["a dir", "a file"]
    assert complete("init", "--streams", "depot", ":", "a", cwd=tmp_path) == ["a dir"]
    assert complete("crawl", "--workers", "") == []
    assert complete("config", "check", "a", cwd=tmp_path) == ["a dir", "a file"]


def test_volumes(tmp_path):
    (tmp_path / "volumes").write_text("/srv/data\n/srv/my files\n")
    env = {"POSTCOPY_VOLUMES": str(tmp_path / "volumes")}
    assert complete("status", "/srv/", env=env, cwd=tmp_path)[:2] == ["/srv/data", "/srv/my files"]
    assert "/srv/my files" in complete("export", "samba", "/srv/m", env=env, cwd=tmp_path)
    assert complete("status", "/srv/", env={"POSTCOPY_VOLUMES": "/nonexistent"}) == sorted(
        "/srv/" + name for name in os.listdir("/srv") if os.path.isdir("/srv/" + name))


class Terminal:
    """A bash that somebody types into."""

    def __init__(self, env):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**os.environ, **env, "PS1": "ready> ", "TERM": "dumb"})

    def until(self, text, seconds=60):
        seen, end = "", time.monotonic() + seconds
        while text not in seen:
            assert time.monotonic() < end, seen
            if select.select([self.fd], [], [], 1)[0]:
                seen += os.read(self.fd, 4096).decode(errors="replace")
        return seen

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_tab_in_a_terminal(tmp_path):
    (tmp_path / "volumes").write_text("/srv/my files\n")
    shell = Terminal({"POSTCOPY_VOLUMES": str(tmp_path / "volumes")})
    try:
        shell.until("ready> ")
        shell.type("source %s; bind 'set enable-bracketed-paste off'; echo lo''aded\n" % shlex.quote(
            str(COMPLETION)))
        shell.until("loaded\r\n")
        shell.type("postcopy sta\t")
        shell.until("postcopy status ")
        shell.type("--w\t/srv/m\t")
        shell.until(r"--watch /srv/my\ files")
        shell.type("\x15postcopy init --source n\told")    # no blank after nfs://
        shell.until("--source nfs://old")
    finally:
        shell.close()


def test_it_is_installed_where_bash_looks():
    told = json.loads(subprocess.run(["/usr/bin/meson", "introspect", "--installed", str(BUILD)],
                                     check=True, capture_output=True, text=True,
                                     timeout=300).stdout)
    told = {os.path.normpath(source): target for source, target in told.items()}
    assert told[str(COMPLETION)].endswith("/share/bash-completion/completions/postcopy")
