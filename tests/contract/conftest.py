"""Digits with wrong labels, a model that learned them, and its repair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import amends
from amends.data import flip_labels


@pytest.fixture(scope="session")
def digits():
    """Real 8x8 digits, 600 to train with flips, a small MLP that learned them, failures and the rest."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y = torch.tensor(images[order] / 16.0, dtype=torch.float32), labels[order].astype(np.int64)
    given, wrong = flip_labels(y[:600], {(1, 7): 0.4, (9, 4): 0.4, (3, 8): 0.4}, 0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in torch.randperm(600).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), torch.tensor(given)[batch]).backward()
            optimiser.step()
    net.eval()
    with torch.no_grad():
        ok = (net(x[600:]).argmax(1).numpy() == y[600:]).nonzero()[0] + 600
    bad = np.setdiff1d(np.arange(600, len(x)), ok)
    return net, (x[:600], given), (x[bad], y[bad]), (x[ok], y[ok]), wrong


@pytest.fixture(scope="session")
def result(digits):
    net, train, failures, remaining, _ = digits
    return amends.repair(net, train, failures, remaining)
