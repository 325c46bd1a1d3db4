"""The rule that picks a size from the curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from amends.algorithm.curve import NOTHING, CurvePoint, Fit, Rule, noise
from tests.algorithm.points import point, rule


def chosen(rule, points):
    smallest = rule.smallest(points)
    return None if smallest is None else smallest.removed


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


def test_a_floor_holds_in_the_model_handed_back():
    """Not only on average over the refits."""
    fits = tuple(Fit({}, 0.9, 0.99, (kept,)) for kept in (0.90, 0.96, 0.99))
    worst_first = CurvePoint("causes", 5, fits)
    holds = Rule(0.9, (0.94,), 0.2, CurvePoint("nothing", 0, fits)).safe
    assert not holds(worst_first)
    assert holds(replace(worst_first, fits=fits[::-1]))
