"""Data Shapley against enumeration and refitting, in float64."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.errors import BadInput
from amends.evidence import Network
from amends.likelihoods import Categorical
from amends.methods.library.shapley import Shapley
from tests.conftest import classification, factor, regression
from tests.methods.worlds import world


def features(network, data):
    """What the last layer sees, by hand, with a 1 for the bias."""
    x, y = data.examples.fetch(0, len(data))
    hidden = torch.tanh(x @ network.params["0.weight"].T + network.params["0.bias"])
    return torch.cat([hidden, torch.ones(len(x), 1, dtype=x.dtype)], 1), torch.eye(3, dtype=x.dtype)[y]


def refitted(network, train, failures, subset, ridge):
    """V(S) by least squares on the features with √ridge·I below them."""
    (a, t), (fa, ft) = features(network, train), features(network, failures)
    a = torch.cat([a[subset], math.sqrt(ridge) * torch.eye(a.shape[1], dtype=a.dtype)])
    t = torch.cat([t[subset], torch.zeros(a.shape[1], 3, dtype=a.dtype)])
    return -float(((fa @ torch.linalg.lstsq(a, t).solution - ft) ** 2).sum(1).mean())


def test_shapley_is_that_of_all_subsets():
    """Σ_S |S|!(n−|S|−1)!/n! (V(S ∪ z) − V(S)), over the 64 subsets of 6 examples."""
    n, ridge = 6, 0.7
    train, failures, network = world(n)
    sets = [frozenset(s) for size in range(n + 1) for s in combinations(range(n), size)]
    value = {s: refitted(network, train, failures, sorted(s), ridge) for s in sets}
    exact = []
    for z in range(n):
        without = [s for s in sets if z not in s]
        weight = [math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n) for s in without]
        exact.append(sum(w * (value[s | {z}] - value[s]) for w, s in zip(weight, without, strict=True)))
    found = Shapley(permutations=720, ridge=ridge, tolerance=0)(train, failures)
    assert_close(-found, torch.tensor(exact, dtype=torch.float64), atol=1e-12, rtol=1e-10)


def test_drawn_orders_find_the_same(capsys):
    """300 drawn orders of 6 examples against all 720: within four standard errors each."""
    train, failures, _ = world(6)
    head = Shapley().head(train, failures)
    exact = head.marginals(torch.as_tensor(Shapley(720).orders(6))).mean(0)
    drawn = head.marginals(torch.as_tensor(Shapley(300, seed=1).orders(6)))
    error = drawn.std(0) / math.sqrt(len(drawn))
    away = ((drawn.mean(0) - exact) / error).abs()
    with capsys.disabled():
        print(f"\nShapley, 300 orders: furthest {float(away.max()):.1f} standard errors of {float(error.max()):.1e}")
    assert away.max() < 4
    assert not np.array_equal(Shapley(300, seed=1).orders(6), Shapley(300, seed=2).orders(6))


def test_a_rank_one_update_is_a_refit():
    """Each prefix of an order of 120 examples; rounding adds up over the updates."""
    train, failures, network = world(120)
    scorer = Shapley(permutations=3, ridge=0.5, tolerance=0)
    orders = torch.as_tensor(scorer.orders(120))
    found = scorer.head(train, failures).marginals(orders)
    for order, row in zip(orders, found, strict=True):
        value = refitted(network, train, failures, [], 0.5) + row[order].cumsum(0)
        for size in (1, 2, 5, 30, 119, 120):
            exact = refitted(network, train, failures, order[:size], 0.5)
            assert float(value[size - 1]) == pytest.approx(exact, abs=1e-12)


def test_shapley_values_sum_to_the_whole():
    """Efficiency, for any number of orders: Σφ = V(D) − V(∅)."""
    train, failures, network = world(40)
    whole = refitted(network, train, failures, range(40), 1.0) - refitted(network, train, failures, [], 1.0)
    assert -float(Shapley(3, tolerance=0)(train, failures).sum()) == pytest.approx(whole, abs=1e-10)


def test_truncation_changes_little(capsys):
    """What an order leaves out is below tolerance · |V(D) − V(∅)| in all."""
    train, failures, network = world(200)
    whole = refitted(network, train, failures, range(200), 1.0) - refitted(network, train, failures, [], 1.0)
    head = Shapley().head(train, failures)
    orders = torch.as_tensor(Shapley(20).orders(200))
    full, cut = head.marginals(orders), head.marginals(orders, 0.01)
    left = float((cut.sum(1) - whole).abs().max() / abs(whole))
    skipped = float((cut == 0).double().mean())
    correlation = float(torch.corrcoef(torch.stack([full.mean(0), cut.mean(0)]))[0, 1])
    with capsys.disabled():
        print(f"\ntruncated Shapley: {skipped:.0%} skipped, {left:.2%} left out, correlation {correlation:.4f}")
    assert 0.2 < skipped < 1
    assert left < 0.01
    assert correlation > 0.95
    assert_close(-Shapley(20)(train, failures), cut.mean(0), atol=0, rtol=0)


def test_shapley_in_turns_is_the_same(monkeypatch):
    train, failures, _ = world(20)
    whole = Shapley(7)(train, failures)
    monkeypatch.setattr("amends.methods.library.shapley.HELD", 60)  # two inverses of 5 x 5
    assert_close(Shapley(7)(train, failures), whole, atol=1e-14, rtol=0)


def test_shapley_takes_real_targets():
    """A wrong target in a linear world stands out; whole numbers are numbers, not classes."""
    x, y, network = regression()
    y[7] += 20
    for targets in (y, (10 * y).round().long()):
        scores = Shapley(20)(factor(network, x[:50], targets[:50]), factor(network, x[50:], targets[50:], "failures"))
        assert int(scores.argmax()) == 7


def test_shapley_refuses_what_it_cannot_do():
    x, y, _ = classification(n=8)
    wide = Network.of(nn.Linear(2049, 3, dtype=torch.float64), Categorical())
    data = factor(wide, torch.zeros(8, 2049, dtype=torch.float64), y)
    with pytest.raises(BadInput, match="sees 2049 features, but shapley takes 2048 at most"):
        Shapley()(data, data)
    bare = factor(Network.of(Scales(), Categorical()), x, y)
    with pytest.raises(BadInput, match="shapley needs a last linear layer that trains"):
        Shapley()(bare, bare)
    with pytest.raises(BadInput, match=r"permutations is 0; shapley; give a whole number of 1 or more"):
        Shapley(permutations=0)
    for bad in ({"ridge": 0.0}, {"tolerance": -0.1}):
        with pytest.raises(BadInput, match="; shapley; give a number of"):
            Shapley(**bad)


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return x * self.scale
