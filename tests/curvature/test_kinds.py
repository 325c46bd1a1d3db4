"""Labels drawn from the model: the GGN on average, and the same for any batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import Dense, Diagonal, Sampled
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.likelihoods import Bernoulli, Gaussian
from tests.conftest import factor
from tests.curvature.worlds import reference, world


def test_sampled_labels_average_to_the_ggn():
    data, x = world("linear", torch.float64)
    diagonal = flatten(Diagonal(Sampled(draws=4000, seed=1))(data, data.network.params).data)
    expected = (reference(data, x, "ggn") ** 2).sum(0)
    assert_close(diagonal, expected, rtol=0.1, atol=0.02 * float(expected.max()))  # 1/√4000 is 0.016


def test_sampled_labels_do_not_depend_on_the_batch():
    data, _ = world("linear", torch.float64)
    other = type(data)(data.network, data.examples, data.weights, 9)
    a, b = (Diagonal(Sampled(seed=2))(d, d.network.params).data for d in (data, other))
    assert_close(a, b, atol=1e-13, rtol=0)


@pytest.mark.parametrize("likelihood", [Gaussian(2.0), Bernoulli()])
def test_every_output_is_drawn_on_its_own(likelihood):
    """Between two outputs of a linear layer there is no curvature; one draw for both would give as much as each has."""
    torch.manual_seed(0)
    network = Network.of(nn.Linear(1, 2, bias=False).double(), likelihood)
    data = factor(network, torch.ones(5, 1, dtype=torch.float64), torch.ones(5, 2, dtype=torch.float64))
    drawn = Dense(Sampled(draws=400))(data, network.params).dense()
    assert abs(float(drawn[0, 1])) < 0.1 * float(drawn.diagonal().min())  # 1/√2000 is 0.02
