"""The page as a person uses it: keys, tabs, a server that is gone for a while, and a repair from end to end."""

from __future__ import annotations

import csv
import time

import pytest

from tests.web.browsing import VIEWS, chromium, serious, tab
from tests.web.test_server import served


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def review(browser, copy):
    """A tab in the review of a run of pictures, and its folder."""
    folder = copy("pictures")
    with served(folder) as (_, address), tab(browser, address) as opened:
        yield opened, folder


def decisions(page, folder) -> dict[int, tuple[str, str]]:
    """What causes.csv says, once it holds as many decisions as the server knows of."""
    told = page.counts()
    until = time.monotonic() + 20
    while True:
        with (folder / "causes.csv").open(newline="", encoding="utf-8") as file:
            rows = [r for r in csv.DictReader(file) if r["decision"]]
        if len(rows) == told["removed"] + told["keep"] or time.monotonic() > until:
            return {int(r["index"]): (r["decision"], r.get("new_label", "")) for r in rows}
        time.sleep(0.1)


def test_single_keys_decide_and_every_one_is_undone_and_done_again(review):
    page, folder = review
    order = page.asked("api/order")["indices"]
    page.press("r", "k", "s", "l")
    page.page.wait_for_selector("dialog[open]")
    suggested = page.page.input_value("dialog input")
    assert page.counts()["relabel"] == 0  # filled in, and not applied
    page.page.keyboard.type("d3")
    page.press("Enter", "ArrowDown", "ArrowUp", "Shift+ArrowDown", "Shift+ArrowDown", "r")
    told = page.counts()
    assert (told["remove"], told["keep"], told["relabel"]) == (4, 1, 1)
    assert suggested != "d3"
    assert page.here() == order[7]  # behind the range
    wanted = {order[0]: ("remove", ""), order[1]: ("keep", ""), order[3]: ("relabel", "d3"),
              **{order[i]: ("remove", "") for i in (4, 5, 6)}}  # fmt: skip
    assert decisions(page, folder) == wanted
    page.press("u", "u", "u", "u", "u")
    told = page.counts()
    assert (told["remove"], told["keep"], told["relabel"]) == (0, 0, 0)
    page.press(*["Shift+U"] * 5)
    assert page.counts()["remove"] == 4
    assert decisions(page, folder) == wanted
    assert "removed by you, 1 relabelled by you, 1 kept by you" in page.summary()


def test_two_hundred_keys_in_a_second_are_each_counted_once(review):
    page, _ = review
    seconds = page.page.evaluate("""async () => {
        const began = performance.now();
        for (let i = 0; i < 200; i++) {
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "rk"[i % 2], bubbles: true}));
            if (i % 4 === 3) await new Promise(go => setTimeout(go, 10));
        }
        return (performance.now() - began) / 1000;
    }""")
    told = page.counts()
    assert (told["remove"], told["keep"]) == (100, 100)
    assert page.asked("api/trail")["total"] == 200
    assert page.here() == page.asked("api/order")["indices"][200]
    assert seconds < 5  # an honest second on an idle core


def test_all_in_a_filter_are_decided_with_one_key_and_nothing_jumps(review):
    page, _ = review
    group = page.asked("api/run")["groups"][0]["name"]
    page.press("g")
    page.page.select_option(".more label:has(span:text-is('Group')) select", group)
    n = page.asked(f"api/order?group={group}")["total"]
    page.page.wait_for_selector(f".found:has-text('{n} cause')")
    page.press("Escape")
    page.page.evaluate("document.activeElement.blur()")
    before = page.here()
    page.press("a")
    page.page.wait_for_selector("dialog[open]")
    page.press("r")
    assert page.counts()["remove"] >= n
    assert page.here() == before
    assert page.page.inner_text(".found").startswith(f"{n} cause")  # the list stands still
    page.press("u")
    assert page.counts()["remove"] == 0


def test_a_second_tab_follows_and_so_does_a_tab_whose_server_was_killed(browser, copy):
    folder = copy("rows")
    with served(folder) as (process, address):
        port = address.partition("127.0.0.1:")[2].partition("/")[0]
        with tab(browser, address) as one:
            other = one.page.context.new_page()
            other.goto(address.partition("?")[0])
            other.wait_for_selector(".card.large .facts")
            one.press("r")
            other.wait_for_selector(".line .badge.remove")
            process.kill()
            process.wait(20)
            one.press("k", "r", "k")
            one.page.wait_for_selector(".saved.away")
            assert "kept here" in one.page.inner_text(".saved")
            one.page.context.set_offline(False)
            with served(folder, "--port", port):
                told = one.counts()
                assert (told["remove"], told["keep"]) == (2, 2)
                assert one.asked("api/trail")["total"] == 4
                other.wait_for_selector(".line:nth-child(4) .badge.keep")


def test_a_repair_goes_on_without_the_tab_and_is_accepted(review):
    page, folder = review
    page.press("l")
    page.page.keyboard.type("d0")
    page.press("Enter", *["r"] * 12)
    assert page.counts()["remove"] >= 12
    page.press("4")
    first = next(i for i, (way, _) in decisions(page, folder).items() if way == "relabel")
    page.page.wait_for_selector(".start button.main:enabled")
    page.press("Shift+R")
    page.page.wait_for_selector(".running")
    page.page.reload()
    page.page.wait_for_selector(".running")
    page.page.click("text=See the result", timeout=60_000)
    page.page.wait_for_selector(".result .matrix")
    assert page.page.inner_text(".result h1") == "Repair 1"
    page.page.fill("textarea", "looks right")
    page.page.click("button:text-is('Accept')")
    page.page.wait_for_selector(".judgement b:has-text('Accepted')")
    made = page.asked("api/repairs/1")
    assert (made["accepted"], made["note"], made["relabelled"]) == (True, "looks right", 1)
    assert f"{first}," in (folder / "repairs/1/dataset/relabelled.csv").read_text()
    assert not (folder / "metrics.json").exists()  # the run itself is as it was


def test_every_view_says_its_keys_and_fits_into_a_telephone(review):
    page, _ = review
    for name in VIEWS:
        page.view(name)
        page.press("?")
        keys = page.page.inner_text("dialog")
        assert "Everywhere" in keys
        assert "undo" in keys
        page.press("Escape")
        assert page.page.query_selector("dialog[open]") is None
        for width in (400, 1280):
            page.page.set_viewport_size({"width": width, "height": 800})
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_keeps_anybody_out(review):
    """What axe calls serious; it is there once npm ci was run in web/."""
    page, _ = review
    for name in VIEWS:
        page.view(name)
        assert serious(page.page) == [], name
