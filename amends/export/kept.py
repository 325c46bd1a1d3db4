"""Which examples of train stay after a repair, and which of them with another label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from amends.data.records import Records
from amends.data.targets import target_of
from amends.errors import BadInput, RunMismatch
from amends.runs.files import AGAIN
from amends.runs.run import DONE, Run


@dataclass(frozen=True, eq=False)
class Kept:
    """Positions in train that stay, in its order, and the labels that were changed, by position."""

    at: np.ndarray
    relabelled: Mapping[int, str]

    @classmethod
    def of(cls, run: Run, *, whole: bool = False) -> Kept:
        """From dataset/ of a finished run; BadInput if nothing was removed, unless `whole` allows that."""
        if run.state != DONE:
            raise BadInput(f"nothing is removed yet; {run.folder}; run amends treat {run.folder} first")
        removed, changed, kept = (run.dataset(name) for name in ("removed", "relabelled", "kept"))
        stays = sorted([*kept["index"], *changed["index"]])
        if sorted([*stays, *removed["index"]]) != list(range(run.about["data"]["train"]["n"])):
            where = run.folder / "dataset"
            raise RunMismatch(f"its files do not name each example of train exactly once; {where}; {AGAIN}")
        if not whole and removed.empty and changed.empty:
            raise BadInput(
                f"nothing was removed ({run.metrics.get('verdict')}), so the cleaned data would be train itself; "
                f"{run.folder}; use train as it is"
            )
        labels = dict(zip(changed["index"].tolist(), changed["label"].tolist(), strict=True))
        return cls(np.array(stays, dtype=np.int64), labels)

    def targets(self, train: Records) -> Tensor:
        """y of all of train, with the changed labels in place."""
        y = train.y.clone()
        for i, label in self.relabelled.items():
            y[i] = target_of(label, train.y, train.classes, "relabelled.csv")
        return y

    def of_records(self, train: Records) -> Records:
        return replace(train, y=self.targets(train))[self.at]
