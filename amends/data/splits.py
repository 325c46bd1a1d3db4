"""Random splits that keep the proportions of groups."""

from __future__ import annotations

import numpy as np


def split(groups: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of two parts, each in order; the second holds `fraction` of every group.

    Rounding is carried from group to group, so that the size of the second part is right overall. A
    group of two or more is in both parts unless the fraction is 0 or 1.
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
    """At most `most` of them, drawn at random, in their order."""
    if len(positions) <= most:
        return positions
    return positions[np.sort(np.random.default_rng([seed, 13]).permutation(len(positions))[:most])]


def halves(groups: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two random halves with every group in both, as (a, b) and (b, a); a single example is both halves."""
    a, b = split(groups, 0.5, seed)
    if not len(a) or not len(b):
        a = b = np.arange(len(groups))
    return [(a, b), (b, a)]
