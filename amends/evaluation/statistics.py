"""What an edit fixed, what it broke, and how sure one can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from amends.errors import at_least
from amends.evaluation.predictions import class_targets, given, predicted
from amends.evidence.factor import Factor
from amends.evidence.params import Params


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Whether each example of one set is right, before and after."""

    before: np.ndarray
    after: np.ndarray

    def __len__(self) -> int:
        return len(self.before)

    def then(self, other: BeforeAfter) -> BeforeAfter:
        """With those of another set after it."""
        return BeforeAfter(*(np.concatenate(pair) for pair in ((self.before, other.before), (self.after, other.after))))

    @property
    def fixed(self) -> int:
        return int((~self.before & self.after).sum())

    @property
    def broken(self) -> int:
        return int((self.before & ~self.after).sum())

    @property
    def summary(self) -> dict[str, Any]:
        """Accuracies, None for an empty set."""
        accuracy = {"before": float(self.before.mean()), "after": float(self.after.mean())} if len(self) else {}
        return {"before": None, "after": None, **accuracy, "n": len(self)}


def overall(failures: BeforeAfter, remaining: BeforeAfter | None, share: float) -> dict[str, Any]:
    """Failures and right examples, `share` of the whole being failures, however many of each were judged."""
    if remaining is None or not len(remaining):
        return failures.summary
    a, b = failures.summary, remaining.summary
    mixed = {k: share * a[k] + (1 - share) * b[k] for k in ("before", "after")}
    return {**mixed, "n": a["n"] + b["n"]}


def mcnemar(fixed: int, broken: int) -> float:
    """Exact p-value of `fixed` against `broken` or more extreme, two-sided."""
    n = fixed + broken
    if n == 0:
        return 1.0
    term = tail = 1  # binomial coefficients, each from the one before
    for k in range(min(fixed, broken)):
        term = term * (n - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / 2**n)


def interval(share: float, n: float, z: float = 1.96) -> list[float]:
    """Wilson's 95 % interval of a share."""
    if n == 0:
        return [0.0, 1.0]
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def paired(before: np.ndarray, after: np.ndarray, seed: int = 0, draws: int = 2000) -> list[float]:
    """95 % percentile interval of the change in accuracy, by a bootstrap that draws whole examples."""
    return paired_together([(1.0, BeforeAfter(before, after))], seed, draws)


def paired_together(parts: Sequence[tuple[float, BeforeAfter]], seed: int = 0, draws: int = 2000) -> list[float]:
    """The same of several sets, each with its weight in the whole and drawn by itself.

    A draw of n examples is known by how many of them were fixed and how many broken, so those two
    counts and the rest are drawn as a multinomial, and no example is touched again.
    """
    at_least("paired", draws=(draws, 1))
    rng, moved = np.random.default_rng(seed), np.zeros(draws)
    for weight, pair in parts:
        n, fixed, broken = len(pair), pair.fixed, pair.broken
        if n:
            drawn = rng.multinomial(n, np.array([fixed, broken, n - fixed - broken]) / n, draws)
            moved += weight * (drawn[:, 0] - drawn[:, 1]) / n
    return np.percentile(moved, [2.5, 97.5]).tolist()


def interval_together(parts: Sequence[tuple[float, BeforeAfter]]) -> list[float]:
    """Wilson's interval of a share that is mixed of several sets: as of so many examples as would err as much."""
    shares = [(weight, float(pair.after.mean()), len(pair)) for weight, pair in parts]
    share = sum(weight * p for weight, p, _ in shares)
    variance = sum(weight**2 * p * (1 - p) / n for weight, p, n in shares)
    n = share * (1 - share) / variance if variance else sum(n for *_, n in shares)
    return interval(share, n)


def calibration(data: Factor, theta: Params, bins: int = 15) -> dict[str, float] | None:
    """How far the model's confidence is from how often it is right; None unless targets are classes.

    `error` is the expected calibration error over bins of equal mass, where examples of one and the
    same confidence share a bin; `confidence` the mean top probability; `loss` that of the family,
    whatever the caller trained with. Examples count by their weights.
    """
    at_least("calibration", bins=(bins, 1))
    n, family = len(data), data.network.likelihood.family
    if not n or not class_targets(data):
        return None
    outputs = data.outputs(theta).double()
    y = data.examples.y.to(outputs.device)
    weight = data.weights.double().numpy() / float(data.weights.sum())
    confidence = family.belief(outputs).amax(1).cpu().numpy()
    _, place = np.unique(confidence, return_inverse=True)
    mass = np.bincount(place, weight)
    held = ((np.cumsum(mass) - mass)[place] * bins + 1e-9).astype(int)
    gap = np.bincount(held, weight * (confidence - family.right(outputs, y).cpu().numpy()))
    loss = -float(weight @ family(outputs, y).cpu().numpy())
    return {"error": float(np.abs(gap).sum()), "confidence": float(weight @ confidence), "loss": loss, "n": n}


def by_label(names: np.ndarray, before: np.ndarray, after: np.ndarray) -> dict[str, dict[str, Any]]:
    """Each name's examples before and after, with the exact McNemar test of fixed against broken."""
    rows = {}
    for name in np.unique(names):
        pair = BeforeAfter(before[names == name], after[names == name])
        counts = {"fixed": pair.fixed, "broken": pair.broken, "p_value": mcnemar(pair.fixed, pair.broken)}
        rows[str(name)] = {"n": len(pair), **pair.summary, **counts}
    return rows


def confusion(data: Factor, theta: Params, classes: int) -> np.ndarray:
    """How many of each true class (rows) are called each class (columns)."""
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (given(data), predicted(data, theta)), 1)
    return table


def harmed(rows: dict[str, dict[str, Any]], least: float = 0.05) -> list[str]:
    """The names `by_label` shows to have got worse beyond chance, the largest fall first.

    With as many tests as names, each is held to `least` over their number (Bonferroni).
    """
    fell = {k: row["after"] - row["before"] for k, row in rows.items() if row["p_value"] <= least / len(rows)}
    return sorted((k for k, change in fell.items() if change < 0), key=fell.__getitem__)
