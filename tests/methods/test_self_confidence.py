"""Self-confidence is what cleanlab computes, turned round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.errors import BadInput
from amends.evidence import Network
from amends.likelihoods import Bernoulli, Categorical, Custom, Gaussian
from amends.methods.library.self_confidence import SelfConfidence
from tests.conftest import factor, regression
from tests.methods.worlds import world


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


def test_probabilities_are_probabilities():
    train, failures, _ = world(30)
    with pytest.raises(BadInput, match=r"probability\[2\] is 1.5; pass the probability of the given label"):
        SelfConfidence(np.where(np.arange(30) == 2, 1.5, 0.5))(train, failures)
