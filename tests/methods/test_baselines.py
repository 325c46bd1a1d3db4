"""The methods people compare with, against loops, enumeration and refitting, in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.baselines import Given, Loss, Oracle, Random, RelatIF, SelfConfidence, Shapley, Sufficiency
from amends.baselines.sufficiency import others
from amends.curvature import CG, EKFAC, GGN, Damped, Dense, Diagonal, Empirical, Isotropic, Kronecker
from amends.curvature.backprop import general_grads
from amends.errors import BadInput, NonFinite
from amends.evidence.network import Network
from amends.evidence.params import flatten, unflatten
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian
from tests.conftest import classification, factor, regression
from tests.exact import logistic


def small_network(seed=0, inputs=3, hidden=4, classes=3, likelihood=None):
    torch.manual_seed(seed)
    layers = nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, classes)
    return Network.of(nn.Sequential(*layers).double(), likelihood or Categorical())


def world(n=30, failures=5, seed=0):
    """Train, failures and the network that sees them; nothing is trained, the formulas hold anywhere."""
    x, y, _ = classification(seed, n=n + failures)
    network = small_network(seed)
    return factor(network, x[:n], y[:n]), factor(network, x[n:], (y[n:] + 1) % 3, "failures"), network


def gradient(network, x, y):
    """∇log p of one example, flattened, by plain autograd."""
    live = {k: v.clone().requires_grad_() for k, v in network.params.items()}
    return flatten(dict(zip(live, torch.autograd.grad(network.log_prob(live, x, y).sum(), live.values()), strict=True)))


# --- RelatIF -------------------------------------------------------------------------------------


def by_loops(train, failures, form, solve):
    """One example after the other, with P⁻¹ as a function of a flat vector."""
    network, rows = train.network, []
    fx, fy = failures.examples.fetch(0, len(failures))
    gain = gradient(network, fx, fy)
    for i in range(len(train)):
        g = gradient(network, *train.examples.fetch(i, i + 1))
        size = g @ solve(g) if form == "loss" else solve(g) @ solve(g)
        rows.append(-(gain @ solve(g)) / size.sqrt())
    return torch.stack(rows)


@pytest.mark.parametrize("form", ["loss", "parameters"])
@pytest.mark.parametrize("shape", [Diagonal, Kronecker, Dense])
def test_relatif_is_influence_over_its_size(form, shape):
    train, failures, network = world()
    curvature = shape(GGN(), prior=0.3)
    matrix = curvature(train, network.params).dense()
    expected = by_loops(train, failures, form, lambda v: torch.linalg.solve(matrix, v))
    assert_close(RelatIF(curvature, form)(train, failures), expected, atol=1e-11, rtol=1e-9)


FORMED = Kronecker(GGN()), EKFAC(GGN()), Damped(EKFAC()), Diagonal(Empirical()), Dense(GGN()), Isotropic(2.0)


@pytest.mark.parametrize("curvature", FORMED)
def test_relatif_solves_as_the_precision_does(curvature):
    """Also where λ is 0 and silent directions are damped: the solve over a batch is that of each."""
    train, failures, network = world()
    precision = curvature(train, network.params)

    def solve(v):
        return flatten(precision.solve(unflatten(v, network.params)))

    assert_close(RelatIF(curvature)(train, failures), by_loops(train, failures, "loss", solve), atol=1e-10, rtol=1e-8)


def test_relatif_is_a_cosine():
    """ℓ-RelatIF of z on itself is −√(∇zᵀP⁻¹∇z), and nothing else goes beyond."""
    train, _, network = world()
    curvature = Dense(GGN(), prior=0.3)
    g = gradient(network, *train.examples.fetch(3, 4))
    longest = float((g @ torch.linalg.solve(curvature(train, network.params).dense(), g)).sqrt())
    scores = RelatIF(curvature)(train, train[3:4])
    assert float(scores[3]) == pytest.approx(-longest, rel=1e-10)
    assert float(scores.abs().max()) == pytest.approx(longest, rel=1e-10)


def test_relatif_of_a_zero_gradient_is_zero():
    x, _, network = regression()
    y = torch.ones(len(x), 1, dtype=x.dtype)
    y[[4, 9]] = 0  # the network's weights are zero: a perfect fit
    for form in ("loss", "parameters"):
        scores = RelatIF(form=form)(factor(network, x, y), factor(network, x[:3], y[:3], "failures"))
        assert scores.isfinite().all()
        assert (scores == 0).nonzero()[:, 0].tolist() == [4, 9]


def test_relatif_keeps_small_gradients_in_float32():
    """A gradient of 1e-25 has a square that float32 cannot hold; the score does not depend on it."""
    x, _, network = regression(dtype=torch.float32)
    y = torch.ones(len(x), 1)
    failures = factor(network, x[:3], y[:3], "failures")
    small, usual = (RelatIF(Isotropic())(factor(network, x, c * y), failures) for c in (1e-25, 1.0))
    assert_close(small, usual, atol=0, rtol=1e-5)


@pytest.mark.parametrize("shape", [Kronecker, Dense])
def test_relatif_in_pieces_is_the_same(shape, monkeypatch):
    """31 parameters, 130 numbers: two gradients and their solutions, and dense solves one by one."""
    train, failures, _ = world()
    whole = RelatIF(shape(GGN(), prior=0.1))(train, failures)
    rows, at_once = [], []

    def grads(network, theta, x, vector, names):
        rows.append(len(vector))
        return general_grads(network, theta, x, vector, names)

    def mapped(f, chunk_size):
        at_once.append(chunk_size)
        return torch.func.vmap(f, chunk_size=chunk_size)

    monkeypatch.setattr("amends.baselines.relative.HELD", 130)
    monkeypatch.setattr("amends.baselines.relative.general_grads", grads)
    monkeypatch.setattr("amends.baselines.relative.vmap", mapped)
    assert_close(RelatIF(shape(GGN(), prior=0.1))(train, failures), whole, atol=1e-12, rtol=1e-12)
    assert set(rows) == {2}
    assert set(at_once) == {1 if shape is Dense else None}


def test_relatif_refuses_what_it_cannot_do():
    train, failures, _ = world()
    with pytest.raises(BadInput, match="a solve per example; RelatIF; use Diagonal"):
        RelatIF(CG())(train, failures)
    with pytest.raises(BadInput, match="form is 'theta'; RelatIF"):
        RelatIF(form="theta")  # type: ignore[arg-type]


# --- Shapley -------------------------------------------------------------------------------------


def features(network, data):
    """What the last layer sees, by hand, with a 1 for the bias."""
    x, y = data.examples.fetch(0, len(data))
    hidden = torch.tanh(x @ network.params["0.weight"].T + network.params["0.bias"])
    return torch.cat([hidden, torch.ones(len(x), 1, dtype=x.dtype)], 1), torch.eye(3, dtype=x.dtype)[y]


def refitted(network, train, failures, subset, ridge):
    """V(S) by least squares on the features with √ridge·I below them."""
    (a, t), (fa, ft) = features(network, train), features(network, failures)
    a = torch.cat([a[subset], math.sqrt(ridge) * torch.eye(a.shape[1], dtype=a.dtype)])
    t = torch.cat([t[subset], torch.zeros(a.shape[1], 3, dtype=a.dtype)])
    return -float(((fa @ torch.linalg.lstsq(a, t).solution - ft) ** 2).sum(1).mean())


def test_shapley_is_that_of_all_subsets():
    """Σ_S |S|!(n−|S|−1)!/n! (V(S ∪ z) − V(S)), over the 64 subsets of 6 examples."""
    n, ridge = 6, 0.7
    train, failures, network = world(n)
    sets = [frozenset(s) for size in range(n + 1) for s in combinations(range(n), size)]
    value = {s: refitted(network, train, failures, sorted(s), ridge) for s in sets}
    exact = []
    for z in range(n):
        without = [s for s in sets if z not in s]
        weight = [math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n) for s in without]
        exact.append(sum(w * (value[s | {z}] - value[s]) for w, s in zip(weight, without, strict=True)))
    found = Shapley(permutations=720, ridge=ridge, tolerance=0)(train, failures)
    assert_close(-found, torch.tensor(exact, dtype=torch.float64), atol=1e-12, rtol=1e-10)


def test_drawn_orders_find_the_same(capsys):
    """300 drawn orders of 6 examples against all 720: within four standard errors each."""
    train, failures, _ = world(6)
    head = Shapley().head(train, failures)
    exact = head.marginals(torch.as_tensor(Shapley(720).orders(6))).mean(0)
    drawn = head.marginals(torch.as_tensor(Shapley(300, seed=1).orders(6)))
    error = drawn.std(0) / math.sqrt(len(drawn))
    away = ((drawn.mean(0) - exact) / error).abs()
    with capsys.disabled():
        print(f"\nShapley, 300 orders: furthest {float(away.max()):.1f} standard errors of {float(error.max()):.1e}")
    assert away.max() < 4
    assert not np.array_equal(Shapley(300, seed=1).orders(6), Shapley(300, seed=2).orders(6))


def test_a_rank_one_update_is_a_refit():
    """Each prefix of an order of 120 examples; rounding adds up over the updates."""
    train, failures, network = world(120)
    scorer = Shapley(permutations=3, ridge=0.5, tolerance=0)
    orders = torch.as_tensor(scorer.orders(120))
    found = scorer.head(train, failures).marginals(orders)
    for order, row in zip(orders, found, strict=True):
        value = refitted(network, train, failures, [], 0.5) + row[order].cumsum(0)
        for size in (1, 2, 5, 30, 119, 120):
            exact = refitted(network, train, failures, order[:size], 0.5)
            assert float(value[size - 1]) == pytest.approx(exact, abs=1e-12)


def test_shapley_values_sum_to_the_whole():
    """Efficiency, for any number of orders: Σφ = V(D) − V(∅)."""
    train, failures, network = world(40)
    whole = refitted(network, train, failures, range(40), 1.0) - refitted(network, train, failures, [], 1.0)
    assert -float(Shapley(3, tolerance=0)(train, failures).sum()) == pytest.approx(whole, abs=1e-10)


def test_truncation_changes_little(capsys):
    """What an order leaves out is below tolerance · |V(D) − V(∅)| in all."""
    train, failures, network = world(200)
    whole = refitted(network, train, failures, range(200), 1.0) - refitted(network, train, failures, [], 1.0)
    head = Shapley().head(train, failures)
    orders = torch.as_tensor(Shapley(20).orders(200))
    full, cut = head.marginals(orders), head.marginals(orders, 0.01)
    left = float((cut.sum(1) - whole).abs().max() / abs(whole))
    skipped = float((cut == 0).double().mean())
    correlation = float(torch.corrcoef(torch.stack([full.mean(0), cut.mean(0)]))[0, 1])
    with capsys.disabled():
        print(f"\ntruncated Shapley: {skipped:.0%} skipped, {left:.2%} left out, correlation {correlation:.4f}")
    assert 0.2 < skipped < 1
    assert left < 0.01
    assert correlation > 0.95
    assert_close(-Shapley(20)(train, failures), cut.mean(0), atol=0, rtol=0)


def test_shapley_in_turns_is_the_same(monkeypatch):
    train, failures, _ = world(20)
    whole = Shapley(7)(train, failures)
    monkeypatch.setattr("amends.baselines.shapley.HELD", 60)  # two inverses of 5 x 5
    assert_close(Shapley(7)(train, failures), whole, atol=1e-14, rtol=0)


def test_shapley_takes_real_targets():
    """A wrong target in a linear world stands out; whole numbers are numbers, not classes."""
    x, y, network = regression()
    y[7] += 20
    for targets in (y, (10 * y).round().long()):
        scores = Shapley(20)(factor(network, x[:50], targets[:50]), factor(network, x[50:], targets[50:], "failures"))
        assert int(scores.argmax()) == 7


def test_shapley_refuses_what_it_cannot_do():
    x, y, _ = classification(n=8)
    wide = Network.of(nn.Linear(2049, 3, dtype=torch.float64), Categorical())
    data = factor(wide, torch.zeros(8, 2049, dtype=torch.float64), y)
    with pytest.raises(BadInput, match="sees 2049 features, at most 2048 fit; Shapley"):
        Shapley()(data, data)
    bare = factor(Network.of(Scales(), Categorical()), x, y)
    with pytest.raises(BadInput, match="no last linear layer that trains; Shapley"):
        Shapley()(bare, bare)
    with pytest.raises(BadInput, match=r"permutations is 0; shapley; give a whole number of 1 or more"):
        Shapley(permutations=0)
    for bad in ({"ridge": 0.0}, {"tolerance": -0.1}):
        with pytest.raises(BadInput, match="; shapley; give a number of"):
            Shapley(**bad)


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return x * self.scale


# --- Sufficiency ---------------------------------------------------------------------------------


def relabelled(copies, some=60):
    """What Sufficiency predicts, and what refitting with each other label does to log p(F).

    With each example so many times in D, and the ridge as many times as strong, θ̂ is the same and
    one example counts the less.
    """
    x, y, network = classification(n=300)
    x, y, ridge = x.repeat(copies, 1), y.repeat(copies), float(copies)
    g = torch.Generator().manual_seed(9)
    fx, fy = torch.randn(6, 3, generator=g, dtype=x.dtype), torch.randint(0, 3, (6,), generator=g)
    w = logistic.optimum(x, y, 3, ridge)
    network = replace(network, params={"weight": w[:, :-1].clone(), "bias": w[:, -1].clone()})
    predicted = Sufficiency(Dense(GGN(), prior=ridge))(factor(network, x, y), factor(network, fx, fy, "failures"))

    def fit(w):
        return float(sum(logistic.log_prob(w, a, b) for a, b in zip(fx, fy, strict=True)))

    actual = []
    for i in range(some):
        p = (w[:, :-1] @ x[i] + w[:, -1]).softmax(0)
        gain = 0.0
        for label in {0, 1, 2} - {int(y[i])}:
            changed = y.clone()
            changed[i] = label
            share = float(p[label] / (1 - p[y[i]]))
            gain += share * (fit(logistic.optimum(x, changed, 3, ridge, start=w)) - fit(w))
        actual.append(gain)
    return predicted[:some].numpy(), np.array(actual)


def test_sufficiency_predicts_refitting_with_another_label(capsys):
    """To first order: where an example counts a quarter as much, so does the relative error."""
    errors = []
    for copies in (1, 4):
        predicted, actual = relabelled(copies)
        correlation = float(np.corrcoef(predicted, actual)[0, 1])
        errors.append(float(np.abs(predicted - actual).max() / np.abs(actual).max()))
        with capsys.disabled():
            print(f"\n120 refits, 1 in {300 * copies} relabelled: correlation {correlation:.5f}, ", end="")
            print(f"largest error {errors[-1]:.1%} of the largest")
        assert correlation > 0.99
    assert errors[0] < 0.35
    assert errors[1] == pytest.approx(errors[0] / 4, rel=0.15)


def test_sufficiency_is_an_expectation_over_other_labels():
    """The definition, label by label, with a gradient for each."""
    train, failures, network = world(10)
    curvature = Kronecker(GGN(), prior=0.3)
    fx, fy = failures.examples.fetch(0, len(failures))
    gain = torch.linalg.solve(curvature(train, network.params).dense(), gradient(network, fx, fy))
    expected = []
    for i in range(len(train)):
        x, y = train.examples.fetch(i, i + 1)
        p = network.outputs(network.params, x)[0].softmax(0)
        terms = [
            p[c] / (1 - p[y[0]]) * (gain @ (gradient(network, x, torch.tensor([c])) - gradient(network, x, y)))
            for c in range(3)
            if c != int(y)
        ]
        expected.append(sum(terms))
    assert_close(Sufficiency(curvature)(train, failures), torch.stack(expected), atol=1e-12, rtol=1e-9)


def test_labels_as_probabilities_give_the_same_sufficiency():
    train, failures, network = world(10)
    x, y = train.examples.fetch(0, 10)
    soft = factor(network, x, torch.eye(3, dtype=torch.float64)[y])
    curvature = Kronecker(GGN(), prior=0.3)
    assert_close(Sufficiency(curvature)(soft, failures), Sufficiency(curvature)(train, failures))


def test_other_labels_share_what_is_left():
    outputs = torch.tensor([[0.0, 1.0, 2.0], [900.0, 0.0, 5.0], [30.0, 0.0, 5.0]], dtype=torch.float64)
    p = outputs.softmax(1)
    found = others(outputs, torch.tensor([2, 0, 0]))
    assert_close(found[0], torch.tensor([p[0, 0], p[0, 1], 0.0]) / (p[0, 0] + p[0, 1]))
    assert_close(found[1], torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64))
    assert_close(found[2], torch.tensor([0.0, p[2, 1], p[2, 2]]) / (p[2, 1] + p[2, 2]))


def test_sufficiency_is_for_classes():
    x, y, network = regression()
    with pytest.raises(BadInput, match="got Gaussian; Sufficiency; use Categorical"):
        Sufficiency()(factor(network, x, y), factor(network, x, y))


# --- scores that need no gradient ----------------------------------------------------------------


def test_self_confidence_is_the_probability_of_the_given_label():
    """cleanlab: pred_probs[i, labels[i]]; also when the caller's own loss is not a log-probability."""
    train, failures, network = world()
    x, y = train.examples.fetch(0, len(train))
    pred_probs, labels = network.outputs(network.params, x).softmax(1).numpy(), y.numpy()
    expected = 1 - pred_probs[np.arange(len(labels)), labels]
    assert_close(SelfConfidence()(train, failures).numpy(), expected, atol=1e-14, rtol=0)
    given = SelfConfidence(pred_probs[np.arange(len(labels)), labels])(train, failures)
    assert_close(given.numpy(), expected, atol=0, rtol=0)
    twice = replace(network, likelihood=Custom(lambda f, y: 2 * Categorical()(f, y)))
    assert_close(SelfConfidence()(replace(train, network=twice), failures).numpy(), expected, atol=1e-14, rtol=0)


def test_self_confidence_is_relative_to_the_best_attainable():
    x, y, network = regression()
    found = SelfConfidence()(factor(network, x, y), factor(network, x, y))
    assert_close(found, 1 - torch.exp(-0.5 * (y[:, 0] / 0.5) ** 2), atol=1e-14, rtol=0)
    network = Network.of(nn.Linear(4, 2, dtype=torch.float64), Bernoulli())
    y = (y > torch.tensor([0.0, 1.0])).double()
    p = torch.where(y > 0, 1.0, 0.0) - network.outputs(network.params, x).sigmoid()
    found = SelfConfidence()(factor(network, x, y), factor(network, x, y))
    assert_close(found, 1 - (1 - p.abs()).prod(1), atol=1e-14, rtol=0)


def test_a_fit_as_good_as_can_be_is_not_suspicious_below_zero():
    """Rounding in float32 can put log p above its ceiling."""
    x, _, network = regression(dtype=torch.float32)
    network = replace(network, likelihood=Gaussian(sigma=0.3))
    y = torch.zeros(len(x), 1)
    assert (SelfConfidence()(factor(network, x, y), factor(network, x, y)) >= 0).all()


@pytest.mark.parametrize("of", [Given, Oracle, SelfConfidence])
def test_numbers_from_elsewhere_are_one_each_and_finite(of):
    train, failures, _ = world(30)
    values = np.linspace(0, 1, 30)
    values.flags.writeable = False
    expected = 1 - values if of is SelfConfidence else values
    for given in (values, torch.as_tensor(values.copy()).requires_grad_(), values.tolist()):
        assert np.array_equal(of(given)(train, failures).numpy(), expected)
    with pytest.raises(BadInput, match=r"has shape \[29\], train has 30 examples; .*; give one each"):
        of(values[1:])(train, failures)
    with pytest.raises(BadInput, match=r"has shape \[30, 1\]"):
        of(values[:, None])(train, failures)
    with pytest.raises(BadInput, match="cannot be read as numbers"):
        of(["high"] * 30)(train, failures)
    for bad in (np.nan, np.inf):
        with pytest.raises(NonFinite, match=rf"is {bad}; \w+\[3\]; give a finite number"):
            of(np.where(np.arange(30) == 3, bad, values))(train, failures)


def test_probabilities_are_probabilities():
    train, failures, _ = world(30)
    with pytest.raises(BadInput, match=r"probability holds 1.5; SelfConfidence\[2\]"):
        SelfConfidence(np.where(np.arange(30) == 2, 1.5, 0.5))(train, failures)


def test_scores_given_are_copied():
    train, failures, _ = world(30)
    values = np.zeros(30)
    found = Given(values)(train, failures)
    values[0] = 1
    assert found[0] == 0


# --- laws of every scorer ------------------------------------------------------------------------

SCORERS = {
    "loss": Loss(),
    "self-confidence": SelfConfidence(),
    "random": Random(3),
    "given": Given(np.arange(30)),
    "l-RelatIF": RelatIF(Kronecker(GGN(), prior=0.1)),
    "θ-RelatIF": RelatIF(Dense(GGN(), prior=0.1), "parameters"),
    "Shapley": Shapley(5),
    "sufficiency": Sufficiency(Kronecker(GGN(), prior=0.1)),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_repeats_itself_whatever_the_batch(name):
    train, failures, network = world(30)
    before = {k: v.clone() for k, v in network.params.items()}
    first, again = (SCORERS[name](train, failures) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (30,)
    assert all(torch.equal(before[k], network.params[k]) for k in before)
    for batch in (1, 4, 1000):
        other = SCORERS[name](replace(train, batch=batch), replace(failures, batch=batch))
        assert_close(other, first, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", SCORERS)
def test_identify_takes_a_scorer(name):
    train, failures, network = world(30)
    pairs = [data.examples.fetch(0, len(data)) for data in (train, failures)]
    model = network.module_with(network.params, network.module)
    for p in model.parameters():
        p.requires_grad_()
    found = amends.identify(model, *pairs, method=SCORERS[name], batch_size=7, progress=False)
    assert_close(torch.as_tensor(found.scores), SCORERS[name](train, failures).double(), atol=1e-12, rtol=1e-10)
