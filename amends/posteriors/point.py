"""A point estimate: it remembers nothing but its mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params


@dataclass(frozen=True, eq=False)
class Point:
    """q(θ) = δ(θ − mean); as a prior it is flat."""

    mean: Params

    settled = True

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return f(self.mean)[None]

    def times(self, factor: Factor) -> list[Term]:
        return [factor]

    def moved(self, mean: Params, factor: Factor) -> Point:
        return Point(mean)
