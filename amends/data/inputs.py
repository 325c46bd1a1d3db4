"""What a model takes: a tensor, a tuple or a dict of tensors, each with one row per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput, first_line

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]


def leaves(x: Inputs) -> list[Tensor]:
    """The tensors of an input, as a list."""
    if isinstance(x, dict):
        return list(x.values())
    return list(x) if isinstance(x, tuple) else [x]


def each(x: Inputs, f: Any) -> Any:
    """f on every tensor of an input."""
    if isinstance(x, dict):
        return {k: f(v) for k, v in x.items()}
    return tuple(f(v) for v in x) if isinstance(x, tuple) else f(x)


def joined(parts: Sequence[Inputs]) -> Inputs:
    """Several inputs of one kind, one after the other."""
    first = parts[0]
    if isinstance(first, dict):
        return {k: torch.cat([p[k] for p in parts if isinstance(p, dict)]) for k in first}
    if isinstance(first, tuple):
        return tuple(torch.cat([leaves(p)[j] for p in parts]) for j in range(len(first)))
    return torch.cat([leaves(p)[0] for p in parts])


def stacked(items: Sequence[Any], name: str) -> Inputs:
    """The inputs of single examples as one batch; they must have the same shape."""
    first = items[0]
    try:
        if isinstance(first, Mapping):
            return {str(k): torch.stack([torch.as_tensor(item[k]) for item in items]) for k in first}
        if isinstance(first, tuple):
            return tuple(torch.stack([torch.as_tensor(item[j]) for item in items]) for j in range(len(first)))
        return torch.stack([torch.as_tensor(item) for item in items])
    except (RuntimeError, TypeError, ValueError, KeyError, IndexError) as e:
        raise BadInput(f"the inputs of {name} cannot be stacked ({first_line(e)}); give inputs of one shape") from e


def native(array: np.ndarray) -> np.ndarray:
    """In the byte order of this machine, which is the only one that torch takes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
