"""A patch as small as it can be while the repaired model answers the same, by what guarded the repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from amends.evaluation.predictions import right
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.moves import Move, moved
from amends.patches.names import tensors, tied
from amends.patches.refit import Teacher, can_be_fitted, refitted
from amends.patches.shrink import Candidate, candidates, cheapest, hull

LOSS = 0.002  # of overall accuracy that a short form may cost on what guards, and the standard error of that
BY_HEART = 1.5  # times that may go of what the repair learned from: it goes first, and what judges goes with less of it
BEYOND = 2.0  # times as far from the repaired weights, it may cost as much more: what judges is not what guards
PRICES = 80  # of a byte, two of them half of the two before
ENOUGH = 0.02  # of the bytes of the weights: below that nothing is fitted to save more
FEW = 4096  # bytes, and below that neither: as much are names and hashes


@dataclass(frozen=True, eq=False)
class Guards:
    """Failures that were searched with and right examples that guarded: what the size of a patch is chosen by. What
    judges the repair is not among them."""

    query: Factor
    guard: Factor | None
    share: float  # of the failures among all the user gave
    repaired: Params
    learned: bool = False  # from these examples as well

    @cached_property
    def _known(self) -> list[np.ndarray]:
        return self._right(self.repaired)

    def _right(self, theta: Params) -> list[np.ndarray]:
        with torch.no_grad():
            return [right(data, theta) for data in (self.query, self.guard) if data is not None]

    def cost(self, theta: Params) -> float:
        """Of overall accuracy, in place of the repaired weights, or its standard error where that is larger: what is
        right with one of the two weights alone may be luck. Of what was learned from, a part."""
        loss = error = 0.0
        found = self._right(theta)
        for weight, now, was in zip((self.share, 1 - self.share), found, self._known, strict=False):
            weight = weight if len(found) > 1 else 1.0
            loss += weight * float(was.mean() - now.mean())
            error += weight**2 * float((now != was).mean()) / len(was)
        return max(loss / (BY_HEART if self.learned else 1.0), error**0.5)

    def hold(self, theta: Params) -> bool:
        """Whether these weights answer like the repaired ones, and even weights that differ more would."""
        further = {k: v + BEYOND * (theta[k] - v) for k, v in self.repaired.items()}
        return self.cost(theta) <= LOSS and self.cost(further) <= BEYOND * LOSS


@dataclass(frozen=True, eq=False)
class Small:
    """Weights of a network before and after a repair, and what may be looked at to make the way between them short."""

    start: Params
    guards: Guards
    train: Factor
    seed: int = 0

    def __call__(self) -> dict[str, Move | None] | None:
        """How each tensor of the network moves, None where it stays; None where nothing but the exact way holds."""
        plain = self._first(self._levels(self._choices), lambda moves: moves)
        if plain is not None and plain[0] <= max(FEW, ENOUGH * self._bytes):
            return plain[1]
        free = {k: [c for c in those if can_be_fitted(c.move, self.start[k])] for k, those in self._choices.items()}
        less = [level for level in self._levels(free) if plain is None or level[0] < plain[0]]
        teacher = Teacher.of(self.train, self.guards.repaired, self.seed)
        better = self._first(less, lambda moves: refitted(self.start, moves, teacher, self.seed))
        found = better or plain
        return None if found is None else found[1]

    @property
    def _bytes(self) -> int:
        return sum(v.numel() * v.element_size() for v in self.start.values())

    @cached_property
    def _choices(self) -> dict[str, list[Candidate]]:
        """For each tensor that moves."""
        pairs = {k: (v, self.guards.repaired[k]) for k, v in self.start.items()}
        return {k: candidates(a, b) for k, (a, b) in pairs.items() if not torch.equal(a, b)}

    def _levels(self, choices: Mapping[str, list[Candidate]]) -> list[tuple[float, dict[str, Move | None]]]:
        """Ways to move all of the tensors, the shortest first, with about how many bytes each takes."""
        choices = {k: hull(those) for k, those in choices.items()}
        worst = sum(those[0].error for those in choices.values())
        levels: dict[float, dict[str, Candidate]] = {}
        for number in range(PRICES):
            price = 256 * worst / self._bytes * 0.5 ** (number / 2)
            taken = {k: cheapest(those, price) for k, those in choices.items()}
            levels.setdefault(round(sum(c.size for c in taken.values()), 3), taken)
        return [(size, {k: c.move for k, c in taken.items()}) for size, taken in sorted(levels.items())]

    def _first(
        self,
        levels: Sequence[tuple[float, dict[str, Move | None]]],
        made: Callable[[dict[str, Move | None]], dict[str, Move | None]],
    ) -> tuple[float, dict[str, Move | None]] | None:
        """The shortest way that holds, by halving: longer ones hold too."""
        low, high, found = 0, len(levels) - 1, None
        while low <= high:
            middle = (low + high) // 2
            size, moves = levels[middle]
            moves = made(moves)
            if self.guards.hold(self._after(moves)):
                found, high = (size, moves), middle - 1
            else:
                low = middle + 1
        return found

    def _after(self, moves: Mapping[str, Move | None]) -> Params:
        """Where the moves lead; a tensor that stays is as it was."""
        theta = dict(self.start)
        for name, move in moves.items():
            if move is not None:
                theta[name] = moved(self.start[name], move).to(self.start[name])
        return theta


def by_name_in_files(network_module: torch.nn.Module) -> dict[str, str]:
    """For each trainable parameter of a network its name in files."""
    state = tensors(network_module)
    again = tied(state)
    places = {value.data_ptr(): name for name, value in state.items() if name not in again}
    found = {name: places.get(p.data_ptr()) for name, p in network_module.named_parameters()}
    return {name: there for name, there in found.items() if there is not None}
