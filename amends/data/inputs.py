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


def in_a_row(positions: Any) -> bool:
    """Whether positions are a slice that any array takes, and need not be counted out."""
    return isinstance(positions, slice) and positions.step in (None, 1)


def there(t: Tensor, device: torch.device) -> Tensor:
    """On the device. A GPU is not waited for: what it has still to compute comes first, and this process goes on."""
    if device.type == "cuda" and t.device.type == "cpu":
        return t.contiguous().pin_memory().to(device, non_blocking=True)
    return t.to(device)


def at_rows(x: Inputs, rows: Tensor, *, copied: bool = True) -> Inputs:
    """Some rows of an input, in that order: in one piece where they follow on each other. A copy, unless whoever asks
    makes one."""
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (0, -1)
    if last - first + 1 == len(rows) and bool((rows[1:] > rows[:-1]).all()):
        part = each(x, lambda t: t[first : last + 1])
        return each(part, lambda t: t.clone()) if copied and all(isinstance(t, Tensor) for t in leaves(x)) else part
    return each(x, lambda t: t.index_select(0, there(rows, t.device)) if isinstance(t, Tensor) else t[rows])


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
