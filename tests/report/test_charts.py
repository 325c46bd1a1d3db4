"""Marks of the charts are where their numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from amends.report.charts import BOTTOM, HIGH, TOP


def test_the_dumbbells_are_where_the_shares_are(page, result):
    m = result.metrics
    drawn = page.all("svg", page.section("before-after"), class_="dumbbell", role="img")
    for svg, name in zip(drawn, ("query", "holdout", "remaining", "overall", "evaluation"), strict=True):
        at = {c[1]["class"]: float(c[1]["cx"].rstrip("%")) for c in page.all("circle", svg)}
        assert at["before"] == pytest.approx(2 + 96 * m[name]["before"], abs=0.01)
        assert at["after"] == pytest.approx(2 + 96 * m[name]["after"], abs=0.01)
        spans = page.all("line", svg, class_="interval")
        assert len(spans) == (name != "evaluation")  # of which a part was learned from
        assert all(float(s[1]["x1"][:-1]) <= at["after"] <= float(s[1]["x2"][:-1]) for s in spans)


def test_points_of_the_curve_are_at_their_height(page, result):
    figure = page.all("figure", page.section("curve"))[0]
    at = {r["holdout"]: r for r in result.metrics["curve"] if r["by"] == "causes"}
    labels = [t for t in page.all("text", figure) if page.text(t).endswith("%")]
    y = [float(t[1]["y"]) - 4 for t in labels]
    shown = [float(page.text(t).rstrip("%")) / 100 for t in labels]
    assert (min(y), max(y)) == (TOP, HIGH - BOTTOM)
    slope, start = np.polyfit(y, shown, 1)
    for mark, value in zip(page.all("circle", figure, class_="mark"), at, strict=True):
        assert slope * float(mark[1]["cy"]) + start == pytest.approx(value, abs=1e-3)
