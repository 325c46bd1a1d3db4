"""Features and votes of neighbours, against loops and what was planted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.errors import BadInput
from amends.evaluation.predictions import predicted
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.nearness import copies
from amends.nearness.neighbours import features, votes
from tests.conftest import classification, factor, regression, tabular
from tests.nearness.points import mlp


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
    monkeypatch.setattr(copies, "CHUNK", 130)
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
