"""Which mistakes are made: some classes are taken for some others, and hardly ever for the rest.

The model would give every example another class than the one that is written, if it had to. A label of one class that
it would call another is more likely wrong where D holds many such labels that members find harmful, and right labels
that are known hold few. So let φ be what members say of a label, and let wrong ones have the density of right ones
times exp(w·φ − b), w ≥ 0; b is the logarithm of the mean of exp(w·φ) among right ones, since a density adds up to one.
If a share ε of D is wrong, then

    p(φ in D) / p(φ among right ones) = 1 − ε + ε exp(w·φ − b),

and nothing else tells D from right labels. The log odds of ε are a mean, an effect of the class that is written, and
one of that class together with the one the model would give instead; effects are drawn towards zero. All are fitted
by telling D from right labels, with the logistic loss. Each label counts by exp(its effect of both classes): so many
times as likely as others of its class it is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from amends.committee.excess import RightLabels
from amends.committee.known import Known
from amends.committee.trying import Evidence, Trial
from amends.settings import Identifying, Mistakes

ROUNDED = 1 - 1e-9  # a share that only rounding puts above another is not


@dataclass(frozen=True, eq=False)
class Labels:
    """What members say of each label, in rows; the number of its class, and that of its class and the one the model
    would give instead."""

    scores: Tensor
    classes: Tensor
    pairs: Tensor

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence[Labels]) -> Labels:
        return cls(*(torch.cat(own) for own in zip(*((p.scores, p.classes, p.pairs) for p in parts), strict=True)))


def pair_factor(members: Sequence[Trial], given: Evidence, settings: Identifying) -> Tensor | None:
    """How many times as likely each label of D is wrong as others of its class; None where no right labels are known or
    the model does not choose from three classes or more."""
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
    """The effects of both classes, from labels of D and from right ones, each by its weight. Both sets count the same:
    as much as right labels of equal weight would that say as much."""
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
            """Its logarithm."""
            prior = mean + of_class[labels.classes] + of_both[labels.pairs]
            return softplus(prior + labels.scores @ slopes - b) - softplus(prior)

        apart = softplus(-ratio(train)).mean() + weights @ softplus(ratio(right)) + settings.ridge * slopes @ slopes
        return count * apart + (of_class @ of_class + of_both @ of_both) / (2 * settings.spread**2)

    optimiser = torch.optim.LBFGS(
        [free],
        max_iter=settings.steps,
        tolerance_grad=0.0,
        tolerance_change=settings.near,
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
    """The sample of D, the right labels that edits were not shown, and the weights of these. Classes of D of which no
    right label is known are left out."""
    found = []
    for half, ((_, unseen), (_, judging)) in enumerate(given.both_ways):
        here = labels[given.at].among(unseen, judging)
        counting = here.as_frequent > 0
        at = given.at[np.isin(here.train, np.concatenate([here.failures, here.right])[counting])]
        scores = [_plain(t.scores[half if t.ends else 0]) for t in members]
        usual = [_known(t, half, unseen, judging, labels, settings.right.taught) for t in members]
        train = Labels(_said([s[at] for s in scores], scores), *(own[0][at] for own in numbers))
        right = Labels(_said(usual, scores), *(torch.cat([own[1][unseen], own[2][judging]]) for own in numbers))
        weights, known = torch.as_tensor(here.as_frequent / here.as_frequent.sum()), torch.as_tensor(counting)
        right = Labels(right.scores[known], right.classes[known], right.pairs[known])
        found.append((train, right, weights[known]))
    return found


def _other_class(members: Sequence[Trial], known: Known) -> np.ndarray | None:
    """The class the model would give instead: once it has learned what is known, where it did, since then the known
    labels are learned as those of D are."""
    after = next((t.learned for t in members if t.learned is not None), None)
    if after is None or known.other_class is None:
        return known.other_class
    return Known(known.data, known.data.outputs(after.mean)).other_class


def _known(t: Trial, half: int, unseen: np.ndarray, judging: np.ndarray, labels: RightLabels, taught: float) -> Tensor:
    """Scores of right labels, failures first. Those that were taught reach a high score less often than right ones of
    D do: what a share of them reaches is taken for what a smaller share reaches."""
    *_, failures, right = t.known[half if t.ends else 0]
    scores = _plain(torch.cat([failures, right]))
    if t.ends:
        return scores
    order, weights = torch.argsort(-scores, stable=True), torch.as_tensor(labels.as_frequent)
    reach = weights[order].cumsum(0)
    scores[order] = scores[order][torch.searchsorted(reach, reach / taught * ROUNDED)]
    return torch.cat([scores[: len(failures)][unseen], scores[len(failures) :][judging]])


def _said(scores: Sequence[Tensor], train: Sequence[Tensor]) -> Tensor:
    """Harm in units of the mean harm of D by the same member, drawn together where it is large."""
    units = [own.clamp(min=0).mean() for own in train]
    return torch.stack([torch.asinh(s.clamp(min=0) / (u or 1.0)) for s, u in zip(scores, units, strict=True)], 1)


def _plain(scores: Tensor) -> Tensor:
    return scores.detach().double().cpu()


def _numbered(parts: Sequence[np.ndarray]) -> list[Tensor]:
    """The same number where values are the same, counted from 0."""
    numbers = np.unique(np.concatenate(parts), return_inverse=True)[1]
    return [torch.as_tensor(part) for part in np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])]
