"""The gradients that orthogonal gradient descent stores."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from amends.remember import Gradients
from tests.conftest import classification, factor


def test_ogd_stores_the_gradient_of_the_label_s_output():
    x, y, network = classification(n=10)
    rows, ids = Gradients(memory=10)(factor(network, x, y)).stored
    for row, i in zip(rows, ids, strict=True):
        at = int(i - ids.min())
        expected = torch.zeros(3, 4, dtype=torch.float64)
        expected[y[at]] = torch.cat([x[at], torch.ones(1, dtype=torch.float64)])
        assert_close(row, torch.cat([expected[:, :-1].reshape(-1), expected[:, -1]]))
    every, _ = Gradients(memory=10, every_output=True)(factor(network, x, y)).stored
    assert every.shape == (30, 12)
