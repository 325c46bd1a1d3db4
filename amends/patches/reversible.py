"""Adding to floats so that nothing is lost: the digits that rounding takes from some weights are kept in the last
digits that others gain.

A step that makes a float larger takes some of its last digits away; one that makes it smaller leaves room for more.
x ↦ ⌊x + d⌋ never falls, with floats counted in their order, so all the floats that lead to one result stand side by
side, and so do the results that no float leads to. Which of the first kind a weight was is a number, and it is kept by
choosing among the second kind. What finds no room there goes into the patch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from amends.patches.codes import bits, from_bits, packed, unpacked

WIDEST = 56  # binary digits of a number that is kept


def plus(before: Tensor, delta: np.ndarray) -> tuple[Tensor, bytes]:
    """The sum, and the bytes that `minus` needs as well to come back to the bit."""
    floats = _Floats(before, delta)
    x = floats.number(before)
    y = floats.sums(x)
    first, last = floats.sources(y)
    lost, room = _lost(first, last), np.where(first < last, 0, _room(floats, x, y))
    choices = _digits((x - _nearest(first, last)) % (last - first + 1), lost)
    held = np.zeros(int(room.sum()), dtype=np.uint8)
    held[: len(choices)] = choices[: len(held)]
    rest = np.packbits(choices[len(held) :]).tobytes()
    return floats.tensor(y + _numbers(held, room)), packed(rest) if rest else b""


def minus(after: Tensor, delta: np.ndarray, rest: bytes) -> Tensor:
    """The tensor that `delta` was added to."""
    floats = _Floats(after, delta)
    y = floats.number(after)
    first, last = floats.sources(y)  # if no float leads to y, last is just before first
    lost, start = _lost(first, last), floats.sums(last)
    room = np.where(first < last, 0, _room(floats, last, start))
    held, missing = _digits(y - start, room), int(lost.sum() - room.sum())
    if missing > 0:
        more = np.unpackbits(np.frombuffer(unpacked(rest, -(-missing // 8)), np.uint8))
        held = np.concatenate([held, more])
    x = _nearest(first, last) + _numbers(held[: int(lost.sum())], lost)
    return floats.tensor(np.where(first <= last, np.where(x > last, x - (last - first + 1), x), last))


def _nearest(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The float from `first` to `last` nearest to 0. It counts as number 0, since a tensor may be full of zeros."""
    return np.clip(0, first, last)


def _lost(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """How many binary digits a choice from `first` to `last` takes."""
    return np.frexp(np.maximum(last - first, 0).astype(np.float64))[1]


def _room(floats: _Floats, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many binary digits fit between the sum y of x and the sum of the next float."""
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
        """The first and the last float whose sum is y; if there is none, the last is before the first."""
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
    """The binary digits of all numbers in a row, each number with its own width."""
    at, places = np.flatnonzero(widths), np.arange(int(widths.max(initial=0)))
    return ((numbers[at, None] >> places) & 1)[places < widths[at, None]].astype(np.uint8)


def _numbers(row: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The numbers whose digits `_digits` gave."""
    at, places = np.flatnonzero(widths), np.arange(int(widths.max(initial=0)))
    table = np.zeros((len(at), len(places)), dtype=np.int64)
    table[places < widths[at, None]] = row
    numbers = np.zeros(len(widths), dtype=np.int64)
    numbers[at] = (table << places).sum(1)
    return numbers
