"""`make docs`: every page is there, what is broken is named, and the site works from the disk alone."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT
from tests.report.test_browser import Opened, browser

__all__ = ["browser"]


def built(source: Path, out: Path) -> subprocess.CompletedProcess:
    """The command of the Makefile, for other folders."""
    (line,) = re.findall(r"^\t\$\(BIN\)/sphinx-build (.+) docs site$", (ROOT / "Makefile").read_text(), re.M)
    options = [word.replace(".cache", str(out.parent)) for word in shlex.split(line)]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "site"
    done = built(DOCS, out)
    assert done.returncode == 0, done.stderr
    return out


def pages(site: Path) -> list[Path]:
    return [site / p.relative_to(DOCS).with_suffix(".html") for p in sorted(DOCS.rglob("*.md"))]


def test_every_page_is_there_and_names_no_other_host(site):
    for path in [*pages(site), site / "search.html"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'(?:src|<link[^>]*href)="(?:https?:)?//', text), path
        for link in re.findall(r'(?:src|href)="([^"#:?]+)[^":]*"', text):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
    for style in site.rglob("*.css"):
        assert not re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", style.read_text(encoding="utf-8")), style


def test_the_files_at_the_root_are_pages_too(site):
    for name in ("CHANGELOG", "CONTRIBUTING", "README"):
        words = (ROOT / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        shown = {"CHANGELOG": "changes"}.get(name, name.lower())
        text = (site / f"{shown}.html").read_text(encoding="utf-8")
        assert f"<h1>{words}<" in text
        assert f"../{name}.md" not in text, "this is the page that stands in for it on a code host"
    assert 'href="changes.html"' in re.search(r"<article.*</article>", (site / "versioning.html").read_text(), re.S)[0]


def test_a_block_shows_what_its_first_line_says(site):
    text = (site / "how-to/ci.html").read_text(encoding="utf-8")
    captions = re.findall(r'class="code-block-caption"><span class="caption-text">([^<]+)<', text)
    assert {"amends.toml", "exit code 1"} <= set(captions)
    assert re.search(r'<div class="highlight-toml notranslate">.*?<span class="k">\[model\]</span>', text, re.S)
    (folded,) = re.findall(r"<details class='setup'>(.*?)</details>", text, re.S)
    assert '<span class="kn">import</span>' in folded
    assert '<span class="caption-text">for example<' in (site / "tutorial.html").read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path) -> Path:
    """A docs/ of two pages."""
    folder = tmp_path / "docs"
    shutil.copytree(DOCS / "_static", folder / "_static")
    shutil.copy(DOCS / "conf.py", folder)
    (folder / "menu.toml").write_text('[All]\nindex = "One"\ntwo = "Two"\n')
    (folder / "index.md").write_text("# One\n\n## Some more\n")
    (folder / "two.md").write_text("# Two\n\n[there](index.md#some-more)\n")
    return folder


def test_what_is_broken_fails_in_a_line_that_names_it(small, tmp_path):
    done = built(small, tmp_path / "good")
    assert (done.returncode, done.stderr) == (0, "")
    (small / "menu.toml").write_text('[All]\nindex = "One"\ntwo = "Two"\ngone = "Gone"\n')
    (small / "three.md").write_text("# Three\n")
    (small / "two.md").write_text("# Two\n\n[a](four.md)\n\n[b](index.md#none)\n\n![c](a.png)\n\n[d](#neither)\n")
    done = built(small, tmp_path / "bad")
    assert done.returncode == 1
    told = done.stderr.splitlines()
    for where, what in (
        ("two.md:3", "'four.md'"),
        ("two.md:5", "'none'"),
        ("two.md:7", "a.png"),
        ("two.md:9", "'neither'"),
        ("three.md", "toctree"),
        ("index.md", "'gone'"),
    ):
        assert any(where in line and what in line for line in told), f"{where} {what}\n{done.stderr}"


CUT = """() => [...document.querySelectorAll('article *')]
    .filter(e => !e.parentElement.closest('pre, .table-wrapper, .math') && e.getBoundingClientRect().width)
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => e.outerHTML.slice(0, 120))"""


def test_nothing_is_cut_off_in_a_narrow_window_and_no_request_leaves_the_disk(browser, site):
    with Opened(browser, site / "index.html", 390, 844) as opened:
        for path in pages(site):
            opened.page.goto(path.as_uri())
            assert opened.look("document.documentElement.scrollWidth") <= 390, path.name
            assert opened.look(CUT) == [], path.name
        menu = opened.page.locator(".sidebar-tree").first
        assert not opened.look("document.querySelector('.sidebar-drawer').getBoundingClientRect().right > 0")
        opened.page.click(".mobile-header label[for=__navigation]")
        menu.get_by_text("Tutorial").click()
        assert opened.page.url.endswith("tutorial.html")
        assert opened.said == []
        assert all(url.startswith(("file:", "data:")) for url in opened.asked)


def test_a_search_finds_a_word_without_a_server(browser, site):
    with Opened(browser, site / "index.html", 1280, 900) as opened:
        opened.page.fill(".sidebar-search", "damping")
        opened.page.press(".sidebar-search", "Enter")
        found = opened.page.locator("ul.search a")
        found.first.wait_for()
        assert "The methods" in found.all_inner_texts()
        found.get_by_text("The methods").click()
        assert "methods.html" in opened.page.url
        assert opened.said == []
        assert all(url.startswith(("file:", "data:")) for url in opened.asked)
