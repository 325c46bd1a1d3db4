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
    """Labelled examples as they were read: what the model takes, and what a person wants to see of them.

    `x` is ready for the model. `y` holds class indices (long), real targets (float), rows of 0 and 1
    (float) or token targets (long, -100 = none). `columns` are the user's own, one entry a row; a column
    `id` names the examples in every table. `classes` are names by index and `features` names of the
    columns of `x`, where they are known. `training` is a view with augmentation, for fine-tuning alone:
    its item i is (x, y), read anew each time. `where` is the file or folder it came from.
    """

    x: Inputs
    y: Tensor
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    training: Any = None
    where: str = ""

    def __post_init__(self) -> None:
        where, n = self.where or "records", len(self.y)
        for leaf in leaves(self.x):
            if len(leaf) != n:
                raise BadInput(f"{len(leaf)} inputs but {n} labels; {where}; give one label per input")
        for name, values in self.columns.items():
            if len(values) != n:
                raise BadInput(f"{len(values)} entries but {n} labels; {where}, column {name}; give one entry a row")
        if self.training is not None and len(self.training) != n:
            raise BadInput(
                f"the training view has {len(self.training)} examples, the scoring view {n}; {where}; "
                "give two views of the same examples, in the same order"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, positions: Any) -> Records:
        """Some of them, in the order asked for: a slice, a mask or integer positions."""
        at = np.arange(len(self))[positions]
        rows = torch.as_tensor(at)
        return replace(
            self,
            x=each(self.x, lambda t: t[rows]),
            y=self.y[rows],
            columns={k: v[at] for k, v in self.columns.items()},
            training=None if self.training is None else Rows(self.training, at),
        )
