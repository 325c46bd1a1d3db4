"""Several ways to score D at once, each heard by how much of D it sets apart from right labels.

No single edit finds the causes in every model, and where the model has not fitted its wrong labels their
loss alone may tell them. The failures an edit was not shown, and the right examples it did not hold,
say how high a right label scores; the member that puts most of D above that has found the most
(`amends.committee.apart`), and harm counts by how sure those heard are that what scores as high is wrong. Where none
puts any, or there are no right examples, an edit is heard by how well it does on what it was not shown: the
failures it repairs and the right examples it leaves alone count the same, so a shift of the output bias,
which fixes one side by breaking the other, gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.committee.apart import RightLabels
from amends.committee.trying import trial, without_edit
from amends.committee.weighing import counted, joined, replicated, sure, weights_of
from amends.data.splits import some
from amends.editors import follow
from amends.errors import AmendsError
from amends.evaluation.predictions import right
from amends.evidence.factor import Factor
from amends.evidence.params import LARGE, count
from amends.likelihoods import Weighted
from amends.methods import Method, Scorer
from amends.posteriors import Posterior
from amends.progress import Progress

MOST = 1000  # right examples an edit is held by, and judged on, while choosing
SHOWN = 2000  # failures it is shown while choosing; four times as many in the end
LESS = 4  # a large model makes do with this many times fewer of both
ENOUGH = 20  # right examples from which they say what a right label looks like
FEW = 4  # with fewer right examples none is held: they only judge


@dataclass(frozen=True)
class Heard:
    """One member: the share of D it sets apart from right labels (None where they do not say), its balanced
    probability on what it was not shown (None without an edit), and its share in the scores."""

    name: str
    found: float | None
    unseen: float | None
    weight: float
    refused: str = ""

    def row(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Decision:
    """The scores of D; of the edit heard most its r̃, its posterior and its end; and, for every failure,
    the probability of its own label under edits that were not shown it."""

    scores: Tensor
    raw: Tensor
    start: Posterior
    edited: Posterior
    heard: tuple[Heard, ...]
    unseen: np.ndarray


def decide(
    members: Mapping[str, Method | Scorer],
    train: Factor,
    failures: Factor,
    remaining: Factor | None,
    seed: int,
    progress: Progress,
) -> Decision:
    """Try every member on halves, weigh them, and let those that are heard edit with all of the failures."""
    less = LESS if count(train.network.params) >= LARGE else 1
    held, judges = _right_ones(train, remaining, seed, 2 * MOST // less)
    known = held is not None and len(judges) >= ENOUGH and not isinstance(train.network.likelihood, Weighted)
    labels = RightLabels.of(train, failures, judges) if known else None  # weights of D alone would tell it apart
    trials, refused = {}, {}
    for name, member in members.items():
        counter = progress.counter(f"trying {name}")
        try:
            if isinstance(member, Method):
                trials[name] = trial(member, train, failures, held, judges, labels, seed, counter, SHOWN // less)
            else:
                trials[name] = without_edit(member, train, failures, judges, labels, seed)
        except (AmendsError, torch.OutOfMemoryError) as e:
            refused[name] = e
    edits = {name: t for name, t in trials.items() if isinstance(members[name], Method)}
    if not edits:
        raise next(iter(refused.values()))
    own = weights_of(edits)
    inserted = failures[some(np.arange(len(failures)), 4 * SHOWN // less, seed)]
    parts = {name: trials[name].scores[0] for name in trials if name not in edits}
    made: dict[str, tuple[Posterior, Posterior]] = {}
    for name in sorted(edits, key=lambda name: -own[name]):  # the first says where the model would go, heard or not
        if made and not weights_of({n: t for n, t in trials.items() if n not in refused})[name]:
            continue
        method: Any = members[name]
        counter = progress.counter(f"inserting the failures with {name}")
        try:
            q = method.remember(train, held)
            after = follow(method.editor(q, method.evidence(train, inserted)), None, progress=counter)
            parts[name] = replicated((method.score(q, after, train), *trials[name].scores))
            made[name] = q, after
        except (AmendsError, torch.OutOfMemoryError) as e:
            refused[name] = e
    if not made:
        raise next(iter(refused.values()))
    weights = weights_of({name: trials[name] for name in parts})
    own = weights_of({name: t for name, t in edits.items() if name not in refused})
    harm = joined([(own[name], parts[name]) for name in made])
    told = max(edits[name].found for name, weight in own.items() if weight)
    parts = {name: part if name in made else part * counted(trials[name], told, harm) for name, part in parts.items()}
    scores = joined([(weight, parts[name]) for name, weight in weights.items() if weight])
    scores = scores * sure([(weight, trials[name]) for name, weight in weights.items() if weight], scores)
    scores = torch.where(scores > 0, scores, harm.clamp(max=0))
    q, edited = made[next(iter(made))]
    raw = q.rows(train.per_example).mean(0) - edited.rows(train.per_example).mean(0)
    heard = [
        Heard(name, t.found if known else None, t.balanced if name in edits else None, weights.get(name, 0.0))
        for name, t in trials.items() if name not in refused
    ]  # fmt: skip
    heard += [Heard(name, None, None, 0.0, str(e)) for name, e in refused.items()]
    unseen = sum((own[name] * edits[name].failures for name in own), np.zeros(len(failures)))
    return Decision(scores, raw, q, edited, tuple(heard), unseen)


def _right_ones(train: Factor, remaining: Factor | None, seed: int, most: int) -> tuple[Factor | None, Factor]:
    """Those that hold an edit, if there are any to spare; those that judge it. Without `remaining`, what
    the model gets right of D judges."""
    rng = np.random.default_rng([seed, 11])
    if remaining is not None and len(remaining) >= FEW:
        chosen = remaining[np.sort(rng.permutation(len(remaining))[:most])]
        return chosen, chosen
    ok = np.flatnonzero(right(train, train.network.params))
    return None, train[np.sort(rng.permutation(ok)[:most])]
