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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.committee.apart import Apart, RightLabels
from amends.data.splits import halves, some
from amends.editors import follow
from amends.editors.tangent import Linearised
from amends.errors import AmendsError, BadInput
from amends.evaluation.predictions import groups, right
from amends.evidence.factor import Factor
from amends.evidence.params import LARGE, count
from amends.likelihoods import Likelihood, Weighted, probability
from amends.methods import Method, Scorer
from amends.posteriors import Posterior
from amends.progress import Progress

FOUND = 0.25  # who sets apart less than the best, by this share of it or by its noise, is heard 1/e as much
SURE = 3.0  # times its noise that some member must set apart for that to count
WITHIN = 0.03  # and who is so much worse on what it was not shown, or by the noise of the best, where that decides
UNSURE = 0.1  # what harm counts that right labels may do as well; what they cannot, that and 1
ROOT = 0.5  # power under which the harm found by edits of one member is averaged
LEAST = 0.2  # beside the best; those heard less are not heard at all
MOST = 1000  # right examples an edit is held by, and judged on, while choosing
SHOWN = 2000  # failures it is shown while choosing; four times as many in the end
LESS = 4  # a large model makes do with this many times fewer of both
ENOUGH = 20  # right examples from which they say what a right label looks like
FEW = 4  # with fewer right examples none is held: they only judge
SIZES = tuple(2.0**k for k in range(-3, 6))  # how far along a tangent, in mean changes of an output by one


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
                trials[name] = _trial(member, train, failures, held, judges, labels, seed, counter, SHOWN // less)
            else:
                trials[name] = _without_edit(member, train, failures, judges, labels, seed)
        except (AmendsError, torch.OutOfMemoryError) as e:
            refused[name] = e
    edits = {name: t for name, t in trials.items() if isinstance(members[name], Method)}
    if not edits:
        raise next(iter(refused.values()))
    own = _weights(edits)
    inserted = failures[some(np.arange(len(failures)), 4 * SHOWN // less, seed)]
    parts = {name: trials[name].scores[0] for name in trials if name not in edits}
    made: dict[str, tuple[Posterior, Posterior]] = {}
    for name in sorted(edits, key=lambda name: -own[name]):  # the first says where the model would go, heard or not
        if made and not _weights({n: t for n, t in trials.items() if n not in refused})[name]:
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
    weights = _weights({name: trials[name] for name in parts})
    own = _weights({name: t for name, t in edits.items() if name not in refused})
    harm = _joined([(own[name], parts[name]) for name in made])
    told = max(edits[name].found for name, weight in own.items() if weight)
    parts = {name: part if name in made else part * _counted(trials[name], told, harm) for name, part in parts.items()}
    scores = _joined([(weight, parts[name]) for name, weight in weights.items() if weight])
    scores = scores * _sure([(weight, trials[name]) for name, weight in weights.items() if weight], scores)
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


def replicated(edits: Sequence[Tensor]) -> Tensor:
    """What one member finds, from several edits: harm that only some of the failures bear witness to is
    trusted less than harm that all do, so roots are averaged, not the harm itself."""
    return _joined([(1 / len(edits), scores) for scores in edits], ROOT)


def _joined(parts: list[tuple[float, Tensor]], power: float = 1.0) -> Tensor:
    """Scores, each in units of their mean harm, weighed and averaged (harm as its `power`). Harm counts where
    one finds it, whatever the others say; where none does, the least harmless come first."""
    harm, harmless = torch.zeros_like(parts[0][1]), torch.zeros_like(parts[0][1])
    for weight, scores in parts:
        unit = scores.clamp(min=0).mean()
        if unit > 0:
            harm += weight * (scores.clamp(min=0) / unit) ** power
            harmless += weight * scores.clamp(max=0) / unit
    return torch.where(harm > 0, harm ** (1 / power), harmless)


def _weights(trials: Mapping[str, Trial]) -> dict[str, float]:
    """By what they found; by how edits do on what they were not shown, where that is no more than noise."""
    best = _found(trials.values())
    if best:
        worth = {name: min(t.found, best.found) for name, t in trials.items()}
        within = max(FOUND * best.found, best.noise)
    else:
        worth = {name: t.balanced for name, t in trials.items() if len(t.failures)}
        within = max(WITHIN, trials[max(worth, key=lambda name: worth[name])].spread)
    highest = max(worth.values())
    raw = {name: float(np.exp((value - highest) / within)) for name, value in worth.items()}
    total = sum(w for w in raw.values() if w >= LEAST)
    return {name: raw[name] / total if raw.get(name, 0.0) >= LEAST else 0.0 for name in trials}


def _counted(trial: Trial, told: float, harm: Tensor) -> Tensor:
    """What counts of a score that no edit made: where edits find harm all of it, since a wrong label may be in
    nobody's way. The less is `told` apart by the edits than by the score itself, the less their word is worth,
    and the more counts elsewhere of what it is rather sure of than not."""
    doubt = max(0.0, 1 - told / trial.found) if _found([trial]) else 0.0
    sure = torch.as_tensor(trial.apart.sure).to(harm) if trial.apart else 0 * harm
    return torch.where(harm > 0, 1.0, doubt * sure * (sure > 0.5))


def _sure(heard: Sequence[tuple[float, Trial]], like: Tensor) -> Tensor | float:
    """How much the harm of each example counts: as much as those heard are sure that labels are wrong that score as
    high in its class, where they have found any."""
    if not _found(t for _, t in heard):
        return 1.0
    sure = sum(weight * t.apart.sure for weight, t in heard if t.apart)
    return torch.as_tensor(UNSURE + sure).to(like)


def _found(trials: Iterable[Trial]) -> Trial | None:
    """That of the member that found most, of those that found more than noise."""
    return max((t for t in trials if t.found > SURE * t.noise), key=lambda t: t.found, default=None)


def _right_ones(train: Factor, remaining: Factor | None, seed: int, most: int) -> tuple[Factor | None, Factor]:
    """Those that hold an edit, if there are any to spare; those that judge it. Without `remaining`, what
    the model gets right of D judges."""
    rng = np.random.default_rng([seed, 11])
    if remaining is not None and len(remaining) >= FEW:
        chosen = remaining[np.sort(rng.permutation(len(remaining))[:most])]
        return chosen, chosen
    ok = np.flatnonzero(right(train, train.network.params))
    return None, train[np.sort(rng.permutation(ok)[:most])]


def _trial(
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


def _without_edit(
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
