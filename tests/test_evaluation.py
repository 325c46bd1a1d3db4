"""Figures of merit against their textbook definitions, and r(C) refused when it means nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from amends import methods, selection
from amends.baselines import Oracle, Random
from amends.cli import demo as named
from amends.curvature import GGN, Dense
from amends.curve import CurvePoint, sizes, smallest_good
from amends.data import digits, flip_labels, split
from amends.errors import BadInput, NotConverged
from amends.evaluation import Judged, average_precision, interval, mcnemar, precision_at, ranking_area
from amends.posteriors import Gaussian
from amends.ratio import log_density_ratio
from tests.conftest import factor, regression


def test_ranking_figures():
    rng = np.random.default_rng(0)
    truth = rng.random(200) < 0.2
    scores = np.round(rng.random(200) + truth, 1)  # with ties
    distinct = scores + 1e-6 * rng.random(200)
    assert average_precision(distinct, truth) == pytest.approx(average_precision_score(truth, distinct))
    assert ranking_area(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
    assert precision_at(10, distinct, truth) == truth[np.argsort(-distinct)[:10]].mean()


def test_mcnemar_is_the_binomial_test():
    for fixed, broken in ((10, 2), (3, 3), (0, 7), (25, 11)):
        expected = stats.binomtest(fixed, fixed + broken).pvalue
        assert mcnemar(fixed, broken) == pytest.approx(expected)
    assert mcnemar(0, 0) == 1.0


def test_interval_is_wilsons():
    for hits, n in ((0, 10), (7, 10), (50, 50), (1, 200)):
        expected = stats.binomtest(hits, n).proportion_ci(method="wilson")
        assert interval(hits / n, n) == pytest.approx((expected.low, expected.high), abs=2e-4)


def test_judged_counts():
    judged = Judged(np.array([0, 0, 1, 1], bool), np.array([1, 0, 0, 1], bool))
    assert (judged.fixed, judged.broken) == (1, 1)
    assert judged.summary == {"before": 0.5, "after": 0.5, "n": 4}


def test_selection_is_stable_and_takes_masks():
    scores = np.array([1.0, 3.0, 3.0, -1.0])
    assert selection.top(scores, 3).tolist() == [1, 2, 0]
    assert selection.top(scores, np.int64(1)).tolist() == [1]
    assert selection.positive(scores).tolist() == [1, 2, 0]
    assert selection.fraction(scores, 0.5).tolist() == [1, 2]
    assert selection.indices(np.array([False, True, False, True]), 4).tolist() == [1, 3]
    assert selection.indices(torch.tensor([3, 0, 3]), 4).tolist() == [0, 3]
    assert selection.indices([], 4).tolist() == []


def test_splits_keep_groups_in_proportion_and_lose_nothing():
    groups = np.repeat(["a", "b", "c", "d"], [40, 11, 2, 1])
    first, second = split(groups, 0.5, seed=0)
    assert sorted([*first, *second]) == list(range(54))
    assert abs(len(second) - 27) <= 1
    assert (groups[second] == "a").sum() == 20
    assert (groups[second] == "c").sum() == 1
    assert np.array_equal(split(groups, 0.5, seed=0)[1], second)
    assert not np.array_equal(split(groups, 0.5, seed=1)[1], second)


def test_flips_follow_the_confusion_matrix():
    y = np.repeat(np.arange(3), 4000)
    flipped, changed = flip_labels(y, {(0, 1): 0.3, (0, 2): 0.2, (2, 0): 0.5}, seed=0)
    assert np.array_equal(changed, flipped != y)
    assert ((y == 0) & (flipped == 1)).sum() == pytest.approx(1200, abs=100)
    assert ((y == 0) & (flipped == 2)).sum() == pytest.approx(800, abs=100)
    assert (flipped[y == 1] == 1).all()


def test_a_control_does_not_share_its_draws_with_the_data():
    """Flips and random scores of one seed must be independent, or the control would know the truth."""
    x, y, network = regression(n=4000)
    data = factor(network, x, y, batch=4000)
    _, changed = flip_labels(np.zeros(4000, int), {(0, 1): 0.3}, seed=3)
    scores = Random(3)(data, data).numpy()
    assert ranking_area(scores, changed) == pytest.approx(0.5, abs=0.04)


def test_oracle_wants_one_truth_each():
    x, y, network = regression()
    with pytest.raises(BadInput, match="truth has shape"):
        Oracle(np.ones(3))(factor(network, x, y), factor(network, x, y))


def test_embedded_digits():
    images, labels = digits()
    assert images.shape == (5000, 28, 28)
    assert np.bincount(labels).tolist() == [500] * 10


def point(removed, query, guard):
    return CurvePoint("causes", removed, query, None, guard, None, {})


def test_the_smallest_good_removal():
    curve = [point(10, 0.3, 1.0), point(20, 0.7, 0.99), point(30, 0.705, 0.99), point(40, 0.9, 0.9)]
    chosen = smallest_good(curve, least=0.98)
    assert chosen is not None
    assert chosen.removed == 20
    assert smallest_good(curve, least=1.1) is None
    assert sizes(100, 7) == [2, 5, 7]
    assert sizes(100, 0) == []


def test_a_useless_estimate_is_refused():
    """Deleting most of the data from its own posterior: 1/p(C|θ) is carried by a few draws."""
    x, y, network = regression(n=40)
    data = factor(network, x, y)
    curvature = Dense(GGN(), prior=0.7)
    q = Gaussian(network.params, curvature(data, network.params), curvature, 40).sampled(200)
    with pytest.raises(NotConverged, match="of 200 draws carry"):
        log_density_ratio(q, q, data[:38])
    assert log_density_ratio(q, q, data[:1]).value == pytest.approx(0.0, abs=1e-12)


def test_the_command_line_knows_every_method_that_identifies():
    assert set(named.IDENTIFY) == set(methods.IDENTIFY)
    assert set(named.TREAT) == set(methods.TREAT)
    assert set(named.SOLVERS) == set(methods.SOLVERS)
