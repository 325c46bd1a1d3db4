"""What a model says of a set, asked several times."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from amends.evaluation import predicted as module
from amends.evaluation.predicted import Predicted
from amends.evaluation.predictions import given, predicted, right
from amends.evidence.network import Network
from amends.likelihoods import Categorical, Gaussian
from tests.conftest import factor


class Counting(nn.Linear):
    """Counts the examples it is asked for."""

    seen = 0

    def forward(self, x):
        self.seen += len(x)
        return super().forward(x)


def world(targets, likelihood):
    torch.manual_seed(0)
    network = Network.of(Counting(4, 3), likelihood)
    data = factor(network, torch.randn(50, 4), targets, batch=16)
    network.module.seen = 0  # type: ignore[assignment]
    return data, {k: v + torch.randn_like(v) for k, v in network.params.items()}


@pytest.mark.parametrize(("kept", "times"), [(150, 1), (149, 3)])
def test_a_model_is_asked_once_where_outputs_may_be_kept(kept, times, monkeypatch):
    monkeypatch.setattr(module, "KEPT", kept)
    data, theta = world(torch.randint(0, 3, (50,)), Categorical())
    one = Predicted(data, theta)
    found, classes, outputs = one.right, one.classes, one.outputs
    assert data.network.module.seen == 50 * times
    assert np.array_equal(found, right(data, theta))
    assert np.array_equal(classes, predicted(data, theta))
    assert np.array_equal(found, classes == given(data))
    assert torch.equal(outputs, data.outputs(theta))


def test_what_is_no_class_is_right_by_its_likelihood():
    data, theta = world(torch.randn(50, 3), Gaussian())
    found = Predicted(data, theta).right
    assert np.array_equal(found, right(data, theta))
    assert Predicted(data[:0], theta).right.shape == (0,)
