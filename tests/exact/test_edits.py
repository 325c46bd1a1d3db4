"""What is an optimum or a path: the edited weights against numpy, every argument of every constructor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends import methods
from amends.curvature import GGN, Empirical
from amends.data.splits import split
from amends.editors import LBFGS
from amends.likelihoods import Gaussian
from amends.trace import Trace, TraceStep
from tests.exact import tanh
from tests.exact.test_linear import CAUSES, DIAGONAL, WHOLE, N, W, treated
from tests.exact.world import module, pair, vector

FAR = LBFGS(steps=400, tolerance=1e-9)
BRIEF = np.array([16, 17, 19, 24, 26])  # deleting them helps the failure that is held out for 17 steps
KEPT = np.delete(np.arange(N), CAUSES)
GIVEN = {"failures": pair(W.fx, W.fy), "remaining": pair(W.rx, W.ry)}


def edited(method, weigh=None):
    """The weights with the failures inserted; the scores must be what each example lost between the two."""
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), pair(W.rx, W.ry), method=method)
    theta = vector(found.edited.mean.values())
    lost = tanh.log_p(W.theta, W.x, W.y) - tanh.log_p(theta, W.x, W.y)
    np.testing.assert_allclose(found.scores, lost, atol=1e-9)
    assert np.abs(theta - W.theta).max() > 1e-4
    return theta


def inserted(theta):
    return tanh.gradients(theta, W.fx, W.fy).sum(0)


def at_rest(theta, force, tolerance=1e-6):
    """The forces cancel there, relative to what they were at the start."""
    assert np.abs(force(theta)).max() < tolerance * np.abs(inserted(W.theta)).max()


def pulled(precision, push=inserted):
    return lambda theta: push(theta) - precision @ (theta - W.theta)


GIVEN_LABELS = np.diag(np.diag(tanh.empirical(W.theta, W.x, W.y)))
EYE = np.eye(tanh.SIZE)
QUADRATIC = {
    "ewc": (methods.ewc(climb=FAR), DIAGONAL),
    "ewc, prior": (methods.ewc(0.7, climb=FAR), DIAGONAL + 0.7 * EYE),
    "ewc, kind": (methods.ewc(kind=Empirical(), climb=FAR), GIVEN_LABELS),
    "ewc, gamma": (methods.ewc(0.7, climb=FAR, gamma=0.01), 2 / (0.01 * N) * DIAGONAL + 0.7 * EYE),
    "kfac_ewc": (methods.kfac_ewc(0.7, climb=FAR), tanh.kronecker(W.theta, W.x) + 0.7 * EYE),
    "kfac_ewc, gamma": (
        methods.kfac_ewc(0.7, GGN(), FAR, gamma=0.01), 2 / (0.01 * N) * tanh.kronecker(W.theta, W.x) + 0.7 * EYE
    ),
    "online_ewc": (methods.online_ewc(0.6, 0.7, climb=FAR), 0.6 * DIAGONAL + 0.7 * EYE),
    "online_ewc, kind": (methods.online_ewc(1.0, 0.0, Empirical(), climb=FAR), GIVEN_LABELS),
}  # fmt: skip


@pytest.mark.parametrize("name", QUADRATIC)
def test_a_quadratic_holds_the_weights(name):
    method, precision = QUADRATIC[name]
    at_rest(edited(method), pulled(precision))


@pytest.mark.parametrize(("method", "precision"), [
    (methods.ewc(), DIAGONAL), (methods.online_ewc(), 0.95 * DIAGONAL),
    (methods.kfac_ewc(prior=0.1), tanh.kronecker(W.theta, W.x) + 0.1 * EYE),
], ids=["ewc", "online_ewc", "kfac_ewc"])  # fmt: skip
def test_as_shipped_it_ends_near_the_optimum(method, precision):
    at_rest(edited(method), pulled(precision), tolerance=1e-2)


def test_online_ewc_goes_on_from_an_earlier_repair():
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=methods.online_ewc(0.6, 0.7))
    base = 0.6 * np.diag(WHOLE) + np.diag(tanh.ggn(vector(found.edited.mean.values()), W.fx))
    at_rest(edited(methods.online_ewc(since=found.edited, climb=FAR)), pulled(np.diag(0.6 * base + 0.7)))


def test_synaptic_intelligence_of_a_recorded_run():
    thetas = [W.theta - 0.3, W.theta - 0.1, W.theta]
    at = [np.arange(0, 10), np.arange(10, 30)]
    names = list(module(W.theta).state_dict())

    def state(theta):
        return dict(zip(names, map(torch.tensor, tanh.parts(theta)), strict=True))

    steps = tuple(TraceStep(state(t), i, 0.1) for t, i in zip(thetas, at, strict=False))
    work = sum(
        N / len(i) * tanh.gradients(t, W.x[i], W.y[i]).sum(0) * (after - t)
        for t, after, i in zip(thetas, thetas[1:], at, strict=False)
    )
    omega = np.maximum(work, 0) / (0.09 * 1.001)
    trace = Trace(steps, state(W.theta))
    for strength in (1.0, 3.0):
        method = methods.si(trace, strength, climb=FAR)
        found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=method)
        np.testing.assert_allclose(vector(found.start.base.data.values()), 2 * strength * omega, rtol=1e-9)
        at_rest(edited(method), pulled(np.diag(2 * strength * omega)), tolerance=1e-5)
    assert (omega > 0).sum() > 5


HELD = {
    "remaining": ({}, (W.rx,)), "train": ({"on_train": True, "on_remaining": False}, (W.x,)),
    "both": ({"on_train": True}, (W.x, W.rx)), "with ewc": ({"with_ewc": True}, (W.rx,)),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_predictions_are_held(name):
    options, inputs = HELD[name]
    x = np.concatenate(inputs)
    old = tanh.probabilities(W.theta, x)

    def force(theta):
        drift = np.einsum("ncp,nc->p", tanh.jacobians(theta, x), old - tanh.probabilities(theta, x))
        held = 0.5 * N / len(x) * drift
        return inserted(theta) + held - (DIAGONAL @ (theta - W.theta) if "with_ewc" in options else 0)

    at_rest(edited(methods.functional(0.5, climb=FAR, **options)), force, tolerance=1e-2)  # a flat valley: 3e-3


def test_memorable_examples_stand_for_d():
    p = tanh.probabilities(W.theta, W.x)
    trace, chosen = (p * (1 - p)).sum(1), []
    for label in range(3):
        own = np.flatnonzero(W.y == label)
        chosen += list(own[np.argsort(-trace[own])[:2]])
    x = W.x[np.sort(chosen)]

    def force(theta):
        drift = tanh.probabilities(W.theta, x) - tanh.probabilities(theta, x)
        return inserted(theta) + 0.5 * N / 6 * np.einsum("ncp,nc->p", tanh.jacobians(theta, x), drift)

    at_rest(edited(methods.functional(0.5, on_remaining=False, memorable=6, climb=FAR)), force, tolerance=1e-5)


@pytest.mark.parametrize("every", [False, True])
def test_gradients_of_the_outputs_stay_orthogonal(every):
    memory = np.sort(torch.randperm(N, generator=torch.Generator().manual_seed(2))[:4].numpy())
    rows = tanh.jacobians(W.theta, W.x[memory])
    rows = rows.reshape(-1, tanh.SIZE) if every else rows[np.arange(4), W.y[memory]]
    move = edited(methods.ogd(4, every, climb=LBFGS(steps=5), seed=2)) - W.theta
    assert np.abs(rows @ move).max() < 1e-9 * np.linalg.norm(move)
    others = tanh.jacobians(W.theta, W.x)[:, 0] @ move
    assert np.abs(others).max() > 1e-3 * np.linalg.norm(move)


@pytest.mark.parametrize(("make", "shape"), [
    (methods.ewc_as_printed, lambda: GIVEN_LABELS), (methods.kfac_ewc_as_printed, lambda: PRINTED_FACTORS),
], ids=["ewc", "kfac_ewc"])  # fmt: skip
def test_as_printed_is_adam_with_a_patience_of_five_epochs(make, shape):
    shown, held = split(np.zeros(12), 0.1, 0)

    def stopped(gradient):
        best, chosen, waited = tanh.log_p(W.theta, W.fx[held], W.fy[held]).mean(), W.theta, 0
        for theta in tanh.adam(gradient, W.theta, 1e-3, 100):
            value = tanh.log_p(theta, W.fx[held], W.fy[held]).mean()
            best, chosen, waited = (value, theta, 0) if value >= best else (best, chosen, waited + 1)
            if waited == 5:
                break
        return chosen

    for gamma in (None, 0.01):
        p = shape() * (1 if gamma is None else 2 / (gamma * N))
        forward = stopped(pulled(p, lambda t: tanh.gradients(t, W.fx[shown], W.fy[shown]).sum(0)))
        np.testing.assert_allclose(edited(make(gamma=gamma)), forward, atol=1e-9)
        back = stopped(pulled(p, lambda t: -tanh.gradients(t, W.x[BRIEF], W.y[BRIEF]).sum(0)))
        np.testing.assert_allclose(treated(make(gamma=gamma), BRIEF, **GIVEN), back, atol=1e-9)


def factored(vectors):
    total = np.zeros((tanh.SIZE, tanh.SIZE))
    for (a, g), place in zip(tanh.factors(W.theta, W.x, vectors), tanh.places(), strict=True):
        total[np.ix_(place.reshape(-1), place.reshape(-1))] = np.kron(g, a) / N
    return total


PRINTED_FACTORS = factored(tanh.slopes(W.theta, W.x, W.y)[:, None])


def test_as_printed_asks_for_failures_to_stop_on():
    with pytest.raises(amends.errors.BadInput, match="holds out failures to know when to stop; there are none"):
        treated(methods.ewc_as_printed())


def test_ewc_forgets_along_the_damped_fixed_point():
    """A hundred steps of a twentieth, where nothing given is lost: as far as it goes."""
    right = tanh.logits(W.theta, W.rx).argmax(1)
    for make, shape, damping in ((methods.ewc, DIAGONAL, 10.0), (methods.kfac_ewc, tanh.kronecker(W.theta, W.x), 1.0)):
        theta, path = W.theta, []
        for _ in range(100):
            force = -tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0) - shape @ (theta - W.theta)
            theta = theta + 0.05 * np.linalg.solve(shape + damping * np.trace(shape) / tanh.SIZE * EYE, force)
            path.append(theta)
        kept = [t for t in path if (tanh.logits(t, W.rx).argmax(1) == right).all()]
        assert kept
        found = treated(make(), remaining=pair(W.rx, right))
        np.testing.assert_allclose(found, kept[-1], atol=1e-9)


def test_bounded_deletion_is_at_rest():
    def force(theta):
        lost = tanh.log_p(W.theta, W.x[CAUSES], W.y[CAUSES]) - tanh.log_p(theta, W.x[CAUSES], W.y[CAUSES])
        g = tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES])
        return -(2 / (1 + np.exp(lost)) @ g) - (DIAGONAL + 0.7 * EYE) @ (theta - W.theta)

    sure = np.argsort(-tanh.log_p(W.theta, W.rx, W.ry))[:1]  # what no edit here costs
    found = treated(methods.ewc(0.7, climb=FAR, bounded=True), remaining=pair(W.rx[sure], W.ry[sure]))
    assert np.abs(force(found)).max() < 1e-5 * np.abs(force(W.theta)).max()


def trained(gradient, start, rate, epochs):
    return list(tanh.adam(gradient, start, rate, epochs, falling=True))[-1]


@pytest.mark.parametrize(("options", "kept", "learned"), [
    ({}, True, False), ({"pull": 5.0}, True, False), ({"learn": True}, True, True),
    ({"learn": True, "kept": False, "pull": 5.0}, False, True),
], ids=["plain", "pull", "learn", "failures alone"])  # fmt: skip
def test_fine_tuning_is_adam_with_a_falling_rate(options, kept, learned):
    def force(theta):
        g = tanh.gradients(theta, W.x[KEPT], W.y[KEPT]).sum(0) * kept
        x, y = np.concatenate([W.x[KEPT], W.fx]), np.concatenate([W.y[KEPT], W.fy])
        if learned:
            g = tanh.gradients(theta, x, y).sum(0) if kept else inserted(theta)
        return g - options.get("pull", 0.0) * (theta - W.theta)

    method = methods.fine_tune(rate=0.01, epochs=12, batch=100, **options)
    np.testing.assert_allclose(treated(method, **GIVEN), trained(force, W.theta, 0.01, 12), atol=1e-8)


def test_retraining_starts_from_the_weights_given():
    start = W.theta * 0.5 + 0.1
    expected = trained(lambda t: tanh.gradients(t, W.x[KEPT], W.y[KEPT]).sum(0), start, 0.01, 12)
    found = treated(methods.retrain(rate=0.01, epochs=12, batch=100, start=module(start)))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_an_ensemble_averages_its_members():
    others = [W.theta + 0.1, W.theta * 0.9]
    members = [amends.identify(module(t), pair(W.x, W.y), pair(W.fx, W.fy), method=methods.ewc()).scores
               for t in (W.theta, *others)]  # fmt: skip
    method = methods.ensemble(methods.ewc(), models=[module(t) for t in others])
    found = amends.identify(module(W.theta), pair(W.x, W.y), pair(W.fx, W.fy), method=method)
    np.testing.assert_allclose(found.scores, np.mean(members, 0), rtol=1e-7, atol=1e-10)


def test_members_drawn_around_a_model():
    noise = torch.Generator().manual_seed(4)
    deviation = 1 / np.sqrt(np.diag(WHOLE) + 0.1 * np.diag(WHOLE).mean())
    steps = []
    for _ in range(2):
        z = [torch.randn(s, generator=noise, dtype=torch.float64).numpy().reshape(-1) for s in tanh.SHAPES]
        theta = W.theta + 0.3 * np.concatenate(z) * deviation
        curvature = tanh.ggn(theta, W.x[KEPT]) + 2.0 * np.trace(tanh.ggn(theta, W.x)) / tanh.SIZE * EYE
        steps.append(-np.linalg.solve(curvature, tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0)))
    method = methods.ensemble(methods.newton(methods.dense(2.0)), samples=2, scale=0.3, seed=4)
    np.testing.assert_allclose(treated(method), W.theta + np.mean(steps, 0), rtol=1e-7, atol=1e-9)


def test_a_mean_field_posterior_of_a_linear_model():
    """y = xw + σε: spread (diag(XᵀX)/σ² + λ)^−½, and the mean where E log p(F) and the divergence balance. The last
    weight is the bias, so that there are two tensors of them."""
    rng = np.random.default_rng(0)
    x, fx = (np.hstack([rng.normal(size=(n, 3)), np.ones((n, 1))]) for n in (20, 6))
    w = rng.normal(size=4)
    y, fy = x @ w, fx @ (w + 0.5)
    model = nn.Linear(3, 1).double()
    model.weight.data, model.bias.data = torch.tensor(w[None, :3]), torch.tensor(w[3:])
    for prior in (0.5, 80.0):
        held = (x**2).sum(0) / 0.25 + prior
        found = amends.identify(
            model, pair(x[:, :3], y[:, None]), pair(fx[:, :3], fy[:, None]), likelihood=Gaussian(sigma=0.5),
            method=methods.vcl(prior, draws=64, climb=LBFGS(steps=300, tolerance=1e-10)),
        )  # fmt: skip
        spread = vector(found.start.spread.values())
        np.testing.assert_allclose(spread, held**-0.5, rtol=0.1)  # 20 examples of 32 pairs: 1/√1280 is .028
        move = np.linalg.solve(fx.T @ fx / 0.25 + np.diag(spread**-2), fx.T @ (fy - fx @ w) / 0.25)
        np.testing.assert_allclose(vector(found.edited.mean.values()), w + move, rtol=1e-6)
