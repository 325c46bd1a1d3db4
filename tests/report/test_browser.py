"""The report as a browser shows it: opened from disk, with no request, no complaint and nothing cut off."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import reported

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SIZES = [(1280, 900), (390, 844)]


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: install Debian's package chromium, or name one in CHROMIUM")
    with api.sync_playwright() as playwright:
        alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=[*alone, "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """One report of each kind of data."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        kind: reported.saved(getattr(reported, kind)(), folder / kind) / "report.html"
        for kind in ("pictures", "texts", "rows")
    }


class Opened:
    """A page, and everything it asked for or complained about."""

    def __init__(self, browser, path: Path, width: int, height: int, **media):
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.asked, self.said = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.emulate_media(**media)
        self.page.goto(path.resolve().as_uri())
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()

    def look(self, script):
        return self.page.evaluate(script)


MEDIA = [
    {"media": "screen", "color_scheme": "light"},
    {"media": "screen", "color_scheme": "dark"},
    {"media": "print", "color_scheme": "dark"},
]


@pytest.mark.parametrize("kind", ["pictures", "texts", "rows"])
@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
@pytest.mark.parametrize("media", MEDIA, ids=["light", "dark", "print"])
def test_it_opens_from_disk_without_a_request_or_a_complaint(browser, reports, kind, size, media):
    with Opened(browser, reports[kind], *size, **media) as opened:
        requests = [url for url in opened.asked if not url.startswith("data:")]
        assert requests == [opened.path.resolve().as_uri()]
        assert opened.said == []
        assert opened.look("document.compatMode") == "CSS1Compat"
        assert opened.look("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        if media["media"] == "screen":
            assert opened.look("document.documentElement.scrollWidth") <= size[0]


WIDER = """() => [...document.querySelectorAll('.card *, .figures *, .verdict *, .tiles *')]
    .filter(e => e.getBoundingClientRect().width && e.closest('svg') === (e.tagName === 'svg' ? e : null))
    .filter(e => e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 2)
    .map(e => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("kind", ["pictures", "texts", "rows"])
@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
def test_nothing_runs_over_its_edge(browser, reports, kind, size):
    with Opened(browser, reports[kind], *size, media="screen") as opened:
        assert opened.look(WIDER) == []


CONTRAST = """() => {
    const channel = v => (v /= 255, v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const numbers = c => (c.match(/[\\d.]+/g) || []).map(Number).map(v => c.startsWith('color(') ? v * 255 : v);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const clear = c => !c || c === 'transparent' || (c.startsWith('rgba') && numbers(c)[3] === 0);
    const behind = e => { while (e && clear(getComputedStyle(e).backgroundColor)) e = e.parentElement;
                          return numbers(e ? getComputedStyle(e).backgroundColor : 'rgb(255,255,255)'); };
    let worst = [99, ''];
    for (const e of document.querySelectorAll('main *:not(svg *)')) {
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
        if (!e.checkVisibility()) continue;
        const alpha = Number(getComputedStyle(e).opacity), under = behind(e);
        const ink = numbers(getComputedStyle(e).color).map((v, i) => alpha * v + (1 - alpha) * under[i]);
        const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 160)];
    }
    return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_stands_out_from_what_is_behind_it(browser, reports, scheme):
    """WCAG asks for 4.5 to 1."""
    with Opened(browser, reports["pictures"], 1280, 900, media="screen", color_scheme=scheme) as opened:
        ratio, where = opened.look(CONTRAST)
        assert ratio >= 4.5, where


def test_light_is_light_and_dark_is_dark(browser, reports):
    seen = {}
    for media in MEDIA:
        with Opened(browser, reports["rows"], 1280, 900, **media) as opened:
            colour = opened.look("getComputedStyle(document.body).backgroundColor")
            seen[media["media"], media["color_scheme"]] = sum(int(v) for v in colour[4:-1].split(","))
    assert seen["screen", "light"] > 700
    assert seen["screen", "dark"] < 150
    assert seen["print", "dark"] == 3 * 255


def test_what_is_folded_is_open_in_print(browser, reports):
    height = "() => document.querySelector('details table, details .cards').getBoundingClientRect().height"
    visible = "() => document.querySelector('details table, details .cards').checkVisibility()"
    with Opened(browser, reports["pictures"], 1280, 900, media="print") as opened:
        assert opened.look(visible)
        assert opened.look(height) > 50
        assert opened.look("getComputedStyle(document.querySelector('nav')).display") == "none"
        assert opened.page.pdf(format="A4").startswith(b"%PDF")
    with Opened(browser, reports["pictures"], 1280, 900, media="screen") as opened:
        assert not opened.look(visible)


def test_a_result_in_a_notebook_leaves_the_page_around_it_alone(browser, tmp_path):
    result = reported.texts()
    path = tmp_path / "notebook.html"
    around = "<!doctype html><html><body><h1>Mine</h1><p>text</p>{}</body></html>"
    looked = ["font", "margin", "color", "maxWidth", "backgroundColor"]
    style = "(names) => ['h1', 'p', 'body'].map(e => names.map(k => getComputedStyle(document.querySelector(e))[k]))"
    seen = []
    for inside in ("", result._repr_html_() + result.influence._repr_html_()):
        path.write_text(around.format(inside), encoding="utf-8")
        with Opened(browser, path, 1000, 900, media="screen") as opened:
            seen.append(opened.page.evaluate(style, looked))
            assert opened.said == []
            assert len([url for url in opened.asked if not url.startswith("data:")]) == 1
            if inside:
                assert opened.look("getComputedStyle(document.querySelector('.amends-result')).paddingLeft") != "0px"
                assert opened.look("document.documentElement.scrollWidth") <= 1000
    assert seen[0] == seen[1]


EDGE = """() => {
    const wide = [...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility())
        .find(e => e.scrollWidth > e.clientWidth + 60 && !e.querySelector('.matrix'));
    wide.scrollIntoView({block: 'center'});
    const box = wide.getBoundingClientRect();
    return {right: box.right, top: box.top, height: box.height, id: (wide.id = 'wide')};
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_that_is_cut_has_a_shade_at_that_edge(browser, reports, scheme):
    """At 400 pixels: dark at the right until one has scrolled there, and then no more."""
    import io

    from PIL import Image

    def edge(opened, box):
        clip = {"x": box["right"] - 2, "y": box["top"], "width": 2, "height": box["height"]}
        pixels = np.asarray(Image.open(io.BytesIO(opened.page.screenshot(clip=clip))).convert("L"), dtype=float)
        return np.median(pixels)

    with Opened(browser, reports["rows"], 400, 800, media="screen", color_scheme=scheme) as opened:
        box = opened.look(EDGE)
        paper = 251 if scheme == "light" else 23
        assert abs(edge(opened, box) - paper) > 40
        opened.look("() => { const e = document.getElementById('wide'); e.scrollLeft = e.scrollWidth; }")
        assert abs(edge(opened, box) - paper) < 15
