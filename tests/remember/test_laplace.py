"""Remembering with a Laplace approximation: of the last layer alone, or from where a repair ended."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.curvature import GGN, Diagonal, Kronecker
from amends.editors import Mode, follow
from amends.errors import BadInput
from amends.remember import Laplace, Running
from tests.conftest import at_optimum, classification, factor, tabular


def test_a_second_repair_goes_on_from_the_first():
    x, y, network, _ = at_optimum()
    data, extra = factor(network, x[:40], y[:40]), factor(network, x[40:], y[40:], "failures")
    first = methods.online_ewc(decay=0.8)
    q = follow(first.editor(first.remember(data, None), extra))
    second = methods.online_ewc(since=q).remember(data, None)
    assert_close(second.precision.dense(), q.precision.dense())
    assert second.mean is network.params
    with pytest.raises(BadInput, match="the posterior of another model"):
        Running(q)(factor(classification()[2], *classification()[:2]))


def test_a_last_layer_alone_is_drawn_and_edited():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y, _ = classification()
    method = methods.laplace_mc(Kronecker(GGN(), prior=50.0), draws=50)
    influence = amends.identify(net, (x[:50], y[:50]), (x[50:], y[50:]), method=method)
    assert set(influence.edited.mean) == {"2.weight", "2.bias"}
    treated = amends.treat(net, (x[:50], y[:50]), [1, 2], method=methods.Method(Laplace(Diagonal(), True), Mode()))
    assert torch.equal(treated[0].weight, net[0].weight)
    with pytest.raises(BadInput, match="no linear layer"):
        Laplace(Diagonal(), last_layer=True)(factor(tabular(), x, y))
