"""A mean-field posterior of the network of `tanh`: its spread is fitted, then mean and spread are edited, with noise
that is drawn at the outputs of either layer and written down here once more."""

from __future__ import annotations

import zlib
from statistics import NormalDist

import numpy as np
import pytest
import torch

import amends
from amends import methods
from amends.editors import LBFGS
from tests.exact import tanh
from tests.exact.moves import climbed
from tests.exact.test_linear import WHOLE, W
from tests.exact.world import module, pair, vector

WORD, GOLDEN = 2**64, 0x9E3779B97F4A7C15


def mixed(z):
    """The mixing step of splitmix64, on whole numbers below 2⁶⁴."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def normals(of, n, width, seed, draw, call):
    """A row for each of the n examples of a set: a function of the name of the set, the place in it and the rest."""
    rows = []
    for i in range(n):
        key = (zlib.crc32(of.encode()) << 31) + i
        state = mixed((key * GOLDEN + (seed << 40) + (draw << 16) + call) % WORD)
        bits = [mixed((state + place * GOLDEN) % WORD) >> 11 for place in range(width)]
        rows.append([NormalDist().inv_cdf(b * 2.0**-53 + 2.0**-54) for b in bits])
    return torch.tensor(rows, dtype=torch.float64)


def split(theta):
    return [
        part.reshape(s)
        for part, s in zip(theta.split([int(np.prod(s)) for s in tanh.SHAPES]), tanh.SHAPES, strict=True)
    ]


def expected(mean, spread, x, y, noise):
    """Σ E log p, the mean over pairs of draws: a layer of independent Gaussian weights has a Gaussian output."""
    (w1, b1, w2, b2), (v1, c1, v2, c2) = split(mean), split(spread**2)
    total, at = 0.0, torch.arange(len(y))
    for first, last in noise:
        for sign in (1.0, -1.0):
            h = torch.tanh(x @ w1.T + b1 + sign * (x**2 @ v1.T + c1).sqrt() * first)
            f = h @ w2.T + b2 + sign * (h**2 @ v2.T + c2).sqrt() * last
            total = total + f.log_softmax(1)[at, torch.tensor(y)].sum() / (2 * len(noise))
    return total


def term(value):
    """What `climbed` takes, of a function of tensors."""

    def look(theta):
        live = torch.tensor(theta, requires_grad=True)
        found = value(live)
        return float(found.detach()), torch.autograd.grad(found, live)[0].numpy()

    return look


def drawn(of, n, draws, seed):
    return [(normals(of, n, 4, seed, draw, 1), normals(of, n, 3, seed, draw, 2)) for draw in range(max(1, draws // 2))]


def fitted(prior, draws, seed):
    """Ten steps over the spread from that of the diagonal; the mean stays."""
    guess, mean = torch.tensor((np.diag(WHOLE) + prior) ** -0.5), torch.tensor(W.theta)
    noise, x = drawn("train", len(W.x), draws, seed), torch.tensor(W.x)

    def value(ratio):
        spread = guess * ratio.exp()
        return expected(mean, spread, x, W.y, noise) + (ratio - 0.5 * prior * spread**2).sum()

    return guess.numpy() * np.exp(climbed([term(value)], np.zeros(tanh.SIZE), 10, 1e-3))


def inserted(spread, draws, seed, steps):
    """Both move, in units of the spread: E log p(F) less the divergence from what they were."""
    mean, was = torch.tensor(W.theta), torch.tensor(spread)
    noise, x = drawn("failures", len(W.fx), draws, seed), torch.tensor(W.fx)

    def value(theta):
        shift, ratio = theta.split(tanh.SIZE)
        apart = 0.5 * (shift**2).sum() - ratio.sum() + 0.5 * ((2 * ratio).exp() - 1).sum()
        return expected(mean + was * shift, was * ratio.exp(), x, W.fy, noise) - apart

    shift, ratio = np.split(climbed([term(value)], np.zeros(2 * tanh.SIZE), steps), 2)
    return W.theta + spread * shift, spread * np.exp(ratio)


@pytest.mark.parametrize(("given", "prior", "draws", "seed", "steps"), [
    ({}, tanh.SIZE / (W.theta @ W.theta), 8, 0, 40), ({"prior": 2.0, "draws": 3, "seed": 4}, 2.0, 3, 4, 40),
    ({"prior": 2.0, "draws": 4, "climb": LBFGS(steps=3)}, 2.0, 4, 0, 3),
], ids=["shipped", "seed", "climb"])  # fmt: skip
def test_a_mean_field_posterior_of_a_network(given, prior, draws, seed, steps):
    """Fifty steps of L-BFGS magnify rounding."""
    spread = fitted(prior, draws, seed)
    mean, after = inserted(spread, draws, seed, steps)
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=methods.vcl(**given))
    np.testing.assert_allclose(vector(found.start.spread.values()), spread, rtol=1e-6)
    np.testing.assert_allclose(vector(found.edited.mean.values()), mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(vector(found.edited.spread.values()), after, rtol=1e-6)
    np.testing.assert_allclose(found.scores, tanh.log_p(W.theta, W.x, W.y) - tanh.log_p(mean, W.x, W.y), atol=1e-6)
