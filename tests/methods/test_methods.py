"""Several treatments, arguments, odd models and scores from elsewhere: the methods as a caller has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import amends
from amends import methods
from amends.curvature import GGN, Diagonal
from amends.editors import Each, Mode, Step, Variational, finer, follow
from amends.editors.climb import LBFGS, Ascent, FixedPoint, Newton
from amends.errors import BadInput
from amends.remember import Laplace
from tests.conftest import at_optimum, classification, factor, plain


def test_a_path_that_costs_too_much_is_taken_again_in_shorter_steps(monkeypatch):
    """Strides of twice the weights leave any guard at once; an eighth of an eighth of them does not."""
    x, y, network = classification(n=60)
    for _ in range(200):
        _, grad = factor(network, x, y).value_and_grad(network.params)
        for k, p in network.params.items():
            p += 0.01 * grad[k]
    right = plain(network)(x).argmax(1) == y
    given = {"failures": (x[~right], y[~right]), "remaining": (x[right], y[right])}
    method = methods.ewc(unlearn=Ascent(steps=5, stride=2.0))
    causes = np.flatnonzero(~right.numpy())[:4]
    moved = amends.treat(plain(network), (x, y), causes, method=method, **given)
    assert not torch.equal(moved.weight, network.params["weight"])
    monkeypatch.setattr(amends.algorithm.treat, "FINER_TRIES", 0)
    stayed = amends.treat(plain(network), (x, y), causes, method=method, **given)
    assert torch.equal(stayed.weight, network.params["weight"])


def test_every_step_that_can_be_shortened_is():
    assert finer(FixedPoint(rate=0.8)).rate == pytest.approx(0.1)
    assert finer(Step(sizes=(1.0, 2.0))).sizes == (0.125, 0.25)
    assert finer(Each(methods.ewc().editor)).editor.unlearn.rate == pytest.approx(0.05 / 8)
    assert finer(Variational()).unlearn.rate == pytest.approx(0.003 / 8)
    for without in (Step(), LBFGS(), Mode(bounded=True), Mode(unlearn=Newton())):
        assert finer(without) is None


def test_damping_and_rate_leave_the_fixed_point_where_it_is():
    x, y, network, _ = at_optimum()
    data = factor(network, x, y)
    q = Laplace(Diagonal(GGN(), prior=0.7))(data)
    reached = follow(Mode(unlearn=FixedPoint(3000, rate=0.5, damping=1.0))(q, -data[:5]))
    climbed = follow(Mode(unlearn=LBFGS(200, tolerance=1e-12))(q, -data[:5]))
    assert_close(reached.mean, climbed.mean, rtol=1e-5, atol=1e-6)
    first, damped = (follow(Mode(unlearn=FixedPoint(1, damping=d))(q, -data[:5])).mean["weight"] for d in (0.0, 3.0))
    start, size = q.mean["weight"], q.precision._positive["weight"]
    assert_close((damped - start) * (size + 3.0 * q.precision.mean), (first - start) * size)


WRONG = {
    "prior is -1": lambda: methods.ewc(prior=-1),
    "decay is 2": lambda: methods.online_ewc(decay=2),
    "decay is -1": lambda: methods.online_ewc(decay=-1),
    "strength is -1": lambda: methods.functional(-1),
    "memorable is -1": lambda: methods.functional(memorable=-1),
    "strength is -2": lambda: methods.si(strength=-2),
    "trace is a str": lambda: methods.si(trace="x"),
    "memory is 0": lambda: methods.ogd(memory=0),
    "memory is 2.5": lambda: methods.ogd(memory=2.5),
    "draws is 0": lambda: methods.vcl(draws=0),
    "prior is 0": lambda: methods.vcl(prior=0),
    "draws is -1": lambda: methods.laplace_mc(draws=-1),
    "samples is -1": lambda: methods.ensemble(samples=-1),
    "batch is 0": lambda: methods.fine_tune(batch=0),
    "epochs is -1": lambda: methods.fine_tune(epochs=-1),
    "pull is -1": lambda: methods.fine_tune(pull=-1),
    "batch is -5": lambda: methods.sgd_influence(batch=-5),
    "rate is -1": lambda: methods.sgd_influence(rate=-1),
    "batch is 2.0": lambda: methods.sa(batch=2.0),
    "damping is -1": lambda: methods.kronecker(damping=-1),
    "solver is 'cg'": lambda: methods.linear("cg"),
    "solver is <function cg": lambda: methods.newton(methods.cg),
    "kind is 'ggn'": lambda: methods.ewc(kind="ggn"),
    "kind is <class": lambda: methods.kfac_ewc(kind=GGN),
    "since is an int": lambda: methods.online_ewc(since=3),
    "neighbours is 0": lambda: methods.knn_shapley(neighbours=0),
    "gamma is 0": lambda: methods.ewc(gamma=0),
    "permutations is 1.5": lambda: methods.shapley(permutations=1.5),
    "seed is -1": lambda: methods.random(seed=-1),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_argument_is_named(said):
    with pytest.raises(BadInput) as error:
        WRONG[said]()
    assert str(error.value).startswith(said)
    assert ";" in str(error.value)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, list])
def test_scores_from_elsewhere_are_taken_as_they_are(kind):
    x, y, network = classification()
    given = np.random.default_rng(0).normal(size=50)
    found = amends.identify(plain(network), (x[:50], y[:50]), (x[50:], y[50:]), method=kind(given))
    np.testing.assert_array_equal(found.scores, given)
    assert found.top(5).tolist() == np.argsort(-given)[:5].tolist()
    failures = x[50:], (plain(network)(x[50:]).argmax(1) + 1) % 3
    result = amends.repair(plain(network), (x[:50], y[:50]), failures, identify_with=kind(given), remove=5)
    assert [p.removed for p in result.curve if p.by == "causes"] == [5]
    with pytest.raises(BadInput, match="train has 50 examples"):
        amends.identify(plain(network), (x[:50], y[:50]), (x[50:], y[50:]), method=kind(given[:7]))
    treated = amends.treat(plain(network), (x[:50], y[:50]), found.top(5), method=methods.newton(methods.dense()))
    assert not torch.equal(treated.weight, network.params["weight"])
    with pytest.raises(BadInput, match=r"causes look like scores.*top\(k\)"):
        amends.treat(plain(network), (x[:50], y[:50]), kind(given))
