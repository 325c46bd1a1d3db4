"""Features, copies and votes of neighbours, against loops and what was planted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.errors import BadInput
from amends.evaluation.predictions import predicted
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.nearness import neighbours
from amends.nearness.neighbours import duplicates, features, votes
from tests.conftest import classification, factor, regression, tabular
from tests.nearness.points import mlp, plainly


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_features_are_what_the_last_layer_sees(batch):
    x, y, _ = classification()
    network = mlp()
    theta = {k: v + 0.3 for k, v in network.params.items()}
    theta["0.bias"] += 3
    hidden = (x @ theta["0.weight"].T + theta["0.bias"]).relu()
    seen = features(factor(network, x, y, batch=batch), theta)
    assert_close(seen, hidden / hidden.norm(dim=1, keepdim=True), atol=1e-12, rtol=0)


def test_nothing_seen_is_a_row_of_zeros():
    x, y, _ = classification()
    network = mlp()
    theta = {**network.params, "0.bias": torch.full((5,), -100.0, dtype=torch.float64)}
    assert_close(features(factor(network, x, y), theta), torch.zeros(60, 5, dtype=torch.float64))
    assert features(factor(network, x, y)[:0], theta).shape == (0, 0)


class Words(nn.Module):
    """A linear layer that sees several rows an example."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(1, 3, dtype=torch.float64)

    def forward(self, x):
        return self.out(x[:, :, None]).tanh().sum(1)


@pytest.mark.parametrize("network", [tabular(), Network.of(Words(), Categorical())])
def test_without_a_last_layer_features_are_the_outputs(network):
    x, y, _ = classification()
    theta = {k: v + torch.arange(v.numel()).view_as(v) / 7 for k, v in network.params.items()}
    data = factor(network, x, y)
    out = data.outputs(theta)
    assert_close(features(data, theta), out / out.norm(dim=1, keepdim=True))


# --- duplicates -----------------------------------------------------------------------------------


def pictures(n=40, seed=0):
    """Random inputs on a common ground that would make all of them alike."""
    g = torch.Generator().manual_seed(seed)
    return 50 + torch.randn(n, 1, 6, 6, generator=g, dtype=torch.float64)


def copies(x, order, apart=0.05, batch=7):
    network = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).double(), Categorical())
    data = factor(network, x, torch.zeros(len(x), dtype=torch.long), batch=batch)
    return duplicates(data, np.asarray(order), apart)


def test_planted_copies_are_found_in_order():
    x, noise = pictures(), pictures(seed=1) - 50
    x[9], x[30] = x[3] + 0.01 * noise[0], x[3] + 0.01 * noise[1]
    x[5], x[20] = x[12], x[31] + 0.2 * noise[2]
    order = np.concatenate([[12, 30, 20], np.setdiff1d(np.arange(39), [12, 30, 20])])
    assert copies(x, order) == copies(x, order, batch=100) == [[12, 5], [30, 3, 9]]
    assert copies(x, order, apart=0.4) == [[12, 5], [30, 3, 9], [20, 31]]
    assert copies(x, order[order != 12]) == [[30, 3, 9]]
    assert copies(x, order[:1]) == copies(x, order[:0]) == []


def test_nearness_is_measured_against_all_of_the_data():
    """Beside each other alone, they would lie as far apart as anything could."""
    x, noise = pictures(), pictures(seed=1) - 50
    x[9], x[30] = x[3] + 0.01 * noise[0], x[3] + 0.01 * noise[1]
    for batch in (7, 100):
        assert copies(x, [9, 30, 3], batch=batch) == [[9, 30, 3]]
        assert copies(x[[9, 30, 3]], [0, 1, 2], batch=batch) == []


def by_pairs(x, order, apart):
    """Those that differ by no more than `apart` times the larger distance from the mean, joined pair by pair."""
    rows = x.double().flatten(1).numpy()
    away = np.linalg.norm(rows - rows.mean(0), axis=1)
    groups = [{int(i)} for i in order]
    for i, j in combinations(order, 2):
        if np.linalg.norm(rows[i] - rows[j]) <= apart * max(away[i], away[j]):
            joined = next(s for s in groups if i in s) | next(s for s in groups if j in s)
            groups = [s for s in groups if not s & joined] + [joined]
    place = {int(p): k for k, p in enumerate(order)}
    return sorted((sorted(s, key=place.get) for s in groups if len(s) > 1), key=lambda s: place[s[0]])


@pytest.mark.parametrize("apart", [0.0, 0.1, 0.25, 0.4, 0.5])
def test_copies_are_those_of_the_definition(apart):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(60, 3, generator=g, dtype=torch.float64) + 1
    order = np.random.default_rng(0).permutation(60)[:50]
    expected = by_pairs(x, order, apart)
    assert max(map(len, expected), default=0) > 2 or apart < 0.4
    assert duplicates(plainly(x), order, apart) == expected


def test_half_precision_is_compared_in_more():
    """Numbers near 500 come in steps of a half, so whole groups are equal and many lie on a line."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(60, 3, generator=g, dtype=torch.float16) * 4 + 500
    for apart in (0.0, 0.05, 0.1, 0.2, 0.3):
        expected = by_pairs(x, np.arange(60), apart)
        assert duplicates(plainly(x), np.arange(60), apart) == expected
        assert duplicates(plainly(x.double()), np.arange(60), apart) == expected


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
    monkeypatch.setattr(neighbours, "CHUNK", 100)
    assert duplicates(plainly(x), order, apart) == expected
    assert duplicates(plainly(x), order, apart / 2) == []


def test_no_more_pairs_at_once_than_allowed(monkeypatch):
    monkeypatch.setattr(neighbours, "CHUNK", 1000)
    parts = list(neighbours._slices(130, 130))
    assert [i for part in parts for i in range(130)[part]] == list(range(130))
    assert max(part.stop - part.start for part in parts) * 130 <= 1000


def test_equal_inputs_are_copies_whatever_they_are():
    same = torch.full((4, 36), 2.0, dtype=torch.float64).view(4, 1, 6, 6)  # no direction from their mean
    assert copies(same, [2, 0, 3]) == [[2, 0, 3]]
    same[1, 0, 0, 0], same[2] = 0.0, same[1]
    same[2, 0, 0, 0] = -0.0
    assert copies(same, [0, 1, 2, 3], apart=0.0) == [[0, 3], [1, 2]]
    assert copies(same.half(), [0, 1, 2, 3]) == [[0, 3], [1, 2]]
    x = pictures()
    x[20:] = x[:20]
    assert copies(x, np.arange(40), apart=0.0) == [[i, i + 20] for i in range(20)]  # rounding may set them apart
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


# --- votes ----------------------------------------------------------------------------------------


def one_by_one(failures, right, theta, k):
    near, known = (features(data, theta).numpy() for data in (failures, right))
    labels, y, leaning = right.examples.y.tolist(), failures.examples.y.tolist(), predicted(failures, theta)
    rows = []
    for i, row in enumerate(near):
        first = sorted(range(len(known)), key=lambda j, row=row: -float(row @ known[j]))[:k]
        rows.append([sum(labels[j] == c for j in first) / len(first) for c in (y[i], leaning[i])])
    return np.array(rows).T


@pytest.mark.parametrize("k", [1, 4, 10, 100])
@pytest.mark.parametrize("batch", [3, 100])
def test_votes_are_those_of_the_nearest(k, batch, monkeypatch):
    x, y, _ = classification(n=80)
    network = mlp(hidden=8)
    failures, right = factor(network, x[:20], y[:20], "failures", batch), factor(network, x[20:], y[20:], batch=batch)
    expected = one_by_one(failures, right, network.params, k)
    assert k == 100 or not np.allclose(*expected)
    assert_close(np.array(votes(failures, right, network.params, k)), expected)
    monkeypatch.setattr(neighbours, "CHUNK", 130)
    assert_close(np.array(votes(failures, right, network.params, k)), expected)


def test_votes_are_for_classes():
    x, y, network = regression()
    for share in votes(factor(network, x[:5], y[:5]), factor(network, x[5:], y[5:]), network.params):
        assert share.shape == (5,)
        assert np.isnan(share).all()
    x, y, network = classification()
    hard, soft = factor(network, x, y), factor(network, x, nn.functional.one_hot(y).double())
    for pair in ((hard[:4], hard[:0]), (soft[:4], hard), (hard[:4], soft)):
        assert np.isnan(votes(*pair, network.params)).all()
    assert [len(share) for share in votes(hard[:0], hard, network.params)] == [0, 0]
    with pytest.raises(BadInput, match="k is 0; votes"):
        votes(hard, hard, network.params, k=0)
