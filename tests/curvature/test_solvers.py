"""Solving without the matrix: the dense solution, or NotConverged; never garbage."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.testing import assert_close

from amends import identify, methods, treat
from amends.curvature import CG, GD, GGN, Dense, Empirical, LiSSA, solvers
from amends.curvature.solvers import largest
from amends.errors import NotConverged
from amends.evidence.network import Network
from amends.evidence.params import flatten, unflatten
from amends.likelihoods import Gaussian
from tests.conftest import classification, factor
from tests.curvature.worlds import world

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
    solution = flatten(make(kind=kind, prior=20.0)(data, theta).solve(g))
    assert (solution - expected).norm() <= tolerance * expected.norm()


def test_conjugate_gradients_take_no_more_steps_than_there_are_directions():
    """True without rounding. With it, and eigenvalues from 1 to 10¹², the plain recursion is nowhere near by then."""
    n = 40
    g = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(n, n, generator=g, dtype=torch.float64))[0]
    x = (turn * torch.logspace(0, 6, n, dtype=torch.float64)) @ turn.T
    network = Network.of(nn.Linear(n, 1, bias=False, dtype=torch.float64), Gaussian(1.0))
    vector = {"weight": torch.randn(1, n, generator=g, dtype=torch.float64)}
    precision = CG(prior=1e-6, steps=n)(factor(network, x, torch.zeros(n, 1, dtype=torch.float64)), network.params)
    residual = flatten(vector) - flatten(precision @ precision.solve(vector))
    assert residual.norm() <= 1e-3 * flatten(vector).norm()


@pytest.fixture(scope="module")
def memorised():
    """A network that has learned random labels by heart, its data, and failures."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(130, 20, generator=g, dtype=torch.float64), torch.randint(0, 4, (130,), generator=g)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 24), nn.Tanh(), nn.Linear(24, 4)).double()
    adam = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(200):
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x[10:]), y[10:])
        loss.backward()
        adam.step()
    assert loss < 0.02
    return model, (x[10:], y[10:]), (x[:10], y[:10])


def test_linear_influence_and_newton_do_not_depend_on_the_compute_batch(memorised):
    model, train, failures = memorised
    method = methods.linear(methods.cg(damping=0.01))
    small, large = (identify(model, train, failures, method=method, batch_size=b).scores for b in (7, 200))
    assert_allclose(small, large, rtol=0, atol=1e-9 * abs(large).max())
    small, large = (
        treat(model, train, [1, 5, 9], method=methods.newton(), batch_size=b).state_dict() for b in (7, 200)
    )
    for name in small:
        assert_close(small[name], large[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_lissa_s_own_residual_bounds_its_error(seed):
    """‖v − P⁻¹g‖ ≤ ‖residual‖/λ_min: what is returned was measured, whatever the draws."""
    data, theta, g = problem(seed)
    precision = LiSSA(prior=20.0, tolerance=0.05, batch=8, seed=seed)(data, theta)
    solution = precision.solve(g)
    residual = flatten(g) - flatten(precision @ solution)
    assert residual.norm() <= 0.05 * flatten(g).norm()


@pytest.mark.parametrize("name", SOLVERS)
def test_too_few_steps_raise(name):
    data, theta, g = problem()
    make, _ = SOLVERS[name]
    with pytest.raises(NotConverged, match=r"did not converge in 2 steps: .*; raise the damping"):
        make(prior=1e-3, steps=2)(data, theta).solve(g)


def test_lissa_recovers_from_too_low_a_scale(monkeypatch):
    """At a tenth of the largest curvature the recursion explodes; it is seen, and the scale doubled."""
    data, theta, g = problem()
    exploded = []
    run = LiSSA._recursion

    def watched(self, *args):
        solution, left = run(self, *args)
        exploded.append(left == float("inf"))
        return solution, left

    monkeypatch.setattr(solvers, "largest", lambda precision, steps=12: 0.1 * largest(precision, steps))
    monkeypatch.setattr(LiSSA, "_recursion", watched)
    precision = LiSSA(prior=20.0, batch=16, tolerance=0.05)(data, theta)
    residual = flatten(g) - flatten(precision @ precision.solve(g))
    assert residual.norm() <= 0.05 * flatten(g).norm()
    assert exploded[0]
    assert not exploded[-1]


def test_lissa_gives_up_after_six_scales(monkeypatch):
    """32 times a millionth of the largest curvature is still too low."""
    data, theta, g = problem()
    tried, run = [], LiSSA._recursion

    def watched(self, precision, vector, scale, noise):
        tried.append(scale)
        return run(self, precision, vector, scale, noise)

    monkeypatch.setattr(solvers, "largest", lambda precision, steps=12: 1e-6 * largest(precision, steps))
    monkeypatch.setattr(LiSSA, "_recursion", watched)
    with pytest.raises(NotConverged):
        LiSSA(prior=20.0, batch=16)(data, theta).solve(g)
    assert [scale / tried[0] for scale in tried] == [1, 2, 4, 8, 16, 32]


def test_gradient_descent_recovers_from_too_low_an_estimate(monkeypatch):
    data, theta, g = problem()
    expected = flatten(Dense(GGN(), prior=20.0)(data, theta).solve(g))
    monkeypatch.setattr(solvers, "largest", lambda precision, steps=12: 0.1 * largest(precision, steps))
    solution = flatten(GD(prior=20.0, tolerance=1e-6)(data, theta).solve(g))
    assert (solution - expected).norm() <= 1e-5 * expected.norm()


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


def test_cg_says_so_when_it_does_not_get_there():
    data, _ = world("conv2d", torch.float64)
    precision = CG(damping=1e-12, tolerance=1e-14, steps=2)(data, data.network.params)
    with pytest.raises(NotConverged, match="raise the damping"):
        precision.solve(data.network.params)
