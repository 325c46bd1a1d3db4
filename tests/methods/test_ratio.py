"""The part of r̃ that an example's label is to blame for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import GGN, Dense, Diagonal, Isotropic
from amends.editors import Tangent, follow
from amends.errors import NotConverged
from amends.evidence.network import Network
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian
from amends.methods.ratio import first_order, label_part, log_density_ratio
from amends.posteriors import Ensemble, Point
from amends.posteriors import Gaussian as Normal
from amends.remember import Laplace
from tests.conftest import factor, regression


def bernoulli_divergence(old, new):
    p, log = old.sigmoid(), nn.functional.logsigmoid
    return (p * (log(old) - log(new)) + (1 - p) * (log(-old) - log(-new))).sum(1)


FAMILIES = {
    "categorical": (Categorical(), lambda a, b: (a.softmax(1) * (a.log_softmax(1) - b.log_softmax(1))).sum(1)),
    "soft": (Categorical(), lambda a, b: (a.softmax(1) * (a.log_softmax(1) - b.log_softmax(1))).sum(1)),
    "bernoulli": (Bernoulli(), bernoulli_divergence),
    "gaussian": (Gaussian(sigma=0.3), lambda a, b: ((a - b) ** 2).sum(1) / (2 * 0.3**2)),
}


def edited(name, seed=0, batch=7):
    """Data of a family, a small network before and after some edit, and the outputs of both."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(30, 4, generator=g, dtype=torch.float64)
    y = {
        "categorical": torch.randint(0, 3, (30,), generator=g),
        "soft": torch.rand(30, 3, generator=g, dtype=torch.float64).softmax(1),
        "bernoulli": torch.randint(0, 2, (30, 3), generator=g).double(),
        "gaussian": torch.randn(30, 3, generator=g, dtype=torch.float64),
    }[name]
    torch.manual_seed(seed)
    network = Network.of(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double(), FAMILIES[name][0])
    after = {k: v + 0.7 * torch.randn(v.shape, generator=g, dtype=v.dtype) for k, v in network.params.items()}
    return factor(network, x, y, batch=batch), Point(network.params), Point(after)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("batch", [7, 30])
def test_what_is_not_the_label_s_is_how_far_the_prediction_moved(name, batch):
    """r̃(z) = label_part + KL(old ‖ new), exactly."""
    data, before, after = edited(name, batch=batch)
    moved = FAMILIES[name][1](data.outputs(before.mean), data.outputs(after.mean))
    assert moved.min() > 1e-3
    assert_close(label_part(before, after, data) + moved, first_order(before, after, data), atol=1e-12, rtol=1e-12)


def labels(name, outputs):
    """Every label of three outputs and its probability; of a Gaussian, two that stand for all (of third degree)."""
    if name == "categorical":
        return [(torch.full((len(outputs),), c), outputs.softmax(1)[:, c]) for c in range(3)]
    if name == "bernoulli":
        rows = [torch.tensor(bits).double().expand_as(outputs) for bits in product((0, 1), repeat=3)]
        return [(y, Bernoulli()(outputs, y).exp()) for y in rows]
    half = torch.full((len(outputs),), 0.5, dtype=outputs.dtype)
    return [(outputs + sign * 0.3, half) for sign in (1, -1)]


@pytest.mark.parametrize("name", ["categorical", "bernoulli", "gaussian"])
def test_labels_the_model_would_give_itself_are_to_blame_for_nothing_on_average(name):
    data, before, after = edited(name)
    parts = [
        p * label_part(before, after, factor(data.network, data.examples.x, y))
        for y, p in labels(name, data.outputs(before.mean))
    ]
    assert torch.stack(parts).abs().max() > 0.01
    assert_close(torch.stack(parts).sum(0), torch.zeros(30, dtype=torch.float64), atol=1e-12, rtol=0)


def test_a_label_the_model_is_sure_of_is_to_blame_for_nothing():
    data, before, after = edited("categorical")
    sure = {k: (200 * v if k.startswith("2") else v) for k, v in before.mean.items()}
    data = factor(data.network, data.examples.x, data.outputs(sure).argmax(1))
    found, whole = (score(Point(sure), after, data) for score in (label_part, first_order))
    assert found.median().abs() < 1e-9
    assert whole.median() > 0.1


@pytest.mark.parametrize("name", FAMILIES)
def test_along_a_tangent_it_is_linear_influence(name):
    data, _, _ = edited(name)
    for curvature in (Isotropic(), Dense(GGN(), prior=1.0)):
        q = Laplace(curvature)(data)
        after = follow(Tangent()(q, 3.0 * data[:5]))
        linear = first_order(q, after, data)
        assert linear.abs().max() > 0.01
        assert_close(label_part(q, after, data), linear, atol=1e-9, rtol=0)


def test_of_several_models_it_is_the_mean_of_theirs():
    pairs = []
    for seed in range(3):
        data, before, after = edited("categorical", seed)
        pairs.append((before, after))
    before, after = (Ensemble(side) for side in zip(*pairs, strict=True))
    found = label_part(before, after, data)
    assert_close(found, torch.stack([label_part(*pair, data) for pair in pairs]).mean(0))
    moved = torch.stack([FAMILIES["categorical"][1](*(data.outputs(p.mean) for p in pair)) for pair in pairs]).mean(0)
    assert_close(found + moved, first_order(before, after, data), atol=1e-12, rtol=1e-12)


def test_of_draws_it_pairs_the_same_noise():
    data, _, after = edited("categorical")
    q = Laplace(Diagonal(GGN(), prior=1.0), draws=5)(data)
    moved = q.moved(after.mean, 0.0 * data)
    found = label_part(q, moved, data)
    noise = [torch.Generator().manual_seed(q.seed) for _ in range(2)]
    parts = []
    for _ in range(5):
        thetas = [
            {k: p.mean[k] + v for k, v in p.precision.draw(g).items()} for p, g in zip((q, moved), noise, strict=True)
        ]
        parts.append(label_part(*map(Point, thetas), data))
    assert_close(found, torch.stack(parts).mean(0))


def test_a_caller_s_own_loss_is_to_blame_by_its_own_slope():
    data, before, after = edited("categorical")
    half = replace(data.network, likelihood=Custom(lambda out, y: 0.5 * Categorical()(out, y)))
    mine = factor(half, data.examples.x, data.examples.y)
    assert_close(label_part(before, after, mine), 0.5 * label_part(before, after, data))


def test_a_useless_estimate_is_refused():
    """Deleting most of the data from its own posterior: 1/p(C|θ) is carried by a few draws."""
    x, y, network = regression(n=40)
    data = factor(network, x, y)
    curvature = Dense(GGN(), prior=0.7)
    q = Normal(network.params, curvature(data, network.params), curvature, 40).sampled(200)
    with pytest.raises(NotConverged, match="of 200 draws carry"):
        log_density_ratio(q, q, data[:38])
    assert log_density_ratio(q, q, data[:1]).value == pytest.approx(0.0, abs=1e-12)


def test_an_estimate_comes_with_its_standard_error_and_the_draws_that_carry_it():
    """By the delta method, the deviation of the weights over their mean and the root of n."""
    x, y, network = regression(n=40)
    data = factor(network, x, y)
    curvature = Dense(GGN(), prior=0.7)
    q = Normal(network.params, curvature(data, network.params), curvature, 40).sampled(200)
    after = q.moved({k: v + 0.02 for k, v in q.mean.items()}, 0.0 * data)
    found, causes = log_density_ratio(q, after, data[:2]), data[:2]
    values, errors, sizes = [], [], []
    for side in (q, after):
        weights = (-side.rows(causes.per_example).double().sum(1)).exp()
        values.append(float(weights.mean().log()))
        errors.append(float(weights.std() / weights.mean() / 200**0.5))
        sizes.append(float(weights.sum() ** 2 / (weights**2).sum()))
    assert found.value == pytest.approx(values[1] - values[0], rel=1e-9)
    assert found.error == pytest.approx((errors[0] ** 2 + errors[1] ** 2) ** 0.5, rel=1e-9)
    assert (found.effective_before, found.effective_after) == pytest.approx(tuple(sizes), rel=1e-9)
