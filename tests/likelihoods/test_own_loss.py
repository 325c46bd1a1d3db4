"""Class weights, label smoothing, sample weights and losses of one's own go through the likelihood."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.curvature import CG, GGN, Diagonal, Sampled
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.evidence.prepare import prepare
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian, Likelihood, Tokens, Weighted, with_weights
from tests.conftest import classification, factor


def points(n=90, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, dtype=torch.float64, generator=g)
    return x, (x[:, 0] + torch.randn(n, dtype=torch.float64, generator=g) > 0).long()


def minimised(log_prob, x, y):
    """A model at the minimum of its loss."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2).double()
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16)

    def closure():
        optimiser.zero_grad()
        loss = -log_prob(model(x), y).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return model


def steepest(model, likelihood, x, y):
    data = prepare(model, likelihood, None, 50, train=(x, y))["train"]
    return max(float(g.abs().max()) for g in data.value_and_grad(data.network.params)[1].values())


def test_class_weights_and_label_smoothing():
    """A minimum of the loss it was trained with is where amends finds no slope."""
    x, y = points()
    weight = torch.tensor([0.4, 3.0], dtype=torch.float64)

    def log_prob(outputs, targets):
        return -nn.functional.cross_entropy(outputs, targets, weight.to(outputs), label_smoothing=0.1, reduction="none")

    model = minimised(log_prob, x, y)
    assert steepest(model, log_prob, x, y) < 1e-5
    assert steepest(model, None, x, y) > 1
    influence = amends.identify(model, (x, y), (x[:5], 1 - y[:5]), likelihood=log_prob, method=amends.methods.ewc())
    assert np.isfinite(influence.scores).all()


def test_a_loss_over_several_labels():
    x, y = points()
    model = minimised(Categorical(), x, y)
    several = Custom(lambda o, t: 2 * Bernoulli()(o, t), like=Bernoulli())
    labels = nn.functional.one_hot(y, 2).double()
    influence = amends.identify(
        model, (x, labels), (x[:5], 1 - labels[:5]), likelihood=several, method=amends.methods.ewc()
    )
    assert np.isfinite(influence.scores).all()


def test_sample_weights():
    """A weight of 2 is the example twice, of 0 not at all: in the slope, the curvature and the scores."""
    x, y = points()
    weights = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64).repeat(30)
    twice = torch.repeat_interleave(torch.arange(90), weights.long())
    model = minimised(Categorical(), x[twice], y[twice])
    packed = with_weights(y, weights)
    assert isinstance(Weighted(), Likelihood)
    assert steepest(model, Weighted(), x, packed) < 1e-5
    assert steepest(model, None, x, y) > 0.1
    network = Network.of(model, Weighted())
    plain = Network.of(model, Categorical())
    ours, theirs = factor(network, x, packed), factor(plain, x[twice], y[twice])
    for kind in (Diagonal(GGN()), CG(GGN(), prior=1e-9)):
        assert_close(kind(ours, network.params).dense(), kind(theirs, plain.params).dense())
    many = flatten(Diagonal(Sampled(300))(ours, network.params).data)
    assert_close(many, flatten(Diagonal(GGN())(ours, network.params).data), rtol=0.1, atol=0)
    failures = (x[:6], 1 - y[:6])
    for name in ("grad_dot", "ewc", "functional"):
        method = getattr(amends.methods, name)()
        mine = amends.identify(
            model, (x, packed), (failures[0], with_weights(failures[1], torch.ones(6))), likelihood=Weighted(),
            remaining=(x[6:30], with_weights(y[6:30], torch.ones(24))), method=method,
        )  # fmt: skip
        copied = amends.identify(model, (x[twice], y[twice]), failures, remaining=(x[6:30], y[6:30]), method=method)
        summed = np.bincount(twice.numpy(), copied.scores, minlength=90)
        np.testing.assert_allclose(mine.scores, summed, rtol=1e-3, atol=1e-4 * np.abs(summed).max())


def test_a_repair_with_sample_weights():
    x, y, _ = classification(n=60)
    model = nn.Linear(3, 3).double()
    ones = torch.ones(60)
    result = amends.repair(
        model, (x[:30], with_weights(y, ones)[:30]), (x[30:40], with_weights(y, ones)[30:40]),
        (x[40:], with_weights(y, ones)[40:]), likelihood=Weighted(), remove=3,
    )  # fmt: skip
    assert result.metrics["classes"] == {}
    assert set(np.ravel(result.influence.frame()["given"])) <= {0, 1, 2}
    for like, targets in ((Gaussian(), y[:, None].double().expand(-1, 3)), (Bernoulli(), nn.functional.one_hot(y, 3))):
        sets = [(x[part], with_weights(targets, ones)[part]) for part in (slice(0, 40), slice(40, 60))]
        influence = amends.identify(model, *sets, likelihood=Weighted(like), method=amends.methods.ewc())
        assert np.isfinite(influence.scores).all()


BAD = {
    "no weights": (Weighted(), torch.zeros(2), "expected a weight and a target each"),
    "negative": (Weighted(), torch.tensor([[1.0, 0], [-1, 1]]), "a negative weight"),
    "no class": (Weighted(), torch.tensor([[1.0, 0], [1, 7]]), "has label 7, but the model has 3 outputs"),
    "tokens": (Weighted(Tokens()), torch.zeros(2, 3), "tokens cannot have weights"),
}


@pytest.mark.parametrize("kind", BAD)
def test_weights_that_cannot_be_are_refused(kind):
    likelihood, targets, said = BAD[kind]
    with pytest.raises(BadInput, match=said):
        likelihood.check(torch.zeros(2, 3), targets, "train")


def test_weights_are_one_each():
    for weights in (torch.ones(3), torch.tensor([1.0, -1]), torch.tensor([1.0, torch.nan])):
        with pytest.raises(BadInput, match="one number of 0 or more per target"):
            with_weights(torch.zeros(2).long(), weights)


def test_targets_with_weights_are_not_relabelled():
    x, y = points(30)
    model = minimised(Categorical(), x, y)
    with pytest.raises(BadInput, match="remove the causes instead"):
        amends.treat(
            model, (x, with_weights(y, torch.ones(30))), [0, 1], likelihood=Weighted(),
            method=amends.methods.fine_tune(relabel=True, epochs=1),
        )  # fmt: skip
