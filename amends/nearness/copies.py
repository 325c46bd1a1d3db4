"""Copies among the inputs: which examples are near copies of each other, and how many witnesses are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import leaves
from amends.data.splits import some
from amends.evidence.factor import Factor
from amends.nearness.conflicts import CHUNK

APART = 0.05  # of their distance from the mean, by which near copies may differ
DENSE = 3.0  # times as many pairs at twice the distance: a line has 2, a plane 4
WORK = 2**36  # numbers multiplied to compare all pairs, a few seconds; where it would be more, only equality counts
LOOKED_AT = 1000  # examples that stand for all where a mean is taken
TOGETHER = 128  # rows of about the same length that are compared with others at once
ROUNDED = 1.001  # how far rounding may move a squared length
SHORT = 32  # bytes up to which a row is compared as it is; a longer one by its digest


def duplicates(data: Factor, order: np.ndarray, apart: float = APART) -> list[list[int]]:
    """Groups of near copies among the examples at `order`, in that order.

    Equal inputs are always copies. In a float tensor, so are inputs that differ by at most `apart` of
    their distance from the mean of `data`, unless they merely lie dense (`_Found.dense`). A copy of a copy is in the
    same group.
    """
    part = data[order]
    ground = (_mean(data), None) if len(part) > 1 and _numbers(data) is not None else None
    groups: dict[int, list[int]] = {}
    for position, group in zip(order, _looked(part, ground, apart).first(), strict=True):
        groups.setdefault(int(group), []).append(int(position))
    return [group for group in groups.values() if len(group) > 1]


def witnesses(data: Factor, beside: Factor, apart: float = APART) -> np.ndarray:
    """For each example the position of the first of its copies, itself where it has none before it.

    Copies have the same target, and inputs as in `duplicates`, but that distances are from the mean of `beside`, and in
    a table each column is in units of its own spread there, so that none outweighs the others. The model says the same
    of all copies, so together they are one witness.
    """
    first = np.arange(len(data))
    if len(data) < 2:
        return first
    measured = _numbers(data) is not None and _numbers(data) == _numbers(beside)
    ground = _ground(beside[some(np.arange(len(beside)), LOOKED_AT, 0)]) if measured else None
    targets = data.examples.y.reshape(len(data), -1).cpu()
    _, kind = np.unique((targets.float() if targets.dtype == torch.bfloat16 else targets).numpy(), axis=0,
                        return_inverse=True)  # fmt: skip
    kinds = [np.flatnonzero(kind.reshape(-1) == k) for k in range(kind.max() + 1)]
    found = [(at, _looked(data[at], ground, apart)) for at in kinds if len(at) > 1]
    near, wider = (sum(getattr(one, name) for _, one in found) for name in ("near", "wider"))
    for at, one in found:
        first[at] = at[replace(one, near=near, wider=wider).first()]
    return first


def shared(data: Factor, among: Factor) -> np.ndarray:
    """Which examples are equal to one of another set, target and all."""
    rows = list(_whole(data))
    asked = set(rows)
    found = {row for row in _whole(among) if row in asked}  # of the larger set only what is asked for is kept
    return np.array([row in found for row in rows], dtype=bool)


def _whole(data: Factor) -> Iterator[tuple[bytes, ...]]:
    for _, x, y, _ in data.tiles():
        yield from zip(*map(_digests, (*leaves(x), y)), strict=True)


@dataclass(frozen=True, eq=False)
class _Found:
    """For each example the position of the first that is equal to it, and of the first that near ones link it to; how
    many pairs are near and not equal, and how many are at most twice as far apart."""

    equal: np.ndarray
    linked: np.ndarray
    near: int = 0
    wider: int = 0

    @property
    def dense(self) -> bool:
        """Whether inputs are near because they have few dimensions, and not because some are copies. There are about as
        many copies at twice the distance, and at most twice as many pictures of one film, which lie on a line. Where
        inputs fill a plane or more there are four times as many, or more."""
        return self.wider > DENSE * self.near

    def first(self) -> np.ndarray:
        """For each example the position of the first of its copies."""
        return self.equal if self.dense else self.linked


def _looked(part: Factor, ground: tuple[Tensor, Tensor | None] | None, apart: float) -> _Found:
    """What is equal, and what is near where there is a mean to compare from, with the units or without, and not too
    much to compare."""
    seen: dict[tuple[bytes, ...], int] = {}
    inputs = (row for _, x, _, _ in part.tiles() for row in zip(*map(_digests, leaves(x)), strict=True))
    equal = np.array([seen.setdefault(row, i) for i, row in enumerate(inputs)], dtype=np.int64)
    if ground is None or len(part) < 2 or len(part) ** 2 * ground[0].numel() > WORK:
        return _Found(equal, equal)
    away = _flat(part) - ground[0]
    return _linked(equal, away if ground[1] is None else away / ground[1], apart)


def _numbers(data: Factor) -> torch.Size | None:
    """The shape of inputs that are one tensor of numbers, so that some can be nearer than others; None where they are
    not, and where an input is a single number: points on one axis lie near each other without being copies."""
    x = data.examples.x
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.shape[1:].numel() == 1:
        return None
    return x.shape[1:]


def _mean(data: Factor) -> Tensor:
    parts = (data[start : start + data.batch] for start in range(0, len(data), data.batch))
    return torch.stack([_flat(part).sum(0) for part in parts]).sum(0) / len(data)


def _ground(data: Factor) -> tuple[Tensor, Tensor | None]:
    """The mean, and for a table the spread of each column; of one that is nearly always the same, such as a pixel at
    the border, a tenth of the usual spread."""
    centre = _mean(data)
    if leaves(data.examples.x)[0].ndim != 2:
        return centre, None
    spread = (_flat(data) - centre).pow(2).mean(0).sqrt()
    varying = spread[spread > 0]
    return centre, spread.clamp_min(float(varying.median()) / 10) if len(varying) else None


def _flat(part: Factor) -> Tensor:
    """Inputs as rows of numbers, on the device of the network."""
    device, dtype = part.network.device, torch.promote_types(leaves(part.examples.x)[0].dtype, torch.float32)
    return part.map(lambda x, y: _dense(leaves(x)[0]).reshape(len(y), -1).to(device, dtype))


def _linked(equal: np.ndarray, rows: Tensor, apart: float) -> _Found:
    """One label for all rows that near ones link, the smallest of theirs; and how many pairs are near. Lengths of two
    rows differ by no more than the rows do, so each is compared only with those that are little longer."""
    size, order = rows.pow(2).sum(1).sort()
    rows, place, label, pairs = rows[order], order.cpu().numpy(), equal.copy(), np.zeros(2, dtype=np.int64)
    for at in slices(len(rows), max(len(rows), CHUNK // TOGETHER)):
        beyond = slice(at.start, _little_longer(size, at.stop, 2 * apart))
        distance = size[at, None] + size[beyond] - 2 * rows[at] @ rows[beyond].T
        far = torch.maximum(size[at, None], size[beyond])
        near, wider = ((distance <= (times * apart) ** 2 * far).cpu().numpy() for times in (1, 2))
        other = equal[place[at], None] != equal[place[beyond]]
        pairs += [int(np.triu(within & other, 1).sum()) for within in (near, wider)]
        own = np.arange(len(near))
        near[own, own] = True
        for k in np.flatnonzero(near.sum(1) > 1):  # most rows are near no other
            joined = np.unique(label[place[beyond][near[k]]])
            if len(joined) > 1:
                label[np.isin(label, joined)] = joined[0]
    return _Found(equal, label, *pairs.tolist())


def _little_longer(size: Tensor, stop: int, apart: float) -> int:
    """Where rows end, the shortest first, that may be near those before `stop`; `size` are their squared lengths."""
    if apart >= 1:
        return len(size)
    return max(stop, int(torch.searchsorted(size, ROUNDED * size[stop - 1] / (1 - apart) ** 2, right=True)))


def _digests(leaf: Tensor) -> list[bytes]:
    """Equal for equal rows and no others; adding 0 makes −0 and 0 equal."""
    flat = (_dense(leaf) + 0).reshape(len(leaf), -1).contiguous()
    rows = flat.view(torch.uint8).cpu().numpy()
    return [row.tobytes() if len(row) <= SHORT else sha256(row).digest() for row in rows]


def _dense(leaf: Tensor) -> Tensor:
    return leaf if leaf.layout == torch.strided else leaf.to_dense()


def slices(rows: int, across: int) -> Iterator[slice]:
    """Slices of `rows` small enough to compare with all of `across` at once."""
    step = max(1, CHUNK // max(1, across))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
