"""A share of the mean curvature added in every direction, so that no direction is next to flat."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amends.curvature.dense import Dense, DensePrecision
from amends.curvature.diagonal import Diagonal, DiagonalPrecision
from amends.curvature.kronecker import EKFAC, Kronecker, KroneckerPrecision
from amends.factor import Factor
from amends.params import Params


@dataclass(frozen=True)
class Damped:
    """λ is raised by `relative` times the mean of the diagonal.

    The inverse of a measured curvature is ruled by its smallest values, which are the least well
    known: without damping, linear influence is mostly their noise.
    """

    inner: Diagonal | Kronecker | EKFAC | Dense
    relative: float = 0.1

    def __call__(self, factor: Factor, theta: Params) -> DiagonalPrecision | KroneckerPrecision | DensePrecision:
        found = self.inner(factor, theta)
        prior = found.prior + self.relative * found.mean
        if isinstance(found, KroneckerPrecision):
            return replace(found, prior=prior, rest=replace(found.rest, prior=prior))
        return replace(found, prior=prior)
