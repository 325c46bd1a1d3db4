"""How much to remove: accuracy over the size of C, with the controls that tell effect from luck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from amends.evaluation import right
from amends.factor import Factor
from amends.params import Params

CAUSES, RANDOM, NOTHING = "causes", "random", "nothing"
ROUNDING = 1e-9  # a share exactly at its floor is not below it
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True)
class CurvePoint:
    """Shares right after treating with `removed` examples gone, chosen `by` causes or a control."""

    by: str
    removed: int
    query: float
    holdout: float | None
    guard: float | None
    remaining: float | None
    theta: Params
    kept: tuple[float, ...] = ()


def share(data: Factor | None, theta: Params) -> float | None:
    return None if data is None or not len(data) else float(right(data, theta).mean())


@dataclass(frozen=True, eq=False)
class Curve:
    """Treats with the first k of an order, for several k, and looks at every set.

    `query` and `guard` choose; `holdout` and `remaining` only judge, and are shown.
    """

    treat: Callable[[np.ndarray], Params]
    order: np.ndarray
    query: Factor
    holdout: Factor | None
    guard: Factor | None
    remaining: Factor | None
    keep: tuple[Factor, ...] = ()
    seed: int = 0

    def at(self, causes: np.ndarray, by: str) -> CurvePoint:
        theta = self.treat(causes)
        seen = (share(f, theta) for f in (self.query, self.holdout, self.guard, self.remaining))
        query, holdout, guard, remaining = seen
        kept = tuple(float(right(f, theta).mean()) for f in self.keep)
        return CurvePoint(by, len(causes), float(query or 0.0), holdout, guard, remaining, theta, kept)

    def nothing(self) -> CurvePoint:
        return self.at(self.order[:0], NOTHING)

    def causes(self, sizes: Sequence[int]) -> Iterator[CurvePoint]:
        for k in sizes:
            yield self.at(self.order[:k], CAUSES)

    def random(self, sizes: Sequence[int]) -> Iterator[CurvePoint]:
        """The same numbers, drawn without looking: what removing anything at all would do."""
        drawn = np.random.default_rng([self.seed, 77]).permutation(len(self.order))
        for k in sizes:
            yield self.at(drawn[:k], RANDOM)


def sizes(n: int, most: int) -> list[int]:
    """Counts to try: shares of D, no more than have a positive score."""
    return sorted({min(max(1, round(s * n)), most) for s in SHARES if most > 0})


def smallest_good(points: Sequence[CurvePoint], least: float, least_kept: Sequence[float] = ()) -> CurvePoint | None:
    """The smallest removal within noise of the best on the query, among those that leave at least
    `least` of the guard right, and of each further set its own least."""
    safe = [
        p
        for p in points
        if (p.guard is None or p.guard >= least - ROUNDING)
        and all(share >= low - ROUNDING for share, low in zip(p.kept, least_kept, strict=True))
    ]
    if not safe:
        return None
    best = max(safe, key=lambda p: p.query)
    return min((p for p in safe if p.query >= best.query - _noise(points)), key=lambda p: p.removed)


def _noise(points: Sequence[CurvePoint]) -> float:
    """Half the typical step between neighbours stands in for the noise of a refit; at least one point."""
    steps = np.abs(np.diff([p.query for p in points]))
    return max(0.01, float(np.median(steps)) / 2 if len(steps) else 0.0)
