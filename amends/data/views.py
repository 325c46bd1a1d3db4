"""Two views of the same examples: a fixed one to score with, and one with augmentation to train with."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs, each, joined, leaves, stacked
from amends.errors import BadInput, first_line, kind_of

LABELS = ("label", "labels", "y", "target", "targets")
TWICE = 8  # examples that are read twice, to see whether a set is random


@dataclass(frozen=True, eq=False)
class Views:
    """What `views` returns; pass it wherever a data set is expected."""

    scoring: Any
    training: Any


def views(scoring: Any, training: Any) -> Views:
    """The same examples twice, in the same order: `scoring` without randomness, `training` augmented.

    Scores, curvature and evaluation use `scoring`. Fine-tuning and retraining read the inputs of every
    batch anew from `training`, a Dataset of (x, y), together where it has `__getitems__`; labels always come
    from `scoring`. The global random generators of torch, numpy and python are seeded with the method's seed
    while it is read.
    """
    return Views(scoring, training)


class Batches(ABC):
    """A view of ours, which makes the inputs of several items at once; a user's Dataset gives items."""

    @abstractmethod
    def inputs(self, positions: np.ndarray, like: Inputs) -> Inputs: ...


@dataclass(frozen=True, eq=False)
class Rows(Batches):
    """Some items of a view."""

    view: Any
    at: np.ndarray

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, i: int) -> Any:
        return self.view[int(self.at[i])]

    def inputs(self, positions: np.ndarray, like: Inputs) -> Inputs:
        return _inputs(self.view, self.at[positions], like)


@dataclass(frozen=True, eq=False)
class Training:
    """For each row of some inputs, the view it is read anew from (-1: none, it stays as it is) and its
    position there. Kept flat, so that sets can be cut and joined as often as needed."""

    views: tuple[Any, ...]
    which: np.ndarray
    at: np.ndarray

    @classmethod
    def of(cls, view: Any, n: int) -> Training:
        return cls((view,), np.zeros(n, dtype=np.int64), np.arange(n))

    @classmethod
    def joined(cls, parts: list[tuple[Training | None, np.ndarray]]) -> Training | None:
        """Rows of several sets, one after the other; None if none of them has a view."""
        views, which, at = [], [], []
        for part, rows in parts:
            if part is None:
                which.append(np.full(len(rows), -1))
                at.append(rows)
                continue
            views += [v for v in part.views if not any(v is known for known in views)]
            place = np.array([next(i for i, known in enumerate(views) if known is v) for v in part.views] + [-1])
            which.append(place[part.which[rows]])
            at.append(part.at[rows])
        return cls(tuple(views), np.concatenate(which), np.concatenate(at)) if views else None

    def read(self, x: Inputs, rows: Tensor, seed: int, name: str) -> Inputs:
        """The inputs of these rows, drawn with `seed`; x holds them as they are for scoring."""
        host = rows.cpu().numpy()
        which, at, device = self.which[host], self.at[host], leaves(x)[0].device
        parts: list[Inputs] = []
        order: list[np.ndarray] = []
        with seeded(seed):
            for v in range(-1, len(self.views)):
                here = np.flatnonzero(which == v)
                if not len(here):
                    continue
                chosen = rows[torch.as_tensor(here, device=rows.device)]
                parts.append(_at(x, chosen) if v < 0 else _inputs(self.views[v], at[here], x))
                order.append(here)
        parts = [each(part, lambda t: t.to(device)) for part in parts]
        if len(parts) == 1:
            return parts[0]
        try:
            back = torch.as_tensor(np.argsort(np.concatenate(order)), device=device)
            return each(joined(parts), lambda t: t[back])
        except (BadInput, RuntimeError, KeyError, IndexError) as e:
            raise BadInput(
                f"the inputs of the training view of {name} do not fit the others ({first_line(e)}); "
                "return the same shapes from both views"
            ) from e


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, the global generators of python, numpy and torch start at `seed`; afterwards the caller's go on."""
    python, array = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            random.seed(seed)
            np.random.seed(seed)
            torch.default_generator.manual_seed(seed)
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)


def _at(x: Inputs, rows: Tensor) -> Inputs:
    return each(x, lambda t: t[rows])


def _inputs(view: Any, positions: np.ndarray, like: Inputs) -> Inputs:
    if isinstance(view, Batches):
        return view.inputs(positions, like)
    return stacked([input_of(item, like) for item in _items(view, positions.tolist())], "the training view")


def _items(view: Any, positions: list[int]) -> list[Any]:
    """Of a Dataset; at once where it reads several together, as PyTorch's own loader asks for them."""
    together = getattr(view, "__getitems__", None)
    if together is None:
        return [view[i] for i in positions]
    items = list(together(positions))
    if len(items) != len(positions):
        raise BadInput(
            f"the training view gives {len(items)} items for {len(positions)} positions; __getitems__; return one each"
        )
    return items


def input_of(item: Any, like: Inputs) -> Any:
    """x of an item (x, y); of an item with named columns, those that scoring uses."""
    if isinstance(item, Mapping):
        names = list(like) if isinstance(like, dict) else [k for k in item if k not in LABELS]
        missing = [k for k in names if k not in item]
        if missing or (not isinstance(like, dict) and len(names) != 1):
            raise BadInput(
                f"an item of the training view has the columns {', '.join(map(str, item))}; "
                f"return {', '.join(names) if missing else 'one input and its label'}"
            )
        return {k: item[k] for k in names} if isinstance(like, dict) else item[names[0]]
    if not (isinstance(item, tuple | list) and len(item) == 2):
        raise BadInput(f"an item of the training view is {kind_of(item)}, expected (x, y); return a pair")
    return item[0]


def same(a: Any, b: Any) -> bool:
    """Whether two readings of an example are bit for bit equal."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(same(v, w) for v, w in zip(a, b, strict=True))
    try:
        a, b = (np.asarray(v.cpu() if isinstance(v, Tensor) else v) for v in (a, b))
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    except (TypeError, ValueError, RuntimeError):
        return True  # what cannot be compared is nothing a model would see


def unsteady(first: Callable[[int], Any], again: Callable[[int], Any], n: int) -> bool:
    """Whether any of a few examples is different when it is read again."""
    few = np.unique(np.linspace(0, n - 1, TWICE).astype(int)).tolist() if n else []
    return not all(same(first(i), again(i)) for i in few)
