"""Known damage to a data set: the damaged data, and what was changed in it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def flip_labels(y: np.ndarray, confusion: Mapping[tuple[int, int], float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels where, for every (a, b), a share of class a is called b, and a mask of those changed."""
    rng = np.random.default_rng(seed)
    flipped, draw = np.array(y), rng.random(len(y))
    for source in sorted({a for a, _ in confusion}):
        low = np.zeros(len(y))
        for (a, b), share in confusion.items():
            if a == source:
                flipped[(y == a) & (draw >= low) & (draw < low + share)] = b
                low = low + share
    return flipped, flipped != y
