"""Neighbours and clusters in the model's own features.

The features are the inputs of the last linear layer, scaled to length 1, so that nearness is the
cosine. They are there to show a person what belongs together; scores come from the edit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from amends.curvature.last import last_layer
from amends.errors import BadInput, at_least
from amends.evaluation.predictions import class_targets, predicted
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.nearness.copies import slices

RESTARTS = 10
ROUNDS = 300  # of one restart, since rounding could make assignments alternate for ever
APART = 0.1  # mean silhouette below which examples count as one cluster


def features(data: Factor, theta: Params) -> Tensor:
    """The input of the last linear layer for each example, in float64.

    The outputs take its place where no such layer trains, or where it sees several rows per example. Rows
    have length 1, except rows of zeros.
    """
    if not len(data):
        return torch.zeros(0, 0, dtype=torch.float64, device=data.network.device)
    seen = last_layer(data, theta)[0][:, :-1]  # without the 1 for the bias
    return _unit(seen.double() if seen.shape[1] else data.outputs(theta).flatten(1).double())


def votes(failures: Factor, right: Factor, theta: Params, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """For each failure, the share of its k nearest in `right` with its given label, and with its predicted one.

    NaN where targets are not classes, or `right` is empty.
    """
    at_least("votes", k=(k, 1))
    given, called = np.full((2, len(failures)), np.nan)
    if not len(failures) or not len(right) or not class_targets(failures) or not class_targets(right):
        return given, called
    near, known = features(failures, theta), features(right, theta)
    labels = right.examples.y.cpu().numpy()
    y, leaning = failures.examples.y.cpu().numpy(), predicted(failures, theta)
    for at in slices(len(failures), len(right)):
        nearest = (near[at] @ known.T).topk(min(k, len(right)), dim=1).indices.cpu().numpy()
        given[at] = (labels[nearest] == y[at, None]).mean(1)
        called[at] = (labels[nearest] == leaning[at, None]).mean(1)
    return given, called


def clusters(data: Factor, theta: Params, number: int | None = None, seed: int = 0, most: int = 8) -> np.ndarray:
    """The name of each example's cluster, by k-means on the features; "cluster 1" is the largest.

    Without `number`, it is the number up to `most` with the highest mean silhouette, or 1 if that is low.
    """
    at_least("clusters", number=(1 if number is None else number, 1), seed=(seed, 0), most=(most, 1))
    n = len(data)
    if number is not None and number > n:
        raise BadInput(f"number is {number}, but {data.examples.name} has {n} examples; clusters; give at most {n}")
    points = features(data, theta).cpu().numpy()
    member = _set_apart(points, seed, most) if number is None else _means(points, number, seed)
    _, first, back, size = np.unique(member, return_index=True, return_inverse=True, return_counts=True)
    place = np.argsort(np.lexsort((first, -size)))
    return np.array([f"cluster {place[b] + 1}" for b in back], dtype=object)


def _set_apart(points: np.ndarray, seed: int, most: int) -> np.ndarray:
    """The assignment to the number of clusters with the highest silhouette, and the smaller of two as good."""
    one = np.zeros(len(points), dtype=np.int64)
    if len(points) < 4:
        return one
    tried = [_means(points, number, seed) for number in range(2, min(most, len(points) - 1) + 1)]
    apart = [APART, *_silhouettes(points, tried)]
    return [one, *tried][int(np.argmax(apart))]


def _means(points: np.ndarray, number: int, seed: int) -> np.ndarray:
    """The assignment to the tightest clusters that Lloyd's algorithm finds from several k-means++ starts."""
    rng = np.random.default_rng(seed)
    runs = [_lloyd(points, _spread(points, number, rng)) for _ in range(RESTARTS)]
    return min(runs, key=lambda run: run[0])[1]


def _spread(points: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++: each further centre is a point drawn in proportion to its squared distance from the centres so far."""
    centres = points[rng.integers(len(points), size=1)]
    for _ in range(number - 1):
        far = _squares(points, centres).min(1)
        chance = far / far.sum() if far.any() else None
        centres = np.concatenate([centres, points[rng.choice(len(points), size=1, p=chance)]])
    return centres


def _lloyd(points: np.ndarray, centres: np.ndarray) -> tuple[float, np.ndarray]:
    """The sum of squares within clusters, and the assignment, once it stops changing. An empty centre stays."""
    squares = _squares(points, centres)
    member = squares.argmin(1)
    for _ in range(ROUNDS):
        size = np.bincount(member, minlength=len(centres))[:, None]
        sums = np.eye(len(centres))[:, member] @ points
        centres = np.divide(sums, size, out=centres, where=size > 0)
        squares, old = _squares(points, centres), member
        member = squares.argmin(1)
        if (member == old).all():
            break
    return float(squares.min(1).sum()), member


def _silhouettes(points: np.ndarray, tried: list[np.ndarray]) -> list[float]:
    """Mean over points of (b − a) / max(a, b): mean distances a to its own cluster, b to the nearest other."""
    total = np.zeros(len(tried))
    for at in slices(len(points), len(points)):
        distance = np.sqrt(_squares(points[at], points))
        total += [_silhouette(distance, member, member[at]) for member in tried]
    return (total / len(points)).tolist()


def _silhouette(distance: np.ndarray, member: np.ndarray, own: np.ndarray) -> float:
    """The sum over rows, which are in the clusters `own`; a point alone in its cluster counts 0."""
    size = np.bincount(member)
    sums = distance @ np.eye(len(size))[member]
    mine = np.arange(len(own)), own
    a = sums[mine] / np.maximum(size[own] - 1, 1)
    others = np.divide(sums, size, out=np.full_like(sums, np.inf), where=size > 0)
    others[mine] = np.inf
    b = others.min(1)
    clear = (size[own] > 1) & np.isfinite(b) & (np.maximum(a, b) > 0)
    return float(((b - a)[clear] / np.maximum(a, b)[clear]).sum())


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances from each row of a to each row of b."""
    lengths = (np.einsum("ij,ij->i", rows, rows) for rows in (a, b))
    return (np.add.outer(*lengths) - 2 * (a @ b.T)).clip(0)


def _unit(rows: Tensor) -> Tensor:
    length = rows.norm(dim=1, keepdim=True)
    return rows / length.where(length > 0, 1)
