"""One member tried on halves: how well it does on the failures and right examples it did not use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from amends.committee.evaluated import Edited, Evaluated
from amends.committee.excess import Excess, RightLabels
from amends.data.splits import halves, some
from amends.editors import follow
from amends.editors.tangent import Linearised
from amends.errors import BadInput, NonFinite
from amends.evidence.factor import Factor
from amends.evidence.targets import alike
from amends.likelihoods import Likelihood, Weighted, probability
from amends.methods import Method
from amends.methods.library.default import Member
from amends.methods.library.loss import LearnedLoss
from amends.posteriors import Posterior
from amends.settings import Trials

SIZES = tuple(2.0**k for k in range(-3, 6))  # lengths tried along a tangent; at 1, outputs change by 1 on average


@dataclass(frozen=True, eq=False)
class Evidence:
    """What members are tried with: D and a sample of it, the failures, the right examples that hold an edit, those that
    judge it, and the trusted `labels`, or None where these cannot show how high a right label scores."""

    train: Evaluated
    at: np.ndarray  # positions of the sample
    failures: Evaluated
    held: Factor | None
    judges: Evaluated
    labels: RightLabels | None
    seed: int

    @cached_property
    def sample(self) -> Evaluated:
        return self.train if len(self.at) == len(self.train) else self.train[self.at]

    @cached_property
    def both_ways(self) -> list[tuple[tuple[np.ndarray, np.ndarray], ...]]:
        """Halves of the failures and of the right examples: one to use, one to judge by; then they change places."""
        return list(zip(*(halves(known.groups, self.seed) for known in (self.failures, self.judges)), strict=True))


@dataclass(frozen=True, eq=False)
class Trial:
    """`failures`, `right`: the probability an edit gives to each label it did not use. `scores`: those of the sample
    of D, by the edit with each half. `excess`: how much of D scores higher than right labels, where that is measured.
    `ends`: where the edits ended."""

    failures: np.ndarray
    right: np.ndarray
    scores: tuple[Tensor, ...] = ()
    excess: Excess | None = None
    ends: tuple[tuple[Posterior, Posterior], ...] = ()  # before and after each edit
    known: tuple[tuple[np.ndarray, np.ndarray, Tensor, Tensor], ...] = ()  # trusted labels that judge, and their scores
    learned: Posterior | None = None  # of the learned loss: the model that has learned the trusted labels
    relevance: np.ndarray | None = None  # of each example, where scores do not depend on the failures

    @property
    def harm(self) -> tuple[Tensor, ...]:
        """The scores, multiplied by the relevance for these failures where there is one."""
        if self.relevance is None:
            return self.scores
        return tuple(scores * torch.as_tensor(self.relevance).to(scores) for scores in self.scores)

    @property
    def found(self) -> float:
        return float(self.excess.found) if self.excess else 0.0

    @property
    def standard_error(self) -> float:
        return float(self.excess.standard_error) if self.excess else 0.0

    @property
    def balanced(self) -> float:
        return float(np.mean([part.mean() for part in (self.failures, self.right) if len(part)]))

    @property
    def balanced_error(self) -> float:
        """The standard error of `balanced`."""
        return float(self.failures.std()) / 2 / len(self.failures) ** 0.5


def trial(method: Method, given: Evidence, settings: Trials, counter: Callable[[int], None]) -> Trial:
    on_failures, on_right = np.zeros(len(given.failures)), np.zeros(len(given.judges))
    scores, parts, ends, known = [], [], [], []
    for (shown, unseen), (holding, judging) in given.both_ways:
        held = None if given.held is None else given.held[some(holding, settings.held, given.seed)]
        q, after = edited(method, given, held, some(shown, settings.shown, given.seed), counter)
        failures, judges = (data.edited(q, after) for data in (given.failures[unseen], given.judges[judging]))
        here = _probabilities(failures, judges)
        on_failures[unseen], on_right[judging] = here.failures, here.right
        scores.append(given.sample.edited(q, after).scores(method))
        ends.append((q, after))
        if given.labels is not None:
            known.append((unseen, judging, *(data.scores(method) for data in (failures, judges))))
            parts.append(_excess(given.labels[given.at], known[-1], scores[-1]))
    return Trial(on_failures, on_right, tuple(scores), Excess.mean(parts) if parts else None, tuple(ends), tuple(known))


def learned(member: LearnedLoss, given: Evidence) -> Trial:
    """The trial of the learned loss. It learns all trusted labels and is judged by the same ones, since it has learned
    them as it has learned the labels of D. Their weight is larger, so they score too low, and are raised."""
    if isinstance(given.train.data.network.likelihood, Weighted):
        raise BadInput(
            "examples have weights, so failures and right examples do not show how high a right label scores; "
            "learned loss; pass no weights to use it"
        )
    if given.labels is None:
        raise BadInput(
            "there are too few right examples to show how high a right label scores; learned loss; pass more of them"
        )
    if not all(alike(given.train.data, known.data) for known in (given.failures, given.judges)):
        raise BadInput("train and other sets have targets of different kinds; learned loss; give all sets the same")
    failures, judges = given.failures.data, given.judges.data
    after = member.after(given.train.data, failures, judges, given.judges.log_p)
    scores, of_failures, of_right = (member.score(after, data) for data in (given.sample.data, failures, judges))
    labels = given.labels[given.at]
    raised = labels.raised(scores, of_right)
    every = (np.arange(len(failures)), np.arange(len(judges)), raised * of_failures, raised * of_right)
    excess = _excess(labels, every, scores, by_relevance=True)
    return Trial(np.zeros(0), np.zeros(0), (scores,), excess, (), (every,), after, labels.relevance)


def scores_of(member: Member, tried: Trial, given: Evidence, part: slice = slice(None)) -> tuple[Tensor, ...]:
    """The scores of D, or of a part of it, by each edit of a trial. Scores that the trial already has are not computed
    again."""
    known = tried.scores if len(given.sample) == len(given.train) else ()
    data = given.train if part == slice(None) else given.train[np.arange(len(given.train))[part]]
    here = tuple(scores[part] for scores in known)
    if isinstance(member, LearnedLoss):
        return here or (member.score(cast("Posterior", tried.learned), data.data),)
    return here + tuple(data.edited(q, after).scores(member) for q, after in tried.ends[len(here) :])


def on_all(tried: Trial, scores: tuple[Tensor, ...], given: Evidence) -> Trial:
    """The trial, with scores of all of D in place of those of the sample."""
    if len(given.sample) == len(given.train):
        return tried
    labels, loss = given.labels, tried.learned is not None
    parts = [] if labels is None else [_excess(labels, k, s, loss) for k, s in zip(tried.known, scores, strict=True)]
    relevance = labels.relevance if labels is not None and loss else None
    return replace(tried, scores=scores, excess=Excess.mean(parts) if parts else None, relevance=relevance)


def _excess(
    labels: RightLabels,
    known: tuple[np.ndarray, np.ndarray, Tensor, Tensor],
    scores: Tensor,
    by_relevance: bool = False,
) -> Excess:
    unseen, judging, of_failures, of_right = known
    return labels.among(unseen, judging).excess(scores, of_failures, of_right, by_relevance)


def edited(
    method: Method, given: Evidence, held: Factor | None, shown: np.ndarray, counter: Callable[[int], None]
) -> tuple[Posterior, Posterior]:
    """The posterior before the edit, and the one in which it ends once these failures are inserted."""
    train = given.train.data
    q = method.remember(train, held)
    return q, follow(method.editor(q, method.evidence(train, given.failures.data[shown])), None, progress=counter)


def _probabilities(failures: Edited, judges: Edited) -> Trial:
    """Probabilities of the labels under the edited model; along a tangent, at the length with the best balance."""
    sizes = (1.0,)
    if isinstance(failures.after, Linearised):
        lengths = [(float(move.abs().double().sum()), move.numel()) for _, _, move in failures.moves()]
        unit = sum(total for total, _ in lengths) / max(1, sum(n for _, n in lengths)) or 1.0
        sizes = tuple(size / unit for size in SIZES)
    pairs = zip(*(_shares(data, sizes) for data in (failures, judges)), strict=True)
    return max((Trial(*pair) for pair in pairs), key=lambda trial: trial.balanced)


def _shares(data: Edited, sizes: tuple[float, ...]) -> list[np.ndarray]:
    """The probability of every target, for each size of the edit."""
    found: list[list[np.ndarray]] = [[np.zeros(0)] for _ in sizes]
    for y, start, move in data.moves():
        for parts, size in zip(found, sizes, strict=True):
            parts.append(_probability(data.known.data.network.likelihood, start + size * move, y))
    return [np.concatenate(parts) for parts in found]


def _probability(likelihood: Likelihood, outputs: Tensor, y: Tensor) -> np.ndarray:
    """The probability of each target, relative to the most its likelihood can give: from 0 to 1. Of a sequence, that of
    its typical token."""
    below = likelihood(outputs, y.to(outputs.dtype) if y.is_floating_point() else y)
    below = below - likelihood.ceiling(y).to(outputs)
    if not below.isfinite().all():
        raise NonFinite("the edited model's outputs are NaN or infinite; default; choose a method by name")
    return probability(likelihood, below.clamp(max=0), y).cpu().numpy()
