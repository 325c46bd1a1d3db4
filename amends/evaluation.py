"""What an edit fixed, what it broke, and how sure one can be."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np
import torch

from amends.factor import Factor
from amends.params import Params


def right(data: Factor, theta: Params) -> np.ndarray:
    """Whether each example is predicted right, in order."""
    outputs = data.outputs(theta)
    if not len(data):
        return np.zeros(0, dtype=bool)
    return data.network.likelihood.right(outputs, data.examples.y.to(outputs.device)).cpu().numpy()


def predicted(data: Factor, theta: Params) -> np.ndarray:
    """The class, the labels or the value the model gives each example."""
    outputs = data.outputs(theta)
    if not len(data):
        return np.zeros(0, dtype=np.int64)
    return _numbers(data.network.likelihood.decide(outputs))


def given(data: Factor) -> np.ndarray:
    """The targets, in the same terms."""
    return _numbers(data.network.likelihood.shown(data.examples.y))


def _numbers(t: torch.Tensor) -> np.ndarray:
    t = t.reshape(len(t)) if t.ndim == 2 and t.shape[1] == 1 else t
    return (t.float() if t.is_floating_point() else t).cpu().numpy()


@dataclass(frozen=True)
class Judged:
    """One set before and after, example by example."""

    before: np.ndarray
    after: np.ndarray

    @property
    def fixed(self) -> int:
        return int((~self.before & self.after).sum())

    @property
    def broken(self) -> int:
        return int((self.before & ~self.after).sum())

    @property
    def summary(self) -> dict[str, Any]:
        n = len(self.before)
        share = {"before": float(self.before.mean()), "after": float(self.after.mean())} if n else {}
        return {"before": None, "after": None, **share, "n": n}


def overall(holdout: Judged, remaining: Judged | None, failures: int, right_ones: int) -> dict[str, Any]:
    """Holdout and remaining in the proportion the user gave, whatever was held back for choosing."""
    if remaining is None or not len(remaining.before):
        return holdout.summary
    share = failures / (failures + right_ones)
    a, b = holdout.summary, remaining.summary
    mixed = {k: share * a[k] + (1 - share) * b[k] for k in ("before", "after")}
    return {**mixed, "n": a["n"] + b["n"]}


def mcnemar(fixed: int, broken: int) -> float:
    """Exact p-value of `fixed` against `broken` or more extreme, two-sided."""
    n = fixed + broken
    if n == 0:
        return 1.0
    tail = sum(comb(n, k) for k in range(min(fixed, broken) + 1)) / 2**n
    return min(1.0, 2 * tail)


def interval(share: float, n: int, z: float = 1.96) -> list[float]:
    """Wilson's 95 % interval of a share."""
    if n == 0:
        return [0.0, 1.0]
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """Mean of the precision at each true one, most harmful first."""
    hits = truth[np.argsort(-scores, kind="stable")].astype(bool)
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())


def ranking_area(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the ROC curve: how often a true one outranks a false one, ties counting half."""
    _, place, size = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - (size - 1) / 2)[place]
    yes, no = int(truth.sum()), int((~truth).sum())
    return float((rank[truth].sum() - yes * (yes + 1) / 2) / (yes * no))


def precision_at(k: int, scores: np.ndarray, truth: np.ndarray) -> float:
    """Share of true ones among the first k."""
    return float(truth[np.argsort(-scores, kind="stable")[:k]].mean())
