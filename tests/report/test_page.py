"""report.html as a whole: one file that asks nobody, for every kind of run, however damaged."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from amends.errors import BadInput, RunMismatch
from amends.report.page import LARGEST, report
from amends.tables.looks import png
from tests.report.html import Page, changed, looks_of


def test_it_is_the_file_in_the_run_folder(folder):
    assert (folder / "report.html").read_text() == report(folder)


def test_it_asks_for_nothing_and_runs_nothing(folder):
    text = report(folder)
    assert "http:" not in text
    assert "https:" not in text
    for word in ("<script", "<link", "<iframe", "@import", "url(", "javascript:", " onload", " onclick"):
        assert word not in text
    page = Page(text)
    assert all(img[1]["src"].startswith("data:image/png;base64,") for img in page.all("img"))
    policy = next(m for m in page.all("meta") if m[1].get("http-equiv"))
    assert policy[1]["content"].startswith("default-src 'none'")


def test_a_reader_who_does_not_see_finds_their_way(page):
    assert page.all("html")[0][1]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert all(img[1]["alt"] for img in page.all("img"))
    assert all(th[1].get("scope") in ("col", "row") for th in page.all("th"))
    assert all(page.all("caption", t) for t in page.all("table"))
    for svg in page.all("svg"):
        assert svg[1].get("aria-hidden") == "true" or (svg[1]["role"] == "img" and page.all("title", svg))
    ids = [n[1]["id"] for n in page.all() if "id" in n[1]]
    assert len(ids) == len(set(ids))
    links = [a[1]["href"] for a in page.all("a")]
    assert len(links) == len(page.all("section"))
    assert {h[1:] for h in links} <= set(ids)


def test_light_dark_print_and_no_colour(folder):
    text = report(folder)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "stroke-dasharray" in text
    assert "repeating-linear-gradient" in text


def test_never_mislabelled(page):
    assert "mislabel" not in page.text(page.root).lower()


def identified(copy):
    for name in ("metrics.json", "curve.csv"):
        (copy / name).unlink()
    path = copy / "run.toml"
    path.write_text(path.read_text().replace('state = "done"', 'state = "identified"'))
    frame = pd.read_csv(copy / "causes.csv").assign(decision="")
    frame.to_csv(copy / "causes.csv", index=False)
    (copy / "identified" / "members.json").write_text(
        '[{"name": "ewc", "found": 0.1, "unseen": 0.5, "weight": 1, "refused": ""}]'
    )
    return frame


def test_a_search_has_its_causes_and_says_that_nothing_is_judged(copy):
    frame = identified(copy)
    page = Page(report(copy))
    assert page.text(page.all("h1")[0]) == "Causes identified"
    assert f"{len(frame)} training examples were scored" in page.text(page.root)
    assert [s[1]["id"] for s in page.all("section")] == ["causes", "method", "next"]
    assert len(page.all("article")) == min(60, len(frame))
    assert "undecided" in page.text(page.all("article")[0])
    assert page.table(page.section("method"), "What scored")[1][:4] == ["ewc", "10.0%", "0.500", "100.0%"]
    assert "amends treat digits" in page.text(page.section("method"))


def test_a_model_that_was_not_repaired(copy):
    page = changed(copy, verdict="not repaired", reason="a control does as well", removed=0, fixed_at=[], broken_at=[])
    top = page.text(page.all("div", class_="verdict")[0])
    assert "Not repaired" in top
    assert "is returned unchanged" in top
    assert "Nothing was removed" in page.text(page.section("causes"))
    assert not page.all("line", class_="chosen")
    assert not page.all("section", id="changed")


def test_without_remaining_or_holdout(copy):
    none = {"before": None, "after": None, "n": 0}
    path = copy / "curve.csv"
    frame = pd.read_csv(path)
    frame[[c for c in frame if c.startswith(("remaining", "guard", "holdout"))]] = np.nan
    frame.to_csv(path, index=False)
    page = changed(copy, remaining=None, holdout=none, calibration=None, confusion=None)
    assert len(page.all("figure")) == 1
    assert "Accuracy on query failures" in page.text(page.section("curve"))
    assert "no remaining examples were given" in page.text(page.root)
    assert not page.all("section", id="confusion")
    assert not page.all("section", id="calibration")


def test_it_never_grows_beyond_5_megabytes(copy):
    import base64

    noise = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)
    heavy = "data:image/png;base64," + base64.b64encode(png(noise)).decode()
    looks = looks_of(copy)
    for name in ("train", "failures", "remaining"):
        looks[name] = {k: {**v, "image": heavy} for k, v in looks[name].items()}
    (copy / "looks.json").write_text(json.dumps(looks))
    text = report(copy)
    page = Page(text)
    assert len(heavy) * 6 * len(pd.read_csv(copy / "causes.csv")) > LARGEST
    assert LARGEST * 0.9 < len(text.encode()) <= LARGEST
    assert "do not fit into this report" in page.text(page.section("causes"))
    assert page.all("img", page.section("suspects"))
    assert page.all("img", page.section("changed"))


@pytest.mark.parametrize("name", ["run.toml", "metrics.json", "curve.csv", "causes.csv"])
def test_a_missing_file_is_named_in_one_line(copy, name):
    (copy / name).unlink()
    with pytest.raises(RunMismatch, match=re.escape(name)) as said:
        report(copy)
    assert str(said.value).count("; ") == 2
    assert "\n" not in str(said.value)


DAMAGE = {
    "run.toml": ["[run", "name = 1", "\xff"],
    "metrics.json": ["{", "[]", "{}", '{"verdict": 3}'],
    "curve.csv": ["", "by,removed\ncauses,many\n", "a,b\n1,2\n"],
    "causes.csv": ["", "index,score\nx,y\n", 'index,score,given\n"1,2'],
    "looks.json": ["{", "[]", '{"train": 3}', '{"train": {"1": {"image": "http://far.away/x.png"}}}'],
}


@pytest.mark.parametrize(("name", "text"), [(k, t) for k, texts in DAMAGE.items() for t in texts])
def test_a_damaged_file_is_said_in_one_line(copy, name, text):
    (copy / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(RunMismatch) as said:
        report(copy)
    assert str(said.value).count("; ") == 2, said.value
    assert "\n" not in str(said.value)


def test_numbers_of_another_kind_deep_inside_are_a_mismatch_too(copy):
    with pytest.raises(RunMismatch, match="do not fit together"):
        changed(copy, groups={"9→4": {"n": "many"}})


def test_no_folder_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="no such run folder"):
        report(tmp_path / "nowhere")
