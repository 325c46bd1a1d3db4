"""Synaptic intelligence: the importance of weights from the path of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import GGN, Diagonal
from amends.curvature.diagonal import normal_like
from amends.evidence import Network, flatten
from amends.likelihoods import Gaussian
from amends.remember import PathIntegral
from amends.trace import replay
from tests.conftest import classification, factor
from tests.exact import logistic
from tests.methods.worlds import correlation, held, softmax


def axes(copies=1):
    """Each example is about one weight alone, so that every Hessian is diagonal; and h, and the optimum."""
    size = torch.tensor([1.0, 1.1, 0.9, 1.2, 1.0, 1.25], dtype=torch.float64)
    x, best = torch.zeros(6, 3, dtype=torch.float64), torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    x[torch.arange(6), torch.arange(6) % 3] = size
    x = x.repeat(copies, 1)
    layer = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    network = Network.of(layer, Gaussian(sigma=0.5))
    return factor(network, x, x @ best.T), (x**2).sum(0) / 0.25, best


def at_optimum(seed):
    """A softmax regression whose weights differ in curvature, at its optimum."""
    x, y, network = classification(seed, n=300, d=8, classes=4)
    x = x * torch.logspace(-1, 0.5, 8, dtype=x.dtype)
    w = logistic.optimum(x, y, 4, ridge=1e-2)
    return factor(replace(network, params={"weight": w[:, :-1], "bias": w[:, -1]}), x, y, batch=64)


def ranks(values):
    return np.argsort(np.argsort(np.asarray(values)))


def descent(train, best, rate, steps):
    """Full batches, from a distance of one in every weight."""
    start = {"weight": best + torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64)}
    return replay(train, start, epochs=steps, batch=len(train), rate=rate)


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_importance_of_a_finite_descent(steps):
    """With r = 1 − ηh/N the work is h(1 − r²ᵀ)/(2 − ηh/N) and the way 1 − rᵀ, weight by weight."""
    train, h, best = axes()
    trace = descent(train, best, 0.2, steps)
    q = PathIntegral(trace, strength=3.0, damping=0.1)(train)
    r = 1 - 0.2 * h / len(train)
    way = (1 - r**steps) ** 2
    omega = h * (1 - r ** (2 * steps)) / (1 + r) / (way + 0.1 * way.mean())
    assert_close(held(q), 6 * omega, atol=0, rtol=1e-12)


def test_importance_of_a_slow_descent_is_the_curvature():
    """2Ω is h / (1 − ηh/2N) once rᵀ is gone: above h by 2 % at the steepest weight here, rᵀ = 1e-6."""
    train, h, best = axes()
    q = PathIntegral(descent(train, best, 0.025, 500), damping=1e-9)(train)
    above = held(q) / h - 1
    assert bool((above > 0).all())
    assert float(above.max()) < 1.05 * 0.025 * float(h.max()) / len(train) / 2 + 1e-5


def test_a_batch_stands_for_all_of_d():
    """Half of a set made of two equal halves gives the same importance as the whole of it."""
    train, _, best = axes(copies=2)
    trace = descent(train, best, 0.2, 7)
    half = replace(trace, steps=tuple(replace(s, positions=np.arange(6)) for s in trace.steps))
    whole, part = (held(PathIntegral(t)(train)) for t in (trace, half))
    assert_close(whole, part, atol=0, rtol=1e-12)


def test_a_weight_that_lost_is_of_no_importance():
    train, _, best = axes()
    trace = descent(train, best, 0.2, 7)
    worse = {"weight": trace.steps[-1].theta["weight"] * torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)}
    data = held(PathIntegral(replace(trace, steps=trace.steps[-1:], end=worse))(train))
    assert data.tolist() == [0.0, 0.0, 0.0]
    assert float(held(PathIntegral(trace)(train)).min()) > 0


def test_without_a_trace_diagonal_curvature_is_found_exactly_even_off_the_optimum():
    train, h, _ = axes()
    q = PathIntegral(epochs=1, batch=2, damping=0.1)(train)
    assert_close(held(q) * 1.1, h, atol=0, rtol=1e-12)


def test_without_a_trace_the_curvature_is_found_in_rank_and_size():
    """Softmax regressions at their optimum, over seeds; their diagonals span three decades."""
    rank, size, near = [], [], []
    for seed in range(10):
        train = at_optimum(seed)
        q = PathIntegral(seed=seed)(train)
        wanted = flatten(Diagonal(GGN())(train, train.network.params).data)
        value = held(q)
        rank.append(correlation(ranks(value), ranks(wanted)))
        size.append(float(value.sum() / wanted.sum()))
        near.append(float(held(PathIntegral(seed=seed, noise=0.01)(train)).sum() / wanted.sum()))
        assert torch.equal(flatten(q.mean), flatten(train.network.params))
    assert min(rank) > 0.8  # 0.87 to 0.97, mean 0.93
    assert 0.7 < min(size) <= max(size) < 1.6  # 0.82 to 1.45: half a unit from these weights, log p is no quadratic
    assert 0.85 < min(near) <= max(near) < 1.15  # 0.92 to 1.10 from a tenth of that distance
    assert abs(np.mean(near) - 1) < 0.06  # 0.038


def test_what_noise_takes_below_zero_is_taken_from_the_others():
    """The work in all stays what it was: one run along correlated weights leaves several of them below 0."""
    x, y, network = classification(n=40, d=6)
    train = factor(network, x @ torch.ones(6, 6, dtype=x.dtype) + 0.1 * x, y)
    signs = torch.Generator().manual_seed(0)
    delta = flatten({k: normal_like(v, signs).sign() for k, v in train.network.params.items()})
    work = 0.5 * delta * (-train.hessian(train.network.params) @ delta)
    assert float(work.min()) < 0 < float(work.sum())
    expected = work.clamp(min=0) * work.sum() / work.clamp(min=0).sum()
    found = held(PathIntegral(epochs=1, batch=40, noise=1e-4, damping=1e-9)(train)) / 2
    assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_remembering_a_run_does_not_move_the_model_and_the_same_seed_is_the_same_memory():
    train, _ = softmax()
    rng = torch.get_rng_state()
    trace = replay(train, {k: torch.zeros_like(v) for k, v in train.network.params.items()}, rate=0.1, batch=8)
    q = PathIntegral(trace)(train)
    assert torch.equal(flatten(q.mean), flatten(train.network.params))
    assert q.count == 40
    first, again, other = (held(PathIntegral(batch=40, seed=s)(train)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, rtol=1e-3)  # more than another order of summing
    assert torch.equal(torch.get_rng_state(), rng)
