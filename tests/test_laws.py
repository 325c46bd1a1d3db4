"""Laws of every editor, whatever the method: one parametrised test each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends import methods
from amends.algorithm.identify import identify
from amends.algorithm.treat import treat
from amends.curvature import CG, GGN, Dense, Diagonal, Kronecker
from amends.editors import LBFGS, Adam, FixedPoint, Mode, Newton, Step, Tangent, follow
from amends.evidence.factor import Factor
from amends.evidence.network import Network
from amends.evidence.params import flatten
from amends.methods import Method
from amends.posteriors import Gaussian
from amends.remember import Laplace
from tests.conftest import classification, factor, regression


class Small(nn.Module):
    """Batch norm and dropout, so that mode, buffers and random numbers can be disturbed."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 3, dtype=torch.float64), nn.BatchNorm2d(3, dtype=torch.float64)
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, x):
        return self.out(self.drop(torch.tanh(self.norm(self.conv(x)))).mean((2, 3)))


@pytest.fixture(scope="module")
def world():
    g = torch.Generator().manual_seed(5)
    y = torch.randint(0, 3, (40,), generator=g)
    x = torch.randn(40, 1, 6, 6, generator=g, dtype=torch.float64) + y[:, None, None, None]
    torch.manual_seed(1)
    model = Small()
    for _ in range(30):  # fills the running statistics and brings the weights near a fit
        loss = nn.functional.cross_entropy(model(x[:30]), y[:30])
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, grad in zip(model.parameters(), grads, strict=True):
                p -= 0.1 * grad
    model.train()
    model.out.bias.grad = torch.full((3,), 7.0, dtype=torch.float64)
    return model, (x[:30], y[:30]), (x[30:35], (y[30:35] + 1) % 3), (x[35:], y[35:])


SMALL_ADAM = Adam(rate=1e-3, epochs=3, batch=8, every=2)
SMALLER = {  # options where the defaults take long here, or do not fit so small a network
    "kfac_ewc": {"prior": 0.1},
    "functional": {"strength": 0.5},
    "ogd": {"memory": 10},
    "ensemble": {"samples": 2},
    "linear": {"solver": CG(damping=1.0)},
    "sgd_influence": {"batch": 8},
    "laplace_mc": {"curvature": Diagonal(GGN(), prior=1e4), "draws": 6, "last_layer": False},
    "shapley": {"permutations": 3},
    "fine_tune": {"epochs": 2, "batch": 8},
    "newton": {"solver": CG(damping=1.0)},
    "retrain": {"epochs": 2, "batch": 8, "start": Small()},
}


def made(makers):
    """Every method of the table, so that a new one obeys the laws or fails."""
    return {name: make(**SMALLER.get(name, {})) for name, make in makers.items()}


TREAT = made(methods.TREAT) | {
    "ewc, Adam": methods.ewc(climb=SMALL_ADAM, unlearn=SMALL_ADAM),
    "ewc, early stop": methods.ewc(climb=SMALL_ADAM, hold=0.2),
    "ewc, bounded": methods.ewc(prior=1.0, bounded=True),
    "ewc, fixed point": Method(Laplace(Diagonal(prior=10.0)), Mode(FixedPoint(3), FixedPoint(3))),
    "ewc, Newton": Method(Laplace(Dense(GGN(), prior=5.0)), Mode(Newton(4), SMALL_ADAM)),
    "functional on both": methods.functional(0.5, on_train=True),
    "functional on D with ewc": methods.functional(0.5, on_train=True, on_remaining=False, with_ewc=True),
    "functional on memorable": methods.functional(0.5, memorable=9),
    "fine_tune, pulled": methods.fine_tune(epochs=2, batch=8, pull=3.0, learn=True),
    "fine_tune on failures": methods.fine_tune(epochs=2, batch=8, pull=3.0, learn=True, kept=False),
    "newton, dense": methods.newton(Dense(GGN(), prior=1.0)),
    "newton, Kronecker": methods.newton(Kronecker(prior=1.0)),
    "newton, line search": methods.newton(methods.ekfac(), line_search=True),
    "kfac_ewc, as printed": methods.kfac_ewc(climb=SMALL_ADAM, unlearn=SMALL_ADAM, hold=0.2),
    "ogd, every output": methods.ogd(memory=10, every_output=True, climb=LBFGS(steps=8)),
}
IDENTIFY = (
    made(methods.IDENTIFY)
    | TREAT
    | {f"linear, {name}": methods.linear(make()) for name, make in methods.SOLVERS.items()}
    | {
        "linear, diagonal and gamma": methods.linear(Diagonal(prior=1.0), gamma=0.01),
        "linear, dense and prior": methods.linear(Dense(GGN(), prior=1.0)),
        "linear, gd": methods.linear(methods.gd(tolerance=1e-8)),
        "linear, sa": methods.linear(methods.sa(batch=8, tolerance=0.1)),
        "relatif, parameters": methods.relatif(methods.diagonal(), parameters=True),
        "sgd_influence as published": methods.sgd_influence(batch=8, corrected=False),
        "laplace_mc, last layer, Kronecker": methods.laplace_mc(Kronecker(GGN(), prior=1e3), 6),
        "laplace_mc, first order": methods.laplace_mc(exact=False, draws=4, last_layer=False),
    }
)


def snapshot(model):
    state = {k: v.clone() for k, v in model.state_dict().items()}
    modes = {k: m.training for k, m in model.named_modules()}
    grads = {k: None if p.grad is None else p.grad.clone() for k, p in model.named_parameters()}
    return state, modes, grads, torch.get_rng_state(), np.random.get_state()[1].copy()


def assert_untouched(before, after):
    for old, new in zip(before, after, strict=True):
        if isinstance(old, dict):
            assert old.keys() == new.keys()
            for k in old:
                same = old[k] is new[k] if not isinstance(old[k], torch.Tensor) else torch.equal(old[k], new[k])
                assert same, k
        else:
            assert (torch.as_tensor(old) == torch.as_tensor(new)).all()


@pytest.mark.parametrize("name", IDENTIFY)
def test_identifying_leaves_the_input_untouched_and_repeats_itself(world, name):
    model, train, failures, remaining = world
    before, x = snapshot(model), train[0].clone()
    first = identify(model, train, failures, remaining=remaining, method=IDENTIFY[name], batch_size=7)
    assert_untouched(before, snapshot(model))
    assert torch.equal(train[0], x)
    again = identify(model, train, failures, remaining=remaining, method=IDENTIFY[name], batch_size=7)
    assert np.array_equal(first.scores, again.scores)
    assert first.scores.shape == (30,)
    assert first.scores.dtype == np.float64


@pytest.mark.parametrize("name", TREAT)
def test_treating_leaves_the_input_untouched_and_repeats_itself(world, name):
    model, train, failures, remaining = world
    before = snapshot(model)
    given = {"failures": failures, "remaining": remaining, "method": TREAT[name]}
    first, again = (treat(model, train, [3, 1, 8], **given) for _ in range(2))
    assert_untouched(before, snapshot(model))
    assert first.training
    assert all(p.grad is None for p in first.parameters())
    for a, b, buffer in zip(first.state_dict().values(), again.state_dict().values(), model.state_dict(), strict=True):
        assert torch.equal(a, b)
        if "running" in buffer or "num_batches" in buffer:
            assert torch.equal(a, model.state_dict()[buffer])


@pytest.mark.parametrize("name", IDENTIFY)
def test_the_same_answer_for_any_compute_batch(world, name):
    """float64: sums of a different order differ in the last digits, and an edit magnifies them."""
    model, train, failures, remaining = world
    given = {"remaining": remaining, "method": IDENTIFY[name]}
    rows = [identify(model, train, failures, batch_size=b, **given).scores for b in (3, 64)]
    assert_close(rows[0], rows[1], rtol=1e-6, atol=1e-6 * float(np.abs(rows[1]).max()))


@pytest.mark.parametrize("name", TREAT)
def test_the_same_treatment_for_any_compute_batch(world, name):
    model, train, failures, remaining = world
    given = {"failures": failures, "remaining": remaining, "method": TREAT[name]}
    a, b = (treat(model, train, [3, 1, 8], batch_size=b, **given).state_dict() for b in (3, 64))
    for k in a:
        assert_close(a[k], b[k], rtol=1e-6, atol=1e-7)


SETTLED = [name for name in TREAT if not name.startswith(("default", "fine_tune", "retrain"))]


@pytest.mark.parametrize("name", SETTLED)
def test_empty_evidence_changes_nothing(world, name):
    """Training does not declare this: it goes on learning from D."""
    model, train, _, remaining = world
    treated = treat(model, train, np.zeros(0, dtype=int), remaining=remaining, method=TREAT[name])
    for k, v in model.state_dict().items():
        assert torch.equal(treated.state_dict()[k], v)


def test_fine_tuning_with_nothing_removed_is_a_control_that_moves(world):
    model, train, _, _ = world
    treated = treat(model, train, [], method=methods.fine_tune(epochs=1))
    assert not torch.equal(treated.out.weight, model.out.weight)


QUADRATIC = {
    "mode, Newton": (Mode(Newton(), Newton()), Dense(GGN(), prior=0.7), 1e-11),
    "mode, L-BFGS": (Mode(LBFGS(200, tolerance=1e-12), LBFGS(200, tolerance=1e-12)), Dense(GGN(), prior=0.7), 1e-6),
}


@pytest.mark.parametrize("name", QUADRATIC)
def test_insert_then_delete_is_nothing(name):
    """On a model whose log posterior is quadratic, both edits are exact."""
    editor, curvature, tolerance = QUADRATIC[name]
    x, y, network = regression()
    train, extra = factor(network, x[:50], y[:50]), factor(network, x[50:], y[50:], "failures")
    start = follow(Mode(Newton())(Gaussian(network.params, curvature(train[:0], network.params), curvature, 0), train))
    there = follow(editor(start, extra))
    back = follow(editor(there, -extra))
    assert (flatten(there.mean) - flatten(start.mean)).norm() > 1e-3
    assert_close(back.mean, start.mean, atol=tolerance, rtol=0)
    assert_close(back.precision.dense(), start.precision.dense(), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("editor", [Step(), Tangent()], ids=["step", "tangent"])
def test_a_natural_gradient_asks_for_a_gaussian(editor):
    x, y, network = classification()
    q = methods.functional(on_train=True, on_remaining=False).remember(factor(network, x, y), None)
    with pytest.raises(ValueError, match="needs a Gaussian"):
        follow(editor(q, factor(network, x, y)[:2]))


def test_factors_cancel_by_id():
    x, y, network = classification()
    data = factor(network, x, y)
    kept = data + (-data[[5, 1, 7]])
    assert len(kept) == 57
    assert kept.ids.tolist() == [i for j, i in enumerate(data.ids.tolist()) if j not in (1, 5, 7)]
    theta = network.params
    whole, part = data.value_and_grad(theta), data[[5, 1, 7]].value_and_grad(theta)
    left = kept.value_and_grad(theta)
    assert float(left[0]) == pytest.approx(float(whole[0] - part[0]), abs=1e-10)
    for k in theta:
        assert_close(left[1][k], whole[1][k] - part[1][k])
    both = data + factor(network, x[:4], y[:4], "failures")
    assert len(both) == 64
    assert len(both + (-both)) == 0
    assert (both + (-both)).value_and_grad(theta)[0] == 0.0


class Twice(nn.Module):
    """Autograd hands out one and the same tensor as the gradient of both."""

    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.zeros(3, dtype=torch.float64)) for _ in range(2))

    def forward(self, x):
        return x + (self.a + self.b)


def test_a_gradient_that_two_parameters_share_is_summed_once_for_each():
    x, y, network = classification()
    both = Network.of(Twice(), network.likelihood)
    expected = (nn.functional.one_hot(y, 3) - x.softmax(1)).sum(0)
    _, grad = factor(both, x, y).value_and_grad(both.params)
    for part in grad.values():
        assert_close(part, expected)


def test_scores_come_back_in_the_order_given():
    x, y, network = classification()
    data = factor(network, x, y)
    shuffled = data[torch.randperm(60, generator=torch.Generator().manual_seed(0)).numpy()]
    expected = dict(zip(data.ids, data.per_example(network.params).tolist(), strict=True))
    scores = dict(zip(shuffled.ids, shuffled.per_example(network.params).tolist(), strict=True))
    assert scores == pytest.approx(expected)
    whole = Factor.of(network, data.examples, 1000)
    assert_close(whole.per_example(network.params), data.per_example(network.params))


def test_deleting_an_example_stops_holding_its_prediction():
    x, y, network = classification()
    data = factor(network, x, y)
    q = methods.functional(1.0, on_train=True, on_remaining=False).remember(data, None)
    held = q.times(-data[:10])[1]
    assert len(held) == 50
    assert not np.isin(held.ids, data[:10].ids).any()


def test_a_treated_copy_is_another_object(world):
    model, train, _, _ = world
    treated = treat(model, train, [1])
    assert treated is not model
    assert treated.out.weight.data_ptr() != model.out.weight.data_ptr()
