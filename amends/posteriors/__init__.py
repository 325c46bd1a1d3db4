"""What a network remembers: distributions over its parameters that evidence can be put into."""

from amends.posteriors.anchored import Anchored
from amends.posteriors.base import Curvature, Posterior, Precision
from amends.posteriors.gaussian import Gaussian, Quadratic
from amends.posteriors.point import Point

__all__ = ["Anchored", "Curvature", "Gaussian", "Point", "Posterior", "Precision", "Quadratic"]
