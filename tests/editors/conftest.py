"""A trained softmax regression, for deletion."""

from __future__ import annotations

import pytest

from amends.curvature import Diagonal
from amends.posteriors import Gaussian
from tests.conftest import classification, factor
from tests.exact import logistic


@pytest.fixture(scope="module")
def fitted():
    """A trained softmax regression with its diagonal Laplace posterior; λ = 0, as in the paper."""
    x, y, network = classification(n=90)
    w = logistic.optimum(x, y, 3, 0.1)
    theta = {"weight": w[:, :-1].clone(), "bias": w[:, -1].clone()}
    data = factor(network, x, y)
    curvature = Diagonal()
    return data, Gaussian(theta, curvature(data, theta), curvature, 90)
