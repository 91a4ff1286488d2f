# SPDX-License-Identifier: GPL-3.0-or-later
"""A page read more strictly than browsers do: each element is closed, in its place.

    page = Page(text)           # AssertionError, with the line
    page.text, page.elements    # all that is shown; [(name, attributes, line)]
    page.is_self_contained()
"""
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source",
        "track", "wbr"}
LOADS = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "foreignobject",
         "use", "image", "a", "video", "audio"}
ONE_LINE_CONTROLS = set(map(chr, (*range(0x20), *range(0x7f, 0xa0)))) - {"\n"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        assert text.startswith("<!DOCTYPE html>\n"), text[:100]
        bad = {c for c in text if c in ONE_LINE_CONTROLS or "\ud800" <= c <= "\udfff"}
        assert not bad, bad
        self.open, self.elements, self.shown, self.comments = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open
        ids = [a["id"] for _name, a, _line in self.elements if "id" in a]
        assert len(ids) == len(set(ids)), ids
        assert [n for n, *_ in self.elements if n in ("html", "head", "body", "title", "main")] == [
            "html", "head", "title", "body", "main"]
        self.text = " ".join(" ".join(self.shown).split())

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs, self.getpos())
        assert all(value is not None for _, value in attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs), self.getpos()[0]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        raise AssertionError("<%s/> at %s" % (tag, self.getpos()))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            assert self.open or not data.strip(), data
            self.shown.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_decl(self, decl):
        assert decl == "DOCTYPE html"

    def handle_pi(self, data):
        raise AssertionError(data)

    unknown_decl = handle_pi

    def is_self_contained(self):
        """Nothing is loaded and nothing runs."""
        for name, attrs, line in self.elements:
            assert name not in LOADS, (name, line)
            for key, value in attrs.items():
                assert not key.startswith("on"), (key, line)
                assert key not in ("src", "href", "xlink:href", "srcset", "data"), (key, line)
                assert "url(" not in value and "://" not in value, (key, value, line)
        return self
