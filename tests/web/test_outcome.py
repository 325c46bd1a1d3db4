"""A finished repair in a browser: the cut dragged, a note, files to take away, and decisions brought along."""

from __future__ import annotations

import shutil
import zipfile

import pandas as pd
import pytest

from amends.runs.run import Run
from tests import reported
from tests.web.browsing import chromium, tab
from tests.web.test_server import served


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    return reported.saved(reported.rows(), tmp_path_factory.mktemp("repaired") / "run")


@pytest.fixture
def review(browser, repaired, tmp_path):
    """A tab in the review of a finished run, and its folder."""
    folder = shutil.copytree(repaired, tmp_path / "run")
    with served(folder) as (_, address), tab(browser, address) as opened:
        yield opened, folder


def test_the_cut_is_dragged_with_the_mouse_and_undone(review):
    page, _ = review
    page.view("many")
    page.page.wait_for_selector(".plot .u-over")
    most, before = page.asked("api/run")["total"], page.asked("api/run")["cut"]
    box = page.page.locator(".plot .u-over").first.bounding_box()
    across = [box["x"] + share * box["width"] for share in (1, 0.6, 0.25)]
    high = box["y"] + box["height"] / 2
    page.page.mouse.move(across[0] - 2, high)
    page.page.mouse.down()
    page.page.mouse.move(across[1], high, steps=5)
    half = int(page.page.input_value(".cutting input[type=number]"))
    assert abs(half - 0.6 * most) <= 0.03 * most + 1
    page.page.wait_for_selector(f".many .lead:has-text('{half} removed')")  # what it would do
    assert page.asked("api/run")["cut"] == before  # nothing is said before the mouse is let go
    page.page.mouse.move(across[2], high, steps=5)
    page.page.mouse.up()
    page.saved()
    after = page.asked("api/run")["cut"]
    assert abs(after - 0.25 * most) <= 0.03 * most + 1
    assert page.page.inner_text(".cut-line span") == str(after)
    assert page.summary().startswith(f"{after} removed")
    for key, cut in (("u", before), ("Shift+U", after)):
        page.press(key)
        page.saved()
        page.page.wait_for_selector(f".cut-line span:text-is('{cut}')")
        assert page.asked("api/run")["cut"] == cut


def test_a_repair_is_rejected_with_a_note_and_everything_of_it_is_taken_away(review, tmp_path):
    page, folder = review
    page.view("repair")
    page.page.click(".repairs a[href='#/repair/0']")
    page.page.wait_for_selector(".result .matrix")
    page.page.fill("textarea", "too few fixed <b>")
    for button, word in (("Reject", "Rejected"), ("Accept", "Accepted"), ("Leave it open", "Not decided yet")):
        page.page.click(f"button:text-is('{button}')")
        page.page.wait_for_selector(f".judgement b:has-text('{word}')")
    page.page.click("button:text-is('Reject')")
    page.page.wait_for_selector(".judgement p:has-text('Rejected: too few fixed <b>')")
    page.page.click(".crumb a")
    page.page.wait_for_selector(".repairs td:text-is('✕ rejected')")
    page.page.go_back()
    page.page.wait_for_selector(".exports")
    taken = {}
    for name in ("Repaired weights", "Cleaned data", "causes.csv"):
        with page.page.expect_download() as waiting:
            page.page.click(f".exports a:text-is('{name}')")
        taken[name] = waiting.value.path()
        assert waiting.value.suggested_filename.startswith("repair-0")
    assert taken["Repaired weights"].read_bytes() == (folder / "repaired/model.safetensors").read_bytes()
    assert taken["causes.csv"].read_bytes() == (folder / "causes.csv").read_bytes()
    with zipfile.ZipFile(taken["Cleaned data"]) as packed:
        assert packed.read("kept.csv") == (folder / "dataset/kept.csv").read_bytes()
    with page.page.expect_popup() as waiting:
        page.page.click(".exports a:text-is('Report')")
    verdict = Run.open(folder).metrics["verdict"]
    assert verdict.capitalize() in waiting.value.inner_text("main")


def test_accepting_and_rejecting_are_undone_in_the_order_of_all_that_was_done(review):
    page, _ = review
    first = page.asked("api/causes?limit=1")["rows"][0]["id"]
    page.press("k")
    page.view("many")
    page.page.wait_for_selector(".plot .u-over")
    cut = page.asked("api/run")["cut"]
    page.press("ArrowLeft")
    page.saved()
    lower = page.asked("api/run")["cut"]
    page.view("repair")
    page.page.click(".repairs a[href='#/repair/0']")
    for button, words in (("Accept", "Accepted: all fixed"), ("Reject", "Rejected: two are broken")):
        page.page.fill("textarea", words.partition(": ")[2])
        page.page.click(f"button:text-is('{button}')")
        page.page.wait_for_selector(f".judgement p:has-text('{words}')")
    page.page.wait_for_selector("button[title='Undo: the run itself rejected: two are broken']")
    accepted, rejected, neither = "Accepted: all fixed", "Rejected: two are broken", "Not decided yet"
    there, back = [("u", accepted), ("u", neither)], [("Shift+U", accepted), ("Shift+U", rejected)]
    for key, words in there + back + there:
        page.press(key)
        page.page.wait_for_selector(f".judgement p:has-text('{words}')")
        page.page.wait_for_function(
            "note => document.querySelector('textarea').value === note", arg=words.partition(": ")[2]
        )
        told = page.asked("api/run")
        assert (told["cut"], told["counts"]["keep"]) == (lower, 1)
    page.press("u")
    page.saved()
    assert (page.asked("api/run")["cut"], page.counts()["keep"]) == (cut, 1)
    page.press("u")
    assert (page.asked("api/run")["cut"], page.counts()["keep"]) == (cut, 0)
    page.press(*["Shift+U"] * 4)
    page.saved()
    page.page.click(".crumb a")
    page.page.wait_for_selector(".repairs td:text-is('✕ rejected')")
    page.press("u")
    page.page.wait_for_selector(".repairs td:text-is('✓ accepted')")  # also in the list
    lines = history(page)
    assert lines[:2] == [
        "undo: the run itself rejected: two are broken",
        "redo: the run itself rejected: two are broken",
    ]
    assert lines[-3:] == ["the run itself accepted: all fixed", f"cut at {lower}", f"keep {first}"]
    assert "the run itself rejected: two are broken (undone)" in lines


def history(page) -> list[str]:
    """What its lines say, once the undo is the newest."""
    page.view("history")
    page.page.wait_for_selector(".history tbody tr:first-child th:has-text('undo: ')")
    return page.page.locator(".history tbody th").all_inner_texts()


def test_decisions_come_along_in_a_csv_and_one_that_cannot_be_used_is_said(review, tmp_path):
    page, folder = review
    first, second = pd.read_csv(folder / "causes.csv")["index"][:2]
    page.view("history")
    (tmp_path / "mine.csv").write_text(f"index,decision\n{first},keep\n{second},remove\n")
    page.page.set_input_files("input[type=file]", tmp_path / "mine.csv")
    page.page.wait_for_selector(".notice:has-text('2 decisions taken in from mine.csv')")
    told = page.counts()
    assert (told["keep"], told["remove"]) == (1, 1)
    page.page.wait_for_selector(".history th:has-text('2 decisions from an upload')")
    (tmp_path / "wrong.csv").write_text("index,decision\n1,paint\n")
    page.page.set_input_files("input[type=file]", tmp_path / "wrong.csv")
    page.page.wait_for_selector(".notice.bad")
    assert page.counts() == told
    page.page.click(".notice button")
    page.press("u")
    assert page.counts()["keep"] == 0
    page.press("Shift+U")
    assert page.counts()["keep"] == 1
