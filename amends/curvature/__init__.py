"""Curvature of evidence at a point, in several shapes; each is a way to solve as well."""

from amends.curvature.dense import Dense
from amends.curvature.diagonal import Diagonal
from amends.curvature.implicit import CG
from amends.curvature.isotropic import Isotropic
from amends.curvature.kinds import GGN, Empirical, Kind, Sampled
from amends.curvature.kronecker import Kronecker

__all__ = ["CG", "GGN", "Dense", "Diagonal", "Empirical", "Isotropic", "Kind", "Kronecker", "Sampled"]
