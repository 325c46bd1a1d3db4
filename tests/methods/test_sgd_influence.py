"""SGD-influence against replaying the run without an example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.func import hessian
from torch.testing import assert_close

from amends.evidence import Network, dot, flatten, plus
from amends.likelihoods import Categorical
from amends.methods.library.sgd_influence import SGDInfluence, hessian_product
from amends.methods.library.tracin import TracIn
from amends.trace import Trace, TraceStep, replay
from tests.conftest import classification, factor, regression
from tests.exact import logistic
from tests.methods.worlds import correlation, matrix, pair, softmax


def moves(train, run):
    """Where the run would have ended without each example, less where it ended."""
    end = replay(train, train.network.params, **run).end
    return [
        plus(replay(train, train.network.params, without=np.array([z]), **run).end, end, -1) for z in range(len(train))
    ]


def test_one_step_is_exact():
    """u·(θ⁻ᶻ − θ), with nothing left to approximate but how F takes the move."""
    train, failures = softmax()
    run = {"epochs": 0.5, "batch": 20, "rate": 0.5}
    trace = replay(train, train.network.params, **run)
    toward = failures.value_and_grad(trace.end)[1]
    expected = torch.tensor([dot(toward, move) for move in moves(train, run)], dtype=torch.float64)
    assert int((expected != 0).sum()) == 20
    assert_close(SGDInfluence(trace)(train, failures), expected, atol=1e-13, rtol=0)


def test_one_epoch_of_a_quadratic_is_exact():
    """Each example is met once and curvature does not depend on θ: the recursion has no error; weighted too."""
    x, y, network = regression(n=30)
    train, failures = factor(network, x[:24], y[:24]), factor(network, x[24:], y[24:] + 1, "failures")
    train = replace(train, weights=torch.linspace(0.5, 2, 24, dtype=torch.float64))
    run = {"epochs": 1, "batch": 6, "rate": 0.05, "seed": 2}
    toward = failures.value_and_grad(replay(train, network.params, **run).end)[1]
    expected = torch.tensor([dot(toward, move) for move in moves(train, run)], dtype=torch.float64)
    found = SGDInfluence(**run)(train, failures)
    assert_close(found, expected, atol=1e-11 * float(expected.abs().max()), rtol=0)


def test_leaving_out_of_a_run_is_foreseen():
    """Every example of a softmax regression left out of the run in turn, over seeds."""
    fits, errors, published = [], [], []
    for seed in range(3):
        train, failures = softmax(seed=seed)
        run = {"epochs": 5, "batch": 8, "rate": 0.1, "seed": seed}
        trace = replay(train, train.network.params, **run)
        before = float(failures.per_example(trace.end).sum())
        truth = np.array([float(failures.per_example(plus(trace.end, m)).sum()) - before for m in moves(train, run)])
        found, wrong = (SGDInfluence(trace, corrected=c)(train, failures).numpy() for c in (True, False))
        fits.append(correlation(found, truth))
        errors.append(np.abs(found - truth).max() / np.abs(truth).max())
        published.append(np.abs(wrong - truth).max() / np.abs(truth).max())
    assert min(fits) > 0.995  # 0.9981 to 0.9996
    assert max(errors) < 0.16  # 0.06 to 0.11 of the largest change: first order, and z's own curvature stays in
    assert min(published) > 0.3  # 0.39 to 0.55: what the second division costs


def test_the_published_script_divides_the_curvature_twice():
    """Both recursions as loops over dense matrices; θ as tests.exact.logistic has it."""
    train, failures = softmax(n=12)
    trace = replay(train, train.network.params, epochs=2, batch=4, rate=0.5)
    (x, y), (fx, fy) = pair(train), pair(failures)
    for corrected in (True, False):
        u = logistic.gradients(matrix(trace.end), fx, fy).sum(0)
        scores = torch.zeros(12, dtype=torch.float64)
        for step in trace.steps[::-1]:
            w = matrix(step.theta)
            for i in step.positions:
                scores[i] -= 0.5 / 4 * (u @ logistic.gradients(w, x[i][None], y[i][None])[0])
            px, py = x[step.positions], y[step.positions]
            dense = hessian(lambda v, px=px, py=py: logistic.objective(v.view(3, 4), px, py, 0.0))(w.reshape(-1))
            u = u + 0.5 / 4 / (1 if corrected else 4) * (dense @ u)
        assert_close(SGDInfluence(trace, corrected)(train, failures), scores, atol=1e-12, rtol=0)


def test_an_example_drawn_twice_counts_twice():
    train, failures = softmax()
    trace = Trace((TraceStep(train.network.params, np.array([3, 5, 3]), 0.5),), train.network.params)
    scores = SGDInfluence(trace)(train, failures)
    plain = TracIn()(train, failures)
    assert_close(scores[[3, 5]], plain[[3, 5]] * torch.tensor([2, 1]) * 0.5 / 3, atol=1e-13, rtol=0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.out = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x):
        return self.out(self.read(x)[0][:, -1])


def test_the_product_with_the_hessian_of_a_network():
    """Tanh units against the dense Hessian; an LSTM against a difference of gradients."""
    x, y, _ = classification(n=10)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    part = replace(factor(Network.of(net, Categorical()), x, y, batch=4), weights=torch.linspace(1, 2, 10).double())
    theta = part.network.params
    vector = {k: torch.randn_like(v) for k, v in theta.items()}
    assert_close(
        flatten(hessian_product(part, theta, vector)), part.hessian(theta) @ flatten(vector), atol=1e-12, rtol=0
    )
    part = factor(Network.of(Reader().double(), Categorical()), torch.randn(10, 4, 2).double(), y)
    theta = part.network.params
    vector = {k: torch.randn_like(v) for k, v in theta.items()}
    up, down = (flatten(part.value_and_grad(plus(theta, vector, s))[1]) for s in (1e-5, -1e-5))
    assert_close(flatten(hessian_product(part, theta, vector)), (up - down) / 2e-5, atol=1e-7, rtol=0)


def test_what_is_linear_has_no_curvature():
    train, _ = softmax()
    straight = cast(Any, lambda out, y: out.gather(1, y[:, None])[:, 0])
    part = replace(train, network=replace(train.network, likelihood=straight))
    product = hessian_product(part, part.network.params, part.network.params)
    assert float(flatten(product).abs().max()) == 0
