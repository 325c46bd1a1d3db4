"""Linear influence: what an infinitely small edit does to each example, for any curvature or none."""

from __future__ import annotations

from amends.curvature import Damped, Diagonal, Empirical, Isotropic
from amends.editors import Tangent
from amends.methods.base import Method
from amends.methods.solvers import cg, checked
from amends.posteriors import Curvature
from amends.remember import Laplace


def linear(solver: Curvature | None = None, gamma: float | None = None) -> Method:
    """Linear influence (Koh & Liang 2017) with any solver, `cg()` unless told. γ scales every score alike; None is
    1/N, which at an optimum is what leaving z out does to log p(F), to first order."""
    return Method(Laplace(checked(solver, cg)), Tangent(gamma))


def grad_dot() -> Method:
    """−∇log p(F)·∇log p(z): linear influence without curvature."""
    return Method(Laplace(Isotropic()), Tangent())


def fisher_kernel(damping: float = 0.1) -> Method:
    """−Σ over failures of the Fisher kernel ∇log p(f)ᵀ F̂⁻¹ ∇log p(z), with the diagonal of the
    empirical Fisher (Khanna et al. 2019)."""
    return Method(Laplace(Damped(Diagonal(Empirical()), damping)), Tangent(gamma=1.0))  # F̂ itself, not N·F̂
