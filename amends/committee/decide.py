"""Several members score D. The weight of each depends on how much of D it scores higher than right labels.

No single edit finds the causes in every model. Often the loss finds more than any edit, once the model has learned the
trusted labels: those of the failures and of the right examples. The trusted labels that an edit did not use show how
high a right label scores. The member that scores the largest share of D above that has found the most
(`amends.committee.excess`). A score is then multiplied by a confidence, and by how often one class is taken for the
other (`amends.committee.mistakes`). Where the finds may be noise, or there are no right examples, an edit is weighed by
how well it does on examples it did not use. The failures it repairs and the right examples it leaves alone count the
same. So a shift of the output bias, which fixes one side by breaking the other, gains nothing.

Read `decide`: try, weigh, combine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.committee.evaluated import Evaluated
from amends.committee.excess import RightLabels
from amends.committee.mistakes import pair_factor
from amends.committee.rows import Rows, mark
from amends.committee.trying import Evidence, Trial, edited, learned, on_all, scores_of, trial
from amends.committee.weighing import confidence, joined, reliability, weights_of
from amends.data.splits import some
from amends.editors.tangent import Linearised
from amends.errors import AmendsError
from amends.evidence.factor import Factor
from amends.evidence.finite import LOG_P, finite
from amends.evidence.params import large, plus, scaled
from amends.likelihoods import Weighted
from amends.methods import Method
from amends.methods.library.default import Default, Member
from amends.methods.library.loss import LearnedLoss
from amends.posteriors import Point, Posterior
from amends.progress import Progress
from amends.settings import DEFAULT, Identifying

SETTINGS = DEFAULT.identifying


@dataclass(frozen=True)
class MemberWeight:
    """One member of the committee. `found`: the share of D it scores above right labels, each part times its confidence
    (None without enough right examples). `unseen`: its balanced probability on examples it did not use (None without an
    edit). `weight`: its weight in the scores. `wrong`: the share of D it shows to be wrong, 0 where that may be noise.
    """

    name: str
    found: float | None
    unseen: float | None
    weight: float
    refused: str = ""
    wrong: float = 0.0

    def row(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Scored:
    """What a search ends with: the scores of D; of the edit (of the committee, the one with the largest weight) r̃
    (`raw`) and the posterior before and after it; the members; and for every failure, the probability of its own label
    under edits that did not use it (`unseen`)."""

    scores: Tensor
    raw: Tensor
    start: Posterior
    edited: Posterior | None
    members: tuple[MemberWeight, ...] = ()
    unseen: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Tried:
    """Every member that could be tried, and why the others could not."""

    trials: dict[str, Trial]
    refused: dict[str, Exception]

    @property
    def edits(self) -> dict[str, Trial]:
        return {name: t for name, t in self.trials.items() if t.ends}


def committee(default: Default, train: Factor, remaining: Factor | None) -> tuple[dict[str, Member], Identifying]:
    """The members, and the settings they are tried and weighed with."""
    settings = default.settings_for(large(train.network.params)).identifying
    held = remaining is not None and len(remaining) >= settings.trials.few
    return default.identifying(held, large(train.network.params), len(train)), settings


def decide(
    members: Mapping[str, Member],
    train: Factor | Evaluated,
    failures: Factor | Evaluated,
    remaining: Factor | None,
    seed: int,
    progress: Progress,
    settings: Identifying = SETTINGS,
    known: Rows | None = None,
) -> Scored:
    """Try every member on halves, weigh them, and combine the scores of those with a weight. `known` holds such scores
    where other machines have computed them."""
    given, tried, counting = tried_on_halves(members, train, failures, remaining, seed, progress, settings)
    if known is not None:
        known.check(tried.trials)
    for name in counting:
        member, trial = members[name], tried.trials[name]
        every = with_all_failures(member, trial, given, progress, settings)
        scores = scores_of(member, every, given) if known is None else known.scores[name]
        halves = on_all(trial, scores[: len(trial.scores)], given)
        tried.trials[name] = replace(halves, scores=scores, ends=every.ends[len(trial.ends) :] or trial.ends)
    scored = Tried({name: tried.trials[name] for name in counting}, {})  # the others have no scores of all of D
    weights, own = (weights_of(trials, settings.weights) for trials in (scored.trials, scored.edits))
    scores = combined(scored.trials, weights, own, given, settings)
    most = max(own, key=lambda name: own[name])
    q, after = middle(tried.edits[most].ends)
    raw = given.train.lost(q, after) if known is None else known.raw[most]
    judged = given.labels is not None
    counted = [
        MemberWeight(name, t.found if judged else None, t.balanced if t.ends else None, weights.get(name, 0.0),
                     wrong=t.excess.share if t.excess and t.found > settings.weights.errors * t.standard_error else 0.0)
        for name, t in tried.trials.items()
    ]  # fmt: skip
    counted += [MemberWeight(name, None, None, 0.0, str(e)) for name, e in tried.refused.items()]
    unseen = sum((own[name] * t.failures for name, t in scored.edits.items()), np.zeros(len(failures)))
    return Scored(scores, raw, q, after, tuple(counted), unseen)


def tried_on_halves(
    members: Mapping[str, Member], train: Factor | Evaluated, failures: Factor | Evaluated,
    remaining: Factor | None, seed: int, progress: Progress, settings: Identifying,
) -> tuple[Evidence, Tried, list[str]]:  # fmt: skip
    """The evidence, the trials, and the names of the members with a weight."""
    given = evidence(train, failures, remaining, seed, settings)
    tried = try_all(members, given, progress, settings)
    if not tried.edits:
        raise next(iter(tried.refused.values()))
    counting = _counting(tried.trials, settings) | _counting(tried.edits, settings)
    return given, tried, [name for name in tried.trials if name in counting]


def decide_part(
    members: Mapping[str, Member], train: Factor | Evaluated, failures: Factor | Evaluated,
    remaining: Factor | None, seed: int, progress: Progress, settings: Identifying, part: slice,
) -> Rows:  # fmt: skip
    """What one machine computes for a part of D. Trials use all of D, scores are of the part alone. If the part begins
    and ends with a batch, its scores have the same bits as in a run on all of D."""
    given, tried, counting = tried_on_halves(members, train, failures, remaining, seed, progress, settings)
    scores, raw, here = {}, {}, given.train[np.arange(len(given.train))[part]]
    for name in counting:
        every = with_all_failures(members[name], trial := tried.trials[name], given, progress, settings)
        scores[name] = scores_of(members[name], every, given, part)
        if every.ends:
            raw[name] = here.lost(*middle(every.ends[len(trial.ends) :] or trial.ends))
    return Rows(scores, raw, mark(tried.trials))


def evidence(
    train: Factor | Evaluated, failures: Factor | Evaluated, remaining: Factor | None, seed: int, settings: Identifying
) -> Evidence:
    """What members are tried with. Without `remaining`, the examples of D that the model gets right take its place, and
    nothing holds an edit."""
    trials, d, rng = settings.trials, Evaluated.of(train), np.random.default_rng([seed, 11])
    likelihood = d.data.network.likelihood
    held, at = None, np.sort(some(np.arange(len(d)), trials.sample, seed))
    if remaining is not None and len(remaining) >= trials.few:
        held = remaining[np.sort(rng.permutation(len(remaining))[: trials.judges])]
        judges = Evaluated.of(held)
        finite(judges.log_p, LOG_P, held)
    else:
        ok = np.flatnonzero(d.each(likelihood.right))
        judges = d[np.sort(rng.permutation(ok)[: trials.judges])]
    shown, labels = Evaluated.of(failures), None
    weighted = isinstance(likelihood, Weighted)  # only D has weights, so trusted labels do not compare with it
    if held is not None and len(judges) >= trials.enough_right and not weighted:
        labels = RightLabels.of(d, shown, judges, settings.right)
    return Evidence(d, at, shown, held, judges, labels, seed)


def try_all(members: Mapping[str, Member], given: Evidence, progress: Progress, settings: Identifying) -> Tried:
    tried = Tried({}, {})
    for name, member in members.items():
        counter = progress.counter(f"trying {name}")
        try:
            tried.trials[name] = _tried(member, given, settings, counter)
        except (AmendsError, torch.OutOfMemoryError) as e:
            tried.refused[name] = e
    return tried


def _tried(member: Member, given: Evidence, settings: Identifying, counter: Callable[[int], None]) -> Trial:
    if isinstance(member, LearnedLoss):
        return learned(member, given)
    return trial(member, given, settings.trials, counter)


def _counting(trials: Mapping[str, Trial], settings: Identifying) -> set[str]:
    return {name for name, weight in weights_of(trials, settings.weights).items() if weight}


def with_all_failures(
    member: Member, tried: Trial, given: Evidence, progress: Progress, settings: Identifying
) -> Trial:
    """With `Trials.whole`, the trial with one more edit, which uses all failures; without, the trial itself."""
    if not settings.trials.whole or not isinstance(member, Method):
        return tried
    every = some(np.arange(len(given.failures)), settings.trials.whole, given.seed)
    last = edited(member, given, given.held, every, progress.counter("inserting all failures"))
    return replace(tried, ends=(*tried.ends, last))


def combined(
    trials: Mapping[str, Trial], weights: Mapping[str, float], own: Mapping[str, float], given: Evidence,
    settings: Identifying,
) -> Tensor:  # fmt: skip
    """The score of each example: the weighted sum of its harm by the members, times the confidence that such a score
    means a wrong label, times how likely such a mistake is. Examples in which no member finds harm come after all
    others, ordered by the edits alone with their `own` weights."""
    parts = {name: joined([(1 / len(t.scores), one) for one in t.harm]) for name, t in trials.items()}
    harm = joined([(own[name], parts[name]) for name in parts if own.get(name)])
    counting = [(weights[name], name) for name in parts if weights[name]]
    scores = joined([(weight, parts[name]) for weight, name in counting])
    scores = scores * confidence([(weight, trials[name]) for weight, name in counting], scores, settings.weights)
    reliable = reliability((trials[name] for _, name in counting), settings.weights)
    if reliable and (made := pair_factor([trials[name] for _, name in counting], given, settings)) is not None:
        scores = scores * made.to(scores) ** reliable
    return torch.where(scores > 0, scores, harm.clamp(max=0))


def middle(ends: Sequence[tuple[Posterior, Posterior]]) -> tuple[Posterior, Posterior]:
    """The posterior before the edits, and the mean of the posteriors in which the first two ended."""
    q, after = ends[0]
    if len(ends) == 1:
        return q, after
    other = ends[1][1]
    if isinstance(after, Linearised) and isinstance(other, Linearised):
        return q, Linearised(after.origin, scaled(plus(after.direction, other.direction), 0.5))
    return q, Point(scaled(plus(after.mean, other.mean), 0.5))
