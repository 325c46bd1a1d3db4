"""Variational continual learning and unlearning (Nguyen et al. 2018; Nguyen et al. 2020)."""

from __future__ import annotations

from amends.editors import Climber, Variational
from amends.methods.base import Method, chosen
from amends.remember import Variational as FittedSpread


def vcl(
    prior: float | None = None,
    draws: int = 8,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    seed: int = 0,
) -> Method:
    """Variational continual learning: a mean-field posterior with its spread fitted, mean and spread
    both edited; deleting is variational unlearning."""
    editor = Variational(draws, seed=seed, **chosen(climb=climb, unlearn=unlearn))
    return Method(FittedSpread(prior, draws, seed=seed), editor)
