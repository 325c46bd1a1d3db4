"""Deletions of a large network at several step sizes γ: curvature and direction are computed once.

γ scales the quadratic of EWC, and the length of a Newton step. Measuring and inverting the curvature again for each γ
would take minutes.
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

Cache = dict[Any, Any]  # results by name


@dataclass(frozen=True, eq=False)
class Remembered:
    """`Laplace(curvature, gamma=gamma)`, with the curvature of D measured once for each `name`."""

    name: str
    curvature: Curvature
    cache: Cache
    gamma: float | None = None

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        if self.name not in self.cache:
            self.cache[self.name] = Laplace(self.curvature)(train, remaining)
        q = replace(self.cache[self.name], mean=train.network.params)
        if self.gamma is None:
            return q
        factor = 2 / (self.gamma * q.count)
        return replace(q, base=q.base.scaled(factor), curvature=Scaled(q.curvature, factor))


@dataclass(frozen=True, eq=False)
class Steps:
    """`Step`, with the direction of the full Newton step computed once for each `name`."""

    name: str
    step: Step
    cache: Cache

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        after = as_gaussian(posterior).moved(posterior.mean, factor)
        if self.name not in self.cache:
            self.cache[self.name] = natural_gradient(after, factor, None)
        whole = 1.0 if self.step.gamma is None else self.step.gamma * after.count
        for size in self.step.sizes:
            yield posterior.moved(plus(posterior.mean, self.cache[self.name], whole * size), factor)

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return self.step.open_ended(posterior, factor)

    def finer(self) -> Steps | None:
        step = self.step.finer()
        return None if step is None else replace(self, step=step)
