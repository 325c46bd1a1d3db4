"""How one tensor moves, in whole numbers and powers of two: the same sum on every machine, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from amends.patches.codes import Damaged, along, bits, difference, from_bits, packed, unpacked
from amends.patches.reversible import minus, plus

TIMES = (1, 3)  # powers of two a step may be: steps lie no further apart than a half
WIDEST = 24  # binary digits between the largest and the smallest step of a tensor: float64 then holds every sum


@dataclass(frozen=True, eq=False)
class Grid:
    """A step of 2^exponent, or of 3 · 2^exponent, times a small whole number for each weight, which is 0 where the
    weight stays."""

    steps: np.ndarray  # int8, one for each weight, in a row
    exponent: int
    times: int = 1

    @property
    def step(self) -> float:
        return self.times * 2.0**self.exponent

    def delta(self) -> np.ndarray:
        return np.ldexp(self.times * self.steps.astype(np.float64), self.exponent)

    @cached_property
    def parts(self) -> dict[str, bytes]:
        return {"grid": packed(self.steps.tobytes())}

    @property
    def about(self) -> dict[str, Any]:
        return {"kind": "grid", "exponent": self.exponent} | ({} if self.times == 1 else {"times": self.times})

    @classmethod
    def of(cls, about: Mapping[str, Any], parts: Mapping[str, bytes], count: int) -> Grid:
        times = about.get("times", 1)
        if times not in TIMES:
            raise Damaged("an invalid step")
        return cls(np.frombuffer(unpacked(parts["grid"], count), np.int8), _exponent(about["exponent"]), times)


@dataclass(frozen=True, eq=False)
class LowRank:
    """Σ 2^exponentₖ · leftₖ ⊗ rightₖ, small whole numbers: every partial sum is a whole number below 2⁵³."""

    left: np.ndarray  # int8 [rows, rank]
    right: np.ndarray  # int8 [rank, columns]
    exponents: tuple[int, ...]

    def delta(self) -> np.ndarray:
        lowest = min(self.exponents)
        steps = np.ldexp(self.left.astype(np.float64), np.array(self.exponents) - lowest)
        return np.ldexp(steps @ self.right.astype(np.float64), lowest).reshape(-1)

    @cached_property
    def parts(self) -> dict[str, bytes]:
        columns = np.ascontiguousarray(self.left.T)
        return {"left": packed(columns.tobytes()), "right": packed(np.ascontiguousarray(self.right).tobytes())}

    @property
    def about(self) -> dict[str, Any]:
        return {"kind": "low rank", "exponents": list(self.exponents), "rows": len(self.left)}

    @classmethod
    def of(cls, about: Mapping[str, Any], parts: Mapping[str, bytes], count: int) -> LowRank:
        exponents, rows = tuple(map(_exponent, about["exponents"])), int(about["rows"])
        rank = len(exponents)
        if not rank or rows < 1 or count % rows or max(exponents) - min(exponents) > WIDEST:
            raise Damaged("an invalid low rank")
        left, right = (
            np.frombuffer(unpacked(parts[name], rank * n), np.int8).reshape(rank, n)
            for name, n in (("left", rows), ("right", count // rows))
        )
        return cls(left.T, right, exponents)


Move: TypeAlias = Grid | LowRank
KINDS: dict[str, type[Grid] | type[LowRank]] = {"grid": Grid, "low rank": LowRank}


def _exponent(value: Any) -> int:
    if not isinstance(value, int) or not -1100 < value < 1100:
        raise Damaged("an invalid exponent")
    return value


def stepped(before: Tensor, after: Tensor, move: Move | None) -> tuple[Tensor, bytes]:
    """The weights after a move, and the bytes needed to come back to the bit. Without a move: `after` itself, and the
    whole difference."""
    if move is None:
        return after, difference(bits(before), bits(after))
    return plus(before.detach().cpu(), move.delta())


def forward(before: Tensor, move: Move | None, way: bytes) -> Tensor:
    if move is None:
        return from_bits(along(bits(before), way), before)
    return plus(before.detach().cpu(), move.delta())[0]


def back(after: Tensor, move: Move | None, way: bytes) -> Tensor:
    """The weights as they were, to the bit."""
    if move is None:
        return from_bits(along(bits(after), way, back=True), after)
    return minus(after.detach().cpu(), move.delta(), way)
