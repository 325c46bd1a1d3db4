"""The example's own loss, which does not look at the failures."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from amends.evidence import Factor
from amends.methods.base import Scorer


@dataclass(frozen=True)
class Loss:
    """−log p(z|θ̂): what a label cleaner looks at."""

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return -train.per_example(train.network.params)


@dataclass(frozen=True)
class Shortfall:
    """How far log p(z|θ̂) is below the best any outputs could give: of classes the loss; never below 0."""

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        log_p = train.per_example(train.network.params)
        return (train.network.likelihood.ceiling(train.examples.y).to(log_p) - log_p).clamp(min=0)


def loss() -> Scorer:
    """The example's own loss; does not look at the failures."""
    return Loss()
