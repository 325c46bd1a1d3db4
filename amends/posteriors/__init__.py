"""What a network remembers: distributions over its parameters. Evidence comes in, the terms to climb go out."""

from amends.posteriors.anchored import Anchored
from amends.posteriors.base import Curvature, Posterior, Precision
from amends.posteriors.ensemble import Ensemble
from amends.posteriors.expected import Expected
from amends.posteriors.gaussian import Gaussian, Quadratic
from amends.posteriors.meanfield import Divergence, MeanField
from amends.posteriors.orthogonal import Orthogonal
from amends.posteriors.point import Point

__all__ = [
    "Anchored", "Curvature", "Divergence", "Ensemble", "Expected", "Gaussian", "MeanField", "Orthogonal", "Point",
    "Posterior", "Precision", "Quadratic",
]  # fmt: skip
