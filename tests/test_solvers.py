"""Solving without the matrix: the dense solution, or NotConverged; never garbage."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.curvature import CG, GD, GGN, Dense, Empirical, LiSSA
from amends.errors import NotConverged
from amends.params import flatten, unflatten
from tests.conftest import classification, factor

SOLVERS = {
    "cg": (lambda **k: CG(tolerance=1e-8, **k), 1e-6),
    "gd": (lambda **k: GD(tolerance=1e-6, **k), 1e-5),
    "lissa": (lambda **k: LiSSA(tolerance=0.02, batch=16, **k), 0.1),
}


def problem(seed=0):
    x, y, network = classification(seed=seed, n=80)
    data, theta = factor(network, x, y, batch=256), network.params
    g = torch.randn(len(flatten(theta)), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return data, theta, unflatten(g, theta)


@pytest.mark.parametrize("kind", [GGN(), Empirical()], ids=["ggn", "empirical"])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_dense_solution(name, kind):
    make, tolerance = SOLVERS[name]
    data, theta, g = problem()
    expected = flatten(Dense(kind, prior=20.0)(data, theta).solve(g))
    found = flatten(make(kind=kind, prior=20.0)(data, theta).solve(g))
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("seed", range(5))
def test_lissa_s_own_residual_bounds_its_error(seed):
    """‖v − P⁻¹g‖ ≤ ‖residual‖/λ_min: what is returned was measured, whatever the draws."""
    data, theta, g = problem(seed)
    precision = LiSSA(prior=20.0, tolerance=0.05, batch=8, seed=seed)(data, theta)
    found = precision.solve(g)
    residual = flatten(g) - flatten(precision @ found)
    assert residual.norm() <= 0.05 * flatten(g).norm()


@pytest.mark.parametrize("name", SOLVERS)
def test_too_few_steps_raise(name):
    data, theta, g = problem()
    make, _ = SOLVERS[name]
    with pytest.raises(NotConverged, match="after 2 steps; raise the damping"):
        make(prior=1e-3, steps=2)(data, theta).solve(g)


def test_lissa_finds_a_scale_its_first_batches_did_not_show():
    """One example a thousand times steeper than the rest: rare in a batch, fatal where it is."""
    x, y, network = classification(n=80)
    x = torch.cat([x, 30 * x[:1]])
    y = torch.cat([y, y[:1]])
    data, theta = factor(network, x, y, batch=256), network.params
    g = unflatten(torch.ones(len(flatten(theta)), dtype=torch.float64), theta)
    precision = LiSSA(prior=5.0, batch=4, tolerance=0.3, steps=2000)(data, theta)
    try:
        found = precision.solve(g)
    except NotConverged:
        return
    residual = flatten(g) - flatten(precision @ found)
    assert residual.norm() <= 0.3 * flatten(g).norm()


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_solves_to_nothing(name):
    data, theta, g = problem()
    nothing = {k: torch.zeros_like(v) for k, v in g.items()}
    assert_close(SOLVERS[name][0](prior=20.0)(data, theta).solve(nothing), nothing)


@pytest.mark.parametrize("name", SOLVERS)
def test_deleted_curvature_is_gone(name):
    """After a repair, the same solver serves the precision without C."""
    make, tolerance = SOLVERS[name]
    data, theta, g = problem()
    curvature = make(prior=20.0)
    left = curvature(data, theta).plus(curvature(data[:20], theta), -1.0)
    expected = flatten(Dense(GGN(), prior=20.0)(data[20:], theta).solve(g))
    assert (flatten(left.solve(g)) - expected).norm() <= 2 * tolerance * expected.norm()
