"""Labelled examples as they were read, before they take part in a repair."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs, each, leaves
from amends.data.views import Rows
from amends.errors import BadInput

PLAIN = (bool, Decimal, datetime.date, datetime.time)  # kinds of cells beside texts and numbers
WHOLE = range(-(2**63), 2**63)  # whole numbers that a column of a table can hold


def of_one_kind(values: np.ndarray) -> np.ndarray:
    """A column as the files of a run can hold it: numbers, dates or texts. Cells of several kinds become texts, and so
    do numbers that are too large or complex; a missing cell stays missing."""
    if values.dtype.kind == "c":
        return _texts(values)
    if values.dtype.kind != "O":
        return values
    cells = [v for v in values.tolist() if not _missing(v)]
    kinds = {type(v) for v in cells}

    def all_are(*wanted: type) -> bool:
        return all(issubclass(kind, wanted) for kind in kinds)

    if all_are(str):
        return values if all(map(_can_be_written, cells)) else _texts(values)
    if all_are(numbers.Real) and bool not in kinds:
        return values if all(v in WHOLE for v in cells if isinstance(v, numbers.Integral)) else _texts(values)
    return values if len(kinds) == 1 and all_are(*PLAIN) else _texts(values)


def _missing(value: Any) -> bool:
    return value is None or value != value


def _can_be_written(word: str) -> bool:
    """Half of a surrogate pair, as a JSON file may have, cannot."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(values: np.ndarray) -> np.ndarray:
    texts = np.empty(len(values), dtype=object)
    texts[:] = [None if _missing(v) else str(v).encode(errors="backslashreplace").decode() for v in values.tolist()]
    return texts


@dataclass(frozen=True, eq=False)
class Records:
    """Labelled examples as they were read: what the model takes, and what a person wants to see.

    `x` is ready for the model. `y` holds class indices (long), real targets (float), rows of 0 and 1
    (float) or token targets (long, -100 = none). `columns` are the user's own, with one entry per example;
    a column `id` names the examples in every table. `classes` are the names of the classes and `features`
    those of the columns of `x`, where they are known; `stored` are the rows of a table as its file has them, where
    `x` was made of them by a transform or by scaling. `training` is a view with augmentation, for fine-tuning
    alone: its item i is (x, y), and is read anew each time. `where` is the file or folder they came from.
    """

    x: Inputs
    y: Tensor
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    training: Any = None
    where: str = ""
    stored: np.ndarray | None = None

    def __post_init__(self) -> None:
        where, n = self.where or "the set", len(self.y)
        for leaf in leaves(self.x):
            if len(leaf) != n:
                raise BadInput(f"{where} has {len(leaf)} inputs but {n} labels; give one label per input")
        for name, values in self.columns.items():
            if len(values) != n:
                raise BadInput(
                    f"column {name} of {where} has {len(values)} entries but {n} labels; give one entry per example"
                )
        object.__setattr__(self, "columns", {name: of_one_kind(values) for name, values in self.columns.items()})
        if self.training is not None and len(self.training) != n:
            raise BadInput(
                f"the training view of {where} has {len(self.training)} examples, but the scoring view has {n}; "
                "pass two views of the same examples, in the same order"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, positions: Any) -> Records:
        """Some of them, by a slice, a mask or integer positions, in that order."""
        at = np.arange(len(self))[positions]
        rows = torch.as_tensor(at)
        return replace(
            self,
            x=each(self.x, lambda t: t[rows]),
            y=self.y[rows],
            columns={k: v[at] for k, v in self.columns.items()},
            training=None if self.training is None else Rows(self.training, at),
            stored=None if self.stored is None else self.stored[at],
        )
