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

    N is the size of D in every case, so that β means the same strength on any inputs. A model that
    memorised wrong labels predicts them: anchoring on D then pins the causes too. With `memorable`, that
    many examples stand for D, equally many of each label: those whose outputs have the most curvature,
    which are at the decision boundary and hold it in place (Pan et al. 2020).
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
                    "functional holds predictions on remaining, but remaining is not given; "
                    "pass remaining, or hold them on train with functional(on_train=True, on_remaining=False)"
                )
            chosen.append(remaining)
        if not chosen:
            raise BadInput("functional has no inputs to hold predictions on; set on_train or on_remaining")
        each = self.strength * len(train) / sum(len(f) for f in chosen)
        inputs = each * (chosen[0] if len(chosen) == 1 else chosen[0] + chosen[1])
        gaussian = None if self.laplace is None else self.laplace(train, remaining)
        return Anchored(train.network.params, inputs=inputs, gaussian=gaussian)


def most_curved(train: Factor, number: int) -> Factor:
    """The examples whose Fisher of the outputs has the largest trace, in the order of D."""
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
