"""What predictions are held on."""

from __future__ import annotations

import numpy as np

from amends import methods
from tests.conftest import classification, factor


def test_memorable_examples_are_those_nearest_to_a_boundary():
    x, y, network = classification(n=60)
    data = factor(network, x, y)
    q = methods.functional(1.0, on_remaining=False, memorable=9).remember(data, None)
    assert len(q.inputs) == 9
    p = network.module(x).softmax(1)
    trace = (p * (1 - p)).sum(1).detach().numpy()
    for label in range(3):
        own = np.flatnonzero(y.numpy() == label)
        chosen = np.flatnonzero(np.isin(data.ids, q.inputs.ids) & (y.numpy() == label))
        assert set(chosen) == set(own[np.argsort(-trace[own])[:3]])
