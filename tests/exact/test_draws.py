"""What depends on numbers that are drawn: the same draws, and everything made of them in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends import methods
from tests.exact import tanh
from tests.exact.committee import weights_held
from tests.exact.moves import climbed, climbing
from tests.exact.test_arguments import in_batches
from tests.exact.test_edits import KEPT
from tests.exact.test_linear import CAUSES, GF, WHOLE, N, W, scores, treated
from tests.exact.world import crowd, module, pair, vector


def normals(noise):
    """One standard normal for each weight, tensor after tensor."""
    return np.concatenate([torch.randn(s, generator=noise, dtype=torch.float64).numpy().reshape(-1)
                           for s in tanh.SHAPES])  # fmt: skip


@pytest.mark.parametrize("given", [{}, {"seed": 3}], ids=["shipped", "seed"])
def test_retraining_draws_the_weights_of_every_layer(given):
    """A layer of d inputs draws all of its numbers evenly from ±1/√d, its weights first."""
    torch.manual_seed(given.get("seed", 0))
    drawn = [torch.empty(s, dtype=torch.float64).uniform_(-1, 1).numpy().reshape(-1) for s in tanh.SHAPES]
    start = np.concatenate(drawn) / np.repeat([3**0.5, 2.0], [tanh.ENDS[1], tanh.SIZE - tanh.ENDS[1]])
    gradient = in_batches(W.x[KEPT], W.y[KEPT], 7, given.get("seed", 0))
    expected = list(tanh.adam(gradient, start, 0.01, 12, falling=True))[-1]
    np.testing.assert_allclose(treated(methods.retrain(rate=0.01, epochs=3, batch=7, **given)), expected, atol=1e-8)


def test_as_shipped_training_reads_batches_of_64_at_a_thousandth():
    """Ten passes that go on, and twenty from scratch; nothing pulls, and failures are not learned."""
    w = crowd(150, 24, 60, 1)
    x, y = np.delete(w.x, CAUSES, 0), np.delete(w.y, CAUSES)
    other = W.theta * 0.5 + 0.1
    ways = (w.theta, 10, methods.fine_tune()), (other, 20, methods.retrain(start=module(other)))
    for begin, passes, method in ways:
        expected = list(tanh.adam(in_batches(x, y, 64, 0), begin, 1e-3, 3 * passes, falling=True))[-1]
        found = amends.treat(module(w.theta), pair(w.x, w.y), CAUSES, failures=pair(w.fx, w.fy), method=method)
        np.testing.assert_allclose(vector(found.parameters()), expected, atol=1e-9)


def shapley_by_refits(orders, ridge, tolerance):
    """−mean over orders of what each example adds when it joins those before it: a head fitted anew each time. An
    order ends where so little of what all of D adds is left to add."""
    features, tried = (np.hstack([tanh.hidden(W.theta, x), np.ones((len(x), 1))]) for x in (W.x, W.fx))
    targets, wanted = np.eye(3)[W.y], np.eye(3)[W.fy]

    def value(at):
        a, t = features[at], targets[at]
        return -((tried @ np.linalg.solve(a.T @ a + ridge * np.eye(5), a.T @ t) - wanted) ** 2).sum(1).mean()

    empty, full, total = value([]), value(np.arange(N)), np.zeros(N)
    for order in orders:
        before = empty
        for place, i in enumerate(order):
            if abs(full - before) < tolerance * abs(full - empty):
                break
            after = value(order[: place + 1])
            total[i] -= (after - before) / len(orders)
            before = after
    return total


@pytest.mark.parametrize(("given", "m", "ridge", "tolerance", "seed"), [
    ({}, 20, 1.0, 0.01, 0), ({"permutations": 4, "seed": 5}, 4, 1.0, 0.01, 5),
    ({"permutations": 4, "ridge": 0.2, "tolerance": 0.4}, 4, 0.2, 0.4, 0),
], ids=["shipped", "seed", "tolerance"])  # fmt: skip
def test_the_data_shapley_value_of_drawn_orders(given, m, ridge, tolerance, seed):
    rng = np.random.default_rng([seed, 20221])
    orders = [rng.permutation(N) for _ in range(m)]
    expected = shapley_by_refits(orders, ridge, tolerance)
    if tolerance == 0.4:  # it does end early
        assert np.abs(expected - shapley_by_refits(orders, ridge, 0.0)).max() > 1e-3
    np.testing.assert_allclose(scores(methods.shapley(**given)), expected, rtol=1e-8, atol=1e-12)


LAST = tanh.places()[1].reshape(-1)  # where the numbers of the last layer are: [out, in + 1]


def last_factors(theta, x):
    """(A, G) of the last layer, and how many examples they are of."""
    return (*tanh.factors(theta, x, tanh.roots(theta, x))[1], len(x))


def around(theta, precision, draws, seed):
    """Draws of the last layer: P^−½ times what is drawn, P^−½ symmetric."""
    values, basis = np.linalg.eigh(precision)
    noise = torch.Generator().manual_seed(seed)
    for _ in range(draws):
        z = torch.randn(1, 3, 5, generator=noise, dtype=torch.float64).numpy().reshape(-1)
        moved = theta.copy()
        moved[LAST] += basis @ (values**-0.5 * (basis.T @ z))
        yield moved


@pytest.mark.parametrize(("given", "draws", "seed", "exact"), [
    ({}, 50, 0, True), ({"exact": False, "seed": 2}, 50, 2, False), ({"exact": False, "draws": 7}, 7, 0, False),
], ids=["shipped", "seed", "draws"])  # fmt: skip
def test_draws_of_the_last_layer(given, draws, seed, exact):
    """Around it A ⊗ G / n, raised by the mean of its diagonal. Those of the failures join the sums once it has moved;
    what it was raised by stays."""
    a, g, n = last_factors(W.theta, W.x)
    lift = np.trace(a) * np.trace(g) / n / LAST.size
    before = np.kron(g, a) / n + lift * np.eye(LAST.size)

    def inserting(theta):
        whole = W.theta.copy()
        whole[LAST] = theta
        value, slope = climbing(whole, W.fx, W.fy)
        return value, slope[LAST]

    moved = W.theta.copy()
    moved[LAST] = climbed([inserting, weights_held(W.theta[LAST], before)], W.theta[LAST], 60)
    more = last_factors(moved, W.fx)
    after = np.kron(g + more[1], a + more[0]) / (n + more[2]) + lift * np.eye(LAST.size)
    logs = [np.stack([-tanh.log_p(t, W.x, W.y) for t in around(theta, precision, draws, seed)])
            for theta, precision in ((W.theta, before), (moved, after))]  # fmt: skip
    expected = [np.log(np.exp(log).mean(0)) if exact else log.mean(0) for log in logs]
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=methods.laplace_mc(**given))
    end = vector(found.edited.mean.values())
    np.testing.assert_allclose(end, moved[tanh.ENDS[1] :], rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.scores, expected[1] - expected[0], rtol=0, atol=1e-7)


def members(samples, scale, seed):
    """Draws around the network from a diagonal posterior that is raised by a tenth of its mean."""
    noise = torch.Generator().manual_seed(seed)
    deviation = 1 / np.sqrt(np.diag(WHOLE) + 0.1 * np.diag(WHOLE).mean())
    for _ in range(samples):
        z = [torch.randn(s, generator=noise, dtype=torch.float64).numpy().reshape(-1) for s in tanh.SHAPES]
        yield W.theta + scale * deviation * np.concatenate(z)


@pytest.mark.parametrize(("given", "samples", "scale", "seed"), [
    ({}, 4, 0.1, 0), ({"samples": 2, "scale": 0.3, "seed": 5}, 2, 0.3, 5),
], ids=["shipped", "told"])  # fmt: skip
def test_an_ensemble_of_ewc_where_no_method_is_named(given, samples, scale, seed):
    """Each member climbs on its own, held by the diagonal curvature where it starts; sixty steps magnify rounding."""
    lost = []
    for theta in members(samples, scale, seed):
        held = np.diag(np.diag(tanh.ggn(theta, W.x)))
        end = climbed([lambda t: climbing(t, W.fx, W.fy), weights_held(theta, held)], theta, 60)
        lost.append(tanh.log_p(theta, W.x, W.y) - tanh.log_p(end, W.x, W.y))
    np.testing.assert_allclose(scores(methods.ensemble(**given)), np.mean(lost, 0), rtol=0, atol=1e-7)


def drawn_labels(x):
    """One label each as the network says it, from the same numbers for any set of so many."""
    uniform = torch.rand((1, len(x), 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    return (tanh.probabilities(W.theta, x).cumsum(1) < uniform[0, :, :1]).sum(1)


def product(x, lift, n):
    """v ↦ P v, with the curvature of these as if they were n examples."""
    whole = n / len(x) * tanh.ggn(W.theta, x) + lift * np.eye(tanh.SIZE)
    return lambda v: whole @ v


def steepest(x, lift, n, steps):
    """The largest curvature, after so many steps from the direction of the diagonal, which is that of drawn labels."""
    v, ahead = diagonal_of_drawn_labels(x), product(x, lift, n)
    for _ in range(steps):
        v = ahead(v / np.linalg.norm(v))
    return max(np.linalg.norm(v), lift)


def diagonal_of_drawn_labels(x):
    return (tanh.gradients(W.theta, x, drawn_labels(x)) ** 2).sum(0)


def recursion(x, toward, lift, tolerance, batch, seed):
    """v ← g + v − P v / s on batches; the mean of its later half, once that solves well enough. s is a tenth above the
    largest curvature of all and of four batches."""
    n, noise = len(x), torch.Generator().manual_seed(seed)

    def some():
        return x[torch.randperm(n, generator=noise)[:batch].numpy()] if batch < n else x

    scale = 1.1 * max(steepest(part, lift, n, 5) for part in [x, *(some() for _ in range(4))])
    v, path, seen, left = toward, [], 64, 1.0
    while left > tolerance:
        while len(path) < seen:
            v = toward + v - product(some(), lift, n)(v) / scale
            path.append(v)
        mean = np.mean(path[seen // 2 :], 0) / scale
        left = np.linalg.norm(toward - product(x, lift, n)(mean)) / np.linalg.norm(toward)
        seen *= 2
    return mean


@pytest.mark.parametrize(("given", "batch", "seed"), [
    ({"batch": 10, "seed": 1}, 10, 1), ({"batch": 7}, 7, 0), ({"batch": 7, "tolerance": 0.5}, 7, 0), ({}, 64, 0),
], ids=["batch and seed", "batch", "tolerance", "shipped"])  # fmt: skip
def test_stochastic_approximation_reads_batches_of_the_size_it_is_told(given, batch, seed):
    w = W if "batch" in given else crowd(150, 24, 60, 1)
    x, y = w.x, w.y
    whole = tanh.ggn(W.theta, x)
    lift = 0.5 * np.trace(whole) / tanh.SIZE
    expected = -tanh.gradients(W.theta, x, y) @ recursion(x, GF, lift, given.get("tolerance", 0.05), batch, seed)
    method = methods.linear(methods.sa(0.5, **given))
    found = amends.identify(module(W.theta), pair(x, y), pair(W.fx, W.fy), method=method)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-7)
