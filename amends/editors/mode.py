"""Move a posterior to its new mode: EWC for both steps (Kirkpatrick et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from amends.editors.base import finer
from amends.editors.climb import LBFGS, Adam, Climber
from amends.evidence.factor import Bounded, Factor, Term
from amends.posteriors import Posterior


@dataclass(frozen=True)
class Mode:
    """Climbs log p(S|θ)^w + log q(θ), Eqs. predictive_ewc and deletion_ewc.

    With a quadratic q this is EWC, with predictions it is functional, with D itself it is fine-tuning.
    If evidence is still negative after cancelling, there is no optimum: the path takes the small steps
    of `unlearn`, and the caller decides where it ends. With `bounded` there is one, and `climb` finds it.
    """

    climb: Climber = field(default_factory=LBFGS)
    unlearn: Climber = field(default_factory=lambda: Adam(rate=1e-4, epochs=20, every=5))
    bounded: bool = False

    def __call__(self, posterior: Posterior, factor: Factor) -> Iterator[Posterior]:
        yield posterior
        if not len(factor) and posterior.settled:
            return
        terms = posterior.times(factor)
        climb = self.unlearn if self.unbounded(terms) else self.climb
        if self.bounded:
            terms = [part for t in terms for part in _bounded(t, posterior)]
        for mean in climb(terms, posterior.mean):
            yield posterior.moved(mean, factor)

    def open_ended(self, posterior: Posterior, factor: Factor) -> bool:
        """Whether evidence is deleted that no other evidence cancels."""
        return any(_deletes(t) for t in posterior.times(factor))

    def finer(self) -> Mode | None:
        unlearn = finer(self.unlearn)
        return None if unlearn is None or self.bounded else replace(self, unlearn=unlearn)

    def unbounded(self, terms: list[Term]) -> bool:
        """Whether this editor could climb the terms for ever."""
        return not self.bounded and any(_deletes(t) for t in terms)


def _deletes(term: Term) -> bool:
    weights = getattr(term, "weights", None)
    return weights is not None and bool((weights < 0).any())


def _bounded(term: Term, posterior: Posterior) -> list[Term]:
    if not isinstance(term, Factor) or not _deletes(term):
        return [term]
    parts: list[Term] = [Bounded.at(term.deleted, posterior.mean)]
    return [term.inserted, *parts] if len(term.inserted) else parts
