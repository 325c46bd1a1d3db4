"""How much of D a score sets apart from right labels: one threshold and one example after the other."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from amends.settings import RightScores

LEAN = RightScores().lean


def reaching(at, scored):
    """The share, by weight, that scores as high or higher."""
    return sum(w for s, w in scored if s >= at) / sum(w for _, w in scored) if scored else 0.0


def beyond(at, mine, own, known, missing):
    """The share of one class that scores so high, beyond what right labels do; and its standard error."""
    count = sum(w for _, w in own) ** 2 / sum(w * w for _, w in own) if own else 0.0
    here = reaching(at, own)
    usual = max(here, (count * here + LEAN * reaching(at, known)) / (count + LEAN))
    usual += missing * (1 - usual)
    few = 1 / max(1, count)
    error = (max(usual * (1 - usual), few) * (few + 1 / len(mine))) ** 0.5
    return sum(s >= at for s in mine) / len(mine) - usual - error, error


def excess(scores, kinds, known, known_kinds, weights, missing):
    """The share of D, its noise, and for each example how sure it is that its label is wrong."""
    share = variance = 0.0
    sure = np.full(len(scores), np.nan)
    everywhere = list(zip(known, weights, strict=True))
    for kind in sorted(set(kinds)):
        own = [(s, w) for (s, w), k in zip(everywhere, known_kinds, strict=True) if k == kind and w > 0]
        mine = scores[kinds == kind]
        at_each = {at: beyond(at, mine, own, everywhere, missing.get(kind, 0)) for at in mine}
        must_be = {at: max(0, more) * len(mine) / sum(mine >= at) for at, (more, _) in at_each.items()}
        for i in np.flatnonzero(kinds == kind) if own else ():
            sure[i] = max(value for at, value in must_be.items() if at <= scores[i])
        best, error = max([(0.0, 0.0), *at_each.values()], key=itemgetter(0))
        share += len(mine) / len(scores) * best
        variance += (len(mine) / len(scores) * error) ** 2
    return share, variance**0.5, np.where(np.isnan(sure), np.nanmean(sure), sure)
