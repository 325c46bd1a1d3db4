"""When to stop looking: the interval holds what it says, however one looks, and the order is the one described."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from amends.web.stopping import EVERY, FEWEST, at_least, interval
from tests.web.test_decisions import decide, rows


@pytest.mark.parametrize("n", [1, 7, 40])
def test_the_bound_is_the_one_of_the_hypergeometric_distribution(n):
    for m in range(1, n + 1):
        for k in range(m + 1):
            fits = [K for K in range(k, n - m + k + 1) if hypergeom.sf(k - 1, n, K, m) > 0.025 - 1e-9]
            assert at_least(n, m, k, 0.025) == min(fits)


def test_rows_left_open_make_it_wider_on_both_sides():
    """Those outside the sample too: each may be one to remove, or not."""
    sure = [True] * 12 + [False] * 4 + ["unseen"] * 20 + [True] * 4
    left = [True] * 12 + [False] * 4 + ["unseen"] * 20 + [None] * 4
    low, _, high = interval(left)
    assert low == interval(sure)[0]
    assert high == interval([False if s is None else s for s in left])[2]
    assert low < interval([False if s is None else s for s in left])[0]


def looked_at(draw, truth, how):
    """The states of all rows, in the random order, after a person has looked at some of them."""
    n = len(truth)
    known = np.zeros(n, dtype=bool)
    for place in range(int(draw.integers(10, 60))):
        known[place] = True
        if how == "along the ranking as well":
            known[draw.integers(n // 2)] = True
        elif how == "where the last one was to be removed, at two more of those" and truth[place]:
            known[draw.choice(np.flatnonzero(truth), 2)] = True
    left_open = known & (draw.random(n) < 0.1) if how == "leaving some open" else np.zeros(n, dtype=bool)
    return [("unseen" if not k else None if o else bool(t)) for t, k, o in zip(truth, known, left_open, strict=True)]


@pytest.mark.parametrize("how", [
    "spot checks alone", "along the ranking as well", "where the last one was to be removed, at two more of those",
    "leaving some open",
])  # fmt: skip
@pytest.mark.parametrize("share", [0.03, 0.78, 0.97])
def test_the_interval_covers_the_truth_however_one_looks(how, share):
    """At least 95 %, but for the chance of 300 draws (three standard errors). The truth is fixed, the order random;
    which others are looked at may depend on all that was seen."""
    draw = np.random.default_rng([len(how), int(100 * share)])
    hits, width, tried = 0, [], 300
    for _ in range(tried):
        truth = draw.permutation(np.arange(200) < round(200 * share))
        states = looked_at(draw, truth, how)
        unseen = np.array([s == "unseen" for s in states])
        low, middle, high = interval(states)
        assert 0 <= low <= middle <= high <= 1
        hits += low - 1e-12 <= truth[unseen].mean() <= high + 1e-12
        width.append(high - low)
    assert hits / tried >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / tried)
    assert np.mean(width) < (0.6 if how == "leaving some open" else 0.45)


def test_the_estimate_comes_with_spot_checks_and_closes_in(page):
    assert page.get("/api/estimate").json()["text"].startswith("set a cut first")
    page.post("/api/cut", json={"cut": 60})
    told = page.get("/api/estimate").json()
    assert (told["above"], told["unseen"], told["sample"], told["share"]) == (60, 60, 0, None)
    listed = rows(page, order="spot", copies="all")
    checks = [row for row in listed if row["rank"] <= 60]
    for row in checks[: FEWEST - 1]:
        decide(page, [row["index"]], "remove")
    assert page.get("/api/estimate").json()["text"].startswith("1 more spot check")
    for row in checks[FEWEST - 1 : 30]:
        decide(page, [row["index"]], "keep" if row["index"] % 3 == 0 else "relabel", new_label="d1")
    told = page.get("/api/estimate").json()
    assert (told["sample"], told["unseen"]) == (30, 30)
    assert told["low"] < told["share"] < told["high"]
    assert told["text"] == (
        f"of the 30 above the cut that nobody has looked at, {100 * told['share']:.0f} % "
        f"({100 * told['low']:.0f} to {100 * told['high']:.0f} %) would be removed"
    )
    page.post("/api/decide", json={"filter": {"copies": "all"}, "range": [0, 59], "decision": "keep"})
    assert page.get("/api/estimate").json()["text"] == "all 60 above the cut have been looked at or decided"


def test_worth_a_look_is_near_the_cut_with_spot_checks_between_and_stands_still(page):
    page.post("/api/cut", json={"cut": 40})
    first = rows(page, order="worth")
    kept = [row for i, row in enumerate(first) if i % EVERY != EVERY - 1]
    near = [min(r["rank"], 40) / max(r["rank"], 40) * (1 + r["disagreement"]) for r in kept]
    assert near == sorted(near, reverse=True)
    spots = [row["index"] for row in rows(page, order="spot") if row["rank"] <= 40]
    mixed = [row["index"] for row in first[EVERY - 1 : 30 : EVERY]]
    assert [spots.index(at) for at in mixed] == sorted(spots.index(at) for at in mixed)
    decide(page, [first[0]["index"]], "remove")
    assert [r["index"] for r in rows(page, order="worth")] == [r["index"] for r in first]
    page.post("/api/worth", json={})
    assert rows(page, order="worth")[0]["index"] != first[0]["index"]
    assert rows(page, order="worth", down=1, limit=1)[0]["index"] == first[0]["index"]
