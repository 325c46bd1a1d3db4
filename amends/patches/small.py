"""A patch as small as it can be while the repaired model answers the same, by what guarded the repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

LOSS = 0.004  # of overall accuracy that may go on what guards, of which more was learned by heart than of what judges
CHANGED = 0.02  # of the answers, whichever way; docs/results/patches.md says where both were chosen
LONGER = 1.4  # times as many bytes, from one size that is tried to the next
PRICES = 120  # of a byte, four of them half of the four before
ALL, HALVES = slice(None), (slice(0, None, 2), slice(1, None, 2))
LEAST = 1e-9  # of a distance in nats, where a tensor makes none


@dataclass(frozen=True)
class Cost:
    """Of a short form: what it loses of overall accuracy, the standard error of that, and the answers that change."""

    loss: float
    error: float
    changed: float

    @property
    def small(self) -> bool:
        return self.loss + self.error <= LOSS and self.changed <= CHANGED


@dataclass(frozen=True, eq=False)
class Guards:
    """Failures that were searched with and right examples that guarded: what a patch is made by. What judges the repair
    is not among them. A size is chosen by fitting to one half of both and looking at the other half, and the other way
    round."""

    query: Factor
    guard: Factor | None
    share: float  # of the failures among all the user gave
    repaired: Params

    def teacher(self, train: Factor, seed: int, seen: slice = ALL) -> Teacher:
        """Half of what counts is train, and half what the model is for, in the proportion the user gave."""
        sets = [(0.5, train), *((0.5 * weight, data[seen]) for weight, data in self._sets)]
        return Teacher.of(sets, self.repaired, seed)

    @property
    def _sets(self) -> list[tuple[float, Factor]]:
        if self.guard is None:
            return [(1.0, self.query)]
        return [(self.share, self.query), (1 - self.share, self.guard)]

    @cached_property
    def _known(self) -> list[np.ndarray]:
        with torch.no_grad():
            return [right(data, self.repaired) for _, data in self._sets]

    def cost(self, fitted: Sequence[Params]) -> Cost:
        """Of each half by the weights that were fitted to the other."""
        loss = changed = variance = 0.0
        for (weight, data), was in zip(self._sets, self._known, strict=True):
            now = np.empty_like(was)
            with torch.no_grad():
                for unseen, theta in zip(reversed(HALVES), fitted, strict=True):
                    now[unseen] = right(data[unseen], theta)
            unit, moved = weight / max(1, len(was)), float((now != was).sum())
            loss += unit * float((was & ~now).sum() - (now & ~was).sum())
            changed += unit * moved
            variance += unit**2 * moved
        return Cost(loss, variance**0.5, changed)


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
        levels, found = self.levels(), None
        low, high = 0, len(levels) - 1
        while low <= high:
            middle = (low + high) // 2
            if self.cost(levels[middle]).small:
                found, high = levels[middle], middle - 1
            else:
                low = middle + 1
        return None if found is None else self.fitted(found)

    def cost(self, level: Mapping[str, Move | None]) -> Cost:
        return self.guards.cost([self.after(refitted(self.start, level, teacher)) for teacher in self._teachers])

    def fitted(self, level: Mapping[str, Move | None]) -> dict[str, Move | None]:
        """To all there is."""
        return refitted(self.start, level, self.guards.teacher(self.train, self.seed))

    @cached_property
    def _teachers(self) -> list[Teacher]:
        return [self.guards.teacher(self.train, self.seed, half) for half in HALVES]

    def levels(self) -> list[dict[str, Move | None]]:
        """Ways to move all of the tensors, the shortest first: at every price of a byte the nearest to the repaired
        weights, where a tensor counts by how far answers go without its part."""
        choices = {name: hull(self._choices(name)) for name in self._moving}
        worst = sum(those[0].error for those in choices.values())
        levels, last = [], 0.0
        for number in range(PRICES):
            price = worst * 2.0 ** (-number / 4)
            taken = {name: cheapest(those, price) for name, those in choices.items()}
            size = sum(c.size for c in taken.values())
            if size > LONGER * last:
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
            without = self._teachers[0].distance({**self.guards.repaired, name: self.start[name]}, 0)
        nats = max(float(without), LEAST) / found[0].error
        return [replace(one, error=nats * one.error) for one in found]

    def after(self, moves: Mapping[str, Move | None]) -> Params:
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
