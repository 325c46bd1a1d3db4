"""What holds for a precision of every form: products, solutions, draws, sums and damping."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import CG, EKFAC, GGN, Damped, Dense, Diagonal, Empirical, Isotropic, Kronecker
from amends.evidence.network import Network
from amends.evidence.params import flatten, unflatten
from amends.likelihoods import Categorical
from tests.conftest import classification, factor
from tests.curvature.worlds import world


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


def test_a_matrix_that_is_never_formed_adds_up_too():
    data, _ = world("linear", torch.float64)
    theta, never, dense = data.network.params, CG(GGN(), prior=0.5), Dense(GGN(), prior=0.5)
    whole = never(data, theta)
    assert_close(whole.scaled(3.0).dense(), dense(3.0 * data, theta).dense())
    assert_close(whole.plus(never(data[:4], theta), -1.0).dense(), dense(data[4:], theta).dense())


@pytest.mark.parametrize("shape", [Diagonal, Kronecker, EKFAC, Dense])
def test_damping_everywhere(shape):
    data, _ = world("conv2d", torch.float64)
    theta = data.network.params
    plain, damped = shape(GGN())(data, theta), Damped(shape(GGN()), 0.1)(data, theta)
    mean = float(plain.dense().diagonal().mean())
    assert_close(damped.dense() - plain.dense(), 0.1 * mean * torch.eye(len(flatten(theta)), dtype=torch.float64))
    assert damped.plus(damped, -1.0).prior == damped.prior


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker, CG], ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", ["conv2d, groups", "embedding, tied to a layer", "layer norm"])
def test_solve_undoes_the_product(make, case):
    data, _ = world(case, torch.float64)
    shape = make(GGN(), prior=0.2, tolerance=1e-13) if make is CG else make(GGN(), prior=0.2)
    precision = shape(data, data.network.params)
    vector = unflatten(torch.randn_like(flatten(data.network.params)), data.network.params)
    assert_close(precision.solve(precision @ vector), vector, atol=1e-9, rtol=1e-9)


FORMS = {"diagonal": Diagonal(GGN(), 2.0), "dense": Dense(GGN(), 2.0), "kronecker": Kronecker(GGN(), 2.0),
         "isotropic": Isotropic(2.5)}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_draws_have_the_right_spread(form):
    data, _ = world("linear", torch.float64)
    precision = FORMS[form](data, data.network.params)
    noise = torch.Generator().manual_seed(0)
    draws = torch.stack([flatten(precision.draw(noise)) for _ in range(8000)])
    product = torch.cov(draws.T) @ precision.dense()
    assert_close(product, torch.eye(len(product), dtype=product.dtype), atol=0.2, rtol=0)  # 1/√8000 times the spread


@pytest.mark.parametrize("shape", [Diagonal, Kronecker, EKFAC, Dense])
def test_noise_is_the_same_before_and_after_a_small_edit(shape):
    """Whatever signs and order the eigenvectors come in."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y, _ = classification()
    network = Network.of(net, Categorical())
    parts = [shape(GGN(), prior=1.0)(factor(network, x[:n], y[:n]), network.params) for n in (50, 52)]
    a, b = (flatten(p.draw(torch.Generator().manual_seed(3))) for p in parts)
    assert float(a @ b / (a.norm() * b.norm())) > 0.99


@pytest.mark.parametrize("shape", [Kronecker, EKFAC, Dense])
def test_draws_have_the_covariance_they_should(shape):
    x, y, network = classification()
    precision = shape(GGN(), prior=2.0)(factor(network, x, y), network.params)
    noise = torch.Generator().manual_seed(0)
    draws = torch.stack([flatten(precision.draw(noise)) for _ in range(8000)])
    assert_close(torch.cov(draws.T) @ precision.dense(), torch.eye(12, dtype=torch.float64), atol=0.15, rtol=0)


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker], ids=lambda c: c.__name__)
def test_adding_and_taking_away_evidence(make):
    """Curvature of the parts adds to that of the whole, and comes off again."""
    data, _ = world("linear", torch.float64)
    theta = data.network.params
    shape = make(Empirical(), prior=0.1)
    whole, part, rest = (shape(f, theta) for f in (data, data[:4], data[4:]))
    assert_close(rest.plus(part, 1.0).dense(), whole.dense(), atol=1e-10, rtol=0)
    assert_close(whole.plus(part, -1.0).dense(), rest.dense(), atol=1e-10, rtol=0)


def test_frozen_parameters_have_no_curvature():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    model[0].weight.requires_grad_(False)
    network = Network.of(model, Categorical())
    data = factor(network, torch.randn(8, 4, dtype=torch.float64), torch.randint(0, 2, (8,)))
    for shape in (Diagonal(), Kronecker(), Dense(), Isotropic()):
        assert set(shape(data, network.params).solve(network.params)) == {"0.bias", "2.weight", "2.bias"}


@pytest.mark.parametrize("make", [Diagonal, Dense, Kronecker], ids=lambda c: c.__name__)
def test_never_below_the_prior(make):
    """Taking away more than there is leaves λ, not negative curvature."""
    data, _ = world("linear", torch.float64)
    theta = data.network.params
    shape = make(Empirical(), prior=0.5)
    left = shape(data[:3], theta).plus(shape(data, theta), -1.0)
    assert float(torch.linalg.eigvalsh(left.dense()).min()) > 0.5 - 1e-9
