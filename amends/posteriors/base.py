"""The protocols that editors rely on: posteriors, precisions, and ways to measure curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Generator, Tensor

from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params, plus


class Posterior(Protocol):
    """q(θ), up to a constant."""

    @property
    def mean(self) -> Params: ...

    @property
    def settled(self) -> bool:
        """Whether the mean is already the mode of this posterior."""
        ...

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        """f(θ), one row per draw; at the mean alone by default."""
        ...

    def times(self, factor: Factor) -> list[Term]:
        """The terms of log q + factor."""
        ...

    def moved(self, mean: Params, factor: Factor) -> Posterior:
        """The posterior after it has taken in `factor`, with this mean."""
        ...


class Precision(Protocol):
    """Σ wᵢ ∇²ᵢ + λI of the whole data set: something you `@`, solve and draw from."""

    def __matmul__(self, vector: Params) -> Params: ...

    def solve(self, vector: Params) -> Params: ...

    def draw(self, generator: Generator) -> Params:
        """One sample of N(0, P⁻¹)."""
        ...

    def plus(self, other: Precision, sign: float) -> Precision:
        """With the other's data added or subtracted, never below λ."""
        ...

    def scaled(self, by: float) -> Precision:
        """As if every example were there `by` times; λ stays."""
        ...

    def raised(self, by: float) -> Precision:
        """With λ raised by so much, in every direction."""
        ...

    @property
    def mean(self) -> float:
        """The mean of the diagonal, without λ."""
        ...

    def dense(self) -> Tensor: ...

    @property
    def flat(self) -> int:
        """How many directions have no curvature from the data."""
        ...


def over_draws(
    f: Callable[[Params], Tensor], mean: Params, deviation: Callable[[Generator], Params], draws: int, seed: int
) -> Tensor:
    """f at the mean, or at `draws` points around it: the same noise for the same seed, before and after an edit."""
    if not draws:
        return f(mean)[None]
    noise = Generator().manual_seed(seed)
    return torch.stack([f(plus(mean, deviation(noise))) for _ in range(draws)])


class Curvature(Protocol):
    """How curvature is measured: the precision of a factor at a point."""

    def __call__(self, factor: Factor, theta: Params) -> Precision: ...
