"""Moves that come near a difference of weights with few bytes: of low rank, or on a grid that is fine or coarse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amends.patches.moves import WIDEST, Grid, LowRank, Move

LEVELS = 7  # the largest whole number of a low rank: bytes are better spent on more ranks than on finer numbers
DEEPEST = 8  # times that the coarsest grid is halved
SHARE = 0.08  # of the weights' bytes; ranks that take more are not tried
RANKS = 12  # about how many are tried
LARGE = 128  # rows and columns above which singular vectors are computed approximately
ROUNDED = 0.4  # of a step, added before it is cut off: near 0 a weight rather stays
COARSER = 1  # doublings of the steps of a grid when it is fitted: its numbers then say as much
NAMED = 12.0  # bytes for the description of a move, without its numbers


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to move one tensor: about how many bytes it takes once fitted, and its squared distance from the goal."""

    move: Move | None  # None: the tensor stays
    size: float
    error: float


def candidates(before: Tensor, after: Tensor) -> list[Candidate]:
    """The tensor left alone, on grids, and of low rank."""
    delta = after.detach().to(before.device).double() - before.detach().double()
    moves = (*_grids(delta), *_low_ranks(delta, before.element_size()))
    return [
        Candidate(None, 0.0, float(delta.square().sum())),
        *(Candidate(m, NAMED + _size(m, delta), float((led(m, delta) - delta).square().sum())) for m in moves),
    ]


def led(move: Move, like: Tensor) -> Tensor:
    """The `delta` of a move, to the bit, on the device of a float64 tensor of its shape."""
    if isinstance(move, Grid):
        return (torch.from_numpy(move.steps).to(like) * move.step).reshape(like.shape)
    left, right = (torch.from_numpy(np.ascontiguousarray(side)).to(like) for side in (move.left, move.right))
    return (left * torch.from_numpy(np.ldexp(1.0, move.exponents)).to(like) @ right).reshape(like.shape)


def hull(choices: list[Candidate]) -> list[Candidate]:
    """The choices that are best at some price of a byte, the smallest first."""
    best: list[Candidate] = []
    for one in sorted(choices, key=lambda c: (c.size, c.error)):
        if best and one.error >= best[-1].error:
            continue
        while len(best) > 1 and _slope(best[-2], best[-1]) <= _slope(best[-2], one):
            best.pop()
        best.append(one)
    return best


def _slope(a: Candidate, b: Candidate) -> float:
    """How much the error falls for each additional byte."""
    return (a.error - b.error) / (b.size - a.size)


def cheapest(choices: list[Candidate], price: float) -> Candidate:
    """The best choice for one tensor, where a byte costs as much as `price` of error."""
    return min(choices, key=lambda c: c.error + price * c.size)


def _grids(delta: Tensor) -> Iterator[Grid]:
    top = float(delta.abs().max()) if delta.numel() else 0.0
    if not top:
        return
    coarsest = int(np.floor(np.log2(top)))
    for exponent in range(coarsest, coarsest - DEEPEST, -1):
        yield as_grid(delta.reshape(-1), exponent)
        yield as_grid(delta.reshape(-1), exponent - 2, times=3)


def as_grid(delta: Tensor, exponent: int, times: int = 1, rounded: float = ROUNDED) -> Grid:
    steps = delta.sign() * (delta.abs() / (times * 2.0**exponent) + rounded).floor().clamp(max=127)
    return Grid(steps.to(torch.int8).cpu().numpy(), exponent, times)


def _low_ranks(delta: Tensor, item: int) -> Iterator[LowRank]:
    """Low ranks of the tensor as a matrix with one row for each output."""
    if delta.ndim < 2 or min(len(delta), delta.numel() // max(len(delta), 1)) < 4:
        return
    matrix = delta.reshape(len(delta), -1)
    rows, columns = matrix.shape
    most = min(rows, columns, int(2 * SHARE * item * rows * columns / (rows + columns)))  # of half a byte each
    if most < 1:
        return
    u, s, v = _singular(matrix, most)
    left, right = ((side.double() * s.double().sqrt()).cpu().numpy() for side in (u, v))
    keep = int((s > s[0] * 2.0 ** (-WIDEST / 2)).sum())
    rank, longer = 1, max(1.2, most ** (1 / RANKS))
    while rank <= min(most, keep):
        yield as_low_rank(left[:, :rank], right[:, :rank])
        rank = max(rank + 1, int(longer * rank))


def _singular(matrix: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns = matrix.shape
    if min(rows, columns) > LARGE:
        return torch.svd_lowrank(matrix.float(), q=min(most + 8, rows, columns), niter=4)
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    return u, s, vt.T


def as_low_rank(left: np.ndarray, right: np.ndarray, levels: int = LEVELS) -> LowRank:
    """left @ rightᵀ in whole numbers up to `levels`, each column with a step of its own."""
    sides, exponents = [], np.zeros(left.shape[1], dtype=int)
    for side in (left, right):
        step = np.ceil(np.log2(np.maximum(np.abs(side).max(0), 1e-300) / levels)).astype(int)
        sides.append(np.rint(np.ldexp(side, -step)).astype(np.int8))
        exponents += step
    near = exponents >= exponents.max() - WIDEST
    return LowRank(sides[0][:, near], sides[1][:, near].T, tuple(int(e) for e in exponents[near]))


def _size(move: Move, delta: Tensor) -> float:
    if isinstance(move, Grid):
        return entropy(as_grid(delta.reshape(-1), move.exponent + COARSER, move.times, rounded=0.5).steps)
    return entropy(move.left) + entropy(move.right)


def entropy(values: np.ndarray) -> float:
    """Bytes these whole numbers take if each is coded by its frequency."""
    counts = np.bincount(np.ascontiguousarray(values).view(np.uint8).reshape(-1))
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / counts.sum())).sum() / 8)
