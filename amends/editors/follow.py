"""Take the end of an editor's path, or its best point under a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, cast

from torch import Tensor

from amends.errors import NonFinite
from amends.evidence.factor import Factor
from amends.posteriors import Posterior

PATIENCE = 20  # items of a path that may be worse before it is left


class Watch(Protocol):
    """How good a posterior is; higher is better, and None means that it must not be taken."""

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
    """What must not fall: each accuracy in `kept` must be at least its bound.

    Within that, the best under `inner`; without one, the furthest along the path.
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

    Under a watch it stops after `patience` items that are worse, so that it leaves a path that runs away,
    and ignores a NonFinite that such a path raises.
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
    """Where the first of these ways ends at which what the model trained on is believed no less than before. Steps that
    are too long for a model make it forget what it knew, so each way has shorter ones. Where these do not help either,
    the end at which most is believed. What it believed before, `log_p` of each example, may be known."""
    if len(ways) == 1:
        return ways[0]()
    before = float((trained_on.per_example(trained_on.network.params) if log_p is None else log_p).mean())
    believed, most, chosen, failed = HeldOut(trained_on), -inf, None, None
    for way in ways:
        try:
            end = way()
        except NonFinite as e:
            failed = e
            continue
        now = cast("float", believed(end))
        if now <= most and most > -inf:
            break
        most, chosen = now, end
        if now >= before:
            break
    if chosen is None:
        raise cast("NonFinite", failed)
    return chosen
