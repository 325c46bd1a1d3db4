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
from functools import cached_property

import numpy as np
from torch import Tensor

from amends.committee.known import Known
from amends.committee.relevance import relevance
from amends.errors import NonFinite
from amends.evaluation.predictions import class_targets
from amends.likelihoods import Categorical
from amends.settings import DEFAULT, RightScores

STEPS = 20  # scores at which classes are compared


@dataclass(frozen=True, eq=False)
class Excess:
    """The share of D that must be wrong; the same with each part counted by its confidence, and the standard error of
    that; and for each example of D the confidence: of those that score as high, the share that must be wrong."""

    share: float
    found: float
    standard_error: float
    confidence: np.ndarray

    @classmethod
    def mean(cls, parts: Sequence[Excess]) -> Excess:
        return cls(*(np.mean([getattr(p, f.name) for p in parts], axis=0) for f in fields(cls)))

    def scaled_by(self, relevance: np.ndarray) -> Excess:
        """The part of it that stands behind the failures shown."""
        total = float(self.confidence.sum())
        part = float(relevance @ self.confidence) / total if total else 1.0
        return Excess(part * self.share, part * self.found, part * self.standard_error, relevance * self.confidence)


NOTHING = Excess(0.0, 0.0, 0.0, np.zeros(1))


@dataclass(frozen=True, eq=False)
class RightLabels:
    """The classes of D and of examples whose labels are right, and the share the model fails of right labels
    in D, so that failures weigh as much among them as they would there, however many were given. Of a class
    without a failure among them so many are `missing`: those the model fails may be what scores highest there. And how
    relevant wrong labels of each class are for the failures."""

    train: np.ndarray
    failures: np.ndarray
    right: np.ndarray
    failing: float
    missing: Mapping[int, float] = field(default_factory=dict)  # of every class, should it have no failure
    settings: RightScores = DEFAULT.identifying.right
    class_relevance: Mapping[int, float] = field(
        default_factory=dict
    )  # of each class; one that is not there counts in full

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
        behind = relevance(train.said, failures.said, settings.hardly) if _classes(train, failures, right_ones) else {}
        return cls(kinds, failed_kinds, right_kinds, failing, missing, settings, behind)

    def __getitem__(self, positions: np.ndarray) -> RightLabels:
        """Those of a part of D."""
        return replace(self, train=self.train[positions])

    @cached_property
    def relevance(self) -> np.ndarray:
        """Of each example of D."""
        kinds, at = np.unique(self.train, return_inverse=True)
        return np.array([self.class_relevance.get(kind, 1.0) for kind in kinds.tolist()])[at]

    def among(self, failures: np.ndarray, right: np.ndarray) -> RightLabels:
        """Those of the failures and of the right examples alone."""
        return replace(self, failures=self.failures[failures], right=self.right[right])

    @cached_property
    def weights(self) -> np.ndarray:
        """Of failures and right examples in a row: the share of right labels in D each stands for."""
        sets = (self.failures, self.failing), (self.right, 1 - self.failing)
        return np.concatenate([np.full(len(kinds), share / max(1, len(kinds))) for kinds, share in sets])

    @cached_property
    def as_frequent(self) -> np.ndarray:
        """The same, each class as frequent as in D."""
        return _as_frequent(self.train, np.concatenate([self.failures, self.right]), self.weights)

    def excess(self, train: Tensor, failures: Tensor, right: Tensor, taught: bool = False) -> Excess:
        """From the scores of all three. Those whose labels were `taught`, heavier than D's, reach a high score less
        often than right ones of D do. What must be wrong is counted without that: removing too few is no repair. Such
        scores do not depend on which failures are shown, so labels count by their relevance too."""
        scores, *known = (s.detach().double().cpu().numpy() for s in (train, failures, right))
        if not all(np.isfinite(s).all() for s in (scores, *known)):
            raise NonFinite("scores are not finite; default; choose a method by name")
        missing = {kind: share for kind, share in self.missing.items() if kind not in self.failures}
        given = (scores, self.train, np.concatenate(known), np.concatenate([self.failures, self.right]),
                 self.weights, missing, self.settings.lean)  # fmt: skip
        made = _excess(*given, 1.0)
        if not taught:
            return made
        return replace(_excess(*given, self.settings.taught), share=made.share).scaled_by(self.relevance)


def _excess(
    scores: np.ndarray, kinds: np.ndarray, known: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray,
    missing: Mapping[int, float], lean: float, more: float,
) -> Excess:  # fmt: skip
    seen = np.isin(kinds, known_kinds[weights > 0])
    if not seen.all():  # classes of which no right label is known: neither more nor less sure than the others
        given = known, known_kinds, weights, missing, lean, more
        made = _excess(scores[seen], kinds[seen], *given) if seen.any() else NOTHING
        confidence = np.full(len(scores), made.confidence.mean())
        confidence[seen] = made.confidence
        share, found, error = (float(seen.mean() * v) for v in (made.share, made.found, made.standard_error))
        return Excess(share, found, error, confidence)
    every = _Comparison.of(scores, known, _as_frequent(kinds, known_kinds, weights), more)
    at = [(kinds == kind, known_kinds == kind, missing.get(int(kind), 0.0)) for kind in np.unique(kinds)]
    classes = [
        _Comparison.of(scores[d], known[k], weights[k], more, every.of_right[d], lean, lacking) for d, k, lacking in at
    ]
    confidence, shares = np.zeros(len(scores)), np.array([d.mean() for d, _, _ in at])
    for (d, _, _), own, alike in zip(at, classes, _alike(every, classes), strict=True):
        confidence[d] = np.maximum(own.confidence, alike * every.confidence[d])
    most, found, error = (
        shares * [getattr(own, name) for own in classes] for name in ("largest", "found", "standard_error")
    )
    return Excess(float(most.sum()), float(found.sum()), float(np.linalg.norm(error)), confidence)


def _as_frequent(kinds: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of right labels, so that each class is as frequent among them as in D: more of a class is nothing
    wrong with it."""
    names, at = np.unique(np.concatenate([kinds, known_kinds]), return_inverse=True)
    mine, theirs = np.split(at, [len(kinds)])
    frequent, known = np.bincount(mine, minlength=len(names)), np.bincount(theirs, weights, len(names))
    return weights * (frequent / np.where(known > 0, known, 1))[theirs]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The scores of D, or of a class of it: how many reach each of them, how many right labels do, and the standard
    error of the difference."""

    scores: np.ndarray
    known: np.ndarray
    weights: np.ndarray
    of_train: np.ndarray  # the share of D that reaches each of its scores,
    of_right: np.ndarray  # and that of right labels
    error: np.ndarray  # standard error of the difference
    count: float  # so many right labels of equal weight say as much

    @classmethod
    def of(
        cls, scores: np.ndarray, known: np.ndarray, weights: np.ndarray, more: float = 1.0,
        everywhere: np.ndarray | float = 0.0, lean: float = 0.0, missing: float = 0.0,
    ) -> _Comparison:  # fmt: skip
        """Of right labels in D so many times `more` reach a score than of those that are known. Those of a class lean
        on all classes, but only upwards; so many of them are `missing`."""
        count = weights.sum() ** 2 / (weights**2).sum()
        alone = np.minimum(1, more * _reach(scores, known, weights))
        of_right = np.maximum(alone, (count * alone + lean * everywhere) / (count + lean))
        of_right = of_right + missing * (1 - of_right)
        few = 1 / max(1.0, count)
        error = np.sqrt(np.maximum(of_right * (1 - of_right), few) * (few + 1 / len(scores)))
        return cls(scores, known, weights, _reach(scores, scores), of_right, error, count)

    @cached_property
    def excess(self) -> np.ndarray:
        return np.maximum(self.of_train - self.of_right - self.error, 0)

    @cached_property
    def confidence(self) -> np.ndarray:
        """Of those that score as high, the share that must be wrong; it does not fall as scores rise."""
        return _rising(self.scores, self.excess / self.of_train)

    @property
    def largest(self) -> float:
        return float(self.excess.max())

    @property
    def found(self) -> float:
        """Counted from the highest score on: what must be wrong, each part by the share of those that reach it."""
        order = np.argsort(-self.scores, kind="stable")
        more = np.diff(np.maximum.accumulate(self.excess[order]), prepend=0.0)
        return float(more @ (self.excess / self.of_train)[order])

    @property
    def standard_error(self) -> float:
        return float(self.error[self.excess.argmax()] * self.found / self.largest) if self.largest else 0.0

    def difference(self, at: np.ndarray) -> np.ndarray:
        return _reach(at, self.scores) - _reach(at, self.known, self.weights)

    def variance(self, known: np.ndarray, train: np.ndarray) -> np.ndarray:
        """Of that difference, if these shares of right labels and of D reach a score in every class."""
        return known * (1 - known) / self.count + train * (1 - train) / len(self.scores)


def _alike(every: _Comparison, classes: Sequence[_Comparison]) -> np.ndarray:
    """How far each class may be taken for one like all others, from 0 to 1: the variance its few labels explain, over
    that and the variance there is between classes, at scores from the highest to where all of D goes furthest beyond
    right labels."""
    furthest = int((every.of_train - every.of_right).argmax())
    many = np.count_nonzero(every.scores >= every.scores[furthest])
    at = np.sort(every.scores)[::-1][(many * np.arange(1, STEPS + 1) - 1) // STEPS]
    shares = _reach(at, every.known, every.weights), _reach(at, every.scores)
    explained = np.array([own.variance(*shares) for own in classes]).clip(1e-12)
    differences = np.array([own.difference(at) for own in classes])
    middle = np.average(differences, axis=0, weights=1 / explained)
    chance = explained * (1 - 1 / len(classes))  # the middle is theirs too
    between = max(0.0, float(((differences - middle) ** 2 - chance).mean()))
    return explained.mean(1) / (explained.mean(1) + between)


def _rising(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest of the values at scores as low or lower."""
    order = np.argsort(scores)
    highest = np.maximum.accumulate(values[order])
    return highest[np.searchsorted(scores[order], scores, side="right") - 1]


def _reach(at: np.ndarray, values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The share of the values, by weight, that is as high as each of `at` or higher."""
    order = np.argsort(values)
    weights = np.ones(len(values)) if weights is None else weights
    above = np.append(weights[order][::-1].cumsum()[::-1], 0.0)
    return above[np.searchsorted(values[order], at)] / (above[0] or 1.0)


def _kinds(*sets: Known) -> list[np.ndarray]:
    """The class of each; all are of one kind where some have no class, or a sequence of them."""
    if _classes(*sets):
        return [known.data.examples.y.cpu().numpy() for known in sets]
    return [np.zeros(len(known), dtype=int) for known in sets]


def _classes(*sets: Known) -> bool:
    return all(class_targets(known.data) and known.data.examples.y.ndim == 1 for known in sets)


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
