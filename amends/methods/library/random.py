"""Random scores: a control."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amends.errors import at_least
from amends.evidence import Factor
from amends.methods.base import Scorer

SALT = 20221  # so that a data set made with the same seed does not share its draws


@dataclass(frozen=True)
class Random:
    """A control."""

    seed: int = 0

    def __post_init__(self) -> None:
        at_least("random", seed=(self.seed, 0))

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return torch.as_tensor(np.random.default_rng([self.seed, SALT]).random(len(train)))


def random(seed: int = 0) -> Scorer:
    """A control."""
    return Random(seed)
