"""Scores of the training examples, by whatever method is passed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import amends
from amends.methods.ratio import first_order, label_part
from tests.worlds import lines, turned_corner


@pytest.fixture(scope="module")
def world():
    return turned_corner()


def test_a_method_by_name_hears_nobody(world):
    net, train, failures, _, _ = world
    influence = amends.identify(net, train, failures, method=amends.methods.grad_dot())
    assert influence.members == ()
    assert influence.unseen is None


def test_a_method_scores_by_what_it_says(world):
    net, train, failures, _, _ = world
    influence = amends.identify(net, train, failures, method=amends.methods.ewc()._replace(score=label_part))
    part, whole = (
        score(influence.start, influence.edited, influence.train).numpy() for score in (label_part, first_order)
    )
    assert np.array_equal(influence.scores, part)
    assert not np.allclose(part, whole, atol=0.1)


def test_a_model_that_is_right_about_nothing_can_be_asked():
    net, (x, y), failures, _ = lines()
    influence = amends.identify(net, (x, (y + 1) % 3), failures)
    assert np.isfinite(influence.scores).all()
    assert sum(h.weight for h in influence.members) == pytest.approx(1)


def test_a_tangent_leans_towards_the_failures_without_running_away():
    """Its direction has no length of its own, so what is suggested must not depend on one."""
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
    model = nn.Linear(1, 1, dtype=torch.float64)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(0.0)
    failures = (x[:8], x[:8] + 3)
    for method in (amends.methods.grad_dot(), amends.methods.linear()):
        influence = amends.identify(model, (x, x), failures, method=method, likelihood=amends.likelihoods.Gaussian())
        suggested = np.array(influence.frame().sort_values("index")["suggested"].tolist()[:8])
        target = (x[:8, 0] + 3).numpy()
        assert np.abs(suggested - target).mean() < 2.0, "nearer than before"
