"""Curvature as if every example were there several times, or a part of one."""

from __future__ import annotations

from dataclasses import dataclass

from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.posteriors import Curvature, Precision


@dataclass(frozen=True)
class Scaled:
    """The curvature that `inner` measures, times `by`; λ stays."""

    inner: Curvature
    by: float

    def __call__(self, factor: Factor, theta: Params) -> Precision:
        return self.inner(factor, theta).scaled(self.by)
