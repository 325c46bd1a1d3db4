"""How much of D a score sets apart from right labels: how good it is, told without the truth.

Somebody vouches for the labels of failures and of right examples; nobody does for those of D. Let F̄_D(s)
be the share of D that scores s or more, and F̄(s) that of right labels like D's. If a share ε of D is
wrong, F̄_D = (1 − ε) F̄ + ε F̄_wrong, so F̄_D(s) − F̄(s) ≤ ε whatever s is: the largest difference is a part
of D that must be wrong, and of several scores the one with the largest has found the most. Taken class
by class, since what is usual for one class may be a sign in another. Over F̄_D(s) the same difference is
the share that must be wrong of those that score as high, which can be compared between classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from torch import Tensor

from amends.committee.known import Known
from amends.errors import NonFinite
from amends.evaluation.predictions import class_targets
from amends.likelihoods import Categorical
from amends.settings import DEFAULT, RightScores


@dataclass(frozen=True, eq=False)
class Excess:
    """The share of D beyond right labels, less a standard error; that error; and for each example of D, of those
    of its class that score as high the share that must be wrong."""

    share: float
    noise: float
    confidence: np.ndarray

    @classmethod
    def mean(cls, parts: Sequence[Excess]) -> Excess:
        return cls(*(np.mean([getattr(p, f.name) for p in parts], axis=0) for f in fields(cls)))


@dataclass(frozen=True, eq=False)
class RightLabels:
    """The classes of D and of examples whose labels are right, and the share the model fails of right labels
    in D, so that failures weigh as much among them as they would there, however many were given. Of a class
    without a failure among them so many are `missing`: those the model fails may be what scores highest there."""

    train: np.ndarray
    failures: np.ndarray
    right: np.ndarray
    failing: float
    missing: Mapping[int, float] = field(default_factory=dict)  # of every class, should it have no failure
    settings: RightScores = DEFAULT.identifying.right

    @classmethod
    def of(
        cls,
        train: Known,
        failures: Known,
        right_ones: Known,
        settings: RightScores = DEFAULT.identifying.right,
    ) -> RightLabels:
        kinds, failed_kinds, right_kinds = _kinds(train, failures, right_ones)
        failed = ~train.each(train.data.network.likelihood.right).astype(bool)
        failing = _failing(train, failures, right_ones, float(failed.mean()), settings.errors)
        missing = {kind: min(failing, float(failed[kinds == kind].mean())) for kind in np.unique(kinds).tolist()}
        return cls(kinds, failed_kinds, right_kinds, failing, missing, settings)

    def __getitem__(self, positions: np.ndarray) -> RightLabels:
        """Those of a part of D."""
        return replace(self, train=self.train[positions])

    def failing_at_least(self, share: float) -> RightLabels:
        """The same, with failures making up at least this share of right labels."""
        return replace(self, failing=max(self.failing, share))

    def among(self, failures: np.ndarray, right: np.ndarray) -> RightLabels:
        """Those of the failures and of the right examples alone."""
        return replace(self, failures=self.failures[failures], right=self.right[right])

    def excess(self, train: Tensor, failures: Tensor, right: Tensor) -> Excess:
        """From the scores of all three."""
        scores, *known = (s.detach().double().cpu().numpy() for s in (train, failures, right))
        if not all(np.isfinite(s).all() for s in (scores, *known)):
            raise NonFinite("scores are not finite; default; choose a method by name")
        weights = [np.full(len(s), share / max(1, len(s)))
                   for s, share in zip(known, (self.failing, 1 - self.failing), strict=True)]  # fmt: skip
        missing = {kind: share for kind, share in self.missing.items() if kind not in self.failures}
        return _excess(scores, self.train, np.concatenate(known), np.concatenate([self.failures, self.right]),
                      np.concatenate(weights), missing, self.settings.lean)  # fmt: skip


def _excess(
    scores: np.ndarray, kinds: np.ndarray, known: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray,
    missing: Mapping[int, float], lean: float,
) -> Excess:  # fmt: skip
    everywhere = _reach(scores, known, weights)
    share = variance = 0.0
    confidence = np.full(len(scores), np.nan)
    for kind in np.unique(kinds):
        here, there = kinds == kind, known_kinds == kind
        own = weights[there]
        count = own.sum() ** 2 / (own**2).sum() if own.any() else 0.0  # as many of equal weight say as much
        alone = _reach(scores[here], known[there], own)
        usual = np.maximum(alone, (count * alone + lean * everywhere[here]) / (count + lean))
        usual = usual + missing.get(int(kind), 0.0) * (1 - usual)
        few = 1 / max(1.0, count)
        error = np.sqrt(np.maximum(usual * (1 - usual), few) * (few + 1 / here.sum()))
        reached = _reach(scores[here], scores[here], np.ones(here.sum()))
        beyond = reached - usual - error
        if count:
            confidence[here] = _rising(scores[here], np.maximum(beyond, 0) / reached)
        best = int(beyond.argmax())
        if beyond[best] > 0:
            share += here.mean() * beyond[best]
            variance += (here.mean() * error[best]) ** 2
    seen = np.isfinite(confidence)
    confidence[~seen] = confidence[seen].mean() if seen.any() else 0.0  # of these classes no right label is known
    return Excess(float(share), float(variance**0.5), confidence)


def _rising(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest of the values at scores as low or lower."""
    order = np.argsort(scores)
    highest = np.maximum.accumulate(values[order])
    return highest[np.searchsorted(scores[order], scores, side="right") - 1]


def _reach(at: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of the values, by weight, that is as high as each of `at` or higher."""
    order = np.argsort(values)
    above = np.append(weights[order][::-1].cumsum()[::-1], 0.0)
    return above[np.searchsorted(values[order], at)] / (above[0] or 1.0)


def _kinds(*sets: Known) -> list[np.ndarray]:
    """The class of each; all are of one kind where some have no class, or a sequence of them."""
    if all(class_targets(known.data) and known.data.examples.y.ndim == 1 for known in sets):
        return [known.data.examples.y.cpu().numpy() for known in sets]
    return [np.zeros(len(known), dtype=int) for known in sets]


def _failing(train: Known, failures: Known, right_ones: Known, disagreeing: float, errors: float) -> float:
    """The share of D the model would fail were its labels right.

    At most as much as it is `disagreeing` with D. Mostly less: it is not as sure of what it fails, and how sure it
    is of an input does not depend on the label; so D is mixed of failures and right ones as its mean
    confidence is between theirs. Where the model is as sure of D as of right ones it has fitted D, the
    confidences say nothing, and every disagreement is taken for a failure.
    """
    if not isinstance(train.data.network.likelihood.family, Categorical):
        return disagreeing
    mean, error = zip(*(_mean(_confidence(data)) for data in (train, failures, right_ones)), strict=True)
    less, gap = mean[2] - mean[0], mean[2] - mean[1]
    if less <= 0 or gap <= 0:
        return disagreeing
    with np.errstate(divide="ignore"):  # where all are as sure as each other there is no error
        parted = min(less / np.hypot(error[2], error[0]), gap / np.hypot(error[2], error[1]))
    believed = float(np.clip(parted / errors - 1, 0, 1))
    return believed * min(less / gap, disagreeing) + (1 - believed) * disagreeing


def _confidence(known: Known) -> np.ndarray:
    likelihood = known.data.network.likelihood
    return known.each(lambda outputs, _: likelihood.belief(outputs).amax(-1))


def _mean(values: np.ndarray) -> tuple[float, float]:
    """And its standard error, which one value does not tell."""
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
