"""Choose the end of an editor's path, or its best point under a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, cast

from torch import Tensor

from amends.errors import NonFinite
from amends.evidence.factor import Factor
from amends.posteriors import Posterior

PATIENCE = 20  # items that may be worse before the path is abandoned


class Watch(Protocol):
    """Rates a posterior; higher is better, and None means that it must not be chosen."""

    def __call__(self, posterior: Posterior) -> float | None: ...


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Mean log-likelihood of evidence the editor was not shown."""

    evidence: Factor

    def __call__(self, posterior: Posterior) -> float | None:
        return float(posterior.rows(self.evidence.per_example).mean())


@dataclass(frozen=True, eq=False)
class Right:
    """Accuracy on the evidence."""

    evidence: Factor

    def __call__(self, posterior: Posterior) -> float:
        network, theta = self.evidence.network, posterior.mean
        return float(
            self.evidence.map(lambda x, y: network.likelihood.right(network.outputs(theta, x), y)).double().mean()
        )


@dataclass(frozen=True, eq=False)
class Guard:
    """Accuracies that must not fall: each in `kept` must be at least its bound.

    Among the posteriors that pass, it prefers the best under `inner`, or without `inner` the furthest along the path.
    """

    kept: tuple[tuple[Right, float], ...]
    inner: Watch | None = None

    @classmethod
    def since(cls, start: Posterior, kept: list[Factor], floor: float, inner: Watch | None = None) -> Guard:
        """Accuracy on each set in `kept` may fall by at most `floor` from the start."""
        accuracies = [Right(f) for f in kept if len(f)]
        return cls(tuple((accuracy, accuracy(start) - floor) for accuracy in accuracies), inner)

    def __call__(self, posterior: Posterior) -> float | None:
        if any(accuracy(posterior) < least - 1e-9 for accuracy, least in self.kept):
            return None
        return 0.0 if self.inner is None else self.inner(posterior)


def follow(
    path: Iterator[Posterior],
    watch: Watch | None = None,
    *,
    patience: int = PATIENCE,
    progress: Callable[[int], None] | None = None,
) -> Posterior:
    """The last item of the path; under a watch the best item, and among equals the latest.

    Under a watch it stops after `patience` items that are worse, as the path may diverge, and ignores a NonFinite
    that such a path raises.
    """
    chosen = next(path)
    best = watch(chosen) if watch else None
    waited = 0
    try:
        for i, item in enumerate(path):
            if progress:
                progress(i)
            if watch is None:
                chosen = item
                continue
            value = watch(item)
            if value is not None and (best is None or value >= best):
                chosen, best, waited = item, value, 0
                continue
            waited += 1
            if waited >= patience:
                break
    except NonFinite:
        if not waited:
            raise
    return chosen


def harmless(ways: Sequence[Callable[[], Posterior]], trained_on: Factor, log_p: Tensor | None = None) -> Posterior:
    """The end of the first way that leaves the model's log-likelihood of its training examples no lower than before.
    Steps that are too long make a model forget what it knew, so each way has shorter steps than the one before. If none
    succeeds, the end with the highest likelihood. `log_p` of each example before the edit may be given if it is
    known."""
    if len(ways) == 1:
        return ways[0]()
    before = float((trained_on.per_example(trained_on.network.params) if log_p is None else log_p).mean())
    held_out, highest, chosen, failed = HeldOut(trained_on), -inf, None, None
    for way in ways:
        try:
            end = way()
        except NonFinite as e:
            failed = e
            continue
        value = cast("float", held_out(end))
        if value <= highest and highest > -inf:
            break
        highest, chosen = value, end
        if value >= before:
            break
    if chosen is None:
        raise cast("NonFinite", failed)
    return chosen
