"""One finite natural-gradient step: Newton removal (Guo et al. 2020), Eq. koh_data_deletion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from amends.editors.climb import FINER
from amends.errors import BadInput, kind_of
from amends.evidence.factor import Factor
from amends.evidence.params import Params, plus, scaled
from amends.posteriors import Gaussian, Posterior


def natural_gradient(posterior: Posterior, factor: Factor, gamma: float | None) -> Params:
    """γ F̂⁻¹ ∇ log p(S|θ)^w, where F̂ is the mean curvature of the N examples in q. γ = None means 1/N, which is the
    Newton step."""
    _, grad = factor.value_and_grad(posterior.mean)
    gaussian = as_gaussian(posterior)
    whole = gaussian.precision.solve(grad)
    return whole if gamma is None else scaled(whole, gamma * gaussian.count)


def as_gaussian(posterior: Posterior) -> Gaussian:
    if not isinstance(posterior, Gaussian):
        raise BadInput(
            f"a natural gradient needs a Gaussian posterior, got {kind_of(posterior)}; remember with Laplace"
        )
    return posterior


@dataclass(frozen=True)
class Step:
    """θ̂ + γ F̂⁻¹ ∇ log p(S|θ)^w: towards inserted evidence, away from deleted.

    F̂ is the curvature at θ̂ of the data after the edit: for removal that of D∖C, as in Guo et al., so that on a
    quadratic the step ends where training without C would.

    `sizes` are the multiples of γ on the path, smallest first; with more than one, a caller's watch
    chooses among them. The direction is solved for once.
    """

    gamma: float | None = None
    sizes: tuple[float, ...] = (1.0,)

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        if not len(factor):
            return
        after = as_gaussian(posterior).moved(posterior.mean, factor)
        direction = natural_gradient(after, factor, self.gamma)
        for size in self.sizes:
            yield posterior.moved(plus(posterior.mean, direction, size), factor)

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return len(self.sizes) > 1

    def finer(self) -> Step | None:
        return replace(self, sizes=tuple(FINER * s for s in self.sizes)) if len(self.sizes) > 1 else None
