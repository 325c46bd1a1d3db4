"""How linear influence and Newton removal invert the curvature: `linear(solver=cg())`.

`damping` is relative to the mean of the curvature's diagonal and added in every direction; with None it
comes from the data: from how far θ̂ is from an optimum (`Damped`). The curvature is that of the model's
own predictions (the GGN) unless another kind is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, cast

from amends.curvature import CG, EKFAC, GD, Damped, Dense, Diagonal, Kind, Kronecker, LiSSA
from amends.errors import BadInput
from amends.methods.base import EXACT
from amends.posteriors import Curvature

FACTORED = 50.0  # nats: factors already miss what goes on between layers, and a weaker damping ranks better


def checked(solver: Any, default: Callable[[], Curvature]) -> Curvature:
    """The solver, or the default where none is given."""
    if solver is None:
        return default()
    if not callable(solver) or isfunction(solver) or isinstance(solver, type):
        raise BadInput(f"solver is {solver!r}; pass an object, for example amends.methods.cg()")
    return cast("Curvature", solver)


def gd(damping: float | None = None, tolerance: float = 1e-3, steps: int = 2000, kind: Kind = EXACT) -> Curvature:
    """Gradient descent on ½ vᵀPv − gᵀv, the paper's first approximation."""
    return Damped(GD(kind, tolerance=tolerance, steps=steps), damping)


def sa(
    damping: float | None = None,
    tolerance: float = 0.05,
    steps: int = 20_000,
    batch: int = 64,
    seed: int = 0,
    kind: Kind = EXACT,
) -> Curvature:
    """Stochastic approximation (LiSSA), the paper's second, with its scale measured."""
    return Damped(LiSSA(kind, tolerance=tolerance, steps=steps, batch=batch, seed=seed), damping)


def cg(damping: float | None = None, tolerance: float = 1e-3, steps: int = 500, kind: Kind = EXACT) -> Curvature:
    """Conjugate gradients: the same solution as `gd`, in far fewer passes."""
    return Damped(CG(kind, tolerance=tolerance, steps=steps), damping)


def diagonal(damping: float | None = 0.1, kind: Kind = EXACT) -> Curvature:
    """The diagonal alone."""
    return Damped(Diagonal(kind), damping)


def kronecker(damping: float | None = None, kind: Kind = EXACT) -> Curvature:
    """A ⊗ G for each layer (K-FAC)."""
    return Damped(Kronecker(kind), damping, FACTORED)


def ekfac(damping: float | None = None, kind: Kind = EXACT) -> Curvature:
    """K-FAC's directions, with the curvature measured along each."""
    return Damped(EKFAC(kind), damping, FACTORED)


def dense(damping: float | None = None, kind: Kind = EXACT) -> Curvature:
    """The whole matrix, for models of up to 20,000 parameters."""
    return Damped(Dense(kind), damping)
