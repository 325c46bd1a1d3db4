"""Adding to floats so that nothing is lost: what rounding takes from some weights is kept in the last digits that
others gain.

A step that makes a float larger takes some of its last digits away; one that makes it smaller leaves room for more.
x ↦ ⌊x + d⌋ never falls, with floats counted in their order, so all the floats that lead to one result stand side by
side, and so do the results that no float leads to. Which of the former a weight was is a number; it is written as a
choice among the latter. What finds no room there goes into the patch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from amends.patches.codes import bits, from_bits, packed, unpacked

WIDEST = 56  # binary digits of a number that is kept


def plus(before: Tensor, delta: np.ndarray) -> tuple[Tensor, bytes]:
    """The sum, and what `minus` needs beside it to come back to the bit."""
    floats = _Floats(before, delta)
    x = floats.number(before)
    y = floats.sums(x)
    first, last = floats.sources(y)
    lost, room = _lost(first, last), np.where(first < last, 0, _room(floats, x, y))
    said = _digits((x - _nearest(first, last)) % (last - first + 1), lost)
    held = np.zeros(int(room.sum()), dtype=np.uint8)
    held[: len(said)] = said[: len(held)]
    rest = np.packbits(said[len(held) :]).tobytes()
    return floats.tensor(y + _numbers(held, room)), packed(rest) if rest else b""


def minus(after: Tensor, delta: np.ndarray, rest: bytes) -> Tensor:
    """What `delta` was added to."""
    floats = _Floats(after, delta)
    y = floats.number(after)
    first, last = floats.sources(y)  # where no float leads to y, the last that leads below it stands before the first
    lost, start = _lost(first, last), floats.sums(last)
    room = np.where(first < last, 0, _room(floats, last, start))
    held, missing = _digits(y - start, room), int(lost.sum() - room.sum())
    if missing > 0:
        more = np.unpackbits(np.frombuffer(unpacked(rest, -(-missing // 8)), np.uint8))
        held = np.concatenate([held, more])
    x = _nearest(first, last) + _numbers(held[: int(lost.sum())], lost)
    return floats.tensor(np.where(first <= last, np.where(x > last, x - (last - first + 1), x), last))


def _nearest(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """To 0, so that it is number 0 where it is among them: a tensor may be full of zeros."""
    return np.clip(0, first, last)


def _lost(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Binary digits that tell one of all from `first` to `last`."""
    return np.frexp(np.maximum(last - first, 0).astype(np.float64))[1]


def _room(floats: _Floats, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Binary digits that find room between the sum y of x and that of the next float."""
    return np.minimum(np.frexp((floats.sums(x + 1) - y).astype(np.float64))[1] - 1, WIDEST)


class _Floats:
    """Floats as whole numbers in their order, −0 just before 0, and each with its own d to be added."""

    def __init__(self, like: Tensor, delta: np.ndarray) -> None:
        self.like, self.delta = like, delta
        self.kind = bits(like).dtype
        self.sign = np.array(1 << (8 * self.kind.itemsize - 1), self.kind)  # the pattern of −0

    def number(self, t: Tensor) -> np.ndarray:
        pattern = bits(t)
        size = (pattern & ~self.sign).astype(np.int64)
        return np.where(pattern & self.sign, -1 - size, size)

    def tensor(self, number: np.ndarray) -> Tensor:
        size = np.where(number < 0, -1 - number, number).astype(self.kind)
        return from_bits(np.where(number < 0, size | self.sign, size), self.like)

    def sums(self, number: np.ndarray) -> np.ndarray:
        """⌊x + d⌋."""
        total, left = _exact(self._value(number), self.delta)
        near = torch.from_numpy(total).to(self.like.dtype)
        above = near.double().numpy() - total
        zero = (near == 0).numpy() & (above == 0) & (left >= 0)  # of both zeros the larger
        return np.where(zero, 0, self.number(near) - ((above > 0) | ((above == 0) & (left < 0))))

    def sources(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first float and the last whose sum is y; where there is none, the last stands before the first."""
        return self._from(y), self._from(y + 1) - 1

    def _from(self, y: np.ndarray) -> np.ndarray:
        """The first float whose sum is y or more: ⌈y − d⌉."""
        total, left = _exact(self._value(y), -self.delta)
        near = torch.from_numpy(total).to(self.like.dtype)
        below = total - near.double().numpy()
        zero = (near == 0).numpy() & (below == 0) & (left <= 0)  # of both zeros the smaller
        return np.where(zero, -1, self.number(near) + ((below > 0) | ((below == 0) & (left > 0))))

    def _value(self, number: np.ndarray) -> np.ndarray:
        return self.tensor(number).double().reshape(-1).numpy()


def _exact(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum in float64, and what rounding left of it (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _digits(numbers: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """All of the numbers in a row, each with so many binary digits."""
    at, places = np.flatnonzero(widths), np.arange(int(widths.max(initial=0)))
    return ((numbers[at, None] >> places) & 1)[places < widths[at, None]].astype(np.uint8)


def _numbers(row: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Back from `_digits`."""
    at, places = np.flatnonzero(widths), np.arange(int(widths.max(initial=0)))
    table = np.zeros((len(at), len(places)), dtype=np.int64)
    table[places < widths[at, None]] = row
    found = np.zeros(len(widths), dtype=np.int64)
    found[at] = (table << places).sum(1)
    return found
