"""How much of D a score sets apart from right labels, one threshold after the other; what is known of right labels as
pairs of scores and weights."""

from __future__ import annotations

import numpy as np

STEPS, LEAN = 20, 50.0


def reaching(at, scores, weights=None):
    """The share, by weight, that scores as high or higher."""
    order = np.argsort(-scores)
    total = np.cumsum(np.concatenate([[0.0], np.ones(len(scores)) if weights is None else weights[order]]))
    return total[np.searchsorted(-scores[order], -at, side="right")] / total[-1]


def count(weights):
    """So many labels of equal weight say as much."""
    return weights.sum() ** 2 / (weights**2).sum()


def beyond(at, mine, own, everywhere, lean, missing):
    """The shares of these that score so high; beyond what right labels do; and the standard error of that."""
    here, all_over = (reaching(at, *labels) for labels in (own, everywhere))
    n, reach = count(own[1]), reaching(at, mine)
    usual = np.maximum(here, (n * here + lean * all_over) / (n + lean))
    usual += missing * (1 - usual)
    few = 1 / max(1, n)
    error = np.sqrt(np.maximum(usual * (1 - usual), few) * (few + 1 / len(mine)))
    return reach, np.maximum(0.0, reach - usual - error), error


def sure(mine, own, everywhere, lean, missing):
    """Of those that score as high, or less so, the largest share that must be wrong."""
    at, back = np.unique(mine, return_inverse=True)
    reach, over, _ = beyond(at, mine, own, everywhere, lean, missing)
    return np.maximum.accumulate(over / reach)[back]


def found(mine, own, everywhere, missing):
    """What must be wrong; the same from the highest score on, each part by the share of those that reach it; and the
    noise of that."""
    most = total = noise = 0.0
    at = np.unique(mine)[::-1]
    for reach, here, error in zip(*beyond(at, mine, own, everywhere, LEAN, missing), strict=True):
        if here > most:
            total += (here - most) * here / reach
            most, noise = here, error
    return most, total, noise * total / most if most else 0.0


def alike(scores, everywhere, classes):
    """How far each class is like all others: the variance its few labels explain, over all there is."""
    apart = reaching(scores, scores) - reaching(scores, *everywhere)
    reaches = sum(scores >= scores[apart.argmax()])
    at = np.sort(scores)[::-1][[(reaches * step - 1) // STEPS for step in range(1, STEPS + 1)]]
    right, all_of_d = reaching(at, *everywhere), reaching(at, scores)
    explained = np.array([
        np.maximum(1e-12, right * (1 - right) / count(own[1]) + all_of_d * (1 - all_of_d) / len(mine))
        for mine, own in classes
    ])  # fmt: skip
    differences = np.array([reaching(at, mine) - reaching(at, *own) for mine, own in classes])
    middle = (differences / explained).sum(0) / (1 / explained).sum(0)
    between = max(0.0, np.mean((differences - middle) ** 2 - (1 - 1 / len(classes)) * explained))
    return [e.mean() / (e.mean() + between) for e in explained]


def excess(scores, kinds, known, known_kinds, weights, missing):
    """What must be wrong of D, what is found, its noise, and for each example how sure it is that it is wrong."""
    share = total = variance = 0.0
    confidence = np.full(len(scores), np.nan)
    at = {kind: (known_kinds == kind) & (weights > 0) for kind in sorted(set(kinds.tolist()))}
    labels = {kind: (known[here], weights[here]) for kind, here in at.items() if here.any()}
    told = np.isin(kinds, list(labels))
    frequent = [w / w.sum() * (kinds == kind).sum() for kind, (_, w) in labels.items()]
    everywhere = np.concatenate([s for s, _ in labels.values()]), np.concatenate(frequent)
    classes = [(scores[kinds == kind], own) for kind, own in labels.items()]
    of_all = np.full(len(scores), np.nan)
    of_all[told] = sure(scores[told], everywhere, everywhere, 0.0, 0.0)
    for kind, (mine, own), like in zip(labels, classes, alike(scores[told], everywhere, classes), strict=True):
        here, lacking = kinds == kind, missing.get(kind, 0)
        confidence[here] = np.maximum(sure(mine, own, everywhere, LEAN, lacking), like * of_all[here])
        most, part, noise = found(mine, own, everywhere, lacking)
        share += len(mine) / len(scores) * most
        total += len(mine) / len(scores) * part
        variance += (len(mine) / len(scores) * noise) ** 2
    return share, total, variance**0.5, np.where(told, confidence, np.nanmean(confidence))
