"""What a repair is worth: one objective for every choice and for the verdict, its standard error, and one test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from amends.evaluation.statistics import chances


@dataclass(frozen=True)
class Objective:
    """fixed − broken_costs · broken, as shares of all the user gave. With a cost of 1 it is the gain in overall
    accuracy."""

    failures: float  # share of the failures among all the user gave
    broken_costs: float = 1.0

    @property
    def weights(self) -> tuple[float, float]:
        """The weights of the accuracy on failures and of the accuracy on right examples."""
        return self.failures, self.broken_costs * (1 - self.failures)

    def worth(self, failures: float, right_ones: float | None) -> float:
        """From the accuracy on both; on failures alone where there are no right examples."""
        on_failures, on_right = self.weights
        return on_failures * failures + (0.0 if right_ones is None else on_right * right_ones)

    def error(self, failures: tuple[float, float], right_ones: tuple[float | None, float]) -> float:
        """The standard error of the worth, from accuracies and how many examples they were measured on."""
        pairs = zip(self.weights, (failures, right_ones), strict=True)
        return sum(w**2 * p * (1 - p) / n for w, (p, n) in pairs if p is not None and n) ** 0.5

    def chance(self, failures: np.ndarray, right_ones: np.ndarray | None) -> float:
        """The probability that luck alone gains as much worth over a control.

        The arguments are whole numbers, one for each failure and each right example: in how many more fits it is right
        than in as many fits of the control. The test is exact and paired: if the two are equally good, each number is
        equally likely to have either sign. On the failures of a single fit this is a one-sided McNemar test.
        """
        sets = [(w, moves) for w, moves in zip(self.weights, (failures, right_ones), strict=True)
                if moves is not None and len(moves)]  # fmt: skip
        (a, first), *more = [(w / len(moves), moves) for w, moves in sets]
        b, second = more[0] if more else (0.0, first[:0])
        on_first, on_second = (scale * _sums(moves) for scale, moves in ((a, first), (b, second)))
        gained = a * first.sum() + b * second.sum() - 1e-12 * (a + b)
        above = np.append(np.cumsum(chances(second)[::-1])[::-1], 0.0)  # the chance of each sum or more
        return float(min(1.0, chances(first) @ above[np.searchsorted(on_second, gained - on_first)]))


def _sums(moves: np.ndarray) -> np.ndarray:
    """Every sum the moves can have."""
    most = int(np.abs(moves).sum())
    return np.arange(-most, most + 1)
