"""Whole journeys through the page, on pictures, texts and rows: `make web-check`."""

from __future__ import annotations

import csv
import shutil

import pytest

from tests.web.browsing import VIEWS, chromium, serious, tab
from tests.web.test_page import decisions
from tests.web.test_server import served

SIZES = {"wide": (1280, 800), "narrow": (400, 800)}


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def repaired(page, wait=120_000) -> dict:
    """The repair is started and waited for; what the server says of it."""
    page.view("repair")
    page.page.wait_for_selector(".start button.main:enabled")
    page.press("Shift+R")
    page.page.wait_for_selector(".running")
    page.page.click("text=See the result", timeout=wait)
    page.page.wait_for_selector(".result .verdict")
    return page.asked("api/repairs")["rows"][-1]


def cut_at(page, n: int) -> None:
    page.view("many")
    page.page.fill(".cutting input[type=number]", str(n))
    page.press("Tab")
    page.saved()
    page.page.evaluate("document.activeElement.blur()")


@pytest.mark.parametrize("kind", ["pictures", "texts", "rows"])
def test_from_a_search_through_forty_decisions_to_an_accepted_repair(browser, copy, kind):
    folder = copy(kind)
    with served(folder) as (_, address), tab(browser, address) as page:
        label = page.asked("api/run")["classes"][-1] if kind != "rows" else "3"
        for i in range(40):
            if i % 10 == 9:
                page.press("l")
                page.page.fill("dialog input", label)
                page.press("Enter")
            else:
                page.press("k" if i % 10 == 4 else "s" if i % 10 == 7 else "r")
        assert serious(page.page) == []
        told = page.counts()
        kept = decisions(page, folder)
        assert told["remove"] + told["relabel"] + told["keep"] == len(kept)
        assert told["seen"] >= 40
        cut_at(page, 60)
        assert page.counts()["removed"] > told["removed"]
        page.press("u")
        now = page.counts()
        assert [now[k] for k in ("remove", "relabel", "keep", "removed")] == [
            told[k] for k in ("remove", "relabel", "keep", "removed")
        ]
        made = repaired(page)
        assert made["removed"] == told["removed"] or made["verdict"] == "not repaired"
        page.page.fill("textarea", "<b>fine</b>")
        page.page.click("button:text-is('Accept')")
        page.page.wait_for_selector(".judgement b:has-text('Accepted')")
        if made["removed"]:
            for name, way in (("relabelled", "relabel"), ("removed", "remove")):
                with (folder / f"repairs/1/dataset/{name}.csv").open(newline="") as file:
                    rows = list(csv.DictReader(file))
                assert {int(r["index"]) for r in rows} == {i for i, (w, _) in kept.items() if w == way}
                assert all(r.get("label", label) == label for r in rows)
        page.view("history")
        page.page.click("text=As it was at first")
        assert page.counts()["remove"] == 0
        page.press("u")
        assert page.counts()["remove"] == told["remove"]


def state(page) -> list:
    """All that people decided, and the cut."""
    page.saved()
    rows = page.asked("api/causes?decision=decided&limit=200&copies=all")["rows"]
    marked = page.asked("api/failures?marked=yes")["rows"]
    return [page.asked("api/run")["cut"], [m["index"] for m in marked],
            sorted((r["index"], r["decision"], r["new_label"]) for r in rows)]  # fmt: skip


KINDS = {
    "remove": ["1", "r"], "keep": ["1", "k"], "relabel": ["1", "l", "Enter"], "clear": ["1", "Home", "c"],
    "a range": ["1", "Shift+ArrowDown", "Shift+ArrowDown", "k"], "all in the filter": ["1", "a", "r"],
    "the cut": ["2", "ArrowRight"], "a failure": ["3", "w"],
}  # fmt: skip


def test_every_kind_of_decision_is_undone_and_done_again_behind_a_path(browser, copy):
    with served(copy("pictures"), "--root-path", "/some/review") as (_, address), tab(browser, address) as page:
        assert page.page.url.endswith("/some/review/")
        page.press("r", "ArrowDown", "k")
        for name, keys in KINDS.items():
            before = state(page)
            for key in keys:
                page.press(key)
                page.page.wait_for_timeout(150)
            after = state(page)
            assert after != before, name
            page.press("u")
            assert state(page) == before, name
            page.press("Shift+U")
            assert state(page) == after, name


def test_a_list_that_was_opened_with_the_mouse_gives_the_keyboard_back(browser, copy):
    with served(copy("rows")) as (_, address), tab(browser, address) as page:
        page.page.click(".order select")
        page.page.select_option(".order select", "id")
        page.page.wait_for_timeout(500)
        page.press("r")
        assert page.counts()["remove"] == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_view_keeps_anybody_out_in_light_and_dark_wide_and_narrow(browser, finished, scheme, size):
    with served(finished) as (_, address), tab(browser, address, color_scheme=scheme) as page:
        page.page.set_viewport_size({"width": size[0], "height": size[1]})
        for name in [*VIEWS, "result", "keys", "relabel", "all", "full"]:
            if name in VIEWS:
                page.view(name)
            elif name == "result":
                page.view("repair")
                page.page.click(".repairs a[href='#/repair/1']")
                page.page.wait_for_selector(".result .matrix")
                widths = "e => e.map(img => Math.round(img.getBoundingClientRect().width))"
                assert len(set(page.page.eval_on_selector_all(".tiles.same img", widths))) == 1
            else:
                page.view("causes")
                page.press({"keys": "?", "relabel": "l", "all": "a", "full": "f"}[name])
                page.page.wait_for_selector("dialog[open]")
            assert serious(page.page) == [], name
            assert page.page.evaluate("document.documentElement.scrollWidth") <= size[0], name
            if page.page.query_selector("dialog[open]"):
                page.press("Escape")


@pytest.fixture(scope="module")
def finished(browser, searched, tmp_path_factory):
    """A run of pictures with a repair."""
    folder = shutil.copytree(searched("pictures"), tmp_path_factory.mktemp("finished") / "run")
    with served(folder) as (_, address), tab(browser, address) as page:
        page.press(*["r"] * 20, "k")
        page.saved()
        repaired(page)
    return folder


def test_a_repair_is_cancelled_and_two_others_are_compared(browser, copy):
    folder = copy("texts")
    with served(folder) as (_, address), tab(browser, address) as page:
        cut_at(page, 40)
        page.view("repair")
        page.page.wait_for_selector(".start button.main:enabled")
        page.press("Shift+R")
        page.page.click(".running button:text-is('Cancel')")
        page.page.wait_for_selector(".ended.cancelled")
        assert page.page.inner_text(".ended.cancelled p >> nth=0") == "It was cancelled. Nothing was changed."
        assert not (folder / "repairs/1").exists()
        first = repaired(page)
        cut_at(page, 50)
        second = repaired(page)
        assert [(r["number"], r["removed"]) for r in (first, second)] == [(2, 40), (3, 50)], (first, second)
        page.page.click("text=Make the patch")
        page.page.wait_for_selector(".patch tbody tr", timeout=120_000)
        told = page.asked("api/repairs/3")["patch"]
        assert page.page.inner_text(".patch").count("\n") > len(told["layers"])
        assert f"{told['bytes']:,} bytes" in page.page.inner_text(".patch")
        assert serious(page.page) == []
        with page.page.expect_download() as waiting:
            page.page.click(".exports a:text-is('Patch')")
        assert waiting.value.path().stat().st_size == told["bytes"]
        page.page.click(".crumb a")
        page.page.wait_for_selector("text=Compare two")
        page.page.wait_for_selector("[aria-label='What differs'] th:has-text('removed')")
        said = page.page.inner_text("section:has(h2:text-is('Compare two'))")
        assert "40 removed by both, 0 only by repair 2, 10 only by repair 3." in said
        page.page.select_option("section:has(h2:text-is('Compare two')) select >> nth=0", "3")
        page.page.wait_for_selector("[aria-label='What differs']", state="detached")  # of one with itself there is none


def test_a_server_that_is_killed_in_the_middle_of_a_repair_loses_nothing(browser, copy):
    folder = copy("texts")
    with served(folder) as (process, address), tab(browser, address) as page:
        page.press(*["r"] * 12, "k")
        told = page.counts()
        page.view("repair")
        page.page.wait_for_selector(".start button.main:enabled")
        page.press("Shift+R")
        page.page.wait_for_selector(".running")
        process.kill()
        process.wait(20)
        page.page.wait_for_selector(".saved.away")
        with served(folder, "--port", address.partition("127.0.0.1:")[2].partition("/")[0]):
            page.page.click("text=See the result", timeout=120_000)
            page.page.wait_for_selector(".result .verdict")
            assert page.counts() | {"seen": told["seen"]} == told
            assert page.asked("api/repairs")["rows"][0]["removed"] in (told["removed"], 0)
