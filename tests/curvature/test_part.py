"""Curvature of a part of the evidence stands for all of it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from amends.curvature import GGN, Diagonal, Kronecker, Part
from tests.conftest import classification, factor


@pytest.mark.parametrize("shape", [Diagonal, Kronecker])
def test_a_part_stands_for_all_of_the_evidence(shape):
    """A third of the examples, each counted thrice: the whole on average, whatever the evidence weighs."""
    x, y, network = classification()
    data, theta, inner = factor(network, x, y), network.params, shape(GGN())
    assert_close(Part(inner, 60)(data, theta).dense(), inner(data, theta).dense())
    parts = [Part(inner, 20, seed)(data, theta).dense() for seed in range(300)]
    assert any(not torch.allclose(p, parts[0]) for p in parts)
    if shape is Diagonal:  # a mean over draws of the part is the whole; of a product of sums it is not
        whole = inner(data, theta).dense()
        assert_close(torch.stack(parts).mean(0), whole, atol=0.05 * float(whole.max()), rtol=0)  # 300 draws of 20
    twice = Part(inner, 20)(2.0 * data, theta).dense()
    assert_close(twice, 2.0 * parts[0])
