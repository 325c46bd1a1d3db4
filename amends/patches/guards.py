"""What a short form of a patch costs, measured on examples that guarded the repair, never on those that judged it."""

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
    """The cost of a short form: overall accuracy lost, its standard error, and the share of answers that change."""

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
    """The examples a patch is made with: failures used in the search and right examples that guarded the repair, none
    that judge it. A size is chosen by fitting to one half of them and measuring on the other, both ways round."""

    query: Factor
    guard: Factor | None
    share: float  # of the failures among all the user gave
    repaired: Params
    counts: float = 1.0  # the part of a loss on them that others would see; the rest was learned by heart
    unasked: Factor | None = None  # failures of other groups that judge nothing; none was learned from

    def teacher(self, train: Factor, seed: int, seen: slice = ALL) -> Teacher:
        """Half of its examples are from train, half are failures and right examples in the proportion the user gave."""
        sets = [(0.5, train), *((0.5 * weight, data[seen]) for weight, _, data in self._sets)]
        return Teacher.of(sets, self.repaired, seed)

    @cached_property
    def _sets(self) -> list[tuple[float, float, Factor]]:
        """Each set as (its part of overall accuracy, how much a loss on it counts, its examples)."""
        share = 1.0 if self.guard is None else self.share
        asked_share = 1.0 if self.unasked is None else len(self.query) / (len(self.query) + len(self.unasked))
        sets = [
            (share * asked_share, self.counts, self.query),
            (share * (1 - asked_share), 1.0, self.unasked),
            (1 - share, self.counts, self.guard),
        ]
        return [(weight, counts, data) for weight, counts, data in sets if data is not None]

    @cached_property
    def _known(self) -> list[np.ndarray]:
        return [margins(data, self.repaired) for *_, data in self._sets]

    def cost(self, fitted: Sequence[Params]) -> Cost:
        """Each half is measured with the weights fitted to the other; only one half where one was fitted."""
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
    """For each example, the log-probability of its class minus the highest of the others; it is negative if the answer
    is wrong. If answers are not classes, 1 for right and −1 for wrong."""
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
    a short form moves an answer hardly depends on its margin. Few answers change, so all pairs give a far more exact
    share than the pairs that happened (a two-sample U-statistic, Hoeffding 1948)."""
    if not len(margin):
        return 0.0, 0.0
    by_margin = np.searchsorted(np.sort(shift), -margin) / len(shift)
    by_shift = np.searchsorted(np.sort(margin), -shift) / len(margin)
    return float(by_margin.mean()), float(((by_margin.var() + by_shift.var()) / len(margin)) ** 0.5)
