"""A share of the mean curvature, added in every direction, so that no direction is almost flat."""

from __future__ import annotations

from dataclasses import dataclass

from amends.errors import at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.posteriors import Curvature, Precision


@dataclass(frozen=True)
class Damped:
    """λ is raised by `relative` times the mean of the diagonal.

    The inverse of a measured curvature is dominated by its smallest values, which are the least well
    known: without damping, linear influence is mostly their noise.
    """

    inner: Curvature
    relative: float = 0.1

    def __post_init__(self) -> None:
        at_least("solver", damping=(self.relative, 0.0))

    def __call__(self, factor: Factor, theta: Params) -> Precision:
        return self.inner(factor, theta).damped(self.relative)
