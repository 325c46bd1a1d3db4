"""The diagonal against slow loops, for every layer rule."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import GGN, Dense, Diagonal, Empirical
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.curvature.worlds import CASES, reference, world


@pytest.mark.parametrize("kind", ["empirical", "ggn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_diagonal(case, dtype, kind):
    data, x = world(case, dtype)
    diagonal = Diagonal(Empirical() if kind == "empirical" else GGN())(data, data.network.params).data
    expected = (reference(data, x, kind) ** 2).sum(0)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-10
    assert_close(flatten(diagonal).double(), expected, rtol=tolerance, atol=tolerance * float(expected.max()))


@pytest.mark.parametrize("case", ["conv2d, groups", "embedding, tied to a layer", "called twice, loose parameter"])
def test_weights_scale_the_curvature(case):
    data, _ = world(case, torch.float64)
    theta = data.network.params
    double = Diagonal()(3.0 * data, theta).data
    assert_close(flatten(double), 3 * flatten(Diagonal()(data, theta).data), rtol=1e-12, atol=0)


def test_where_the_data_is_silent_a_stated_damping_applies():
    """A dead unit has no curvature; with λ = 0 it gets `damping` times the mean, and is counted."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        model[0].bias[0] = -1e6
    network = Network.of(model, Categorical())
    data = factor(network, torch.randn(8, 4, dtype=torch.float64), torch.randint(0, 2, (8,)))
    precision = Diagonal(damping=0.5)(data, network.params)
    assert precision.flat == 5 + 2  # its four weights and bias, and the two weights it feeds
    ones = {k: torch.ones_like(v) for k, v in network.params.items()}
    mean = float(flatten(precision.data).mean())
    assert float(precision.solve(ones)["0.bias"][0]) == pytest.approx(1 / (0.5 * mean))
    assert Dense()(data, network.params).flat >= 7
