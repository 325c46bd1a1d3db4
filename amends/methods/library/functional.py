"""Functional regularisation: predictions are held, not weights (Titsias et al. 2020; Pan et al. 2020)."""

from __future__ import annotations

from amends.curvature import Diagonal
from amends.editors import LBFGS, Climber, Mode
from amends.methods.base import EXACT, Method, chosen
from amends.remember import Laplace, Predictions


def functional(
    strength: float = 0.01,
    on_train: bool = False,
    on_remaining: bool = True,
    with_ewc: bool = False,
    memorable: int = 0,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    bounded: bool = False,
) -> Method:
    """Holds predictions instead of weights: −β N E KL(old ‖ new) over the chosen inputs.

    `memorable` stands for D by that many of its examples, those nearest to a boundary (Pan et al.
    2020). Unless told otherwise the edit ends after 40 steps: many weights give the same
    predictions, so a longer path gains little and magnifies rounding.
    """
    laplace = Laplace(Diagonal(EXACT)) if with_ewc else None
    remember = Predictions(strength, on_train or memorable > 0, on_remaining, memorable, laplace)
    return Method(remember, Mode(climb or LBFGS(steps=40), bounded=bounded, **chosen(unlearn=unlearn)))
