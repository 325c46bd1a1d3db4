"""Random splits that keep every group in proportion."""

from __future__ import annotations

import numpy as np


def split(groups: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of two parts, the second holding `fraction` of every group, each in order.

    What rounding leaves over is dealt out so that the second part is right as a whole, and a group
    of two or more is in both parts whenever the fraction leaves room for it.
    """
    rng = np.random.default_rng(seed)
    _, member = np.unique(groups, return_inverse=True)
    member = member.reshape(-1)
    second = np.zeros(len(member), dtype=bool)
    carry = 0.0
    for g in rng.permutation(member.max(initial=-1) + 1):
        at = rng.permutation(np.flatnonzero(member == g))
        wanted = fraction * len(at) + carry
        take = int(np.clip(round(wanted), 0, len(at)))
        if 0 < fraction < 1 and len(at) > 1:
            take = int(np.clip(take, 1, len(at) - 1))
        carry = wanted - take
        second[at[:take]] = True
    return np.flatnonzero(~second), np.flatnonzero(second)


def some(positions: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many of them, in their order."""
    if len(positions) <= most:
        return positions
    return positions[np.sort(np.random.default_rng([seed, 13]).permutation(len(positions))[:most])]


def halves(groups: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions: each half beside the other, every group in both; a single example is both."""
    a, b = split(groups, 0.5, seed)
    if not len(a) or not len(b):
        a = b = np.arange(len(groups))
    return [(a, b), (b, a)]
