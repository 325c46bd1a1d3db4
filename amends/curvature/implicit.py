"""Curvature never formed: products by Jacobians, and conjugate gradients to solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from amends.curvature.diagonal import diagonal
from amends.curvature.kinds import GGN, Kind, Sampled
from amends.errors import NotConverged
from amends.factor import Factor
from amends.network import transformable
from amends.params import Params, dot, flatten, plus, scaled, unflatten, zeros_like


@dataclass(frozen=True, eq=False)
class ImplicitPrecision:
    """v ↦ Σᵢ wᵢ JᵢᵀHᵢJᵢ v + λv, each part where it was measured.

    When λ is 0, `solve` adds `damping` times the mean of the diagonal to every direction: without
    the matrix there is no telling which of them the data is silent about.
    """

    parts: tuple[tuple[Factor, Params, float], ...]
    kind: Kind
    prior: float
    damping: float
    tolerance: float
    steps: int

    def __matmul__(self, vector: Params) -> Params:
        total = scaled(vector, self.prior)
        for factor, theta, sign in self.parts:
            total = plus(total, _product(factor, theta, self.kind, vector), sign)
        return total

    @cached_property
    def _diagonal(self) -> Params:
        """An estimate with sampled labels: for the damping and as preconditioner."""
        factor, theta, _ = self.parts[0]
        return diagonal(factor, theta, Sampled())

    @property
    def shift(self) -> float:
        return 0.0 if self.prior > 0 else self.damping * float(flatten(self._diagonal).mean())

    @property
    def flat(self) -> int:
        return int((flatten(self._diagonal) == 0).sum())

    def solve(self, vector: Params) -> Params:
        """(P + shift)⁻¹ v by preconditioned conjugate gradients."""
        lift = self.prior + self.shift
        scale = {k: d + max(lift, 1e-12) for k, d in self._diagonal.items()}
        found, residual = zeros_like(vector), vector
        start = dot(vector, vector) ** 0.5
        if start == 0:
            return found
        z = {k: residual[k] / scale[k] for k in scale}
        direction, rz = z, dot(residual, z)
        left = start
        for _ in range(self.steps):
            image = plus(self @ direction, direction, self.shift)
            step = rz / dot(direction, image)
            found, residual = plus(found, direction, step), plus(residual, image, -step)
            left = dot(residual, residual) ** 0.5
            if not left < float("inf"):
                break
            if left <= self.tolerance * start:
                return found
            z = {k: residual[k] / scale[k] for k in scale}
            rz, old = dot(residual, z), rz
            direction = plus(z, direction, rz / old)
        raise NotConverged(
            f"conjugate gradients stopped at {left / start:.1e} of the start, wanted {self.tolerance:.0e}; "
            f"after {self.steps} steps; raise the damping or the number of steps"
        )

    def draw(self, generator: Generator) -> Params:
        raise NotConverged("cannot draw from a precision that is never formed; CG; use Diagonal, Kronecker or Dense")

    def plus(self, other: ImplicitPrecision, sign: float) -> ImplicitPrecision:
        return replace(self, parts=(*self.parts, *((f, t, s * sign) for f, t, s in other.parts)))

    def dense(self) -> Tensor:
        like = self.parts[0][1]
        first = flatten(like)
        eye = torch.eye(len(first), dtype=first.dtype, device=first.device)
        return torch.stack([flatten(self @ unflatten(row, like)) for row in eye])


def _product(factor: Factor, theta: Params, kind: Kind, vector: Params) -> Params:
    """Jv as the derivative of u ↦ (Jᵀu)·v, so that J and Jᵀ are the same matrix for every layer
    (an embedding's backward pass skips its padding row; its forward derivative would not)."""
    network, probe = factor.network, kind.probe(factor)
    total = zeros_like(theta)
    for at, x, y, w in factor.tiles():
        with torch.enable_grad(), transformable():
            live = {k: v.detach().requires_grad_() for k, v in theta.items()}
            out = network.outputs(live, x)
            u = torch.zeros_like(out, requires_grad=True)
            pulled = torch.autograd.grad(out, list(live.values()), u, create_graph=True, materialize_grads=True)
            along = torch.stack([(p * vector[k]).sum() for k, p in zip(live, pulled, strict=True)]).sum()
            change = torch.autograd.grad(along, u, retain_graph=True)[0]
            if isinstance(kind, GGN):
                back = network.likelihood.metric(out.detach(), change)
            else:
                back = sum(v * (v * change).sum(-1, keepdim=True) for v in probe(out.detach(), y, at))
            parts = torch.autograd.grad(out, list(live.values()), back * w.abs()[:, None], materialize_grads=True)
        total = {k: t.add_(p) for (k, t), p in zip(total.items(), parts, strict=True)}
    return total


@dataclass(frozen=True)
class CG:
    """Matrix-free, for models of any size: each step is one pass over the data."""

    kind: Kind = GGN()  # noqa: RUF009 (frozen, without state)
    prior: float = 0.0
    damping: float = 100.0
    tolerance: float = 1e-3
    steps: int = 500

    def __call__(self, factor: Factor, theta: Params) -> ImplicitPrecision:
        whole = factor if bool((factor.weights > 0).all()) else replace(factor, weights=factor.weights.abs())
        return ImplicitPrecision(
            ((whole, theta, 1.0),), self.kind, self.prior, self.damping, self.tolerance, self.steps
        )
