"""Small worlds with known answers, shared by the tests."""

from __future__ import annotations

import os
import tempfile

import pytest
import torch
from torch import nn

import amends
from amends.data import examples
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Gaussian
from tests.audited import sitecustomize
from tests.exact import linear_gaussian as exact
from tests.worlds import planted_digits

torch.set_num_threads(1)  # the tensors are small; a second thread would mostly wait
os.environ.setdefault("OMP_NUM_THREADS", "1")  # nor in processes that tests start
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="amends-tests-")  # the key that signs runs is not the user's


os.environ[sitecustomize.PACKAGE] = os.path.dirname(amends.__file__)
os.environ["PYTHONPATH"] = os.pathsep.join(  # processes that tests start are held to the same
    filter(None, [os.path.dirname(sitecustomize.__file__), os.environ.get("PYTHONPATH")])
)


@pytest.fixture
def unpickling(monkeypatch):
    """For a test of --unsafe-pickle."""
    monkeypatch.setenv(sitecustomize.OPTED_IN, "yes")


@pytest.fixture(scope="session")
def planted():
    return planted_digits()


@pytest.fixture(scope="session")
def result(planted):
    """All of it, with no other argument."""
    return amends.repair(*planted[:4])


def factor(network, x, y, name="train", batch=7):
    return Factor.of(network, examples((x, y), name), batch)


def regression(seed=0, n=60, d=4, dtype=torch.float64):
    """x, y of a linear-Gaussian world, and a network that is its model."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g, dtype=dtype)
    y = x @ torch.randn(d, generator=g, dtype=dtype) + 0.5 * torch.randn(n, generator=g, dtype=dtype)
    layer = torch.nn.Linear(d, 1, bias=False, dtype=dtype)
    torch.nn.init.zeros_(layer.weight)
    return x, y[:, None], Network.of(layer, Gaussian(sigma=0.5))


def classification(seed=0, n=60, d=3, classes=3, dtype=torch.float64):
    """Overlapping classes and an untrained logistic regression."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    centres = torch.randn(classes, d, generator=g, dtype=dtype)
    x = centres[y] + torch.randn(n, d, generator=g, dtype=dtype)
    torch.manual_seed(seed)
    return x, y, Network.of(torch.nn.Linear(d, classes, dtype=dtype), Categorical())


def at_optimum(n=60, prior=0.7):
    """A linear-Gaussian world, its network at the posterior mean."""
    x, y, network = regression(n=n)
    mean, precision = exact.posterior(x, y, 0.5, prior)
    network.params["weight"].copy_(mean[None])
    network.module.weight.data.copy_(mean[None])
    return x, y, network, precision


def plain(network):
    """The network's model, as a caller would have it."""
    model = nn.Linear(3, 3, dtype=torch.float64)
    model.load_state_dict(network.params)
    return model


class Table(nn.Module):
    """A parameter that belongs to no layer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))

    def forward(self, x):
        return x @ self.w


def tabular():
    return Network.of(Table(), Categorical())
