"""How much of D scores higher than right labels: a measure of how good a score is, without the truth.

The labels of the failures and of the right examples are trusted; those of D are not. Let F̄_D(s) be the share of D that
scores s or more, and F̄(s) the share of right labels that do. If a share ε of D is wrong, then
F̄_D = (1 − ε) F̄ + ε F̄_wrong, and so F̄_D(s) − F̄(s) ≤ ε for every s. The largest difference is therefore a share of D
that must be wrong, and of several scores the one with the largest difference has found the most. It is taken class by
class, since a score that is usual in one class may be a sign of mistakes in another. Divided by F̄_D(s), the difference
is a confidence: of the examples that score as high, the share that must be wrong. It can be compared between classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from amends.committee.evaluated import Evaluated
from amends.committee.relevance import relevance
from amends.errors import NonFinite
from amends.evaluation.predictions import class_targets
from amends.likelihoods import Categorical
from amends.settings import DEFAULT, RightScores

STEPS = 20  # scores at which classes are compared


@dataclass(frozen=True, eq=False)
class Excess:
    """`share`: of D, the share that must be wrong. `found`: the same with each part times its confidence, and its
    `standard_error`. `confidence` of each example of D: of those that score as high, the share that must be wrong."""

    share: float
    found: float
    standard_error: float
    confidence: np.ndarray

    @classmethod
    def mean(cls, parts: Sequence[Excess]) -> Excess:
        return cls(*(np.mean([getattr(p, f.name) for p in parts], axis=0) for f in fields(cls)))

    def scaled_by(self, relevance: np.ndarray) -> Excess:
        """The part of the excess that is relevant for these failures."""
        total = float(self.confidence.sum())
        part = float(relevance @ self.confidence) / total if total else 1.0
        return Excess(part * self.share, part * self.found, part * self.standard_error, relevance * self.confidence)


NOTHING = Excess(0.0, 0.0, 0.0, np.zeros(1))


@dataclass(frozen=True, eq=False)
class RightLabels:
    """The classes of D, of the failures and of the right examples. `failing`: of D's right labels, the share the model
    gets wrong; failures get that weight among the trusted labels, however many were given. `missing`: the share that a
    class without a failure lacks, since the labels the model fails may score highest there. `class_relevance`: how
    relevant wrong labels of each class are for the failures. `agreeing`: on which of D the model predicts the label."""

    train: np.ndarray
    failures: np.ndarray
    right: np.ndarray
    failing: float
    missing: Mapping[int, float] = field(default_factory=dict)  # of every class, should it have no failure
    settings: RightScores = DEFAULT.identifying.right
    class_relevance: Mapping[int, float] = field(
        default_factory=dict
    )  # from 0 to 1; a class that is not listed counts in full
    agreeing: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        train: Evaluated,
        failures: Evaluated,
        right_ones: Evaluated,
        settings: RightScores = DEFAULT.identifying.right,
    ) -> RightLabels:
        kinds, failed_kinds, right_kinds = _kinds(train, failures, right_ones)
        failed = ~train.each(train.data.network.likelihood.right).astype(bool)
        failing = _failing(train, failures, right_ones, float(failed.mean()), settings.errors)
        missing = {kind: min(failing, float(failed[kinds == kind].mean())) for kind in np.unique(kinds).tolist()}
        relevant = {}
        if _classes(train, failures, right_ones):
            relevant = relevance(train.predicted, failures.predicted, settings.hardly)
        return cls(kinds, failed_kinds, right_kinds, failing, missing, settings, relevant, ~failed)

    def __getitem__(self, positions: np.ndarray) -> RightLabels:
        """The same, with a part of D."""
        agreeing = None if self.agreeing is None else self.agreeing[positions]
        return replace(self, train=self.train[positions], agreeing=agreeing)

    @cached_property
    def relevance(self) -> np.ndarray:
        """The relevance of each example of D, by its class."""
        kinds, at = np.unique(self.train, return_inverse=True)
        return np.array([self.class_relevance.get(kind, 1.0) for kind in kinds.tolist()])[at]

    def among(self, failures: np.ndarray, right: np.ndarray) -> RightLabels:
        """The same, with only these failures and these right examples."""
        return replace(self, failures=self.failures[failures], right=self.right[right])

    @cached_property
    def weights(self) -> np.ndarray:
        """Of each failure, then of each right example: the share of D's right labels that it represents."""
        sets = (self.failures, self.failing), (self.right, 1 - self.failing)
        return np.concatenate([np.full(len(kinds), share / max(1, len(kinds))) for kinds, share in sets])

    @cached_property
    def as_frequent(self) -> np.ndarray:
        """The same weights, scaled so that each class is as frequent as in D."""
        return _as_frequent(self.train, np.concatenate([self.failures, self.right]), self.weights)

    def raised(self, train: Tensor, right: Tensor) -> float:
        """How many times as high D's right labels score as trusted labels that were learned with a larger weight; 1 at
        least. Both are compared by their lowest scores, where hardly any label of D is wrong: right examples, and the
        examples of D whose label the model predicted from the start."""
        assert self.agreeing is not None
        of_train, of_right = (scores.detach().double().cpu().numpy() for scores in (train, right))
        mine, weights = of_train[self.agreeing], self.as_frequent[len(self.failures) :]
        ours, theirs = (_lowest(*of, self.settings.lowest) for of in ((mine, np.ones(len(mine))), (of_right, weights)))
        return max(1.0, ours / theirs) if theirs > 0 else 1.0

    def excess(self, train: Tensor, failures: Tensor, right: Tensor, by_relevance: bool = False) -> Excess:
        """The excess, from the scores of D, of failures and of right examples. Where scores do not depend on the
        failures, labels also count by their relevance."""
        scores, *known = (s.detach().double().cpu().numpy() for s in (train, failures, right))
        if not all(np.isfinite(s).all() for s in (scores, *known)):
            raise NonFinite("scores are not finite; default; choose a method by name")
        missing = {kind: share for kind, share in self.missing.items() if kind not in self.failures}
        given = (scores, self.train, np.concatenate(known), np.concatenate([self.failures, self.right]),
                 self.weights, missing, self.settings.lean)  # fmt: skip
        made = _excess(*given)
        return made.scaled_by(self.relevance) if by_relevance else made


def _excess(
    scores: np.ndarray, kinds: np.ndarray, known: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray,
    missing: Mapping[int, float], lean: float,
) -> Excess:  # fmt: skip
    seen = np.isin(kinds, known_kinds[weights > 0])
    if not seen.all():  # a class without a trusted label gets the mean confidence of the others
        given = known, known_kinds, weights, missing, lean
        made = _excess(scores[seen], kinds[seen], *given) if seen.any() else NOTHING
        confidence = np.full(len(scores), made.confidence.mean())
        confidence[seen] = made.confidence
        share, found, error = (float(seen.mean() * v) for v in (made.share, made.found, made.standard_error))
        return Excess(share, found, error, confidence)
    every = _Comparison.of(scores, known, _as_frequent(kinds, known_kinds, weights))
    at = [(kinds == kind, known_kinds == kind, missing.get(int(kind), 0.0)) for kind in np.unique(kinds)]
    classes = [
        _Comparison.of(scores[d], known[k], weights[k], every.of_right[d], lean, lacking) for d, k, lacking in at
    ]
    confidence, shares = np.zeros(len(scores)), np.array([d.mean() for d, _, _ in at])
    for (d, _, _), own, alike in zip(at, classes, _alike(every, classes), strict=True):
        confidence[d] = np.maximum(own.confidence, alike * every.confidence[d])
    most, found, error = (
        shares * [getattr(own, name) for own in classes] for name in ("largest", "found", "standard_error")
    )
    return Excess(float(most.sum()), float(found.sum()), float(np.linalg.norm(error)), confidence)


def _as_frequent(kinds: np.ndarray, known_kinds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of trusted labels, scaled so that each class is as frequent as in D: that D has more of a class is no
    sign of wrong labels."""
    names, at = np.unique(np.concatenate([kinds, known_kinds]), return_inverse=True)
    mine, theirs = np.split(at, [len(kinds)])
    frequent, known = np.bincount(mine, minlength=len(names)), np.bincount(theirs, weights, len(names))
    return weights * (frequent / np.where(known > 0, known, 1))[theirs]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The scores of D, or of one class. At each of them: the share of D that reaches it, the share of right labels that
    does, and the standard error of the difference."""

    scores: np.ndarray
    known: np.ndarray
    weights: np.ndarray
    of_train: np.ndarray  # the share of D that reaches each of its scores,
    of_right: np.ndarray  # and that of right labels
    error: np.ndarray  # standard error of the difference
    count: float  # effective number of trusted labels

    @classmethod
    def of(
        cls, scores: np.ndarray, known: np.ndarray, weights: np.ndarray, everywhere: np.ndarray | float = 0.0,
        lean: float = 0.0, missing: float = 0.0,
    ) -> _Comparison:  # fmt: skip
        """In a class, the share of right labels that reach a score is averaged with the share over all classes
        (`everywhere`, with the weight `lean`), but only upwards; a share `missing` is added."""
        count = weights.sum() ** 2 / (weights**2).sum()
        alone = _reach(scores, known, weights)
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
        """Of the examples that score as high, the share that must be wrong; made so that it never falls as s rises."""
        return _rising(self.scores, self.excess / self.of_train)

    @property
    def largest(self) -> float:
        return float(self.excess.max())

    @property
    def found(self) -> float:
        """The excess, counted from the highest score down; each new part is multiplied by the share of wrong labels
        among all that score as high."""
        order = np.argsort(-self.scores, kind="stable")
        more = np.diff(np.maximum.accumulate(self.excess[order]), prepend=0.0)
        return float(more @ (self.excess / self.of_train)[order])

    @property
    def standard_error(self) -> float:
        return float(self.error[self.excess.argmax()] * self.found / self.largest) if self.largest else 0.0

    def difference(self, at: np.ndarray) -> np.ndarray:
        return _reach(at, self.scores) - _reach(at, self.known, self.weights)

    def variance(self, known: np.ndarray, train: np.ndarray) -> np.ndarray:
        """The variance of that difference, if these shares of right labels and of D reach a score in every class."""
        return known * (1 - known) / self.count + train * (1 - train) / len(self.scores)


def _alike(every: _Comparison, classes: Sequence[_Comparison]) -> np.ndarray:
    """For each class, the factor from 0 to 1 on the confidence of all classes together: e² / (e² + τ²). e² is the
    variance that the few labels of the class explain, τ² is what is left of the variance between classes. Both are
    measured at scores from the highest down to where the share of D exceeds that of right labels most."""
    furthest = int((every.of_train - every.of_right).argmax())
    many = np.count_nonzero(every.scores >= every.scores[furthest])
    at = np.sort(every.scores)[::-1][(many * np.arange(1, STEPS + 1) - 1) // STEPS]
    shares = _reach(at, every.known, every.weights), _reach(at, every.scores)
    explained = np.array([own.variance(*shares) for own in classes]).clip(1e-12)
    differences = np.array([own.difference(at) for own in classes])
    middle = np.average(differences, axis=0, weights=1 / explained)
    chance = explained * (1 - 1 / len(classes))  # less, since each class is part of the mean
    between = max(0.0, float(((differences - middle) ** 2 - chance).mean()))
    return explained.mean(1) / (explained.mean(1) + between)


def _rising(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each score, the largest value at that score or a lower one."""
    order = np.argsort(scores)
    highest = np.maximum.accumulate(values[order])
    return highest[np.searchsorted(scores[order], scores, side="right") - 1]


def _lowest(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The mean of the lowest values, which have this share of the weight."""
    order = np.argsort(values)
    reached = weights[order].cumsum() <= share * weights.sum()
    weights = np.where(reached, weights[order], 0.0)
    return float(weights @ values[order] / weights.sum()) if weights.any() else 0.0


def _reach(at: np.ndarray, values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The share of the values, by weight, that is as high as each of `at` or higher."""
    order = np.argsort(values)
    weights = np.ones(len(values)) if weights is None else weights
    above = np.append(weights[order][::-1].cumsum()[::-1], 0.0)
    return above[np.searchsorted(values[order], at)] / (above[0] or 1.0)


def _kinds(*sets: Evaluated) -> list[np.ndarray]:
    """The class of each example; one class for all where some targets are not single classes."""
    if _classes(*sets):
        return [known.data.examples.y.cpu().numpy() for known in sets]
    return [np.zeros(len(known), dtype=int) for known in sets]


def _classes(*sets: Evaluated) -> bool:
    return all(class_targets(known.data) and known.data.examples.y.ndim == 1 for known in sets)


def _failing(train: Evaluated, failures: Evaluated, right_ones: Evaluated, disagreeing: float, errors: float) -> float:
    """The share of D the model would fail if all labels of D were right.

    It is at most `disagreeing`, the share of D on which the model disagrees with the label. Mostly it is less. The
    model is less confident on what it fails, and its confidence does not depend on the label. So the share is read
    from where its mean confidence on D lies between those on right examples and on failures. Where the model is as
    confident on D as on right examples, it has fitted D: its confidence shows nothing, and every disagreement counts
    as a failure.
    """
    if not isinstance(train.data.network.likelihood.family, Categorical):
        return disagreeing
    mean, error = zip(*(_mean(_confidence(data)) for data in (train, failures, right_ones)), strict=True)
    less, gap = mean[2] - mean[0], mean[2] - mean[1]
    if less <= 0 or gap <= 0:
        return disagreeing
    with np.errstate(divide="ignore"):  # where all confidences are equal, the standard error is 0
        parted = min(less / np.hypot(error[2], error[0]), gap / np.hypot(error[2], error[1]))
    believed = float(np.clip(parted / errors - 1, 0, 1))
    return believed * min(less / gap, disagreeing) + (1 - believed) * disagreeing


def _confidence(known: Evaluated) -> np.ndarray:
    likelihood = known.data.network.likelihood
    return known.each(lambda outputs, _: likelihood.belief(outputs).amax(-1))


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error, which is infinite for a single value."""
    return float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.inf
