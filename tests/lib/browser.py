# SPDX-License-Identifier: GPL-3.0-or-later
"""A real browser without a screen: what does a page look like?  And the pixels of a PNG."""
import base64
import contextlib
import json
import re
import shutil
import struct
import subprocess
import zlib

NAMES = ("chromium-headless-shell", "chromium")
LIGHT, DARK = 1, 0              # blink's preferredColorScheme
MEASURE = """<script>
const box = e => {
  const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
const all = what => [...document.querySelectorAll(what)];
const pre = document.createElement("pre");
const root = document.documentElement;
const found = {width: root.scrollWidth, height: root.scrollHeight,
  plots: all("svg").map(s => ({box: box(s), texts: [...s.querySelectorAll("text")].map(
    t => ({says: t.textContent, box: box(t)}))})),
  beyond: all("body *").filter(e => box(e)[2] > innerWidth + 0.5).map(
    e => e.outerHTML.slice(0, 80))};
pre.id = "measured"; pre.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
document.body.append(pre);
</script>"""


def program():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, where):
        self.where = where
        self.profile = where / "profile"

    def run(self, page, *options):
        # no sandbox: root has none, and the page is ours
        done = subprocess.run(
            [program(), "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--headless",
             "--user-data-dir=%s" % self.profile, *options, page.as_uri()],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
        return done.stdout.decode()

    def page(self, text):
        file = self.where / "page.html"
        file.write_text(text)
        return file

    def dom(self, text):
        return self.run(self.page(text), "--dump-dom")

    def measured(self, text, width, height=900):
        """Where everything is, after layout. Of a copy in which our script may run."""
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        dom = self.run(self.page(text.replace("</body>", MEASURE + "</body>")), "--dump-dom",
                       "--window-size=%d,%d" % (width, height))
        return json.loads(base64.b64decode(re.search(r'id="measured">([^<]*)<', dom)[1]))

    def shot(self, text, width, height, scheme=LIGHT):
        file = self.where / "shot.png"
        self.run(self.page(text), "--window-size=%d,%d" % (width, height),
                 "--blink-settings=preferredColorScheme=%d" % scheme, "--screenshot=%s" % file)
        return Pixels(file.read_bytes())

    def paper(self, text, scheme=LIGHT):
        """How many pages, and in which colours."""
        file = self.where / "page.pdf"
        self.run(self.page(text), "--print-to-pdf=%s" % file, "--no-pdf-header-footer",
                 "--blink-settings=preferredColorScheme=%d" % scheme)
        pdf = file.read_bytes()
        assert pdf.startswith(b"%PDF")
        colours = set()
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
            with contextlib.suppress(zlib.error):       # fonts, and what is not packed
                for rgb in re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg", zlib.decompress(stream)):
                    colours.add(tuple(round(255 * float(c)) for c in rgb))
        return len(re.findall(rb"/Type */Page\b", pdf)), colours


class Pixels:
    """Of a PNG with 8 bits of red, green, blue and perhaps alpha, as Chromium writes them."""

    def __init__(self, png):
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        at, data = 8, b""
        while at < len(png):
            n, kind = struct.unpack(">I4s", png[at:at + 8])
            if kind == b"IHDR":
                self.width, self.height = struct.unpack(">II", png[at + 8:at + 16])
                depth, colour = png[at + 16:at + 18]
                assert depth == 8 and colour in (2, 6), (depth, colour)
            elif kind == b"IDAT":
                data += png[at + 8:at + 8 + n]
            at += 12 + n
        self.step = 3 if colour == 2 else 4
        self.rows = self._rows(zlib.decompress(data))

    def _rows(self, data):
        stride, rows = self.width * self.step, []
        above = bytearray(stride)
        for y in range(self.height):
            kind, row = data[y * (stride + 1)], bytearray(data[y * (stride + 1) + 1:
                                                               (y + 1) * (stride + 1)])
            self._undo(kind, row, above)
            rows.append(row)
            above = row
        return rows

    def _undo(self, kind, row, above):
        step = self.step
        if kind == 2:
            row[:] = bytes((a + b) & 255 for a, b in zip(row, above))
        elif kind:
            for i in range(len(row)):
                left = row[i - step] if i >= step else 0
                corner = above[i - step] if i >= step else 0
                row[i] = row[i] + (left if kind == 1 else (left + above[i]) // 2 if kind == 3 else
                                   self._nearest(left, above[i], corner)) & 255

    @staticmethod
    def _nearest(a, b, c):
        p = a + b - c
        return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]

    def at(self, x, y):
        return tuple(self.rows[y][x * self.step:x * self.step + 3])

    def colours(self, box):
        """How often each colour is in it."""
        left, top, right, bottom = map(round, box)
        out = {}
        for y in range(max(0, top), min(bottom, self.height)):
            for x in range(max(0, left), min(right, self.width)):
                colour = self.at(x, y)
                out[colour] = out.get(colour, 0) + 1
        return out


def brightness(colour):
    r, g, b = colour
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
