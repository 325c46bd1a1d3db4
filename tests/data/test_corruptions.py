"""Labels flipped at a known rate."""

from __future__ import annotations

import numpy as np
import pytest

from amends.data import flip_labels


def test_flips_follow_the_confusion_matrix():
    y = np.repeat(np.arange(3), 4000)
    flipped, changed = flip_labels(y, {(0, 1): 0.3, (0, 2): 0.2, (2, 0): 0.5}, seed=0)
    assert np.array_equal(changed, flipped != y)
    assert ((y == 0) & (flipped == 1)).sum() == pytest.approx(1200, abs=100)
    assert ((y == 0) & (flipped == 2)).sum() == pytest.approx(800, abs=100)
    assert (flipped[y == 1] == 1).all()
