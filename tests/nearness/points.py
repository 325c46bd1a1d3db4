"""Small networks whose features are known."""

from __future__ import annotations

import torch
from torch import nn

from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor


def mlp(inputs=3, hidden=5, classes=3, seed=0):
    torch.manual_seed(seed)
    layers = nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    return Network.of(nn.Sequential(*layers).double(), Categorical())


def plainly(x, y=None, batch=7):
    """Examples of a linear model, whose features are its inputs."""
    torch.manual_seed(0)
    network = Network.of(nn.Linear(x.shape[1], 3, dtype=torch.float64), Categorical())
    return factor(network, x, torch.zeros(len(x), dtype=torch.long) if y is None else y, batch=batch)
