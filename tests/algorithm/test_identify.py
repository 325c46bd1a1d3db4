"""Scores of the training examples, by whatever method is passed."""

from __future__ import annotations

import numpy as np
import pytest

import amends
from amends.methods.ratio import first_order, label_part
from tests.worlds import turned_corner


@pytest.fixture(scope="module")
def world():
    return turned_corner()


def test_a_method_by_name_hears_nobody(world):
    net, train, failures, _, _ = world
    influence = amends.identify(net, train, failures, method=amends.methods.grad_dot())
    assert influence.heard == ()
    assert influence.unseen is None


def test_a_method_scores_by_what_it_says(world):
    net, train, failures, _, _ = world
    influence = amends.identify(net, train, failures, method=amends.methods.ewc()._replace(score=label_part))
    part, whole = (score(influence.start, influence.edited, influence.train).numpy() for score in (label_part, first_order))
    assert np.array_equal(influence.scores, part)
    assert not np.allclose(part, whole, atol=0.1)
