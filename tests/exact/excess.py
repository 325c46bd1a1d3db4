"""How much of D a score sets apart from right labels: one threshold and one example after the other."""

from __future__ import annotations

import numpy as np

from amends.committee.excess import STEPS
from amends.settings import RightScores

LEAN = RightScores().lean


def reaching(at, scored):
    """The share, by weight, that scores as high or higher."""
    return sum(w for s, w in scored if s >= at) / sum(w for _, w in scored) if scored else 0.0


def count(own):
    """So many labels of equal weight say as much."""
    return sum(w for _, w in own) ** 2 / sum(w * w for _, w in own)


def beyond(at, mine, own, known, lean, missing, more):
    """The share of these that scores so high, beyond what right labels do; and its standard error."""
    here, everywhere = (min(1, more * reaching(at, labels)) for labels in (own, known))
    usual = max(here, (count(own) * here + lean * everywhere) / (count(own) + lean))
    usual += missing * (1 - usual)
    few = 1 / max(1, count(own))
    error = (max(usual * (1 - usual), few) * (few + 1 / len(mine))) ** 0.5
    return max(0.0, sum(s >= at for s in mine) / len(mine) - usual - error), error


def sure(score, mine, own, more, known=(), lean=0.0, missing=0.0):
    """Of those that score as high, or less so, the largest share that must be wrong."""
    return max(beyond(at, mine, own, known, lean, missing, more)[0] * len(mine) / sum(s >= at for s in mine)
               for at in mine if at <= score)  # fmt: skip


def found(mine, own, known, missing, more):
    """What must be wrong; the same from the highest score on, each part by the share of those that reach it; and the
    noise of that."""
    most = total = noise = 0.0
    for at in sorted(set(mine), reverse=True):
        here, error = beyond(at, mine, own, known, LEAN, missing, more)
        if here > most:
            total += (here - most) * here * len(mine) / sum(s >= at for s in mine)
            most, noise = here, error
    return most, total, noise * total / most if most else 0.0


def alike(scores, everywhere, classes, more):
    """How far each class is like all others: the variance its few labels explain, over all there is."""
    _, furthest = max((sum(scores >= at) / len(scores) - min(1, more * reaching(at, everywhere)), at) for at in scores)
    reaches = sum(scores >= furthest)
    thresholds = [sorted(scores, reverse=True)[(reaches * step - 1) // STEPS] for step in range(1, STEPS + 1)]
    explained, differences = [], []
    for mine, own in classes:
        n = count(own)
        shares = [(reaching(at, everywhere), sum(scores >= at) / len(scores)) for at in thresholds]
        explained.append([max(1e-12, k * (1 - k) / n + d * (1 - d) / len(mine)) for k, d in shares])
        differences.append([sum(mine >= at) / len(mine) - reaching(at, own) for at in thresholds])
    left = []
    for step in range(STEPS):
        parts = [1 / e[step] for e in explained]
        middle = sum(part * d[step] for part, d in zip(parts, differences, strict=True)) / sum(parts)
        left += [(d[step] - middle) ** 2 - (1 - 1 / len(parts)) / part
                 for part, d in zip(parts, differences, strict=True)]  # fmt: skip
    between = max(0.0, np.mean(left))
    return [np.mean(e) / (np.mean(e) + between) for e in explained]


def excess(scores, kinds, known, known_kinds, weights, missing, more=1.0):
    """What must be wrong of D, what is found, its noise, and for each example how sure it is that it is wrong."""
    share = total = variance = 0.0
    confidence = np.full(len(scores), np.nan)
    labels = {kind: [(s, w) for s, w, k in zip(known, weights, known_kinds, strict=True) if k == kind and w > 0]
              for kind in sorted(set(kinds))}  # fmt: skip
    labels = {kind: own for kind, own in labels.items() if own}
    told = scores[np.isin(kinds, list(labels))]
    everywhere = [(s, w / sum(v for _, v in own) * sum(kinds == kind)) for kind, own in labels.items() for s, w in own]
    classes = [(scores[kinds == kind], own) for kind, own in labels.items()]
    for kind, (mine, own), like in zip(labels, classes, alike(told, everywhere, classes, more), strict=True):
        for i in np.flatnonzero(kinds == kind):
            its = sure(scores[i], mine, own, more, everywhere, LEAN, missing.get(kind, 0))
            confidence[i] = max(its, like * sure(scores[i], told, everywhere, more))
        most, here, noise = found(mine, own, everywhere, missing.get(kind, 0), more)
        share += len(mine) / len(scores) * most
        total += len(mine) / len(scores) * here
        variance += (len(mine) / len(scores) * noise) ** 2
    return share, total, variance**0.5, np.where(np.isnan(confidence), np.nanmean(confidence), confidence)
