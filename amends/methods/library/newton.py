"""Newton removal: one step away from the causes (Guo et al. 2020)."""

from __future__ import annotations

from amends.editors import Step
from amends.methods.base import Method
from amends.methods.solvers import cg, checked
from amends.posteriors import Curvature
from amends.remember import Laplace

SIZES = tuple(2.0**k for k in range(-4, 6))  # of γ, tried one after the other


def newton(solver: Curvature | None = None, gamma: float | None = None, line_search: bool = False) -> Method:
    """Newton removal (Guo et al. 2020) with the curvature of D∖C: one step of size γ, 1/|D∖C| when None, which
    is the Newton step of what is kept.

    With `line_search` the size is the one, from a sixteenth to 32 times γ, that the guard allows
    and that does most for the failures, where they are given."""
    return Method(Laplace(checked(solver, cg)), Step(gamma, SIZES if line_search else (1.0,)))
