"""Some of the examples of a factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import classification, factor


@pytest.mark.parametrize(
    "part", [slice(3, 20), slice(None), slice(-5, None), slice(50, 99), slice(4, 4), slice(2, 40, 3)]
)
def test_a_slice_is_the_positions_in_it(part):
    x, y, network = classification()
    data = factor(network, x, y)[np.random.default_rng(0).permutation(60)]
    data = replace(data, weights=torch.arange(60.0, dtype=torch.float64))
    found, listed = data[part], data[np.arange(60)[part]]
    assert found.ids.tolist() == listed.ids.tolist() == data.ids[part].tolist()
    for one, other in ((found.weights, listed.weights), (found.examples.y, listed.examples.y)):
        assert torch.equal(one, other)
    assert torch.equal(found.per_example(network.params), listed.per_example(network.params))
