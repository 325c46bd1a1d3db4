"""What deletions of a large network share over their step size γ: curvature and direction are found once.

γ scales the quadratic of EWC, and the length of a Newton step. To measure the curvature anew for each of them, and to
invert it, would take minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from amends.curvature import Scaled
from amends.editors import Step
from amends.editors.step import as_gaussian, natural_gradient
from amends.evidence import Factor, plus
from amends.posteriors import Curvature, Gaussian, Posterior
from amends.remember import Laplace

Known = dict[Any, Any]  # by what it is: made already


@dataclass(frozen=True, eq=False)
class Remembered:
    """`Laplace(curvature, gamma=gamma)`, with the curvature of D measured by the first that asks by this name."""

    name: str
    curvature: Curvature
    known: Known
    gamma: float | None = None

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        if self.name not in self.known:
            self.known[self.name] = Laplace(self.curvature)(train, remaining)
        q = replace(self.known[self.name], mean=train.network.params)
        if self.gamma is None:
            return q
        by = 2 / (self.gamma * q.count)
        return replace(q, base=q.base.scaled(by), curvature=Scaled(q.curvature, by))


@dataclass(frozen=True, eq=False)
class Steps:
    """`Step`, with the direction of the whole Newton step solved for by the first that asks by this name."""

    name: str
    step: Step
    known: Known

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        after = as_gaussian(posterior).moved(posterior.mean, factor)
        if self.name not in self.known:
            self.known[self.name] = natural_gradient(after, factor, None)
        whole = 1.0 if self.step.gamma is None else self.step.gamma * after.count
        for size in self.step.sizes:
            yield posterior.moved(plus(posterior.mean, self.known[self.name], whole * size), factor)

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return self.step.open_ended(posterior, factor)

    def finer(self) -> Steps | None:
        step = self.step.finer()
        return None if step is None else replace(self, step=step)
