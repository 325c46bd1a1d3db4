"""Labelled examples with stable ids: whatever is done to them, scores find their way back."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
LABELS = ("label", "labels", "y", "target", "targets")


def leaves(x: Inputs) -> list[Tensor]:
    """The tensors of an input, whatever holds them."""
    if isinstance(x, dict):
        return list(x.values())
    return list(x) if isinstance(x, tuple) else [x]


def each(x: Inputs, f: Any) -> Any:
    """f on every tensor of an input."""
    if isinstance(x, dict):
        return {k: f(v) for k, v in x.items()}
    return tuple(f(v) for v in x) if isinstance(x, tuple) else f(x)


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs (shared, addressed by `rows`), targets and ids, in one order.

    An id is unique over all the sets of one repair: the same example has the same id wherever it
    turns up, so that evidence can be cancelled before anything is computed.
    """

    x: Inputs
    rows: Tensor
    y: Tensor
    ids: np.ndarray
    name: str

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, positions: Any) -> Examples:
        """Some of them, without copying the inputs. Takes a slice, a mask or integer positions."""
        at = np.arange(len(self))[positions]
        where = torch.as_tensor(at)
        return replace(
            self, rows=self.rows[where.to(self.rows.device)], y=self.y[where.to(self.y.device)], ids=self.ids[at]
        )

    def fetch(self, start: int, stop: int) -> tuple[Inputs, Tensor]:
        rows = self.rows[start:stop]
        return each(self.x, lambda t: t[rows]), self.y[start:stop]

    def with_targets(self, y: Tensor) -> Examples:
        return replace(self, y=y)

    def to(self, device: torch.device) -> Examples:
        return replace(self, x=each(self.x, lambda t: t.to(device)), rows=self.rows.to(device), y=self.y.to(device))

    def __add__(self, other: Examples) -> Examples:
        y, ids = torch.cat([self.y, other.y]), np.concatenate([self.ids, other.ids])
        name = self.name if self.name == other.name else f"{self.name} + {other.name}"
        if self.x is other.x:
            return Examples(self.x, torch.cat([self.rows, other.rows]), y, ids, name)
        a, b = (e.fetch(0, len(e))[0] for e in (self, other))
        if isinstance(a, dict) and isinstance(b, dict):
            x: Inputs = {k: torch.cat([a[k], b[k]]) for k in a}
        elif isinstance(a, tuple) and isinstance(b, tuple):
            x = tuple(torch.cat(pair) for pair in zip(a, b, strict=True))
        else:
            x = torch.cat([leaves(a)[0], leaves(b)[0]])
        return Examples(x, torch.arange(len(ids), device=y.device), y, ids, name)


def examples(data: Any, name: str, *, may_be_empty: bool = False) -> Examples:
    """Examples from a torch Dataset of (x, y), a pair of tensors or arrays, or named columns.

    Checked here, so that nobody computes on them: lengths agree, nothing is NaN or infinite.
    """
    if isinstance(data, Examples):
        return data
    x, y = _pair(data, name)
    y = y if y.is_floating_point() else y.long()
    n = len(y)
    for leaf in leaves(x):
        if len(leaf) != n:
            raise BadInput(f"{len(leaf)} inputs but {n} labels; {name}; give one label per input")
    if n == 0 and not may_be_empty:
        raise BadInput(f"no examples; {name}; give at least one")
    for leaf in [*leaves(x), y]:
        if leaf.is_floating_point() and not leaf.isfinite().all():
            i = int((~leaf.isfinite()).reshape(n, -1).any(1).nonzero()[0])
            raise BadInput(f"NaN or infinity in an example; {name}[{i}]; drop it or fill it in")
    first = zlib.crc32(name.encode()) << 31
    return Examples(x, torch.arange(n), y, first + np.arange(n, dtype=np.int64), name)


def _pair(data: Any, name: str) -> tuple[Inputs, Tensor]:
    if isinstance(data, tuple | list) and len(data) == 2 and not _is_example(data[0]):
        return _inputs(data[0], name), _tensor(data[1], name)
    columns = getattr(data, "column_names", None)
    if columns is not None or isinstance(data, Mapping):
        return _columns(data, list(columns if columns is not None else data), name)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        items = [data[i] for i in range(len(data))]
        if not items:
            return torch.zeros(0), torch.zeros(0, dtype=torch.long)
        if isinstance(items[0], Mapping):
            merged = {k: np.stack([np.asarray(item[k]) for item in items]) for k in items[0]}
            return _columns(merged, list(merged), name)
        if not (isinstance(items[0], tuple | list) and len(items[0]) == 2):
            raise BadInput(f"an item is {type(items[0]).__name__}, expected (x, y); {name}[0]; return a pair")
        return _stack([x for x, _ in items], name), _tensor([_scalar(y) for _, y in items], name)
    raise BadInput(
        f"cannot read a {type(data).__name__}; {name}; "
        "give a Dataset of (x, y), a pair of tensors or arrays, or a dataset with named columns"
    )


def _is_example(first: Any) -> bool:
    """Whether a two-item list is a list of two (x, y) examples rather than the pair (xs, ys)."""
    return isinstance(first, tuple) and len(first) == 2 and np.ndim(_scalar(first[1])) == 0


def _scalar(y: Any) -> Any:
    return y.numpy() if isinstance(y, Tensor) else y


def _columns(data: Any, names: Sequence[str], name: str) -> tuple[Inputs, Tensor]:
    label = next((c for c in LABELS if c in names), None)
    if label is None:
        raise BadInput(f"no label column among {', '.join(names)}; {name}; name it one of {', '.join(LABELS)}")
    rest = {c: _tensor(data[c][:] if not isinstance(data[c], Tensor) else data[c], name) for c in names if c != label}
    return (next(iter(rest.values())) if len(rest) == 1 else rest), _tensor(data[label][:], name)


def _inputs(x: Any, name: str) -> Inputs:
    if isinstance(x, Mapping):
        return {str(k): _tensor(v, name) for k, v in x.items()}
    return tuple(_tensor(v, name) for v in x) if isinstance(x, tuple) else _tensor(x, name)


def _stack(items: list[Any], name: str) -> Inputs:
    first = items[0]
    try:
        if isinstance(first, Mapping):
            return {str(k): torch.stack([torch.as_tensor(item[k]) for item in items]) for k in first}
        if isinstance(first, tuple | list):
            return tuple(torch.stack([torch.as_tensor(item[j]) for item in items]) for j in range(len(first)))
        return torch.stack([torch.as_tensor(item) for item in items])
    except (RuntimeError, TypeError) as e:
        raise BadInput(f"inputs cannot be stacked ({e}); {name}; give inputs of one shape") from e


def _tensor(values: Any, name: str) -> Tensor:
    try:
        if isinstance(values, Tensor):
            return values.detach()
        array = np.asarray(values)
        return torch.as_tensor(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as e:
        raise BadInput(f"cannot be read as numbers ({e}); {name}; give tensors or arrays") from e
