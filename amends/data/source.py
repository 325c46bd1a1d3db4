"""Raw inputs and how they become what a model takes: transformed or encoded, normalised, augmented."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.formats.pictures import Pictures
from amends.data.formats.raw import IMAGE, TEXT, Raw
from amends.data.inputs import Inputs, each, leaves, stacked
from amends.data.stored import MOST, STAYS, as_stored, size_of
from amends.data.views import Batches
from amends.errors import BadInput, first_line, kind_of

BLOCK = 4096  # images turned into floats at once


@dataclass(frozen=True, eq=False)
class Normal:
    """(x − mean) / std, by channel or by column."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, mean: Any, std: Any, raw: Raw, encode: Any) -> Normal | None:
        if mean is None and std is None:
            return None
        if encode is not None or raw.kind == TEXT:
            raise BadInput(f"mean and std cannot be used with an encoder or with text; {raw.where}; leave them out")
        error = BadInput(f"mean is {mean} and std is {std}; {raw.where}; give numbers, and a std above 0")
        try:
            pair = [torch.as_tensor(v, dtype=torch.get_default_dtype()).reshape(-1)
                    for v in (0.0 if mean is None else mean, 1.0 if std is None else std)]  # fmt: skip
        except (TypeError, ValueError, RuntimeError):
            raise error from None
        if not bool((pair[1] > 0).all()) or not all(bool(p.isfinite().all()) for p in pair):
            raise error
        return cls(*pair)

    def __call__(self, x: Tensor, where: str) -> Tensor:
        """x holds several examples; channels or columns are its second axis."""
        for given in (self.mean, self.std):
            if x.ndim < 2 or len(given) not in (1, x.shape[1]):
                shape = list(x.shape[1:])
                raise BadInput(
                    f"mean or std has {len(given)} numbers for inputs {shape}; {where}; give one per channel"
                )
        shape = (1, -1, *[1] * (x.ndim - 2))
        return (x - self.mean.reshape(shape)) / self.std.reshape(shape)


@dataclass(frozen=True, eq=False)
class Source:
    """Raw inputs, and how they become what the model takes."""

    raw: Raw
    inputs: Any
    transform: Callable[[Any], Any] | None
    encode: Callable[[list[Any]], Any] | None
    normal: Normal | None

    def __len__(self) -> int:
        return len(self.raw.inputs)

    def all(self) -> Inputs:
        if self.encode is not None:
            return self.encoded([self.inputs[i] for i in range(len(self))])
        if self.raw.kind == TEXT and self.transform is None:
            raise BadInput(f"a model cannot take text; {self.raw.where}; give encode, a tokenizer for example")
        if isinstance(self.inputs, OnDisk):
            return as_stored(self.some, self.some(np.zeros(1, dtype=np.int64)), len(self))
        if self.transform is None and isinstance(self.inputs, Tensor):
            return self.inputs if self.normal is None else self.normal(self.inputs, self.raw.where)
        first = stacked([self.one(0, self.transform)], self.raw.where) if len(self) >= STAYS // MOST else torch.zeros(0)
        if len(self) * size_of(first) >= STAYS:
            return as_stored(self.some, first, len(self))
        if self.transform is None and self.inputs.together:
            return self._in_blocks()
        items = (self.one(i, self.transform) for i in range(len(self)))
        return _filled(items, self.raw)

    def some(self, rows: np.ndarray) -> Inputs:
        """The inputs of these rows, read now: what is larger than memory is never there as a whole."""
        if isinstance(self.inputs, OnDisk) and self.transform is None:
            found = self.inputs[rows]
            return found if self.normal is None else self.normal(found, self.raw.where)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            items = list(pool.map(lambda i: self.one(int(i), self.transform), rows))
        for i, item in zip(rows, items, strict=True):
            if isinstance(item, Tensor) and isinstance(items[0], Tensor) and item.shape != items[0].shape:
                shapes = f"{list(items[0].shape)} and {list(item.shape)}"
                todo = "give size" if self.raw.kind == IMAGE else "let the transform return one shape"
                raise BadInput(f"the inputs have two shapes, {shapes}; {self.raw.at(int(i))}; {todo}")
        return stacked(items, self.raw.where)

    def readable(self) -> np.ndarray:
        """Which examples can be read, and transformed where one by one; those in one array all can."""
        if self.raw.kind != IMAGE and self.transform is None:
            return np.ones(len(self), dtype=bool)

        def fine(i: int) -> bool:
            try:
                self.one(i, self.transform)
            except BadInput:
                return False
            return True

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.fromiter(pool.map(fine, range(len(self))), dtype=bool, count=len(self))

    def _in_blocks(self) -> Tensor:
        parts = [self.inputs.block(start, start + BLOCK) for start in range(0, len(self), BLOCK)]
        return torch.cat(parts if self.normal is None else [self.normal(part, self.raw.where) for part in parts])

    def one(self, i: int, change: Callable[[Any], Any] | None) -> Any:
        """Example i after `change`, a transform or an augmentation."""
        if change is None:
            given = self.inputs[i]
        else:
            given = self._changed(change, self._for(change, i), i)
            given = torch.as_tensor(given) if isinstance(given, np.ndarray) else given
            if not isinstance(given, Tensor | Mapping | tuple):
                raise BadInput(f"the transform returns {kind_of(given)}; {self.raw.at(i)}; return a tensor")
        if self.normal is None:
            return given
        if not isinstance(given, Tensor) or given.ndim == 0:
            raise BadInput(f"mean and std cannot be used on {kind_of(given)}; {self.raw.at(i)}; leave them out")
        return self.normal(given[None], self.raw.at(i))[0]

    def _for(self, change: Callable[[Any], Any], i: int) -> Any:
        """What a transform is given: of an image file the Pillow image, as torchvision's take it, unless its parameter
        is annotated as a Tensor."""
        image = self.inputs.file(i) if self.raw.kind == IMAGE and not takes_tensor(change) else None
        return self.inputs[i] if image is None else image

    def _changed(self, change: Callable[[Any], Any], given: Any, i: int) -> Any:
        try:
            return change(given)
        except Exception as e:
            raise BadInput(
                f"the transform raised {type(e).__name__} ({first_line(e)}); {self.raw.at(i)}; correct it"
            ) from e

    def augmented(self, positions: np.ndarray, augment: Callable[[Any], Any]) -> Inputs:
        if self.encode is None:
            return stacked([self.one(int(i), augment) for i in positions], self.raw.where)
        return self.encoded([self._changed(augment, self.inputs[int(i)], int(i)) for i in positions])

    def encoded(self, given: list[Any]) -> Inputs:
        assert self.encode is not None
        try:
            out = self.encode(given)
            if isinstance(out, Mapping):
                x: Inputs = {str(k): _tensor(v) for k, v in out.items()}
            else:
                x = tuple(map(_tensor, out)) if isinstance(out, tuple) else _tensor(out)
        except BadInput:
            raise
        except Exception as e:
            raise BadInput(
                f"encode raised {type(e).__name__} ({first_line(e)}); {self.raw.where}; return arrays of one length"
            ) from e
        for leaf in leaves(x):
            if len(leaf) != len(given):
                raise BadInput(
                    f"encode returns {len(leaf)} rows for {len(given)} inputs; {self.raw.where}; return one per input"
                )
        return x


def takes_tensor(change: Callable[[Any], Any]) -> bool:
    """Whether the first parameter of a function is annotated as a Tensor."""
    try:
        first = next(iter(inspect.signature(change).parameters.values()), None)
    except (TypeError, ValueError):  # what is written in C says nothing of its parameters
        return False
    wanted = None if first is None else first.annotation
    return wanted is Tensor or (isinstance(wanted, str) and wanted.rpartition(".")[2] == "Tensor")


def inputs_of(raw: Raw, size: Any, gray: bool) -> Any:
    if raw.kind == IMAGE:
        pair = (size, size) if isinstance(size, int) else None if size is None else tuple(size)
        if pair is not None and (len(pair) != 2 or min(pair) < 1):
            raise BadInput(f"size is {size!r}; {raw.where}; give a height and a width of 1 or more")
        return Pictures(raw, pair, gray)
    if size is not None or gray:
        raise BadInput(f"{'size' if size is not None else 'gray'} is for images only; {raw.where}; leave it out")
    if raw.kind == TEXT:
        return raw.inputs
    if isinstance(raw.inputs, np.memmap) and raw.inputs.dtype == np.float64:
        return OnDisk(raw.inputs)
    return torch.as_tensor(np.asarray(raw.inputs)).to(torch.get_default_dtype())


@dataclass(frozen=True, eq=False)
class OnDisk:
    """The rows of a large table in a file, of which the model takes other numbers."""

    rows: np.memmap

    def __getitem__(self, at: Any) -> Tensor:
        return torch.as_tensor(np.array(self.rows[at])).to(torch.get_default_dtype())


def _tensor(values: Any) -> Tensor:
    return values.detach() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))


def _filled(items: Iterator[Any], raw: Raw) -> Inputs:
    """Inputs of one shape in one tensor, written as they come, so that a large set is in memory once."""
    first = next(items)
    if not isinstance(first, Tensor):
        return stacked([first, *items], raw.where)
    x = torch.empty(len(raw.inputs), *first.shape, dtype=first.dtype)
    x[0] = first
    for i, item in enumerate(items, 1):
        if not isinstance(item, Tensor) or item.shape != first.shape:
            shapes = f"{list(first.shape)} and {list(item.shape) if isinstance(item, Tensor) else type(item).__name__}"
            fix = "give size" if raw.kind == IMAGE else "let the transform return one shape"
            raise BadInput(f"the inputs have two shapes, {shapes}; {raw.at(i)}; {fix}")
        x[i] = item
    return x


@dataclass(frozen=True, eq=False)
class Augmented(Batches):
    """The examples of a source with augmentation: item i is (x, y), and is read anew each time."""

    source: Source
    augment: Callable[[Any], Any]
    y: Tensor

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> tuple[Any, Tensor]:
        return each(self.source.augmented(np.array([i]), self.augment), lambda t: t[0]), self.y[i]

    def inputs(self, positions: np.ndarray, like: Inputs) -> Inputs:
        return self.source.augmented(positions, self.augment)
