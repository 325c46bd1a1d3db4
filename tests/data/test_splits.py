"""Splits keep groups in proportion."""

from __future__ import annotations

import numpy as np

from amends.data import split


def test_splits_keep_groups_in_proportion_and_lose_nothing():
    groups = np.repeat(["a", "b", "c", "d"], [40, 11, 2, 1])
    first, second = split(groups, 0.5, seed=0)
    assert sorted([*first, *second]) == list(range(54))
    assert abs(len(second) - 27) <= 1
    assert (groups[second] == "a").sum() == 20
    assert (groups[second] == "c").sum() == 1
    assert np.array_equal(split(groups, 0.5, seed=0)[1], second)
    assert not np.array_equal(split(groups, 0.5, seed=1)[1], second)
