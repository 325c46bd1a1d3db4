"""How much each member counts, and how what they find becomes one score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from amends.committee.trying import Trial
from amends.settings import DEFAULT, Weights

WEIGHTS = DEFAULT.identifying.weights


def weights_of(trials: Mapping[str, Trial], settings: Weights = WEIGHTS) -> dict[str, float]:
    """By what they found, as far as that is reliable; for the rest by what they make of what was unseen."""
    reliable = reliability(trials.values(), settings)
    found = _by_found(trials, settings) if reliable else {}
    unseen = _by_unseen(trials, settings) if reliable < 1 else {}
    return {name: reliable * found.get(name, 0.0) + (1 - reliable) * unseen.get(name, 0.0) for name in trials}


def reliability(trials: Iterable[Trial], settings: Weights = WEIGHTS) -> float:
    """That of the most reliable member, from 0 to 1."""
    return max((reliability_of(t, settings) for t in trials), default=0.0)


def reliability_of(t: Trial, settings: Weights) -> float:
    """How much it found beside the standard error of that: 0 up to half of what is asked for, 1 from there on."""
    if not t.standard_error:
        return float(t.found > 0)
    return float(np.clip(2 * t.found / (settings.errors * t.standard_error) - 1, 0, 1))


def _by_found(trials: Mapping[str, Trial], settings: Weights) -> dict[str, float]:
    """One that may have found noise counts no more than the best of the more reliable ones."""
    most = max(trials.values(), key=lambda t: reliability_of(t, settings) * t.found).found
    return _relative({name: min(t.found, most) for name, t in trials.items()}, most / settings.errors, settings)


def _by_unseen(trials: Mapping[str, Trial], settings: Weights) -> dict[str, float]:
    """Edits by how well they do on what they were not shown. Of one that is no edit this cannot be said: it counts as
    much as all of them together."""
    edits = {name: t for name, t in trials.items() if len(t.failures)}
    error = max(edits.values(), key=lambda t: t.balanced).balanced_error
    own = _relative({name: t.balanced for name, t in edits.items()}, max(settings.within, error), settings)
    return {name: own.get(name, 1.0) / (1 + len(trials) - len(edits)) for name in trials}


def _relative(worth: Mapping[str, float], within: float, settings: Weights) -> dict[str, float]:
    """e⁻¹ for `within` less than the best; none where that is too little."""
    highest = max(worth.values())
    raw = {name: float(np.exp((value - highest) / within)) for name, value in worth.items()}
    total = sum(w for w in raw.values() if w >= settings.least)
    return {name: w / total if w >= settings.least else 0.0 for name, w in raw.items()}


def joined(parts: list[tuple[float, Tensor]]) -> Tensor:
    """Scores, each in units of their mean harm, weighed and added. Harm counts where one finds it, whatever the others
    say; where none does, the least harmless come first."""
    harm, harmless = torch.zeros_like(parts[0][1]), torch.zeros_like(parts[0][1])
    for weight, scores in parts:
        unit = scores.clamp(min=0).mean()
        if unit > 0:
            harm += weight * scores.clamp(min=0) / unit
            harmless += weight * scores.clamp(max=0) / unit
    return torch.where(harm > 0, harm, harmless)


def confidence(counting: Sequence[tuple[float, Trial]], like: Tensor, settings: Weights = WEIGHTS) -> Tensor | float:
    """How much the harm of each example counts: by how sure those that count are that labels with such a score are
    wrong, as far as they have found any. One of which nobody is sure counts as one among all, so that an order is
    left."""
    reliable = reliability((t for _, t in counting), settings)
    if not reliable:
        return 1.0
    sure = sum(weight * t.excess.confidence for weight, t in counting if t.excess)
    return torch.as_tensor(reliable * np.maximum(sure, 1 / len(like)) + 1 - reliable).to(like)
