# SPDX-License-Identifier: GPL-3.0-or-later
"""Guides: what the documents for administrators tell them to type, and what they quote.

A command is a line of a block that begins with ```sh (a \\ at the end goes on), an indented
line, or an inline `...`, that begins with one of PROGRAMS and has an argument.

A message is the inline code of a table's first column in a section where the table's
head is "seen": words of a log or of a command, ... for what differs each time.  It must
be in a string of the product's sources, in which every %s is ... too.
"""
import functools
import pathlib
import re
from dataclasses import dataclass

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = ("active", "libstubcore", "fsal_stub", "vfs_stub", "retriever", "crawler", "mirror")
PROGRAMS = frozenset("""
./check ./demo arping chmod chown cp curl dd df exportfs find fuser getent getfattr grep ip
journalctl kinit klist kill meson mkdir mkfs.ext4 mkfs.xfs mount mv nfs-cat nfs-ls ninja packaging/deps/install
postcopy postcopy-active postcopy-crawler postcopy-volume rm rsync setfattr sha256sum showmount smbclient smbstatus
smbcontrol ss stat systemctl systemd-analyze testparm touch umount xfs_growfs xfs_info xfs_repair
apt apt-get dpkg resize2fs tests/bench/sizing tests/crash/run tests/pauses tests/soak
""".split())


@dataclass(frozen=True)
class Command:
    text: str
    doc: str
    line: int
    section: str
    fenced: bool


def is_command(text):
    words = text.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    return len(words) > 1 and words[0] in PROGRAMS


def commands(doc):
    """[Command] of a document, in order."""
    found, section, lines = [], "", (TOP / doc).read_text().splitlines()
    kind, whole, begin, prose = None, "", 0, []
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            kind = None if kind is not None else line.lstrip()[3:].split(" ")[0]
        elif kind is None and line.startswith("## "):
            found += inline(prose, doc, section)
            prose, section = [], line[3:].strip()
        elif kind == "sh":
            begin = begin or number
            whole += line.strip()
            if whole.endswith("\\"):
                whole = whole[:-1]
            elif whole:
                found.append(Command(whole, doc, begin, section, True))
                whole, begin = "", 0
        elif kind is None and re.match(r" {4,}\S", line) and is_command(line.partition("  # ")[0]):
            found.append(Command(line.partition("  # ")[0].strip(), doc, number, section, True))
        elif kind is None:
            prose.append((number, line))
    return sorted(found + inline(prose, doc, section), key=lambda c: c.line)


def inline(prose, doc, section):
    """Inline code; it may go on in the next line, but not in the next paragraph."""
    found, text = [], ""
    starts = []
    for number, line in prose:
        starts.append((len(text), number))
        text += line + "\n"
    for m in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        code = " ".join(m[1].split())
        if "\n\n" not in m[1] and is_command(code):
            number = max(n for at, n in starts if at <= m.start())
            found.append(Command(code, doc, number, section, False))
    return found


def messages(doc):
    """[(line, message)] of tables that begin with | seen |."""
    found, on = [], False
    for number, line in enumerate((TOP / doc).read_text().splitlines(), 1):
        if re.match(r"\| seen \|", line):
            on = True
        elif not line.startswith("|"):
            on = False
        elif on:
            first = line.split(" | ")[0]
            found += [(number, m[1]) for m in re.finditer(r"`([^`]+)`", first)
                      if not is_command(m[1])]
    return found


def plain(text):
    """A string of the sources or of a guide, with ... for all that differs each time."""
    text = re.sub(r"\\(.)", lambda m: " " if m[1] == "n" else m[1], text)
    text = re.sub(r"\[/?[a-z ]*\]", "", text)                       # rich's markup
    text = re.sub(r"%(?:\([a-z_]+\))?[-+0 #*.0-9]*(?:ll|l|z|h)?[a-zA-Z]", "...", text)
    return re.sub(r"\s+", " ", text.replace("%%", "%")).strip()


@functools.lru_cache(None)
def strings():
    """All strings of the sources, as plain() gives them, adjacent ones joined."""
    found = set()
    for top in SOURCES:
        for path in sorted((TOP / top).rglob("*")):
            if path.suffix in (".c", ".h") or path.name == "postcopy":
                text = path.read_text()
                if path.suffix:
                    text = re.sub(r'"\s*PRI\w+\s*"', "u", text)     # "%" PRIu64 " bytes"
                    text = re.sub(r'%"\s*PRI\w+', '%u"', text)
                text = re.sub(r'"\s*\n\s*"', "", text)
                found |= {plain(m[1]) for m in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text)}
    return frozenset(found)


def is_said(message):
    """Does the product say this? ... stands for something in either."""
    want = plain(message)
    return any(want in s for s in strings())
