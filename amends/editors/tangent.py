"""The infinitesimal edit: linear influence (Koh & Liang 2017), Eq. predictive_point_estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from amends.editors.step import natural_gradient
from amends.evidence.factor import Factor, Term
from amends.evidence.network import derivative
from amends.evidence.params import Params, plus
from amends.posteriors import Posterior


@dataclass(frozen=True, eq=False)
class Linearised:
    """A posterior linearised along a direction v: f(θ) becomes exactly f(mean) + J v."""

    origin: Posterior
    direction: Params

    @property
    def mean(self) -> Params:
        return plus(self.origin.mean, self.direction)

    @property
    def settled(self) -> bool:
        return self.origin.settled

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        value, change = derivative(f, self.origin.mean, self.direction)
        return (value + change)[None]

    def times(self, factor: Factor) -> list[Term]:
        return self.origin.times(factor)

    def moved(self, mean: Params, factor: Factor) -> Posterior:
        return self.origin.moved(mean, factor)


@dataclass(frozen=True)
class Tangent:
    """Along γ F̂⁻¹ ∇ log p(S|θ)^w; an example z then loses −γ ∇log p(F)ᵀ F̂⁻¹ ∇log p(z)."""

    gamma: float | None = None

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        if len(factor):
            yield Linearised(posterior, natural_gradient(posterior, factor, self.gamma))
