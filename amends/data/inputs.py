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


def form(x: Inputs) -> str:
    """What it is made of, in words."""
    if isinstance(x, dict):
        return f"inputs named {', '.join(x)}"
    return f"a tuple of {len(x)} inputs" if isinstance(x, tuple) else "one input"


def _parts(x: Inputs) -> list[str] | int:
    """Their names, or how many there are."""
    return list(x) if isinstance(x, dict) else len(leaves(x))


def in_the_form_of(first: Inputs, x: Inputs, takes: Sequence[str]) -> Inputs | None:
    """An input with its parts named and ordered as in the first; None where the two have other parts. Those of a tuple
    are what a model `takes`, in that order; a single part needs no name."""
    if _parts(first) == _parts(x):
        return x
    names, own = (list(one) if isinstance(one, dict) else list(takes[: len(leaves(one))]) for one in (first, x))
    parts = dict(zip(own, leaves(x), strict=False))
    if len(leaves(first)) == len(leaves(x)) == 1:
        ordered = leaves(x)
    elif len(parts) < len(leaves(x)) or sorted(names) != sorted(own):
        return None
    else:
        ordered = [parts[name] for name in names]
    if isinstance(first, dict):
        return dict(zip(first, ordered, strict=True))
    return tuple(ordered) if isinstance(first, tuple) else ordered[0]


MASK = "attention_mask"  # says which places of a text are none, so that texts of two lengths can be joined


def joined(parts: Sequence[Inputs]) -> Inputs:
    """Several inputs of one form, one after the other. Texts with a mask are made as long as the longest."""
    first = parts[0]
    if isinstance(first, dict):
        columns = {k: [p[k] for p in parts if isinstance(p, dict)] for k in first}
        masked = MASK in first and not any(t.is_floating_point() for t in leaves(first))
        return {k: in_a_column(own, filler=0 if masked else None) for k, own in columns.items()}
    if isinstance(first, tuple):
        return tuple(in_a_column([leaves(p)[j] for p in parts]) for j in range(len(first)))
    return in_a_column([leaves(p)[0] for p in parts])


def in_a_column(parts: Sequence[Tensor], filler: int | None = None) -> Tensor:
    """One after the other; rows of two lengths are made equal with a filler, where there is one."""
    shapes = {tuple(t.shape[1:]) for t in parts}
    if len(shapes) > 1 and (filler is None or any(len(shape) != 1 for shape in shapes)):
        listed = " and ".join(str(list(shape)) for shape in sorted(shapes))
        raise BadInput(
            f"examples of two sets have shapes {listed} and cannot be learned together; pad or resize them alike"
        )
    longest = max((t.shape[-1] for t in parts), default=0)
    if len(shapes) > 1:
        parts = [torch.nn.functional.pad(t, (0, longest - t.shape[-1]), value=filler) for t in parts]
    return torch.cat(list(parts))


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
        raise BadInput(
            f"the inputs of {name} cannot be stacked ({first_line(e)}); give inputs of one shape, or "
            "amends.data.stored(data, collate=...) with a function that pads them"
        ) from e


def native(array: np.ndarray) -> np.ndarray:
    """In the byte order of this machine, which is the only one that torch takes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
