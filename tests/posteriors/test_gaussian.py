"""Gaussian posteriors: a Fisher that fades with every edit, and exact scores from draws; in float64."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import amends
from amends import methods
from amends.algorithm.treat import treatment
from amends.curvature import GGN, Dense, Diagonal
from amends.editors import Mode, follow
from amends.editors.climb import LBFGS, Newton
from amends.errors import NotConverged
from amends.methods.ratio import first_order, predictive
from amends.posteriors import Gaussian
from amends.remember import Laplace
from tests.conftest import at_optimum, classification, factor, plain
from tests.exact import linear_gaussian as exact
from tests.posteriors.inserting import influence

SIGMA = 0.5
NEWTON = Mode(climb=Newton(), unlearn=Newton())


def test_online_ewc_keeps_one_fading_fisher():
    """Schwarz et al.: P ← γP + P_new, and the pull of an edit is γP."""
    x, y, network, _ = at_optimum()
    data, extra = factor(network, x[:40], y[:40]), factor(network, x[40:], y[40:], "failures")
    method = methods.online_ewc(decay=0.8)
    q = method.remember(data, None)
    after = follow(Mode(LBFGS(100, tolerance=1e-12))(q, extra))
    fisher = [Diagonal(GGN())(f, network.params).data["weight"] for f in (data, extra)]
    assert_close(after.precision.data["weight"], 0.8 * fisher[0] + fisher[1])
    pull = 0.8 * fisher[0] * (after.mean["weight"] - q.mean["weight"])
    assert_close(extra.value_and_grad(after.mean)[1]["weight"], pull, atol=1e-6, rtol=1e-6)


def test_online_ewc_deletes_what_is_left_of_an_example():
    """After k edits an example of D counts γᵏ times, and so much is taken out."""
    x, y, network, _ = at_optimum()
    data, extra = factor(network, x[:40], y[:40]), factor(network, x[40:], y[40:], "failures")
    remember = methods.online_ewc(decay=0.8).remember
    whole, without = remember(data, None), remember(data[10:], None)
    there = whole.moved(whole.mean, extra).moved(whole.mean, -data[:10])
    direct = without.moved(without.mean, extra).precision.scaled(0.8)
    assert_close(there.precision.dense(), direct.dense())


@pytest.mark.parametrize("earlier", [0, 3])
def test_online_ewc_deletes_to_the_posterior_without(earlier):
    """All of D faded alike is a flatter posterior with the same mean; without C it is that of D∖C."""
    x, y, network, _ = at_optimum(prior=1e-9)
    data = factor(network, x, y)
    q = Laplace(Dense(GGN(), prior=1e-9), decay=0.8)(data)
    for _ in range(earlier):
        q = q.moved(q.mean, data[:0])
    after = treatment(q, NEWTON, data[:20])
    mean, precision = exact.posterior(x[20:], y[20:], SIGMA, 1e-9)
    assert_close(after.mean["weight"][0], mean, rtol=1e-8, atol=1e-9)
    assert_close(after.precision.dense(), 0.8 ** (earlier + 1) * precision, rtol=1e-7, atol=1e-7)


def test_online_ewc_forgets_what_it_inserted_by_its_age():
    x, y, network, _ = at_optimum()
    data, extra = factor(network, x[:40], y[:40]), factor(network, x[40:], y[40:], "failures")
    q = methods.online_ewc(decay=0.8).remember(data, None)
    there = q.moved(q.mean, extra).moved(q.mean, data[:0]).moved(q.mean, -extra)
    assert_close(there.precision.dense(), q.precision.scaled(0.8**3).dense())


def test_without_decay_online_ewc_is_ewc():
    x, y, network = classification()
    data, extra = factor(network, x[:50], y[:50]), factor(network, x[50:], y[50:], "failures")
    both = (methods.ewc(), methods.online_ewc(decay=1.0))
    scores = [influence(m.remember(data, None), m.editor, data, extra)[0] for m in both]
    assert_close(scores[0], scores[1], rtol=0, atol=0)


def test_draws_find_the_exact_score_of_every_example():
    """r(z) of a linear-Gaussian model in closed form, for each z; 3,000 draws leave errors of about .02."""
    x, y, network, _ = at_optimum(n=60)
    train = factor(network, x[:50], y[:50], batch=64)
    failures = factor(network, x[50:], y[50:], "failures")
    curvature = Dense(GGN(), prior=0.7)
    mean, _ = exact.posterior(x[:50], y[:50], SIGMA, 0.7)
    q = Gaussian({"weight": mean[None]}, curvature(train, network.params), curvature, 50, draws=3000, seed=1)
    q_f = follow(NEWTON(q, failures))
    scores = predictive(q, q_f, train)
    plain = first_order(q, q_f, train)
    for i in range(50):
        sides = [
            exact.log_mean_inverse_likelihood(
                x[i : i + 1], y[i : i + 1], p.mean["weight"][0], p.precision.dense(), SIGMA
            )
            for p in (q, q_f)
        ]
        assert float(scores[i]) == pytest.approx(float(sides[1] - sides[0]), abs=0.06)
    assert float(torch.corrcoef(torch.stack([scores, plain]))[0, 1]) > 0.99


def test_too_wide_a_posterior_is_refused():
    x, y, network = classification()
    method = methods.laplace_mc(Diagonal(GGN(), prior=1e-9), draws=200, last_layer=False)
    with pytest.raises(NotConverged, match="draws carry the average of 1/p"):
        amends.identify(plain(network), (x[:3], y[:3]), (x[50:], y[50:]), method=method)
