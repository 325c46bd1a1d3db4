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


def test_copies_stay_together_and_are_dealt_out_in_proportion():
    sizes = [90, 85, 69, 67, *[1] * 2000]
    together = np.repeat(np.arange(len(sizes)), sizes)
    groups = np.repeat([0, 0, 0, 0, *np.arange(2000) % 2], sizes)
    for seed in range(20):
        first, second = split(groups, 0.5, seed, together)
        assert sorted([*first, *second]) == list(range(len(groups)))
        assert not set(together[first]) & set(together[second])
        assert abs(len(second) - len(first)) <= 1
        assert np.isin([0, 1, 2, 3], together[second]).sum() == 2
    ends = {tuple(np.isin([0, 1, 2, 3], together[split(groups, 0.5, seed, together)[1]])) for seed in range(20)}
    assert len(ends) == 2  # the largest may be in either


def test_a_group_of_copies_alone_is_in_both_parts():
    together = np.repeat([0, 1], [5, 4])
    for fraction in (0.1, 0.5, 0.9):
        parts = split(np.zeros(9), fraction, 0, together)
        assert sorted(len(part) for part in parts) == [4, 5]
    smaller = split(np.zeros(9), 0.1, 0, together)[1]
    assert together[smaller].tolist() == [1] * 4


def test_without_copies_it_is_the_same_split():
    groups = np.arange(50) % 3
    alone, told = split(groups, 0.3, 4), split(groups, 0.3, 4, np.arange(50))
    assert all(np.array_equal(a, b) for a, b in zip(alone, told, strict=True))
