"""Layers that torch.func cannot differentiate."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.errors import BadInput
from amends.evidence.network import Network, derivative_of_few
from amends.likelihoods import Categorical


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.out = nn.LSTM(2, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.read(x)[0][:, -1])


def recurrent(n=12):
    return torch.randn(n, 4, 2), torch.randint(0, 3, (n,))


def test_a_recurrent_model_can_be_edited():
    """No rule and no batching rule for an LSTM: its gradients are taken one example at a time."""
    influence = amends.identify(Recurrent(), recurrent(), recurrent(3), method=amends.methods.ewc())
    assert np.isfinite(influence.scores).all()


def test_a_recurrent_model_has_a_tangent():
    """No forward derivative for an LSTM either: two backward passes give the same product."""
    torch.manual_seed(0)
    model, (x, y), (fx, fy) = Recurrent().double(), recurrent(), recurrent(3)
    x, fx = x.double(), fx.double()
    scores = amends.identify(model, (x, y), (fx, fy), method=amends.methods.grad_dot()).scores

    def gradient(x, y):
        loss = nn.functional.cross_entropy(model(x), y, reduction="sum")
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])

    toward = gradient(fx, fy)
    expected = [-float(gradient(x[i : i + 1], y[i : i + 1]) @ toward) for i in range(len(x))]
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.EmbeddingBag(30, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.words(x))


def test_a_layer_without_second_derivatives_leaves_the_members_that_need_none():
    torch.manual_seed(0)
    net = Bag()
    x = torch.randint(0, 30, (90, 5))
    y = net(x).argmax(1)
    sets = (x[:40], y[:40]), (x[40:60], (y[40:60] + 1) % 3), (x[60:], y[60:])
    members = {h.name: h for h in amends.identify(net, *sets[:2], remaining=sets[2]).members}
    assert "no second derivative" in members["linear"].refused
    assert members["functional"].refused == ""
    with pytest.raises(BadInput, match=r"no second derivative .*; choose ewc or functional"):
        amends.identify(net, *sets[:2], method=amends.methods.grad_dot())


class Squared(torch.autograd.Function):
    """Differentiated forward, and backward once alone."""

    @staticmethod
    def forward(x):  # type: ignore[override]
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        if torch.is_grad_enabled():
            raise NotImplementedError("no second derivative")
        return 2 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):  # type: ignore[override]
        return 2 * ctx.saved_tensors[0] * t


@pytest.mark.parametrize("squared", [torch.square, Squared.apply])
def test_the_derivative_of_a_few_is_the_derivative(squared):
    """Also where a layer has no second derivative."""
    theta, along, x = (torch.randn(4, 3, dtype=torch.float64) for _ in range(3))
    value, change = derivative_of_few(lambda p: squared(x @ p["w"].T), {"w": theta}, {"w": along})
    assert_close(value, (x @ theta.T) ** 2, rtol=1e-12, atol=0)
    assert_close(change, 2 * (x @ theta.T) * (x @ along.T), rtol=1e-12, atol=0)


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize("tied", [True, False])
def test_a_weight_with_two_names_is_one(tied):
    """Of θ twice as large the outputs are four times as large, whether the layers share it or each have their own."""
    net = Tied() if tied else nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    network, x = Network.of(net, Categorical()), torch.randn(5, 3)
    assert network.tied is tied
    assert len(network.params) == (1 if tied else 2)
    twice = {k: 2 * v for k, v in network.params.items()}
    torch.testing.assert_close(network.outputs(twice, x), 4 * net(x).detach())


def test_a_caller_who_makes_warnings_errors_is_not_stopped_by_torch():
    """In a process of its own, since torch warns only at the first forward derivative."""
    code = """
import warnings, torch
from amends.evidence.network import derivative
warnings.simplefilter("error")
theta = {"w": torch.ones(2)}
print(derivative(lambda t: t["w"] ** 2, theta, theta)[1].tolist())
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert made.stdout.strip() == "[2.0, 2.0]", made.stderr
