"""Which mistakes are made: some classes are confused with a few others, and hardly ever with the rest.

Every example has a written class, and an other class: the most likely class of the model except the written one. A
label is more likely to be wrong if D holds many labels with the same pair of classes and high scores from the members,
and the trusted labels hold few. Let φ be the scores that members give a label, and let wrong labels have the density of
right ones times exp(w·φ − b), w ≥ 0; b is the logarithm of the mean of exp(w·φ) among right labels, since a density
adds up to one. If a share ε of D is wrong, then

    p(φ in D) / p(φ among right labels) = 1 − ε + ε exp(w·φ − b),

and nothing else separates D from right labels. The log odds of ε are the sum of a mean, an effect of the written class,
and an effect of the pair; effects are drawn towards zero. All are fitted by separating D from trusted labels, with the
logistic loss. A score is multiplied by exp(effect of the pair): how many times as likely the label is to be wrong as
others of its class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from amends.committee.evaluated import Evaluated
from amends.committee.excess import RightLabels
from amends.committee.trying import Evidence, Trial
from amends.settings import Identifying, Mistakes


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels, one row each: the scores members give it, the number of its written class, and the number of its pair
    (written class, other class)."""

    scores: Tensor
    classes: Tensor
    pairs: Tensor

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence[Labels]) -> Labels:
        return cls(*(torch.cat(own) for own in zip(*((p.scores, p.classes, p.pairs) for p in parts), strict=True)))


def pair_factor(members: Sequence[Trial], given: Evidence, settings: Identifying) -> Tensor | None:
    """For each label of D, how many times as likely it is to be wrong as others of its class; None without trusted
    labels, or with fewer than three classes."""
    labels, others = (
        given.labels,
        [_other_class(members, known) for known in (given.train, given.failures, given.judges)],
    )
    instead = [other for other in others if other is not None]
    if labels is None or len(instead) < len(others):
        return None
    kinds = [labels.train, labels.failures, labels.right]
    most = 1 + max(int(other.max(initial=0)) for other in instead)
    numbers = _numbered(kinds), _numbered([kind * most + other for kind, other in zip(kinds, instead, strict=True)])
    train, right, weights = zip(*_both_ways(members, given, labels, numbers, settings), strict=True)
    effects = fitted(Labels.joined(train), Labels.joined(right), torch.cat(weights), settings.mistakes)
    mistakes = numbers[1][0]
    known = mistakes < len(effects)  # the others are not in the sample
    return torch.where(known, effects[mistakes.clamp(max=len(effects) - 1)], 0.0).exp()


def fitted(train: Labels, right: Labels, weights: Tensor, settings: Mistakes) -> Tensor:
    """The effect of every pair of classes, fitted to labels of D and to trusted labels with these `weights`. Both sets
    count the same: as much as the effective number of trusted labels."""
    members, weights = train.scores.shape[1], weights / weights.sum()
    sizes = [1 + int(torch.cat(own).max()) for own in ((train.classes, right.classes), (train.pairs, right.pairs))]
    count = float(1 / (weights**2).sum())
    begin = torch.full((members,), settings.slope).sqrt(), torch.tensor([settings.mean]), torch.zeros(sum(sizes))
    free = torch.cat(begin).to(train.scores).requires_grad_()

    def loss() -> Tensor:
        roots, mean, of_class, of_both = torch.split(free, [members, 1, *sizes])
        slopes = roots**2
        b = torch.logsumexp(weights.log() + right.scores @ slopes, 0)

        def ratio(labels: Labels) -> Tensor:
            """log(1 − ε + ε exp(w·φ − b)) of each label."""
            prior = mean + of_class[labels.classes] + of_both[labels.pairs]
            return softplus(prior + labels.scores @ slopes - b) - softplus(prior)

        logistic = softplus(-ratio(train)).mean() + weights @ softplus(ratio(right)) + settings.ridge * slopes @ slopes
        return count * logistic + (of_class @ of_class + of_both @ of_both) / (2 * settings.spread**2)

    optimiser = torch.optim.LBFGS(
        [free],
        max_iter=settings.steps,
        tolerance_grad=0.0,
        tolerance_change=settings.unmoved,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    with torch.enable_grad():
        optimiser.step(closure)
    return free.detach()[-sizes[1] :]


def _both_ways(
    members: Sequence[Trial], given: Evidence, labels: RightLabels, numbers: tuple[list[Tensor], list[Tensor]],
    settings: Identifying,
) -> list[tuple[Labels, Labels, Tensor]]:  # fmt: skip
    """For each half: the sample of D, the trusted labels that edits did not use, and the weights of these. Classes of D
    without a trusted label are left out."""
    found = []
    for half, ((_, unseen), (_, judging)) in enumerate(given.both_ways):
        here = labels[given.at].among(unseen, judging)
        counting = here.as_frequent > 0
        at = given.at[np.isin(here.train, np.concatenate([here.failures, here.right])[counting])]
        scores = [_plain(t.scores[half if t.ends else 0]) for t in members]
        usual = [_known(t, half, unseen, judging) for t in members]
        train = Labels(_features([s[at] for s in scores], scores), *(own[0][at] for own in numbers))
        right = Labels(_features(usual, scores), *(torch.cat([own[1][unseen], own[2][judging]]) for own in numbers))
        weights, known = torch.as_tensor(here.as_frequent / here.as_frequent.sum()), torch.as_tensor(counting)
        right = Labels(right.scores[known], right.classes[known], right.pairs[known])
        found.append((train, right, weights[known]))
    return found


def _other_class(members: Sequence[Trial], known: Evaluated) -> np.ndarray | None:
    """The other class of each example, by the model that has learned the trusted labels, if there is one: only then has
    it learned them as it has learned the labels of D."""
    after = next((t.learned for t in members if t.learned is not None), None)
    return known.other_class(None if after is None else after.mean)


def _known(t: Trial, half: int, unseen: np.ndarray, judging: np.ndarray) -> Tensor:
    """Scores of trusted labels, failures first."""
    *_, failures, right = t.known[half if t.ends else 0]
    parts = (failures, right) if t.ends else (failures[unseen], right[judging])
    return _plain(torch.cat(parts))


def _features(scores: Sequence[Tensor], train: Sequence[Tensor]) -> Tensor:
    """φ: the harm by each member, in units of its mean harm on D, with large values compressed by asinh."""
    units = [own.clamp(min=0).mean() for own in train]
    return torch.stack([torch.asinh(s.clamp(min=0) / (u or 1.0)) for s, u in zip(scores, units, strict=True)], 1)


def _plain(scores: Tensor) -> Tensor:
    return scores.detach().double().cpu()


def _numbered(parts: Sequence[np.ndarray]) -> list[Tensor]:
    """Numbers from 0 in place of values; equal values have the same number."""
    numbers = np.unique(np.concatenate(parts), return_inverse=True)[1]
    return [torch.as_tensor(part) for part in np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])]
