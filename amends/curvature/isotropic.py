"""No curvature at all: the same precision in every direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from amends.curvature.diagonal import normal_like
from amends.evidence.factor import Factor
from amends.evidence.params import Params, count, scaled


@dataclass(frozen=True, eq=False)
class IsotropicPrecision:
    value: float
    like: Params

    flat = 0

    def __matmul__(self, vector: Params) -> Params:
        return scaled(vector, self.value)

    def solve(self, vector: Params) -> Params:
        return scaled(vector, 1 / self.value)

    def draw(self, generator: Generator) -> Params:
        return {k: normal_like(v, generator) / self.value**0.5 for k, v in self.like.items()}

    def plus(self, other: IsotropicPrecision, sign: float) -> IsotropicPrecision:
        return self

    def scaled(self, by: float) -> IsotropicPrecision:
        return self

    def raised(self, by: float) -> IsotropicPrecision:
        return replace(self, value=self.value + by)

    @property
    def mean(self) -> float:
        return self.value

    def dense(self) -> Tensor:
        first = next(iter(self.like.values()))
        return self.value * torch.eye(count(self.like), dtype=first.dtype, device=first.device)


@dataclass(frozen=True)
class Isotropic:
    """λI for any evidence: an L2 pull to the start, or the plain gradient as a tangent."""

    value: float = 1.0

    def __call__(self, factor: Factor, theta: Params) -> IsotropicPrecision:
        return IsotropicPrecision(self.value, theta)
