"""The scores of the members with a weight, as arrays for a file: parts of D are scored on machines that cannot talk to
each other, and joined where the decision is made."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amends.committee.trying import Trial
from amends.errors import RunMismatch

ALIKE = "run all shards and the merge on machines of one kind, with the same number of threads"


@dataclass(frozen=True, eq=False)
class Rows:
    """Of each member with a weight: its scores, one tensor for each of its edits, and r̃ if it is an edit. `mark` is a
    hash of the trials, which must be the same on every machine."""

    scores: Mapping[str, tuple[Tensor, ...]]
    raw: Mapping[str, Tensor]
    mark: str

    def check(self, trials: Mapping[str, Trial]) -> None:
        if self.mark != mark(trials):
            raise RunMismatch(f"the search gives other results here than on the machines of the shards; {ALIKE}")

    def arrays(self) -> dict[str, np.ndarray]:
        """For a file."""
        found: dict[str, np.ndarray] = {"members": np.array(list(self.scores)), "mark": np.array(self.mark)}
        for i, (name, scores) in enumerate(self.scores.items()):
            found |= {f"scores_{i}_{k}": one.cpu().numpy() for k, one in enumerate(scores)}
            found |= {f"raw_{i}": self.raw[name].cpu().numpy()} if name in self.raw else {}
        return found

    @classmethod
    def joined(cls, parts: Sequence[Mapping[str, np.ndarray]], device: torch.device) -> Rows:
        """Of all of D, from what `arrays` made of its parts, in their order."""
        for part in parts:
            if str(part["mark"]) != str(parts[0]["mark"]):
                raise RunMismatch(f"the search gave different results in two shards; {ALIKE}")

        def whole(name: str) -> Tensor:
            return torch.as_tensor(np.concatenate([part[name] for part in parts])).to(device)

        first: Mapping[str, Any] = parts[0]
        scores, raw = {}, {}
        for i, name in enumerate(first["members"].tolist()):
            edits = sum(key.startswith(f"scores_{i}_") for key in first)
            scores[name] = tuple(whole(f"scores_{i}_{k}") for k in range(edits))
            raw |= {name: whole(f"raw_{i}")} if f"raw_{i}" in first else {}
        return cls(scores, raw, str(first["mark"]))


def mark(trials: Mapping[str, Trial]) -> str:
    """A hash of the trials: the same where they ended with the same bits."""
    total = hashlib.sha256()
    for name, trial in trials.items():
        total.update(name.encode())
        for part in (trial.failures, trial.right, *(scores.cpu().numpy() for scores in trial.scores)):
            total.update(np.ascontiguousarray(part).tobytes())
    return total.hexdigest()
