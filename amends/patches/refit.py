"""Few whole numbers, fitted to the answers of the repaired model: they come closer than numbers near its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from amends.evaluation.predictions import class_targets
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.moves import Grid, LowRank, Move
from amends.patches.shrink import COARSER

STEPS, BATCH = 400, 128
RATE = 0.03  # of the size of what is fitted, at the start; it falls to nothing
WHOLE = 0.4  # of the steps, after which only whole numbers are tried
KEPT = 12_800  # examples that are compared on, some of them several times


@dataclass(frozen=True, eq=False)
class Teacher:
    """The outputs of the repaired model on examples, batch by batch."""

    data: Factor
    outputs: list[Tensor]

    @classmethod
    def of(cls, sets: Sequence[tuple[float, Factor]], repaired: Params, seed: int) -> Teacher:
        """On examples of several sets, drawn in proportion to their weights."""
        rng, drawn = np.random.default_rng(seed), []
        for weight, data in sets:
            draws = rng.permutation(np.resize(rng.permutation(len(data)), int(weight * KEPT)))
            drawn.append(data.examples[draws])
        order = rng.permutation(sum(map(len, drawn)))
        data = Factor.of(sets[0][1].network, reduce(add, drawn)[order], BATCH)
        with torch.no_grad():
            return cls(data, [data.network.outputs(repaired, x) for _, x, _, _ in data.tiles()])

    def distance(self, theta: Params, draw: int) -> Tensor:
        """How far the outputs on one batch are from the repaired ones: KL(repaired ‖ θ) of classes, or mean squared."""
        part = draw % len(self.outputs)
        x, _ = self.data.examples.fetch(part * BATCH, min((part + 1) * BATCH, len(self.data)))
        ours, theirs = self.data.network.outputs(theta, x), self.outputs[part]
        if not class_targets(self.data) or ours.ndim != 2:
            return (ours - theirs).square().mean()
        return kl_div(ours.log_softmax(1), theirs.log_softmax(1), log_target=True, reduction="batchmean")


def refitted(
    start: Params, moves: Mapping[str, Move | None], teacher: Teacher, on_step: Callable[[int], None]
) -> dict[str, Move | None]:
    """Moves of the same size and kind, with numbers that bring the outputs near those of the repaired model. `on_step`
    is called with the number of each step."""
    free = {name: _Free(start[name], move) for name, move in moves.items() if move is not None}
    fitted = [p for one in free.values() for p in one.numbers]
    if not fitted:
        return dict(moves)
    groups = [{"params": [p], "lr": RATE * float(p.detach().square().mean().sqrt() or 1e-3)} for p in fitted]
    optimiser = torch.optim.Adam(groups)
    steps = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for step in range(STEPS):
        on_step(step)
        if step == int(WHOLE * STEPS):
            for one in free.values():
                one.becomes_whole()
        with torch.enable_grad():
            theta = {k: v if k not in free else v + free[k].delta().to(v) for k, v in start.items()}
            loss = teacher.distance(theta, step)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        steps.step()
    return {**moves, **{name: one.move() for name, one in free.items()}}


class _Free:
    """The numbers of one move while they are fitted."""

    def __init__(self, like: Tensor, move: Move) -> None:
        self.like, self.was = like, move
        self.steps: list[Tensor] = []  # of whole numbers; before there are any, numbers are free
        if isinstance(move, LowRank):
            scale = np.ldexp(1.0, np.array(move.exponents)) ** 0.5
            sides = [move.left * scale, (move.right * scale[:, None]).T]
        else:
            sides = [move.delta()]
        self.numbers = [torch.from_numpy(side).to(like.device, torch.float32).requires_grad_() for side in sides]
        self.moving = None if isinstance(move, LowRank) else self.numbers[0].detach() != 0

    def becomes_whole(self) -> None:
        """From now on numbers are rounded: on a grid to a coarser step than before, in a low rank to as many levels as
        at the start, of the sizes the numbers have now."""
        if isinstance(self.was, Grid):
            self.steps = [self.numbers[0].new_tensor(self.was.step * 2.0**COARSER)]
            return
        for p, part in zip(self.numbers, (self.was.left, self.was.right), strict=True):
            levels = max(1, int(np.abs(part).max(initial=0)))
            self.steps.append(torch.exp2(torch.ceil(torch.log2(p.detach().abs().amax(0).clamp_min(1e-30) / levels))))

    def _whole(self) -> list[Tensor]:
        return [torch.round(p / step).clamp(-127, 127) for p, step in zip(self.numbers, self.steps, strict=True)]

    def delta(self) -> Tensor:
        """The move itself. Rounded numbers pass their gradient on to those they were rounded from."""
        sides = list(self.numbers)
        if self.steps:
            rounded = zip(sides, self._whole(), self.steps, strict=True)
            sides = [p + (whole * step - p).detach() for p, whole, step in rounded]
        if self.moving is None:
            return (sides[0] @ sides[1].T).reshape(self.like.shape)
        return (sides[0] * self.moving).reshape(self.like.shape)

    def move(self) -> Move:
        whole = [side.detach().cpu().numpy().astype(np.int8) for side in self._whole()]
        if isinstance(self.was, Grid):
            return Grid(whole[0] * (self.was.steps != 0), self.was.exponent + COARSER, self.was.times)
        exponents = [np.rint(torch.log2(step).cpu().numpy()).astype(int) for step in self.steps]
        return LowRank(whole[0], whole[1].T, tuple(int(a + b) for a, b in zip(*exponents, strict=True)))
