"""Scores that need no edit: blind to the failures, from elsewhere, or knowing the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput, NonFinite, at_least, first_line
from amends.evidence.factor import Factor
from amends.likelihoods import Tokens, probability

SALT = 20221  # so that a data set made with the same seed does not share its draws


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


@dataclass(frozen=True)
class SelfConfidence:
    """1 − p(given label|x): cleanlab's self-confidence, turned so that higher is more suspicious.

    `probability` is that of the given label, one each, from a model that did not train on the
    example: cross-validated, as cleanlab advises, since a model is sure of what it has memorised.
    Without it, the model's own. Other targets than classes: p over the highest it could be; of sequences,
    that of the typical token.
    """

    probability: Any = None

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        if self.probability is not None:
            p = one_each(self.probability, train, "probability", "SelfConfidence")
            outside = ((p < 0) | (p > 1)).nonzero()
            if len(outside):
                i = int(outside[0])
                raise BadInput(
                    f"probability holds {p[i]:g}; SelfConfidence[{i}]; give that of the given label, from 0 to 1"
                )
            return 1 - p
        family = train.network.likelihood.family  # a caller's own loss need not be a log-probability
        log_p = replace(train, network=replace(train.network, likelihood=family)).per_example(train.network.params)
        below = log_p.double() - family.ceiling(train.examples.y).to(log_p.device)
        if isinstance(family, Tokens):
            return 1 - probability(family, below, train.examples.y)
        return -torch.expm1(below.clamp(max=0))


@dataclass(frozen=True)
class Random:
    """A control."""

    seed: int = 0

    def __post_init__(self) -> None:
        at_least("random", seed=(self.seed, 0))

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return torch.as_tensor(np.random.default_rng([self.seed, SALT]).random(len(train)))


@dataclass(frozen=True)
class Given:
    """Scores from elsewhere (kronfluence, TRAK, cleanlab, any array), as they are: higher is harmful."""

    scores: Any

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return one_each(self.scores, train, "scores", "given")


@dataclass(frozen=True)
class Oracle:
    """The truth about which examples were damaged, where an experiment knows it."""

    truth: Any

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        return one_each(self.truth, train, "truth", "oracle")


def one_each(values: Any, train: Factor, what: str, where: str) -> Tensor:
    """A copy in float64, refused unless it is one finite number per training example."""
    try:
        read = values.detach().double().cpu().numpy() if isinstance(values, Tensor) else values
        found = torch.from_numpy(np.array(read, dtype=np.float64))
    except (TypeError, ValueError) as e:
        raise BadInput(f"{what} cannot be read as numbers ({first_line(e)}); {where}; give an array") from e
    if found.shape != (len(train),):
        raise BadInput(f"{what} has shape {list(found.shape)}, train has {len(train)} examples; {where}; give one each")
    bad = (~found.isfinite()).nonzero()
    if len(bad):
        i = int(bad[0])
        raise NonFinite(f"{what} is {float(found[i])}; {where}[{i}]; give a finite number, or drop the example")
    return found
