"""The page in a real Chromium, and what it asked for, said and complained about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent.parent.parent / "web/node_modules/axe-core/axe.min.js"
SAVED = ".saved:text-is('✓ Saved')"
VIEWS = {"causes": ".card.large .facts", "many": ".cutting", "failures": ".failure", "repair": ".start, .running",
         "history": ".history"}  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """Without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: install Debian's package chromium, or name one in CHROMIUM")
    with api.sync_playwright() as playwright:
        alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=[*alone, "--disable-gpu"])
        yield opened
        opened.close()


class Tab:
    """One tab of a browser that was given the address."""

    def __init__(self, context: Any, address: str):
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.home = f"{urlsplit(address).scheme}://{urlsplit(address).netloc}"
        self.foreign: list[str] = []
        self.wrong: list[str] = []
        self.page.on(
            "request", lambda r: None if r.url.startswith((self.home, "data:")) else self.foreign.append(r.url)
        )
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on("dialog", lambda d: (self.wrong.append(f"dialog: {d.message}"), d.dismiss()))
        self.page.goto(address)
        self.page.wait_for_selector(".card.large .facts")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self) -> None:
        """Until the server has everything."""
        self.page.wait_for_selector(SAVED)

    def view(self, name: str) -> None:
        self.press(str(list(VIEWS).index(name) + 1))
        self.page.wait_for_selector(VIEWS[name])

    def asked(self, path: str) -> Any:
        """What the server says to this tab."""
        return self.page.evaluate("path => fetch(path).then(answer => answer.json())", path)

    def counts(self) -> dict[str, int]:
        self.saved()
        return self.asked("api/run")["counts"]

    def here(self) -> int:
        """The position in train of what is on the desk."""
        text = self.page.inner_text(".card.large header")
        return int(text.partition("train[")[2].partition("]")[0])

    def summary(self) -> str:
        return self.page.inner_text(".summary")


@contextmanager
def tab(browser: Any, address: str, **how: Any) -> Iterator[Tab]:
    """A browser of its own with one tab; nothing foreign was asked for, and nothing went wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **how)
    opened = Tab(context, address)
    try:
        yield opened
    finally:
        context.close()
    assert (opened.foreign, opened.wrong) == ([], [])


def serious(page: Any) -> list[str]:
    """What axe finds that keeps people out."""
    if not AXE.exists():
        pytest.skip("axe-core is not there: run npm ci in web/")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found if v["impact"] in ("serious", "critical")]
