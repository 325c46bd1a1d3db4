"""Every climber on every problem with a known top."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.curvature import GGN, Dense, Isotropic
from amends.editors.climb import LBFGS, Adam, Ascent, FixedPoint, Newton
from amends.errors import NonFinite
from amends.evidence.params import flatten
from amends.posteriors import Gaussian, Quadratic
from tests.conftest import classification, factor, regression
from tests.exact import linear_gaussian, logistic


def quadratic():
    """A Gaussian times linear-Gaussian evidence."""
    x, y, network = regression()
    prior = Quadratic(network.params, Isotropic(0.7)(None, network.params))
    top, _ = linear_gaussian.posterior(x, y, 0.5, 0.7)
    return [prior, factor(network, x, y)], network.params, top


def softmax():
    """Penalised softmax regression."""
    x, y, network = classification()
    start = {k: torch.zeros_like(v) for k, v in network.params.items()}
    top = logistic.optimum(x, y, 3, 1.0)
    prior = Quadratic(start, Isotropic(1.0)(None, start))
    return [prior, factor(network, x, y)], start, torch.cat([top[:, :-1].reshape(-1), top[:, -1]])


CLIMBERS = {
    "newton": (Newton(), 1e-11),
    "l-bfgs": (LBFGS(200, tolerance=1e-10), 1e-6),
    "ascent": (Ascent(400, stride=0.3), 1e-3),
    "adam, full batches": (Adam(rate=0.05, epochs=1500, batch=100, decay=True), 1e-3),
}


@pytest.mark.parametrize("problem", [quadratic, softmax], ids=lambda p: p.__name__)
@pytest.mark.parametrize("name", CLIMBERS)
def test_reaches_the_top(name, problem):
    climb, tolerance = CLIMBERS[name]
    terms, start, top = problem()
    before = {k: v.clone() for k, v in start.items()}
    path = list(climb(terms, start))
    assert_close(flatten(path[-1]), top, atol=tolerance, rtol=0)
    assert all(torch.equal(start[k], before[k]) for k in start)


def test_fixed_point_finds_the_top_where_the_prior_is_strong():
    x, y, network = classification()
    data = factor(network, x, y)
    curvature = Dense(GGN(), prior=100.0)
    q = Gaussian(network.params, curvature(data, network.params), curvature, 60)
    terms = q.times(factor(network, x[:5], (y[:5] + 1) % 3, "failures"))
    *_, fixed = FixedPoint(60)(terms, q.mean)
    *_, newton = Newton()(terms, q.mean)
    assert_close(fixed, newton, atol=1e-10, rtol=0)


def test_each_ends_on_its_tolerance():
    terms, start, _ = softmax()
    assert len(list(Newton(30, tolerance=1e-3)(terms, start))) < len(list(Newton(30)(terms, start))) < 30
    assert len(list(LBFGS(200, tolerance=1e-2)(terms, start))) < len(list(LBFGS(200, tolerance=1e-8)(terms, start)))
    short = list(Adam(0.05, epochs=500, batch=100, every=1, tolerance=1e-2)(terms, start))
    assert len(short) < 500


def test_adam_yields_inside_an_epoch_and_repeats_itself():
    terms, start, _ = softmax()
    climb = Adam(0.01, epochs=2, batch=10, every=4)  # 60 examples: 6 steps an epoch, 12 in all
    a, b = list(climb(terms, start)), list(climb(terms, start))
    assert len(a) == 3
    assert all(torch.equal(p["weight"], q["weight"]) for p, q in zip(a, b, strict=True))
    other = list(Adam(0.01, epochs=2, batch=10, every=4, seed=1)(terms, start))
    assert not torch.equal(a[-1]["weight"], other[-1]["weight"])


def test_batches_stand_for_the_whole():
    """The mean over an epoch of the scaled batch gradients is the full gradient."""
    from amends.editors.climb import _batches

    x, y, network = classification()
    data = factor(network, x, y)
    stream = _batches(data, 15, torch.Generator().manual_seed(0))
    grads = torch.stack([flatten(next(stream).value_and_grad(network.params)[1]) for _ in range(4)])
    assert_close(grads.mean(0), flatten(data.value_and_grad(network.params)[1]))


class Cliff:
    """Not finite beyond one."""

    def value_and_grad(self, theta):
        x = theta["x"]
        value = torch.log(1 - x).sum() + 3 * x.sum()
        return float(value), {"x": (3 - 1 / (1 - x)) if float(x) < 1 else torch.full_like(x, torch.nan)}

    def hessian(self, theta):
        return torch.diag(-1 / (1 - theta["x"]) ** 2)


def test_a_line_search_turns_back_from_what_is_not_finite():
    *_, end = LBFGS(50, tolerance=1e-10)([Cliff()], {"x": torch.tensor([-5.0], dtype=torch.float64)})
    assert_close(end["x"], torch.tensor([2 / 3], dtype=torch.float64), atol=1e-6, rtol=0)


def test_what_is_not_finite_at_the_start_stops_the_run():
    with pytest.raises(NonFinite, match="not finite at the start"):
        list(LBFGS()([Cliff()], {"x": torch.tensor([2.0], dtype=torch.float64)}))
    with pytest.raises(NonFinite, match="step"):
        list(Adam(every=1)([Cliff()], {"x": torch.tensor([2.0], dtype=torch.float64)}))


def test_the_first_step_of_lbfgs_is_for_a_loss_of_order_one():
    """Of −1,000 − ‖θ − a‖²/200 it looks first one gradient ahead, in units of the value and one more."""
    a, seen = torch.tensor([3.0, -1.0], dtype=torch.float64), []

    class Far:
        def value_and_grad(self, theta):
            seen.append(theta["w"].clone())
            left = theta["w"] - a
            return -1000 - float(left @ left) / 200, {"w": -left / 100}

    start = {"w": torch.zeros(2, dtype=torch.float64)}
    next(LBFGS(steps=1)([Far()], start))
    value, gradient = 1000 + 10 / 200, a / 100
    assert_close(seen[1], gradient / (value + 1), rtol=1e-9, atol=0)


@pytest.mark.parametrize("away", [0.1, 1.0, 100.0])
def test_lbfgs_climbs_from_any_height(away):
    """−½ (x − 1)² from values of −.005, −.5 and −5,000."""

    class Hill:
        def value_and_grad(self, theta):
            return float(-0.5 * (theta["x"] - 1).square().sum()), {"x": 1 - theta["x"]}

    *_, end = LBFGS(20)([Hill()], {"x": torch.tensor([1.0 + away], dtype=torch.float64)})
    assert float(end["x"]) == pytest.approx(1.0, abs=1e-3 * away)


@pytest.mark.parametrize(("decay", "rising"), [(False, 0.0), (True, 0.0), (True, 0.2), (False, 0.5)])
def test_adam_takes_the_steps_of_torch(decay, rising):
    """Full batches, so that there is nothing random: after each of 40 steps the weights are those of torch's Adam, but
    for how the last bits of a sum are rounded."""
    terms, start, _ = softmax()
    leaves = [v.clone().requires_grad_() for v in start.values()]
    theirs = torch.optim.Adam(leaves, lr=0.05)
    for i, ours in enumerate(Adam(0.05, epochs=40, batch=100, every=1, decay=decay, rising=rising)(terms, start)):
        gradient = [t.value_and_grad({k: v.detach() for k, v in zip(start, leaves, strict=True)})[1] for t in terms]
        for k, leaf in zip(start, leaves, strict=True):
            leaf.grad = -sum(g[k] for g in gradient)
        risen = (i + 1) / (40 * rising) if i + 1 < 40 * rising else 1.0
        theirs.param_groups[0]["lr"] = 0.05 * risen * (1 - i / 40 if decay else 1.0)
        theirs.step()
        assert_close(list(ours.values()), [v.detach() for v in leaves], atol=1e-13, rtol=0)
    assert i == 39
