"""A model along a tangent: by a derivative, or by a difference where that is as good."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.testing import assert_close

from amends.editors import tangent
from amends.editors.tangent import Linearised
from amends.evidence.network import Network
from amends.likelihoods import Categorical
from amends.posteriors import Point
from tests.conftest import factor


class Rounded(nn.Module):
    """Outputs that a short step does not change, and a gradient as if they were not rounded."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        out = self.inner(x)
        return out + ((16 * out).round() / 16 - out).detach()


def world(dtype: torch.dtype, rounded: bool):
    torch.manual_seed(0)
    net: nn.Module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    network = Network.of((Rounded(net) if rounded else net).to(dtype), Categorical())
    data = factor(network, torch.randn(100, 4, dtype=dtype), torch.randint(0, 3, (100,)))
    along = {k: torch.randn_like(v) for k, v in network.params.items()}
    return data, Linearised(Point(network.params), along)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-7), (torch.float32, 2e-3)])
def test_a_difference_is_the_derivative_but_for_rounding(dtype, within, monkeypatch):
    """A step of the root of what is rounded off leaves an error of that size."""
    data, after = world(dtype, rounded=False)
    known = data.outputs(data.network.params)
    exact = data.map(lambda x, _: after.rows(lambda theta: data.network.outputs(theta, x))[0])
    of, seen = tangent.derivative_of_few, []
    monkeypatch.setattr(tangent, "derivative_of_few", lambda f, *rest: seen.append(len(f(rest[0]))) or of(f, *rest))
    monkeypatch.setattr(tangent, "derivative", None)
    found = after.outputs(data, known)
    assert (found - exact).norm() <= within * (exact - known).norm()
    assert sum(seen) == tangent.LOOKED_AT  # no others were derived


def test_where_outputs_are_rounded_it_is_the_derivative_itself():
    data, after = world(torch.float64, rounded=True)
    exact = data.map(lambda x, _: after.rows(lambda theta: data.network.outputs(theta, x))[0])
    assert_close(after.outputs(data, data.outputs(data.network.params)), exact, atol=1e-12, rtol=0)


def test_a_tangent_of_no_length_moves_nothing():
    data, after = world(torch.float64, rounded=False)
    still = Linearised(after.origin, {k: torch.zeros_like(v) for k, v in after.direction.items()})
    known = data.outputs(data.network.params)
    assert_close(still.outputs(data, known), known, atol=0, rtol=0)


def test_where_a_second_derivative_is_silently_none_it_is_the_derivative_itself():
    """Two backward passes then say that nothing moves, and no difference agrees with that."""

    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(x):  # type: ignore[override]
            return x / 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        @once_differentiable
        def backward(ctx, g):  # type: ignore[override]
            return g / 2

        @staticmethod
        def jvp(ctx, t):  # type: ignore[override]
            return t / 2

    class Half(nn.Linear):
        def forward(self, x):
            return Halved.apply(super().forward(x))

    network = Network.of(Half(4, 3).double(), Categorical())
    data = factor(network, torch.randn(100, 4, dtype=torch.float64), torch.randint(0, 3, (100,)))
    after = Linearised(Point(network.params), {k: torch.randn_like(v) for k, v in network.params.items()})
    exact = data.map(lambda x, _: after.rows(lambda theta: network.outputs(theta, x))[0])
    assert_close(after.outputs(data, data.outputs(network.params)), exact, atol=1e-12, rtol=0)
