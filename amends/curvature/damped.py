"""Curvature raised in every direction, so that none is almost flat: by a given amount, or as the data requires."""

from __future__ import annotations

from dataclasses import dataclass

from amends.errors import at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params, dot
from amends.posteriors import Curvature, Precision

LEAST = 1e-3  # of the mean of the diagonal, where training did end at an optimum


@dataclass(frozen=True)
class Damped:
    """λ is raised by `relative` times the mean of the diagonal, or, where that is None, by ‖∇log p(D|θ)‖² / 2 `nats`.

    The inverse of a measured curvature is dominated by its smallest values, which are the least well
    known: without damping, linear influence is mostly their noise. The trust in the quadratic is tested
    at θ̂ itself. Training ended there, so a Newton step with all of D should gain next to nothing; with
    this λ it gains at most `nats`. At an optimum the gradient is zero, and so is λ, except for a
    thousandth of the mean, in case D has no curvature in some direction.
    """

    inner: Curvature
    relative: float | None = None
    nats: float = 10.0

    def __post_init__(self) -> None:
        at_least("solver", damping=(0.0 if self.relative is None else self.relative, 0.0), nats=(self.nats, 1e-12))

    def __call__(self, factor: Factor, theta: Params) -> Precision:
        measured = self.inner(factor, theta)
        if self.relative is not None:
            return measured.raised(self.relative * measured.mean)
        _, left = factor.value_and_grad(theta)
        return measured.raised(max(dot(left, left) / (2 * self.nats), LEAST * measured.mean))
