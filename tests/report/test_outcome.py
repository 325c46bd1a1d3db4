"""The verdict, before and after, and the curve, against the metrics they show."""

from __future__ import annotations

import pytest

from amends.report.markup import change, probability, share
from tests.report.html import changed


def test_the_verdict_its_reason_and_the_warnings_come_first(page, copy, result):
    m = result.metrics
    assert page.text(page.all("h1")[0]).lower() == m["verdict"]
    top = page.text(page.all("div", class_="verdict")[0])
    assert m["reason"][1:] in top
    assert not page.all("aside")
    other = changed(copy, warnings=["too few; failures; give 40 or more"])
    assert page.text(other.all("aside")[0]) == "WarningToo few. Give 40 or more. failures"


def test_before_and_after_with_intervals(page, result):
    m, part = result.metrics, page.section("before-after")
    rows = {r[0]: r[1:] for r in page.table(part, "Accuracy before and after")}
    for name in ("query", "holdout", "remaining", "overall"):
        row = m[name]
        assert rows[name][:3] == [str(row["n"]), share(row["before"]), share(row["after"])]
        assert rows[name][4] == change(row["before"], row["after"])
    for name in ("query", "holdout", "remaining"):
        low, high = m["intervals"][name]
        assert rows[name][3] == f"{share(low)} to {share(high)}"
        assert rows[name][6] == probability(m["p_values"][name])
    assert f"{m['fixed']} of {m['holdout']['n']} holdout failures are fixed" in page.text(part)
    assert f"{m['newly_broken']} of {m['remaining']['n']} examples that were right are newly broken" in page.text(part)


def test_the_curve_has_both_controls_and_the_chosen_size(page, result):
    m = result.metrics
    figures = page.all("figure", page.section("curve"))
    assert [page.text(page.all("figcaption", f)[0]) for f in figures] == [
        "Accuracy on holdout failures", "Accuracy on remaining"
    ]  # fmt: skip
    for figure in figures:
        kinds = [line[1]["class"] for line in page.all("polyline", figure)]
        assert sorted(kinds) == ["line causes", "line control", "line nothing"]
        assert len(page.all("polygon", figure, class_="band")) == 3
        assert len(page.all("circle", figure, class_="mark")) == sum(r["by"] == "causes" for r in m["curve"])
        assert len(page.all("rect", figure, class_="mark")) == sum(r["by"] == "random" for r in m["curve"])
        chosen, mark = page.all("line", figure, class_="chosen")[0], page.all("circle", figure, class_="mark")[0]
        assert float(chosen[1]["x1"]) == pytest.approx(float(mark[1]["cx"]))
        assert f"chosen: {m['removed']}" in page.text(figure)
    rows = page.table(page.section("curve"), "every number")
    assert len(rows) == 1 + len(m["curve"])
    controls = page.table(page.section("curve"), "and of its controls")
    assert [r[3] for r in controls[1:]] == [
        share(m["holdout"]["after"]), *(share(row["holdout"]) for row in m["controls"].values())
    ]  # fmt: skip
