"""The whole matrix, and products without it, against slow loops, for every layer rule."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from amends.curvature import CG, GGN, Dense
from amends.errors import OutOfMemory
from amends.evidence.network import Network
from amends.evidence.params import unflatten
from amends.likelihoods import Categorical
from tests.conftest import factor
from tests.curvature.worlds import CASES, reference, world


@pytest.mark.parametrize("case", CASES)
def test_dense_in_single_precision(case):
    data, x = world(case, torch.float32)
    dense = Dense()(data, data.network.params).dense()
    rows = reference(data, x, "empirical")
    expected = rows.T @ rows
    assert_close(dense.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("case", CASES)
def test_dense_and_matrix_free(case):
    data, x = world(case, torch.float64)
    theta = data.network.params
    rows = reference(data, x, "ggn")
    dense = Dense(GGN())(data, theta)
    assert_close(dense.dense(), rows.T @ rows, rtol=1e-10, atol=1e-12)
    vector = unflatten(torch.randn(rows.shape[1], dtype=torch.float64), theta)
    assert_close(CG()(data, theta) @ vector, dense @ vector, rtol=1e-9, atol=1e-11)


def test_a_matrix_that_is_too_large_is_refused_with_its_size():
    """8 bytes for each of 20,004² numbers."""
    network = Network.of(nn.Linear(5000, 4).double(), Categorical())
    data = factor(network, torch.zeros(2, 5000, dtype=torch.float64), torch.zeros(2, dtype=torch.long))
    with pytest.raises(OutOfMemory, match="of 20004 parameters takes 3 GiB; use Diagonal, Kronecker or CG"):
        Dense()(data, network.params)
