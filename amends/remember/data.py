"""The data itself: climbing what is left of it is fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

from amends.curvature import Isotropic
from amends.errors import at_least
from amends.evidence.factor import Factor
from amends.posteriors import Anchored
from amends.remember.laplace import Laplace


@dataclass(frozen=True)
class Data:
    """D as evidence, with an L2 pull to the start where `pull` is positive (Zhu et al. 2020)."""

    pull: float = 0.0

    def __post_init__(self) -> None:
        at_least("fine_tune", pull=(self.pull, 0.0))

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Anchored:
        gaussian = Laplace(Isotropic(self.pull))(train) if self.pull > 0 else None
        return Anchored(train.network.params, data=train, gaussian=gaussian)
