"""How many to remove: accuracy for several sizes of C, and the controls that separate an effect from luck."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from amends.algorithm.objective import Objective
from amends.algorithm.sets import Outcome, Sets
from amends.distributed.group import dealt
from amends.evaluation.predictions import right
from amends.evidence.factor import Factor
from amends.evidence.params import Params, large

CAUSES, RANDOM, NOTHING = "causes", "random", "nothing"
LEARNED = "causes, failures learned"
ROUNDING = 1e-9  # a share exactly at its floor is not below it


@dataclass(frozen=True, eq=False)
class Fit:
    """One treated model. `query`, `guard` and `kept` choose; `holdout` and `remaining` judge, come from its `outcome`,
    and are not looked at before the choice is made."""

    theta: Params
    query: float
    guard: float | None
    kept: tuple[float, ...] = ()
    holdout: float | None = None
    remaining: float | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, eq=False)
class CurvePoint:
    """The model treated with `removed` examples gone, chosen `by` causes or a control: one fit, or several with
    different random numbers. An accuracy is the mean over the fits."""

    by: str
    removed: int
    fits: tuple[Fit, ...]

    @property
    def theta(self) -> Params:
        return self.fits[0].theta

    def mean(self, name: str) -> float | None:
        values = [getattr(f, name) for f in self.fits]
        return None if values[0] is None else float(np.mean(values))

    @property
    def query(self) -> float:
        return self.mean("query") or 0.0

    @property
    def guard(self) -> float | None:
        return self.mean("guard")

    @property
    def holdout(self) -> float | None:
        return self.mean("holdout")

    @property
    def remaining(self) -> float | None:
        return self.mean("remaining")

    @property
    def kept(self) -> tuple[float, ...]:
        return tuple(np.mean([f.kept for f in self.fits], axis=0).tolist())

    def row(self) -> dict[str, Any]:
        """For a table: means, and the band from the lowest fit to the highest."""
        names = ("query", "holdout", "guard", "remaining")
        row: dict[str, Any] = {"by": self.by, "removed": self.removed, **{n: self.mean(n) for n in names}}
        for name in names:
            values = [getattr(f, name) for f in self.fits]
            row |= {f"{name}_{end}": None if values[0] is None else float(best(values))
                    for end, best in (("low", min), ("high", max))}  # fmt: skip
        return row | {"refits": len(self.fits)}


def share(data: Factor | None, theta: Params) -> float | None:
    return None if data is None or not len(data) else float(right(data, theta).mean())


@dataclass(frozen=True, eq=False)
class Curve:
    """Treats the model with the first k examples of an order removed, for several k, with one fit or more each."""

    treat: Callable[[np.ndarray, int, Params | None], Params]  # (causes, which refit, where it begins) → weights
    refits: int
    order: np.ndarray
    query: Factor
    guard: Factor | None
    keep: tuple[Factor, ...] = ()
    seed: int = 0
    known: Mapping[int, Fit] = field(default_factory=dict)  # first fits that were made before, by the number removed
    begun: Mapping[int, CurvePoint] = field(default_factory=dict)  # points whose fits go on, by the number removed

    def empty(self, by: str, size: int) -> CurvePoint:
        """A point with the fits that were made before; `filled` makes the others."""
        return CurvePoint(by, size, tuple(self.known[k] for k in (size,) if k in self.known and by != RANDOM))

    def at(self, by: str, size: int) -> CurvePoint:
        """A point with all its fits."""
        return filled([(self, self.empty(by, size))])[0]

    def lacking(self, point: CurvePoint) -> list[Callable[[], Fit]]:
        """Functions that make the fits a point still lacks. Each fit of a random control has a draw of its own. The
        i-th fit continues the i-th one of the point that was begun."""
        size, made, by_chance = point.removed, len(point.fits), point.by == RANDOM
        several = self._drawn(size) if by_chance else [self.order[:size]] * self.refits
        begun = () if by_chance or size not in self.begun else self.begun[size].fits
        starts = [fit.theta for fit in begun] + [None] * self.refits
        fits = zip(several, range(self.refits), starts, strict=False)
        return [partial(self.fit, *each) for each in fits][made:]

    def fit(self, causes: np.ndarray, number: int, start: Params | None = None) -> Fit:
        return self.seen(self.treat(causes, number, start))

    def seen(self, theta: Params) -> Fit:
        """A model with the accuracies it may be chosen by."""
        kept = tuple(float(right(f, theta).mean()) for f in self.keep)
        made = Fit(theta, share(self.query, theta) or 0.0, share(self.guard, theta), kept)
        return replace(made, theta={k: v.cpu() for k, v in theta.items()}) if large(theta) else made

    def nothing(self) -> CurvePoint:
        return self.at(NOTHING, 0)

    def causes(
        self, sizes: Sequence[int], good: Callable[[CurvePoint, Sequence[CurvePoint]], bool], patience: int
    ) -> list[CurvePoint]:
        """Points from the smallest size up, until `patience` of them in a row are not `good`."""
        points: list[CurvePoint] = []
        bad = 0
        for k in sizes:
            points.append(self.at(CAUSES, k))
            bad = 0 if good(points[-1], points) else bad + 1
            if bad == patience:
                break
        return points

    def _drawn(self, size: int) -> list[np.ndarray]:
        """As many examples, drawn at random: what removing any examples would do."""
        rng = np.random.default_rng([self.seed, 77, size])
        return [rng.permutation(np.sort(self.order))[:size] for _ in range(self.refits)]


def filled(points: Sequence[tuple[Curve, CurvePoint]]) -> list[CurvePoint]:
    """Points of curves with all their fits, which several processes share."""
    lacking = [curve.lacking(point) for curve, point in points]
    with points[0][0].query.network.in_step() if points else nullcontext():
        made = iter(dealt([work for works in lacking for work in works]))
    return [replace(point, fits=(*point.fits, *(next(made) for _ in works)))
            for (_, point), works in zip(points, lacking, strict=True)]  # fmt: skip


def with_outcomes(points: Sequence[CurvePoint], sets: Sets, *, query: bool = False) -> list[CurvePoint]:
    """The same points, judged. With `query`, they also get their accuracy on the query of these sets, where it is not
    the query they were chosen by."""

    def judge(fit: Fit) -> Fit:
        if fit.outcome is not None and not query:
            return fit
        outcome = sets.outcome(fit.theta)
        rest = outcome.remaining
        made = replace(
            fit, outcome=outcome, holdout=outcome.holdout.summary["after"],
            remaining=None if rest is None else rest.summary["after"],
        )  # fmt: skip
        return replace(made, query=outcome.query.summary["after"] or 0.0) if query else made

    return [replace(p, fits=tuple(judge(f) for f in p.fits)) for p in points]


def sizes(shares: Sequence[float], n: int, most: int) -> list[int]:
    """Counts to try: these shares of n, no more than `most`."""
    return sorted({min(max(1, round(s * n)), most) for s in shares if most > 0})


@dataclass(frozen=True)
class Limits:
    """The least accuracy that must be left, where the user sets a limit: on the right examples that guard, on those
    that judge, and on each set to keep, which have `names`."""

    guard: float | None = None
    judge: float | None = None
    keep: tuple[float, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """Which size to take, within the limits."""

    objective: Objective
    limits: Limits

    def worth(self, seen: CurvePoint | Fit) -> float:
        return self.objective.worth(seen.query, seen.guard)

    def safe(self, point: CurvePoint) -> bool:
        """Within the limits: on average over the fits, and in the first, which is the one that would be handed back."""
        least = self.limits.guard
        return all(
            (least is None or seen.guard is None or seen.guard >= least - ROUNDING)
            and all(share >= low - ROUNDING for share, low in zip(seen.kept, self.limits.keep, strict=True))
            for seen in (point, point.fits[0])
        )

    def good(self, point: CurvePoint, points: Sequence[CurvePoint]) -> bool:
        """Safe, and worth as much as any so far."""
        return self.safe(point) and self.worth(point) >= max(self.worth(p) for p in points)

    def best(self, points: Sequence[CurvePoint], shown: int, error: Callable[[CurvePoint], float]) -> CurvePoint | None:
        """Of the sizes that are safe, the one nearest to `shown`, the number of labels shown to be wrong, unless
        another is worth more by a standard error. Without such a number, the size that is worth most, if it is worth
        more than the first point, which removes nothing."""
        nothing, *tried = points
        safe = [p for p in tried if self.safe(p)]
        if not safe:
            return None
        most = max(safe, key=self.worth)
        if not shown:
            return most if self.worth(most) > self.worth(nothing) else None
        nearest = min(safe, key=lambda p: abs(p.removed - shown))
        return most if self.worth(most) > self.worth(nearest) + error(nearest) else nearest
