"""Edit a mean-field posterior as a whole (Nguyen et al. 2018; deletion: Nguyen et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from amends.editors.base import finer
from amends.editors.climb import LBFGS, Adam, Climber
from amends.errors import BadInput, at_least, kind_of
from amends.evidence.factor import Factor
from amends.posteriors import Divergence, Expected, MeanField, Posterior


@dataclass(frozen=True)
class Variational:
    """Climbs E_q̃ log p(S|θ)^w − KL(q̃ ‖ q) over mean and spread.

    With negative weights this is the evidence upper bound of variational unlearning. It too can be
    climbed too far, since −log p(C|θ) outgrows the divergence, so the path takes small steps.
    """

    draws: int = 8
    climb: Climber = field(default_factory=lambda: LBFGS(steps=40))
    unlearn: Climber = field(default_factory=lambda: Adam(rate=0.003, epochs=100, every=1))
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("vcl", draws=(self.draws, 1))

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        if not isinstance(posterior, MeanField):
            raise BadInput(f"the editor Variational needs a mean-field posterior, got {kind_of(posterior)}; use vcl()")
        yield posterior
        if not len(factor):
            return
        terms = [Divergence(), Expected(factor, posterior.mean, posterior.spread, self.draws, self.seed)]
        climb = self.unlearn if self.open_ended(posterior, factor) else self.climb
        for moved in climb(terms, posterior.start):
            yield posterior.at(moved)

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        return len(factor.deleted) > 0

    def finer(self) -> Variational | None:
        unlearn = finer(self.unlearn)
        return None if unlearn is None else replace(self, unlearn=unlearn)
