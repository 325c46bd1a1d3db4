"""RelatIF against a loop over examples, in float64."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.curvature import CG, EKFAC, GGN, Damped, Dense, Diagonal, Empirical, Isotropic, Kronecker, general_grads
from amends.errors import BadInput
from amends.evidence import flatten, unflatten
from amends.methods.library.relatif import RelatIF
from tests.conftest import factor, regression
from tests.methods.worlds import gradient, world


def by_loops(train, failures, form, solve):
    """One example after the other, with P⁻¹ as a function of a flat vector."""
    network, rows = train.network, []
    fx, fy = failures.examples.fetch(0, len(failures))
    gain = gradient(network, fx, fy)
    for i in range(len(train)):
        g = gradient(network, *train.examples.fetch(i, i + 1))
        size = g @ solve(g) if form == "loss" else solve(g) @ solve(g)
        rows.append(-(gain @ solve(g)) / size.sqrt())
    return torch.stack(rows)


@pytest.mark.parametrize("form", ["loss", "parameters"])
@pytest.mark.parametrize("shape", [Diagonal, Kronecker, Dense])
def test_relatif_is_influence_over_its_size(form, shape):
    train, failures, network = world()
    curvature = shape(GGN(), prior=0.3)
    matrix = curvature(train, network.params).dense()
    expected = by_loops(train, failures, form, lambda v: torch.linalg.solve(matrix, v))
    assert_close(RelatIF(curvature, form)(train, failures), expected, atol=1e-11, rtol=1e-9)


FORMED = Kronecker(GGN()), EKFAC(GGN()), Damped(EKFAC()), Diagonal(Empirical()), Dense(GGN()), Isotropic(2.0)


@pytest.mark.parametrize("curvature", FORMED)
def test_relatif_solves_as_the_precision_does(curvature):
    """Also where λ is 0 and silent directions are damped: the solve over a batch is that of each."""
    train, failures, network = world()
    precision = curvature(train, network.params)

    def solve(v):
        return flatten(precision.solve(unflatten(v, network.params)))

    assert_close(RelatIF(curvature)(train, failures), by_loops(train, failures, "loss", solve), atol=1e-10, rtol=1e-8)


def test_relatif_is_a_cosine():
    """ℓ-RelatIF of z on itself is −√(∇zᵀP⁻¹∇z), and nothing else goes beyond."""
    train, _, network = world()
    curvature = Dense(GGN(), prior=0.3)
    g = gradient(network, *train.examples.fetch(3, 4))
    longest = float((g @ torch.linalg.solve(curvature(train, network.params).dense(), g)).sqrt())
    scores = RelatIF(curvature)(train, train[3:4])
    assert float(scores[3]) == pytest.approx(-longest, rel=1e-10)
    assert float(scores.abs().max()) == pytest.approx(longest, rel=1e-10)


def test_relatif_of_a_zero_gradient_is_zero():
    x, _, network = regression()
    y = torch.ones(len(x), 1, dtype=x.dtype)
    y[[4, 9]] = 0  # the network's weights are zero: a perfect fit
    for form in ("loss", "parameters"):
        scores = RelatIF(Kronecker(GGN()), form)(factor(network, x, y), factor(network, x[:3], y[:3], "failures"))
        assert scores.isfinite().all()
        assert (scores == 0).nonzero()[:, 0].tolist() == [4, 9]


def test_relatif_keeps_small_gradients_in_float32():
    """A gradient of 1e-25 has a square that float32 cannot hold; the score does not depend on it."""
    x, _, network = regression(dtype=torch.float32)
    y = torch.ones(len(x), 1)
    failures = factor(network, x[:3], y[:3], "failures")
    small, usual = (RelatIF(Isotropic())(factor(network, x, c * y), failures) for c in (1e-25, 1.0))
    assert_close(small, usual, atol=0, rtol=1e-5)


@pytest.mark.parametrize("shape", [Kronecker, Dense])
def test_relatif_in_pieces_is_the_same(shape, monkeypatch):
    """31 parameters, 130 numbers: two gradients and their solutions, and dense solves one by one."""
    train, failures, _ = world()
    whole = RelatIF(shape(GGN(), prior=0.1))(train, failures)
    rows, at_once = [], []

    def grads(network, theta, x, vector, names):
        rows.append(len(vector))
        return general_grads(network, theta, x, vector, names)

    def mapped(f, chunk_size):
        at_once.append(chunk_size)
        return torch.func.vmap(f, chunk_size=chunk_size)

    monkeypatch.setattr("amends.methods.library.relatif.HELD", 130)
    monkeypatch.setattr("amends.methods.library.relatif.general_grads", grads)
    monkeypatch.setattr("amends.methods.library.relatif.vmap", mapped)
    assert_close(RelatIF(shape(GGN(), prior=0.1))(train, failures), whole, atol=1e-12, rtol=1e-12)
    assert set(rows) == {2}
    assert set(at_once) == {1 if shape is Dense else None}


def test_relatif_refuses_what_it_cannot_do():
    train, failures, _ = world()
    with pytest.raises(BadInput, match="too often for a matrix-free solver; use diagonal"):
        RelatIF(CG())(train, failures)
    with pytest.raises(BadInput, match="form is 'theta'; RelatIF"):
        RelatIF(Kronecker(GGN()), "theta")  # type: ignore[arg-type]
