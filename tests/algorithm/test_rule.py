"""The rule that picks a size from the curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from amends.algorithm.curve import NOTHING, CurvePoint, Fit, Limits, Rule
from amends.algorithm.objective import Objective
from tests.algorithm.points import point, rule

CONTROL = point(0, [0.2, 0.2], by=NOTHING)


def chosen(rule, points, shown=0, nothing=CONTROL, error=0.0):
    best = rule.best([nothing, *points], shown, lambda _: error)
    return None if best is None else best.removed


def test_the_size_that_is_worth_most():
    points = [point(10, 0.5, 0.99), point(20, 0.7, 0.98), point(30, 0.8, 0.85)]
    assert chosen(rule(), points) == 20
    assert chosen(rule(), []) is None


def test_what_a_broken_example_costs_decides():
    """From 20 to 30 a tenth more of the failures is fixed and .13 more of what worked is broken."""
    points = [point(10, 0.5, 0.99), point(20, 0.7, 0.98), point(30, 0.8, 0.85)]
    assert chosen(rule(costs=0.7), points) == 30
    assert chosen(rule(costs=0.8), points) == 20
    assert chosen(rule(costs=25), points) == 10
    assert chosen(rule(failures=0.9), points) == 30, "most of what the user gave are failures"


def test_where_labels_are_shown_to_be_wrong_another_number_must_be_worth_more_by_a_standard_error():
    points = [point(10, 0.8), point(20, 0.9), point(40, 0.94)]
    assert chosen(rule(), points) == 40, "nothing is known: the one worth most"
    assert chosen(rule(), points, shown=22, error=0.03) == 20, "worth .02 less"
    assert chosen(rule(), points, shown=22, error=0.01) == 40
    assert chosen(rule(), points, shown=9, error=0.03) == 40
    assert chosen(rule(least=0.9), [point(20, 0.9, 0.8), *points[:1]], shown=20) == 10, "the nearest that is safe"


def test_where_labels_are_shown_to_be_wrong_it_need_not_be_worth_more_than_nothing():
    points = [point(10, 0.1), point(20, 0.05)]
    assert chosen(rule(), points) is None
    assert chosen(rule(), points, shown=20) == 10


def test_what_breaks_a_limit_is_not_chosen_and_is_not_the_best():
    points = [point(10, 0.5, 0.99), point(20, 0.7, 0.98), point(30, 0.9, 0.979)]
    assert chosen(rule(least=0.98), points) == 20
    assert chosen(rule(least=0.9), points) == chosen(rule(), points) == 30
    assert chosen(rule(least=0.995), points) is None


def test_each_set_to_keep_has_a_limit_of_its_own():
    points = [point(10, 0.5, kept=(0.9, 0.6)), point(20, 0.7, kept=(0.95, 0.59)), point(30, 0.9, kept=(0.89, 0.7))]
    for least, expected in (((0.9, 0.6), 10), ((0.9, 0.5), 20), ((0.8, 0.6), 30), ((0.96, 0.6), None)):
        assert chosen(rule(least_kept=least), points) == expected


def test_an_accuracy_at_its_limit_is_not_below_it():
    third = float(np.mean([True, False, False]))
    assert rule(least=0.1 + 0.2, least_kept=(0.1 + 0.2,)).safe(point(1, 0.5, 0.3, (0.3,)))
    assert rule(least=third).safe(point(1, 0.5, third))
    assert not rule(least=third).safe(point(1, 0.5, third - 1e-6))
    assert rule(least=1.0).safe(point(1, 0.5, None))  # no guard, nothing to break


def test_it_must_be_worth_more_than_removing_nothing():
    """Nothing: .1 · .2 + .9 · 1 = .92; the two are worth .914 and .932."""
    worse, better = point(10, 0.5, 0.96), point(20, 0.5, 0.98)
    assert chosen(rule(failures=0.1), [worse]) is None
    assert chosen(rule(failures=0.1), [worse, better]) == 20
    assert rule(failures=0.1).worth(worse) == pytest.approx(0.914)
    for guard in (None, 1.0):
        control = point(0, 0.6, guard, by=NOTHING)
        assert chosen(rule(), [point(10, 0.6, guard), point(20, 0.5, guard)], nothing=control) is None


def test_good_is_safe_and_worth_as_much_as_any_so_far():
    points = [point(10, 0.5), point(20, 0.9), point(30, 0.895), point(40, 0.9), point(50, 0.99, 0.8)]
    judge = rule(least=0.85)
    assert [judge.good(p, points[: i + 1]) for i, p in enumerate(points)] == [True, True, False, True, False]


def test_a_limit_holds_in_the_model_handed_back():
    """Not only on average over the refits."""
    fits = tuple(Fit({}, 0.9, 0.99, (kept,)) for kept in (0.90, 0.96, 0.99))
    worst_first = CurvePoint("causes", 5, fits)
    limits = Limits(0.9, None, (0.94,), ("keep[0]",))
    holds = Rule(Objective(0.2), limits).safe
    assert not holds(worst_first)
    assert holds(replace(worst_first, fits=fits[::-1]))
