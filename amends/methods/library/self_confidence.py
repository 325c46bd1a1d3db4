"""How sure the model is of the given label, as cleanlab ranks examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from amends.errors import BadInput
from amends.evidence import Factor
from amends.likelihoods import Tokens, probability
from amends.methods.base import Scorer
from amends.methods.library.scores import one_each


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
            p = one_each(self.probability, train, "probability")
            outside = ((p < 0) | (p > 1)).nonzero()
            if len(outside):
                i = int(outside[0])
                raise BadInput(f"probability[{i}] is {p[i]:g}; pass the probability of the given label, from 0 to 1")
            return 1 - p
        family = train.network.likelihood.family  # a caller's own loss need not be a log-probability
        log_p = replace(train, network=replace(train.network, likelihood=family)).per_example(train.network.params)
        below = log_p.double() - family.ceiling(train.examples.y).to(log_p.device)
        if isinstance(family, Tokens):
            return 1 - probability(family, below, train.examples.y)
        return -torch.expm1(below.clamp(max=0))


def self_confidence(probability: Any = None) -> Scorer:
    """1 − p(given label); `probability` takes out-of-sample values, as cleanlab advises."""
    return SelfConfidence(probability)
