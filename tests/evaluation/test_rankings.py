"""Rankings against their textbook definitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from amends.evaluation.rankings import average_precision, precision_at, ranking_area


def test_ranking_figures():
    rng = np.random.default_rng(0)
    truth = rng.random(200) < 0.2
    scores = np.round(rng.random(200) + truth, 1)  # with ties
    distinct = scores + 1e-6 * rng.random(200)
    assert average_precision(distinct, truth) == pytest.approx(average_precision_score(truth, distinct))
    assert ranking_area(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
    assert precision_at(10, distinct, truth) == truth[np.argsort(-distinct)[:10]].mean()
