"""A Gaussian posterior, and the quadratic it contributes to a log density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params, dot, plus, scaled
from amends.posteriors.base import Curvature, Precision, over_draws


@dataclass(frozen=True, eq=False)
class Quadratic:
    """−½ (θ − centre)ᵀ P (θ − centre), the last two terms of Eq. predictive_ewc."""

    centre: Params
    precision: Precision

    def value_and_grad(self, theta: Params) -> tuple[float, Params]:
        away = plus(theta, self.centre, -1.0)
        pull = self.precision @ away
        return -0.5 * dot(away, pull), scaled(pull, -1.0)

    def hessian(self, theta: Params) -> Tensor:
        return -self.precision.dense()


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, P⁻¹) with the precision of the whole data set, P = N·F̂ + λI.

    An edit only records its evidence in `edits`. Its curvature is measured when the precision is next
    needed, since an editor moves a posterior many times and uses few of them. The curvature of inserted
    evidence is measured at the new mean, that of deleted evidence at the mean before the edit.

    With `decay` γ below 1, every edit first fades what is remembered, P ← γP + P_new (online EWC,
    Schwarz et al. 2018); deleted evidence is subtracted with the same fading.
    """

    mean: Params
    base: Precision
    curvature: Curvature
    count: float
    edits: tuple[tuple[tuple[Factor, Params], ...], ...] = ()
    decay: float = 1.0
    draws: int = 0
    seed: int = 0

    settled = True

    @cached_property
    def precision(self) -> Precision:
        total = self.base
        for edit in self.edits:
            total = self._faded(total)
            for factor, where in edit:
                total = total.plus(self.curvature(factor, where), 1.0 if factor.weights[0] > 0 else -1.0)
        return total

    def left(self, factor: Factor) -> Factor:
        """The evidence, with what it deletes faded by this edit and every edit since the one that inserted it,
        or since the beginning."""
        if self.decay == 1.0 or not len(factor.deleted):
            return factor
        since = np.zeros(len(factor))
        for number, edit in enumerate(self.edits, 1):
            for part, _ in edit:
                if part.weights[0] > 0:
                    since[np.isin(factor.ids, part.ids)] = number
        faded = self.decay ** torch.as_tensor(len(self.edits) + 1 - since)
        return replace(factor, weights=torch.where(factor.weights < 0, faded * factor.weights, factor.weights))

    def _faded(self, precision: Precision) -> Precision:
        return precision if self.decay == 1.0 else precision.scaled(self.decay)

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return over_draws(f, self.mean, lambda noise: self.precision.draw(noise), self.draws, self.seed)

    def sampled(self, draws: int, seed: int = 0) -> Gaussian:
        return replace(self, draws=draws, seed=seed)

    def times(self, factor: Factor) -> list[Term]:
        return [Quadratic(self.mean, self._faded(self.precision)), self.left(factor)]

    def moved(self, mean: Params, factor: Factor) -> Gaussian:
        parts = ((factor.inserted, mean), (self.left(factor).deleted, self.mean))
        edit = tuple((part, at) for part, at in parts if len(part))
        return replace(self, mean=mean, edits=(*self.edits, edit), count=self.count + float(factor.weights.sum()))
