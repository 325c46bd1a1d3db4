"""Inputs that stay where they are: rows are read from their source when they are asked for, and no sooner."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs, each, joined, leaves, stacked
from amends.errors import BadInput, first_line, kind_of

STOP, SKIP = "stop", "skip"
STAYS = 2**30  # bytes from which the inputs of a set stay where they are, and are read batch by batch
MOST = 2**24  # bytes of one input that are thought possible, so that a small set is not asked for its first item
BLOCK = 256  # rows read at once while a set is looked through


@dataclass(frozen=True, eq=False)
class StoredSet:
    """What `stored` returns; pass it wherever a data set is expected."""

    data: Any
    collate: Callable[[list[Any]], Any] | None = None
    on_error: str = STOP
    workers: int = 1


def stored(
    data: Any, *, collate: Callable[[list[Any]], Any] | None = None, on_error: str = "stop", workers: int = 1
) -> StoredSet:
    """A map-style Dataset of (x, y) that stays on disk: items are read when they are needed, a batch ahead.

    It is looked through once, to check it and to keep its labels. `collate` makes a batch (inputs, targets) of a list
    of items, for inputs of several sizes; the dataset's own `collate_fn` when left out. `on_error` says what happens
    where an item cannot be read: "stop", or "skip" to go on without it. `workers` are threads that read items.
    """
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise BadInput(
            f"{kind_of(data)} has no positions to read from, so scores could not find their way back; stored; "
            "save it as a set with an index, such as a Hugging Face dataset or memory-mapped arrays"
        )
    if on_error not in (STOP, SKIP):
        raise BadInput(f'on_error is {on_error!r}; stored; give "stop" or "skip"')
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise BadInput(f"workers is {workers!r}; stored; give a whole number of 1 or more")
    return StoredSet(data, collate or getattr(data, "collate_fn", None), on_error, workers)


@dataclass(frozen=True, eq=False)
class Reader:
    """Rows of a set as inputs. What was read last is kept, since the tensors of one input ask one after the other."""

    inputs: Callable[[np.ndarray], Inputs]
    last: list[tuple[bytes, list[Tensor]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, rows: np.ndarray, leaf: int) -> Tensor:
        key = rows.tobytes()
        with self.lock:
            found = next((known for name, known in self.last if name == key), None)
        if found is None:
            found = leaves(self.inputs(rows))
            if len(found) > 1:
                with self.lock:
                    self.last[:] = [*self.last[-3:], (key, found)]  # batches that are read ahead do not push it out
        return found[leaf]


@dataclass(frozen=True, eq=False)
class Stored:
    """One tensor of inputs that stay where they are: `rows[i]` reads. `shape` is that of the first rows; where a
    batch is made by a collate function others may differ."""

    reader: Reader
    leaf: int
    shape: torch.Size
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Tensor:
        one = isinstance(rows, int | np.integer)
        if isinstance(rows, slice):
            at = np.arange(*rows.indices(len(self)))
        else:
            at = np.array([rows]) if one else np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
        found = self.reader(np.ascontiguousarray(at, dtype=np.int64), self.leaf)
        return found[0] if one else found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def element_size(self) -> int:
        return self.dtype.itemsize

    def numel(self) -> int:
        return self.shape.numel()

    def to(self, *_: Any, **__: Any) -> Stored:
        """They stay; what is read of them is moved batch by batch."""
        return self


def size_of(x: Inputs) -> int:
    """In bytes."""
    return sum(leaf.element_size() * leaf.numel() for leaf in leaves(x))


def is_stored(x: Any) -> bool:
    return any(isinstance(leaf, Stored) for leaf in leaves(x))


def as_stored(read: Callable[[np.ndarray], Inputs], first: Inputs, n: int) -> Any:
    """Inputs of n rows that are read by `read`; `first` are some of them."""
    reader, count = Reader(read), iter(range(len(leaves(first))))
    return each(first, lambda t: Stored(reader, next(count), torch.Size((n, *t.shape[1:])), t.dtype))


def one_after_the_other(parts: Sequence[tuple[Any, np.ndarray]]) -> Any:
    """Rows of several inputs, one after the other, each read from where it is."""
    ends = np.cumsum([len(rows) for _, rows in parts])

    def read(rows: np.ndarray) -> Inputs:
        which = np.searchsorted(ends, rows, side="right")
        found, order = [], []
        for number, (x, own) in enumerate(parts):
            here = np.flatnonzero(which == number)
            if len(here):
                start = 0 if number == 0 else int(ends[number - 1])
                at = torch.as_tensor(own[rows[here] - start])
                found.append(each(x, lambda t, at=at: t[at].cpu()))
                order.append(here)
        back = torch.as_tensor(np.argsort(np.concatenate(order)))
        return found[0] if len(found) == 1 else each(joined(found), lambda t: t[back])

    first = read(np.zeros(1, dtype=np.int64))
    return as_stored(read, first, int(ends[-1]))


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a Dataset, several at a time."""

    given: StoredSet
    name: str
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self.given.data)

    def some(self, rows: np.ndarray) -> list[Any]:
        """Items, or in the place of one that cannot be read the error."""
        if self.given.workers == 1:
            with self.turn:  # batches are read ahead, but a dataset need not bear two readers
                return [self._item(int(i)) for i in rows]
        with ThreadPoolExecutor(min(self.given.workers, len(rows), 4 * (os.cpu_count() or 1))) as pool:
            return list(pool.map(self._item, map(int, rows)))

    def _item(self, i: int) -> Any:
        try:
            return self.given.data[i]
        except Exception as e:
            return BadInput(
                f"{self.name}[{i}] cannot be read ({type(e).__name__}: {first_line(e)}); correct it, or leave it out "
                'with amends.data.stored(..., on_error="skip")'
            )

    def batch(self, rows: np.ndarray) -> tuple[Inputs, Any]:
        """Inputs and targets; raises where one cannot be read."""
        return self.together(self.some(rows))

    def together(self, items: list[Any]) -> tuple[Inputs, Any]:
        broken = next((item for item in items if isinstance(item, BadInput)), None)
        if broken is not None:
            raise broken
        if self.given.collate is not None:
            made = self.given.collate(items)
            if not (isinstance(made, tuple | list) and len(made) == 2):
                raise BadInput(f"collate returns {kind_of(made)}; {self.name}; return a pair (inputs, targets)")
            x = made[0]
            if isinstance(x, Mapping):
                return {str(k): torch.as_tensor(v) for k, v in x.items()}, made[1]
            return tuple(map(torch.as_tensor, x)) if isinstance(x, tuple | list) else torch.as_tensor(x), made[1]
        wrong = next((item for item in items if not (isinstance(item, tuple | list) and len(item) == 2)), None)
        if wrong is not None:
            raise BadInput(f"{self.name} holds {kind_of(wrong)}, expected (x, y); return a pair")
        return stacked([x for x, _ in items], self.name), [y for _, y in items]


def looked_through(given: StoredSet, name: str) -> tuple[Any, Tensor, np.ndarray | None]:
    """Inputs that stay where they are, their targets, and which rows they are where some are left out: one pass."""
    items = Items(given, name)
    first, y = None, torch.zeros(0)
    kept = np.zeros(len(items), dtype=bool)
    for start in range(0, len(items), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(items)))
        found = items.some(rows)
        if given.on_error == SKIP:
            fine = np.array([not isinstance(item, BadInput) for item in found])
            rows, found = rows[fine], [item for item in found if not isinstance(item, BadInput)]
        if not len(rows):
            continue
        x, targets = items.together(found)
        targets = targets if isinstance(targets, Tensor) else torch.stack([torch.as_tensor(v) for v in targets])
        _check(x, rows, name, first if given.collate is None else None)
        if first is None:
            first, y = x, targets.new_empty(len(items), *targets.shape[1:])
        y[torch.as_tensor(rows)] = targets
        kept[rows] = True
    if first is None:
        raise BadInput(f"{name} has no examples that can be read; pass at least one")
    if kept.all():
        return as_stored(lambda rows: items.batch(rows)[0], first, len(items)), y, None
    broken, at = int((~kept).argmax()), np.flatnonzero(kept)
    warnings.warn(
        f"{len(items) - len(at)} of the {len(items)} examples of {name} cannot be read and are left out, "
        f"{name}[{broken}] first; positions count those that are left, and the column row has your own",
        stacklevel=8,
    )
    return as_stored(lambda rows: items.batch(at[rows])[0], first, len(at)), y[torch.as_tensor(at)], at


def _check(x: Inputs, rows: np.ndarray, name: str, first: Inputs | None) -> None:
    for k, leaf in enumerate(leaves(x)):
        if first is not None and leaf.shape[1:] != leaves(first)[k].shape[1:]:
            shapes = f"{list(leaves(first)[k].shape[1:])} and {list(leaf.shape[1:])}"
            raise BadInput(
                f"the inputs of {name} have two shapes, {shapes}; {name}[{rows[0]}] or after; give one shape, "
                "or a collate function that pads a batch, with amends.data.stored"
            )
        if leaf.is_floating_point() and not leaf.isfinite().all():
            bad = int((~leaf.isfinite()).reshape(len(leaf), -1).any(1).nonzero()[0])
            raise BadInput(f"{name}[{rows[bad]}] holds NaN or infinity; drop it or fill it in")
