"""How linear influence and Newton removal invert the curvature: `linear(solver=cg())`.

`damping` is relative to the mean of the curvature's diagonal and added in every direction; the
curvature is that of the model's own predictions (the GGN) unless another kind is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, cast

from amends.curvature import CG, EKFAC, GD, Damped, Dense, Diagonal, Kind, Kronecker, LiSSA
from amends.errors import BadInput
from amends.methods.base import EXACT
from amends.posteriors import Curvature


def checked(solver: Any, default: Callable[[], Curvature]) -> Curvature:
    """The solver, or the default where none is given."""
    if solver is None:
        return default()
    if not callable(solver) or isfunction(solver) or isinstance(solver, type):
        raise BadInput(f"solver is {solver!r}; pass an object, for example amends.methods.cg()")
    return cast("Curvature", solver)


def gd(damping: float = 100.0, tolerance: float = 1e-3, steps: int = 2000, kind: Kind = EXACT) -> Curvature:
    """Gradient descent on ½ vᵀPv − gᵀv, the paper's first approximation."""
    return GD(kind, damping=damping, tolerance=tolerance, steps=steps)


def sa(
    damping: float = 100.0,
    tolerance: float = 0.05,
    steps: int = 20_000,
    batch: int = 64,
    seed: int = 0,
    kind: Kind = EXACT,
) -> Curvature:
    """Stochastic approximation (LiSSA), the paper's second, with its scale measured."""
    return LiSSA(kind, damping=damping, tolerance=tolerance, steps=steps, batch=batch, seed=seed)


def cg(damping: float = 100.0, tolerance: float = 1e-3, steps: int = 500, kind: Kind = EXACT) -> Curvature:
    """Conjugate gradients: the same solution as `gd`, in far fewer passes."""
    return CG(kind, damping=damping, tolerance=tolerance, steps=steps)


def diagonal(damping: float = 0.1, kind: Kind = EXACT) -> Curvature:
    """The diagonal alone."""
    return Damped(Diagonal(kind), damping)


def kronecker(damping: float = 10.0, kind: Kind = EXACT) -> Curvature:
    """A ⊗ G for each layer (K-FAC)."""
    return Damped(Kronecker(kind), damping)


def ekfac(damping: float = 10.0, kind: Kind = EXACT) -> Curvature:
    """K-FAC's directions, with the curvature measured along each."""
    return Damped(EKFAC(kind), damping)


def dense(damping: float = 100.0, kind: Kind = EXACT) -> Curvature:
    """The whole matrix, for models of up to 20,000 parameters."""
    return Damped(Dense(kind), damping)
