"""Labelled examples with stable ids, so that scores find their way back whatever is done to the examples."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.ahead import ahead
from amends.data.given import records
from amends.data.inputs import Inputs, at_rows, each, in_a_column, in_a_row, joined, leaves, there
from amends.data.sending import sent
from amends.data.stored import STAYS, is_stored, one_after_the_other, size_of
from amends.data.views import Training
from amends.errors import BadInput

AT_ONCE = 65536  # rows that are checked at once
NO_TARGET = -100  # in targets of a text: no token is asked for here

__all__ = ["Examples", "Inputs", "each", "examples", "leaves"]


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs (shared, addressed by `rows`, which stay on the CPU), targets and ids, in one order.

    An id is unique over all the sets of one repair, and the same example has the same id in each of
    them, so that evidence can be cancelled before anything is computed. The user's own `columns`, the rows of a
    table as they are `stored` and the `training` view are addressed by `rows` like the inputs.
    """

    x: Inputs
    rows: Tensor
    y: Tensor
    ids: np.ndarray
    name: str
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    training: Training | None = None
    stored: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, positions: Any) -> Examples:
        """Some of them, by a slice, a mask or integer positions. The inputs are not copied."""
        if in_a_row(positions):
            return replace(self, rows=self.rows[positions], y=self.y[positions], ids=self.ids[positions])
        at = np.arange(len(self))[positions]
        where = torch.as_tensor(at)
        return replace(self, rows=self.rows[where], y=self.y[there(where, self.y.device)], ids=self.ids[at])

    def fetch(self, start: int, stop: int) -> tuple[Inputs, Tensor]:
        return at_rows(self.x, self.rows[start:stop]), self.y[start:stop]

    def batches(self, spans: Sequence[tuple[int, int]], device: torch.device) -> Iterator[tuple[Inputs, Tensor]]:
        """What `fetch` returns for each span, on the device. What must be read or sent is begun while the batch before
        it is computed."""
        sending = device.type == "cuda" and leaves(self.x)[0].device.type == "cpu"
        if len(spans) == 1 or not (sending or is_stored(self.x)):
            yield from (self.fetch(*span) for span in spans)
            return

        def read(span: tuple[int, int]) -> tuple[Inputs, Tensor]:
            if not sending:
                return self.fetch(*span)
            part, y = at_rows(self.x, self.rows[slice(*span)], copied=False), self.y[slice(*span)]
            return each(part, lambda t: t.pin_memory()), y.pin_memory() if y.device.type == "cpu" else y

        read_ahead = ahead(partial(read, span) for span in spans)
        yield from sent(read_ahead, device) if sending else read_ahead

    def own(self) -> dict[str, np.ndarray]:
        """The user's columns of these examples, in their order."""
        at = self.rows.numpy()
        return {name: values[at] for name, values in self.columns.items()}

    def names(self) -> np.ndarray | None:
        """The user's own names of the examples: the column `id`, or `path` where there is none."""
        own = self.own()
        return own.get("id", own.get("path"))

    def anew(self, seed: int) -> Examples:
        """With inputs drawn from the training view, where there is one; the targets stay."""
        if self.training is None:
            return self
        x = self.training.read(self.x, self.rows, seed, self.name)
        return replace(self, x=x, rows=torch.arange(len(self)), columns={}, training=None, stored=None)

    def with_targets(self, y: Tensor) -> Examples:
        return replace(self, y=y)

    def to(self, device: torch.device) -> Examples:
        return replace(self, x=each(self.x, lambda t: t.to(device)), y=self.y.to(device))

    def __add__(self, other: Examples) -> Examples:
        """One after the other. If the two do not share their inputs, the columns are dropped. If they are not on one
        device, they meet on the CPU, where the larger one is."""
        if leaves(self.x)[0].device != leaves(other.x)[0].device:
            return self.to(torch.device("cpu")) + other.to(torch.device("cpu"))
        if self.y.ndim != other.y.ndim:
            raise BadInput(
                f"the labels of {self.name} and {other.name} are of two kinds; "
                "pass both as class indices, or both as probabilities"
            )
        filler = None if self.y.is_floating_point() else NO_TARGET
        y = in_a_column([self.y, other.y.to(self.y.device)], filler)
        ids = np.concatenate([self.ids, other.ids])
        name = self.name if self.name == other.name else f"{self.name} + {other.name}"
        if self.x is other.x and self.training is other.training:
            return replace(self, rows=torch.cat([self.rows, other.rows]), y=y, ids=ids, name=name)
        both = (self, other)
        apart = any(is_stored(e.x) or _stays(e) for e in both)
        return Examples(
            one_after_the_other([(e.x, e.rows.numpy()) for e in both])
            if apart
            else joined([e.fetch(0, len(e))[0] for e in both]),
            torch.arange(len(ids)),
            y,
            ids,
            name,
            classes=self.classes,
            features=self.features,
            training=Training.joined([(e.training, e.rows.numpy()) for e in (self, other)]),
        )


def examples(data: Any, name: str, *, accepts: set[str] | None = None) -> Examples:
    """Examples from Records, a torch Dataset of (x, y), a pair of tensors or arrays, named columns, or
    two views of one set.

    Named columns are inputs if they are in `accepts`, or else if they hold numbers; the others are the
    user's own. Lengths that disagree, NaN and infinity are refused here, before anything is computed.
    """
    if isinstance(data, Examples):
        return data
    given = records(data, name, accepts or set())
    x, y = given.x, given.y if given.y.is_floating_point() else given.y.long()
    n = len(y)
    if n == 0:
        raise BadInput(f"{name} has no examples; pass at least one")
    for leaf in [*leaves(x), y]:
        for start in range(0, n, AT_ONCE) if leaf.is_floating_point() and isinstance(leaf, Tensor) else ():
            here = leaf[start : start + AT_ONCE].isfinite()
            if not here.all():
                i = start + int((~here).reshape(len(here), -1).any(1).nonzero()[0])
                raise BadInput(f"{name}[{i}] holds NaN or infinity; drop it or fill it in")
    first = zlib.crc32(name.encode()) << 31
    return Examples(
        x, torch.arange(n), y, first + np.arange(n, dtype=np.int64), name, given.columns, given.classes, given.features,
        None if given.training is None else Training.of(given.training, n), given.stored,
    )  # fmt: skip


def _stays(data: Examples) -> bool:
    """Whether inputs in memory, or mapped into it, are too large to be copied where two sets are joined."""
    return leaves(data.x)[0].device.type == "cpu" and len(data) * size_of(data.fetch(0, 1)[0]) >= STAYS
