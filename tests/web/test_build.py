"""The built page: made from the sources of this checkout, and asking nobody else for anything."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import amends

ROOT = Path(amends.__file__).parent.parent
STATIC = ROOT / "amends/web/static"
BESIDE = ("amends/report/style.css", "web/index.html", "web/package.json", "web/package-lock.json",
          "web/tsconfig.json", "web/vite.config.ts")  # fmt: skip


def test_it_is_built_from_these_sources():
    """make web writes it anew; make web-check builds it again and compares the bytes."""
    inside = [p for folder in ("web/src", "web/public") for p in (ROOT / folder).rglob("*") if p.is_file()]
    files = sorted([*BESIDE, *(p.relative_to(ROOT).as_posix() for p in inside)])
    now = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in files}
    then = dict(reversed(line.split("  ")) for line in (STATIC / "source.sha256").read_text().splitlines())
    differing = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    assert differing == [], "changed since the page was built: run make web"


def test_it_names_no_other_host_and_runs_nothing_inline():
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script[^>]*>(.+?)</script>|<style| style=| on\w+=", page) == []
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(named) == 3
    assert all(re.fullmatch(r"\./(favicon\.svg|assets/[A-Za-z0-9._-]+)", name) for name in named)
    assert all((STATIC / name).is_file() for name in named)
    for file in (STATIC / "assets").iterdir():
        text = file.read_text()
        hosts = set(re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z0-9.-]+", text))
        assert hosts <= {"http://www.w3.org"}, file.name  # the names of SVG and MathML, which are no addresses
        assert not re.search(r"@import|url\(|\beval\(|new Function|document\.write", text)


def test_text_only_ever_becomes_text():
    """The sources never write markup from a string."""
    wrong = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\b")
    sources = list((ROOT / "web/src").rglob("*.ts*"))
    assert len(sources) > 15
    assert [p.name for p in sources if wrong.search(p.read_text())] == []
