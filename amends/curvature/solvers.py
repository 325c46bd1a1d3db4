"""Ways to solve with a curvature that is never formed. Each converges to its tolerance or raises NotConverged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from amends.curvature.implicit import ImplicitPrecision
from amends.curvature.kinds import GGN, Kind, Measure
from amends.errors import NotConverged, at_least
from amends.evidence.factor import Factor
from amends.evidence.params import Params, dot, flatten, plus, scaled, unflatten, zeros_like

KEPT = 2**30  # bytes of earlier residuals that conjugate gradients keep; the first matter most


def norm(vector: Params) -> float:
    return dot(vector, vector) ** 0.5


def largest(precision: ImplicitPrecision, steps: int = 12) -> float:
    """The largest eigenvalue, slightly underestimated, by power iteration from the direction of the diagonal."""
    v, value = precision.diagonal, 0.0
    for _ in range(steps):
        size = norm(v)
        if not 0 < size < float("inf"):
            break
        v = precision.lifted(scaled(v, 1 / size))
        value = norm(v)
    return max(value, precision.lift)


@dataclass(frozen=True)
class Solver(Measure, ABC):
    """Iterates until the residual is `tolerance` of its start, for at most `steps` steps."""

    kind: Kind = GGN()  # noqa: RUF009 (frozen, without state)
    tolerance: float = 1e-3
    steps: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("solver", steps=(self.steps, 1))

    def __call__(self, factor: Factor, theta: Params) -> ImplicitPrecision:
        whole = factor if bool((factor.weights > 0).all()) else replace(factor, weights=factor.weights.abs())
        return ImplicitPrecision(((whole, theta, 1.0),), self.kind, self.prior, self.damping, self.solve)

    @abstractmethod
    def solve(self, precision: ImplicitPrecision, vector: Params) -> Params:
        """(P + shift)⁻¹ v, or NotConverged."""


@dataclass(frozen=True)
class CG(Solver):
    """Conjugate gradients, for models of any size; each step is one pass over the data.

    Without rounding every residual is orthogonal to all earlier ones. Rounding undoes that where a few directions have
    most of the curvature, as in a network that has memorised its labels: the steps double or never end, and another
    batch size gives other digits. So each residual is made orthogonal again to the first ones, as many as `KEPT` holds.
    """

    def solve(self, precision: ImplicitPrecision, vector: Params) -> Params:
        """In coordinates in which the diagonal is 1."""
        start = norm(vector)
        if start == 0:
            return zeros_like(vector)
        root = flatten({k: precision.diagonal[k] for k in vector}).add(max(precision.lift, 1e-12)).sqrt()
        residual = flatten(vector) / root
        direction, size = residual, residual @ residual
        solution, basis, left = torch.zeros_like(residual), [residual / size.sqrt()], start
        for _ in range(self.steps):
            image = flatten(precision.lifted(unflatten(direction / root, vector))) / root
            step = size / (direction @ image)
            solution, residual = solution + step * direction, _orthogonal(residual - step * image, basis)
            left = float((residual * root).norm())
            if not left < float("inf"):
                break
            if left <= self.tolerance * start:
                return unflatten(solution / root, vector)
            size, old = residual @ residual, size
            if (len(basis) + 1) * residual.nbytes <= KEPT:
                basis.append(residual / size.sqrt())
            direction = residual + (size / old) * direction
        raise _stopped("conjugate gradients", left / start, self.tolerance, self.steps)


def _orthogonal(vector: Tensor, basis: list[Tensor]) -> Tensor:
    """The part of it that is orthogonal to all of an orthonormal basis; twice, since once leaves the rounding of a
    vector that nearly lay in it."""
    for unit in basis * 2:
        vector = vector - (unit @ vector) * unit
    return vector


@dataclass(frozen=True)
class GD(Solver):
    """Gradient descent on ½ vᵀPv − gᵀv, the paper's first approximation, with the step 1/λ_max.

    Each step is one pass over the data, and about λ_max/λ_min of them are needed.
    """

    steps: int = 2000

    def solve(self, precision: ImplicitPrecision, vector: Params) -> Params:
        start = norm(vector)
        solution, residual = zeros_like(vector), vector
        if start == 0:
            return solution
        top = 1.05 * largest(precision)
        left = start
        for _ in range(self.steps):
            ahead = plus(solution, residual, 1 / top)
            image = plus(vector, precision.lifted(ahead), -1.0)
            now = norm(image)
            if not now <= 1.001 * left:  # λ_max was underestimated
                top *= 2
                continue
            solution, residual, left = ahead, image, now
            if left <= self.tolerance * start:
                return solution
        raise _stopped("gradient descent", left / start, self.tolerance, self.steps)


@dataclass(frozen=True)
class LiSSA(Solver):
    """v ← g + v − P_b v / s on random batches b, whose mean tends to s P⁻¹ g (Agarwal et al. 2016).

    The scale s must exceed the largest curvature of every batch, or the recursion diverges. It is
    measured, and doubled whenever an iterate is larger than a converging recursion can get. The mean of
    the later half of the iterates is returned once its residual over all data is below `tolerance`,
    which is checked whenever the number of steps has doubled.
    """

    tolerance: float = 0.05
    steps: int = 20_000
    batch: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("solver", batch=(self.batch, 1))

    def solve(self, precision: ImplicitPrecision, vector: Params) -> Params:
        start = norm(vector)
        if start == 0:
            return zeros_like(vector)
        noise = torch.Generator().manual_seed(self.seed)
        probes = [precision.sampled(self.batch, noise) for _ in range(4)]
        scale = 1.1 * max(largest(p, 5) for p in (precision, *probes))
        left = float("inf")
        for _ in range(6):  # scales to try
            solution, left = self._recursion(precision, vector, scale, noise)
            if solution is not None:
                return solution
            if left < float("inf"):
                break
            scale *= 2
        raise _stopped("LiSSA", left, self.tolerance, self.steps)

    def _recursion(
        self, precision: ImplicitPrecision, vector: Params, scale: float, noise: torch.Generator
    ) -> tuple[Params | None, float]:
        """The solution if it converged, and its residual, which is infinite if it diverged."""
        start = norm(vector)
        ball = 2 * start * scale / precision.lift if precision.lift > 0 else float("inf")
        v, mean, look, left = vector, zeros_like(vector), 64, 1.0
        for t in range(1, self.steps + 1):
            v = plus(plus(vector, v), precision.sampled(self.batch, noise).lifted(v), -1 / scale)
            seen = t - look // 2
            if seen > 0:
                mean = plus(scaled(mean, 1 - 1 / seen), v, 1 / seen)
            if t % 16 == 0 and not norm(v) <= ball:
                return None, float("inf")
            if t in (look, self.steps):
                solution = scaled(mean, 1 / scale)
                left = norm(plus(vector, precision.lifted(solution), -1.0)) / start
                if not left < 1e3:
                    return None, float("inf")
                if left <= self.tolerance:
                    return solution, left
                look, mean = 2 * look, zeros_like(vector)
        return None, left


def _stopped(what: str, left: float, tolerance: float, steps: int) -> NotConverged:
    return NotConverged(
        f"{what} did not converge in {steps} steps: the residual is {left:.1e} of its start, above {tolerance:.0e}; "
        "raise the damping or the number of steps"
    )
