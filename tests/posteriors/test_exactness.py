"""The mathematics against closed forms, in float64, with exact solvers."""

from __future__ import annotations

import numpy as np
import torch
from torch.testing import assert_close

from amends.algorithm.treat import treatment
from amends.curvature import CG, GGN, Dense, Diagonal, Empirical
from amends.editors import Mode, Step, Tangent, follow
from amends.editors.climb import FixedPoint, Newton
from amends.evidence.factor import Factor
from amends.evidence.params import flatten, unflatten
from amends.methods.ratio import log_density_ratio
from amends.posteriors import Gaussian
from amends.remember import Laplace
from tests.conftest import classification, factor, regression
from tests.exact import linear_gaussian as exact
from tests.exact import logistic
from tests.posteriors.inserting import influence

SIGMA, PRIOR = 0.5, 0.7
NEWTON = Mode(climb=Newton(), unlearn=Newton())


def fitted(x, y, network) -> Gaussian:
    """q(θ) = p(θ|D), laid out as amends does, with the mean at the closed form."""
    mean, _ = exact.posterior(x, y, SIGMA, PRIOR)
    theta = {"weight": mean[None]}
    curvature = Dense(GGN(), prior=PRIOR)
    return Gaussian(theta, curvature(factor(network, x, y), theta), curvature, len(x))


def test_inserting_equals_having_trained_with():
    """q · p(F) is p(θ | D, F) itself when nothing is approximated."""
    x, y, network = regression()
    q = follow(NEWTON(fitted(x[:50], y[:50], network), factor(network, x[50:], y[50:], "failures")))
    mean, precision = exact.posterior(x, y, SIGMA, PRIOR)
    assert_close(q.mean["weight"][0], mean, atol=1e-12, rtol=0)
    assert_close(q.precision.dense(), precision, atol=1e-10, rtol=1e-12)


def test_deleting_equals_never_having_trained_with():
    """Eq. approx_data_deletion: q / p(C) is p(θ | D∖C) itself when nothing is approximated."""
    x, y, network = regression()
    q = treatment(fitted(x, y, network), NEWTON, factor(network, x, y)[50:])
    mean, precision = exact.posterior(x[:50], y[:50], SIGMA, PRIOR)
    assert_close(q.mean["weight"][0], mean, atol=1e-12, rtol=0)
    assert_close(q.precision.dense(), precision, atol=1e-10, rtol=1e-12)


def test_a_repair_after_a_repair_is_the_posterior_of_both():
    """Deleting twice equals deleting together: the precision follows the evidence."""
    x, y, network = regression()
    data = factor(network, x, y)
    once = treatment(fitted(x, y, network), NEWTON, data[40:])
    twice = treatment(treatment(fitted(x, y, network), NEWTON, data[40:50]), NEWTON, data[50:])
    assert_close(twice.mean, once.mean, atol=1e-11, rtol=0)
    assert_close(twice.precision.dense(), once.precision.dense(), atol=1e-9, rtol=1e-11)


def test_the_predictive_form_is_the_log_density_ratio():
    """Eq. predictive_log_density_ratio, in closed form at our two posteriors."""
    x, y, network = regression(n=70)
    q = fitted(x[:60], y[:60], network)
    q_f = follow(NEWTON(q, factor(network, x[60:], y[60:], "failures")))
    cx, cy = x[:4], y[:4]
    inverse = [
        exact.log_mean_inverse_likelihood(cx, cy, p.mean["weight"][0], p.precision.dense(), SIGMA) for p in (q, q_f)
    ]
    with_c = exact.posterior(x[:60], y[:60], SIGMA, PRIOR)
    without = exact.posterior(x[4:60], y[4:60], SIGMA, PRIOR)
    direct = exact.log_predictive(x[60:], y[60:], *without, SIGMA) - exact.log_predictive(
        x[60:], y[60:], *with_c, SIGMA
    )
    assert_close(inverse[1] - inverse[0], direct, atol=1e-10, rtol=0)


def test_monte_carlo_finds_the_log_density_ratio():
    """The same by draws from q and q₊F, within four of its own standard errors."""
    x, y, network = regression(n=70)
    q = fitted(x[:60], y[:60], network)
    q_f = follow(NEWTON(q, factor(network, x[60:], y[60:], "failures")))
    causes = factor(network, x[:60], y[:60])[:4]
    ratio = log_density_ratio(q.sampled(4000, seed=1), q_f.sampled(4000, seed=1), causes)
    with_c = exact.posterior(x[:60], y[:60], SIGMA, PRIOR)
    without = exact.posterior(x[4:60], y[4:60], SIGMA, PRIOR)
    direct = exact.log_predictive(x[60:], y[60:], *without, SIGMA) - exact.log_predictive(
        x[60:], y[60:], *with_c, SIGMA
    )
    assert ratio.error < 0.05
    assert abs(ratio.value - float(direct)) < 4 * ratio.error
    # First order is an approximation: the right sign and size here, not the value.
    assert abs(ratio.first_order - float(direct)) < max(0.5 * abs(float(direct)), 0.1)


def trained_logistic(ridge=1.0, n=50):
    x, y, network = classification(n=n)
    w = logistic.optimum(x, y, 3, ridge)
    theta = {"weight": w[:, :-1].clone(), "bias": w[:, -1].clone()}
    g = torch.Generator().manual_seed(9)
    fx, fy = torch.randn(6, 3, generator=g, dtype=x.dtype), torch.randint(0, 3, (6,), generator=g)
    return x, y, fx, fy, network, theta, w


def by_hand(grad):
    """A gradient laid out [classes, features + 1] in the order of θ: weight, then bias."""
    rows = grad.reshape(-1, 3, 4)
    return torch.cat([rows[..., :-1].reshape(len(rows), -1), rows[..., -1]], 1)


def test_tangent_is_the_linear_influence_function():
    """Eq. predictive_point_estimates: −γ ∇log p(F)ᵀ F̂⁻¹ ∇log p(z), with λ and without."""
    x, y, fx, fy, network, theta, w = trained_logistic()
    train, failures = factor(network, x, y), factor(network, fx, fy, "failures")
    gz, gf = by_hand(logistic.gradients(w, x, y)), by_hand(logistic.gradients(w, fx, fy)).sum(0)
    gamma, ridge = 0.3, 1.0
    mean_fisher = (gz.T @ gz + ridge * torch.eye(12, dtype=x.dtype)) / len(x)
    expected = -gamma * gz @ torch.linalg.solve(mean_fisher, gf)
    curvature = Dense(Empirical(), prior=ridge)
    q = Gaussian(theta, curvature(train, theta), curvature, len(x))
    scores, _ = influence(q, Tangent(gamma), train, failures)
    assert_close(scores, expected, atol=1e-12, rtol=1e-10)


def test_cg_and_dense_give_the_same_tangent():
    x, y, fx, fy, network, theta, _ = trained_logistic()
    train, failures = factor(network, x, y), factor(network, fx, fy, "failures")
    rows = []
    for curvature in (
        Dense(GGN(), prior=1.0),
        CG(GGN(), prior=1.0, tolerance=1e-13),
        CG(Empirical(), 1.0, tolerance=1e-13),
        Dense(Empirical(), 1.0),
    ):
        q = Gaussian(theta, curvature(train, theta), curvature, len(x))
        rows.append(influence(q, Tangent(), train, failures)[0])
    assert_close(rows[0], rows[1], atol=1e-11, rtol=1e-9)
    assert_close(rows[2], rows[3], atol=1e-11, rtol=1e-9)


def leave_one_out():
    """What r̃ predicts, and what retraining to convergence without each example does to log p(F)."""
    x, y, fx, fy, network, theta, w = trained_logistic(n=300)
    train, failures = factor(network, x, y), factor(network, fx, fy, "failures")
    curvature = Dense(GGN(), prior=1.0)
    q = Gaussian(theta, curvature(train, theta), curvature, len(x))
    predicted, _ = influence(q, Tangent(), train, failures)
    base = sum(logistic.log_prob(w, a, b) for a, b in zip(fx, fy, strict=True))
    actual = []
    for i in range(50):
        keep = torch.arange(len(x)) != i
        w_i = logistic.optimum(x[keep], y[keep], 3, 1.0, start=w)
        actual.append(sum(logistic.log_prob(w_i, a, b) for a, b in zip(fx, fy, strict=True)) - base)
    return predicted[:50].numpy(), torch.stack(actual).numpy()


def test_tangent_predicts_leaving_one_out(capsys):
    """With the GGN (the Hessian, for a linear model) the score is the first order of leaving z out."""
    predicted, actual = leave_one_out()
    correlation = float(np.corrcoef(predicted, actual)[0, 1])
    error = float(np.abs(predicted - actual).max() / np.abs(actual).max())
    with capsys.disabled():
        print(f"\nleaving one out, 50 refits: correlation {correlation:.5f}, largest error {error:.1%} of the largest")
    assert correlation > 0.995
    assert error < 0.15  # second order: one example in fifty carries a leverage of about a tenth


def test_one_fixed_point_step_of_ewc_is_the_natural_gradient():
    """The paper's comparison, λ = 0: from θ̂, one step of the fixed-point equation goes along the tangent."""
    x, y, fx, fy, network, theta, _ = trained_logistic()
    train = factor(network, x, y)
    for curvature in (Diagonal(), Dense(Empirical())):
        q = Gaussian(theta, curvature(train, theta), curvature, len(x))
        for evidence in (factor(network, fx, fy, "failures"), -train[:5]):
            ewc = follow(Mode(FixedPoint(1), FixedPoint(1))(q, evidence))
            tangent = follow(Tangent(gamma=1 / len(x))(q, evidence))
            assert_close(ewc.mean, tangent.mean, atol=1e-12, rtol=1e-12)
            assert not torch.equal(ewc.mean["weight"], theta["weight"])


def test_step_equals_ewc_where_it_is_exact():
    """On a quadratic model the Newton step, with C's curvature gone, is exact: EWC's mode, the step and the
    closed form agree, for deletion and for insertion."""
    x, y, network = regression()
    q = fitted(x, y, network)
    causes = factor(network, x, y)[55:]
    exact_mean, _ = exact.posterior(x[:55], y[:55], SIGMA, PRIOR)
    mode = treatment(q, NEWTON, causes).mean["weight"][0]
    step = treatment(q, Step(), causes).mean["weight"][0]
    assert_close(mode, exact_mean, atol=1e-12, rtol=0)
    assert_close(step, exact_mean, atol=1e-12, rtol=0)
    back = follow(Step()(treatment(q, Step(), causes), causes)).mean["weight"][0]
    assert_close(back, q.mean["weight"][0], atol=1e-12, rtol=0)


def test_flatten_round_trip():
    theta = {"a": torch.randn(2, 3), "b": torch.randn(4)}
    assert_close(unflatten(flatten(theta), theta), theta)


def test_laplace_is_the_exact_posterior_of_a_linear_model():
    x, y, network = regression()
    mean, precision = exact.posterior(x, y, SIGMA, PRIOR)
    with torch.no_grad():
        network.params["weight"].copy_(mean[None])
    train = Factor.of(network, factor(network, x, y).examples, 11)
    q = Laplace(Dense(GGN(), prior=PRIOR))(train)
    assert_close(q.precision.dense(), precision, atol=1e-10, rtol=1e-12)
    draws = q.sampled(20000, seed=3).rows(lambda t: t["weight"][0])
    spread = torch.cov(draws.T) @ precision
    assert_close(spread, torch.eye(4, dtype=x.dtype), atol=0.05, rtol=0)  # 1/√20000 is 0.007
