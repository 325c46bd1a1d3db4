"""The weight of each member, and how their scores become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from amends.committee.trying import Trial
from amends.settings import DEFAULT, Weights

WEIGHTS = DEFAULT.identifying.weights


def weights_of(trials: Mapping[str, Trial], settings: Weights = WEIGHTS) -> dict[str, float]:
    """The weight of each member: by `found`, as far as that is reliable; for the rest, by how well it does on examples
    it did not use."""
    reliable = reliability(trials.values(), settings)
    found = _by_found(trials, settings) if reliable else {}
    unseen = _by_unseen(trials, settings) if reliable < 1 else {}
    return {name: reliable * found.get(name, 0.0) + (1 - reliable) * unseen.get(name, 0.0) for name in trials}


def reliability(trials: Iterable[Trial], settings: Weights = WEIGHTS) -> float:
    """The reliability of the most reliable member, from 0 to 1."""
    return max((reliability_of(t, settings) for t in trials), default=0.0)


def reliability_of(t: Trial, settings: Weights) -> float:
    """From 0 to 1, by `found` in standard errors: 1 from `settings.errors` on, 0 up to half of that."""
    if not t.standard_error:
        return float(t.found > 0)
    return float(np.clip(2 * t.found / (settings.errors * t.standard_error) - 1, 0, 1))


def _by_found(trials: Mapping[str, Trial], settings: Weights) -> dict[str, float]:
    """No member counts for more than the one with the largest `found` times reliability: more may be noise. The learned
    loss counts at least as much as all edits together, as far as its own `found` is reliable: where the model
    fails much, its `found` is far too low, since failures learned in a few passes stay less likely than labels of D."""
    most = max(trials.values(), key=lambda t: reliability_of(t, settings) * t.found).found
    weights = _relative({name: min(t.found, most) for name, t in trials.items()}, most / settings.errors, settings)
    for name, t in trials.items():
        least = reliability_of(t, settings) / 2
        if not len(t.failures) and len(trials) > 1 and weights[name] < least:
            rest = (1 - least) / (1 - weights[name])
            weights = {other: least if other == name else rest * weight for other, weight in weights.items()}
    return weights


def _by_unseen(trials: Mapping[str, Trial], settings: Weights) -> dict[str, float]:
    """Edits by how well they do on examples they did not use. The learned loss is not an edit and has no such figure:
    it counts as much as all edits together."""
    edits = {name: t for name, t in trials.items() if len(t.failures)}
    error = max(edits.values(), key=lambda t: t.balanced).balanced_error
    own = _relative({name: t.balanced for name, t in edits.items()}, max(settings.within, error), settings)
    return {name: own.get(name, 1.0) / (1 + len(trials) - len(edits)) for name in trials}


def _relative(worth: Mapping[str, float], within: float, settings: Weights) -> dict[str, float]:
    """Weights that add up to 1: 1/e of the best for a member `within` below it, and 0 below `settings.least`."""
    highest = max(worth.values())
    raw = {name: float(np.exp((value - highest) / within)) for name, value in worth.items()}
    total = sum(w for w in raw.values() if w >= settings.least)
    return {name: w / total if w >= settings.least else 0.0 for name, w in raw.items()}


def joined(parts: list[tuple[float, Tensor]]) -> Tensor:
    """The weighted sum of scores, each in units of its mean positive score. Where any score of an example is positive,
    only its positive scores count; otherwise its negative ones give the order."""
    harm, harmless = torch.zeros_like(parts[0][1]), torch.zeros_like(parts[0][1])
    for weight, scores in parts:
        unit = scores.clamp(min=0).mean()
        if unit > 0:
            harm += weight * scores.clamp(min=0) / unit
            harmless += weight * scores.clamp(max=0) / unit
    return torch.where(harm > 0, harm, harmless)


def confidence(counting: Sequence[tuple[float, Trial]], like: Tensor, settings: Weights = WEIGHTS) -> Tensor | float:
    """The factor on the score of each example: the weighted mean of its confidences, as far as the members are
    reliable. It is never below its own mean over D: that a class shows no wrong label does not mean that it has
    none."""
    reliable = reliability((t for _, t in counting), settings)
    if not reliable:
        return 1.0
    mean = np.asarray(sum(weight * t.excess.confidence for weight, t in counting if t.excess))
    return torch.as_tensor(reliable * np.maximum(mean, mean.mean()) + 1 - reliable).to(like)
