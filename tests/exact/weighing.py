"""How much labels of a class, members and their scores count, by loops; `tried` are members with `excess` (share,
found, noise, confidence), `failures` and `balanced`."""

from __future__ import annotations

from math import exp, lgamma

import numpy as np


def relevance(said, called):
    """How much labels of each class count: in full if the model says it of failures a twentieth as often as of D."""
    shares = {c: np.mean(said == c) for c in sorted(set(said.tolist()))}
    often = {c: np.sum(called == c) for c in shares}
    n, likely, expected = sum(often.values()), [], []
    for a in (2.0**k for k in range(-20, 21)):
        logs = sum(lgamma(often[c] + a * b) - lgamma(a * b) for c, b in shares.items())
        likely.append(logs + lgamma(a) - lgamma(n + a))
        expected.append([(often[c] + a * b) / (n + a) for c, b in shares.items()])
    likely = np.exp(np.array(likely) - max(likely))
    mean = likely / likely.sum() @ np.array(expected)
    return {c: min(1.0, m / (0.05 * b)) for (c, b), m in zip(shares.items(), mean, strict=True)}


def trust(t):
    """Nothing up to one and a half standard errors, all from three on."""
    if t.excess is None or not t.excess[2]:
        return float(t.excess is not None and t.excess[1] > 0)
    return min(1.0, max(0.0, 2 * t.excess[1] / (3 * t.excess[2]) - 1))


def edits_of(tried):
    return {name: t for name, t in tried.items() if t.ends}


def weights_of(tried):
    """By what is found as far as that is no noise; else by what was unseen. One that is no edit counts as much as all
    edits together; by what is found at least that, as far as its own is no noise."""
    trusted = max(trust(t) for t in tried.values())
    by_found = by_unseen = dict.fromkeys(tried, 0.0)
    if trusted:
        best = max(tried.values(), key=lambda t: trust(t) * t.excess[1]).excess[1]
        by_found = relative({name: min(t.excess[1], best) for name, t in tried.items()}, best / 3)
        for name in set(tried) - set(edits_of(tried)) if edits_of(tried) else ():
            half, edits = trust(tried[name]) / 2, 1 - by_found[name]
            if by_found[name] < half:
                by_found = {other: weight / edits * (1 - half) for other, weight in by_found.items()} | {name: half}
    if trusted < 1:
        edits = {name: t for name, t in tried.items() if len(t.failures)}
        best = max(edits.values(), key=lambda t: t.balanced)
        noise = best.failures.std() / 2 / len(best.failures) ** 0.5
        own = relative({name: t.balanced for name, t in edits.items()}, max(0.03, noise))
        others = len(tried) - len(edits)
        by_unseen = {name: own.get(name, 1.0) / (1 + others) for name in tried}
    return {name: trusted * by_found[name] + (1 - trusted) * by_unseen[name] for name in tried}


def relative(worth, within):
    """1/e for so much less than the best; below a tenth nothing."""
    raw = {name: exp((value - max(worth.values())) / within) for name, value in worth.items()}
    raw = {name: value if value >= 0.1 else 0.0 for name, value in raw.items()}
    return {name: value / sum(raw.values()) for name, value in raw.items()}


def joined(parts):
    """Each in units of its mean harm; harm where any finds it, else how harmless."""
    harm, harmless = (np.zeros(len(parts[0][1])) for _ in range(2))
    for weight, scores in parts:
        unit = np.maximum(scores, 0).mean()
        if unit > 0:
            harm += weight * np.maximum(scores, 0) / unit
            harmless += weight * np.minimum(scores, 0) / unit
    return np.where(harm > 0, harm, harmless)
