"""Curvature that several methods share, measured once."""

from __future__ import annotations

from dataclasses import dataclass, field

from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.posteriors import Curvature, Precision


@dataclass(eq=False)
class Once:
    """Keeps the first measurement, and returns it again for the same evidence at the same point."""

    inner: Curvature
    _kept: list[tuple[Factor, Params, Precision]] = field(default_factory=list)

    def __call__(self, factor: Factor, theta: Params) -> Precision:
        for kept_factor, kept_theta, precision in self._kept:
            if kept_factor is factor and kept_theta is theta:
                return precision
        precision = self.inner(factor, theta)
        if not self._kept:
            self._kept.append((factor, theta, precision))
        return precision
