"""Which wrong labels stand behind the failures that are shown: by a count after the other, and in a search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import amends
from amends.committee.excess import Excess, RightLabels
from amends.committee.relevance import CONCENTRATIONS, relevance
from amends.data import flip_labels
from amends.evaluation.rankings import average_precision
from tests.worlds import TRAINED, digits, learned, sorted_out


def urn(kinds, called):
    """Failures come one after the other. Each is called a class by how many before it were and, as heavy as a of them,
    by the shares of D."""
    shares = {c: np.mean(kinds == c) for c in np.unique(kinds)}
    likely = dict.fromkeys(CONCENTRATIONS, 1.0)
    for a in CONCENTRATIONS:
        for i, c in enumerate(called):
            likely[a] *= (np.sum(called[:i] == c) + a * shares[c]) / (i + a)
    total = sum(likely.values())
    return {
        c: sum(likely[a] / total * (np.sum(called == c) + a * shares[c]) / (len(called) + a) for a in CONCENTRATIONS)
        / shares[c]
        for c in shares
    }  # fmt: skip


@pytest.mark.parametrize("called", [[2], [0, 0, 0, 0, 3], [0, 1, 2, 3, 3, 1], [3] * 40])
def test_it_is_the_next_draw_from_an_urn(called):
    kinds, called = np.repeat(np.arange(4), [10, 20, 30, 40]), np.array(called)
    for hardly in (1.0, 0.05):
        wanted = {c: min(1.0, share / hardly) for c, share in urn(kinds, called).items()}
        assert relevance(kinds, called, hardly) == pytest.approx(wanted, rel=1e-9)


def test_few_that_are_alike_tell_more_than_few_that_differ():
    kinds = np.arange(1000) % 10
    alike, mixed, one = (relevance(kinds, np.array(c), 0.05) for c in ([7] * 6, [7, 1, 4, 2, 9, 5], [7]))
    assert alike[7] == mixed[7] == one[7] == 1.0
    assert alike[3] < 0.4
    assert mixed[3] == one[3] == 1.0
    assert relevance(kinds, np.repeat(7, 200), 0.05)[3] < 0.01
    assert set(relevance(kinds, kinds, 0.05).values()) == {1.0}


def test_classes_that_d_does_not_have_say_nothing():
    assert set(relevance(np.array([0, 0, 1]), np.array([5, 5, 5]), 0.05).values()) == {1.0}


def test_only_the_learned_loss_is_asked_for_its_failures():
    """An edit's scores know the failures; those of what was learned do not."""
    rng = np.random.default_rng(0)
    kinds, wrong = np.arange(2000) % 2, np.arange(2000) < 400
    scores = torch.tensor(rng.normal(0, 1, 2000) + 8 * wrong)
    right = np.arange(1000) % 2, torch.tensor(rng.normal(0, 1, 1000))
    every = RightLabels(kinds, np.zeros(0, dtype=int), right[0], 0.0)
    some = RightLabels(kinds, np.zeros(0, dtype=int), right[0], 0.0, class_relevance={0: 1.0, 1: 0.0})
    given = scores, torch.zeros(0), right[1]
    assert some.excess(*given).found == every.excess(*given).found
    a, b = every.excess(*given, by_relevance=True), some.excess(*given, by_relevance=True)
    assert (b.confidence[kinds == 1] == 0).all()
    assert (b.confidence[kinds == 0] == a.confidence[kinds == 0]).all()
    assert b.share == pytest.approx(a.share / 2, rel=0.05)
    assert b.found == pytest.approx(a.found / 2, rel=0.05)
    assert b.found / b.standard_error == pytest.approx(a.found / a.standard_error)
    nothing = Excess(0.0, 0.0, 0.0, np.zeros(4)).scaled_by(np.zeros(4))
    assert (nothing.found, nothing.standard_error) == (0.0, 0.0)


def test_the_causes_of_one_kind_of_failure_come_before_other_wrong_labels():
    """Three in ten of every digit are labelled as the next: all of them are not believed, a tenth is asked for."""
    x, y = digits()
    given, wrong = flip_labels(y[TRAINED].numpy(), {(c, (c + 1) % 10): 0.3 for c in range(10)}, 0)
    train = x[TRAINED], torch.tensor(given)
    net = learned(*train)
    (fx, fy), right = sorted_out(net, x, y)
    with torch.no_grad():
        said = net(fx).argmax(1)
    for true, called in ((0, 1), (7, 8)):
        one = (fy == true) & (said == called)
        found = amends.identify(net, train, (fx[one], fy[one]), right)
        assert average_precision(found.scores, wrong & (given == called)) > 0.93
    assert average_precision(amends.identify(net, train, (fx, fy), right).scores, wrong) > 0.93
