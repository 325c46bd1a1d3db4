"""Take the end of an editor's path, or the best of it under a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from amends.errors import NonFinite
from amends.evidence.factor import Factor
from amends.posteriors import Posterior


class Watch(Protocol):
    """How good a posterior is; higher is better, and None means it must not be taken."""

    def __call__(self, posterior: Posterior) -> float | None: ...


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Mean log-likelihood of evidence the editor was not shown."""

    evidence: Factor

    def __call__(self, posterior: Posterior) -> float | None:
        return float(posterior.rows(self.evidence.per_example).mean())


@dataclass(frozen=True, eq=False)
class Right:
    """Share of the evidence that is predicted right."""

    evidence: Factor

    def __call__(self, posterior: Posterior) -> float:
        network, theta = self.evidence.network, posterior.mean
        return float(
            self.evidence.map(lambda x, y: network.likelihood.right(network.outputs(theta, x), y)).double().mean()
        )


@dataclass(frozen=True, eq=False)
class Guard:
    """What must not fall: each share in `kept` stays at or above its least.

    Within that, the best under `inner`; without one, the furthest along the path.
    """

    kept: tuple[tuple[Right, float], ...]
    inner: Watch | None = None

    @classmethod
    def since(cls, start: Posterior, kept: list[Factor], floor: float, inner: Watch | None = None) -> Guard:
        """Nothing in `kept` may lose more than `floor` of what is right at the start."""
        shares = [Right(f) for f in kept if len(f)]
        return cls(tuple((share, share(start) - floor) for share in shares), inner)

    def __call__(self, posterior: Posterior) -> float | None:
        if any(share(posterior) < least - 1e-9 for share, least in self.kept):
            return None
        return 0.0 if self.inner is None else self.inner(posterior)


def follow(
    path: Iterator[Posterior],
    watch: Watch | None = None,
    *,
    patience: int = 20,
    progress: Callable[[int], None] | None = None,
) -> Posterior:
    """The last item; under a watch the best, the latest among equals.

    Stops after `patience` items without one as good, so that a path that runs away is left; should
    it reach infinity before that, it is left there.
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
