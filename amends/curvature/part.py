"""Curvature estimated from a random part of the data, if all of it would cost too much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from amends.evidence.factor import Factor
from amends.evidence.params import Params
from amends.posteriors import Curvature, Precision


@dataclass(frozen=True)
class Part:
    """Measured on at most `most` examples, drawn at random and scaled up to represent all."""

    inner: Curvature
    most: int
    seed: int = 0

    def __call__(self, factor: Factor, theta: Params) -> Precision:
        if len(factor) <= self.most:
            return self.inner(factor, theta)
        drawn = np.random.default_rng([self.seed, 29]).permutation(len(factor))[: self.most]
        part = factor[np.sort(drawn)]
        weight = float(factor.weights.abs().sum() / part.weights.abs().sum())
        return self.inner(replace(part, weights=weight * part.weights), theta)
