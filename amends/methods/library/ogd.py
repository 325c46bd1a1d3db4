"""Orthogonal gradient descent (Farajtabar et al. 2020)."""

from __future__ import annotations

from amends.editors import LBFGS, Ascent, Climber, Mode
from amends.methods.base import Method
from amends.remember import Gradients


def ogd(
    memory: int = 200,
    every_output: bool = False,
    climb: Climber | None = None,
    unlearn: Climber | None = None,
    hold: float = 0.2,
    seed: int = 0,
) -> Method:
    """Orthogonal gradient descent: moves only across the gradients of `memory` examples of D.

    Nothing pulls back along the free directions, so a share of the query decides where it ends."""
    editor = Mode(climb or LBFGS(steps=40), unlearn or Ascent(steps=100, stride=0.002))
    return Method(Gradients(memory, every_output, seed), editor, hold)
