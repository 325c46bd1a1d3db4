"""Random splits that keep the proportions of groups."""

from __future__ import annotations

import numpy as np


def split(
    groups: np.ndarray, fraction: float, seed: int, together: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of two parts, each in order; the second holds `fraction` of every group.

    Rounding is carried from group to group, so that the size of the second part is right overall. A
    group of two or more is in both parts unless the fraction is 0 or 1. Examples that have the same number in
    `together` stay together, in the group of their first; each part gets its fraction of such sets too.
    """
    rng, groups = np.random.default_rng(seed), np.asarray(groups)
    alike = np.arange(len(groups)) if together is None else together
    _, heads, back, sizes = np.unique(alike, return_index=True, return_inverse=True, return_counts=True)
    member = np.unique(groups[heads], return_inverse=True)[1].reshape(-1)
    second = np.zeros(len(heads), dtype=bool)
    carry = 0.0
    for g in rng.permutation(member.max(initial=-1) + 1):
        at = rng.permutation(np.flatnonzero(member == g))
        at = at[np.argsort(-sizes[at], kind="stable")]
        total, several = int(sizes[at].sum()), int((sizes[at] > 1).sum())
        wanted = fraction * total + carry
        second[at[:several]] = _dealt(sizes[at[:several]], wanted / total, rng)
        singles = max(0, round(wanted - int(sizes[at] @ second[at])))
        second[at[several : several + singles]] = True
        if 0 < fraction < 1 and len(at) > 1:  # each part gets one at least, a small one
            second[at[min(several, len(at) - 1)]] |= not second[at].any()
            second[at[-1]] &= not second[at].all()
        carry = wanted - int(sizes[at] @ second[at])
    second = second[back.reshape(-1)]
    return np.flatnonzero(~second), np.flatnonzero(second)


def _dealt(sizes: np.ndarray, share: float, rng: np.random.Generator) -> list[bool]:
    """Which of them the second part gets: each in turn goes to the part that is further behind its share. They come
    largest first, so that what is left uneven is small."""
    found, dealt, taken = [], 0, 0
    for size in sizes.tolist():
        dealt += size
        behind = share * dealt - taken - size / 2
        found.append(behind > 0 or (behind == 0 and rng.random() < 0.5))
        taken += size * found[-1]
    return found


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
