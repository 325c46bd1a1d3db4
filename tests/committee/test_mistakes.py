"""Which class is taken for which other: in a fit of its own, and in a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import amends
from amends.committee import decide as committee
from amends.committee.evaluated import Evaluated
from amends.committee.mistakes import Labels, fitted, pair_factor
from amends.data import flip_labels
from amends.evaluation.rankings import average_precision
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Gaussian
from amends.methods.library.loss import LearnedLoss
from amends.settings import DEFAULT
from tests.committee.worlds import blobs
from tests.committee.worlds import fitted as trained
from tests.conftest import factor
from tests.exact.mistakes import mistakes
from tests.worlds import TRAINED, digits, learned, sorted_out

SETTINGS = DEFAULT.identifying.mistakes


def strewn(n, wrong, seed, classes=4):
    """What two members say of labels, one of them much; wrong ones are of class 0 and would be called 1."""
    g = torch.Generator().manual_seed(seed)
    kinds, instead = (torch.randint(classes, (n,), generator=g) for _ in range(2))
    bad = (torch.arange(n) < wrong) & (torch.rand(n, generator=g) < 0.9)
    kinds, instead = torch.where(bad, 0, kinds), torch.where(bad, 1, instead)
    said = torch.randn(n, 2, generator=g, dtype=torch.float64).abs() * torch.tensor([1.0, 0.5])
    said[:, 0] += 2.0 * bad
    return Labels(said, kinds, kinds * classes + instead)


def rows(labels, weights=None, classes=4):
    pairs = zip(labels.scores.numpy(), labels.classes.tolist(), (labels.pairs % classes).tolist(), strict=True)
    return [
        row if weights is None else (*row, float(w)) for row, w in zip(pairs, weights or labels.scores, strict=True)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_effects_are_those_of_another_optimiser(seed):
    train, right = strewn(1500, 250, seed), strewn(500, 0, seed + 10)
    weights = torch.rand(500, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = fitted(train, right, weights, SETTINGS)
    expected = mistakes(rows(train), rows(right, weights.tolist()))
    for (kind, other), effect in expected.items():
        assert found[4 * kind + other] == pytest.approx(effect, abs=1e-4)
    assert found.argmax() == 1, "labels of class 0 that would be called 1"
    assert found.max() > 0.7


def test_what_is_fitted_depends_on_the_settings():
    """Effects are drawn towards zero by their spread; where nothing is wrong they stay there."""
    train, right, weights = strewn(1500, 250, 0), strewn(500, 0, 10), torch.ones(500, dtype=torch.float64)
    usual = fitted(train, right, weights, SETTINGS)
    assert fitted(train, right, weights, replace(SETTINGS, spread=0.1)).abs().max() < 0.2 * usual.abs().max()
    assert fitted(train, right, weights, replace(SETTINGS, steps=1)).max() < 0.9 * usual.max()
    assert_close(fitted(train, right, 7 * weights, SETTINGS), usual)
    assert fitted(strewn(1500, 0, 0), right, weights, SETTINGS).abs().max() < 0.4


def sets_of(net, likelihood, *sets):
    network = Network.of(net, likelihood)
    return [factor(network, x, y, name, batch=64) for name, (x, y) in zip(("d", "f", "r"), sets, strict=False)]


def test_what_the_model_would_give_instead():
    x = torch.eye(3, dtype=torch.float64)
    net = nn.Linear(3, 3, bias=False).double()
    net.weight.data = torch.tensor([[5.0, 1.0, 0.0], [2.0, 3.0, 1.0], [1.0, 2.0, 7.0]]).double()
    (data,) = sets_of(net, Categorical(), (x, torch.tensor([0, 0, 2])))
    assert Evaluated.of(data).other_class().tolist() == [1, 1, 1]
    kept_nothing = replace(Evaluated.of(data), outputs=None)
    assert kept_nothing.other_class().tolist() == [1, 1, 1], "memory decides nothing"
    theta = {"weight": net.weight.detach().flip(1)}
    assert kept_nothing.other_class(theta).tolist() == [2, 1, 0]
    two = sets_of(nn.Linear(3, 2).double(), Categorical(), (x, torch.tensor([0, 1, 0])))[0]
    assert Evaluated.of(two).other_class() is None, "it is the other one"
    number = sets_of(nn.Linear(3, 1).double(), Gaussian(1.0), (x, x[:, :1]))[0]
    assert Evaluated.of(number).other_class() is None


def test_two_classes_are_only_mistaken_for_each_other(monkeypatch):
    x, y, turned = blobs(400, 0, 0.2)
    net, (xt, yt, _) = trained(x, torch.where(turned, 1 - y, y), 0, 200), blobs(600, 1, 0.0)
    with torch.no_grad():
        ok = net(xt).argmax(1) == yt
    said, of = [], committee.pair_factor
    monkeypatch.setattr(committee, "pair_factor", lambda *given: said.append(of(*given)) or said[-1])
    amends.identify(net, (x, torch.where(turned, 1 - y, y)), (xt[~ok], yt[~ok]), (xt[ok], yt[ok]))
    assert said == [None]


def test_labels_that_are_often_mistaken_come_first(monkeypatch):
    """Four in ten sevens are labelled 1 and as many threes 5; other labels are right. Elsewhere nothing changes."""
    x, y = digits()
    given, wrong = flip_labels(y[TRAINED].numpy(), {(7, 1): 0.4, (3, 5): 0.4}, 0)
    train = x[TRAINED], torch.tensor(given)
    net = learned(*train)
    failures, right = sorted_out(net, x, y)
    seen, of = [], committee.pair_factor
    monkeypatch.setattr(committee, "pair_factor", lambda *rest: seen.append(of(*rest)) or seen[-1])
    found = amends.identify(net, train, failures, right)
    times = seen[0].numpy()
    assert times[wrong].mean() > 1.3 > 1.05 > np.mean(times[~wrong])
    monkeypatch.setattr(committee, "pair_factor", lambda *_: None)
    without = amends.identify(net, train, failures, right)
    assert average_precision(found.scores, wrong) >= average_precision(without.scores, wrong)
    up = without.scores > 0
    assert np.allclose(found.scores[up], without.scores[up] * times[up], rtol=1e-5)
    assert (found.scores[~up] == without.scores[~up]).all()


def test_without_right_labels_nothing_is_known_of_mistakes():
    x, y = digits()
    net = learned(x[TRAINED], y[TRAINED])
    failures, right = sorted_out(net, x, y)
    train, f, r = sets_of(net, Categorical(), (x[TRAINED], y[TRAINED]), failures, right)
    given = committee.evidence(train, f, r[:10], 0, DEFAULT.identifying)
    assert pair_factor([], given, DEFAULT.identifying) is None


def test_a_class_whose_right_labels_have_no_weight_is_left_out():
    """Failures have none where the model fits all of D: of a class that is known by them alone nothing is known."""
    x, y = digits()
    given, _ = flip_labels(y[TRAINED].numpy(), {(7, 1): 0.4, (3, 5): 0.4}, 0)
    net = learned(x[TRAINED], torch.tensor(given))
    failures, (rx, ry) = sorted_out(net, x, y)
    sets = sets_of(net, Categorical(), (x[TRAINED], torch.tensor(given)), failures, (rx[ry != 5], ry[ry != 5]))
    known = committee.evidence(*sets, 0, DEFAULT.identifying)
    member = LearnedLoss((amends.methods.fine_tune(2e-3, 3.0),), 4.0)
    times = {}
    for failing in (0.0, 0.2):
        here = replace(known, labels=replace(known.labels, failing=failing))
        tried = [committee.learned(member, here)]
        times[failing] = pair_factor(tried, here, DEFAULT.identifying)[torch.tensor(given == 5)]
    assert (known.labels.failures == 5).any()
    assert (times[0.0] == 1).all()
    assert (times[0.2] != 1).any()
