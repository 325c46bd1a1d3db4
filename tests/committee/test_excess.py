"""How much of D a score sets apart from right labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from amends.committee import excess
from amends.committee.evaluated import Evaluated
from amends.committee.excess import Excess, RightLabels
from amends.errors import NonFinite
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Gaussian
from tests.committee.worlds import blobs, evidence, fitted
from tests.conftest import factor
from tests.exact import excess as exact


def test_against_one_threshold_after_the_other():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kinds, known_kinds = rng.integers(0, 4, 60), rng.integers(0, 3, 40)
        scores, known = rng.normal(0.7, 1, 60).round(1), rng.normal(0, 1, 40).round(1)  # with ties
        weights = rng.random(40) * (rng.random(40) > 0.2)
        given = scores, kinds, known, known_kinds, weights, {1: 0.1 * seed}
        ours, (share, found, noise, sure) = excess._excess(*given, exact.LEAN), exact.excess(*given)
        assert (ours.share, ours.found, ours.standard_error) == pytest.approx((share, found, noise), abs=1e-12)
        assert ours.confidence == pytest.approx(sure, abs=1e-12)
        assert ours.confidence.max() > 0


def labels(train, failures, right, failing, classes=1):
    kinds = (np.arange(n) % classes for n in (train, failures, right))
    return RightLabels(*kinds, failing)


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.4])
def test_it_is_the_share_that_is_wrong_if_the_score_tells(wrong, classes):
    """A bound from below: nearly reached by a score that separates, and by none exceeded."""
    rng = np.random.default_rng(1)
    right = rng.normal(0, 1, 2000)
    known = torch.tensor(rng.normal(0, 1, 1000))
    shares = {}
    for distance in (0.0, 1.0, 8.0):
        turned = np.arange(2000) % 20 < 20 * wrong
        scores = torch.tensor(np.where(turned, right + distance, right))
        at = labels(2000, 0, 1000, 0.0, classes)
        shares[distance] = at.excess(scores, torch.zeros(0), known).found
        assert 0 <= shares[distance] <= wrong + 0.02
    assert shares[0.0] < 0.03
    assert shares[0.0] < shares[1.0] < shares[8.0]
    assert shares[8.0] == pytest.approx(wrong, abs=0.05)


def test_learned_labels_that_score_too_low_are_raised_by_as_much_as_the_lowest_of_d_show():
    """Right labels of D score three times as high. A fifth of D is wrong and scores far higher, half of these called by
    their written label from the start; failures score anything, and are not compared."""
    rng = np.random.default_rng(3)
    scores, right = rng.exponential(0.3, 20000), torch.tensor(rng.exponential(0.1, 10000))
    wrong = np.arange(20000) % 5 == 0
    scores[wrong] += 5
    agreeing = ~wrong | (np.arange(20000) % 10 == 0)
    at = replace(labels(20000, 50, 10000, 0.1), agreeing=agreeing)
    times = at.raised(torch.tensor(scores), right)
    assert times == pytest.approx(3, rel=0.35), "a little more, since some wrong labels agree"
    assert at.raised(torch.tensor(scores), 30 * right) == 1, "never lowered"
    assert at.raised(torch.tensor(scores), 0 * right) == 1, "nothing to compare with"
    low, raised = (at.excess(torch.tensor(scores), torch.zeros(50), factor * right) for factor in (1, times))
    assert low.share > 0.45
    assert raised.share == pytest.approx(0.2, abs=0.03)
    assert at[np.flatnonzero(~wrong)].raised(torch.tensor(scores[~wrong]), right) == pytest.approx(3, rel=0.05)


def test_more_of_a_class_is_nothing_wrong_with_it():
    """One class scores higher than the other, and D has more of it."""
    rng = np.random.default_rng(2)
    kinds, known_kinds = np.repeat([0, 1], [700, 300]), np.repeat([0, 1], [500, 500])
    scores, known = (torch.tensor(rng.normal(5 - 5 * k, 1)) for k in (kinds, known_kinds))
    nobody = np.zeros(0, dtype=int)
    by_class, as_one = (
        RightLabels(kinds, nobody, known_kinds, 0.0),
        RightLabels(0 * kinds, nobody, 0 * known_kinds, 0.0),
    )
    assert by_class.excess(scores, torch.zeros(0), known).found < 0.03
    assert as_one.excess(scores, torch.zeros(0), known).found > 0.05
    assert by_class.excess(scores, torch.zeros(0), known).confidence.mean() < 0.05


def test_how_many_failures_were_given_does_not_matter():
    """Failures score high although their labels are right; few of them stand for all."""
    rng = np.random.default_rng(3)
    failing, fine = rng.normal(3, 1, 4000), rng.normal(0, 1, 4000)
    scores = torch.tensor(np.concatenate([failing[:200], fine[:800]]))
    for given in (1000, 100, 20):
        at = labels(1000, given, 1000, 0.2)
        known = torch.tensor(failing[1000 : 1000 + given]), torch.tensor(fine[1000:2000])
        assert at.excess(scores, *known).found < 0.03
    light = labels(1000, 20, 1000, 0.02)
    assert light.excess(scores, torch.tensor(failing[1000:1020]), torch.tensor(fine[1000:2000])).found > 0.1


def test_failures_of_one_class_do_not_make_those_of_the_others_wrong():
    """D is clean, a fifth of every class fails, and only failures of one class were given."""
    rng = np.random.default_rng(6)
    kinds = np.arange(5000) % 5
    scores = torch.tensor(np.where(rng.random(5000) < 0.2, rng.normal(3, 1, 5000), rng.normal(0, 1, 5000)))
    failing, fine = torch.tensor(rng.normal(3, 1, 200)), torch.tensor(rng.normal(0, 1, 1000))
    known = (np.zeros(200, dtype=int), np.arange(1000) % 5)
    believed = RightLabels(kinds, *known, 0.2).excess(scores, failing, fine)
    assert believed.found > 0.05
    doubted = RightLabels(kinds, *known, 0.2, dict.fromkeys(range(1, 5), 0.2)).excess(scores, failing, fine)
    assert doubted.found < 0.01


def test_of_a_class_without_a_failure_those_the_model_fails_are_missing():
    """At most as many as fail of D as a whole."""
    x = torch.tensor([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]], dtype=torch.float64).repeat(10, 1)
    y = torch.tensor([0, 1, 2]).repeat(10)
    given = y.clone()
    given[:6] = torch.tensor([0, 1, 0, 0, 1, 1])  # of 0 and of 1 one in eleven is a 2
    plain = nn.Linear(3, 3, bias=False).double()
    nn.init.eye_(plain.weight)
    network = Network.of(plain, Categorical())
    train, failures, right = (factor(network, a, b) for a, b in ((x, given), (x[:1], y[1:2]), (x, y)))
    known = RightLabels.of(*map(Evaluated.of, (train, failures, right)))
    assert known.failing == pytest.approx(2 / 30)
    assert known.missing == pytest.approx({0: 2 / 30, 1: 2 / 30, 2: 0.0})
    assert known.failures.tolist() == [1]


def test_failures_of_every_class_in_one_half_do_not_make_the_other_half_wrong():
    """D is clean; of some classes the only failure given is not among those looked at."""
    rng = np.random.default_rng(8)
    kinds = np.arange(6000) % 6
    scores = torch.tensor(np.where(rng.random(6000) < 0.2, rng.normal(3, 1, 6000), rng.normal(0, 1, 6000)))
    failing, fine = torch.tensor(rng.normal(3, 1, 6)), torch.tensor(rng.normal(0, 1, 1200))
    at = RightLabels(kinds, np.arange(6), np.arange(1200) % 6, 0.2, dict.fromkeys(range(6), 0.2))
    half, right = np.array([0, 2, 4]), np.arange(1200)
    assert at.among(half, right).excess(scores, failing[half], fine).found < 0.02
    believed = RightLabels(kinds, np.arange(6), np.arange(1200) % 6, 0.2).among(half, right)
    assert believed.excess(scores, failing[half], fine).found > 0.03


def test_how_sure_is_the_share_that_is_wrong_of_those_that_score_as_high():
    """Two classes with the same scores where a label is right; of one a third is wrong and scores high."""
    rng = np.random.default_rng(7)
    kinds = np.repeat([0, 1], [1500, 1000])
    wrong = np.arange(2500) < 500
    scores, known = np.where(wrong, rng.normal(3, 0.5, 2500), rng.normal(0, 1, 2500)), rng.normal(0, 1, 1000)
    at = RightLabels(kinds, np.zeros(0, dtype=int), np.arange(1000) % 2, 0.0)
    told = at.excess(torch.tensor(scores), torch.zeros(0), torch.tensor(known))
    assert ((told.confidence >= 0) & (told.confidence <= 1)).all()
    assert told.confidence[wrong].mean() > 0.8
    assert told.confidence[kinds == 1].max() < 0.3, "as high a score says nothing where right labels have it too"
    in_order = np.argsort(scores[kinds == 0])
    assert (np.diff(told.confidence[kinds == 0][in_order]) >= 0).all(), "the higher, the surer"
    for s in (1.0, 2.0):
        higher = (kinds == 0) & (scores >= s)
        assert 0.7 * wrong[higher].mean() < told.confidence[higher].min() < wrong[higher].mean(), "from below"


def test_of_a_class_nobody_knows_a_label_of_one_is_neither_more_nor_less_sure():
    kinds = np.repeat([0, 1], [100, 50])
    scores = torch.cat([torch.linspace(0, 2, 100), torch.linspace(-5, 5, 50)])
    at = RightLabels(kinds, np.zeros(0, dtype=int), np.zeros(80, dtype=int), 0.0)
    told = at.excess(scores, torch.zeros(0), torch.linspace(0, 1, 80))
    assert told.confidence[:100].max() > 0.5
    assert told.confidence[100:] == pytest.approx(told.confidence[:100].mean())
    nobody = RightLabels(kinds, *[np.zeros(0, dtype=int)] * 2, 0.0).excess(scores, torch.zeros(0), torch.zeros(0))
    assert not nobody.confidence.any()


def test_of_several_the_mean_counts():
    parts = [Excess(0.2, 0.1, 0.02, np.array([0.0, 1.0])), Excess(0.3, 0.3, 0.04, np.array([0.5, 1.0]))]
    both = Excess.mean(parts)
    assert (both.share, both.found, both.standard_error) == pytest.approx((0.25, 0.2, 0.03))
    assert both.confidence.tolist() == [0.25, 1.0]


def test_a_score_that_is_not_finite_is_none():
    with pytest.raises(NonFinite, match="not finite; default"):
        labels(10, 0, 10, 0.0).excess(torch.full((10,), np.nan), torch.zeros(0), torch.zeros(10))


def test_of_halves_only_what_is_in_them_counts():
    at = labels(10, 6, 8, 0.5, classes=2).among(np.array([0, 2, 4]), np.array([1, 3]))
    assert at.failures.tolist() == [0, 0, 0]
    assert at.right.tolist() == [1, 1]
    assert (len(at.train), at.failing) == (10, 0.5)


# --- the share of right labels a model fails ------------------------------------------------------------------


@pytest.mark.parametrize("few", [None, 20])
def test_how_sure_the_model_is_tells_what_it_fails(strewn, few):
    net, train, failures, right, _, true = strewn
    with torch.no_grad():
        fails = float((net(train[0]).argmax(1) != true).double().mean())
        disagrees = float((net(train[0]).argmax(1) != train[1]).double().mean())
    share = excess._failing(
        *map(Evaluated.of, evidence(net, train, tuple(v[:few] for v in failures), right)), disagrees, 1.0
    )
    assert disagrees > 0.25 + fails / 3, "most of what it disagrees with is wrong"
    assert share == pytest.approx(fails, abs=0.05)


def test_belief_in_what_confidences_say_grows_with_how_far_they_are_apart(strewn):
    """From no belief, where D is as sure as right ones within noise, to all, and nowhere by a jump."""
    net, train, failures, right, _, _ = strewn
    shares = []
    for few in (4, 8, 16, 32, 64, 128, 256, None):
        sets = evidence(net, train, failures, tuple(v[:few] for v in right))
        shares.append(excess._failing(*map(Evaluated.of, sets), 0.4, 1.0))
    assert shares[0] == 0.4
    assert shares[-1] < 0.25
    assert any(shares[-1] + 0.01 < share < 0.39 for share in shares)


def test_where_d_was_fitted_every_disagreement_is_a_failure():
    x, y, turned = blobs(200, 0, 0.25)
    given = torch.where(turned, 1 - y, y)
    net = fitted(x, given, 64, 60)
    xt, yt, _ = blobs(2000, 1, 0.0)
    with torch.no_grad():
        ok = net(xt).argmax(1) == yt
        disagrees = float((net(x).argmax(1) != given).double().mean())
    assert disagrees > 0
    sets = evidence(net, (x, given), (xt[~ok], yt[~ok]), (xt[ok], yt[ok]))
    assert RightLabels.of(*map(Evaluated.of, sets)).failing == pytest.approx(disagrees)


def test_other_targets_are_of_one_kind():
    network = Network.of(nn.Linear(2, 1).double(), Gaussian(sigma=0.5))
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = x.sum(1, keepdim=True)
    train, failures, right = (
        factor(network, x[a:b], y[a:b], n) for a, b, n in ((0, 10, "a"), (10, 20, "b"), (20, 30, "c"))
    )
    known = RightLabels.of(*map(Evaluated.of, (train, failures, right)))
    assert set(known.train) == set(known.failures) == set(known.right) == {0}
    wrong = 1 - float(network.likelihood.right(train.outputs(network.params), y[:10]).double().mean())
    assert known.failing == pytest.approx(wrong)


def test_soft_labels_beside_hard_ones_are_all_of_one_kind():
    network = Network.of(nn.Linear(2, 3).double(), Categorical())
    x, y = torch.zeros(6, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    sets = [factor(network, x, t) for t in (nn.functional.one_hot(y, 3).double(), y, y)]
    assert all(set(kinds) == {0} for kinds in excess._kinds(*map(Evaluated.of, sets)))
    assert [k.tolist() for k in excess._kinds(*map(Evaluated.of, sets[1:]))] == [y.tolist()] * 2
