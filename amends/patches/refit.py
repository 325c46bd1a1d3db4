"""A move of low rank, fitted to what the repaired model answers: few numbers do more when chosen for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import kl_div

from amends.evaluation.predictions import class_targets
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.moves import Grid, LowRank, Move
from amends.patches.shrink import as_grid, as_low_rank

STEPS, BATCH = 400, 128
RATE = 0.03  # of the size of what is fitted, at the start; it falls to nothing
KEPT = 8000  # answers of the repaired model that are compared with, at most


@dataclass(frozen=True, eq=False)
class Teacher:
    """Examples of train in a random order, and the outputs of the repaired model on each batch of them. None of them
    judges or guards."""

    data: Factor
    outputs: list[Tensor]

    @classmethod
    def of(cls, train: Factor, repaired: Params, seed: int) -> Teacher:
        chosen = np.random.default_rng(seed).permutation(len(train))[:KEPT]
        data = replace(train[chosen], batch=BATCH)
        with torch.no_grad():
            return cls(data, [train.network.outputs(repaired, x) for _, x, _, _ in data.tiles()])

    def distance(self, theta: Params, part: int) -> Tensor:
        """From the outputs on one batch: of classes in nats, KL(repaired ‖ θ), of anything else mean squared."""
        x, _ = self.data.examples.fetch(part * BATCH, (part + 1) * BATCH)
        ours, theirs = self.data.network.outputs(theta, x), self.outputs[part]
        if not class_targets(self.data) or ours.ndim != 2:
            return (ours - theirs).square().mean()
        return kl_div(ours.log_softmax(1), theirs.log_softmax(1), log_target=True, reduction="batchmean")


def can_be_fitted(move: Move | None, like: Tensor) -> bool:
    """A matrix of low rank, a vector, or a tensor that stays."""
    return move is None or isinstance(move, LowRank) or like.ndim < 2


def refitted(start: Params, moves: Mapping[str, Move | None], teacher: Teacher, seed: int) -> dict[str, Move | None]:
    """The same moves in size and kind, with other numbers: outputs after them are near those of the repaired model
    on the examples of the teacher. Tensors on a coarse grid keep their move."""
    free, fixed = _opened(start, moves)
    groups = [{"params": [p], "lr": RATE * float(p.detach().square().mean().sqrt() or 1e-3)} for p in free.values()]
    if not groups:
        return dict(moves)
    optimiser = torch.optim.Adam(groups)
    steps = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    rng = np.random.default_rng(seed)
    for _ in range(STEPS):
        with torch.enable_grad():
            loss = teacher.distance(_weights(start, free, fixed), int(rng.integers(len(teacher.outputs))))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        steps.step()
    return _closed(moves, free)


def _opened(start: Params, moves: Mapping[str, Move | None]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is fitted (the sides of low ranks, and vectors), and the moves that stay as they are."""
    free, fixed = {}, {}
    for name, move in moves.items():
        like = start[name]
        if isinstance(move, LowRank):
            scale = np.ldexp(1.0, np.array(move.exponents)) ** 0.5
            free[f"{name}/left"] = torch.from_numpy(move.left * scale).to(like)
            free[f"{name}/right"] = torch.from_numpy(move.right * scale[:, None]).to(like)
        elif isinstance(move, Grid):
            delta = torch.from_numpy(move.delta()).to(like).reshape(like.shape)
            (free if like.ndim < 2 else fixed)[name] = delta
    return {name: value.requires_grad_() for name, value in free.items()}, fixed


def _weights(start: Params, free: Mapping[str, Tensor], fixed: Mapping[str, Tensor]) -> Params:
    theta = dict(start)
    for name, value in {**fixed, **free}.items():
        if name.endswith("/left"):
            name = name.removesuffix("/left")
            theta[name] = start[name] + (value @ free[f"{name}/right"]).reshape(start[name].shape)
        elif not name.endswith("/right"):
            theta[name] = start[name] + value
    return theta


def _closed(moves: Mapping[str, Move | None], free: Mapping[str, Tensor]) -> dict[str, Move | None]:
    """Whole numbers again, as fine as they were."""
    numbers = {name: value.detach().cpu().double().numpy() for name, value in free.items()}
    made: dict[str, Move | None] = dict(moves)
    for name, move in moves.items():
        if isinstance(move, LowRank):
            levels = max(int(np.abs(side).max()) for side in (move.left, move.right))
            made[name] = as_low_rank(numbers[f"{name}/left"], numbers[f"{name}/right"].T, levels)
        elif isinstance(move, Grid) and name in numbers:
            made[name] = as_grid(numbers[name].reshape(-1), move.exponent)
    return made
