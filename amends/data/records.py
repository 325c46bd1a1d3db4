"""Labelled examples as they were read, before they take part in a repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs, each, leaves
from amends.data.views import Rows
from amends.errors import BadInput


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
