"""Which parameters a layer rule serves, and which go the general way."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import Diagonal, Empirical
from amends.curvature.backprop import plan
from amends.errors import BadInput
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.curvature.worlds import CASES, world


def test_every_parameter_is_on_exactly_one_side():
    for case in CASES:
        data, _ = world(case, torch.float64)
        layout = plan(data, data.network.params)
        by_rule = {n for o in layout.layers for n in o.names.values()}
        assert by_rule | set(layout.general) == set(data.network.params)
        assert not by_rule & set(layout.general)
    data, _ = world("embedding, tied by hand", torch.float64)
    assert plan(data, data.network.params).general == ("embed.weight",)


def test_examples_that_see_each_other_are_refused():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 2))
    network = Network.of(model, Categorical())
    with pytest.raises(BadInput, match="depends on the others in its batch"):
        Diagonal()(factor(network, torch.randn(8, 4), torch.randint(0, 2, (8,))), network.params)


class TwiceByHand(nn.Module):
    """Outputs so small that gradients are far below 1; the weight is also used without calling its layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return 1e-9 * (self.layer(x) + x @ self.layer.weight.T)


def test_a_layer_that_cannot_be_followed_is_found_where_gradients_are_small():
    """Half of the gradient is missing: a fourth of its square."""
    torch.manual_seed(0)
    network = Network.of(TwiceByHand().double(), Categorical())
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    found = Diagonal(Empirical())(factor(network, x, y), network.params).data["layer.weight"]
    slope = torch.eye(2, dtype=torch.float64)[y] - 0.5  # all outputs are almost zero
    expected = ((2e-9 * slope[:, :, None] * x[:, None]) ** 2).sum(0)
    assert_close(found, expected, rtol=1e-6, atol=0)
