"""Curvature: a factor and a point come in; a precision to multiply, solve and draw with goes out."""

from amends.curvature.backprop import general_grads
from amends.curvature.damped import Damped
from amends.curvature.dense import Dense
from amends.curvature.diagonal import Diagonal, DiagonalPrecision
from amends.curvature.isotropic import Isotropic
from amends.curvature.kinds import GGN, Empirical, Kind, Sampled
from amends.curvature.kronecker import EKFAC, Kronecker
from amends.curvature.once import Once
from amends.curvature.part import Part
from amends.curvature.scaled import Scaled
from amends.curvature.solvers import CG, GD, LiSSA

__all__ = [
    "CG", "EKFAC", "GD", "GGN", "Damped", "Dense", "Diagonal", "DiagonalPrecision", "Empirical", "Isotropic", "Kind",
    "Kronecker", "LiSSA", "Once", "Part", "Sampled", "Scaled", "general_grads",
]  # fmt: skip
