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
    """By what they found; by how edits do on what they were not shown, where that is no more than noise."""
    best = found_most(trials.values(), settings)
    if best:
        worth = {name: min(t.found, best.found) for name, t in trials.items()}
        within = best.found / settings.errors  # which is more than its noise
    else:
        worth = {name: t.balanced for name, t in trials.items() if len(t.failures)}
        within = max(settings.within, trials[max(worth, key=lambda name: worth[name])].spread)
    highest = max(worth.values())
    raw = {name: float(np.exp((value - highest) / within)) for name, value in worth.items()}
    total = sum(w for w in raw.values() if w >= settings.least)
    return {name: raw[name] / total if raw.get(name, 0.0) >= settings.least else 0.0 for name in trials}


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
    """How much the harm of each example counts: as much as those that count are sure that labels are wrong that score
    as high, where they have found any. One of which nobody is sure counts as one among all, so that an order is left.
    """
    if not found_most((t for _, t in counting), settings):
        return 1.0
    sure = sum(weight * t.excess.confidence for weight, t in counting if t.excess)
    return torch.as_tensor(np.maximum(sure, 1 / len(like))).to(like)


def found_most(trials: Iterable[Trial], settings: Weights = WEIGHTS) -> Trial | None:
    """That of the member that found most, of those that found more than noise."""
    return max((t for t in trials if t.found > settings.errors * t.noise), key=lambda t: t.found, default=None)
