"""Small networks and data of the tests of methods."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from amends.curvature import DiagonalPrecision
from amends.evidence import Factor, Network, flatten
from amends.likelihoods import Categorical
from tests.conftest import classification, factor


def small_network(seed=0, inputs=3, hidden=4, classes=3, likelihood=None):
    torch.manual_seed(seed)
    layers = nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, classes)
    return Network.of(nn.Sequential(*layers).double(), likelihood or Categorical())


def world(n=30, failures=5, seed=0):
    """Train, failures and the network that sees them; nothing is trained, the formulas hold anywhere."""
    x, y, _ = classification(seed, n=n + failures)
    network = small_network(seed)
    return factor(network, x[:n], y[:n]), factor(network, x[n:], (y[n:] + 1) % 3, "failures"), network


def gradient(network, x, y):
    """∇log p of one example, flattened, by plain autograd."""
    live = {k: v.clone().requires_grad_() for k, v in network.params.items()}
    return flatten(dict(zip(live, torch.autograd.grad(network.log_prob(live, x, y).sum(), live.values()), strict=True)))


def softmax(n=40, extra=8, seed=0):
    """Train and failures of one softmax regression, at a start of its own."""
    x, y, network = classification(seed, n + extra)
    return factor(network, x[:n], y[:n], batch=64), factor(network, x[n:], (y[n:] + 1) % 3, "failures")


def held(q):
    """What a diagonal posterior says of each weight."""
    assert isinstance(q.base, DiagonalPrecision)
    return flatten(q.base.data)


def pair(given: Factor) -> tuple[Tensor, Tensor]:
    x, y = given.examples.fetch(0, len(given))
    assert isinstance(x, Tensor)
    return x, y


def correlation(a, b):
    return np.corrcoef(np.asarray(a), np.asarray(b))[0, 1]


def matrix(theta):
    """Parameters as tests.exact.logistic has them: the bias in the last column."""
    return torch.cat([theta["weight"], theta["bias"][:, None]], 1)
