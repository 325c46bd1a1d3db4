"""The digits that come with the package."""

from __future__ import annotations

import numpy as np

from amends.data import digits


def test_embedded_digits():
    images, labels = digits()
    assert images.shape == (5000, 28, 28)
    assert np.bincount(labels).tolist() == [500] * 10
