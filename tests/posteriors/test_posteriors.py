"""What is remembered, edited as its authors meant: against closed forms, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends import methods
from amends.algorithm.identify import influence
from amends.algorithm.treat import treatment
from amends.curvature import EKFAC, GGN, Dense, Diagonal, Kronecker
from amends.editors import Each, Mode, Variational, follow, open_ended
from amends.editors.climb import LBFGS, Newton
from amends.errors import BadInput, NotConverged
from amends.evidence.factor import Factor
from amends.evidence.params import flatten
from amends.methods.ratio import first_order, predictive
from amends.posteriors import Ensemble, Expected, Gaussian, MeanField
from amends.posteriors.expected import normal
from amends.remember import Gradients, Laplace, Members, Running
from amends.remember import Variational as FittedSpread
from tests.conftest import at_optimum, classification, factor, plain, tabular
from tests.exact import linear_gaussian as exact

SIGMA = 0.5
NEWTON = Mode(climb=Newton(), unlearn=Newton())


# --- online EWC ------------------------------------------------------------------------------------


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


def test_a_second_repair_goes_on_from_the_first():
    x, y, network, _ = at_optimum()
    data, extra = factor(network, x[:40], y[:40]), factor(network, x[40:], y[40:], "failures")
    first = methods.online_ewc(decay=0.8)
    q = follow(first.editor(first.remember(data, None), extra))
    second = methods.online_ewc(since=q).remember(data, None)
    assert_close(second.precision.dense(), q.precision.dense())
    assert second.mean is network.params
    with pytest.raises(BadInput, match="the posterior of another model"):
        Running(q)(factor(classification()[2], *classification()[:2]))


def test_without_decay_online_ewc_is_ewc():
    x, y, network = classification()
    data, extra = factor(network, x[:50], y[:50]), factor(network, x[50:], y[50:], "failures")
    both = (methods.ewc(), methods.online_ewc(decay=1.0))
    scores = [influence(m.remember(data, None), m.editor, data, extra)[0] for m in both]
    assert_close(scores[0], scores[1], rtol=0, atol=0)


# --- variational -------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.7, 200.0])
def test_vcl_s_spread_is_the_exact_mean_field_solution(prior):
    """Of a Gaussian posterior with precision P it is 1/√diag P; the mean stays where it is."""
    x, y, network, precision = at_optimum(prior=prior)
    data = factor(network, x, y, batch=64)
    climb = LBFGS(30, tolerance=1e-8)
    fits = [FittedSpread(prior=prior, draws=64, climb=climb, seed=s)(data) for s in range(8)]
    assert fits[0].mean is network.params
    spread = torch.stack([q.spread["weight"][0] for q in fits])
    assert not torch.equal(spread[0], spread[1])
    assert_close(spread.mean(0), precision.diagonal().rsqrt(), rtol=0.04, atol=0)  # each is within 3 %, their mean 1 %


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["insert", "delete"])
def test_vcl_s_edit_is_the_exact_mean_field_solution(sign):
    """max E_q̃ log p(S)^w − KL(q̃‖q) in closed form: precisions add on the diagonal, and the mean solves
    (1/σ² + w XᵀX/s²)(m − μ) = w Xᵀ(y − Xμ)/s². Pairs ±ε make the mean exact whatever the draws."""
    x, y, network, precision = at_optimum()
    some = factor(network, x[:8], y[:8], "train" if sign < 0 else "failures")
    q = MeanField(network.params, {"weight": precision.diagonal().rsqrt()[None]})
    editor = Variational(draws=128, climb=LBFGS(40, tolerance=1e-9), unlearn=LBFGS(40, tolerance=1e-9))
    after = follow(editor(q, sign * some))
    gram, mu = x[:8].T @ x[:8] / SIGMA**2, network.params["weight"][0]
    residual = x[:8].T @ (y[:8, 0] - x[:8] @ mu) / SIGMA**2
    mean = mu + torch.linalg.solve(precision.diagonal().diag() + sign * gram, sign * residual)
    assert_close(after.mean["weight"][0], mean, rtol=1e-6, atol=1e-7)
    spread = (precision.diagonal() + sign * gram.diagonal()).rsqrt()
    assert_close(after.spread["weight"][0], spread, rtol=0.04, atol=0)  # 1,024 draws, 2 %
    assert open_ended(editor, q, sign * some) == (sign < 0)


def test_the_noise_is_normal_and_belongs_to_the_example():
    drawn = normal(torch.arange(4000), (5, 3), salt=3)
    assert drawn.shape == (4000, 5, 3)
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02
    corr = torch.corrcoef(drawn.reshape(4000, -1).T)
    assert float((corr - torch.eye(15)).abs().max()) < 0.1
    assert_close(normal(torch.tensor([17]), (5, 3), salt=3)[0], drawn[17])
    assert not torch.allclose(normal(torch.tensor([17]), (5, 3), salt=4)[0], drawn[17])


@pytest.mark.parametrize("layer", ["linear", "conv", "embedding"])
def test_local_noise_has_the_variance_of_drawn_weights(layer):
    """Outputs with noise at the layer, against outputs with noise in the weights, by moments."""
    torch.manual_seed(0)
    made = {
        "linear": lambda: nn.Linear(4, 2),
        "embedding": lambda: nn.Sequential(nn.Embedding(5, 2), nn.Flatten()),
        "conv": lambda: nn.Sequential(nn.Conv2d(1, 2, 2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    }
    model = made[layer]().double()
    x = {"linear": torch.randn(1, 4), "conv": torch.randn(1, 1, 2, 2), "embedding": torch.tensor([[3]])}[layer]
    x = x.double() if x.is_floating_point() else x
    network = amends.evidence.network.Network.of(model, amends.likelihoods.Categorical())
    spread = {k: torch.rand_like(v) * 0.5 for k, v in network.params.items()}
    many = Factor.of(
        network, amends.data.examples((x.expand(20000, *x.shape[1:]), torch.zeros(20000).long()), "t"), 20000
    )
    term = Expected(many, network.params, spread, draws=2)
    keys = torch.as_tensor(many.ids)
    with term._noise({}, keys, 0, 1.0, []) as mean:
        local = network.outputs(mean, many.examples.x)
    draws = MeanField(network.params, spread).sampled(4000).rows(lambda t: network.outputs(t, x)[0])
    assert_close(local.mean(0), draws.mean(0), atol=0.05, rtol=0)
    if layer == "conv":  # places share their weights, which independent noise at each place cannot know
        assert (local.std(0) < draws.std(0) * 1.1).all()
    else:
        assert_close(local.std(0), draws.std(0), rtol=0.05, atol=0)


# --- orthogonal gradients -----------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["insert", "delete"])
def test_ogd_moves_across_the_stored_gradients(evidence):
    x, y, network = classification(n=40, d=6)
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:], y[30:], "failures")
    method = methods.ogd(memory=8)
    q = method.remember(data, None)
    stored, ids = q.stored
    kept = q.ids[:4]
    given = extra if evidence == "insert" else -data[np.flatnonzero(np.isin(data.ids, ids[4:]))]
    rows = stored if evidence == "insert" else stored[np.isin(ids, kept)]
    moves = [flatten(after.mean) - flatten(q.mean) for after in method.editor(q, given)]
    assert len(moves) > 3
    assert float(moves[-1].norm()) > 1e-3
    freed = stored[~np.isin(ids, kept)]
    if evidence == "delete":  # what is deleted holds nothing any more
        assert float((freed @ moves[-1]).abs().max()) > 1e-3 * float(moves[-1].norm() * freed.norm(dim=1).max())
    for move in moves[1:]:
        assert float((rows @ move).abs().max()) <= 1e-9 * float(move.norm() * rows.norm(dim=1).max())


def test_ogd_stores_the_gradient_of_the_label_s_output():
    x, y, network = classification(n=10)
    rows, ids = Gradients(memory=10)(factor(network, x, y)).stored
    for row, i in zip(rows, ids, strict=True):
        at = int(i - ids.min())
        expected = torch.zeros(3, 4, dtype=torch.float64)
        expected[y[at]] = torch.cat([x[at], torch.ones(1, dtype=torch.float64)])
        assert_close(row, torch.cat([expected[:, :-1].reshape(-1), expected[:, -1]]))
    every, _ = Gradients(memory=10, every_output=True)(factor(network, x, y)).stored
    assert every.shape == (30, 12)


def test_ogd_remembers_what_it_has_learned():
    x, y, network = classification(n=40, d=6)
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:35], y[30:35], "failures")
    q = Gradients(memory=4)(data)
    after = q.moved({k: v + 1 for k, v in q.mean.items()}, extra)
    assert len(after.stored[0]) == 9
    assert set(after.stored[1]) == set(q.ids) | set(extra.ids)
    assert after.moved(after.mean, -extra).basis(np.array([])).shape[1] == 4
    assert after.moved(after.mean, -data).moved(after.mean, -extra).basis(np.array([])).shape[1] == 0


def test_ogd_takes_inserted_gradients_where_it_is_now():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    x, y, _ = classification()
    network = amends.evidence.network.Network.of(net, amends.likelihoods.Categorical())
    data, extra = factor(network, x[:30], y[:30]), factor(network, x[30:33], y[30:33], "failures")
    remember = Gradients(memory=4)
    q, there = remember(data), {k: v + 0.5 for k, v in network.params.items()}
    assert_close(q.moved(there, extra).stored[0][4:], remember.of(extra, there)[0])


def test_ogd_says_when_nothing_is_free():
    x, y, network = classification()
    with pytest.raises(BadInput, match="span all 12 parameters, so nothing can move; ogd; lower memory"):
        amends.identify(plain(network), (x[:50], y[:50]), (x[50:], y[50:]), method=methods.ogd(every_output=True))


# --- draws and ensembles -------------------------------------------------------------------------------


def test_draws_find_the_exact_score_of_every_example():
    """r(z) of a linear-Gaussian model in closed form, for each z; 3,000 draws leave errors of about .02."""
    x, y, network, _ = at_optimum(n=60)
    train = factor(network, x[:50], y[:50], batch=64)
    failures = factor(network, x[50:], y[50:], "failures")
    curvature = Dense(GGN(), prior=0.7)
    mean, _ = exact.posterior(x[:50], y[:50], SIGMA, 0.7)
    q = Gaussian({"weight": mean[None]}, curvature(train, network.params), curvature, 50, draws=3000, seed=1)
    q_f = follow(NEWTON(q, failures))
    found = predictive(q, q_f, train)
    plain = first_order(q, q_f, train)
    for i in range(50):
        sides = [
            exact.log_mean_inverse_likelihood(
                x[i : i + 1], y[i : i + 1], p.mean["weight"][0], p.precision.dense(), SIGMA
            )
            for p in (q, q_f)
        ]
        assert float(found[i]) == pytest.approx(float(sides[1] - sides[0]), abs=0.06)
    assert float(torch.corrcoef(torch.stack([found, plain]))[0, 1]) > 0.99


@pytest.mark.parametrize("shape", [Diagonal, Kronecker, EKFAC, Dense])
def test_noise_is_the_same_before_and_after_a_small_edit(shape):
    """Whatever signs and order the eigenvectors come in."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y, _ = classification()
    network = amends.evidence.network.Network.of(net, amends.likelihoods.Categorical())
    parts = [shape(GGN(), prior=1.0)(factor(network, x[:n], y[:n]), network.params) for n in (50, 52)]
    a, b = (flatten(p.draw(torch.Generator().manual_seed(3))) for p in parts)
    assert float(a @ b / (a.norm() * b.norm())) > 0.99


@pytest.mark.parametrize("shape", [Kronecker, EKFAC, Dense])
def test_draws_have_the_covariance_they_should(shape):
    x, y, network = classification()
    precision = shape(GGN(), prior=2.0)(factor(network, x, y), network.params)
    noise = torch.Generator().manual_seed(0)
    draws = torch.stack([flatten(precision.draw(noise)) for _ in range(8000)])
    assert_close(torch.cov(draws.T) @ precision.dense(), torch.eye(12, dtype=torch.float64), atol=0.15, rtol=0)


def test_a_last_layer_alone_is_drawn_and_edited():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x, y, _ = classification()
    method = methods.laplace_mc(Kronecker(GGN(), prior=50.0), draws=50)
    found = amends.identify(net, (x[:50], y[:50]), (x[50:], y[50:]), method=method)
    assert set(found.edited.mean) == {"2.weight", "2.bias"}
    treated = amends.treat(net, (x[:50], y[:50]), [1, 2], method=methods.Method(Laplace(Diagonal(), True), Mode()))
    assert torch.equal(treated[0].weight, net[0].weight)
    with pytest.raises(BadInput, match="no linear layer"):
        Laplace(Diagonal(), last_layer=True)(factor(tabular(), x, y))


def test_too_wide_a_posterior_is_refused():
    x, y, network = classification()
    method = methods.laplace_mc(Diagonal(GGN(), prior=1e-9), draws=200, last_layer=False)
    with pytest.raises(NotConverged, match="draws carry the average of 1/p"):
        amends.identify(plain(network), (x[:3], y[:3]), (x[50:], y[50:]), method=method)


def test_an_ensemble_scores_as_the_mean_of_its_members():
    x, y, _ = classification()
    torch.manual_seed(0)
    models = [nn.Linear(3, 3, dtype=torch.float64) for _ in range(3)]
    sets = (x[:50], y[:50]), (x[50:], y[50:])
    alone = [amends.identify(m, *sets, method=methods.ewc()).scores for m in models]
    together = methods.ensemble(methods.ewc(), models=[models[1], models[2].state_dict()])
    found = amends.identify(models[0], *sets, method=together)
    np.testing.assert_allclose(found.scores, np.mean(alone, 0), rtol=1e-9, atol=1e-12)


def test_samples_are_as_wide_as_asked():
    x, y, network = classification()
    data = factor(network, x, y)
    wide, narrow = (Members(methods.ewc().remember, samples=3, scale=s)(data) for s in (1.0, 0.1))
    for a, b in zip(wide.members, narrow.members, strict=True):
        away = [flatten(m.mean) - flatten(network.params) for m in (a, b)]
        assert_close(away[0], 10 * away[1])


def test_treating_an_ensemble_averages_predictions():
    x, y, _ = classification()
    torch.manual_seed(0)
    models = [nn.Linear(3, 3, dtype=torch.float64) for _ in range(2)]
    newton = methods.newton(Dense(GGN(), prior=5.0))
    alone = [amends.treat(m, (x, y), [1, 2, 3], method=newton) for m in models]
    both = amends.treat(models[0], (x, y), [1, 2, 3], method=methods.ensemble(newton, models=models[1:]))
    expected = torch.stack([m(x).softmax(1) for m in alone]).mean(0).log()
    assert_close(both(x), expected)
    with pytest.raises(BadInput, match="an ensemble of models repairs to several"):
        amends.repair(
            models[0], (x, y), (x[:9], (y[:9] + 1) % 3), treat_with=methods.ensemble(newton, models=models[1:])
        )


def test_bad_ensembles():
    x, y, network = classification()
    data = factor(network, x, y)
    with pytest.raises(BadInput, match="models or samples, and not both"):
        Members(methods.ewc().remember)(data)
    with pytest.raises(BadInput, match=r"weight has shape \[3, 4\], expected \[3, 3\]; models\[0\]"):
        Members(methods.ewc().remember, (nn.Linear(4, 3),))(data)
    frozen = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    frozen[0].requires_grad_(False)
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()
    with pytest.raises(BadInput, match=r"models\[0\] differs from the model in 0.weight, which is not trained"):
        amends.identify(frozen, (x, y), (x[:3], y[:3]), method=methods.ensemble(models=[other]))
    last = methods.Method(Laplace(Diagonal(), last_layer=True), Mode())
    with pytest.raises(BadInput, match="the method edits the last layer alone"):
        amends.identify(other, (x, y), (x[:3], y[:3]), method=methods.ensemble(last))
    with pytest.raises(BadInput, match="pass a method with an editor"):
        methods.ensemble(methods.loss())
    with pytest.raises(BadInput, match="needs an ensemble"):
        follow(Each(Mode())(methods.ewc().remember(data, None), data[:1]))
    with pytest.raises(BadInput, match="member by member"):
        follow(Mode()(Ensemble((methods.ewc().remember(data, None),)), data[:1]))
    with pytest.raises(BadInput, match="needs a mean-field posterior"):
        follow(Variational()(methods.ewc().remember(data, None), data[:1]))
