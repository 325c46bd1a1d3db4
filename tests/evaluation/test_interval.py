"""The interval of a share that is mixed of several sets."""

from __future__ import annotations

import numpy as np
import pytest

from amends.evaluation.statistics import BeforeAfter, interval, interval_together


def mixed(*sets):
    """So many of n right, each set with its weight."""
    return interval_together([(w, BeforeAfter(np.zeros(n, bool), np.arange(n) < right)) for w, right, n in sets])


def test_the_interval_of_one_set_is_its_own():
    assert mixed((1.0, 37, 50)) == pytest.approx(interval(0.74, 50))


def test_a_small_set_that_is_all_right_is_not_sure():
    """Three of three failures: their own share may be .44, and half of that counts."""
    low, high = mixed((0.5, 3, 3), (0.5, 950, 1000))
    assert low == pytest.approx(
        0.975 - np.hypot(0.5 * (1 - interval(1.0, 3)[0]), 0.5 * (0.95 - interval(0.95, 1000)[0]))
    )
    assert low < 0.7
    assert high == pytest.approx(0.975 + 0.5 * (interval(0.95, 1000)[1] - 0.95))
    assert mixed((0.5, 0, 3), (0.5, 0, 3))[0] == 0.0
    assert mixed((0.5, 3, 3), (0.5, 3, 3))[1] == 1.0


@pytest.mark.parametrize(("failures", "right", "weight"), [((5, 0.9), (500, 0.99), 0.2), ((20, 0.5), (500, 0.97), 0.3)])
def test_a_mixed_interval_holds_the_truth_nineteen_times_in_twenty(failures, right, weight):
    rng, held = np.random.default_rng(0), 0
    truth = weight * failures[1] + (1 - weight) * right[1]
    for _ in range(1000):
        sets = ((w, rng.binomial(n, p), n) for w, (n, p) in ((weight, failures), (1 - weight, right)))
        low, high = mixed(*sets)
        held += low <= truth <= high
    assert 0.91 < held / 1000 < 0.99
