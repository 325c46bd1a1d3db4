"""How well scores rank the true causes above the rest, where the truth is known."""

from __future__ import annotations

import numpy as np


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
