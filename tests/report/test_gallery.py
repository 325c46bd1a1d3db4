"""Examples to look at: pictures, texts and rows."""

from __future__ import annotations

import pandas as pd

from amends.report.markup import probability
from amends.report.page import report
from tests import reported
from tests.report.html import Page, looks_of


def test_a_cause_is_shown_with_what_is_known_of_it(page, folder, result):
    causes, looks = result.causes, looks_of(folder)
    cards = page.all("article", page.section("causes"))
    assert len(cards) == min(60, len(causes))
    for card, cause in zip(cards, causes.to_dict("records"), strict=False):
        facts = dict(zip(map(page.text, page.all("dt", card)), map(page.text, page.all("dd", card)), strict=True))
        assert facts["given"] == cause["given"]
        assert facts["suggested"].startswith(cause["suggested"])
        assert facts["score"] == f"{cause['score']:.2f}"
        assert facts["p(given)"] == f"{probability(cause['p_given'])} → {probability(cause['p_given_after'])}"
        assert "removed" in page.text(card)
        images = [img[1]["src"] for img in page.all("img", card)]
        beside = [looks["failures"][str(j)]["image"] for j in cause["conflicts_with"]]
        assert images == [looks["train"][str(cause["index"])]["image"], *beside]


def test_what_changed_is_shown_with_what_the_models_say(page, folder, result):
    m, looks = result.metrics, looks_of(folder)
    part = page.section("changed")
    lists = page.all("ul", part, class_="tiles")
    shown = [[page.text(li) for li in page.all("li", found)] for found in lists]
    for tiles, at, kind in zip(shown, (m["broken_at"], m["fixed_at"]), ("remaining", "failures"), strict=True):
        assert len(tiles) == len(at) > 0
        for text, position in zip(tiles, at, strict=True):
            look = looks[kind][str(position)]
            said = f"predicted {look['predicted']} → {look['predicted_after']}"
            assert text == f"{look['label']} {said} {kind}[{position}]"
            assert (look["label"] == look["predicted_after"]) == (kind == "failures")
            assert (look["label"] == look["predicted"]) == (kind == "remaining")


def test_near_copies_stand_together(page, folder, result):
    (pair,) = result.metrics["duplicates"]
    images = [img[1]["src"] for img in page.all("img", page.section("copies"))]
    looks = looks_of(folder)
    assert images == [looks["train"][str(i)]["image"] for i in pair]
    assert images[0] == images[1]


def test_doubtful_failures_are_shown(page, folder, result):
    images = [img[1]["src"] for img in page.all("img", page.section("suspects"))]
    assert images == [looks_of(folder)["failures"][str(i)]["image"] for i in result.metrics["suspects"]]


def test_texts_are_quoted_and_never_markup(of_texts):
    result, folder = of_texts
    text = report(folder)
    assert "<script" not in text
    assert "<b>bold" not in text
    assert "<i>" not in text
    page = Page(text)
    card = page.all("article")[0]
    own = result.causes.iloc[0]["text"]
    assert reported.NASTY in own
    assert page.text(page.all("blockquote", card)[0]) == own
    assert "<i>poor</i>" in page.text(page.section("classes"))
    assert "<i>reviews" in page.text(page.all("title")[0])
    beside = page.all("ul", card, class_="beside")[0]
    assert page.all("blockquote", beside)
    assert "conflicts with" in page.text(card)


def test_rows_show_the_columns_that_stand_out(tmp_path):
    result = reported.rows()
    folder = reported.saved(result, tmp_path / "rows")
    page, looks = Page(report(folder)), looks_of(folder)
    assert looks["kind"] == "row"
    cause = result.causes.iloc[0]
    card = page.all("article")[0]
    seen = looks["train"][str(cause["index"])]
    rows = [[page.text(c) for c in r[2]] for r in page.all("tr", page.all("table", card)[0])]
    assert [r[0] for r in rows] == seen["stands_out"]
    assert rows[0][1] == f"{seen['values'][0]:.4g}".replace("-", "−")
    assert rows[0][2] == f"{seen['deviations'][0]:+.1f} sd".replace("-", "−")
    assert cause["id"] in page.text(card)
    assert cause["suggested"] in page.text(card)


def test_a_failure_is_shown_with_its_id(tmp_path, page, result):
    """On a thumbnail too: the position where the user has no ids, the id where there is one."""
    beside = [page.text(p) for p in page.all("span", page.all("article")[0], class_="place")]
    assert beside == [f" failures[{j}]" for j in result.causes.iloc[0]["conflicts_with"]]
    folder = reported.saved(reported.rows(), tmp_path / "rows")
    of_rows, looks = Page(report(folder)), looks_of(folder)
    places = of_rows.all("span", of_rows.section("causes"), class_="place")
    for place in places:
        position = place[1]["title"].removeprefix("failures[").removesuffix("]")
        assert of_rows.text(place) == f" {looks['failures'][position]['id']}"
        assert looks["failures"][position]["id"].startswith("P")
    assert places


def test_a_run_without_looks_is_told_in_words(copy, result):
    (copy / "looks.json").unlink()
    page = Page(report(copy))
    assert not page.all("img")
    assert len(page.all("article")) == min(60, len(result.causes))
    assert "failures[" in page.text(page.all("article")[0])


def test_a_score_that_a_spreadsheet_has_spoilt_is_left_out(copy):
    frame = pd.read_csv(copy / "causes.csv", dtype={"score": str})
    frame.loc[0, "score"] = "03. May"
    frame.to_csv(copy / "causes.csv", index=False)
    page = Page(report(copy))
    shown = [dict(zip(map(page.text, page.all("dt", c)), map(page.text, page.all("dd", c)), strict=True))["score"]
             for c in page.all("article")[:3]]  # fmt: skip
    assert shown[0] == "–"
    assert all(float(score) > 0 for score in shown[1:])
    widths = [float(bar[1]["width"].rstrip("%")) for bar in page.all("rect", page.section("causes"), height="6")]
    assert max(widths) == 100
