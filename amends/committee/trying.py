"""One member tried on halves: what it makes of failures and right examples it was not shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from amends.committee.apart import Apart, RightLabels
from amends.data.splits import halves, some
from amends.editors import follow
from amends.editors.tangent import Linearised
from amends.errors import BadInput
from amends.evaluation.predictions import groups
from amends.evidence.factor import Factor
from amends.likelihoods import Likelihood, probability
from amends.methods import Method, Scorer
from amends.posteriors import Posterior

SIZES = tuple(2.0**k for k in range(-3, 6))  # how far along a tangent, in mean changes of an output by one


@dataclass(frozen=True, eq=False)
class Trial:
    """Probabilities an edit gives to the labels it was not shown; how a member scores D, edits shown each half;
    and what that sets apart from right labels, if they say."""

    failures: np.ndarray
    right: np.ndarray
    scores: tuple[Tensor, ...] = ()
    apart: Apart | None = None

    @property
    def found(self) -> float:
        return float(self.apart.share) if self.apart else 0.0

    @property
    def noise(self) -> float:
        return float(self.apart.noise) if self.apart else 0.0

    @property
    def balanced(self) -> float:
        return float(np.mean([part.mean() for part in (self.failures, self.right) if len(part)]))

    @property
    def spread(self) -> float:
        """The noise of that."""
        return float(self.failures.std()) / 2 / len(self.failures) ** 0.5


def trial(
    method: Method,
    train: Factor,
    failures: Factor,
    held: Factor | None,
    judges: Factor,
    labels: RightLabels | None,
    seed: int,
    counter: Callable[[int], None],
    most: int,
) -> Trial:
    on_failures, on_right, scores, parts = np.zeros(len(failures)), np.zeros(len(judges)), [], []
    for (shown, unseen), (holding, judging) in _both_ways(failures, judges, seed):
        q = method.remember(train, None if held is None else held[holding])
        evidence = method.evidence(train, failures[some(shown, most, seed)])
        after = follow(method.editor(q, evidence), None, progress=counter)
        here = _probabilities(q, after, failures[unseen], judges[judging])
        on_failures[unseen], on_right[judging] = here.failures, here.right
        scores.append(method.score(q, after, train))
        if labels is not None:
            known = (method.score(q, after, data) for data in (failures[unseen], judges[judging]))
            parts.append(labels.among(unseen, judging).apart(scores[-1], *known))
    return Trial(on_failures, on_right, tuple(scores), Apart.mean(parts) if parts else None)


def without_edit(
    scorer: Scorer, train: Factor, failures: Factor, judges: Factor, labels: RightLabels | None, seed: int
) -> Trial:
    """Judged by halves as edits are: more known labels would let it find more."""
    scores, apart = scorer(train, failures), None
    if labels is not None:
        of_failures, of_right = (scorer(data, failures) for data in (failures, judges))
        apart = Apart.mean([
            labels.among(unseen, judging).apart(scores, of_failures[unseen], of_right[judging])
            for (_, unseen), (_, judging) in _both_ways(failures, judges, seed)
        ])  # fmt: skip
    return Trial(np.zeros(0), np.zeros(0), (scores,), apart)


def _both_ways(failures: Factor, judges: Factor, seed: int) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], ...]]:
    """Halves to show and to look at, of failures and of right examples; then they change places."""
    return zip(halves(groups(failures), seed), halves(groups(judges), seed), strict=True)


def _probabilities(q: Posterior, after: Posterior, failures: Factor, judges: Factor) -> Trial:
    """Of the labels, under the edited model; along a tangent, as far as it does most good."""
    sizes = (1.0,)
    if isinstance(after, Linearised):
        lengths = [(float(move.abs().double().sum()), move.numel()) for _, _, move in _moves(q, after, failures)]
        unit = sum(total for total, _ in lengths) / max(1, sum(n for _, n in lengths)) or 1.0
        sizes = tuple(size / unit for size in SIZES)
    pairs = zip(*(_shares(q, after, data, sizes) for data in (failures, judges)), strict=True)
    return max((Trial(*pair) for pair in pairs), key=lambda trial: trial.balanced)


def _shares(q: Posterior, after: Posterior, data: Factor, sizes: tuple[float, ...]) -> list[np.ndarray]:
    """The probability of every target, for each size of the edit."""
    found: list[list[np.ndarray]] = [[np.zeros(0)] for _ in sizes]
    for y, start, move in _moves(q, after, data):
        for parts, size in zip(found, sizes, strict=True):
            parts.append(_probability(data.network.likelihood, start + size * move, y))
    return [np.concatenate(parts) for parts in found]


def _moves(q: Posterior, after: Posterior, data: Factor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Targets, outputs and how far the edit moves them, one batch after the other."""
    for _, x, y, _ in data.tiles():
        start, end = (p.rows(lambda theta, x=x: data.network.outputs(theta, x)).mean(0) for p in (q, after))
        yield y, start, end - start


def _probability(likelihood: Likelihood, outputs: Tensor, y: Tensor) -> np.ndarray:
    """Of each target, relative to the most its likelihood can give: a share from 0 to 1. Of a sequence,
    that of its typical token."""
    below = likelihood(outputs, y.to(outputs.dtype) if y.is_floating_point() else y)
    below = below - likelihood.ceiling(y).to(outputs)
    if not below.isfinite().all():
        raise BadInput("the edited model's outputs are not finite; default; choose a method by name")
    return probability(likelihood, below.clamp(max=0), y).cpu().numpy()
