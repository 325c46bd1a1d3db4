"""A mean-field Gaussian with a fitted spread, not one from the curvature at a single point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from amends.errors import BadInput
from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params, dot, scaled
from amends.posteriors.base import over_draws
from amends.posteriors.expected import spread_name


@dataclass(frozen=True, eq=False)
class Divergence:
    """−KL(q̃ ‖ q) = Σ −½ν² + ρ − ½(e²ᵖ − 1) of mean-field Gaussians, in the coordinates of `Expected`: ν is
    the shift in units of q's spread, and ρ the log of the ratio of spreads."""

    def value_and_grad(self, theta: Params) -> tuple[float, Params]:
        shift = {k: v for k, v in theta.items() if spread_name(k) in theta}
        ratio = {k: theta[spread_name(k)] for k in shift}
        value = -0.5 * dot(shift, shift)
        value += sum(float((r - 0.5 * (2 * r).expm1()).double().sum()) for r in ratio.values())
        return value, scaled(shift, -1.0) | {spread_name(k): -(2 * r).expm1() for k, r in ratio.items()}

    def hessian(self, theta: Params) -> Tensor:
        return -torch.diag(
            torch.cat([(torch.ones_like(v) if spread_name(k) in theta else 2 * (2 * v).exp()).reshape(-1)
                       for k, v in theta.items()])
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MeanField:
    """N(mean, diag(spread²))."""

    mean: Params
    spread: Params
    draws: int = 0
    seed: int = 0

    settled = True

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return over_draws(f, self.mean, self._deviation, self.draws, self.seed)

    def _deviation(self, noise: torch.Generator) -> Params:
        return {k: s * torch.randn(s.shape, generator=noise, dtype=torch.float64).to(s) for k, s in self.spread.items()}

    def sampled(self, draws: int, seed: int = 0) -> MeanField:
        return replace(self, draws=draws, seed=seed)

    @property
    def start(self) -> Params:
        """The coordinates of this posterior itself: zeros."""
        return {k: torch.zeros_like(v) for name, v in self.mean.items() for k in (name, spread_name(name))}

    def at(self, moved: Params) -> MeanField:
        """The posterior with these coordinates relative to this one."""
        mean = {k: m + self.spread[k] * moved[k] for k, m in self.mean.items()}
        return replace(self, mean=mean, spread={k: s * moved[spread_name(k)].exp() for k, s in self.spread.items()})

    def times(self, factor: Factor) -> list[Term]:
        raise BadInput("a mean-field posterior is edited as a whole; use the editor Variational()")

    def moved(self, mean: Params, factor: Factor) -> MeanField:
        return replace(self, mean=mean)
