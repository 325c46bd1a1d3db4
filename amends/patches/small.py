"""A patch as small as possible while answers on the guarding examples stay about those of the repaired model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import torch

from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.guards import HALVES, Cost, Guards
from amends.patches.moves import Move
from amends.patches.names import tensors, tied
from amends.patches.refit import Teacher, refitted
from amends.patches.shrink import Candidate, candidates, cheapest, hull, led
from amends.progress import Part, Progress

Level: TypeAlias = dict[str, Move | None]
TRYING, CHOSEN = "trying how small it can be", "fitting the size that was chosen"
LONGER = 1.1  # times as many bytes, from one size that is tried to the next
ENOUGH = 0.01  # of the weights' bytes: nobody asks for less, and what is shorter answers worse
PRICES = 240  # of a byte, eight of them half of the eight before
LEAST = 1e-9  # of a distance in nats, where a tensor makes none


@dataclass(frozen=True, eq=False)
class Small:
    """Weights of a network before and after a repair, and what may be looked at to make the way between them short."""

    start: Params
    guards: Guards
    train: Factor
    seed: int = 0

    def __call__(self, progress: Progress) -> Level | None:
        """How each tensor of the network moves, None for one that stays; no dict at all if only the exact form is good
        enough. First it finds the shortest form that is good enough with the nearest numbers, without a fit; then the
        shortest up to that one that is good enough once fitted to the answers, and fits it to all examples."""
        progress.say("looking for ways to make it small")
        levels = self.levels()
        near = _shortest(levels, lambda level: self.guards.cost([self.after(level)] * len(HALVES)))
        shorter = levels if near is None else levels[: near + 1]
        tries = len(HALVES) * len(shorter).bit_length()
        progress.plan([Part(TRYING, "fit", tries, 1.0), Part(CHOSEN, "fit", 1, 1.0)], {})
        shortest = _shortest(shorter, lambda level: self.cost(level, progress))
        if shortest is not None:
            return self.fitted(levels[shortest], progress)
        return None if near is None else levels[near]

    def cost(self, level: Mapping[str, Move | None], progress: Progress) -> Cost:
        """The cost of fits to each half; of the first fit alone if that already shows that the cost is large."""
        fits: list[Params] = []
        for teacher in self._teachers:
            if not fits or not self.guards.cost(fits).large:
                fits.append(self.after(refitted(self.start, level, teacher, progress.counter(TRYING))))
        return self.guards.cost(fits)

    def fitted(self, level: Mapping[str, Move | None], progress: Progress) -> Level:
        """The moves of one level, fitted to all examples."""
        teacher = self.guards.teacher(self.train, self.seed)
        return refitted(self.start, level, teacher, progress.counter(CHOSEN))

    @cached_property
    def _teachers(self) -> list[Teacher]:
        return [self.guards.teacher(self.train, self.seed, half) for half in HALVES]

    def levels(self) -> list[Level]:
        """Ways to move all the tensors, the shortest first: at every price of a byte the one nearest to the repaired
        weights, each tensor weighted by how much the answers change without its move. Of the ones below `ENOUGH` only
        the longest is kept."""
        choices = {name: hull(self._choices(name)) for name in self._moving}
        worst = sum(those[0].error for those in choices.values())
        enough = ENOUGH * sum(v.numel() * v.element_size() for v in self.start.values())
        levels, last = [], 0.0
        for number in range(PRICES):
            price = worst * 2.0 ** (-number / 8)
            taken = {name: cheapest(those, price) for name, those in choices.items()}
            size = sum(c.size for c in taken.values())
            if size > LONGER * last:
                level = {name: c.move for name, c in taken.items()}
                levels = [level] if size <= enough else [*levels, level]
                last = size
        return levels or [{name: those[-1].move for name, those in choices.items()}]

    @property
    def _moving(self) -> list[str]:
        """Names of the floating-point tensors that move."""
        after = self.guards.repaired
        return [k for k, v in self.start.items() if v.is_floating_point() and not torch.equal(v, after[k].to(v))]

    def _choices(self, name: str) -> list[Candidate]:
        """Candidates with errors in nats: the cost of not moving the tensor, scaled by the squared distance that is
        left."""
        choices = candidates(self.start[name], self.guards.repaired[name])
        with torch.no_grad():
            without = self._teachers[0].distance({**self.guards.repaired, name: self.start[name]}, 0)
        nats = max(float(without), LEAST) / choices[0].error
        return [replace(one, error=nats * one.error) for one in choices]

    def after(self, moves: Mapping[str, Move | None]) -> Params:
        """The weights after the moves; a tensor without a move stays as it was."""
        theta = dict(self.start)
        for name, move in moves.items():
            if move is not None:
                like = self.start[name].double()
                theta[name] = (like + led(move, like)).to(self.start[name])
        return theta


def _shortest(levels: list[Level], cost: Callable[[Level], Cost]) -> int | None:
    """The first level with a small cost, by halving: if one has it, so have all longer ones."""
    low, high, best = 0, len(levels) - 1, None
    while low <= high:
        middle = (low + high) // 2
        if cost(levels[middle]).small:
            best, high = middle, middle - 1
        else:
            low = middle + 1
    return best


def by_name_in_files(network_module: torch.nn.Module) -> dict[str, str]:
    """The names in files of a network's trainable parameters, by their names in the network."""
    state = tensors(network_module)
    again = tied(state)
    places = {value.data_ptr(): name for name, value in state.items() if name not in again}
    in_files = {name: places.get(p.data_ptr()) for name, p in network_module.named_parameters()}
    return {name: in_file for name, in_file in in_files.items() if in_file is not None}
