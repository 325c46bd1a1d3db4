"""Several posteriors side by side: trained models, or draws of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from amends.errors import BadInput
from amends.evidence.factor import Factor, Term
from amends.evidence.params import Params, plus
from amends.posteriors.base import Posterior


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Every question goes to each member.

    Members drawn around one model have a `centre`, that model; the mean is the centre plus their average
    move from their `origins`. Separately trained models have no centre: the first is the caller's own.
    """

    members: tuple[Posterior, ...]
    centre: Params | None = None
    origins: tuple[Params, ...] = ()

    @property
    def mean(self) -> Params:
        if self.centre is None:
            return self.members[0].mean
        moves = [plus(m.mean, start, -1.0) for m, start in zip(self.members, self.origins, strict=True)]
        return {k: c + torch.stack([move[k] for move in moves]).mean(0) for k, c in self.centre.items()}

    @property
    def settled(self) -> bool:
        return all(m.settled for m in self.members)

    def rows(self, f: Callable[[Params], Tensor]) -> Tensor:
        return torch.cat([m.rows(f) for m in self.members])

    def times(self, factor: Factor) -> list[Term]:
        raise BadInput("an ensemble is edited member by member; use the editor Each(...)")

    def moved(self, mean: Params, factor: Factor) -> Posterior:
        raise BadInput("an ensemble is edited member by member; use the editor Each(...)")
