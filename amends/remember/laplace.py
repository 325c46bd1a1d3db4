"""The Laplace approximation around a trained model, Eq. taylor_expansion."""

from __future__ import annotations

from dataclasses import dataclass

from amends.curvature import Diagonal
from amends.factor import Factor
from amends.posteriors import Curvature, Gaussian


@dataclass(frozen=True)
class Laplace:
    """N(θ̂, (N·F̂ + λI)⁻¹), with the curvature of all of D; λ is the curvature's own prior."""

    curvature: Curvature = Diagonal()  # noqa: RUF009 (frozen, without state)

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Gaussian:
        mean = train.network.params
        return Gaussian(mean, self.curvature(train, mean), self.curvature, float(train.weights.sum()))
