"""How much to remove: points with bands, the rule that picks one, and controls that look at nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from amends.algorithm.choose import Chooser
from amends.algorithm.curve import CAUSES, NOTHING, RANDOM, Curve, CurvePoint, Fit, Rule, noise, sizes, with_outcomes
from amends.algorithm.sets import Sets
from amends.algorithm.treat import again
from amends.evaluation.predictions import right
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.methods import ewc, fine_tune, newton, retrain
from tests.conftest import classification, factor


def point(removed, query, guard=1.0, kept=(), by=CAUSES):
    """`query` is one share, or those of several fits."""
    shares = query if isinstance(query, list) else [query]
    return CurvePoint(by, removed, tuple(Fit({}, q, guard, tuple(kept)) for q in shares))


def rule(nothing=None, least=0.98, least_kept=(), failures=0.5, margin=0.0):
    return Rule(least, least_kept, failures, nothing or point(0, [0.2, 0.2], by=NOTHING), margin)


def chosen(rule, points):
    found = rule.smallest(points)
    return None if found is None else found.removed


# --- the rule ----------------------------------------------------------------------------------------


def test_the_smallest_within_a_point_of_the_best():
    points = [point(30, 0.9), point(10, 0.5), point(20, 0.892), point(40, 0.6)]
    assert chosen(rule(), points) == 20
    points[2] = point(20, 0.888)
    assert chosen(rule(), points) == 30


def test_the_smallest_within_what_refits_differ_by():
    points = [point(10, [0.7, 0.9]), point(20, [0.85, 0.95]), point(30, [0.8, 0.9])]
    assert chosen(rule(point(0, [0.2, 0.2])), points) == 20  # the refits' deviation is .08, and 10 is .1 below
    assert chosen(rule(point(0, [0.1, 0.4])), points) == 10  # of the control as well: .13


def test_what_breaks_the_guard_is_not_chosen_and_is_not_the_best():
    points = [point(10, 0.5, 0.99), point(20, 0.7, 0.98), point(30, 0.9, 0.979)]
    assert chosen(rule(), points) == 20
    assert chosen(rule(least=0.9), points) == 30
    assert chosen(rule(least=0.995), points) is None
    assert chosen(rule(), []) is None


def test_what_leaves_a_margin_goes_before_what_stands_at_the_floor():
    points = [point(10, 0.6, 0.99), point(20, 0.7, 0.986), point(30, 0.9, 0.981)]
    assert chosen(rule(), points) == 30
    assert chosen(rule(margin=0.005), points) == 20
    assert chosen(rule(margin=0.01), points) == 10
    assert chosen(rule(margin=0.015), points) == 30, "where none leaves it, all that are safe"


def test_a_margin_is_not_worth_more_than_half_of_the_gain():
    points = [point(10, 0.5, 0.99), point(30, 0.9, 0.981)]
    assert chosen(rule(margin=0.005), points) == 30, "of .2 to .9 it would keep .3"
    assert chosen(rule(point(0, 0.1, 1.0, by=NOTHING), margin=0.005), points) == 10, "half of .1 to .9"


def test_the_margin_is_half_a_standard_error_of_the_guards_share():
    for least, number, expected in ((0.9, 100, 0.015), (0.9, 400, 0.0075), (1.0, 100, 0.0), (-0.01, 100, 0.0)):
        assert Chooser._margin(SimpleNamespace(guard=range(number)), least) == pytest.approx(expected)
    assert Chooser._margin(SimpleNamespace(guard=None), 0.9) == 0.0


def test_each_set_to_keep_has_a_floor_of_its_own():
    points = [point(10, 0.5, kept=(0.9, 0.6)), point(20, 0.7, kept=(0.95, 0.59)), point(30, 0.9, kept=(0.89, 0.7))]
    for least, expected in (((0.9, 0.6), 10), ((0.9, 0.5), 20), ((0.8, 0.6), 30), ((0.96, 0.6), None)):
        assert chosen(rule(least_kept=least), points) == expected


def test_a_share_at_its_floor_is_not_below_it():
    third = float(np.mean([True, False, False]))
    assert rule(least=0.1 + 0.2, least_kept=(0.1 + 0.2,)).safe(point(1, 0.5, 0.3, (0.3,)))
    assert rule(least=third).safe(point(1, 0.5, third))
    assert not rule(least=third).safe(point(1, 0.5, third - 1e-6))
    assert rule(least=1.0).safe(point(1, 0.5, None))  # no guard, nothing to break


def test_the_whole_must_be_better_than_with_nothing_removed():
    """Nothing: .1 · .2 + .9 · 1 = .92; the first two are worth .914 and .932."""
    worse, better = point(10, 0.5, 0.96), point(20, 0.5, 0.98)
    control = point(0, 0.2, 1.0, by=NOTHING)
    assert chosen(rule(control, 0.9, failures=0.1), [worse]) is None
    assert chosen(rule(control, 0.9, failures=0.1), [worse, better]) == 20
    assert rule(control, failures=0.1).overall(worse) == pytest.approx(0.914)
    assert chosen(rule(control, 0.9, failures=0.9), [worse]) == 10  # most of what the user gave are failures


def test_as_good_as_with_nothing_removed_is_not_better():
    for guard in (None, 1.0):
        control = point(0, 0.6, guard, by=NOTHING)
        assert chosen(rule(control), [point(10, 0.6, guard), point(20, 0.5, guard)]) is None
        assert chosen(rule(control), [point(10, 0.6, guard), point(20, 0.65, guard)]) == 20


def test_good_is_safe_and_near_the_best_so_far():
    points = [point(10, 0.5), point(20, 0.9), point(30, 0.895), point(40, 0.88), point(50, 0.95, 0.9)]
    judge = rule(point(0, [0.2, 0.2]))
    assert [judge.good(p, points[: i + 1]) for i, p in enumerate(points)] == [True, True, True, False, False]


# --- noise ---------------------------------------------------------------------------------------------


def test_noise_is_the_deviation_of_refits():
    rng = np.random.default_rng(0)
    shares = [rng.random(3).tolist() for _ in range(4)]
    expected = np.mean([np.std(s, ddof=1) ** 2 for s in shares]) ** 0.5
    assert noise([point(i, s) for i, s in enumerate(shares)]) == pytest.approx(expected)
    alone = [point(9, 0.0), *(point(i, s) for i, s in enumerate(shares)), point(9, 1.0)]
    assert noise(alone) == pytest.approx(expected)


def test_without_refits_noise_is_half_the_typical_step():
    points = [point(k, share) for k, share in enumerate([0.2, 0.3, 0.26, 0.9])]  # steps .1, .04 and .64
    assert noise(points) == pytest.approx(0.05)


def test_noise_is_at_least_a_point():
    assert noise([point(k, [0.5, 0.5]) for k in range(3)]) == 0.01
    assert noise([point(k, 0.5) for k in range(3)]) == 0.01
    assert noise([point(0, 0.5)]) == 0.01


# --- points --------------------------------------------------------------------------------------------


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
    assert sizes(100, 99) == [2, 5, 10, 15, 20, 30]
    assert sizes(100, 7) == [2, 5, 7]
    assert sizes(10, 9) == [1, 2, 3]
    assert sizes(100, 0) == []


# --- drawing -------------------------------------------------------------------------------------------


def scripted(shares, refits=1, n=40, seed=0):
    """A curve whose treatment makes that share of the query right, by how many are removed; and what it was asked."""
    layer = torch.nn.Linear(1, 2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0], [1.0]]))
        layer.bias.zero_()
    network = Network.of(layer, Categorical())
    x = -(torch.arange(10, dtype=torch.float64)[:, None] + 0.5) / 10  # right once the bias exceeds it
    asked = []

    def treat(causes, number):
        asked.append((causes.tolist(), number))
        return {**network.params, "bias": torch.tensor([0.0, shares[len(causes)]], dtype=torch.float64)}

    order = np.random.default_rng(1).permutation(n)
    query = factor(network, x, torch.ones(10, dtype=torch.long))
    return Curve(treat, refits, order, query, None, seed=seed), asked


def tried(shares):
    curve, asked = scripted(shares)
    points = curve.causes(list(shares), rule(point(0, [0.1, 0.1], None)).good)
    assert [p.query for p in points] == pytest.approx([shares[p.removed] for p in points])
    assert [causes for causes, _ in asked] == [curve.order[: p.removed].tolist() for p in points]
    return [p.removed for p in points]


def test_two_sizes_in_a_row_that_are_no_good_end_the_search():
    assert tried({1: 0.5, 2: 0.8, 4: 0.5, 8: 0.5, 16: 0.9, 32: 1.0}) == [1, 2, 4, 8]


def test_one_bad_size_does_not_end_the_search():
    assert tried({1: 0.5, 2: 0.8, 4: 0.5, 8: 0.8, 16: 0.5, 32: 0.8}) == [1, 2, 4, 8, 16, 32]


def test_every_refit_has_the_same_causes_and_other_random_numbers():
    curve, asked = scripted({0: 0.1, 3: 0.5}, refits=3)
    made = curve.at(CAUSES, curve.order[:3])
    assert (made.by, made.removed, len(made.fits)) == (CAUSES, 3, 3)
    assert asked == [(curve.order[:3].tolist(), number) for number in range(3)]
    nothing = curve.nothing()
    assert (nothing.by, nothing.removed, nothing.query) == (NOTHING, 0, pytest.approx(0.1))
    assert asked[3:] == [([], number) for number in range(3)]


def test_a_treatment_is_made_again_with_other_random_numbers():
    tuned = fine_tune(rate=0.01, seed=5)
    assert again(tuned, 0) is tuned
    seeds = [again(tuned, number).editor.climb.seed for number in range(3)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 3
    other = again(tuned, 1)
    assert replace(other.editor.climb, seed=5) == tuned.editor.climb
    assert other.editor.unlearn.seed == seeds[1]
    assert other.remember is tuned.remember
    fresh = again(retrain(seed=5), 1).editor
    assert fresh.seed != 5
    assert fresh.climb.seed != 5


def test_a_treatment_without_random_numbers_is_the_very_same():
    for method in (newton(), ewc()):
        assert again(method, 1) is method


def test_random_controls_are_drawn_anew_for_each_refit():
    draws = {}
    for seed in (0, 0, 1):
        curve, asked = scripted({12: 0.5}, refits=3, seed=seed)
        made = curve.random(12)
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
    curve.random(12)
    counts = np.bincount(np.concatenate([causes for causes, _ in asked]), minlength=40)
    assert counts.min() > 0
    assert counts.max() < 20  # of 30 draws, 9 expected


def test_random_controls_draw_only_what_may_be_removed():
    """Not what an earlier round has removed already, wherever in train it stands."""
    curve, asked = scripted({12: 0.5}, refits=30)
    left = curve.order[curve.order >= 10]
    replace(curve, order=left).random(12)
    assert set().union(*(causes for causes, _ in asked)) == set(left.tolist())


def world():
    x, y, network = classification(n=120)
    data, other = factor(network, x, y), {k: v + 0.3 * torch.sin(v * 9) for k, v in network.params.items()}
    return data, (network.params, other)


def test_a_fit_is_seen_by_what_may_choose_it_and_by_nothing_else():
    data, (theta, other) = world()
    query, guard, keep = data[:20], data[20:50], (data[50:60], data[60:70])
    curve = Curve(lambda causes, number: theta if number else other, 2, np.arange(120), query, guard, keep)
    for fit, by in zip(curve.at(CAUSES, np.arange(3)).fits, (other, theta), strict=True):
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
