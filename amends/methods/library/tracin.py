"""Gradient products summed over checkpoints of the training run (Pruthi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from amends.errors import BadInput
from amends.evidence import Factor, Params, derivative
from amends.methods.base import Scorer
from amends.trace import Trace


@dataclass(frozen=True, eq=False)
class TracIn:
    """TracInCP: −Σ_c η_c ∇log p(F|θ_c)·∇log p(z|θ_c); positive is harmful.

    What steps on z lost the failures, to first order. Checkpoints are state dicts, of which the
    trainable parameters are taken, with a rate each (1 when None); or a trace, of which the starts
    of its epochs are taken, at most `most` of them, and its end; or the trained model alone, at
    rate 1.
    """

    checkpoints: Trace | Sequence[Mapping[str, Tensor]] | None = None
    rates: Sequence[float] | None = None
    most: int = 10

    def __call__(self, train: Factor, failures: Factor) -> Tensor:
        scores = torch.zeros(len(train), dtype=torch.float64)
        for theta, rate in self._chosen(train):
            toward = failures.value_and_grad(theta)[1]
            _, change = derivative(train.per_example, theta, toward)
            scores -= rate * change.to("cpu", torch.float64)
        return scores

    def _chosen(self, train: Factor) -> Iterator[tuple[Params, float]]:
        network, given = train.network, self.checkpoints
        if self.rates is not None and (given is None or isinstance(given, Trace)):
            raise BadInput("tracin got rates without state dicts; leave rates out, since a trace has its own")
        if given is None:
            yield network.params, 1.0
        elif isinstance(given, Trace):
            given.check(train)
            for step in (given.steps[i] for i in self._starts(given, len(train))):
                yield network.weights(step.theta, "trace"), step.rate
            yield network.weights(given.end, "trace"), given.steps[-1].rate
        else:
            rates = [1.0] * len(given) if self.rates is None else self.rates
            if not given or len(rates) != len(given):
                raise BadInput(f"tracin got {len(given)} checkpoints and {len(rates)} rates; pass one rate for each")
            found = [network.weights(theta, f"checkpoints[{i}]") for i, theta in enumerate(given)]
            yield from zip(found, map(float, rates), strict=True)

    def _starts(self, trace: Trace, n: int) -> list[int]:
        """The first step of each epoch, thinned evenly to `most`."""
        epoch = max(1, round(n * len(trace.steps) / sum(len(s.positions) for s in trace.steps)))
        starts = np.arange(0, len(trace.steps), epoch)
        kept = np.linspace(0, len(starts) - 1, min(self.most, len(starts)))
        return starts[kept.round().astype(int)].tolist()


def tracin(
    checkpoints: Trace | Sequence[Mapping[str, Tensor]] | None = None, rates: Sequence[float] | None = None
) -> Scorer:
    """Gradient products summed over checkpoints (Pruthi et al. 2020); without any, over the model alone."""
    return TracIn(checkpoints, rates)
