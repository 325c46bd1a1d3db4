"""Scores that need no edit: blind to the failures, or knowing the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput
from amends.factor import Factor

SALT = 20221  # so that a data set made with the same seed does not share its draws


@dataclass(frozen=True)
class Loss:
    """−log p(z|θ̂): what a label cleaner looks at."""

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return -train.per_example(train.network.params)


@dataclass(frozen=True)
class Random:
    """A control."""

    seed: int = 0

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return torch.as_tensor(np.random.default_rng([self.seed, SALT]).random(len(train)))


@dataclass(frozen=True)
class Oracle:
    """The truth about which examples were damaged, where an experiment knows it."""

    truth: Any

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        truth = torch.as_tensor(np.asarray(self.truth, dtype=np.float64))
        if truth.shape != (len(train),):
            raise BadInput(
                f"truth has shape {list(truth.shape)}, train has {len(train)} examples; oracle; give one each"
            )
        return truth
