"""Trains from scratch on what is kept of D: the slow reference."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from amends.editors import Afresh
from amends.methods.base import Method
from amends.methods.library.fine_tune import training
from amends.remember import Data


def retrain(
    rate: float = 1e-3,
    epochs: float = 20,
    batch: int = 64,
    start: nn.Module | Mapping[str, Tensor] | None = None,
    seed: int = 0,
) -> Method:
    """From scratch on what is kept: the slow reference. `start` are weights from before training;
    without them every layer draws its own anew."""
    return Method(Data(), Afresh(training(rate, epochs, batch, seed), start, seed))
