"""How much of D a score sets apart from right labels: how good it is, told without the truth.

Somebody vouches for the labels of failures and of right examples; nobody does for those of D. Let F̄_D(s)
be the share of D that scores s or more, and F̄(s) that of right labels like D's. If a share ε of D is
wrong, F̄_D = (1 − ε) F̄ + ε F̄_wrong, so F̄_D(s) − F̄(s) ≤ ε whatever s is: the largest difference is a part
of D that must be wrong, and of several scores the one with the largest has found the most. Taken class
by class, since what is usual for one class may be a sign in another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from amends.data.examples import Inputs
from amends.evaluation import right
from amends.factor import Factor
from amends.likelihoods import Categorical

BESIDE = 50.0  # right labels of all classes that stand beside those of one, which may be too few to reach high
BELIEVED = 2.0  # standard errors from which one mean is above another


@dataclass(frozen=True, eq=False)
class RightLabels:
    """The classes of D and of examples whose labels are right, and the share the model fails of right labels
    in D, so that failures weigh as much among them as they would there, however many were given."""

    train: np.ndarray
    failures: np.ndarray
    right: np.ndarray
    failing: float

    @classmethod
    def of(cls, train: Factor, failures: Factor, right: Factor) -> RightLabels:
        return cls(_kinds(train), _kinds(failures), _kinds(right), _failing(train, failures, right))

    def among(self, failures: np.ndarray, right: np.ndarray) -> RightLabels:
        """Those of the failures and of the right examples alone."""
        return RightLabels(self.train, self.failures[failures], self.right[right], self.failing)

    def apart(self, train: Tensor, failures: Tensor, right: Tensor) -> tuple[float, float]:
        """From the scores of all three: the share of D beyond right labels, less a standard error; and that error."""
        scores, *known = (s.detach().double().cpu().numpy() for s in (train, failures, right))
        weights = [np.full(len(s), share / max(1, len(s)))
                   for s, share in zip(known, (self.failing, 1 - self.failing), strict=True)]  # fmt: skip
        return _apart(scores, self.train, np.concatenate(known), np.concatenate([self.failures, self.right]),
                      np.concatenate(weights))  # fmt: skip


def _apart(
    scores: np.ndarray, kinds: np.ndarray, known: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    everywhere = _reach(scores, known, weights)
    share = variance = 0.0
    for kind in np.unique(kinds):
        here, there = kinds == kind, known_kinds == kind
        own = weights[there]
        count = own.sum() ** 2 / (own**2).sum() if own.any() else 0.0  # as many of equal weight say as much
        alone = _reach(scores[here], known[there], own)
        usual = np.maximum(alone, (count * alone + BESIDE * everywhere[here]) / (count + BESIDE))
        few = 1 / max(1.0, count)
        error = np.sqrt(np.maximum(usual * (1 - usual), few) * (few + 1 / here.sum()))
        beyond = _reach(scores[here], scores[here], np.ones(here.sum())) - usual - error
        best = int(beyond.argmax())
        if beyond[best] > 0:
            share += here.mean() * beyond[best]
            variance += (here.mean() * error[best]) ** 2
    return float(share), float(variance**0.5)


def _reach(at: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of the values, by weight, that is as high as each of `at` or higher."""
    order = np.argsort(values)
    above = np.append(weights[order][::-1].cumsum()[::-1], 0.0)
    return above[np.searchsorted(values[order], at)] / (above[0] or 1.0)


def _kinds(data: Factor) -> np.ndarray:
    """The class of each; other targets are all of one kind."""
    y = data.examples.y
    return np.zeros(len(data), dtype=int) if y.is_floating_point() or y.ndim != 1 else y.cpu().numpy()


def _failing(train: Factor, failures: Factor, others: Factor) -> float:
    """The share of D the model would fail were its labels right.

    At most as much as it disagrees with D. Mostly less: it is not as sure of what it fails, and how sure it
    is of an input does not depend on the label; so D is mixed of failures and right ones as its mean
    confidence is between theirs. Where the model is as sure of D as of right ones it has fitted D, the
    confidences say nothing, and every disagreement is taken for a failure.
    """
    disagreeing = 1 - float(right(train, train.network.params).mean())
    if not isinstance(train.network.likelihood.family, Categorical):
        return disagreeing
    mean, error = zip(*(_mean(_sure(data)) for data in (train, failures, others)), strict=True)
    less, gap = mean[2] - mean[0], mean[2] - mean[1]
    if less <= BELIEVED * np.hypot(error[2], error[0]) or gap <= BELIEVED * np.hypot(error[2], error[1]):
        return disagreeing
    return min(less / gap, disagreeing)


def _sure(data: Factor) -> np.ndarray:
    network = data.network

    def of(x: Inputs, _: Tensor) -> Tensor:
        return network.likelihood.belief(network.outputs(network.params, x)).amax(-1)

    return data.map(of).double().cpu().numpy()


def _mean(values: np.ndarray) -> tuple[float, float]:
    """And its standard error."""
    return float(values.mean()), float(values.std()) / len(values) ** 0.5
