"""Arguments that say how a method goes about it: labels of the curvature, ends of a solver, seeds, bounds, runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends import methods
from amends.curvature import GGN, Diagonal, Empirical
from amends.data.splits import split
from amends.editors import Adam
from amends.errors import NotConverged
from amends.trace import Trace, TraceStep
from tests.exact import tanh
from tests.exact.test_edits import EYE, GIVEN_LABELS, KEPT, PRINTED_FACTORS, pulled
from tests.exact.test_linear import CAUSES, DIAGONAL, GF, WHOLE, N, W, influence, scores, treated
from tests.exact.world import module, pair, vector

RIGHT = tanh.logits(W.theta, W.rx).argmax(1)
LABELS = tanh.empirical(W.theta, W.x, W.y)


def along_factors(vectors, rows):
    """The directions of A ⊗ G, with the square of the gradients along each."""
    total = np.zeros((tanh.SIZE, tanh.SIZE))
    for (a, g), place in zip(tanh.factors(W.theta, W.x, vectors), tanh.places(), strict=True):
        at = place.reshape(-1)
        basis = np.kron(np.linalg.eigh(g)[1], np.linalg.eigh(a)[1])
        total[np.ix_(at, at)] = basis @ np.diag(((rows[:, at] @ basis) ** 2).sum(0)) @ basis.T
    return total


SLOPES = tanh.slopes(W.theta, W.x, W.y)[:, None]
SHAPES = {
    "diagonal": (methods.diagonal, GIVEN_LABELS), "kronecker": (methods.kronecker, PRINTED_FACTORS),
    "ekfac": (methods.ekfac, along_factors(SLOPES, tanh.gradients(W.theta, W.x, W.y))),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_curvature_of_the_given_labels(name):
    make, curvature = SHAPES[name]
    expected = influence(curvature, 0.3 * np.trace(curvature) / tanh.SIZE)
    np.testing.assert_allclose(scores(methods.linear(make(0.3, kind=Empirical()))), expected, rtol=1e-6, atol=1e-9)


def test_stochastic_approximation_with_the_given_labels():
    expected = influence(LABELS, 0.5 * np.trace(LABELS) / tanh.SIZE)
    found = scores(methods.linear(methods.sa(0.5, tolerance=0.05, batch=10, seed=1, kind=Empirical())))
    other = influence(WHOLE, 0.5 * np.trace(WHOLE) / tanh.SIZE)
    assert np.abs(found - expected).max() < 0.15 * np.abs(expected).max() < np.abs(other - expected).max()


def test_gradient_descent_ends_at_its_tolerance():
    precision = WHOLE + 0.3 * np.trace(WHOLE) / tanh.SIZE * EYE
    for tolerance in (0.3, 0.03):
        method = methods.linear(methods.gd(0.3, tolerance=tolerance))
        found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=method)
        left = GF - precision @ (vector(found.edited.mean.values()) - W.theta)
        assert 0.8 * tolerance < np.linalg.norm(left) / np.linalg.norm(GF) <= tolerance


@pytest.mark.parametrize("solver", [methods.cg(0.3, steps=3), methods.sa(0.3, steps=3)], ids=["cg", "sa"])
def test_a_solver_that_may_take_few_steps_says_so(solver):
    with pytest.raises(NotConverged, match="in 3 steps"):
        scores(methods.linear(solver))


def batches(n, size, seed):
    """What Adam reads: every example once a pass, in the order of the seed; weights that make it stand for all."""
    noise = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(n, generator=noise).numpy()
        for s in range(0, n, size):
            yield order[s : s + size], n / len(order[s : s + size])


def in_batches(x, y, size, seed):
    """A gradient that reads the next batch every time it is asked."""
    read = batches(len(x), size, seed)

    def gradient(theta):
        at, weight = next(read)
        return weight * tanh.gradients(theta, x[at], y[at]).sum(0)

    return gradient


@pytest.mark.parametrize(("given", "seed"), [({}, 0), ({"seed": 3}, 3)], ids=["shipped", "seed"])
@pytest.mark.parametrize(("make", "precision"), [
    (methods.ewc_as_printed, GIVEN_LABELS), (methods.kfac_ewc_as_printed, PRINTED_FACTORS),
], ids=["ewc", "kfac_ewc"])  # fmt: skip
def test_batches_of_what_is_printed_come_in_the_order_of_the_seed(make, precision, given, seed):
    x, y = np.tile(W.fx, (7, 1)) + 0.01 * np.arange(84)[:, None], np.tile(W.fy, 7)
    shown, held = split(np.zeros(84), 0.1, 0)
    steps = tanh.adam(pulled(precision, in_batches(x[shown], y[shown], 64, seed)), W.theta, 1e-3, 200)
    best, expected, waited = tanh.log_p(W.theta, x[held], y[held]).mean(), W.theta, 0
    for theta in list(steps)[1::2]:
        value = tanh.log_p(theta, x[held], y[held]).mean()
        best, expected, waited = (value, theta, 0) if value >= best else (best, expected, waited + 1)
        if waited == 5:
            break
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(x, y), method=make(**given))
    np.testing.assert_allclose(vector(found.edited.mean.values()), expected, atol=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", ["fine_tune", "retrain"])
def test_training_reads_in_the_order_of_the_seed(name, seed):
    start = {"start": module(W.theta)} if name == "retrain" else {}
    method = getattr(methods, name)(rate=0.01, epochs=3, batch=7, seed=seed, **start)
    gradient = in_batches(W.x[KEPT], W.y[KEPT], 7, seed)
    expected = list(tanh.adam(gradient, W.theta, 0.01, 12, falling=True))[-1]
    np.testing.assert_allclose(treated(method), expected, atol=1e-8)


def held(theta, strength=0.5):
    """How predictions on right examples pull back."""
    drift = tanh.probabilities(W.theta, W.rx) - tanh.probabilities(theta, W.rx)
    return strength * N / len(W.rx) * np.einsum("ncp,nc->p", tanh.jacobians(theta, W.rx), drift)


def test_predictions_are_held_while_a_path_of_its_own_forgets():
    def force(theta):
        return held(theta) - tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0)

    path = tanh.adam(force, W.theta, 0.02, 30)
    kept = [t for t in path if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
    method = methods.functional(0.5, unlearn=Adam(rate=0.02, epochs=30, batch=64, every=1))
    np.testing.assert_allclose(treated(method, remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-8)


def run():
    """A recorded run of two steps that ends at the network."""
    names = list(module(W.theta).state_dict())

    def state(theta):
        return dict(zip(names, map(torch.tensor, tanh.parts(theta)), strict=True))

    thetas, at, rates = [W.theta - 0.3, W.theta - 0.1], [np.arange(10), np.arange(10, N)], [0.1, 0.3]
    steps = tuple(TraceStep(state(t), i, rate) for t, i, rate in zip(thetas, at, rates, strict=True))
    return Trace(steps, state(W.theta)), thetas, at, rates


def importance():
    _, thetas, at, _ = run()
    ends = [*thetas[1:], W.theta]
    work = sum(N / len(i) * tanh.gradients(t, W.x[i], W.y[i]).sum(0) * (e - t)
               for t, e, i in zip(thetas, ends, at, strict=True))  # fmt: skip
    return 2 * np.diag(np.maximum(work, 0) / (0.09 * 1.001))


SHORT = Adam(rate=0.02, epochs=6, batch=64, every=1)
BOUNDED = {
    "kfac_ewc": (methods.kfac_ewc(0.7, climb=SHORT, bounded=True), tanh.kronecker(W.theta, W.x) + 0.7 * EYE),
    "online_ewc": (methods.online_ewc(0.6, 0.7, climb=SHORT, bounded=True), 0.6 * DIAGONAL + 0.7 * EYE),
    "si": (methods.si(run()[0], 5.0, climb=SHORT, bounded=True), 5.0 * importance()),
    "functional": (methods.functional(5.0, climb=SHORT, bounded=True), None),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_a_bounded_deletion_pushes_less_the_more_is_lost(name):
    method, precision = BOUNDED[name]

    def force(theta):
        lost = tanh.log_p(W.theta, W.x[CAUSES], W.y[CAUSES]) - tanh.log_p(theta, W.x[CAUSES], W.y[CAUSES])
        push = -2 / (1 + np.exp(lost)) @ tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES])
        push = 0.6 * push if name == "online_ewc" else push  # what is deleted has faded as all of D has
        return push + (held(theta, 5.0) if precision is None else -precision @ (theta - W.theta))

    kept = [t for t in tanh.adam(force, W.theta, 0.02, 6) if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
    np.testing.assert_allclose(treated(method, remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-8)


QUADRATIC = {  # a quadratic with a path of its own for what is deleted, or the one it comes with; and how it fades
    "kfac_ewc": (lambda **own: methods.kfac_ewc(0.7, **own), tanh.kronecker(W.theta, W.x) + 0.7 * EYE, 1.0),
    "online_ewc": (lambda **own: methods.online_ewc(0.6, 0.7, **own), 0.6 * DIAGONAL + 0.7 * EYE, 0.6),
    "si": (lambda **own: methods.si(run()[0], 5.0, **own), 5.0 * importance(), 1.0),
}  # fmt: skip


def pushed_away(precision, faded):
    return lambda theta: -faded * tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0) - precision @ (theta - W.theta)


@pytest.mark.parametrize("name", QUADRATIC)
def test_a_quadratic_forgets_along_the_path_it_is_told(name):
    make, precision, faded = QUADRATIC[name]
    path = tanh.adam(pushed_away(precision, faded), W.theta, 0.03, 9)
    kept = [t for t in path if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
    found = treated(make(unlearn=Adam(rate=0.03, epochs=9, batch=64, every=1)), remaining=pair(W.rx, RIGHT))
    np.testing.assert_allclose(found, kept[-1], atol=1e-8)


@pytest.mark.parametrize("name", ["online_ewc", "si"])
def test_as_shipped_it_forgets_along_the_damped_fixed_point(name):
    """A hundred steps of a twentieth, each raised by ten times the mean of the diagonal that the data has."""
    make, precision, faded = QUADRATIC[name]
    data = precision - 0.7 * EYE if name == "online_ewc" else precision
    raised, force = precision + 10 * np.trace(data) / tanh.SIZE * EYE, pushed_away(precision, faded)
    theta, kept = W.theta, []
    for _ in range(100):
        theta = theta + 0.05 * np.linalg.solve(raised, force(theta))
        kept += [theta] if (tanh.logits(theta, W.rx).argmax(1) == RIGHT).all() else []
    np.testing.assert_allclose(treated(make(), remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-8)


def test_a_laplace_posterior_moves_as_it_is_told():
    curvature = Diagonal(GGN(), prior=40.0)
    method = methods.laplace_mc(curvature, draws=2, exact=False, last_layer=False, climb=SHORT)
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=method)
    expected = list(tanh.adam(pulled(DIAGONAL + 40.0 * EYE), W.theta, 0.02, 6))[-1]
    np.testing.assert_allclose(vector(found.edited.mean.values()), expected, atol=1e-9)


def test_a_recorded_run_is_gone_through_backwards():
    trace, thetas, at, rates = run()
    u, expected = GF, np.zeros(N)
    for i, here, rate in zip(at[::-1], thetas[::-1], rates[::-1], strict=True):
        expected[i] -= rate / len(i) * tanh.gradients(here, W.x[i], W.y[i]) @ u
        up, down = (tanh.gradients(here + s * u, W.x[i], W.y[i]).sum(0) for s in (1e-5, -1e-5))
        u = u + rate / len(i) * (up - down) / 2e-5
    np.testing.assert_allclose(scores(methods.sgd_influence(trace)), expected, rtol=1e-5, atol=1e-8)
