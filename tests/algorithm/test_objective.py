"""What a repair is worth, and how likely luck alone gains as much: against enumeration and textbook tests."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from amends.algorithm.objective import Objective
from amends.evaluation.statistics import mcnemar


def test_with_a_cost_of_one_the_worth_is_overall_accuracy():
    """30 failures and 70 right examples, 12 of the first and 68 of the second right."""
    assert Objective(0.3).worth(12 / 30, 68 / 70) == pytest.approx(80 / 100)
    assert Objective(0.3).worth(0.4, None) == pytest.approx(0.12)


def test_a_broken_example_costs_as_many_fixed_ones():
    """Three more fixed of 30 are worth one more broken of 70 at a cost of three."""
    careful = Objective(0.3, 3.0)
    assert careful.worth(15 / 30, 67 / 70) == pytest.approx(careful.worth(12 / 30, 68 / 70))


def test_the_error_is_that_of_a_weighted_sum():
    rng = np.random.default_rng(0)
    worth = Objective(0.3, 2.0)
    drawn = [worth.worth(rng.binomial(50, 0.4) / 50, rng.binomial(200, 0.9) / 200) for _ in range(20_000)]
    assert worth.error((0.4, 50), (0.9, 200)) == pytest.approx(np.std(drawn), rel=0.03)
    assert worth.error((0.4, 50), (None, 0)) == pytest.approx(0.3 * (0.4 * 0.6 / 50) ** 0.5)


def moves(fixed, broken, rest):
    return np.array([1] * fixed + [-1] * broken + [0] * rest)


@pytest.mark.parametrize(("fixed", "broken"), [(5, 0), (6, 1), (10, 2), (60, 30), (400, 350)])
def test_on_the_failures_of_one_fit_it_is_mcnemars_test_in_one_direction(fixed, broken):
    assert Objective(0.2).chance(moves(fixed, broken, 20), None) == pytest.approx(mcnemar(fixed, broken) / 2, rel=1e-9)


def test_where_failures_and_right_examples_weigh_the_same_they_are_one_set():
    """Half of 40 and half of 160, as they were given: every example counts 1 / 200."""
    chance = Objective(0.2).chance(moves(6, 1, 13), moves(4, 2, 74))
    assert chance == pytest.approx(mcnemar(10, 3) / 2, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_counts_every_way_the_examples_could_have_spoken(seed):
    rng = np.random.default_rng(seed)
    failures, right_ones = rng.integers(-3, 4, 7), rng.integers(-2, 3, 6)
    worth = Objective(0.3, 2.0)
    a, b = 0.3 / 7, 2 * 0.7 / 6
    size = np.concatenate([a * np.abs(failures), b * np.abs(right_ones)])
    gained = a * failures.sum() + b * right_ones.sum()
    ways = [float(size @ signs) >= gained - 1e-9 for signs in product((1, -1), repeat=len(size))]
    assert worth.chance(failures, right_ones) == pytest.approx(np.mean(ways), abs=1e-12)


def test_where_nothing_is_better_it_is_below_a_level_no_more_often_than_that():
    rng = np.random.default_rng(0)
    p = [Objective(0.3).chance(rng.integers(-1, 2, 30), rng.integers(-1, 2, 60)) for _ in range(2000)]
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(p) <= level) < level + 3 * (level * (1 - level) / 2000) ** 0.5


def test_no_disagreement_says_nothing():
    assert Objective(0.3).chance(np.zeros(10, dtype=int), np.zeros(20, dtype=int)) == 1.0
    assert Objective(0.3).chance(np.zeros(10, dtype=int), None) == 1.0
