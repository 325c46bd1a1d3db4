"""Which parameters a layer rule serves, and which go the general way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from amends.curvature import Diagonal
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
