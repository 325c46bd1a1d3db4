"""Confusion matrices before and after."""

from __future__ import annotations

import numpy as np

from amends.report.matrix import MOST, matrices
from tests import reported
from tests.report.html import Page


def test_confusion_before_after_and_difference(page, result):
    found = result.metrics["confusion"]
    assert found["classes"] == list(reported.DIGITS)
    tables = page.all("table", page.section("confusion"), class_="matrix")

    def numbers(table):
        rows = [[page.text(c) for c in r[2] if c[0] == "td"] for r in page.all("tr", table)[1:]]
        return np.array([[int(c.replace("−", "-").replace(",", "")) for c in row] for row in rows])

    before, after, difference = map(numbers, tables)
    assert before.tolist() == found["before"]
    assert after.tolist() == found["after"]
    assert np.array_equal(difference, after - before)
    for i, row in enumerate(page.all("tr", tables[2])[1:]):
        for j, cell in enumerate(c for c in row[2] if c[0] == "td"):
            change = difference[i, j]
            better = "zero" if not change else "better" if (change > 0) == (i == j) else "worse"
            assert cell[1]["class"] == better


def test_the_confusion_is_that_of_the_models(result):
    """Rows true, columns predicted, over what judged: as the two models themselves say."""
    m = result.metrics
    before, after = (np.array(m["confusion"][k]) for k in ("before", "after"))
    n = m["holdout"]["n"] + m["remaining"]["n"]
    assert before.sum() == after.sum() == n
    assert np.array_equal(before.sum(1), after.sum(1))
    for table, key in ((before, "before"), (after, "after")):
        right = m["holdout"][key] * m["holdout"]["n"] + m["remaining"][key] * m["remaining"]["n"]
        assert np.trace(table) == round(right)
    for name, row in m["classes"].items():
        k = reported.DIGITS.index(name)
        assert before[k].sum() == row["n"]
        assert after[k, k] == round(row["after"] * row["n"])


def test_many_classes_are_put_together():
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 5, (2, 40, 40))
    found = {"classes": [f"c{i}" for i in range(40)], "before": before.tolist(), "after": after.tolist()}
    html, merged = matrices(found)
    page = Page(html)
    assert merged == 40 - (MOST - 2)
    rows = page.all("tr", page.all("table")[0])[1:]
    cells = [[int(page.text(c).replace(",", "")) for c in page.all("td", r)] for r in rows]
    assert np.sum(cells) == before.sum()
    assert "others" in page.text(page.all("table")[0])
