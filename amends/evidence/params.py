"""Parameters as a dict of tensors, and the algebra that editors need."""

from __future__ import annotations

import torch
from torch import Tensor

from amends.settings import LARGE

Params = dict[str, Tensor]


def plus(a: Params, b: Params, scale: float = 1.0) -> Params:
    """a + scale · b."""
    return {k: a[k] + scale * b[k] for k in a}


def scaled(a: Params, scale: float) -> Params:
    return {k: scale * v for k, v in a.items()}


def dot(a: Params, b: Params) -> float:
    """⟨a, b⟩, summed in float64."""
    return float(sum((a[k].double() * b[k].double()).sum() for k in a))


def zeros_like(a: Params) -> Params:
    return {k: torch.zeros_like(v) for k, v in a.items()}


def flatten(a: Params) -> Tensor:
    """One vector, in the order of the dict."""
    return torch.cat([v.reshape(-1) for v in a.values()])


def unflatten(vector: Tensor, like: Params) -> Params:
    """The inverse of `flatten`."""
    parts = vector.split([v.numel() for v in like.values()])
    return {k: p.view_as(v) for (k, v), p in zip(like.items(), parts, strict=True)}


def count(a: Params) -> int:
    return sum(v.numel() for v in a.values())


def large(a: Params) -> bool:
    """Whether the model is large: the default then spares passes over the data, and fits are kept in main memory."""
    return count(a) >= LARGE
