"""Copies among the inputs, against pairs compared one by one and what was planted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.nearness import copies
from amends.nearness.copies import duplicates, witnesses
from tests.conftest import factor, tabular
from tests.nearness.points import plainly


def pictures(n=40, seed=0):
    """Random inputs on a common ground that would make all of them alike."""
    g = torch.Generator().manual_seed(seed)
    return 50 + torch.randn(n, 1, 6, 6, generator=g, dtype=torch.float64)


def copied(x, order, apart=0.05, batch=7):
    network = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).double(), Categorical())
    data = factor(network, x, torch.zeros(len(x), dtype=torch.long), batch=batch)
    return duplicates(data, np.asarray(order), apart)


def test_planted_copies_are_found_in_order():
    x, noise = pictures(), pictures(seed=1) - 50
    x[9], x[30] = x[3] + 0.01 * noise[0], x[3] + 0.01 * noise[1]
    x[5], x[20] = x[12], x[31] + 0.2 * noise[2]
    order = np.concatenate([[12, 30, 20], np.setdiff1d(np.arange(39), [12, 30, 20])])
    assert copied(x, order) == copied(x, order, batch=100) == [[12, 5], [30, 3, 9]]
    assert copied(x, order, apart=0.4) == [[12, 5], [30, 3, 9], [20, 31]]
    assert copied(x, order[order != 12]) == [[30, 3, 9]]
    assert copied(x, order[:1]) == copied(x, order[:0]) == []


def test_nearness_is_measured_against_all_of_the_data():
    """Beside each other alone, they would lie as far apart as anything could."""
    x, noise = pictures(), pictures(seed=1) - 50
    x[9], x[30] = x[3] + 0.01 * noise[0], x[3] + 0.01 * noise[1]
    for batch in (7, 100):
        assert copied(x, [9, 30, 3], batch=batch) == [[9, 30, 3]]
        assert copied(x[[9, 30, 3]], [0, 1, 2], batch=batch) == []


def by_pairs(x, order, apart, dense=copies.DENSE):
    """Those that differ by no more than `apart` times the larger distance from the mean, joined pair by pair; if more
    than `dense` times as many differ by no more than twice that, only those that are equal."""
    rows = x.double().flatten(1).numpy()
    away = np.linalg.norm(rows - rows.mean(0), axis=1)
    groups = [{int(i)} for i in order]
    far = {(i, j): np.linalg.norm(rows[i] - rows[j]) / max(away[i], away[j]) for i, j in combinations(order, 2)}
    near, wider = (sum(0 < d <= times * apart for d in far.values()) for times in (1, 2))
    for (i, j), distance in far.items():
        if distance <= (0 if wider > dense * near else apart):
            joined = next(s for s in groups if i in s) | next(s for s in groups if j in s)
            groups = [s for s in groups if not s & joined] + [joined]
    place = {int(p): k for k, p in enumerate(order)}
    return sorted((sorted(s, key=place.get) for s in groups if len(s) > 1), key=lambda s: place[s[0]])


@pytest.mark.parametrize("together", [1, 7, 128])
@pytest.mark.parametrize("dense", [copies.DENSE, 7.0, 1e9])
@pytest.mark.parametrize("apart", [0.0, 0.1, 0.25, 0.4, 0.5, 1.2])
def test_copies_are_those_of_the_definition(apart, dense, together, monkeypatch):
    """Points in space: at most eight times as many at twice the distance."""
    monkeypatch.setattr(copies, "TOGETHER", together)
    monkeypatch.setattr(copies, "DENSE", dense)
    g = torch.Generator().manual_seed(3)
    x = torch.randn(60, 3, generator=g, dtype=torch.float64) + 1
    order = np.random.default_rng(0).permutation(60)[:50]
    expected = by_pairs(x, order, apart, dense)
    assert max(map(len, expected), default=0) > 2 or apart < 0.4 or dense < 8
    assert duplicates(plainly(x), order, apart) == expected


def test_half_precision_is_compared_in_more():
    """Numbers near 500 come in steps of a half, so whole groups are equal and many lie on a line."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(60, 3, generator=g, dtype=torch.float16) * 4 + 500
    for apart in (0.0, 0.05, 0.1, 0.2, 0.3):
        expected = by_pairs(x, np.arange(60), apart)
        assert duplicates(plainly(x), np.arange(60), apart) == expected
        assert duplicates(plainly(x.double()), np.arange(60), apart) == expected


def test_points_of_a_plane_are_no_copies_for_being_near():
    """434 of them, of which most are near another; but what is equal is a copy. On a line, as the pictures of a film,
    near ones stay copies; so do those in many dimensions."""
    g = torch.Generator().manual_seed(0)
    plane = torch.randn(434, 2, generator=g, dtype=torch.float64)
    line = plane[:, :1] * torch.ones(1, 5, dtype=torch.float64)
    near = [len(set(witnesses(plainly(x), plainly(x)).tolist())) for x in (plane, line, plane[:, :1])]
    assert near[0] == near[2] == 434  # a single number has no direction
    assert near[1] < 50
    plane[400:] = plane[:34]
    assert len(set(witnesses(plainly(plane), plainly(plane)).tolist())) == 400
    many = torch.randn(434, 30, generator=g, dtype=torch.float64)
    many[400:] = many[:34] + 0.005 * torch.randn(34, 30, generator=g, dtype=torch.float64)
    assert len(set(witnesses(plainly(many), plainly(many)).tolist())) == 400


def test_whether_inputs_lie_dense_is_asked_of_all_targets_together():
    """A class with one near pair alone says nothing; all of them do."""
    g = torch.Generator().manual_seed(0)
    plane, y = torch.randn(900, 2, generator=g, dtype=torch.float64), torch.arange(900) % 30
    apart = [len(set(witnesses(plainly(plane[y == k]), plainly(plane)).tolist())) for k in range(30)]
    assert min(apart) < 30
    assert len(set(witnesses(plainly(plane, y), plainly(plane)).tolist())) == 900


def test_a_copy_of_a_copy_belongs_to_the_group(monkeypatch):
    """Each is near the next only, and they do not stand in the order of the chain."""
    angle = torch.linspace(0, torch.pi, 61, dtype=torch.float64)[:-1]  # 3 degrees each
    one = torch.stack([angle.cos(), angle.sin(), torch.zeros(60, dtype=torch.float64)], 1)
    x = torch.cat([one[:20], torch.tensor([[0.0, 0.0, 1.0]]).double(), -one[:20], torch.tensor([[0.0, 0.0, -1.0]])])
    order = np.random.default_rng(0).permutation(42)
    ends = [p for p in order if p < 20], [p for p in order if 20 < p < 41]
    expected = sorted(ends, key=lambda part: list(order).index(part[0]))
    apart = 2 * np.sin(np.radians(2))  # the chord of 4 degrees
    assert duplicates(plainly(x), order, apart) == expected
    monkeypatch.setattr(copies, "CHUNK", 100)
    assert duplicates(plainly(x), order, apart) == expected
    assert duplicates(plainly(x), order, apart / 2) == []


def test_no_more_pairs_at_once_than_allowed(monkeypatch):
    monkeypatch.setattr(copies, "CHUNK", 1000)
    parts = list(copies.slices(130, 130))
    assert [i for part in parts for i in range(130)[part]] == list(range(130))
    assert max(part.stop - part.start for part in parts) * 130 <= 1000


def test_equal_inputs_are_copies_whatever_they_are():
    same = torch.full((4, 36), 2.0, dtype=torch.float64).view(4, 1, 6, 6)  # no direction from their mean
    assert copied(same, [2, 0, 3]) == [[2, 0, 3]]
    same[1, 0, 0, 0], same[2] = 0.0, same[1]
    same[2, 0, 0, 0] = -0.0
    assert copied(same, [0, 1, 2, 3], apart=0.0) == [[0, 3], [1, 2]]
    assert copied(same.half(), [0, 1, 2, 3]) == [[0, 3], [1, 2]]
    x = pictures()
    x[20:] = x[:20]
    assert copied(x, np.arange(40), apart=0.0) == [[i, i + 20] for i in range(20)]  # rounding may set them apart
    data = factor(tabular(), torch.tensor([3.0, 1.0, 3.0, 0.5, 2.0]), torch.zeros(5, dtype=torch.long))
    assert duplicates(data, np.arange(5), apart=0.0) == [[0, 2]]


@pytest.mark.parametrize("form", ["whole numbers", "bytes", "pair", "named"])
def test_other_inputs_are_copies_when_they_are_equal(form):
    """0 and 2 agree in both parts, 1 agrees with them in one alone; 4 is near 3. −0 is 0."""
    a = torch.tensor([[1, 2], [1, 2], [1, 2], [300, 4], [301, 4]])
    b = torch.tensor([0.0, 0.25, -0.0, 0.125, 0.125])
    inputs = {
        "whole numbers": torch.cat([a, (8 * b).long()[:, None]], 1),
        "bytes": torch.cat([a, (8 * b).long()[:, None]], 1).to(torch.uint8),
        "pair": (a, b),
        "named": {"a": a, "b": b},
    }
    data = factor(tabular(), inputs[form], torch.zeros(5, dtype=torch.long), batch=2)
    assert duplicates(data, np.array([4, 2, 3, 1, 0]), apart=0.5) == [[2, 0]]


def test_copies_with_the_same_target_are_one_witness():
    """1 is near 0 and 4 equal to it, 5 too but for its target; 3 is near 2."""
    g = torch.Generator().manual_seed(0)
    train = torch.randn(80, 6, generator=g, dtype=torch.float64)
    x = train[:7].clone()
    x[1], x[4], x[5], x[3] = x[0] + 0.01, x[0], x[0], x[2] * 1.01
    y = torch.tensor([0, 0, 1, 1, 0, 2, 0])
    assert witnesses(plainly(x, y), plainly(train)).tolist() == [0, 0, 2, 2, 0, 5, 6]
    assert witnesses(plainly(x, y)[:1], plainly(train)).tolist() == [0]
    assert witnesses(plainly(x, nn.functional.one_hot(y)), plainly(train)).tolist() == [0, 0, 2, 2, 0, 5, 6]


def test_copies_are_seen_even_where_there_is_nothing_else():
    """Distances from their own mean would be those of the noise."""
    g = torch.Generator().manual_seed(0)
    train = torch.randn(80, 6, generator=g, dtype=torch.float64)
    x = train[:1] + 0.01 * torch.randn(77, 6, generator=g, dtype=torch.float64)
    assert set(witnesses(plainly(x), plainly(train)).tolist()) == {0}


def test_where_there_is_too_much_to_compare_only_equality_counts(monkeypatch):
    train = torch.randn(20, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = train[[0, 0, 1]] + torch.tensor([[0.0], [0.0], [0.0]])
    x[1] += 1e-6
    assert witnesses(plainly(x), plainly(train)).tolist() == [0, 0, 2]
    monkeypatch.setattr(copies, "WORK", 3 * 3 * 6 - 1)
    assert witnesses(plainly(x), plainly(train)).tolist() == [0, 1, 2]


def test_one_column_of_a_table_does_not_make_rows_alike():
    """Incomes within five per cent of each other, and nothing else in common."""
    g = torch.Generator().manual_seed(0)
    train = torch.randn(80, 6, generator=g, dtype=torch.float64)
    train[:, 0] = 40_000 + 9000 * train[:, 0]
    x = train[:4].clone()
    x[:, 0] = torch.tensor([60_000, 60_010, 59_990, 60_000])
    x[3, 1:] = x[0, 1:]
    assert witnesses(plainly(x), plainly(train)).tolist() == [0, 1, 2, 0]
