"""What a short form of a patch costs, by examples that guarded the repair and never by what judged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from amends.data.inputs import Inputs
from amends.evaluation.predictions import class_targets, right
from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.patches.refit import Teacher

LOSS = 0.004  # of overall accuracy that may go, as others would see it
CHANGED = 0.02  # of the answers, whichever way; docs/results/patches.md says where both were chosen
ALL, HALVES = slice(None), (slice(0, None, 2), slice(1, None, 2))


@dataclass(frozen=True)
class Cost:
    """Of a short form: what it loses of overall accuracy, the standard error of that, and the answers that change."""

    loss: float
    error: float
    changed: float

    @property
    def small(self) -> bool:
        return self.loss + self.error <= LOSS and self.changed <= CHANGED

    @property
    def large(self) -> bool:
        """Whether more examples would hardly make it small."""
        return self.loss - self.error > LOSS


@dataclass(frozen=True, eq=False)
class Guards:
    """Failures that were searched with and right examples that guarded: what a patch is made by. What judges the repair
    is not among them. A size is chosen by fitting to one half of both and looking at the other half, and the other way
    round."""

    query: Factor
    guard: Factor | None
    share: float  # of the failures among all the user gave
    repaired: Params
    counts: float = 1.0  # of a loss on them, what others would see: the rest is of what was learned by heart
    unasked: Factor | None = None  # failures of other groups that judge nothing: of these none was learned

    def teacher(self, train: Factor, seed: int, seen: slice = ALL) -> Teacher:
        """Half of what counts is train, and half what the model is for, in the proportion the user gave."""
        sets = [(0.5, train), *((0.5 * weight, data[seen]) for weight, _, data in self._sets)]
        return Teacher.of(sets, self.repaired, seed)

    @cached_property
    def _sets(self) -> list[tuple[float, float, Factor]]:
        """Each with its part of overall accuracy, and how much a loss on it counts."""
        share = 1.0 if self.guard is None else self.share
        asked = 1.0 if self.unasked is None else len(self.query) / (len(self.query) + len(self.unasked))
        sets = [
            (share * asked, self.counts, self.query),
            (share * (1 - asked), 1.0, self.unasked),
            (1 - share, self.counts, self.guard),
        ]
        return [(weight, counts, data) for weight, counts, data in sets if data is not None]

    @cached_property
    def _known(self) -> list[np.ndarray]:
        return [margins(data, self.repaired) for *_, data in self._sets]

    def cost(self, fitted: Sequence[Params]) -> Cost:
        """Of each half by the weights that were fitted to the other; of one half where one was fitted."""
        loss = changed = variance = 0.0
        for (weight, counts, data), was in zip(self._sets, self._known, strict=True):
            unseen = [(at, theta) for at, theta in zip(reversed(HALVES), fitted, strict=False) if len(was[at])]
            now = np.concatenate([was[:0], *(margins(data[at], theta) for at, theta in unseen)])
            was = np.concatenate([was[:0], *(was[at] for at, _ in unseen)])
            for sign in (1.0, -1.0):  # right ones that are lost, then wrong ones that are won
                those = sign * was > 0
                turned, error = crossings(sign * was[those], sign * (now - was)[those])
                part = weight * float(those.mean()) if len(those) else 0.0
                loss += counts * sign * part * turned
                changed += part * turned
                variance += (part * error) ** 2
        return Cost(loss, variance**0.5, changed)


def margins(data: Factor, theta: Params) -> np.ndarray:
    """By how much the log-probability of its class is above those of all others, below 0 where an answer is wrong.
    Where answers are no classes, 1 or −1."""
    if not len(data) or not class_targets(data):
        return np.where(_right(data, theta), 1.0, -1.0)

    def margin(x: Inputs, y: Tensor) -> Tensor:
        outputs = data.network.outputs(theta, x).double()
        if outputs.ndim != 2:
            return 2.0 * data.network.likelihood.right(outputs, y).double() - 1
        others = outputs.scatter(1, y[:, None], -torch.inf)
        return outputs.gather(1, y[:, None])[:, 0] - others.amax(1)

    with torch.no_grad():
        return data.map(margin).cpu().numpy()


def _right(data: Factor, theta: Params) -> np.ndarray:
    with torch.no_grad():
        return right(data, theta)


def crossings(margin: np.ndarray, shift: np.ndarray) -> tuple[float, float]:
    """The share of margins that fall below 0, with its standard error, where every margin may meet every shift: how far
    a short form moves an answer says little of how sure it was. Answers that change are few; so many pairs say far more
    exactly how many there are than the pairs that happened (a two-sample U-statistic, Hoeffding 1948)."""
    if not len(margin):
        return 0.0, 0.0
    by_margin = np.searchsorted(np.sort(shift), -margin) / len(shift)
    by_shift = np.searchsorted(np.sort(margin), -shift) / len(margin)
    return float(by_margin.mean()), float(((by_margin.var() + by_shift.var()) / len(margin)) ** 0.5)
