"""Several edits at once, each heard by how well it does on what it was not shown.

No single edit finds the causes in every model. But an edit that repairs failures it never saw, and
leaves alone right examples it never held, has understood something that the failures share; one that
merely fits its evidence has not. Both halves of that count the same, so a shift of the output bias,
which fixes failures on one side by breaking what was right on the other, gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.conflicts import halves
from amends.data.splits import some
from amends.editors import follow
from amends.editors.tangent import Linearised
from amends.errors import AmendsError, BadInput
from amends.evaluation import right
from amends.factor import Factor
from amends.likelihoods import Likelihood, probability
from amends.methods import Method
from amends.params import LARGE, count
from amends.posteriors import Posterior
from amends.progress import Progress

WITHIN = 0.03  # members this much worse than the best, or by its noise if that is more, are heard 1/e as much
ROOT = 0.5  # power under which the harm found by edits of one member is averaged
LEAST = 0.05  # and those heard less than this are not heard at all
MOST = 1000  # right examples an edit is held by, and judged on, while choosing
SHOWN = 2000  # failures it is shown while choosing; four times as many in the end
LESS = 4  # a large model makes do with this many times fewer of both
FEW = 4  # with fewer right examples none is held: they only judge
SIZES = tuple(2.0**k for k in range(-3, 6))  # how far along a tangent, in mean changes of an output by one


@dataclass(frozen=True)
class Heard:
    """One member: its balanced probability on what it was not shown, and its share in the scores."""

    name: str
    unseen: float
    weight: float
    refused: str = ""

    def row(self) -> dict[str, Any]:
        unseen = None if self.refused else self.unseen
        return {"name": self.name, "unseen": unseen, "weight": self.weight, "refused": self.refused}


@dataclass(frozen=True, eq=False)
class Decision:
    """The scores of D; of the member heard most its r̃, its posterior and its edit; and, for every failure,
    the probability of its own label while it was not shown."""

    scores: Tensor
    raw: Tensor
    start: Posterior
    edited: Posterior
    heard: tuple[Heard, ...]
    unseen: np.ndarray


@dataclass(frozen=True, eq=False)
class Trial:
    """Probabilities a member gives to the labels it was not shown; and how it scores D, shown each half."""

    failures: np.ndarray
    right: np.ndarray
    scores: tuple[Tensor, ...] = ()

    @property
    def balanced(self) -> float:
        return float(np.mean([part.mean() for part in (self.failures, self.right) if len(part)]))

    @property
    def noise(self) -> float:
        return float(self.failures.std()) / 2 / len(self.failures) ** 0.5


def decide(
    members: Mapping[str, Method],
    train: Factor,
    failures: Factor,
    remaining: Factor | None,
    seed: int,
    progress: Progress,
) -> Decision:
    """Try every member on halves, weigh them, and let those that are heard edit with all of the failures."""
    less = LESS if count(train.network.params) >= LARGE else 1
    held, judges = _right_ones(train, remaining, seed, 2 * MOST // less)
    trials, refused = {}, {}
    for name, method in members.items():
        counter = progress.counter(f"trying {name}")
        try:
            trials[name] = _trial(method, train, failures, held, judges, seed, counter, SHOWN // less)
        except (AmendsError, torch.OutOfMemoryError) as e:
            refused[name] = e
    if not trials:
        raise next(iter(refused.values()))
    weights = _weights(trials)
    inserted = failures[some(np.arange(len(failures)), 4 * SHOWN // less, seed)]
    parts, edits = {}, {}
    for name, weight in weights.items():
        if not weight:
            continue
        method = members[name]
        counter = progress.counter(f"inserting the failures with {name}")
        try:
            q = method.remember(train, held)
            after = follow(method.editor(q, method.evidence(train, inserted)), None, progress=counter)
            scores = (method.score(q, after, train), *trials[name].scores)
            parts[name], edits[name] = (weight, replicated(scores)), (q, after)
        except (AmendsError, torch.OutOfMemoryError) as e:
            refused[name] = e
    if not parts:
        raise next(iter(refused.values()))
    trials = {name: t for name, t in trials.items() if name not in refused}
    total = sum(weights[name] for name in parts)
    weights = {name: weight / total if name in parts else 0.0 for name, weight in weights.items()}
    parts = {name: (weights[name], scores) for name, (_, scores) in parts.items()}
    first = max(parts, key=lambda name: weights[name])
    q, edited = edits[first]
    raw = q.rows(train.per_example).mean(0) - edited.rows(train.per_example).mean(0)
    heard = [Heard(name, t.balanced, weights[name]) for name, t in trials.items()]
    heard += [Heard(name, float("nan"), 0.0, str(e)) for name, e in refused.items()]
    unseen = sum((weights[name] * t.failures for name, t in trials.items()), np.zeros(len(failures)))
    return Decision(_joined(list(parts.values())), raw, q, edited, tuple(heard), unseen)


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
    best = max(trials.values(), key=lambda t: t.balanced)
    within = max(WITHIN, best.noise)
    raw = {name: float(np.exp((t.balanced - best.balanced) / within)) for name, t in trials.items()}
    total = sum(w for w in raw.values() if w >= LEAST)
    return {name: w / total if w >= LEAST else 0.0 for name, w in raw.items()}


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
    seed: int,
    counter: Callable[[int], None],
    most: int,
) -> Trial:
    on_failures, on_right, scores = np.zeros(len(failures)), np.zeros(len(judges)), []
    for (shown, unseen), (holding, judging) in zip(halves(failures, seed), halves(judges, seed), strict=True):
        q = method.remember(train, None if held is None else held[holding])
        evidence = method.evidence(train, failures[some(shown, most, seed)])
        after = follow(method.editor(q, evidence), None, progress=counter)
        here = _probabilities(q, after, failures[unseen], judges[judging])
        on_failures[unseen], on_right[judging] = here.failures, here.right
        scores.append(method.score(q, after, train))
    return Trial(on_failures, on_right, tuple(scores))


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
