"""Scores that were made elsewhere, and the truth, where an experiment knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput, NonFinite, first_line
from amends.evidence import Factor
from amends.methods.base import Scorer


@dataclass(frozen=True)
class Given:
    """Scores from elsewhere (kronfluence, TRAK, cleanlab, any array), as they are: higher is harmful."""

    scores: Any

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return one_each(self.scores, train, "scores")


@dataclass(frozen=True)
class Oracle:
    """The truth about which examples were damaged, where an experiment knows it."""

    truth: Any

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return one_each(self.truth, train, "truth")


def scores(given: Any) -> Scorer:
    """Scores from elsewhere, one for each training example, higher = more harmful."""
    return Given(given)


def oracle(truth: Any) -> Scorer:
    """For experiments that know the truth."""
    return Oracle(truth)


def one_each(values: Any, train: Factor, name: str) -> Tensor:
    """A copy in float64, refused unless it is one finite number per training example."""
    try:
        read = values.detach().double().cpu().numpy() if isinstance(values, Tensor) else values
        found = torch.from_numpy(np.array(read, dtype=np.float64))
    except (TypeError, ValueError) as e:
        raise BadInput(f"{name} cannot be read as numbers ({first_line(e)}); pass an array of numbers") from e
    if found.shape != (len(train),):
        shape = list(found.shape)
        raise BadInput(f"{name} has shape {shape}, but train has {len(train)} examples; pass one number for each")
    bad = (~found.isfinite()).nonzero()
    if len(bad):
        i = int(bad[0])
        raise NonFinite(f"{name}[{i}] is {float(found[i])}; pass a finite number, or drop the example")
    return found
