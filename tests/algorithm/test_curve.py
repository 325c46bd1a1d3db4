"""How much to remove: points with bands, and controls that look at nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from amends.algorithm.curve import (
    CAUSES,
    NOTHING,
    RANDOM,
    Curve,
    CurvePoint,
    Fit,
    sizes,
    with_outcomes,
)
from amends.algorithm.sets import Sets
from amends.evaluation.predictions import right
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.settings import DEFAULT
from tests.algorithm.points import point, rule
from tests.conftest import classification, factor


def test_a_row_holds_means_and_bands():
    fits = (
        Fit({}, 0.4, 0.9, (0.5,), 0.3, 0.8),
        Fit({}, 0.6, 0.8, (0.7,), 0.2, 1.0),
        Fit({}, 0.2, 1.0, (0.9,), 0.1, 0.9),
    )
    made = CurvePoint(CAUSES, 7, fits)
    assert made.row() == pytest.approx(
        {
            "by": CAUSES, "removed": 7, "refits": 3,
            "query": 0.4, "query_low": 0.2, "query_high": 0.6, "guard": 0.9, "guard_low": 0.8, "guard_high": 1.0,
            "holdout": 0.2, "holdout_low": 0.1, "holdout_high": 0.3,
            "remaining": 0.9, "remaining_low": 0.8, "remaining_high": 1.0,
        }
    )  # fmt: skip
    assert made.kept == pytest.approx((0.7,))


def test_a_row_says_nothing_of_what_was_not_looked_at():
    row = point(7, [0.4, 0.6], None).row()
    for name in ("guard", "holdout", "remaining"):
        assert row[name] is row[f"{name}_low"] is row[f"{name}_high"] is None
    assert row["query"] == 0.5


def test_sizes_are_shares_and_no_more_than_are_harmful():
    shares = DEFAULT.curve.shares
    assert sizes(shares, 100, 99) == [2, 5, 10, 20]
    assert sizes(shares, 100, 7) == [2, 5, 7]
    assert sizes(shares, 10, 9) == [1, 2]
    assert sizes(shares, 100, 0) == []


def scripted(shares, refits=1, n=40, seed=0):
    """A curve whose treatment makes that share of the query right, by how many are removed; and what it was asked."""
    layer = torch.nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0], [1.0]]))
        layer.bias.zero_()
    network = Network.of(layer, Categorical())
    x = -(torch.arange(10, dtype=torch.float64)[:, None] + 0.5) / 10  # right once the bias exceeds it
    asked = []

    def treat(causes, number, start):
        asked.append((causes.tolist(), number))
        return {**network.params, "bias": torch.tensor([0.0, shares[len(causes)]], dtype=torch.float64)}

    order = np.random.default_rng(1).permutation(n)
    query = factor(network, x, torch.ones(10, dtype=torch.long))
    return Curve(treat, refits, order, query, None, seed=seed), asked


def tried(shares):
    curve, asked = scripted(shares)
    points = curve.causes(list(shares), rule(point(0, [0.1, 0.1], None)).good, 2)
    assert [p.query for p in points] == pytest.approx([shares[p.removed] for p in points])
    assert [causes for causes, _ in asked] == [curve.order[: p.removed].tolist() for p in points]
    return [p.removed for p in points]


def test_two_sizes_in_a_row_that_are_no_good_end_the_search():
    assert tried({1: 0.5, 2: 0.8, 4: 0.5, 8: 0.5, 16: 0.9, 32: 1.0}) == [1, 2, 4, 8]


def test_one_bad_size_does_not_end_the_search():
    assert tried({1: 0.5, 2: 0.8, 4: 0.5, 8: 0.8, 16: 0.5, 32: 0.8}) == [1, 2, 4, 8, 16, 32]


def test_every_refit_has_the_same_causes_and_other_random_numbers():
    curve, asked = scripted({0: 0.1, 3: 0.5}, refits=3)
    made = curve.at(CAUSES, 3)
    assert (made.by, made.removed, len(made.fits)) == (CAUSES, 3, 3)
    assert asked == [(curve.order[:3].tolist(), number) for number in range(3)]
    nothing = curve.nothing()
    assert (nothing.by, nothing.removed, nothing.query) == (NOTHING, 0, pytest.approx(0.1))
    assert asked[3:] == [([], number) for number in range(3)]


def test_random_controls_are_drawn_anew_for_each_refit():
    draws = {}
    for seed in (0, 0, 1):
        curve, asked = scripted({12: 0.5}, refits=3, seed=seed)
        made = curve.at(RANDOM, 12)
        assert (made.by, made.removed) == (RANDOM, 12)
        assert [number for _, number in asked] == [0, 1, 2]
        sets = [frozenset(causes) for causes, _ in asked]
        assert len(set(sets)) == 3
        assert all(len(s) == 12 and s <= set(range(40)) for s in sets)
        assert frozenset(curve.order[:12].tolist()) not in sets
        assert draws.setdefault(seed, sets) == sets
    assert draws[0] != draws[1]


def test_random_controls_reach_all_of_train():
    curve, asked = scripted({12: 0.5}, refits=30)
    curve.at(RANDOM, 12)
    counts = np.bincount(np.concatenate([causes for causes, _ in asked]), minlength=40)
    assert counts.min() > 0
    assert counts.max() < 20  # of 30 draws, 9 expected


def test_random_controls_draw_only_what_may_be_removed():
    """Not what an earlier round has removed already, wherever in train it stands."""
    curve, asked = scripted({12: 0.5}, refits=30)
    left = curve.order[curve.order >= 10]
    replace(curve, order=left).at(RANDOM, 12)
    assert set().union(*(causes for causes, _ in asked)) == set(left.tolist())


def world():
    x, y, network = classification(n=120)
    data, other = factor(network, x, y), {k: v + 0.3 * torch.sin(v * 9) for k, v in network.params.items()}
    return data, (network.params, other)


def test_a_fit_is_seen_by_what_may_choose_it_and_by_nothing_else():
    data, (theta, other) = world()
    query, guard, keep = data[:20], data[20:50], (data[50:60], data[60:70])
    curve = Curve(lambda causes, number, start: theta if number else other, 2, np.arange(120), query, guard, keep)
    for fit, by in zip(replace(curve, order=np.arange(3)).at(CAUSES, 3).fits, (other, theta), strict=True):
        assert fit.theta is by
        assert (fit.query, fit.guard) == (right(query, by).mean(), right(guard, by).mean())
        assert fit.kept == tuple(right(k, by).mean() for k in keep)
        assert fit.holdout is fit.remaining is None


def sets(holdout, remaining):
    return Sets(holdout, holdout, holdout[:0], remaining, failures=20, right_ones=30)


def test_judging_fills_in_what_judges_and_changes_nothing_else():
    data, thetas = world()
    points = [
        CurvePoint(CAUSES, 3, tuple(Fit(t, 0.3, 0.4, (0.5,)) for t in thetas)),
        CurvePoint(NOTHING, 0, (Fit(thetas[0], 0.1, None),)),
    ]
    holdout, remaining = data[70:90], data[90:]
    for was, now in zip(points, with_outcomes(points, sets(holdout, remaining)), strict=True):
        assert (now.by, now.removed) == (was.by, was.removed)
        for a, b in zip(was.fits, now.fits, strict=True):
            assert all(torch.equal(a.theta[k], b.theta[k]) for k in a.theta)
            assert (a.query, a.guard, a.kept) == (b.query, b.guard, b.kept)
            assert (b.holdout, b.remaining) == (right(holdout, a.theta).mean(), right(remaining, a.theta).mean())
            assert a.holdout is a.remaining is None
    (first, _) = with_outcomes(points, sets(holdout, None))
    assert first.remaining is None
    assert first.holdout == np.mean([right(holdout, t).mean() for t in thetas])
    assert with_outcomes(points, sets(holdout[:0], remaining))[0].holdout is None


def test_the_curve_has_bands_and_controls_beside_it(result):
    """One fit of each leaves no doubt here; sizes that were only tried have no random control."""
    rows = result.metrics["curve"]
    (chosen,) = (row["removed"] for row in rows if row["by"] == RANDOM)
    for row in rows:
        assert row["refits"] == 1
        for name in ("query", "holdout", "guard", "remaining"):
            assert row[f"{name}_low"] - 1e-9 <= row[name] <= row[f"{name}_high"] + 1e-9
    by = {by: [row["removed"] for row in rows if row["by"] == by] for by in (NOTHING, CAUSES, RANDOM)}
    assert by[NOTHING] == [0]
    assert by[CAUSES] == sorted(by[CAUSES])
    assert {chosen, result.metrics["removed"]} <= set(by[CAUSES])
    controls = result.metrics["controls"]
    assert {NOTHING, RANDOM} <= set(controls)
    assert all({k: v for k, v in row.items() if k != "changes"} in rows for row in controls.values())
    assert controls[RANDOM]["removed"] == chosen
