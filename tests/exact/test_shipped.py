"""What holds where a caller says nothing: constructors without arguments, by a number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends import methods
from amends.curvature import GGN, Diagonal
from amends.data import examples
from amends.errors import NotConverged
from amends.evidence import Factor, Network
from amends.likelihoods import Categorical
from amends.methods.library.knn_shapley import KNNShapley
from amends.methods.library.random import Random
from amends.methods.library.sgd_influence import SGDInfluence
from amends.methods.library.shapley import Shapley
from amends.methods.library.tracin import TracIn
from tests.exact import tanh
from tests.exact.moves import climbed, climbing
from tests.exact.test_arguments import RIGHT, held, importance, run
from tests.exact.test_draws import diagonal_of_drawn_labels, product, steepest
from tests.exact.test_edits import FAR, edited
from tests.exact.test_linear import CAUSES, GF, WHOLE, G, N, W, scores, treated
from tests.exact.world import crowd, module, pair, vector


def told(w, method):
    return amends.identify(module(w.theta), pair(w.x, w.y), pair(w.fx, w.fy), pair(w.rx, w.ry), method=method)


def predictions_held(theta):
    """E log p of what the network said of the right examples, a hundredth as heavy as D, and its gradient."""
    old = tanh.probabilities(W.theta, W.rx)
    return 0.01 * N / len(W.rx) * (old * np.log(tanh.probabilities(theta, W.rx))).sum(), held(theta, 0.01)


def test_functional_holds_predictions_on_right_examples_alone():
    """Forty steps of L-BFGS, which magnify rounding; it forgets by twenty of Adam, and every fifth is looked at."""
    end = climbed([lambda t: climbing(t, W.fx, W.fy), predictions_held], W.theta, 40)
    np.testing.assert_allclose(edited(methods.functional()), end, rtol=0, atol=1e-5)

    def force(theta):
        return held(theta, 0.01) - tanh.gradients(theta, W.x[CAUSES], W.y[CAUSES]).sum(0)

    path = list(tanh.adam(force, W.theta, 1e-4, 20))[4::5]
    kept = [t for t in path if (tanh.logits(t, W.rx).argmax(1) == RIGHT).all()]
    np.testing.assert_allclose(treated(methods.functional(), remaining=pair(W.rx, RIGHT)), kept[-1], atol=1e-9)


def test_synaptic_intelligence_without_a_run():
    """Four passes of short straight runs back, a tenth of the root mean square weight long, in batches of 16: the work
    of each weight, raised to 0 where the rest gives as much back, over how far it moved."""
    size, signs = 0.1 * np.sqrt((W.theta**2).mean()), torch.Generator().manual_seed(0)
    read, work = amends.trace.batches(N, 16, 0), np.zeros(tanh.SIZE)
    for at in [next(read) for _ in range(8)]:
        away = size * np.concatenate([
            torch.randn(s, generator=signs, dtype=torch.float64).sign().numpy().reshape(-1) for s in tanh.SHAPES
        ])  # fmt: skip
        above, below = (tanh.gradients(W.theta + s * away / 2, W.x[at], W.y[at]).sum(0) for s in (1, -1))
        work += away / 2 * (below - above) / 4
    raised = np.maximum(work, 0) * work.sum() / np.maximum(work, 0).sum()
    found = told(W, methods.si()).start
    np.testing.assert_allclose(vector(found.base.data.values()), 2 * raised / (1.001 * size**2), rtol=1e-9)
    of_run = told(W, methods.si(run()[0], climb=FAR)).start
    np.testing.assert_allclose(vector(of_run.base.data.values()), np.diag(importance()), rtol=1e-9)


def test_gradients_of_200_outputs_are_kept():
    """Too many for so small a network to be edited, so they are asked for alone."""
    w = crowd(240, 24, 60, 1)
    at = np.sort(torch.randperm(240, generator=torch.Generator().manual_seed(0))[:200].numpy())
    rows = tanh.jacobians(w.theta, w.x[at])[np.arange(200), w.y[at]]
    data = Factor.of(Network.of(module(w.theta), Categorical()), examples(pair(w.x, w.y), "train"))
    np.testing.assert_allclose(methods.ogd().remember(data, None).stored[0].numpy(), rows, atol=1e-12)


def test_a_replay_is_one_pass_at_a_twentieth_of_the_inverse_of_the_steepest_curvature():
    """Batches of 64 of 150, gone through backwards; the Hessian as a difference, which errs by a millionth."""
    w = crowd(150, 24, 60, 1)
    rate = 0.05 * 150 / steepest(w.x, 1e-12, 150, 12)
    read, path, theta = amends.trace.batches(150, 64, 0), [], W.theta
    for at in [next(read) for _ in range(3)]:
        path.append((at, theta))
        theta = theta + rate / len(at) * tanh.gradients(theta, w.x[at], w.y[at]).sum(0)
    u, expected = tanh.gradients(theta, W.fx, W.fy).sum(0), np.zeros(150)
    for at, here in path[::-1]:
        expected[at] -= rate / len(at) * tanh.gradients(here, w.x[at], w.y[at]) @ u
        up, down = (tanh.gradients(here + s * u, w.x[at], w.y[at]).sum(0) for s in (1e-5, -1e-5))
        u = u + rate / len(at) * (up - down) / 2e-5
    sets = pair(w.x, w.y), pair(W.fx, W.fy)
    found = amends.identify(module(W.theta), *sets, method=methods.sgd_influence())
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5, atol=1e-8)


def conjugate(ahead, lift):
    """Preconditioned by the diagonal of drawn labels, until the residual is a thousandth of its start."""
    scale = diagonal_of_drawn_labels(W.x) + lift
    v, left = np.zeros(tanh.SIZE), GF
    direction = left / scale
    while np.linalg.norm(left) > 1e-3 * np.linalg.norm(GF):
        step = left @ (left / scale) / (direction @ ahead(direction))
        v, after = v + step * direction, left - step * ahead(direction)
        direction = after / scale + direction * (after @ (after / scale)) / (left @ (left / scale))
        left = after
    return v


def descent(ahead, lift):
    """Steps of the inverse of the largest curvature and a twentieth more, until the same."""
    v, top = np.zeros(tanh.SIZE), 1.05 * steepest(W.x, lift, N, 12)
    while np.linalg.norm(GF - ahead(v)) > 1e-3 * np.linalg.norm(GF):
        v = v + (GF - ahead(v)) / top
    return v


@pytest.mark.parametrize(("solver", "slow"), [(methods.cg, conjugate), (methods.gd, descent)])
def test_a_solver_ends_at_a_thousandth(solver, slow):
    """Well damped, since conjugate gradients magnify rounding in each of many steps."""
    lift = np.trace(WHOLE) / tanh.SIZE
    expected = -G @ slow(product(W.x, lift, N), lift)
    np.testing.assert_allclose(scores(methods.linear(solver(1.0))), expected, rtol=0, atol=1e-8)


def test_how_many_steps_a_solver_takes_at_most():
    assert [make().inner.steps for make in (methods.cg, methods.gd, methods.sa)] == [500, 2000, 20_000]


@pytest.mark.parametrize("draws", [6, 200])
def test_a_predictive_form_that_few_draws_carry_is_refused(draws):
    """1/p of so many draws: as many as (Σw)²/Σw² stand for. A twentieth of them must, and two."""
    noise, spread = torch.Generator().manual_seed(3), (np.diag(WHOLE) + 0.3) ** -0.5
    moves = [np.concatenate([torch.randn(s, generator=noise, dtype=torch.float64).numpy().reshape(-1)
                             for s in tanh.SHAPES]) for _ in range(draws)]  # fmt: skip
    weight = np.exp(-np.stack([tanh.log_p(W.theta + d * spread, W.x, W.y) for d in moves]))
    carrying = weight.sum(0) ** 2 / (weight**2).sum(0)
    few = int((carrying < max(2, 0.05 * draws)).sum())
    assert few not in (0, N, (carrying < 0.1 * draws).sum(), (carrying < 1).sum())
    method = methods.laplace_mc(Diagonal(GGN(), prior=0.3), draws=draws, last_layer=False, seed=3)
    with pytest.raises(NotConverged, match=f"too few of {draws} draws .* for {few} of {N} examples"):
        scores(method)


def test_a_scorer_without_arguments_is_what_its_constructor_makes():
    for make, scorer in (
        (methods.random, Random), (methods.sgd_influence, SGDInfluence), (methods.shapley, Shapley),
        (methods.knn_shapley, KNNShapley), (methods.tracin, TracIn),
    ):  # fmt: skip
        assert vars(make()) == vars(scorer())
