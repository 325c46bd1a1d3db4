"""What is a formula: linear influence, Newton removal and the scorers, every argument against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import amends
from amends import methods
from amends.curvature import GGN, Diagonal, Empirical
from tests.exact import tanh
from tests.exact.world import module, pair, vector, world

W = world()
G, GF = tanh.gradients(W.theta, W.x, W.y), tanh.gradients(W.theta, W.fx, W.fy).sum(0)
WHOLE, DIAGONAL = tanh.ggn(W.theta, W.x), np.diag(np.diag(tanh.ggn(W.theta, W.x)))
N, CAUSES = len(W.x), np.array([2, 3, 11, 17, 25])


def scores(method, **options):
    found = amends.identify(
        module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), pair(W.rx, W.ry), method=method, **options
    )
    return found.scores


def treated(method, causes=CAUSES, **given):
    return vector(amends.treat(module(W.theta), pair(W.x, W.y), causes, method=method, **given).parameters())


def influence(curvature, lift, grads=None):
    return -(G if grads is None else grads) @ np.linalg.solve(curvature + lift * np.eye(tanh.SIZE), GF)


def from_data(curvature, nats=10.0):
    return max((G.sum(0) ** 2).sum() / (2 * nats), 1e-3 * np.trace(curvature) / tanh.SIZE)


SHAPES = {
    "dense": (methods.dense, WHOLE, 10.0), "cg": (lambda *a, **k: methods.cg(*a, tolerance=1e-11, **k), WHOLE, 10.0),
    "gd": (lambda *a, **k: methods.gd(*a, tolerance=1e-3, steps=20_000, **k), WHOLE, 10.0),
    "kronecker": (methods.kronecker, tanh.kronecker(W.theta, W.x), 50.0),
    "ekfac": (methods.ekfac, tanh.ekfac(W.theta, W.x), 50.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_linear_influence_with_each_solver(name):
    make, curvature, nats = SHAPES[name]
    mean = np.trace(curvature) / tanh.SIZE
    near = {"rtol": 0, "atol": 0.02} if name == "gd" else {"rtol": 1e-6, "atol": 1e-9}
    np.testing.assert_allclose(scores(methods.linear(make())), influence(curvature, from_data(curvature, nats)), **near)
    np.testing.assert_allclose(scores(methods.linear(make(0.3))), influence(curvature, 0.3 * mean), **near)
    given = tanh.empirical(W.theta, W.x, W.y)
    if name in ("dense", "cg", "gd"):
        expected = influence(given, 0.3 * np.trace(given) / tanh.SIZE)
        np.testing.assert_allclose(scores(methods.linear(make(0.3, kind=Empirical()))), expected, **near)
    expected = 0.02 * N * influence(curvature, 0.3 * mean)
    np.testing.assert_allclose(scores(methods.linear(make(0.3), gamma=0.02)), expected, **near)


def test_stochastic_approximation_is_as_near_as_it_says():
    expected = influence(WHOLE, 0.5 * np.trace(WHOLE) / tanh.SIZE)
    found = scores(methods.linear(methods.sa(0.5, tolerance=0.05, batch=10, seed=1)))
    assert np.abs(found - expected).max() < 0.15 * np.abs(expected).max()


def test_linear_and_newton_use_conjugate_gradients_damped_from_the_data():
    lift = from_data(WHOLE)
    np.testing.assert_allclose(
        scores(methods.linear()), influence(WHOLE, lift), rtol=0, atol=0.01
    )  # a residual of .001
    kept = np.delete(np.arange(N), CAUSES)
    left = tanh.ggn(W.theta, W.x[kept]) + lift * np.eye(tanh.SIZE)
    step = -np.linalg.solve(left, G[CAUSES].sum(0))
    assert np.linalg.norm(treated(methods.newton()) - W.theta - step) < 1e-2 * np.linalg.norm(step)


def test_the_diagonal_and_the_kernels():
    mean = np.trace(WHOLE) / tanh.SIZE
    np.testing.assert_allclose(scores(methods.linear(methods.diagonal())), influence(DIAGONAL, 0.1 * mean), rtol=1e-9)
    np.testing.assert_allclose(
        scores(methods.linear(methods.diagonal(2.0))), influence(DIAGONAL, 2.0 * mean), rtol=1e-9
    )
    np.testing.assert_allclose(scores(methods.grad_dot()), -G @ GF, rtol=1e-9)
    fisher = np.diag(np.diag(tanh.empirical(W.theta, W.x, W.y))) / N
    for damping, method in ((0.1, methods.fisher_kernel()), (0.7, methods.fisher_kernel(0.7))):
        expected = influence(fisher, damping * np.trace(fisher) / tanh.SIZE)
        np.testing.assert_allclose(scores(method), expected, rtol=1e-9)


def test_weighted_multiplies_by_the_loss():
    expected = -G @ GF * -tanh.log_p(W.theta, W.x, W.y)
    np.testing.assert_allclose(scores(methods.weighted(methods.grad_dot())), expected, rtol=1e-9)


@pytest.mark.parametrize("gamma", [None, 0.05])
def test_newton_removal_has_the_curvature_of_what_is_kept(gamma):
    kept = np.delete(np.arange(N), CAUSES)
    lift = 0.2 * np.trace(WHOLE) / tanh.SIZE
    left = tanh.ggn(W.theta, W.x[kept]) + lift * np.eye(tanh.SIZE)
    step = -np.linalg.solve(left, G[CAUSES].sum(0)) * (1 if gamma is None else gamma * len(kept))
    np.testing.assert_allclose(treated(methods.newton(methods.dense(0.2), gamma)), W.theta + step, rtol=1e-9)
    if gamma is None:
        searched = treated(methods.newton(methods.dense(0.2), line_search=True), remaining=pair(W.rx, W.ry))
        size = (searched - W.theta) @ step / (step @ step)
        np.testing.assert_allclose(searched, W.theta + size * step, rtol=1e-9)
        assert float(np.log2(size).round(9)) in range(-4, 6)


def test_influence_for_its_size():
    inverse = np.linalg.inv(WHOLE + 0.3 * np.trace(WHOLE) / tanh.SIZE * np.eye(tanh.SIZE))
    up = -G @ inverse @ GF
    for parameters, size in ((False, np.einsum("np,pq,nq->n", G, inverse, G)), (True, ((G @ inverse) ** 2).sum(1))):
        found = scores(methods.relatif(methods.dense(0.3), parameters=parameters))
        np.testing.assert_allclose(found, up / np.sqrt(size), rtol=1e-7)


def test_another_label():
    inverse = np.linalg.inv(WHOLE + 0.3 * np.trace(WHOLE) / tanh.SIZE * np.eye(tanh.SIZE))
    change = tanh.jacobians(W.theta, W.x) @ (inverse @ GF)
    p = tanh.probabilities(W.theta, W.x)
    given = np.eye(3)[W.y]
    others = p * (1 - given) / (p * (1 - given)).sum(1, keepdims=True)
    np.testing.assert_allclose(
        scores(methods.sufficiency(methods.dense(0.3))), ((others - given) * change).sum(1), rtol=1e-7
    )


def test_the_solver_of_relatif_and_sufficiency_when_none_is_given():
    for make in (methods.relatif, methods.sufficiency):
        np.testing.assert_allclose(scores(make()), scores(make(methods.kronecker(10.0))), rtol=1e-12)


def test_checkpoints_and_their_rates():
    thetas = [W.theta, W.theta + 0.1]
    expected = [-tanh.gradients(t, W.x, W.y) @ tanh.gradients(t, W.fx, W.fy).sum(0) for t in thetas]
    states = [module(t).state_dict() for t in thetas]
    np.testing.assert_allclose(scores(methods.tracin(states)), sum(expected), rtol=1e-9)
    found = scores(methods.tracin(states, rates=[0.5, 2.0]))
    np.testing.assert_allclose(found, 0.5 * expected[0] + 2.0 * expected[1], rtol=1e-9)
    np.testing.assert_allclose(scores(methods.tracin()), expected[0], rtol=1e-9)


@pytest.mark.parametrize("corrected", [True, False])
def test_a_replayed_run(corrected):
    """Batches of 7 of 30 in two passes at a rate of .1, gone through backwards; the Hessian as a difference."""
    batches = amends.trace.batches(N, 7, 5)
    steps, theta = [next(batches) for _ in range(10)], W.theta
    path = []
    for at in steps:
        path.append(theta)
        theta = theta + 0.1 / len(at) * tanh.gradients(theta, W.x[at], W.y[at]).sum(0)
    u, expected = tanh.gradients(theta, W.fx, W.fy).sum(0), np.zeros(N)
    for at, here in zip(steps[::-1], path[::-1], strict=True):
        expected[at] -= 0.1 / len(at) * tanh.gradients(here, W.x[at], W.y[at]) @ u
        up, down = (tanh.gradients(here + s * u, W.x[at], W.y[at]).sum(0) for s in (1e-5, -1e-5))
        u = u + 0.1 / len(at) / (1 if corrected else len(at)) * (up - down) / 2e-5
    found = scores(methods.sgd_influence(corrected=corrected, epochs=2, batch=7, rate=0.1, seed=5))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_the_data_shapley_value_by_all_orders_is_that_of_subsets():
    """Five examples, 120 orders: φ from every subset, of a ridge head on the hidden layer."""
    from itertools import combinations
    from math import comb

    features, tried = (np.hstack([tanh.hidden(W.theta, x), np.ones((len(x), 1))]) for x in (W.x[:5], W.fx))
    targets, wanted = np.eye(3)[W.y[:5]], np.eye(3)[W.fy]

    def value(subset):
        a, t = features[list(subset)], targets[list(subset)]
        head = np.linalg.solve(a.T @ a + 0.5 * np.eye(5), a.T @ t)
        return -((tried @ head - wanted) ** 2).sum(1).mean()

    expected = np.zeros(5)
    for i in range(5):
        rest = [j for j in range(5) if j != i]
        for size in range(5):
            for s in combinations(rest, size):
                expected[i] -= (value((*s, i)) - value(s)) / (5 * comb(4, size))
    method = methods.shapley(permutations=120, ridge=0.5, tolerance=0.0)
    found = amends.identify(module(W.theta), pair(W.x[:5], W.y[:5]), pair(W.fx, W.fy), method=method)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-8)


@pytest.mark.parametrize("given", [(2,), (9,), ()])
def test_a_vote_of_neighbours_by_every_subset(given):
    """Six examples: φ of V(S) = the share of the label among the nearest of S, from every subset; k above n too."""
    from itertools import combinations
    from math import comb

    (neighbours,) = given or (10,)
    features, tried = tanh.hidden(W.theta, W.x[:6]), tanh.hidden(W.theta, W.fx)
    expected = np.zeros(6)
    for one, label in zip(tried, W.fy, strict=True):
        distance = ((features - one) ** 2).sum(1)

        def value(subset, distance=distance, label=label):
            nearest = sorted(subset, key=lambda j: distance[j])[:neighbours]
            return sum(W.y[j] == label for j in nearest) / neighbours

        for i in range(6):
            rest = [j for j in range(6) if j != i]
            for size in range(6):
                for s in combinations(rest, size):
                    expected[i] -= (value((*s, i)) - value(s)) / (6 * comb(5, size)) / len(tried)
    method = methods.knn_shapley(*given)
    found = amends.identify(module(W.theta), pair(W.x[:6], W.y[:6]), pair(W.fx, W.fy), method=method)
    np.testing.assert_allclose(found.scores, expected, atol=1e-12)


def test_what_does_not_look_at_the_failures():
    p = tanh.probabilities(W.theta, W.x)[np.arange(N), W.y]
    np.testing.assert_allclose(scores(methods.loss()), -np.log(p), rtol=1e-9)
    np.testing.assert_allclose(scores(methods.self_confidence()), 1 - p, rtol=1e-9)
    given = np.linspace(0, 1, N)
    np.testing.assert_allclose(scores(methods.self_confidence(given)), 1 - given)
    np.testing.assert_array_equal(scores(methods.scores(given)), given)
    np.testing.assert_array_equal(scores(methods.oracle(given > 0.5)), given > 0.5)
    for seed in (0, 4):
        np.testing.assert_array_equal(scores(methods.random(seed)), np.random.default_rng([seed, 20221]).random(N))


def test_draws_of_a_laplace_posterior():
    """The first order and the predictive form, with the noise of the seed shared by both posteriors."""
    import torch

    curvature = Diagonal(GGN(), prior=40.0)
    method = methods.laplace_mc(curvature, draws=6, exact=False, last_layer=False, seed=3)
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=method)
    moved = vector(found.edited.mean.values())
    logs = []
    for mean, extra in ((W.theta, 0.0), (moved, np.diag(tanh.ggn(moved, W.fx)))):
        noise, precision = torch.Generator().manual_seed(3), np.diag(WHOLE) + 40.0 + extra
        draws = [np.concatenate([torch.randn(s, generator=noise, dtype=torch.float64).numpy().reshape(-1)
                                 for s in tanh.SHAPES]) for _ in range(6)]  # fmt: skip
        logs.append(np.stack([tanh.log_p(mean + d / np.sqrt(precision), W.x, W.y) for d in draws]))
    np.testing.assert_allclose(found.scores, logs[0].mean(0) - logs[1].mean(0), rtol=1e-7, atol=1e-9)
    exact = scores(methods.laplace_mc(curvature, draws=6, last_layer=False, seed=3))
    inverse = [np.log(np.exp(-log).mean(0)) for log in logs]
    np.testing.assert_allclose(exact, inverse[1] - inverse[0], rtol=1e-7, atol=1e-9)
