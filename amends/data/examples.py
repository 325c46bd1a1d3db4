"""Labelled examples with stable ids: whatever is done to them, scores find their way back."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput, first_line

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
        if self.y.ndim != other.y.ndim:
            raise BadInput(
                f"labels of {self.name} and {other.name} are of two kinds; {other.name}; "
                "give both as class indices, or both as probabilities"
            )
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


def examples(data: Any, name: str, *, accepts: set[str] | None = None) -> Examples:
    """Examples from a torch Dataset of (x, y), a pair of tensors or arrays, or named columns.

    Of named columns those that `accepts` knows are inputs, or all that hold numbers.
    Checked here, so that nobody computes on them: lengths agree, nothing is NaN or infinite.
    """
    if isinstance(data, Examples):
        return data
    x, y = _pair(data, name, accepts or set())
    y = y if y.is_floating_point() else y.long()
    n = len(y)
    for leaf in leaves(x):
        if len(leaf) != n:
            raise BadInput(f"{len(leaf)} inputs but {n} labels; {name}; give one label per input")
    if n == 0:
        raise BadInput(f"no examples; {name}; give at least one")
    for leaf in [*leaves(x), y]:
        if leaf.is_floating_point() and not leaf.isfinite().all():
            i = int((~leaf.isfinite()).reshape(n, -1).any(1).nonzero()[0])
            raise BadInput(f"NaN or infinity in an example; {name}[{i}]; drop it or fill it in")
    first = zlib.crc32(name.encode()) << 31
    return Examples(x, torch.arange(n), y, first + np.arange(n, dtype=np.int64), name)


def _pair(data: Any, name: str, accepts: set[str]) -> tuple[Inputs, Tensor]:
    if isinstance(data, tuple | list) and len(data) == 2 and not _is_example(data[0]):
        return _inputs(data[0], name), _tensor(data[1], f"labels of {name}")
    columns = getattr(data, "column_names", None)
    if columns is None and hasattr(data, "to_numpy"):  # a pandas DataFrame
        columns = getattr(data, "columns", None)
    if columns is not None or isinstance(data, Mapping):
        return _columns(data, list(columns if columns is not None else data), name, accepts)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        items = [data[i] for i in range(len(data))]
        if not items:
            return torch.zeros(0), torch.zeros(0, dtype=torch.long)
        if isinstance(items[0], Mapping):
            merged = {k: [item[k] for item in items] for k in items[0]}
            return _columns(merged, list(merged), name, accepts)
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


def _columns(data: Any, names: Sequence[str], name: str, accepts: set[str]) -> tuple[Inputs, Tensor]:
    label = next((c for c in LABELS if c in names), None)
    if label is None:
        raise BadInput(f"no label column among {', '.join(names)}; {name}; name it one of {', '.join(LABELS)}")
    rest = [c for c in names if c != label]
    known = [c for c in rest if c in accepts]
    found = {
        c: _tensor(_column(data, c), f"{name}.{c}") for c in known or rest if known or _is_numbers(_column(data, c))
    }
    if not found:
        raise BadInput(f"no column of numbers among {', '.join(rest)}; {name}; tokenise or encode the inputs first")
    y = _tensor(_column(data, label), f"{name}.{label}")
    if not known and len(found) == 1:
        return next(iter(found.values())), y
    if not known and all(t.ndim == 1 for t in found.values()):  # a table: one row of features an example
        return torch.stack([t.to(torch.get_default_dtype()) for t in found.values()], 1), y
    return found, y


def _column(data: Any, name: str) -> Any:
    values = data[name]
    return values if isinstance(values, Tensor) else values[:]


def _is_numbers(values: Any) -> bool:
    if isinstance(values, Tensor):
        return True
    try:
        return np.asarray(values).dtype.kind in "biuf"
    except ValueError:
        return False


def _inputs(x: Any, name: str) -> Inputs:
    if isinstance(x, Mapping):
        return {str(k): _tensor(v, name) for k, v in x.items()}
    return tuple(_tensor(v, name) for v in x) if isinstance(x, tuple) else _tensor(x, name)


def _stack(items: list[Any], name: str) -> Inputs:
    first = items[0]
    try:
        if isinstance(first, Mapping):
            return {str(k): torch.stack([torch.as_tensor(item[k]) for item in items]) for k in first}
        if isinstance(first, tuple):
            return tuple(torch.stack([torch.as_tensor(item[j]) for item in items]) for j in range(len(first)))
        return torch.stack([torch.as_tensor(item) for item in items])
    except (RuntimeError, TypeError) as e:
        raise BadInput(f"inputs cannot be stacked ({first_line(e)}); {name}; give inputs of one shape") from e


def _tensor(values: Any, name: str) -> Tensor:
    try:
        if not isinstance(values, Tensor):
            if isinstance(values, list) and values and isinstance(values[0], Tensor):
                values = torch.stack(values)
            else:
                array = np.asarray(values)
                if array.dtype.kind in "USO":
                    raise TypeError("it holds text or objects; map classes to 0, 1, 2, ...")
                array = np.ascontiguousarray(array) if array.ndim else array
                values = torch.as_tensor(array if array.flags.writeable else array.copy())
        if values.ndim == 0:
            raise ValueError("it is a single number")
    except (TypeError, ValueError, RuntimeError) as e:
        raise BadInput(
            f"cannot be read as an array of numbers ({first_line(e)}); {name}; give tensors or arrays"
        ) from e
    return values.detach()
