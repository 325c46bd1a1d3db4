"""A patch as small as it can be while the repaired model answers the same, by what guarded the repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from amends.evaluation.predictions import right
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.moves import Move
from amends.patches.names import tensors, tied
from amends.patches.refit import Teacher, refitted
from amends.patches.shrink import Candidate, candidates, cheapest, hull

LOSS = 0.0075  # of overall accuracy that may go on what guards: it was learned by heart, and what judges loses less
CHANGED = 0.03  # of the answers, whichever way
SHORTEST = 500  # bytes of numbers: names, hashes and figures take as many, and less would save little
LONGER = 1.4  # times as many bytes, from one size that is tried to the next
PRICES = 120  # of a byte, four of them half of the four before
LEAST = 1e-9  # of a distance in nats, where a tensor makes none


@dataclass(frozen=True, eq=False)
class Guards:
    """Failures that were searched with and right examples that guarded: what a patch is made by. What judges the repair
    is not among them. A size is chosen by fitting to one half of both, and looking at the other half."""

    query: Factor
    guard: Factor | None
    share: float  # of the failures among all the user gave
    repaired: Params

    def teacher(self, train: Factor, seed: int, half: bool) -> Teacher:
        """Half of what counts is train, and half what the model is for, in the proportion the user gave."""
        seen = slice(None, None, 2 if half else 1)
        sets = [(0.5, train), *((0.5 * weight, data[seen]) for weight, data in self._sets)]
        return Teacher.of(sets, self.repaired, seed)

    @property
    def _sets(self) -> list[tuple[float, Factor]]:
        if self.guard is None:
            return [(1.0, self.query)]
        return [(self.share, self.query), (1 - self.share, self.guard)]

    @cached_property
    def _known(self) -> list[np.ndarray]:
        return self._right(self.repaired)

    def _right(self, theta: Params) -> list[np.ndarray]:
        with torch.no_grad():
            return [right(data[1::2], theta) for _, data in self._sets]

    def hold(self, theta: Params) -> bool:
        """Whether few answers of the other half change, and few more from right to wrong than back."""
        loss = changed = 0.0
        for (weight, _), now, was in zip(self._sets, self._right(theta), self._known, strict=True):
            loss += weight * float((was & ~now).sum() - (now & ~was).sum()) / max(1, len(was))
            changed += weight * float((now != was).sum()) / max(1, len(was))
        return loss <= LOSS and changed <= CHANGED


@dataclass(frozen=True, eq=False)
class Small:
    """Weights of a network before and after a repair, and what may be looked at to make the way between them short."""

    start: Params
    guards: Guards
    train: Factor
    seed: int = 0

    def __call__(self) -> dict[str, Move | None] | None:
        """How each tensor of the network moves, None where it stays; None where nothing but the exact way holds. The
        shortest of them that holds, by halving: longer ones hold too. Then it is fitted to all there is."""
        levels, found = self._levels(), None
        low, high = 0, len(levels) - 1
        while low <= high:
            middle = (low + high) // 2
            if self.guards.hold(self._after(refitted(self.start, levels[middle], self._teacher))):
                found, high = levels[middle], middle - 1
            else:
                low = middle + 1
        return None if found is None else refitted(self.start, found, self.guards.teacher(self.train, self.seed, False))

    @cached_property
    def _teacher(self) -> Teacher:
        return self.guards.teacher(self.train, self.seed, half=True)

    def _levels(self) -> list[dict[str, Move | None]]:
        """Ways to move all of the tensors, the shortest first: at every price of a byte the nearest to the repaired
        weights, where a tensor counts by how far answers go without its part."""
        choices = {name: hull(self._choices(name)) for name in self._moving}
        worst = sum(those[0].error for those in choices.values())
        levels, last = [], 0.0
        for number in range(PRICES):
            price = worst * 2.0 ** (-number / 4)
            taken = {name: cheapest(those, price) for name, those in choices.items()}
            size = sum(c.size for c in taken.values())
            if size > max(LONGER * last, SHORTEST):
                levels.append({name: c.move for name, c in taken.items()})
                last = size
        return levels or [{name: those[-1].move for name, those in choices.items()}]

    @property
    def _moving(self) -> list[str]:
        """Names of the tensors that move, as far as they are real numbers."""
        after = self.guards.repaired
        return [k for k, v in self.start.items() if v.is_floating_point() and not torch.equal(v, after[k].to(v))]

    def _choices(self, name: str) -> list[Candidate]:
        """With errors in nats: as far as all of the move is worth, in proportion to the squared distance."""
        found = candidates(self.start[name], self.guards.repaired[name])
        with torch.no_grad():
            without = self._teacher.distance({**self.guards.repaired, name: self.start[name]}, 0)
        nats = max(float(without), LEAST) / found[0].error
        return [replace(one, error=nats * one.error) for one in found]

    def _after(self, moves: Mapping[str, Move | None]) -> Params:
        """Where the moves lead; a tensor that stays is as it was."""
        theta = dict(self.start)
        for name, move in moves.items():
            if move is not None:
                like = self.start[name]
                far = torch.from_numpy(move.delta()).to(like.device).reshape(like.shape)
                theta[name] = (like.double() + far).to(like)
        return theta


def by_name_in_files(network_module: torch.nn.Module) -> dict[str, str]:
    """For each trainable parameter of a network its name in files."""
    state = tensors(network_module)
    again = tied(state)
    places = {value.data_ptr(): name for name, value in state.items() if name not in again}
    found = {name: places.get(p.data_ptr()) for name, p in network_module.named_parameters()}
    return {name: there for name, there in found.items() if there is not None}
