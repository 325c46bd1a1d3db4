"""Scores drawn at random, as a control."""

from __future__ import annotations

import numpy as np
import pytest

from amends.data import flip_labels
from amends.evaluation.rankings import ranking_area
from amends.methods.library.random import Random
from tests.conftest import factor, regression


def test_a_control_does_not_share_its_draws_with_the_data():
    """Flips and random scores of one seed must be independent, or the control would know the truth."""
    x, y, network = regression(n=4000)
    data = factor(network, x, y, batch=4000)
    _, changed = flip_labels(np.zeros(4000, int), {(0, 1): 0.3}, seed=3)
    scores = Random(3)(data, data).numpy()
    assert ranking_area(scores, changed) == pytest.approx(0.5, abs=0.04)
