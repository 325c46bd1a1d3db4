"""Curvature that is never formed: products by Jacobians, and a solver that needs only these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature.dense import formed
from amends.curvature.diagonal import diagonal
from amends.curvature.kinds import GGN, Kind, Probe, Sampled, by_row
from amends.errors import NotConverged
from amends.evidence.factor import Factor
from amends.evidence.network import transformable
from amends.evidence.params import Params, flatten, plus, scaled, zeros_like
from amends.likelihoods import asked


@dataclass(frozen=True, eq=False)
class ImplicitPrecision:
    """v ↦ Σᵢ wᵢ JᵢᵀHᵢJᵢ v + λv, each part at the point where it was measured.

    When λ is 0, `solve` adds `damping` times the mean of the diagonal in every direction: without the
    matrix, it is unknown which directions have no curvature.
    """

    parts: tuple[tuple[Factor, Params, float], ...]
    kind: Kind
    prior: float
    damping: float
    solver: Callable[[ImplicitPrecision, Params], Params]

    def __matmul__(self, vector: Params) -> Params:
        total = scaled(vector, self.prior)
        for factor, theta, sign in self.parts:
            total = plus(total, _product(factor, theta, self.kind, vector), sign)
        return total

    def lifted(self, vector: Params) -> Params:
        """The product with the matrix that `solve` inverts."""
        return plus(self @ vector, vector, self.shift)

    @cached_property
    def diagonal(self) -> Params:
        """An estimate with sampled labels, for the preconditioner; after edits, still that of the start."""
        factor, theta, sign = self.parts[0]
        return scaled(diagonal(factor, theta, Sampled()), sign)

    @cached_property
    def mean(self) -> float:
        """The mean of the diagonal, without λ: exact, with one backward pass per output, as for other precisions."""
        means = (sign * float(flatten(diagonal(f, theta, self.kind)).mean()) for f, theta, sign in self.parts)
        return max(0.0, sum(means))

    @cached_property
    def shift(self) -> float:
        return 0.0 if self.prior > 0 else self.damping * self.mean

    @property
    def lift(self) -> float:
        """The least curvature `solve` sees in any direction."""
        return self.prior + self.shift

    @property
    def flat(self) -> int:
        return int((flatten(self.diagonal) == 0).sum())

    def solve(self, vector: Params) -> Params:
        """(P + shift)⁻¹ v, or NotConverged."""
        return self.solver(self, vector)

    def sampled(self, batch: int, noise: Generator) -> ImplicitPrecision:
        """The precision on random batches, each scaled up to represent its part, with the damping of the whole."""
        parts = tuple((_some(factor, batch, noise), theta, sign) for factor, theta, sign in self.parts)
        return replace(self, parts=parts, prior=self.lift, damping=0.0)

    def draw(self, generator: Generator) -> Params:
        raise NotConverged("a precision that is never formed cannot be drawn from; use Diagonal, Kronecker or Dense")

    def plus(self, other: ImplicitPrecision, sign: float) -> ImplicitPrecision:
        return replace(self, parts=(*self.parts, *((f, t, s * sign) for f, t, s in other.parts)))

    def scaled(self, by: float) -> ImplicitPrecision:
        return replace(self, parts=tuple((f, t, s * by) for f, t, s in self.parts))

    def raised(self, by: float) -> ImplicitPrecision:
        return replace(self, prior=self.prior + by)

    def dense(self) -> Tensor:
        return formed(self.__matmul__, self.parts[0][1])


def _some(factor: Factor, batch: int, noise: Generator) -> Factor:
    if len(factor) <= batch:
        return factor
    part = factor[torch.randperm(len(factor), generator=noise)[:batch].numpy()]
    return replace(part, weights=part.weights * (len(factor) / len(part)))


def _product(factor: Factor, theta: Params, kind: Kind, vector: Params) -> Params:
    probe = kind.probe(factor)
    return factor.sum(lambda part: _of_shard(part, theta, kind, probe, vector))


def _of_shard(part: Factor, theta: Params, kind: Kind, probe: Probe, vector: Params) -> Params:
    """Jv as the derivative of u ↦ (Jᵀu)·v, so that J and Jᵀ are the same matrix for every layer
    (an embedding's backward pass skips its padding row; its forward derivative would not)."""
    network = part.network
    total = zeros_like(theta)
    for at, x, y, w in part.tiles():
        with torch.enable_grad(), transformable():
            live = {k: v.detach().requires_grad_() for k, v in theta.items()}
            out = network.outputs(live, x)
            u = torch.zeros_like(out, requires_grad=True)
            pulled = torch.autograd.grad(out, list(live.values()), u, create_graph=True, materialize_grads=True)
            along = torch.stack([(p * vector[k]).sum() for k, p in zip(live, pulled, strict=True)]).sum()
            change = torch.autograd.grad(along, u, retain_graph=True)[0]
            if isinstance(kind, GGN):
                back = asked(network.likelihood, y).metric(out.detach(), change)
            else:
                rows = (by_row(v, (v * change).flatten(1).sum(1)) for v in probe(out.detach(), y, at))
                back = sum(rows, torch.zeros_like(change))
            parts = torch.autograd.grad(out, list(live.values()), by_row(back, w.abs()), materialize_grads=True)
        total = {k: t.add_(p) for (k, t), p in zip(total.items(), parts, strict=True)}
    return total
