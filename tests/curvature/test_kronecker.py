"""Kronecker factors by loops over examples and places; EKFAC along their directions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from amends.curvature import EKFAC, GGN, Dense, Diagonal, Empirical, Kronecker
from amends.evidence.network import Network
from amends.evidence.params import unflatten
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.curvature.worlds import CASES, reference, world


@pytest.mark.parametrize("case", CASES)
def test_kronecker_keeps_the_exact_diagonal_of_what_has_no_factors(case):
    data, _ = world(case, torch.float64)
    theta = data.network.params
    kron, exact_diagonal = Kronecker(GGN())(data, theta), Diagonal(GGN())(data, theta).data
    factored = {name for b in kron.blocks for name in (b.place.weight, b.place.bias) if name}
    assert factored | set(kron.rest.data) == set(theta)
    for name, value in kron.rest.data.items():
        assert_close(value, exact_diagonal[name], rtol=1e-10, atol=1e-12)


LAYERED = [c for c in CASES if c.startswith(("linear", "conv"))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", LAYERED)
def test_kronecker_factors(case, dtype):
    """A and G of the first layer by loops over examples and places."""
    data, x = world(case, dtype)
    block = Kronecker()(data, data.network.params).blocks[0]
    model = data.network.module.double()
    layer = model[0]
    a_sum, g_sum, places = 0, 0, 0
    for i in range(len(x)):
        seen = {}
        handle = layer.register_forward_hook(lambda m, a, out, seen=seen: seen.update(a=a[0], out=out))
        params = {k: v.double().requires_grad_() for k, v in data.network.params.items()}
        out = functional_call(model, params, (x[i : i + 1].double(),))
        handle.remove()
        log_p = out.log_softmax(1)[0, data.examples.y[i]]
        g = torch.autograd.grad(log_p, seen["out"])[0]
        for a_t, g_t in _places(layer, seen["a"], g):
            a_sum = a_sum + torch.einsum("gi,gj->gij", a_t, a_t)
            g_sum = g_sum + torch.einsum("go,gp->gop", g_t, g_t)
            places += 1
    tolerance = 1e-5 if dtype is torch.float32 else 1e-10
    assert_close(block.inputs.double(), a_sum, rtol=tolerance, atol=tolerance * float(a_sum.abs().max()))
    assert_close(block.grads.double(), g_sum, rtol=tolerance, atol=tolerance * float(g_sum.abs().max()))
    assert block.count == places


def _places(layer, a, g):
    """Input patch [groups, in (+1)] and gradient [groups, out] at each place, one by one."""
    one = torch.ones(getattr(layer, "groups", 1), 1, dtype=a.dtype)
    if isinstance(layer, nn.Linear):
        for a_t, g_t in zip(a.reshape(-1, a.shape[-1]), g.reshape(-1, g.shape[-1]), strict=True):
            yield torch.cat([a_t[None], one], 1) if layer.bias is not None else a_t[None], g_t[None]
        return
    if layer.padding == "same" or any(p for p in layer.padding if not isinstance(p, str)):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        a = nn.functional.pad(a, layer._reversed_padding_repeated_twice, mode=mode)
    a = a.detach()
    for place in torch.cartesian_prod(*[torch.arange(s) for s in g.shape[2:]]).reshape(-1, g.ndim - 2):
        taps = torch.cartesian_prod(*[torch.arange(k) for k in layer.kernel_size]).reshape(-1, g.ndim - 2)
        where = place * torch.tensor(layer.stride) + taps * torch.tensor(layer.dilation)
        patch = torch.stack([a[0][(slice(None), *w.tolist())] for w in where], 1)  # [channels, taps]
        patch = patch.reshape(layer.groups, -1)
        g_t = g[0][(slice(None), *place.tolist())].reshape(layer.groups, -1)
        yield torch.cat([patch, one], 1) if layer.bias is not None else patch, g_t


@pytest.mark.parametrize("kind", [Empirical(), GGN()], ids=["empirical", "ggn"])
@pytest.mark.parametrize("case", LAYERED)
def test_ekfac_is_the_exact_diagonal_in_kronecker_s_basis(case, kind):
    data, x = world(case, torch.float64)
    theta = data.network.params
    rows = reference(data, x, "ggn" if isinstance(kind, GGN) else "empirical")
    for block in EKFAC(kind)(data, theta).blocks:
        spectrum = block.spectrum
        packed = torch.stack([block.place.pack(unflatten(row, theta)) for row in rows])
        expected = (spectrum.basis_g.mT @ packed @ spectrum.basis_a).pow(2).sum(0)
        assert_close(spectrum.values, expected, rtol=1e-9, atol=1e-12 * float(expected.max()))


def test_ekfac_is_nearer_to_the_curvature_than_kronecker():
    data, x = world("linear on a sequence", torch.float64)
    theta = data.network.params
    rows = reference(data, x, "ggn")
    size = block_size = theta["0.weight"].numel() + theta["0.bias"].numel()
    true = (rows.T @ rows)[:size, :block_size]
    errors = [(k(GGN())(data, theta).dense()[:size, :size] - true).norm() for k in (EKFAC, Kronecker, Diagonal)]
    assert errors[0] < errors[1]
    assert errors[0] < errors[2]


def test_kronecker_is_exact_for_one_example():
    """One example, one place: the block is the outer product itself, so solve and @ must be too."""
    torch.manual_seed(0)
    network = Network.of(nn.Linear(4, 3).double(), Categorical())
    data = factor(network, torch.randn(1, 4, dtype=torch.float64), torch.tensor([1]))
    kron, dense = (k(Empirical(), prior=0.3)(data, network.params) for k in (Kronecker, Dense))
    assert_close(kron.dense(), dense.dense(), atol=1e-12, rtol=0)
    vector = unflatten(torch.randn(15, dtype=torch.float64), network.params)
    assert_close(kron.solve(vector), dense.solve(vector), atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("times", [1e-9, 1.0, 1e9])
def test_what_is_silent_does_not_depend_on_the_scale(times):
    """Two inputs are always the same, so three of four directions of an input and its 1 are seen; softmax tells two of
    three outputs apart. What rounding leaves of the others is far below the largest, whatever that is."""
    torch.manual_seed(0)
    x = torch.randn(20, 3, dtype=torch.float64)
    x[:, 2] = x[:, 1]
    network = Network.of(nn.Linear(3, 3).double(), Categorical())
    precision = Kronecker(GGN())(factor(network, x, torch.randint(3, (20,))), network.params)
    assert precision.scaled(times).flat == 4 * 3 - 3 * 2
    left = precision.scaled(times).solve({k: torch.ones_like(v) for k, v in network.params.items()})
    assert all(v.abs().max() * times < 1e5 for v in left.values())
