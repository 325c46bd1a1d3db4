"""What an edit fixed, what it broke, and how certain that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log, sqrt
from typing import Any

import numpy as np
from torch import Tensor

from amends.errors import at_least
from amends.evaluation.predictions import class_targets
from amends.evidence.factor import Factor


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Whether each example of one set is right, before and after. `first` is, for each example, the position of the
    first of its copies: accuracies count every example, but copies are one witness in tests and intervals. None where
    there are no copies."""

    before: np.ndarray
    after: np.ndarray
    first: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, at: np.ndarray) -> BeforeAfter:
        """Some of the examples."""
        first = None if self.first is None else own_first(self.first[at])
        return BeforeAfter(self.before[at], self.after[at], first)

    def then(self, other: BeforeAfter) -> BeforeAfter:
        """With those of another set after it."""
        first = None
        if self.first is not None or other.first is not None:
            ours, theirs = (np.arange(len(p)) if p.first is None else p.first for p in (self, other))
            first = np.concatenate([ours, theirs + len(self)])
        before, after = np.concatenate([self.before, other.before]), np.concatenate([self.after, other.after])
        return BeforeAfter(before, after, first)

    @property
    def witnesses(self) -> int:
        return len(self) if self.first is None else len(np.unique(self.first))

    @property
    def alone(self) -> float:
        """How many examples without copies would say as much: Kish's (Σ mᵢ)² / Σ mᵢ² of witnesses with mᵢ copies."""
        if self.first is None or not len(self):
            return len(self)
        return len(self) ** 2 / float((np.bincount(self.first) ** 2).sum())

    def witnessed(self, moves: np.ndarray) -> np.ndarray:
        """Numbers of single examples summed over copies: the first of them has the sum, the others 0."""
        if self.first is None:
            return moves
        summed = np.zeros_like(moves)
        np.add.at(summed, self.first, moves)
        return summed

    @property
    def kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of (how many it fixes less those it breaks, how many copies it is), and how many witnesses are of
        each; first those without copies, fixed, broken and neither, whether there are any or not."""
        known = dict.fromkeys([(1, 1), (-1, 1), (0, 1)], 0)
        if self.first is None:
            counts = [self.fixed, self.broken, len(self) - self.fixed - self.broken]
            return np.array(list(known)), np.array(counts)
        moves, size = self.witnessed(self.after.astype(np.int64) - self.before), np.bincount(self.first)
        there = np.flatnonzero(size)
        for kind in zip(moves[there].tolist(), size[there].tolist(), strict=True):
            known[kind] = known.get(kind, 0) + 1
        return np.array(list(known)), np.array(list(known.values()))

    @property
    def p_value(self) -> float:
        """Of fixed against broken, two-sided and exact: what a witness says is as likely to be its opposite. Without
        copies that is McNemar's test."""
        if self.first is None:
            return mcnemar(self.fixed, self.broken)
        moves = self.witnessed(self.after.astype(np.int64) - self.before)
        luck, total = chances(moves), int(np.abs(moves).sum())
        return float(min(1.0, luck[np.abs(np.arange(-total, total + 1)) >= abs(moves.sum())].sum()))

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


def chances(moves: np.ndarray) -> np.ndarray:
    """Of every sum, from the lowest to the highest, if each move goes up or down like a coin."""
    luck = np.ones(1)
    for size, number in zip(*np.unique(np.abs(moves[moves != 0]), return_counts=True), strict=True):
        coins = np.zeros(2 * size * number + 1)
        coins[:: 2 * size] = _coin(int(number))
        luck = np.convolve(luck, coins)
    return luck


def _coin(n: int) -> np.ndarray:
    """The chances of 0 to n heads."""
    return np.exp([lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2) for k in range(n + 1)])


def own_first(labels: np.ndarray) -> np.ndarray:
    """For each label the first position that has it."""
    _, first, back = np.unique(labels, return_index=True, return_inverse=True)
    return first[back.reshape(-1)]


def interval(share: float, n: float, z: float = 1.96) -> list[float]:
    """Wilson's 95 % interval of a share."""
    if n == 0:
        return [0.0, 1.0]
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def paired_together(parts: Sequence[tuple[float, BeforeAfter]], seed: int = 0, draws: int = 2000) -> list[float]:
    """95 % percentile interval of the change in accuracy, by a bootstrap that draws whole examples, each set by itself
    and with its weight in the whole.

    A draw of n witnesses is known by how many there are of each kind, fixed, broken or neither and of so many copies,
    so these counts are drawn as a multinomial, and no example is touched again.
    """
    at_least("paired", draws=(draws, 1))
    rng, moved = np.random.default_rng(seed), np.zeros(draws)
    for weight, pair in parts:
        if len(pair):
            kinds, number = pair.kinds
            drawn = rng.multinomial(pair.witnesses, number / pair.witnesses, draws)
            moved += weight * (drawn @ kinds[:, 0]) / (drawn @ kinds[:, 1])
    return np.percentile(moved, [2.5, 97.5]).tolist()


def interval_together(parts: Sequence[tuple[float, BeforeAfter]]) -> list[float]:
    """95 % interval of a share that is mixed of several sets, each with its weight: that of Newcombe (1998), from
    Wilson's interval of each set."""
    shares = [(weight, float(pair.after.mean()), pair.alone) for weight, pair in parts]
    share = sum(weight * p for weight, p, _ in shares)
    limits = [(weight * p, weight * np.array(interval(p, n))) for weight, p, n in shares]
    below, above = np.sqrt(sum((ends - own) ** 2 for own, ends in limits))
    return [max(0.0, share - float(below)), min(1.0, share + float(above))]


def calibration(data: Factor, outputs: Tensor, bins: int = 15) -> dict[str, float] | None:
    """How far a model's confidence is from how often it is right, by its outputs for each example; None unless targets
    are classes.

    `error` is the expected calibration error over bins of equal mass, where examples of one and the
    same confidence share a bin; `confidence` the mean top probability; `loss` that of the family,
    whatever the caller trained with. Examples count by their weights.
    """
    at_least("calibration", bins=(bins, 1))
    n, family = len(data), data.network.likelihood.family
    if not n or not class_targets(data):
        return None
    outputs = outputs.double()
    y = data.examples.y.to(outputs.device)
    weight = data.weights.double().numpy() / float(data.weights.sum())
    confidence = family.belief(outputs).amax(1).cpu().numpy()
    _, place = np.unique(confidence, return_inverse=True)
    mass = np.bincount(place, weight)
    held = ((np.cumsum(mass) - mass)[place] * bins + 1e-9).astype(int)
    gap = np.bincount(held, weight * (confidence - family.right(outputs, y).cpu().numpy()))
    loss = -float(weight @ family(outputs, y).cpu().numpy())
    return {"error": float(np.abs(gap).sum()), "confidence": float(weight @ confidence), "loss": loss, "n": n}


def by_label(names: np.ndarray, pair: BeforeAfter) -> dict[str, dict[str, Any]]:
    """Each name's examples before and after, with the exact test of fixed against broken."""
    rows = {}
    for name in np.unique(names):
        part = pair[names == name]
        counts = {"fixed": part.fixed, "broken": part.broken, "p_value": part.p_value}
        rows[str(name)] = {"n": len(part), **part.summary, **counts}
    return rows


def confusion(true: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How many of each true class (rows) are called each class (columns)."""
    table = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(table, (true, predicted), 1)
    return table


def harmed(rows: dict[str, dict[str, Any]], least: float = 0.05) -> list[str]:
    """The names `by_label` shows to have got worse beyond chance, the largest fall first.

    With as many tests as names, each is held to `least` over their number (Bonferroni).
    """
    fell = {k: row["after"] - row["before"] for k, row in rows.items() if row["p_value"] <= least / len(rows)}
    return sorted((k for k, change in fell.items() if change < 0), key=fell.__getitem__)
