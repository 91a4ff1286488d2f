# SPDX-License-Identifier: GPL-3.0-or-later
"""What any page of ours is made of: elements, their look, and the file (decision 0067).

Nothing is pasted into text: a page is a tree of xml.etree elements, which escapes all that is put
into it when it is written. What a terminal or a reader could be fooled by is shown as \\xNN.
"""
from __future__ import annotations

import errno
import os
import stat
import tempfile
import xml.etree.ElementTree as ET
from typing import Union

from postcopy_status import harmless, quoted

Child = Union[str, ET.Element, None]

MARK = "<!DOCTYPE html>\n<!-- postcopy report 1 -->\n"      # what is written over unforced
LONGEST = 300           # characters of a text from outside

# Nothing may be loaded or run, whoever wrote it
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light dark;
  --page: #ffffff; --ink: #1c2430; --soft: #5b6675; --rule: #dde2e8; --tile: #f5f7f9;
  --blue: #1f6fb2; --fill: #1f6fb224; --maybe: #1f6fb23d; --idle: #8a94a01f; --good: #1c7c4a;
  --warn: #96610a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14181d; --ink: #e4e8ed; --soft: #98a3b0; --rule: #2c343d; --tile: #1b2128;
  --blue: #6cb2ee; --fill: #6cb2ee29; --maybe: #6cb2ee45; --idle: #aab4bf21; --good: #6cc596;
  --warn: #e0b25c; --bad: #f28b82; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; font-weight: 600; }
h2 { font-size: 18px; margin: 32px 0 12px; padding-top: 14px; border-top: 1px solid var(--rule);
  font-weight: 600; }
h3 { font-size: 15px; margin: 0 0 4px; font-weight: 600; }
p { margin: 0 0 10px; max-width: 76ch; }
h1, h2, h3, p, li, td, th, dd, code { overflow-wrap: anywhere; }
code { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.soft, figcaption, .tile small, dt { color: var(--soft); }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.state { font-weight: 600; }
.tiles { display: grid; gap: 12px; margin: 24px 0 8px;
  grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); }
.tile { background: var(--tile); border-radius: 6px; padding: 14px 16px; min-width: 0; }
.tile small { display: block; font-size: 13px; }
.tile b { display: block; font-size: 22px; line-height: 1.35; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.meter { height: 8px; border-radius: 4px; background: var(--rule); margin: 16px 0 4px;
  overflow: hidden; }
.meter div { height: 100%; background: var(--blue); }
.note { border-left: 3px solid var(--warn); padding: 2px 0 2px 14px; margin: 16px 0; }
.note ul { margin: 0; padding-left: 18px; }
.plots { display: grid; gap: 24px 28px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
figure { margin: 0; min-width: 0; }
figcaption { font-size: 13px; margin-top: 4px; }
.plots + p, .plots + .keys { margin-top: 12px; }
.keys { margin-bottom: 4px; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.tick { fill: var(--soft); } text.note { fill: var(--ink); }
.grid { stroke: var(--rule); stroke-width: 1; }
.idle { fill: var(--idle); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke: var(--blue); }
.line.found, .line.today { stroke: var(--soft); stroke-width: 1.5; }
.line.predicted { stroke-dasharray: 5 4; } .line.today { stroke-dasharray: 1 4; }
.line.truth { stroke: var(--good); }
.area { stroke: none; } .area.done { fill: var(--fill); } .area.maybe { fill: var(--maybe); }
.dot { fill: var(--blue); } .bar { fill: var(--blue); }
.mark { stroke: var(--soft); stroke-dasharray: 2 3; }
.key { display: inline-block; width: 18px; height: 0; border-top: 2px solid var(--blue);
  vertical-align: middle; margin: 0 5px 2px 0; }
.key.found { border-top: 1.5px solid var(--soft); } .key.predicted { border-top-style: dashed; }
.key.truth { border-top-color: var(--good); }
.key.maybe, .key.idle { border: 0; height: 11px; background: var(--maybe); }
.key.idle { background: var(--idle); }
.keys span { margin-right: 16px; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
article { padding: 12px 0; border-bottom: 1px solid var(--rule); }
article ul, .list { margin: 6px 0 0; padding-left: 18px; }
article p { margin: 0; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 20px; margin: 0; }
dd { margin: 0; }
footer { margin-top: 40px; font-size: 13px; color: var(--soft); }
@media (max-width: 720px) {
  main { padding: 20px 16px 32px; }
  h1 { font-size: 22px; } .plots { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } .tile b { font-size: 19px; }
  .tile { padding: 10px 12px; } svg text { font-size: 14px; }
  dl { display: block; } dd { margin: 0 0 8px; }
  table.wide, .wide tbody, .wide tr, .wide td { display: block; } .wide thead { display: none; }
  .wide td { border: 0; padding: 0; }
  .wide tr { border-bottom: 1px solid var(--rule); padding: 8px 0; }
}
@page { size: A4; margin: 14mm; }
@media print {
  :root { color-scheme: light;
    --page: #ffffff; --ink: #000000; --soft: #444b55; --rule: #c9ced6; --tile: #f5f7f9;
    --blue: #1f6fb2; --fill: #1f6fb224; --maybe: #1f6fb23d; --idle: #8a94a02e; --good: #1c7c4a;
    --warn: #96610a; --bad: #b3261e; }
  body { font-size: 10.5pt; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  .tiles { grid-template-columns: repeat(4, 1fr); } .tile b { font-size: 15pt; }
  svg text { font-size: 14px; }
  .plots { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  h2 { break-after: avoid; margin-top: 22px; }
  figure, article, tr, .tile, .note, dl { break-inside: avoid; }
}
"""


def clipped(text: str) -> str:
    """The end of a path says more than its middle."""
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST * 2 // 3] + " \u2026 " + text[-LONGEST // 3:]


def h(tag: str, *children: Child, **attributes: str) -> ET.Element:
    """An element. Strings are text on one line, whatever is in them; None is nothing. kind: its
    class."""
    e = ET.Element(tag, {"class" if k == "kind" else k.replace("_", "-"): harmless(v)
                         for k, v in attributes.items()})
    for child in children:
        if isinstance(child, str):
            if len(e):
                e[-1].tail = (e[-1].tail or "") + harmless(child)
            else:
                e.text = (e.text or "") + harmless(child)
        elif child is not None:
            e.append(child)
    return e


def path(name: str) -> ET.Element:
    """A name from outside: no two look the same, unless they are very long."""
    return h("code", clipped(quoted(name)))


def table(head: list[str], rows: list[list[Child]], kind: str = "wide") -> ET.Element:
    def cell(c: Child) -> ET.Element:
        return h("td", c)
    return h("table", h("thead", h("tr", *(h("th", name, scope="col") for name in head))),
             h("tbody", *(h("tr", *map(cell, row)) for row in rows)), kind=kind)


def pairs(rows: list[tuple[str, Child]]) -> ET.Element:
    return h("dl", *(x for name, value in rows for x in (h("dt", name), h("dd", value))))


def figure(name: str, picture: ET.Element | None, *caption: Child) -> ET.Element:
    return h("figure", h("h3", name), picture, h("figcaption", *caption) if caption else None)


def key(kind: str, says: str) -> ET.Element:
    return h("span", h("i", kind="key " + kind), says)


def document(title: str, main: ET.Element) -> str:
    style = ET.Element("style")
    style.text = STYLE
    head = h("head", h("meta", charset="utf-8"),
             ET.Element("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
             h("meta", name="viewport", content="width=device-width, initial-scale=1"),
             h("meta", name="robots", content="noindex"),
             h("meta", name="referrer", content="no-referrer"), h("title", title), style)
    return MARK + ET.tostring(h("html", head, h("body", main), lang="en"), encoding="unicode",
                              method="html") + "\n"


# ---- the file ---------------------------------------------------------------------------

class NotOurs(Exception):
    """What is there is no report: one line."""


def may_replace(file: str) -> os.stat_result | None:
    """What is there, if it is a report; None: nothing is."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise NotOurs("it is a symbolic link" if e.errno == errno.ELOOP else e.strerror) from None
    try:
        st = os.fstat(fd)
        if not stat.S_ISREG(st.st_mode):
            raise NotOurs("it is no file")
        if os.pread(fd, len(MARK), 0) != MARK.encode():
            raise NotOurs("it is there already, and no report")
    finally:
        os.close(fd)
    return st


def write(file: str, text: str, force: bool) -> None:
    """In one step: who opens it finds all of it, or what was there before. NotOurs, OSError."""
    try:
        st = may_replace(file)
    except NotOurs:
        if not force:
            raise
        st = None
    fd, part = tempfile.mkstemp(prefix=".postcopy.", dir=os.path.dirname(file) or ".")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as f:
            f.write(text)
            if st:                              # names of files are in it: else root's alone
                os.fchown(f.fileno(), st.st_uid, st.st_gid)
                os.fchmod(f.fileno(), stat.S_IMODE(st.st_mode))
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise
