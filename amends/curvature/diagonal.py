"""The diagonal of the curvature, exact per example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature.backprop import Call, Plan, general_grads, passes, plan
from amends.curvature.kinds import Kind, Measure, Probe
from amends.curvature.rules import squared
from amends.evidence.factor import Factor
from amends.evidence.params import Params, flatten, zeros_like


@dataclass(frozen=True, eq=False)
class DiagonalPrecision:
    """diag(Σᵢ wᵢ gᵢ²) + λ.

    Where λ is 0 and the data has no curvature, `solve` and `draw` use `damping` times the mean
    instead of zero; `flat` counts those coordinates.
    """

    data: Params
    prior: float = 0.0
    damping: float = 1e-3

    def __matmul__(self, vector: Params) -> Params:
        return {k: (d + self.prior) * vector[k] for k, d in self.data.items()}

    @cached_property
    def mean(self) -> float:
        """The mean of the diagonal, without λ."""
        return float(flatten(self.data).mean()) if self.data else 0.0

    @property
    def flat(self) -> int:
        return int(sum(silent.sum() for silent in self._silent.values()))

    @property
    def _silent(self) -> Params:
        """A mask of the coordinates where the data has no curvature, within rounding."""
        if not self.data:
            return {}
        tiny = torch.finfo(next(iter(self.data.values())).dtype).eps * self.mean
        return {k: d <= tiny for k, d in self.data.items()}

    @cached_property
    def _positive(self) -> Params:
        if self.prior > 0:
            return {k: d + self.prior for k, d in self.data.items()}
        silent, floor = self._silent, self.damping * self.mean or 1.0
        return {k: torch.where(silent[k], floor, d) for k, d in self.data.items()}

    def solve(self, vector: Params) -> Params:
        return {k: vector[k] / p for k, p in self._positive.items()}

    def draw(self, generator: Generator) -> Params:
        return {k: normal_like(p, generator) / p.sqrt() for k, p in self._positive.items()}

    def plus(self, other: DiagonalPrecision, sign: float) -> DiagonalPrecision:
        return replace(self, data={k: (d + sign * other.data[k]).clamp(min=0) for k, d in self.data.items()})

    def scaled(self, by: float) -> DiagonalPrecision:
        return replace(self, data={k: by * d for k, d in self.data.items()})

    def raised(self, by: float) -> DiagonalPrecision:
        return replace(self, prior=self.prior + by)

    def dense(self) -> Tensor:
        return torch.diag(flatten(self.data) + self.prior)


def normal_like(like: Tensor, generator: Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


@dataclass(frozen=True)
class Diagonal(Measure):
    """Measures the diagonal: per-example gradients are squared, then summed."""

    def __call__(self, factor: Factor, theta: Params) -> DiagonalPrecision:
        return DiagonalPrecision(diagonal(factor, theta, self.kind), self.prior, self.damping)


def diagonal(factor: Factor, theta: Params, kind: Kind, layout: Plan | None = None) -> Params:
    """Σᵢ |wᵢ| Σᵣ (Jᵢᵀuᵢᵣ)², parameter by parameter; only for those in `layout`, if it is given."""
    if not len(factor):
        return zeros_like(theta)
    known, probe = layout or plan(factor, theta), kind.probe(factor)
    return factor.sum(lambda part: _of_shard(part, theta, probe, known))


def _of_shard(part: Factor, theta: Params, probe: Probe, layout: Plan) -> Params:
    total = zeros_like(theta)
    for x, run, _, vectors in passes(part, theta, probe, layout.layers):
        uses, shared = run.uses, {}

        def receive(call: Call, g: Tensor, uses=uses, shared=shared) -> None:
            """Squares at once if each parameter is used once; otherwise adds up the uses first."""
            owned = call.owned
            if all(uses[name] == 1 for name in owned.names.values()):
                for own, value in squared(owned.module, owned.rule, call.input, g).items():
                    if own in owned.names:
                        total[owned.names[own]] += value
                return
            for own, grad in owned.rule(owned.module, call.input, g).items():
                if own in owned.names:
                    shared[owned.names[own]] = shared.get(owned.names[own], 0) + grad

        for vector in vectors:
            if layout.layers:
                run.back(vector, receive)
            parts = general_grads(part.network, theta, x, vector, layout.general) if layout.general else {}
            for name, grad in {**shared, **parts}.items():
                total[name] += (grad**2).sum(0)
            shared.clear()
    return total
