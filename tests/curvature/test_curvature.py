"""Diagonal, Kronecker, dense and matrix-free curvature against slow loops, for every layer rule."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from amends.curvature import CG, EKFAC, GGN, Damped, Dense, Diagonal, Empirical, Isotropic, Kronecker, Sampled
from amends.curvature.backprop import plan
from amends.errors import BadInput, NotConverged
from amends.evidence.network import Network
from amends.evidence.params import flatten, unflatten
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.exact import curvature as exact


class Tied(nn.Module):
    """An embedding whose weight is also the output layer, once as a module and once by hand."""

    def __init__(self, by_hand: bool):
        super().__init__()
        self.embed = nn.Embedding(5, 4, padding_idx=0)
        self.mix = nn.Linear(4, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.by_hand = by_hand
        if by_hand:
            del self.out
        else:
            self.out.weight = self.embed.weight

    def forward(self, x):
        h = torch.tanh(self.mix(self.embed(x))).mean(1)
        return nn.functional.linear(h, self.embed.weight) if self.by_hand else self.out(h)


class Twice(nn.Module):
    """The same layer called twice, and a parameter without a module."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.randn(6))

    def forward(self, x):
        h = torch.tanh(self.layer(x))
        return self.head(torch.tanh(self.layer(h)) * self.scale)


class Inplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.b(self.a(x))
        h += 0.5
        h = torch.relu_(h)
        return self.c(h.mean((2, 3)))


class Attention(nn.Module):
    """MultiheadAttention uses its output layer's weight without calling that layer."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.attend(x, x, x, need_weights=False)[0].mean(1))


class Recurrent(nn.Module):
    """No rule, no batching rule."""

    def __init__(self):
        super().__init__()
        self.read, self.out = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x):
        return self.out(self.read(x)[0][:, -1])


def pooled(*layers, width=3):
    return nn.Sequential(*layers, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))


def pooled1d(*layers, width=3):
    return nn.Sequential(*layers, nn.Tanh(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 3))


IMAGE, SIGNAL, ROW = (2, 7, 6), (4, 9), (6,)
CASES = {
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)), ROW),
    "linear on a sequence": (lambda: nn.Sequential(nn.Linear(9, 5), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3)), SIGNAL),
    "conv2d": (lambda: pooled(nn.Conv2d(2, 3, 3)), IMAGE),
    "conv2d, padded": (lambda: pooled(nn.Conv2d(2, 3, 3, padding=1)), IMAGE),
    "conv2d, uneven padding": (lambda: pooled(nn.Conv2d(2, 3, (3, 2), padding=(0, 2))), IMAGE),
    "conv2d, stride": (lambda: pooled(nn.Conv2d(2, 3, 3, stride=2, padding=1)), IMAGE),
    "conv2d, stride across": (lambda: pooled(nn.Conv2d(2, 3, (2, 3), stride=(1, 2))), IMAGE),
    "conv2d, dilation": (lambda: pooled(nn.Conv2d(2, 3, 2, dilation=(2, 3))), IMAGE),
    "conv2d, groups": (lambda: pooled(nn.Conv2d(2, 4, 3, groups=2, padding=1), width=4), IMAGE),
    "conv2d, groups and stride": (lambda: pooled(nn.Conv2d(2, 4, 3, groups=2, stride=2, dilation=2), width=4), IMAGE),
    "conv2d, same": (lambda: pooled(nn.Conv2d(2, 3, (3, 2), dilation=(1, 2), padding="same", bias=False)), IMAGE),
    "conv2d, circular": (lambda: pooled(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")), IMAGE),
    "conv1d": (lambda: pooled1d(nn.Conv1d(4, 3, 3, padding=2, dilation=2)), SIGNAL),
    "conv1d, stride, groups": (lambda: pooled1d(nn.Conv1d(4, 6, 2, stride=3, groups=2), width=6), SIGNAL),
    "layer norm": (lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3)), ROW),
    "layer norm on a sequence": (lambda: nn.Sequential(nn.LayerNorm(9), nn.Flatten(), nn.Linear(36, 3)), SIGNAL),
    "group norm": (lambda: pooled(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), width=4), IMAGE),
    "batch norm 2d": (lambda: pooled(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), width=4), IMAGE),
    "batch norm 1d": (lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), ROW),
    "embedding, tied to a layer": (lambda: Tied(False), "tokens"),
    "embedding, tied by hand": (lambda: Tied(True), "tokens"),
    "called twice, loose parameter": (Twice, ROW),
    "changed in place": (Inplace, IMAGE),
    "transposed convolution": (lambda: pooled(nn.ConvTranspose2d(2, 3, 3, stride=2)), IMAGE),
    "prelu": (lambda: nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 3)), ROW),
    "attention": (Attention, (5, 4)),
    "recurrent": (Recurrent, (5, 4)),
}  # fmt: skip


def world(case, dtype, n=9):
    make, shape = CASES[case]
    torch.manual_seed(3)
    model = make().to(dtype)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    classes = 5 if shape == "tokens" else 3
    x = torch.randint(0, 5, (n, 6)) if shape == "tokens" else torch.randn(n, *shape, dtype=dtype)
    network = Network.of(model, Categorical())
    return factor(network, x, torch.randint(0, classes, (n,)), batch=4), x


def reference(data, x, kind):
    """Rows Jᵀu of every example and output vector; double precision throughout."""
    network = data.network
    params = {k: v.double() for k, v in network.params.items()}
    x = x.double() if x.is_floating_point() else x
    model = network.module.double()
    with torch.no_grad():
        outputs = functional_call(model, params, (x,))
    vectors = [exact.scores(outputs, data.examples.y)] if kind == "empirical" else exact.ggn_vectors(outputs)
    return torch.cat([exact.per_example_vectors(model, params, x, u) for u in vectors])


@pytest.mark.parametrize("kind", ["empirical", "ggn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_diagonal(case, dtype, kind):
    data, x = world(case, dtype)
    found = Diagonal(Empirical() if kind == "empirical" else GGN())(data, data.network.params).data
    expected = (reference(data, x, kind) ** 2).sum(0)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-10
    assert_close(flatten(found).double(), expected, rtol=tolerance, atol=tolerance * float(expected.max()))


@pytest.mark.parametrize("case", ["conv2d, groups", "embedding, tied to a layer", "called twice, loose parameter"])
def test_weights_scale_the_curvature(case):
    data, _ = world(case, torch.float64)
    theta = data.network.params
    double = Diagonal()(3.0 * data, theta).data
    assert_close(flatten(double), 3 * flatten(Diagonal()(data, theta).data), rtol=1e-12, atol=0)


@pytest.mark.parametrize("case", CASES)
def test_dense_in_single_precision(case):
    data, x = world(case, torch.float32)
    found = Dense()(data, data.network.params).dense()
    rows = reference(data, x, "empirical")
    expected = rows.T @ rows
    assert_close(found.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("case", CASES)
def test_kronecker_keeps_the_exact_diagonal_of_what_has_no_factors(case):
    data, _ = world(case, torch.float64)
    theta = data.network.params
    kron, exact_diagonal = Kronecker(GGN())(data, theta), Diagonal(GGN())(data, theta).data
    factored = {name for b in kron.blocks for name in (b.place.weight, b.place.bias) if name}
    assert factored | set(kron.rest.data) == set(theta)
    for name, value in kron.rest.data.items():
        assert_close(value, exact_diagonal[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_dense_and_matrix_free(case):
    data, x = world(case, torch.float64)
    theta = data.network.params
    rows = reference(data, x, "ggn")
    dense = Dense(GGN())(data, theta)
    assert_close(dense.dense(), rows.T @ rows, rtol=1e-10, atol=1e-12)
    vector = unflatten(torch.randn(rows.shape[1], dtype=torch.float64), theta)
    assert_close(CG()(data, theta) @ vector, dense @ vector, rtol=1e-9, atol=1e-11)


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


@pytest.mark.parametrize("shape", [Diagonal, Kronecker, EKFAC, Dense])
def test_solve_undoes_the_product_and_edits_add_up(shape):
    data, _ = world("linear", torch.float64)
    theta = data.network.params
    whole, part = shape(GGN(), prior=0.5)(data, theta), shape(GGN(), prior=0.5)(data[:4], theta)
    vector = unflatten(torch.randn(flatten(theta).shape, dtype=torch.float64), theta)
    assert_close(whole.solve(whole @ vector), vector, rtol=1e-9, atol=1e-9)
    assert_close(whole.plus(whole, -1.0).dense(), 0.5 * torch.eye(len(flatten(theta)), dtype=torch.float64))
    assert_close(whole.scaled(3.0).dense(), shape(GGN(), prior=0.5)(3.0 * data, theta).dense())
    both = part.plus(shape(GGN(), prior=0.5)(data[4:], theta), 1.0)
    if shape is not EKFAC:  # each part measures along its own directions, which are not those of the whole
        assert_close(both.dense(), whole.dense())
    assert_close(both.dense().trace(), whole.dense().trace(), rtol=1e-9 if shape is not Kronecker else 0.5, atol=0)


@pytest.mark.parametrize("shape", [Diagonal, Kronecker, EKFAC, Dense])
def test_damping_everywhere(shape):
    data, _ = world("conv2d", torch.float64)
    theta = data.network.params
    plain, damped = shape(GGN())(data, theta), Damped(shape(GGN()), 0.1)(data, theta)
    mean = float(plain.dense().diagonal().mean())
    assert_close(damped.dense() - plain.dense(), 0.1 * mean * torch.eye(len(flatten(theta)), dtype=torch.float64))
    assert damped.plus(damped, -1.0).prior == damped.prior


def test_kronecker_is_exact_for_one_example():
    """One example, one place: the block is the outer product itself, so solve and @ must be too."""
    torch.manual_seed(0)
    network = Network.of(nn.Linear(4, 3).double(), Categorical())
    data = factor(network, torch.randn(1, 4, dtype=torch.float64), torch.tensor([1]))
    kron, dense = (k(Empirical(), prior=0.3)(data, network.params) for k in (Kronecker, Dense))
    assert_close(kron.dense(), dense.dense(), atol=1e-12, rtol=0)
    vector = unflatten(torch.randn(15, dtype=torch.float64), network.params)
    assert_close(kron.solve(vector), dense.solve(vector), atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker, CG], ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", ["conv2d, groups", "embedding, tied to a layer", "layer norm"])
def test_solve_undoes_the_product(make, case):
    data, _ = world(case, torch.float64)
    shape = make(GGN(), prior=0.2, tolerance=1e-13) if make is CG else make(GGN(), prior=0.2)
    precision = shape(data, data.network.params)
    vector = unflatten(torch.randn_like(flatten(data.network.params)), data.network.params)
    assert_close(precision.solve(precision @ vector), vector, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker], ids=lambda c: c.__name__)
def test_draws_have_the_right_spread(make):
    data, _ = world("linear", torch.float64)
    precision = make(GGN(), prior=2.0)(data, data.network.params)
    noise = torch.Generator().manual_seed(0)
    draws = torch.stack([flatten(precision.draw(noise)) for _ in range(8000)])
    product = torch.cov(draws.T) @ precision.dense()
    assert_close(product, torch.eye(len(product), dtype=product.dtype), atol=0.2, rtol=0)  # 1/√8000 times the spread


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker], ids=lambda c: c.__name__)
def test_adding_and_taking_away_evidence(make):
    """Curvature of the parts adds to that of the whole, and comes off again."""
    data, _ = world("linear", torch.float64)
    theta = data.network.params
    shape = make(Empirical(), prior=0.1)
    whole, part, rest = (shape(f, theta) for f in (data, data[:4], data[4:]))
    assert_close(rest.plus(part, 1.0).dense(), whole.dense(), atol=1e-10, rtol=0)
    assert_close(whole.plus(part, -1.0).dense(), rest.dense(), atol=1e-10, rtol=0)


def test_sampled_labels_average_to_the_ggn():
    data, x = world("linear", torch.float64)
    found = flatten(Diagonal(Sampled(draws=4000, seed=1))(data, data.network.params).data)
    expected = (reference(data, x, "ggn") ** 2).sum(0)
    assert_close(found, expected, rtol=0.1, atol=0.02 * float(expected.max()))  # 1/√4000 is 0.016


def test_sampled_labels_do_not_depend_on_the_batch():
    data, _ = world("linear", torch.float64)
    other = type(data)(data.network, data.examples, data.weights, 9)
    a, b = (Diagonal(Sampled(seed=2))(d, d.network.params).data for d in (data, other))
    assert_close(a, b, atol=1e-13, rtol=0)


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


def test_frozen_parameters_have_no_curvature():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    model[0].weight.requires_grad_(False)
    network = Network.of(model, Categorical())
    data = factor(network, torch.randn(8, 4, dtype=torch.float64), torch.randint(0, 2, (8,)))
    for shape in (Diagonal(), Kronecker(), Dense(), Isotropic()):
        assert set(shape(data, network.params).solve(network.params)) == {"0.bias", "2.weight", "2.bias"}


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


def test_cg_says_so_when_it_does_not_get_there():
    data, _ = world("conv2d", torch.float64)
    precision = CG(damping=1e-12, tolerance=1e-14, steps=2)(data, data.network.params)
    with pytest.raises(NotConverged, match="raise the damping"):
        precision.solve(data.network.params)


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker], ids=lambda c: c.__name__)
def test_never_below_the_prior(make):
    """Taking away more than there is leaves λ, not negative curvature."""
    data, _ = world("linear", torch.float64)
    theta = data.network.params
    shape = make(Empirical(), prior=0.5)
    left = shape(data[:3], theta).plus(shape(data, theta), -1.0)
    assert float(torch.linalg.eigvalsh(left.dense()).min()) > 0.5 - 1e-9
