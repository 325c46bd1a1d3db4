"""Where an edit ends: on failures it is not shown, or within a guard; and deletions that are paths of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends import methods
from amends.data.splits import split
from amends.editors import LBFGS, Adam, Ascent, FixedPoint
from amends.likelihoods import Gaussian
from tests.exact import tanh
from tests.exact.test_edits import edited, pulled
from tests.exact.test_linear import CAUSES, DIAGONAL, N, W, treated
from tests.exact.world import pair, vector

RIGHT = tanh.logits(W.theta, W.rx).argmax(1)
KRONECKER = tanh.kronecker(W.theta, W.x)


def best(path, held, patience=20):
    """The point under which the failures that are held out are most likely; so many worse ones end the search."""
    top, chosen, waited = tanh.log_p(W.theta, W.fx[held], W.fy[held]).mean(), W.theta, 0
    for theta in path:
        value = tanh.log_p(theta, W.fx[held], W.fy[held]).mean()
        top, chosen, waited = (value, theta, 0) if value >= top else (top, chosen, waited + 1)
        if waited == patience:
            break
    return chosen


def free(memory):
    """Takes out of a vector what lies along the gradients of the outputs on a few examples of D."""
    rows = tanh.jacobians(W.theta, W.x[memory])[np.arange(len(memory)), W.y[memory]]
    basis = np.linalg.qr(rows.T)[0]
    return lambda v: v - basis @ (basis.T @ v)


def remembered(n, seed=0):
    return np.sort(torch.randperm(N, generator=torch.Generator().manual_seed(seed))[:n].numpy())


STEP = 0.2
HELD = {
    "ewc": (methods.ewc, lambda push: pulled(0.05 * DIAGONAL, push)),
    "kfac_ewc": (methods.kfac_ewc, lambda push: pulled(0.05 * KRONECKER, push)),
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("hold", [0.0, 0.25, 0.5])
def test_a_share_of_the_failures_says_where_an_insertion_ends(name, hold):
    make, force = HELD[name]
    shown, held = split(np.zeros(12), hold, 0)
    assert len(held) == 12 * hold
    path = list(tanh.adam(force(lambda t: tanh.gradients(t, W.fx[shown], W.fy[shown]).sum(0)), W.theta, STEP, 40))
    expected = best(path, held) if hold else path[-1]
    assert hold == 0 or not np.allclose(expected, path[-1])
    method = make(climb=Adam(rate=STEP, epochs=40, batch=64, every=1), hold=hold, gamma=2 / (0.05 * N))
    np.testing.assert_allclose(edited(method), expected, atol=1e-8)


@pytest.mark.parametrize(("given", "hold"), [({}, 0.2), ({"hold": 0.35}, 0.35), ({"hold": 0.0}, 0.0)])
def test_ogd_ends_on_a_share_of_the_failures(given, hold):
    shown, held = split(np.zeros(12), hold, 0)
    across = free(remembered(6))
    path = list(tanh.adam(lambda t: across(tanh.gradients(t, W.fx[shown], W.fy[shown]).sum(0)), W.theta, STEP, 40))
    expected = best(path, held) if hold else path[-1]
    assert hold == 0 or not np.allclose(expected, path[-1])
    method = methods.ogd(6, climb=Adam(rate=STEP, epochs=40, batch=64, every=1), **given)
    np.testing.assert_allclose(edited(method), expected, atol=1e-8)


def ascent(force, value, steps, stride):
    """Steps of one length, halved until they go up."""
    theta, length = W.theta, stride * np.linalg.norm(W.theta)
    for _ in range(steps):
        g = force(theta)
        while value(theta + length * g / np.linalg.norm(g)) <= value(theta):
            length /= 2
        theta = theta + length * g / np.linalg.norm(g)
        yield theta


@pytest.mark.parametrize("own", [False, True])
def test_ogd_forgets_across_the_gradients_that_are_kept(own):
    """A hundred steps of a five hundredth of the weights, or as told; examples that go are no longer held."""
    memory = remembered(8)
    assert np.isin(memory, CAUSES).any()
    across = free(memory[~np.isin(memory, CAUSES)])

    def force(theta):
        return across(-tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0))

    if own:
        path = list(tanh.adam(force, W.theta, 0.02, 30))
        method = methods.ogd(8, unlearn=Adam(rate=0.02, epochs=30, batch=64, every=1))
    else:
        path = list(ascent(force, lambda t: -tanh.log_p(t, W.x[CAUSES], W.y[CAUSES]).sum(), 100, 0.002))
        method = methods.ogd(8)
    kept = [t for t in path if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
    assert kept
    np.testing.assert_allclose(treated(method, remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-8)


def forgotten(theta):
    return -tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0)


def damped(rate, steps=6):
    theta, shape = W.theta, DIAGONAL + np.trace(DIAGONAL) / tanh.SIZE * np.eye(tanh.SIZE)
    for _ in range(steps):
        theta = theta + rate * np.linalg.solve(shape, pulled(DIAGONAL, forgotten)(theta))
        yield theta


def worth(theta):
    away = theta - W.theta
    return -tanh.log_p(theta, W.x[CAUSES], W.y[CAUSES]).sum() - 0.005 * away @ DIAGONAL @ away


LONG = {  # steps, and their path where they are so much shorter
    "ascent": (methods.ewc(unlearn=Ascent(steps=6, stride=0.9), gamma=2 / (0.01 * N)),
               lambda k: ascent(pulled(0.01 * DIAGONAL, forgotten), worth, 6, 0.9 * k)),
    "fixed point": (methods.ewc(unlearn=FixedPoint(steps=6, rate=9.0, damping=1.0)), lambda k: damped(9.0 * k)),
    "adam": (methods.ewc(unlearn=Adam(rate=0.9, epochs=6, batch=64, every=2)),
             lambda k: list(tanh.adam(pulled(DIAGONAL, forgotten), W.theta, 0.9 * k, 6))[k == 1 :: 2 if k == 1 else 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_steps_that_cost_too_much_become_an_eighth_as_long(name):
    method, path = LONG[name]
    for k in (1, 1 / 8, 1 / 64):
        kept = [t for t in path(k) if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
        if kept:
            break
    assert k < 1
    np.testing.assert_allclose(treated(method, remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-8)


def regression():
    """y = xw + σε with three weights, the last of them the bias; the causes are five examples far off the line."""
    rng = np.random.default_rng(1)
    x, w = np.hstack([rng.normal(size=(40, 2)), np.ones((40, 1))]), rng.normal(size=3)
    y = x @ w + 0.5 * rng.normal(size=40)
    y[:5] += 2.0
    model = nn.Linear(2, 1).double()
    model.weight.data, model.bias.data = torch.tensor(w[None, :2]), torch.tensor(w[2:])
    return model, x, y, w


@pytest.mark.parametrize("shipped", [False, True])
def test_variational_unlearning_of_a_linear_model(shipped):
    """Over the mean E −log p(C|w̃) − KL is quadratic: its optimum, and Adam on it in units of the spread."""
    model, x, y, w = regression()
    given = {"train": pair(x[:, :2], y[:, None]), "likelihood": Gaussian(sigma=0.5)}
    spread = vector(
        amends.identify(model, failures=pair(x[:3, :2], y[:3, None]), method=methods.vcl(200.0, 64), **given)
        .start.spread.values()
    )  # fmt: skip
    cx, left = x[:5], y[:5] - x[:5] @ w

    def force(nu):
        return -spread * (cx.T @ (left - cx @ (spread * nu))) / 0.25 - nu

    if shipped:
        unlearn, nu = None, list(tanh.adam(force, np.zeros(3), 0.003, 100))[-1]
        expected = w + spread * nu
    else:
        unlearn = LBFGS(steps=300, tolerance=1e-10)
        expected = w - np.linalg.solve(np.diag(spread**-2) - cx.T @ cx / 0.25, cx.T @ left / 0.25)
    found = amends.treat(model, causes=np.arange(5), method=methods.vcl(200.0, 64, unlearn=unlearn), **given)
    np.testing.assert_allclose(vector(found.parameters()), expected, rtol=1e-6)
    assert np.abs(expected - w).max() > 0.01
