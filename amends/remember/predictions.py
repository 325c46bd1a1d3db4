"""The model's own predictions on chosen inputs, held by −β N E_x KL(old ‖ new)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from amends.errors import BadInput, at_least
from amends.evidence.factor import Factor
from amends.likelihoods import asked
from amends.posteriors import Anchored
from amends.remember.laplace import Laplace


@dataclass(frozen=True)
class Predictions:
    """Anchors predictions on D, on held-out right examples, or on both; with a Gaussian if given.

    N is the size of D in every case, so that one β means the same strength wherever it is held.
    A model that memorised wrong labels predicts them: anchoring on D then pins the causes too.
    With `memorable`, D is stood for by that many of its examples, the same number of each label:
    those whose outputs have the most curvature, which lie at the boundary and hold it in place
    (Pan et al. 2020).
    """

    strength: float = 0.01
    on_train: bool = False
    on_remaining: bool = True
    memorable: int = 0
    laplace: Laplace | None = None

    def __post_init__(self) -> None:
        at_least("functional", strength=(self.strength, 0.0), memorable=(self.memorable, 0))

    def __call__(self, train: Factor, remaining: Factor | None = None) -> Anchored:
        chosen = [most_curved(train, self.memorable) if self.memorable else train] if self.on_train else []
        if self.on_remaining:
            if remaining is None or not len(remaining):
                raise BadInput(
                    "this method holds predictions on held-out right examples and there are none; remaining; "
                    "pass remaining, or anchor on D with functional(on_train=True, on_remaining=False)"
                )
            chosen.append(remaining)
        if not chosen:
            raise BadInput("nothing to anchor on; functional; set on_train or on_remaining")
        each = self.strength * len(train) / sum(len(f) for f in chosen)
        inputs = each * (chosen[0] if len(chosen) == 1 else chosen[0] + chosen[1])
        gaussian = None if self.laplace is None else self.laplace(train, remaining)
        return Anchored(train.network.params, inputs=inputs, gaussian=gaussian)


def most_curved(train: Factor, number: int) -> Factor:
    """Those with the largest trace of the Fisher of the outputs, in the order of D."""
    outputs = train.outputs(train.network.params)
    likelihood = asked(train.network.likelihood, train.examples.y)
    trace = likelihood.root(outputs).pow(2).sum((1, 2)).cpu().numpy()
    y = train.examples.y.cpu().numpy()
    label = y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(train), dtype=int)
    kinds = np.unique(label)
    chosen = []
    for i, kind in enumerate(kinds):
        at = np.flatnonzero(label == kind)
        share = number // len(kinds) + (i < number % len(kinds))
        chosen.append(at[np.argsort(-trace[at], kind="stable")[:share]])
    return train[np.sort(np.concatenate(chosen))]
