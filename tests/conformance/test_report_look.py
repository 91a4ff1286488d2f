# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of `postcopy report`, in a real browser: laid out, in light and dark, on a phone,
on paper."""
import importlib
import sys
from pathlib import Path

import pytest

from lib import browser
from lib.browser import DARK, LIGHT, Browser, brightness
from lib.reportfacts import facts

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "crawler" / "admin"))
report = importlib.import_module("postcopy_report")

pytestmark = pytest.mark.skipif(
    browser.program() is None,
    reason="no %s: 'packaging/deps/install --browser' installs one" % " or ".join(browser.NAMES))

WIDE, PHONE = 1200, 390
BLUE = {LIGHT: (0x1f, 0x6f, 0xb2), DARK: (0x6c, 0xb2, 0xee)}


@pytest.fixture
def chromium(tmp_path):
    return Browser(tmp_path)


@pytest.fixture(params=[False, True], ids=["migrating", "complete"])
def text(request):
    return report.page(facts(over=request.param))


def contrast(one, other):
    """As WCAG has it."""
    def light(colour):
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
                 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05
    a, b = sorted((light(one), light(other)))
    return b / a


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_there_is_something_to_see(chromium, text, scheme):
    laid = chromium.measured(text, WIDE)
    pixels = chromium.shot(text, WIDE, laid["height"], scheme)
    page = pixels.at(3, 3)
    assert brightness(page) > 250 if scheme == LIGHT else brightness(page) < 40, page
    for plot in laid["plots"]:
        seen = pixels.colours(plot["box"])
        assert seen.pop(page) > 1000
        assert seen.get(BLUE[scheme], 0) > 60, plot["texts"]
        label = [c for c in plot["texts"] if c["says"].strip()][0]
        ink = max(pixels.colours(label["box"]), key=lambda c: contrast(c, page))
        assert contrast(ink, page) > 4.5, (label, ink)
    heading = max(pixels.colours([24, 30, 500, 80]), key=lambda c: contrast(c, page))
    assert contrast(heading, page) > 10


def apart(a, b):
    return a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5


@pytest.mark.parametrize("width", [WIDE, 800, PHONE, 320])
def test_it_fits(chromium, text, width):
    """No scrolling sideways; no label is cut off, none lies on another, and all can be read."""
    laid = chromium.measured(text, width)
    assert laid["width"] <= width and laid["beyond"] == [], laid["beyond"][:5]
    assert len(laid["plots"]) >= 7
    for plot in laid["plots"]:
        left, top, right, bottom = plot["box"]
        assert right - left > 0.85 * (width / 2 if width > 720 else width) - 60
        for label in plot["texts"]:
            x0, y0, x1, y1 = label["box"]
            assert left - 0.5 <= x0 and x1 <= right + 0.5, label
            assert top - 1 <= y0 and y1 <= bottom + 1, label
            assert y1 - y0 >= (10 if width > 320 else 8), label
        for i, one in enumerate(plot["texts"]):
            for other in plot["texts"][i + 1:]:
                assert apart(one["box"], other["box"]) or "now" in (one["says"], other["says"]), (
                    one, other)


def test_names_of_any_length_fit_a_phone(chromium):
    f = facts()
    f["volume"] = "/srv/" + "v" * 200
    f["source"] = "nfs://" + "h" * 200 + "/x"
    for group in f["errors"]["groups"]:
        group["first"] = [{"path": "p" * 4000, "reason": "r" * 900, "kind": "file"}]
    f["decided"]["decisions"][0]["path"] = "q" * 255
    laid = chromium.measured(report.page(f), PHONE)
    assert laid["width"] <= PHONE and laid["beyond"] == [], laid["beyond"][:5]


def test_on_paper(chromium, text):
    """Light, whatever the screen is; and few pages."""
    pages, colours = chromium.paper(text, DARK)
    assert 2 <= pages <= 5
    assert BLUE[LIGHT] in colours and BLUE[DARK] not in colours
    assert (0, 0, 0) in colours and (0x14, 0x18, 0x1d) not in colours, colours


def test_no_name_becomes_a_script(chromium):
    f = facts()
    evil = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\">"
    f["volume"] = evil
    for group in f["errors"]["groups"]:
        group.update(code=evil, says=evil, advice=evil, first=[{"path": evil, "reason": evil}])
    dom = chromium.dom(report.page(f))
    assert "<script" not in dom and "<img" not in dom
    assert "<title>Migration of &lt;script&gt;" in dom
