"""What a repair left of train: which examples stay, and which of them under another label."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.data.records import Records
from amends.errors import BadInput, RunMismatch, first_line
from amends.runs.run import DONE, Run


@dataclass(frozen=True, eq=False)
class Kept:
    """Positions in train that stay, in its order, and the labels that were changed, by position."""

    at: np.ndarray
    relabelled: Mapping[int, str]

    @classmethod
    def of(cls, run: Run, *, whole: bool = False) -> Kept:
        """From dataset/ of a finished run; BadInput where nothing was removed, unless `whole` is fine too."""
        if run.state != DONE:
            raise BadInput(f"nothing is removed yet; {run.folder}; run amends treat {run.folder} first")
        rows = {name: _rows(run, name) for name in ("removed", "relabelled", "kept")}
        at = {name: [_index(row, run, name) for row in found] for name, found in rows.items()}
        total = [i for found in at.values() for i in found]
        if sorted(total) != list(range(run.about["data"]["train"]["n"])):
            raise RunMismatch(f"its files do not name each example of train once; {run.folder / 'dataset'}; {_AGAIN}")
        if not whole and not at["removed"] and not at["relabelled"]:
            raise BadInput(
                f"nothing was removed ({run.metrics.get('verdict')}), so cleaned data would be train itself; "
                f"{run.folder}; use train as it is"
            )
        changed = {i: row["label"] for i, row in zip(at["relabelled"], rows["relabelled"], strict=True)}
        return cls(np.array(sorted([*at["kept"], *at["relabelled"]]), dtype=np.int64), changed)

    def targets(self, train: Records) -> Tensor:
        """y of all of train, with the changed labels in place."""
        y = train.y.clone()
        for i, label in self.relabelled.items():
            y[i] = target(label, train)
        return y

    def of_records(self, train: Records) -> Records:
        return replace(train, y=self.targets(train))[self.at]


_AGAIN = "make the run again"


def target(label: str, train: Records) -> Tensor:
    """A label as relabelled.csv holds it, as the likelihood takes it."""
    try:
        if label in train.classes and train.y.ndim == 1 and not train.y.is_floating_point():
            return torch.tensor(train.classes.index(label))
        value = torch.tensor(json.loads(label), dtype=train.y.dtype)
        return value.reshape(train.y.shape[1:])
    except (ValueError, RuntimeError, TypeError) as e:
        raise RunMismatch(f"label {label!r} is none of train ({first_line(e)}); relabelled.csv; {_AGAIN}") from None


def _rows(run: Run, name: str) -> list[dict[str, str]]:
    path = run.folder / "dataset" / f"{name}.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise RunMismatch(f"it cannot be read ({first_line(e)}); {path}; {_AGAIN}") from None


def _index(row: Mapping[str, Any], run: Run, name: str) -> int:
    try:
        return int(row["index"])
    except (KeyError, TypeError, ValueError):
        raise RunMismatch(f"a row has no index; {run.folder / 'dataset' / name}.csv; {_AGAIN}") from None
